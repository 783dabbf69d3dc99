"""Constraints that are solved together instead of one by one: a block LU factorisation in an order without fill."""
