"""Contacts whose C is a formula: of points, triangles and edges, and of what has a simple form."""
