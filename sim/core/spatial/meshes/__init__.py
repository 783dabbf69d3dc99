"""Triangle meshes that kernels ask: closest points, rays, overlaps, inside or outside, all with gradients."""
