"""Identification: parameters and their transforms, losses, the problem, and the loop that searches."""
