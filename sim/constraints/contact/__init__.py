"""Contact: what keeps points apart, Coulomb friction, and restitution at the time of impact."""
