"""Relocation: rows of a graph that run for any of many parts of a program, alike but for where their memory lies.

The memory of such parts lies one behind the other at equal distances.  Which words of the rows' blocks are addresses in
it, two parts tell that follow each other: there these words differ by just that distance, and all others are equal.
The rows are kept once.  Before them goes a row that moves those words to the part that is wanted, as a linker does with
what it loads (J. R. Levine, *Linkers and Loaders*, 1999, ch. 7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.core.backends.native import native
from sim.core.runtime.devices.graph import Graph
from sim.core.runtime.devices.segments import NativeSegment


@dataclass(frozen=True)
class Strip:
    """Memory of parts that are alike: part k begins at byte k * stride of `count * stride` bytes from `begin` on."""

    begin: int
    stride: int
    count: int

    def holds(self, words: np.ndarray) -> np.ndarray:
        """Which of these words are addresses in it."""
        return (words >= self.begin) & (words < self.begin + self.count * self.stride)

    def of_part(self, k: int, words: np.ndarray) -> np.ndarray:
        """Which of these words are addresses in part k."""
        return (words >= self.begin + k * self.stride) & (words < self.begin + (k + 1) * self.stride)


def words_of(rows: NativeSegment) -> np.ndarray:
    """All blocks, one behind the other."""
    return np.frombuffer(b"".join(rows.blocks), np.int64)


def moved_between(first: Graph, second: Graph, strip: Strip) -> np.ndarray | None:
    """Which words of two parts that follow each other are addresses in the strip; None if the two are not alike."""
    a, b = first.rows, second.rows
    if a is None or b is None or _forms(a) != _forms(b):
        return None
    words = words_of(a)
    apart = words_of(b) - words
    moved = strip.holds(words)
    return moved if np.array_equal(apart, np.where(moved, strip.stride, 0)) else None


def _forms(rows: NativeSegment) -> list[object]:
    """What rows are, where their memory lies aside."""
    table = [(function, end, grain) for function, _, end, grain in rows.rows]
    return [table, [len(block) for block in rows.blocks], rows.labels, rows.strands]


class Relocatable:
    """What a graph of one part does, for any part.

    moved: the words of its blocks that are addresses in the strip.
    """

    def __init__(self, graph: Graph, moved: np.ndarray, stride: int) -> None:
        rows = graph.rows
        assert rows is not None, "only tables of native functions can be relocated"
        self._graph, self._rows, self._stride = graph, rows, stride
        self._words = words_of(rows).copy()
        self._places = self._words.ctypes.data + 8 * np.flatnonzero(moved)
        self._shift = np.zeros(1, np.int64)
        """How far the words are moved at present."""
        begins = np.cumsum([0, *map(len, rows.blocks)])[:-1]
        self._table = [
            (function, self._words.ctypes.data + int(at), end, grain)
            for (function, _, end, grain), at in zip(rows.rows, begins, strict=True)
        ]

    def moved_by(self, parts: int) -> Graph:
        """The graph of the part that is so many further on."""
        places, shift = self._places.ctypes.data, self._shift.ctypes.data
        function, words, end = native().relocate(places, len(self._places), shift, parts * self._stride)
        made, rows = NativeSegment(), self._rows
        made.add(function, np.array(words, np.int64).tobytes(), end, 0, ("relocation", 16 * end), None)
        made.rows += self._table
        made.labels += rows.labels
        made.strands += rows.strands
        return self._graph.with_rows(made, self)
