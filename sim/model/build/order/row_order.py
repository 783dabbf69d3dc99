"""In which order the constraints of a set stand: by colour, and within a colour as launches like it best.

The constraints of a colour share no free point, so that one launch projects all of them (Gauss-Seidel by colours).  A
pinned point does not move, so that it may be shared; but a launch whose constraints share no point at all may be
compiled to wide loads and stores, on several threads.  Hence in every colour those come first.

A colour goes over all points.  Where these are more than a processor's own cache holds, they would come from further
away for every colour; so the constraints inside of a tile of points come colour by colour before those of the next
tile, and last those that cross tiles, by colour too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sim.geometry import check_coloring, color_constraints
from sim.model.build.order.tiling import LARGE, Tiling

CROSSING = 0.25
"""Share of constraints that cross tiles from which on tiles are none: neighbours in space are not those of the set."""
NEAR = 16
"""Points from one to the next that a processor fetches before it is asked for."""


class RowOrder(NamedTuple):
    """order: row -> constraint; colour c is rows offsets[c] to offsets[c + 1], sharing no point before shared[c].

    Every tile has colours of its own; tiles[c]: that of all points of colour c, None where they are of several; empty
    where there are no tiles."""

    order: np.ndarray
    offsets: list[int]
    shared: list[int]
    tiles: list[int | None]


def order_rows(points: np.ndarray, owner: np.ndarray, free: np.ndarray, tiling: Tiling | None = None) -> RowOrder:
    """The order of constraints on points (n, k).  owner (n,): the block that each comes from; free: (particles,);
    tiling: of the particles, None where there is none."""
    tiles: list[int | None] = []
    if points.shape[1] == 1 and _once_each(points, owner):
        # Contacts: a shape meets each point once, so its constraints have one colour, and the shapes come in turn.
        order = np.argsort(owner, kind="stable")
        sizes = np.unique(owner, return_counts=True)[1]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        color = np.repeat(np.arange(len(sizes)), sizes)
    else:
        coloring = color_constraints(points, free)
        order, offsets, color = coloring.order, coloring.offsets, coloring.color[coloring.order]
        if tiling is not None and coloring.count > 1:  # one colour goes over the points once in any case
            order, offsets, color, tiles = _by_tiles(points, order, color, tiling.tile)
    check_coloring(points[order], color, free)
    along = points if tiling is None or tiling.number is None else tiling.number[points]
    order, shared = _disjoint_first(along, order, offsets)
    return RowOrder(order, [int(o) for o in offsets], shared, tiles)


def order_rows_of_worlds(
    points: np.ndarray, kept: np.ndarray, counts: Sequence[int], free: np.ndarray, worlds: int
) -> RowOrder:
    """The order of constraints `kept` of those on points (n, k): every world has the colours that it would have alone.

    counts: of the blocks, in each of which world 0 comes first, then world 1, ...  Of one colour first come those that
    share no point, world by world, then the others, world by world.
    """
    sizes = np.array(counts) // worlds
    owner = np.repeat(np.arange(len(sizes)), sizes)
    begin = np.concatenate([[0], np.cumsum(worlds * sizes)])
    row = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + begin[owner]  # in world 0
    here = np.isin(row, kept)
    alone = order_rows(points[row[here]], owner[here], free)

    # The same for all worlds: `step` constraints further in its block stands the one of the next world.
    first, step = row[here][alone.order], sizes[owner[here][alone.order]]
    rank = np.full(len(points), -1)
    rank[kept] = np.arange(len(kept))
    pieces = list(zip(alone.offsets, alone.shared, alone.offsets[1:], strict=False))
    spans = [span for a, b, c in pieces for span in ((a, b), (b, c))]
    rows = [rank[first[a:b] + world * step[a:b]] for a, b in spans for world in range(worlds)]
    order = np.concatenate([np.zeros(0, np.int64), *rows])
    color = np.repeat(np.arange(len(alone.offsets) - 1), worlds * np.diff(alone.offsets))
    check_coloring(points[kept[order]], color, free)
    return RowOrder(order, [worlds * o for o in alone.offsets], [worlds * s for s in alone.shared], [])


def _by_tiles(
    points: np.ndarray, order: np.ndarray, color: np.ndarray, tile: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int | None]]:
    """Rows (order, offsets, color, tile of each colour) sorted by tile before colour; as they are where too many cross
    tiles."""
    tiles, count = tile[points[order]], int(tile.max(initial=0)) + 1
    place = np.where((tiles == tiles[:, :1]).all(axis=1), tiles[:, 0], count)  # those that cross come last
    key = place.astype(np.int64) * (int(color.max(initial=0)) + 1) + color
    crossing = (place == count).mean()
    if crossing > CROSSING:
        key = color.astype(np.int64)
    by_key = np.argsort(key, kind="stable")
    _, begin, number = np.unique(key[by_key], return_index=True, return_inverse=True)
    own = place[by_key][begin].tolist() if crossing <= CROSSING else []
    return order[by_key], np.append(begin, len(order)), number, [None if t == count else t for t in own]


def _disjoint_first(points: np.ndarray, order: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Within each colour, constraints with a point, pinned or not, that an earlier one has too go to its end; where
    these begin."""
    rows, shared, large = [], list[int](), bool(points.max(initial=0) >= LARGE)
    for begin, end in zip(offsets, offsets[1:], strict=False):
        own = order[begin:end]
        if large:
            own = _along_points(points, own)
        flat = points[own].ravel()
        _, first, which = np.unique(flat, return_index=True, return_inverse=True)
        disjoint = (first[which] == np.arange(len(flat))).reshape(len(own), -1).all(axis=1)
        rows += [own[disjoint], own[~disjoint]]
        shared.append(int(begin + disjoint.sum()))
    return np.concatenate([order[:0], *rows]), shared


def _along_points(points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """These constraints as they come, or by the first of their points, where that goes along memory more steadily.

    Where points are numbered at random, each constraint finds all of its points in places that nobody could guess; by
    the first of them, all but that one.  Models whose points stay in the cache gain nothing, and keep their order.
    """
    by_first = rows[np.argsort(points[rows].min(axis=1), kind="stable")]
    saved = _jumps(points[rows]) - _jumps(points[by_first])
    return by_first if saved > len(rows) // 2 else rows


def _jumps(points: np.ndarray) -> int:
    """How often a point of constraints (n, k) lies far from that of the constraint before."""
    ends = np.sort(points, axis=1)
    return int((np.abs(np.diff(ends, axis=0)) > NEAR).sum())


def _once_each(points: np.ndarray, owner: np.ndarray) -> bool:
    pairs = np.sort(points[:, 0].astype(np.int64) * (int(owner.max(initial=0)) + 1) + owner)
    return bool((pairs[1:] != pairs[:-1]).all())
