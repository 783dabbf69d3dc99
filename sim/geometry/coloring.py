"""Graph colouring: constraints of one colour share no free point, so that they can be projected side by side.

Greedy first fit, then iterated greedy (Culberson 1992: taking the colour classes in another order never needs more
colours), then a pass that evens out the classes. Plain Python integers hold the colours used at a point as bits: exact
for any degree, and faster here than arrays, because each decision depends on the one before; iterated greedy alone can
take all constraints of a class at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError

_ROUNDS = 4  # of iterated greedy: on meshes the first two or three save a colour or two, later ones nothing
_BITS = 63
"""Colours that are held in a number of 64 bits, with room for one more."""
_WORTH_ARRAYS = 64
"""Constraints of a colour from which on operations of arrays are faster than one by one."""


@dataclass(frozen=True)
class Coloring:
    """A colour for each of n constraints, and the constraints sorted by it.

    color: (n,) int32 from 0; order: (n,) int32, the constraints colour by colour, in their own order within one;
    offsets: (count + 1,) int32: colour c is ``order[offsets[c]:offsets[c + 1]]``. Larger colours come first.
    """

    color: np.ndarray
    order: np.ndarray
    offsets: np.ndarray

    @property
    def count(self) -> int:
        """Number of colours."""
        return len(self.offsets) - 1


def color_constraints(points: ArrayLike, free: ArrayLike | None = None) -> Coloring:
    """Colour constraints so that no two of one colour share a free point. Deterministic.

    points: (n, k) int, the points of each constraint; free: (number of points,) bool, the points that a projection may
    move, all by default. Points that are not free are only read, and so are no conflict.
    """
    table, mask = _checked(points, free)
    if len(table) == 0:
        return Coloring(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(1, np.int32))
    # Points that are not free all become one point behind the last, whose entry is never marked.
    array = np.where(mask[table], table, len(mask)).T
    ends = array.tolist()
    color = _first_fit(ends, range(len(table)), len(mask))
    for _ in range(_ROUNDS):
        classes = np.array(color)
        if classes.max() < _BITS and len(table) > _WORTH_ARRAYS * classes.max():
            color = _fit_classes(array, classes, len(mask))
        else:
            color = _first_fit(ends, np.lexsort((np.arange(len(table)), -classes)).tolist(), len(mask))
    balanced = np.array(_balance(ends, color, len(mask)), np.int32)
    sizes = np.bincount(balanced)
    by_size = np.argsort(-sizes, kind="stable")
    rank = np.empty(len(sizes), np.int32)
    rank[by_size] = np.arange(len(sizes), dtype=np.int32)
    final = rank[balanced]
    offsets = np.concatenate([[0], np.cumsum(sizes[by_size])]).astype(np.int32)
    return Coloring(final, np.argsort(final, kind="stable").astype(np.int32), offsets)


def check_coloring(points: ArrayLike, color: ArrayLike, free: ArrayLike | None = None) -> None:
    """Raise a GeometryError that names two constraints of one colour which share a free point, if there are any."""
    table, mask = _checked(points, free)
    colors = np.asarray(color, np.int64)
    if colors.shape != (len(table),) or (colors < 0).any():
        raise GeometryError(f"{len(table)} constraints need as many colours from 0 up, got an array {colors.shape}")
    constraint, slot = np.nonzero(mask[table])
    point = table[constraint, slot]
    key = colors[constraint] * len(mask) + point
    order = np.argsort(key, kind="stable")
    # A stable sort leaves equal keys in the order of their constraints. A point twice in one constraint is no conflict.
    clash = np.flatnonzero((key[order][1:] == key[order][:-1]) & (constraint[order][1:] != constraint[order][:-1]))
    if len(clash):
        one, other = order[clash[0]], order[clash[0] + 1]
        raise GeometryError(
            f"constraints {constraint[one]} and {constraint[other]} have the same colour "
            f"{colors[constraint[one]]} and share the free point {point[one]}"
        )


def _checked(points: ArrayLike, free: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    table = np.asarray(points)
    if table.ndim != 2 or (table.size and not np.issubdtype(table.dtype, np.integer)):
        raise GeometryError(
            f"constraint points have shape {table.shape} and dtype {table.dtype}",
            "Pass integers (constraints, points of each)",
        )
    table = table.astype(np.int64)
    mask = np.ones(int(table.max(initial=-1)) + 1, bool) if free is None else np.asarray(free, bool)
    wrong = np.flatnonzero((table < 0).any(axis=1) | (table >= len(mask)).any(axis=1))
    if len(wrong):
        raise GeometryError(f"constraint {wrong[0]} names a point outside 0..{len(mask) - 1}")
    return table, mask


def _first_fit(ends: list[list[int]], order: Sequence[int], count: int) -> list[int]:
    """The lowest colour that no free point of the constraint has yet, constraint by constraint."""
    used = [0] * (count + 1)
    color = [0] * len(ends[0])
    for c in order:
        taken = 0
        for slot in ends:
            taken |= used[slot[c]]
        bit = ~taken & (taken + 1)
        for slot in ends:
            if slot[c] != count:
                used[slot[c]] |= bit
        color[c] = bit.bit_length() - 1
    return color


def _fit_classes(ends: np.ndarray, classes: np.ndarray, count: int) -> list[int]:
    """The same of all constraints of one colour at once, the last colour first: they have no free point in common."""
    used = np.zeros(count + 1, np.uint64)
    color = np.empty(len(classes), np.int64)
    by_class = np.argsort(classes, kind="stable")
    for own in np.split(by_class, np.cumsum(np.bincount(classes))[:-1])[::-1]:
        taken = np.bitwise_or.reduce(used[ends[:, own]], axis=0)
        bit = ~taken & (taken + np.uint64(1))
        for slot in ends:
            used[slot[own]] |= bit
        used[count] = 0
        color[own] = np.frexp(bit.astype(np.float64))[1] - 1
    found: list[int] = color.tolist()
    return found


def _balance(ends: list[list[int]], color: list[int], count: int) -> list[int]:
    """Move constraints out of colours above the mean size into the smallest colour that will have them."""
    sizes = np.bincount(color).tolist()
    mean = len(color) / len(sizes)
    used = [0] * (count + 1)
    for slot in ends:
        for c, point in enumerate(slot):
            if point != count:
                used[point] |= 1 << color[c]
    every = (1 << len(sizes)) - 1
    moved = list(color)
    for c, old in enumerate(color):
        if sizes[old] <= mean:
            continue
        taken = 0
        for slot in ends:
            taken |= used[slot[c]]
        room = every & ~taken
        best = old
        while room:
            candidate = (room & -room).bit_length() - 1
            room &= room - 1
            if sizes[candidate] < sizes[best] - 1:
                best = candidate
        if best != old:
            change = (1 << old) | (1 << best)
            for point in {slot[c] for slot in ends} - {count}:
                used[point] ^= change
            sizes[old] -= 1
            sizes[best] += 1
            moved[c] = best
    return moved
