"""Adjoints of kernels: small kernels, and their derivatives against differences."""
