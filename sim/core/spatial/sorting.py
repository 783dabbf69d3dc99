"""Sorting on any device: a stable radix sort of keys with their values, as launches.

Each thread counts the digits of a piece of the keys; the sums over digits and pieces, in that order, are where the
elements of a piece with a digit go; and the threads put them there.  So the result does not depend on how many pieces
there are.
"""

from __future__ import annotations

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import int32, uint32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, empty
from sim.core.runtime.devices.device import Device
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch

PIECE = 256
"""Elements that one thread of a GPU goes through.  On a CPU one thread does all: it is as fast as memory."""
DIGIT = {True: 11, False: 4}
"""Bits that a pass sorts by, on a CPU or not: each thread counts 2 ** bits digits."""


def piece_of(device: Device, count: int) -> int:
    """How many of `count` elements one thread goes through."""
    return max(count, 1) if device.is_cpu else PIECE


@kernel
def _number(values: array[int32]):
    i = tid()
    values[i] = i


@kernel
def take(values: array[uint32], items: array[int32], taken: array[uint32]):
    """The values of some items, in their order."""
    k = tid()
    taken[k] = values[items[k]]


@kernel
def _count_digits(keys: array[uint32], shift: uint32, digits: int, piece: int, pieces: int, counts: array[int32]):
    p = tid()
    for d in range(digits):
        counts[d * pieces + p] = 0
    for i in range(p * piece, min((p + 1) * piece, keys.shape[0])):
        k = int32((keys[i] >> shift) & uint32(digits - 1)) * pieces + p
        counts[k] = counts[k] + 1


@kernel
def _put(
    keys: array[uint32],
    values: array[int32],
    shift: uint32,
    digits: int,
    piece: int,
    pieces: int,
    places: array[int32],
    sorted_keys: array[uint32],
    sorted_values: array[int32],
):
    p = tid()
    for i in range(p * piece, min((p + 1) * piece, keys.shape[0])):
        k = int32((keys[i] >> shift) & uint32(digits - 1)) * pieces + p
        place = places[k]
        places[k] = place + 1
        sorted_keys[place] = keys[i]
        sorted_values[place] = values[i]


@kernel
def _sum_pieces(counts: array[int32], piece: int, sums: array[int32]):
    p = tid()
    total = int32(0)
    for i in range(p * piece, min((p + 1) * piece, counts.shape[0])):
        total += counts[i]
    sums[p] = total


@kernel
def _scan_pieces(counts: array[int32], piece: int, before: array[int32]):
    """Every count becomes the sum of those before it; `before`: the sum of the pieces before."""
    p = tid()
    total = before[p]
    for i in range(p * piece, min((p + 1) * piece, counts.shape[0])):
        count = counts[i]
        counts[i] = total
        total += count


class Scan:
    """Sums of all elements before each, in place, of arrays of up to `capacity` elements."""

    def __init__(self, capacity: int, device: Device) -> None:
        self.device, self.piece = device, piece_of(device, capacity)
        self.sums = empty(-(-max(capacity, 1) // self.piece), int32, device)
        self.none = empty(1, int32, device)
        self.none.zero_()

    def run(self, counts: array) -> None:
        pieces = len(self.sums)
        before = self.none
        if pieces > 1:
            launch(_sum_pieces, pieces, [counts, self.piece, self.sums], device=self.device)
            launch(_scan_pieces, 1, [self.sums, pieces, self.none], device=self.device)
            before = self.sums
        launch(_scan_pieces, pieces, [counts, self.piece, before], device=self.device)


class RadixSort:
    """Sorts up to `capacity` keys (uint32) with their values (int32), stable; made once, run often, also in graphs."""

    def __init__(self, capacity: int, device: Device) -> None:
        self.device, self.bits = device, DIGIT[device.is_cpu]
        self.piece = piece_of(device, capacity)
        self.pieces = -(-max(capacity, 1) // self.piece)
        self.counts = empty(self.pieces << self.bits, int32, device)
        self.scan = Scan(len(self.counts), device)
        self.keys, self.values = empty(capacity, uint32, device), empty(capacity, int32, device)

    def run(self, keys: array, values: array, bits: int = 32) -> None:
        """Sort by the lowest `bits` of the keys, in place."""
        count = len(keys)
        if not count:
            return
        here, there = (keys, values), (self.keys[:count], self.values[:count])
        for shift in range(0, bits, self.bits):
            shape = [uint32(shift), 1 << self.bits, self.piece, self.pieces]
            launch(_count_digits, self.pieces, [here[0], *shape, self.counts], device=self.device)
            self.scan.run(self.counts)
            launch(_put, self.pieces, [*here, *shape, self.counts, *there], device=self.device)
            here, there = there, here
        if here[0] is not keys:
            copy(keys, here[0])
            copy(values, here[1])


def number(values: array) -> None:
    """0, 1, 2, ..."""
    launch(_number, len(values), [values], device=values.device)
