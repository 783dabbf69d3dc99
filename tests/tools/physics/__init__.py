"""Models of particles, cloth, solids and contacts; rollouts of them; finite elements by NumPy."""
