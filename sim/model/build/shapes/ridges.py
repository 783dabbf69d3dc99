"""Edges of closed surfaces of triangles: those along which a surface is bent outward, and what is beside a triangle."""

from __future__ import annotations

import numpy as np

FLAT = 1e-6
"""Sine of the angle between triangles that are one face."""


def _third_corners(triangles: np.ndarray) -> dict[tuple[int, int], int]:
    """The third corner of the triangle left of an edge."""
    third: dict[tuple[int, int], int] = {}
    for a, b, c in triangles.tolist():
        third |= {(a, b): c, (b, c): a, (c, a): b}
    return third


def beside_of(triangles: np.ndarray) -> np.ndarray:
    """The third corners of the triangles beside each one, across from its corners, (m, 3) int32; where there is none,
    its own."""
    third = _third_corners(triangles)
    rows = [[third.get((c, b), a), third.get((a, c), b), third.get((b, a), c)] for a, b, c in triangles.tolist()]
    return np.array(rows, np.int32).reshape(-1, 3)


def ridges_of(vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Of vertices (n, 3) and triangles (m, 3) that look outward: both ends of each such edge, and the third corners of
    the triangles left and right of it, (e, 4) int32.  Which edges these are no scale changes."""
    third = _third_corners(triangles)
    both = [(a, b, left, third[b, a]) for (a, b), left in third.items() if a < b and (b, a) in third]
    edges = np.array(both, np.int32).reshape(-1, 4)
    p, q, left, right = (vertices[edges[:, j]] for j in range(4))
    normal = np.cross(q - p, left - p)
    height = np.einsum("ij,ij->i", normal, right - p)
    size = np.linalg.norm(normal, axis=1) * np.linalg.norm(right - p, axis=1)
    return edges[height < -FLAT * size]
