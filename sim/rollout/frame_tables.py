"""Steps up to several frames, and the copies of these, as one native table: no Python runs between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import Graph, joined
from sim.core.runtime.devices.segments import NativeSegment
from sim.model.state import State


@dataclass(frozen=True, eq=False)
class FrameTable:
    """`graph` takes the steps; copies: for each array of positions where every frame of it goes to, and comes from."""

    graph: Graph
    copies: list[np.ndarray]

    @classmethod
    def made(cls, steps: Sequence[Graph], every: int, ends: tuple[State, State]) -> FrameTable | None:
        """A frame after every so many of the steps, which end in `ends` in turn; None where that is no native table."""
        rows, copies = NativeSegment(), [np.zeros((len(steps) // every, 2), np.int64) for _ in ends[0].positions]
        for k, graph in enumerate(steps):
            if graph.rows is None:
                return None
            rows.extend(graph.rows)
            for positions, words in zip(ends[k % 2].positions, copies, strict=True) if (k + 1) % every == 0 else ():
                row = positions.device.copy_row(positions, positions)
                if not isinstance(row, tuple):
                    return None
                function, words[k // every], nbytes = row
                rows.add_shared(function, words[k // every], nbytes, ("copies and fills", 2 * nbytes))
        return cls(joined(dict.fromkeys(steps)).with_rows(rows, copies), copies)

    def run(self, results: Sequence[array], first: int) -> None:
        """Take the steps; the frames become rows of the results from `first` on."""
        for frames, words in zip(results, self.copies, strict=True):
            stride = frames.strides[0]
            words[:, 0] = np.arange(len(words)) * stride + (frames.buffer.address + frames.offset + first * stride)
            frames.buffer.version += 1
        self.graph.rerun()
