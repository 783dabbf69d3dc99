"""IR to CUDA C++ and its machine code."""
