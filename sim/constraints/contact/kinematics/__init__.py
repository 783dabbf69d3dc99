"""Where contacts touch, and how that moves: normals, gaps, slips, and rows of velocities."""
