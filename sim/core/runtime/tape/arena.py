"""Memory for what tapes keep: many pieces of a few large blocks, for which the system can use large pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sim.core.lang.types import Scalar
from sim.core.runtime.arrays.array import array, make_array
from sim.core.runtime.devices.device import Device
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.memory.host_memory import ALIGNMENT, SPARE, address_of
from sim.core.runtime.memory.spans import packed_strides

FIRST, LARGEST = 1 << 16, 1 << 25
"""Bytes of the first block and of the largest: they double in between.  NumPy asks for large pages from 4 MB on."""


class Arena:
    """Hands out pieces one behind the other.  A piece keeps its block alive; the arena only fills the last one."""

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0

    def take(self, nbytes: int) -> np.ndarray:
        """Bytes of undefined content, aligned, with spare bytes behind them."""
        start = self._used
        if start + nbytes + SPARE > len(self._block):
            size = max(FIRST, min(2 * len(self._block), LARGEST), nbytes + SPARE)
            raw = np.empty(size + ALIGNMENT, np.uint8)
            shift = -address_of(raw) % ALIGNMENT
            self._block, start = raw[shift : shift + size], 0
        self._used = start + nbytes + SPARE
        self._used += -self._used % ALIGNMENT
        return self._block[start : start + nbytes]

    def buffer(self, nbytes: int, device: Device) -> Buffer:
        """Bytes as a buffer; on other devices than the CPU the device has a pool of its own."""
        if not device.is_cpu:
            return device.allocate(nbytes)
        memory = self.take(nbytes)
        return Buffer(address_of(memory), nbytes, device, memory)

    def array(self, shape: Sequence[int], scalar: Scalar, device: Device) -> array:
        """An array of scalars of undefined content."""
        shape = tuple(shape)
        return make_array(
            self.buffer(math.prod(shape) * scalar.size, device), 0, shape, packed_strides(shape, scalar.size), scalar
        )
