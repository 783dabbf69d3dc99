"""Distances, rays and winding numbers by going over everything in NumPy."""
