"""Allocations and views of them, and how host data and other libraries meet them."""
