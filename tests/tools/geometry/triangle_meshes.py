"""Meshes for tests, and what queries of them should answer, by going over all faces in double precision."""

from __future__ import annotations

import numpy as np

import sim


def bumpy_sphere(n: int, noise: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A closed surface around the origin, seen counterclockwise from outside: points and faces."""
    theta, phi = np.meshgrid(np.linspace(0, np.pi, n + 1)[1:-1], np.arange(n) * 2 * np.pi / n, indexing="ij")
    r = 1.0 + 0.2 * np.sin(3 * theta) * np.sin(2 * phi)
    ring = np.stack([r * np.sin(theta) * np.cos(phi), r * np.sin(theta) * np.sin(phi), r * np.cos(theta)], -1)
    points = np.concatenate([ring.reshape(-1, 3), [[0, 0, 1], [0, 0, -1]]])
    points += np.random.default_rng(seed).normal(size=points.shape) * noise
    top, bottom = len(points) - 2, len(points) - 1
    faces = []
    for j in range(n):
        k = (j + 1) % n
        faces += [(top, j, k), (bottom, (n - 2) * n + k, (n - 2) * n + j)]
        for i in range(n - 2):
            a, b, c, d = i * n + j, (i + 1) * n + j, (i + 1) * n + k, i * n + k
            faces += [(a, b, c), (a, c, d)]
    return points.astype(np.float32), np.array(faces, np.int32)


def mesh_of(points: np.ndarray, faces: np.ndarray, requires_grad: bool = False, **more: object) -> sim.Mesh:
    made = sim.array(points, dtype=sim.vec3, requires_grad=requires_grad)
    return sim.Mesh(made, sim.array(faces.ravel(), dtype=sim.int32), **more)


def segment_distance(p: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance of points [n, 1, 3] from segments [m, 3]."""
    ab = b - a
    size = np.maximum((ab * ab).sum(-1), 1e-300)
    s = np.clip(((p - a) * ab).sum(-1) / size, 0, 1)
    return np.linalg.norm(p - a - ab * s[..., None], axis=-1)


def distances(points: np.ndarray, faces: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Distance of every point from every face: that of the plane where it lies above the face, else of an edge."""
    a, b, c = (points.astype(float)[faces[:, k]] for k in range(3))
    q = p.astype(float)[:, None]
    n = np.cross(b - a, c - a)
    size = np.maximum((n * n).sum(-1), 1e-300)
    inside = np.ones((len(p), len(faces)), bool)
    for x, y in ((a, b), (b, c), (c, a)):
        inside &= (np.cross(y - x, q - x) * n).sum(-1) > 0
    edges = np.minimum(np.minimum(segment_distance(q, a, b), segment_distance(q, b, c)), segment_distance(q, c, a))
    return np.where(inside, np.abs(((q - a) * n).sum(-1)) / np.sqrt(size), edges)


def ray_hits(points: np.ndarray, faces: np.ndarray, start: np.ndarray, along: np.ndarray) -> np.ndarray:
    """t of every ray on every face; infinite where it does not hit (Cramer's rule)."""
    a, b, c = (points.astype(float)[faces[:, k]] for k in range(3))
    s, d = start.astype(float)[:, None], along.astype(float)[:, None]
    e1, e2, r = b - a, c - a, s - a
    h = np.cross(d, e2)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1 / (e1 * h).sum(-1)
        u = (r * h).sum(-1) * inverse
        q = np.cross(r, e1)
        v = (d * q).sum(-1) * inverse
        t = (e2 * q).sum(-1) * inverse
        return np.where((u >= 0) & (v >= 0) & (u + v <= 1) & (t >= 0), t, np.inf)


def winding_numbers(points: np.ndarray, faces: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The sum of all solid angles, in units of a full sphere."""
    a, b, c = (points.astype(float)[faces[:, k]] - p.astype(float)[:, None] for k in range(3))
    x, y, z = (np.linalg.norm(v, axis=-1) for v in (a, b, c))
    volume = (a * np.cross(b, c)).sum(-1)
    below = x * y * z + (a * b).sum(-1) * z + (b * c).sum(-1) * x + (c * a).sum(-1) * y
    return 2 * np.arctan2(volume, below).sum(-1) / (4 * np.pi)
