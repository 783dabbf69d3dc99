"""Impulses of contacts: the velocities that they leave, and the energy that they add."""
