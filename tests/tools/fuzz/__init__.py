"""Random kernels, programs, files and scenes, each from a seed."""
