"""Functions of the language called outside of kernels with arrays."""

from typing import Any

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


def test_indices_and_types_are_checked():
    with pytest.raises(sim.KernelError, match=r"`row` returns array\[float32\]"):
        row(sim.zeros((2, 2)), 1)
    with pytest.raises(IndexError, match="at 7, outside of 0 .. 2"):
        doubled(sim.zeros(3), 7)
    with pytest.raises(sim.KernelError, match=r"expected array\[float32\], got array\[int32\]"):
        doubled(sim.zeros(3, dtype=int), 0)
