"""In which order constraints are projected, and the tiles of points that it goes by."""
