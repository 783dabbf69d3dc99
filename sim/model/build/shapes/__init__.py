"""Shapes of bodies and of the world: what they are made of, and the mass that they give to bodies."""
