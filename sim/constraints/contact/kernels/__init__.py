"""What kernels of contacts read and write, and which contacts a launch goes over."""
