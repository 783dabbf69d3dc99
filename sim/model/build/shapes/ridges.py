"""Edges of closed surfaces of triangles that others can meet: those along which a surface is bent outward."""

from __future__ import annotations

import numpy as np

FLAT = 1e-6
"""Sine of the angle between triangles that are one face."""


def ridges_of(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Of vertices (n, 3) and triangles (m, 3) that look outward: both ends of each such edge, and the third corners of
    the triangles left and right of it, (e, 4) int32.  Which edges these are no scale changes."""
    third: dict[tuple[int, int], int] = {}
    for a, b, c in triangles.tolist():
        third |= {(a, b): c, (b, c): a, (c, a): b}
    both = [(a, b, left, third[b, a]) for (a, b), left in third.items() if a < b and (b, a) in third]
    edges = np.array(both, np.int32).reshape(-1, 4)
    p, q, left, right = (vertices[edges[:, j]] for j in range(4))
    normal = np.cross(q - p, left - p)
    height = np.einsum("ij,ij->i", normal, right - p)
    size = np.linalg.norm(normal, axis=1) * np.linalg.norm(right - p, axis=1)
    return edges[height < -FLAT * size]
