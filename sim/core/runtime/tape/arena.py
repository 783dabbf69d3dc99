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


def aligned(nbytes: int) -> np.ndarray:
    """Bytes of undefined content that begin where a line of memory does."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    shift = -address_of(raw) % ALIGNMENT
    return raw[shift : shift + nbytes]


class Arena:
    """Hands out pieces one behind the other.  A piece keeps its block alive; the arena only fills the last one.

    taken: bytes that were handed out, with the gaps behind them.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0
        self.taken = 0

    def fill(self, block: np.ndarray) -> None:
        """Hand out these bytes next, which are aligned."""
        self._block, self._used = block, 0

    def take(self, nbytes: int) -> np.ndarray:
        """Bytes of undefined content, aligned, with spare bytes behind them."""
        start, gross = self._used, nbytes + SPARE
        gross += -gross % ALIGNMENT
        if start + gross > len(self._block):
            self._block, start = aligned(max(FIRST, min(2 * len(self._block), LARGEST), gross)), 0
        self._used = start + gross
        self.taken += gross
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
