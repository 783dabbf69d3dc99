"""Joints between bodies, a file each: rows of C over two points or two frames, the parent's first."""
