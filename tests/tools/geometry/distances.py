"""Distances of points and triangles, and of edges, by NumPy: the least over all of their parts."""

from __future__ import annotations

import numpy as np


def to_segment(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Distance of a point from a segment."""
    along = b - a
    return float(np.linalg.norm(p - a - np.clip((p - a) @ along / (along @ along), 0, 1) * along))


def point_triangle_distance(x: np.ndarray, side: float = 0.0) -> float:
    """Of x[0] from the triangle of the others (4, 3); signed over the triangle, with the sign of `side` if given."""
    p, corners = x[0], x[1:]
    n = np.cross(x[2] - x[1], x[3] - x[1])
    n /= np.linalg.norm(n)
    height = (p - x[1]) @ n
    below = p - height * n
    if all(np.cross(corners[k - 2] - corners[k], below - corners[k]) @ n > 0 for k in range(3)):
        return float(height * np.sign(side)) if side else abs(float(height))
    return min(to_segment(p, corners[k], corners[k - 1]) for k in range(3))


def edge_edge_distance(x: np.ndarray, side: float = 0.0) -> float:
    """Of x[0] x[1] from x[2] x[3]; signed where their lines cross inside of both, with the sign of `side` if given."""
    d1, d2 = x[1] - x[0], x[3] - x[2]
    n = np.cross(d1, d2)
    s, t, _ = np.linalg.solve(np.stack([d1, -d2, -n], axis=1), x[2] - x[0])
    if 0 < s < 1 and 0 < t < 1:
        apart = float((x[0] - x[2]) @ n / np.linalg.norm(n))
        return float(apart * np.sign(side)) if side else abs(apart)
    ends = (x[0], x[2], x[3]), (x[1], x[2], x[3]), (x[2], x[0], x[1]), (x[3], x[0], x[1])
    return min(to_segment(*end) for end in ends)
