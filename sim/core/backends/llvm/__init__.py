"""IR to machine code of the CPU."""
