"""Steps, and the copies of states that are kept after some of them, as one native table: no Python runs in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import numpy as np

from sim.core.backends.native import native
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import Graph, joined
from sim.core.runtime.devices.segments import NativeSegment
from sim.model.state import State

LONGEST = 128
"""Steps that are joined to one table."""
ROWS = 4096
"""Rows of a table that is walked several times, if it can be as short as that: longer ones cost memory for nothing."""
WORK = 1 << 21
"""Indices of rows that are walked at once, where a table is short: tenths of a second, for Ctrl-C to get in."""


class Rhythm(NamedTuple):
    """After how many steps each a frame and a checkpoint are kept; 0: none is."""

    frames: int
    checkpoints: int

    @property
    def period(self) -> int:
        """After so many steps both come together."""
        return lcm(self.frames or 1, self.checkpoints or 1)

    def steps(self, left: int, rows: int) -> int:
        """The steps of a table, walked as often as can be in those that are left; 0 where it would keep less than two
        states.  rows: of a step."""
        most = LONGEST // self.period
        count = min(most, max(ROWS // max(rows, 1) // self.period, 1 + self.period % 2))
        if self.period % 2 and count > 1:
            count -= count % 2  # it ends where it began: it can be walked again and again
        kept = sum(left // every for every in self if every)
        return min(count, left // self.period) * self.period if kept > 1 else 0


NEITHER = Rhythm(0, 0)
Places = Sequence[tuple[int, int]]
"""For each array that is copied: the address of the place for the first copy, and the distance to the next."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """`graph` takes the steps and makes the copies.

    frames, checkpoints: for each array that is copied the words of all of its copies: to, from, how far `to` moves on
    in a walk.  most: how many times it may be walked at once.
    """

    graph: Graph
    steps: int
    frames: list[np.ndarray]
    checkpoints: list[np.ndarray]
    most: int

    @classmethod
    def made(cls, steps: Sequence[Graph], rhythm: Rhythm, ends: tuple[State, State]) -> StepTable | None:
        """The steps end in `ends` in turn; None where that is no native table."""
        rows = NativeSegment()
        of_frames = _Copies(rows, rhythm.frames, [state.positions for state in ends], len(steps))
        of_checkpoints = _Copies(rows, rhythm.checkpoints, [checkpointed(state) for state in ends], len(steps))
        for k, graph in enumerate(steps):
            if graph.rows is None:
                return None
            rows.extend(graph.rows)
            if not (of_frames.after(k) and of_checkpoints.after(k)):
                return None
        work = sum(end for _, _, end, _ in rows.rows)
        kept = of_frames.words, of_checkpoints.words
        graph = joined(dict.fromkeys(steps)).with_rows(rows, kept)
        return cls(graph, len(steps), *kept, 1 if len(steps) % 2 else max(1, WORK // max(work, 1)))

    def run(self, left: int, frames: Places, checkpoints: Places) -> int:
        """Take the steps as often as can be, of those that are left; how many that were."""
        times = min(self.most, left // self.steps)
        for places, copies in ((frames, self.frames), (checkpoints, self.checkpoints)):
            for (address, stride), words in zip(places, copies, strict=True):
                words[:, 0] = np.arange(len(words)) * stride + address
                words[:, 2] = len(words) * stride
        self.graph.rerun(times)
        return times * self.steps


class _Copies:
    """The rows that copy some arrays of the state after every so many steps; words: see `StepTable`."""

    def __init__(self, rows: NativeSegment, every: int, arrays: list[list[array]], steps: int) -> None:
        self.rows, self.every, self.arrays = rows, every, arrays
        self.words = [np.zeros((steps // every, 3), np.int64) for _ in arrays[0]] if every else []

    def after(self, step: int) -> bool:
        """Adds those of a step; whether they have a native form."""
        if not self.every or (step + 1) % self.every:
            return True
        for source, words in zip(self.arrays[step % 2], self.words, strict=True):
            row = source.device.copy_row(source, source)
            if not isinstance(row, tuple):
                return False
            own, (_, words[step // self.every, 1]), nbytes = words[step // self.every], row[1], row[2]
            self.rows.add_shared(native().address["copy_on"], own, nbytes, ("copies and fills", 2 * nbytes))
        return True


def checkpointed(state: State) -> list[array]:
    """What a checkpoint has copies of, the clock last."""
    return [*state.moving, state.clock]
