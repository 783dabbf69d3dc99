"""Segments of a graph that run without the Python around them: native functions, or work captured by a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sim.core.backends.native import ROW, native
from sim.core.backends.native_text import PART
from sim.core.runtime.ambient.profile import open_profiles, timed
from sim.core.runtime.ambient.threads import get_num_threads, run_table
from sim.core.runtime.compiled.argument_packing import address_of_block
from sim.core.runtime.devices.base_device import Device


class NativeSegment:
    """Rows for the native walker, as they are collected; a block of memory when they first run."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.blocks: list[bytes] = []
        """Of the rows that were added one by one."""
        self.labels: list[tuple[str, int]] = []
        """What each row is called, and the bytes that it moves: for profiles."""
        self.strands: list[int | None] = []
        """The strand that each belongs to (`graph.strand`)."""
        self._memory: np.ndarray | None = None
        self._address = 0
        self._splits = False
        self._has_strands = False
        self._shared: StrandTable | None = None

    def add(
        self, function: int, block: bytes, end: int, grain: int, label: tuple[str, int], strand: int | None
    ) -> None:
        """Add a row."""
        self.rows.append((function, address_of_block(block), end, grain))
        self.blocks.append(block)
        self.labels.append(label)
        self.strands.append(strand)

    def add_shared(self, function: int, block: np.ndarray, end: int, label: tuple[str, int]) -> None:
        """Add a row whose block stays with the caller, who may change it before each run."""
        self.rows.append((function, block.ctypes.data, end, 0))
        self.labels.append(label)
        self.strands.append(None)

    def extend(self, other: NativeSegment) -> None:
        self.rows += other.rows
        self.blocks += other.blocks
        self.labels += other.labels
        self.strands += other.strands

    def run(self, times: int = 1) -> None:
        """All rows in order, so many times over."""
        # Graphs are joined and captured further after they have run: rows are packed anew when there are more of them.
        if self._memory is None or len(self._memory) != len(self.rows):
            self._memory = np.array(self.rows, np.int64).reshape(-1, ROW)
            self._address = self._memory.ctypes.data
            self._splits = any(grain and end >= 2 * grain for _, _, end, grain in self.rows)
            self._has_strands = any(s is not None for s in self.strands)
            self._shared = None
        if times > 1:
            if not open_profiles and (get_num_threads() == 1 or not (self._splits or self._has_strands)):
                block = np.array((self._address, len(self._memory)), np.int64)
                row = np.array((native().address["again"], block.ctypes.data, times, 0), np.int64)
                run_table(row.ctypes.data, 1, False)
            else:
                for _ in range(times):
                    self.run()
        elif open_profiles:
            for k, (name, nbytes) in enumerate(self.labels):
                timed(name, nbytes, partial(run_table, self._address + 8 * ROW * k, 1, False))
        elif self._has_strands and get_num_threads() > 1:
            if self._shared is None:
                self._shared = StrandTable(self._memory, self.strands)
            run_table(self._shared.address, len(self._shared.rows), True)
        else:
            run_table(self._address, len(self._memory), self._splits)


class StrandTable:
    """A table whose strands are each one thing to do, for several threads; it keeps the order within each.

    strands: of the rows.  Strands that follow each other are shared until one comes up again, or a row of none.
    """

    def __init__(self, rows: np.ndarray, strands: Sequence[int | None]) -> None:
        self._keep: list[np.ndarray] = [rows]
        made: list[np.ndarray] = []
        k = 0
        while k < len(rows):
            begins = _strands_from(strands, k)
            if len(begins) > 2:
                made.append(self._row_of(rows, begins))
                k = begins[-1]
            else:
                made.append(rows[k])
                k += 1
        self.rows = np.array(made, np.int64).reshape(-1, ROW)
        self.address = self.rows.ctypes.data

    def _row_of(self, rows: np.ndarray, begins: list[int]) -> np.ndarray:
        offsets = np.array(begins, np.int64)
        block = np.array((rows.ctypes.data, offsets.ctypes.data), np.int64)
        self._keep += [offsets, block]
        count = len(begins) - 1
        return np.array((native().address["strands"], block.ctypes.data, PART * count, PART), np.int64)


def _strands_from(strands: Sequence[int | None], first: int) -> list[int]:
    """Where different strands begin, one behind the other, from row `first` on, and the end of the last."""
    begins, seen, k = [first], set[int](), first
    while k < len(strands) and (own := strands[k]) is not None and own not in seen:
        seen.add(own)
        while k < len(strands) and strands[k] == own:
            k += 1
        begins.append(k)
    return begins


class DeviceSegment:
    """Actions that only enqueue work on one device: it captures them in a graph of its driver when they first run
    again, and launches that at once from then on."""

    def __init__(self, device: Device, actions: Iterable[Callable[[], None]] = ()) -> None:
        self.device, self.actions = device, list(actions)
        self._captured: Any = None
        self._count = 0

    def run(self) -> None:
        if self._count != len(self.actions):
            self._captured, self._count = self.device.captured(self.actions), len(self.actions)
        self.device.replay(self._captured)
