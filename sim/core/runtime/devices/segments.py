"""Segments of a graph that run without the Python around them: native functions, or work captured by a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from sim.core.backends.native import ROW
from sim.core.runtime.ambient.profile import open_profiles, timed
from sim.core.runtime.ambient.threads import run_table
from sim.core.runtime.devices.base_device import Device


class NativeSegment:
    """Rows for the native walker, as they are collected; a block of memory when they first run."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self.labels: list[tuple[str, int]] = []
        """What each row is called, and the bytes that it moves: for profiles."""
        self._memory: np.ndarray | None = None
        self._address = 0
        self._splits = False

    def extend(self, other: NativeSegment) -> None:
        self.rows += other.rows
        self.labels += other.labels

    def run(self) -> None:
        # Graphs are joined and captured further after they have run: rows are packed anew when there are more of them.
        if self._memory is None or len(self._memory) != len(self.rows):
            self._memory = np.array(self.rows, np.int64).reshape(-1, ROW)
            self._address = self._memory.ctypes.data
            self._splits = any(grain and end >= 2 * grain for _, _, end, grain in self.rows)
        if open_profiles:
            for k, (name, nbytes) in enumerate(self.labels):
                timed(name, nbytes, partial(run_table, self._address + 8 * ROW * k, 1, False))
        else:
            run_table(self._address, len(self._memory), self._splits)


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
