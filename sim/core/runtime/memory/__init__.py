"""Blocks of memory, and how other libraries see them."""
