"""The argument block: word by word what a compiled function reads, and what is known of arrays."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

import sim
from sim.core.runtime.compiled.argument_packing import (
    NARROW,
    ArgumentPacking,
    LaunchError,
    Memory,
    address_of_block,
    block_of,
    layout_flags_of,
)
from sim.core.runtime.compiled.compiled import Compiled


@sim.kernel
def weighted(x: sim.array2d[sim.float32], n: sim.int8, scale: sim.float64, out: sim.array[sim.float32]):
    i = sim.tid()
    if n > sim.int8(0):
        out[i] = x[i, 0] * sim.float32(scale)


def compiled() -> Compiled:
    return weighted.specialise(tuple(p.type for p in weighted.parameters)).forward


def words(packing: ArgumentPacking, dims, fault, args) -> list[int]:
    packed, _ = packing.packed(args)
    return list(memoryview(block_of(dims, fault, packed)).cast("q"))


def test_a_block_word_by_word():
    x, out = sim.zeros((5, 3)), sim.zeros(5)
    found = words(compiled().packing, (5, 2), 77, [x, np.int8(-3), np.float64(0.5), out])
    assert found[:5] == [5, 2, 1, 1, 77], "launch dimensions, filled up with ones, and the error record"
    assert found[5:10] == [x.ptr, 5, 3, 12, 4]
    assert struct.pack("<q", found[10])[:1] == struct.pack("<b", -3)
    assert struct.pack("<q", found[11]) == struct.pack("<d", 0.5)
    assert found[12:] == [out.ptr, 5, 4]


def test_an_array_that_is_none_has_no_address_and_no_extent():
    found = words(compiled().packing, (1,), 0, [None, np.int8(0), np.float64(0.0), sim.zeros(1)])
    assert found[5:10] == [0, 0, 0, 0, 0]


def test_what_is_known_of_arrays():
    whole, strided = sim.zeros((4, 3)), sim.zeros((4, 6))[:, ::2]
    assert layout_flags_of(True, False, (4, 3)) == whole.layout_flags == 1 | 3 << 2, "packed, of three columns"
    assert strided.layout_flags == 0
    assert layout_flags_of(True, True, (4, NARROW + 1)) == 3, "packed, nothing behind it, too many columns to unroll"
    memory = Memory(whole.ptr, whole.shape, whole.strides, True, whole)
    assert (memory.slots, memory.layout_flags) == (whole.slots, whole.layout_flags)


def test_a_number_that_does_not_fit_is_an_error():
    with pytest.raises(LaunchError, match="kernel 'weighted': a number does not fit its type"):
        compiled().packing.packed([None, 300, 0.0, None])


def test_where_a_block_lies():
    block = block_of((5, 2), 77, b"argument")
    assert ctypes.string_at(address_of_block(block), len(block)) == block


def test_one_that_has_no_place_in_memory_is_no_array():
    with pytest.raises(AttributeError):
        compiled().packing.packed([3.0, 0, 0.0, None])
