"""Functions of the language called outside of kernels with arrays."""

from typing import Any

import numpy as np
import pytest

import sim


@sim.func
def last(a: sim.array[Any]):
    return len(a), a[len(a) - 1]


@sim.func
def doubled(a: sim.array[float], k: int):
    return 2.0 * a[k]


@sim.func
def fill_in(a: sim.array2d[float]):
    a[0, 1] = 7.0
    sim.atomic_add(a, 1, 0, 2.0)


def test_arrays_are_read_where_they_are():
    a = sim.array([1.0, 2.0, 3.0], dtype=float)
    assert last(a) == (3, 3.0) and last(a[::2]) == (2, 3.0) and doubled(a, 1) == 4.0
    a.fill_(5.0)
    assert doubled(a, 1) == 10.0
    assert last(sim.array([[1, 2, 3]], dtype=sim.vec3)) == (1, sim.vec3(1.0, 2.0, 3.0))


def test_arrays_are_written_where_they_are():
    a = sim.zeros((2, 2))
    assert fill_in(a) is None
    fill_in(a)
    assert a.list() == [0.0, 7.0, 4.0, 0.0]


@sim.func
def row(a: sim.array2d[float], i: int):
    return a[i]


@sim.func
def part(a: sim.array2d[Any], k: int, begin: int, end: int):
    return a[k, begin:end][::-1]


@sim.func
def same(a: Any):
    return a


@sim.func
def two(a: sim.array[float]):
    return a, 1.0


def test_arrays_that_a_function_is_given_may_be_returned():
    a = sim.array(np.arange(12.0).reshape(3, 4), dtype=float)
    line = row(a, -1)
    assert line.list() == [8.0, 9.0, 10.0, 11.0]
    line.fill_(1.0)
    assert a[2].list() == [1.0] * 4 and part(a, 1, 0, 4).list() == [7.0, 6.0, 5.0, 4.0]
    assert part(a, 1, 1, 2).list() == [5.0] and part(a, 0, 2, 2).shape == (0,) and same(a) is a
    for k in (3, -4):
        with pytest.raises(IndexError, match=f"index {k} is out of range for dimension 0 of length 3"):
            row(a, k)
    with pytest.raises(sim.KernelError, match="`two` returns array"):
        two(line)


def test_indices_and_types_are_checked():
    with pytest.raises(IndexError, match="at 7, outside of 0 .. 2"):
        doubled(sim.zeros(3), 7)
    with pytest.raises(sim.KernelError, match=r"expected array\[float32\], got array\[int32\]"):
        doubled(sim.zeros(3, dtype=int), 0)
