"""Tiles: points in pieces of space, each small enough that what is known of its points stays in a processor's cache."""

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError


def tiles_of(positions: ArrayLike, most: int) -> np.ndarray:
    """The tile of each point, (n,) int32 from 0: halves of halves, across the longest side, until none has more than
    `most` points.  Which points are neighbours decides, whatever their numbers are.

    positions: (n, 3) [m].  Raises GeometryError for another shape.
    M. J. Berger, S. H. Bokhari, "A Partitioning Strategy for Nonuniform Problems on Multiprocessors", IEEE Transactions
    on Computers C-36, 1987 (recursive coordinate bisection).
    """
    x = np.asarray(positions, float)
    if x.ndim != 2 or x.shape[1] != 3 or most < 1:
        raise GeometryError(f"tiles of at most {most} points of an array {x.shape}", "Pass (points, 3), and at least 1")
    tile = np.zeros(len(x), np.int32)
    open_parts, count = [np.arange(len(x))], 0
    while open_parts:
        part = open_parts.pop()
        if len(part) <= most:
            tile[part] = count
            count += 1
            continue
        along = x[part, int(np.ptp(x[part], axis=0).argmax())]
        half = len(part) // 2
        order = np.argpartition(along, half)
        open_parts += [part[order[half:]], part[order[:half]]]
    return tile
