"""What contacts answer with: Coulomb's friction, restitution, and the energy that impulses may have."""
