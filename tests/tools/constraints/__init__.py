"""Constraints on random states, and their values and projections by NumPy."""
