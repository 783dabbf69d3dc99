"""Checkpoints of loops: which values have them, how many there are, and that few of them are enough."""

from __future__ import annotations

import numpy as np
import pytest
from tools.adjoints.differences import check, numbers, tbr_of, traced

import sim
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.ir.core import walk

f64, vec3 = sim.float64, sim.vec3d


@sim.kernel
def of_known_length(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    a = x[i]
    for _ in range(40):
        a = sim.sin(a) * 1.1
    y[i] = a


@sim.kernel
def of_open_length(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a, linear = x[i], f64(0.0)
    for _ in range(n):
        a = sim.sin(a) * 1.1
        linear += a * 2.0
    y[i] = a + linear


@sim.kernel
def linear_loop(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a = x[i]
    for _ in range(n):
        a = a * 0.5 + x[i]
    y[i] = a


def tapes(kernel, active=("x", "y")):
    made = kernel_adjoint(tbr_of(traced(kernel), active))
    return [(op.attrs["scalar"].name, op.attrs["slots"]) for op in walk(made.func.body) if op.name == "tape"]


def test_only_needed_values_get_checkpoints_as_many_as_there_are_trips(monkeypatch):
    assert tapes(of_known_length) == [("float64", 40)]
    assert tapes(linear_loop) == []
    open_ended = tapes(of_open_length)
    assert set(open_ended) == {("float64", checkpoints.SLOTS)} and len(open_ended) in (1, 2)
    monkeypatch.setattr(checkpoints, "SLOTS", 8)
    assert set(tapes(of_known_length)) == {("float64", 8)}


@pytest.mark.parametrize("slots", [2, 4, 8])
def test_a_loop_of_known_length_with_few_checkpoints(slots, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    check(of_known_length, [2], [numbers(2), numbers(2)], {"x", "y"})


@pytest.mark.parametrize(("n", "slots"), [(0, 4), (1, 4), (4, 4), (5, 4), (16, 4), (17, 4), (33, 4)])
def test_a_loop_of_open_length_with_few_checkpoints(n, slots, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    check(of_open_length, [2], [numbers(2), numbers(2), n], {"x", "y"})


@sim.kernel
def doubling(x: sim.array[f64], y: sim.array[f64], limit: f64):
    i = sim.tid()
    a, k = x[i], 0
    while a < limit:
        a = a * 1.3 + 0.1 * a * a
        k += 1
    y[i] = a * f64(k)


@pytest.mark.parametrize("slots", [2, 4, 512])
@pytest.mark.parametrize("limit", [0.1, 1.5, 8.0, 40.0])
def test_a_loop_of_unknown_length_thins_its_checkpoints(limit, slots, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    check(doubling, [2], [np.array([0.05, 0.3]), numbers(2), limit], {"x", "y"}, tolerance=1e-6)
