"""Farthest-point sampling: a few points spread evenly over many."""

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError

ROUNDING = 1e-9
"""Squares of distances that differ by less than this part of them are equal."""


def farthest_points(positions: ArrayLike, count: int, among: ArrayLike | None = None) -> np.ndarray:
    """Choose ``count`` points, each as far as possible from those before it: indices (count,) int32 in that order.

    positions: (n, 3); among: the candidates as indices or as a mask (n,), all by default. The first one is the
    candidate of the lowest index, and of those that are as far the one of the lowest: a grid that is turned, whose
    distances differ by rounding, has the same ones on any machine.
    """
    x = np.asarray(positions, np.float64).reshape(-1, 3)
    candidates = np.arange(len(x)) if among is None else np.asarray(among)
    candidates = np.flatnonzero(candidates) if candidates.dtype == bool else np.unique(candidates)
    if not 0 < count <= len(candidates):
        raise GeometryError(
            f"cannot spread {count} points over {len(candidates)} candidates",
            f"Ask for 1 to {len(candidates)}" if len(candidates) else "No point is free to be chosen",
        )
    x = x[candidates]
    chosen = np.zeros(count, np.int64)
    distance = np.full(len(x), np.inf)
    for k in range(1, count):
        distance = np.minimum(distance, ((x - x[chosen[k - 1]]) ** 2).sum(axis=1))
        distance[chosen[k - 1]] = -1.0  # never again, even where points coincide
        chosen[k] = np.argmax(distance >= (1.0 - ROUNDING) * distance.max())
    return candidates[chosen].astype(np.int32)
