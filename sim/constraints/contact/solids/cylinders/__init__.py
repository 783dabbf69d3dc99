"""Contact of cylinders with what has edges: boxes, meshes, capsules and each other."""
