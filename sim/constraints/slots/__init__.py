"""What a point of a constraint may be: a particle, a point or a frame of a body, a constant place in the world."""
