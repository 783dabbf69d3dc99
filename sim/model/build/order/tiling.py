"""Tiles of the points of a large model, and numbers that go along them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LARGE = 1 << 15
"""Points from which on they do not stay in a processor's own cache: 32 bytes each while a step is taken."""
TILE = 1 << 12
"""Points of a tile at most: their states and the gradients of these take 64 bytes each, twice that where others lie
between, which the second level of common processors (512 kB and more) holds beside what passes through."""
SCATTERED = 1 / 16
"""Share of points that lie in another tile than the one before them, from which on their numbers are in disorder: row
by row it is 1/64, at random nearly all."""
FINE = 64
"""Points that are neighbours in the numbers along tiles too."""


def tiles_of(positions: np.ndarray, most: int) -> np.ndarray:
    """The tile of each of points (n, 3), (n,) int32 from 0: halves of halves, across the longest side, until none has
    more than `most` points.  Which points are neighbours decides, whatever their numbers are.

    M. J. Berger, S. H. Bokhari, "A Partitioning Strategy for Nonuniform Problems on Multiprocessors", IEEE Transactions
    on Computers C-36, 1987 (recursive coordinate bisection).
    """
    tile = np.zeros(len(positions), np.int32)
    open_parts, count = [np.arange(len(positions))], 0
    while open_parts:
        part = open_parts.pop()
        if len(part) <= most:
            tile[part] = count
            count += 1
            continue
        here, half = positions[part], len(part) // 2
        order = np.argpartition(here[:, int(np.ptp(here, axis=0).argmax())], half)
        open_parts += [part[order[half:]], part[order[:half]]]
    return tile


@dataclass(frozen=True, eq=False)
class Tiling:
    """tile: (particles,) of each; number: (particles,) numbers that go from tile to tile and from neighbour to
    neighbour, None where those that the points have do so well enough."""

    tile: np.ndarray
    number: np.ndarray | None


def tiling_of(position: np.ndarray) -> Tiling | None:
    """Of points (n, 3); None for so few that they stay in the cache."""
    if len(position) < LARGE:
        return None
    tile = tiles_of(position, TILE)
    if (np.diff(tile) != 0).mean() < SCATTERED:
        return Tiling(tile, None)
    # tiles of tiles: pieces of pieces of space are numbered in one row
    number = np.empty(len(position), np.int32)
    number[np.argsort(tiles_of(position, FINE), kind="stable")] = np.arange(len(position))
    return Tiling(tile, number)
