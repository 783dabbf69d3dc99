"""From a program to its derivative: reverse and forward mode, in IR."""
