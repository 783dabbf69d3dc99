"""Gradients of programs on a tape, by each back end, against differences."""
