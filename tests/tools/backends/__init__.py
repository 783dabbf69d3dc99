"""Hand-built kernels and operands for the back ends."""
