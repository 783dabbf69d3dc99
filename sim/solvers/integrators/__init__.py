"""How a step begins and ends, and from which velocities the first one goes."""
