"""CUDA without a GPU: kernels as the tape launches them, run on the CPU, or read as machine code."""
