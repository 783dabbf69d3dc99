"""Adjoints of kernels: atomic extremes, what is promised of their arrays, the order of their parameters."""

from __future__ import annotations

import numpy as np
import pytest
from tools.adjoints.differences import check, gradients, numbers, numbers_of, tbr_of, traced
from tools.adjoints.kernels import calls_with_an_array, in_place, linear, mixed_records

import sim
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import walk
from sim.core.lang.ir.store_forwarding import assume_disjoint

f64, vec3 = sim.float64, sim.vec3d


# ------------------------------------------------------------------------------------------------ atomic minima and
# maxima
@sim.kernel
def extremes(x: sim.array[f64], low: sim.array[f64], high: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(high, 0, x[i] * x[i])
    sim.atomic_min(low, 0, x[i] * 2.0)


@pytest.mark.parametrize(("low", "high"), [(5.0, 0.1), (-5.0, 0.1), (5.0, 9.0), (-5.0, 9.0)])
def test_the_winner_gets_the_gradient_and_where_the_start_won_it_keeps_it(low, high):
    x = np.array([0.9, 0.4, 1.3])
    made = check(extremes, [3], [x, np.array([low]), np.array([high])], {"x", "low", "high"})
    assert made.finals == (1, 2) and set(made.live_in) == {0, 1, 2}


def test_of_equal_ones_one_gets_the_gradient():
    x = np.array([1.3, 0.4, 1.3])
    found, _ = gradients(
        traced(extremes),
        [3],
        [x, np.array([9.0]), np.array([0.1])],
        {"x": np.zeros(3), "low": np.zeros(1), "high": np.ones(1)},
    )
    assert sorted(found["x"]) == [0.0, 0.0, 2.6] and found["high"] == 0.0
    start = np.array([1.3 * 1.3])
    found, _ = gradients(
        traced(extremes), [3], [x, np.array([9.0]), start], {"x": np.zeros(3), "low": np.zeros(1), "high": np.ones(1)}
    )
    assert found["x"].tolist() == [0.0, 0.0, 0.0] and found["high"] == 1.0, "the first was there at the start"


@sim.kernel
def extreme_components(x: sim.array[vec3], at: sim.array[int], high: sim.array[vec3]):
    i = sim.tid()
    sim.atomic_max(high, 0, x[i])
    sim.atomic_min(high, 1, x[i] * x[i][at[i]])


def test_components_have_winners_of_their_own():
    x, start = np.array([[1.0, 5.0, 2.0], [3.0, 4.0, 0.6]]), np.array([[2.2] * 3, [2.5] * 3])
    made = check(extreme_components, [2], [x, np.array([0, 1], np.int32), start], {"x", "high"})
    assert made.finals == (2,)


@sim.kernel
def extreme_and_store(x: sim.array[f64], y: sim.array[f64], z: sim.array[f64]):
    i = sim.tid()
    sim.atomic_max(y, 0, x[i])
    z[1] = 1.0


@sim.kernel
def extreme_and_sum(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    sim.atomic_max(y, 0, x[i])
    sim.atomic_add(y, n, x[i])


@sim.kernel
def both_extremes(x: sim.array2d[f64], y: sim.array2d[f64], n: int):
    i = sim.tid()
    sim.atomic_max(y, 0, n, x[i, 0])
    sim.atomic_min(y, 1, n, x[i, 1])
    sim.atomic_add(x, i, 1, f64(1.0))
    sim.atomic_add(y, 2, n, x[i, 1])


def test_an_element_takes_extremes_or_something_else():
    with pytest.raises(
        GradientError,
        match=(
            r"an element of 'y' may take atomic_max and accum in one launch(.|\n)*use elements at different constant"
            r" indices"
        ),
    ):
        kernel_adjoint(tbr_of(traced(extreme_and_sum), {"x", "y"}))
    func = traced(extreme_and_store)
    kernel_adjoint(tbr_of(func, {"x", "y", "z"}))
    with pytest.raises(GradientError, match="an element of 'z' may take atomic_max and store"):
        kernel_adjoint(tbr_of(func, {"x", "y", "z"}, [(1, 2)]))
    made = check(both_extremes, [2], [numbers(2, 2), np.array([[0.1, 9.0], [9.0, 9.0], [0.0, 0.0]]), 0], {"x", "y"})
    assert made.finals == (1,)


@sim.kernel
def counting_extreme(x: sim.array[f64], top: sim.array[f64], latest: sim.array[int]):
    i = sim.tid()
    x[i] = x[i] * x[i]
    sim.atomic_max(latest, 0, i)
    sim.atomic_max(top, 0, f64(i))


def test_extremes_without_gradient_need_no_final_values():
    made = check(counting_extreme, [2], [numbers(2), np.zeros(1), np.zeros(1, np.int32)], {"x"})
    assert made.finals == ()


@sim.kernel
def exchange(x: sim.array[f64], y: sim.array[f64], turn: sim.array[int]):
    i = sim.tid()
    sim.atomic_exch(turn, 0, i)
    sim.atomic_exch(y, 0, x[i])


@sim.kernel
def returned_sum(x: sim.array[f64], y: sim.array[f64], z: sim.array[f64]):
    i = sim.tid()
    z[i] = sim.atomic_add(y, 0, x[i]) * 2.0


def test_values_that_depend_on_the_order_of_the_threads_are_refused():
    with pytest.raises(GradientError, match="atomic_exch on 'y' carries a gradient: which thread's value stays"):
        kernel_adjoint(tbr_of(traced(exchange), {"x", "y"}))
    assert kernel_adjoint(tbr_of(traced(exchange), {"x"})).active == (0,), (
        "`turn` and a `y` without gradient carry none"
    )
    with pytest.raises(
        GradientError,
        match="the value that atomic_add on 'y' returns carries a gradient(.|\n)*use the result for nothing",
    ):
        kernel_adjoint(tbr_of(traced(returned_sum), {"x", "y", "z"}))
    with pytest.raises(GradientError, match="atomic_add on 'y' returns carries"):
        kernel_adjoint(tbr_of(traced(returned_sum), {"y", "z"}))


# ------------------------------------------------------------------------------------------------ what is promised of
# the adjoint
def test_arrays_are_apart_unless_they_overlap():
    func = traced(linear)
    for aliases, apart in (((), True), ([(0, 1)], False)):
        made = kernel_adjoint(tbr_of(func, {"x", "y"}, aliases))
        assert made.func.attrs["apart"] is apart and made.func.attrs["adjoint"] is True
    made = kernel_adjoint(tbr_of(traced(in_place), {"x", "y"}), [0])
    assert made.recording.attrs["apart"] is True


def test_what_is_exclusive_is_so_in_gradients():
    func = assume_disjoint(traced(in_place), ["x"])
    made = kernel_adjoint(tbr_of(func, {"x", "y"}), [0])
    assert made.func.attrs["exclusive"] == {"x", "adj_x"} == made.recording.attrs["exclusive"]
    sums = {op.operands[0].name: op.attrs["exclusive"] for op in walk(made.func.body) if op.name == "accum"}
    assert sums == {"adj_x": True, "adj_y": False}


def test_parameters_of_the_adjoint_are_in_the_order_that_is_promised():
    func = traced(mixed_records)
    made = kernel_adjoint(tbr_of(func, {"p", "y"}), [1])
    names = [p.name for p in made.func.params]
    assert (
        names[:4] == [p.name for p in func.params]
        and names[4:6] == ["adj_p", "adj_y"]
        and made.active == tuple(numbers_of(func, {"p", "y"})) == (1, 3)
    )
    assert (
        names[6:] == [f"record_{kind.name}" for kind, _ in made.caches] == [p.name for p in made.recording.params[4:]]
    )
    assert made.func.name == "mixed_records_adjoint" and made.recording.name == "mixed_records_recording"


def test_the_source_of_an_adjoint_keeps_its_calls():
    made = kernel_adjoint(tbr_of(traced(calls_with_an_array, source=True), {"x", "y"}))
    assert [p.name for p in made.source.params] == [p.name for p in made.func.params]
