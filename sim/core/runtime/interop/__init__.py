"""PyTorch, JAX, and helpers in Warp's names."""
