"""Adjoints of kernels, whole programs by the interpreter: gradient functions, logs and replays in nested loops,
decompositions."""

from __future__ import annotations

import numpy as np
import pytest
from tools.adjoints.differences import Fault, check, gradients, numbers, tbr_of, traced
from tools.adjoints.kernels import lists_in_a_loop, overwrites_in_a_loop

import sim
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.frontend.custom import func_grad
from sim.core.lang.ir.core import walk
from sim.core.lang.types import float64, int32

f64 = sim.float64


@sim.func
def dotted(x: f64, table: sim.array[f64]):
    return x * table[0] + table[1] * table[1]


@func_grad(dotted)
def dotted_gradient(x: f64, table: sim.array[f64], ct: f64):
    sim.adjoint[x] += ct * table[0]
    sim.adjoint[table][0] += ct * x
    sim.adjoint[table][1] += 2.0 * ct * table[1]


@sim.kernel
def calls_with_a_table(x: sim.array[f64], table: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = dotted(x[i], table) * 2.0


@pytest.mark.parametrize("active", [{"x", "y"}, {"x", "table", "y"}, {"table", "y"}])
def test_a_gradient_function_adds_to_the_gradients_that_there_are(active):
    func, args = traced(calls_with_a_table, source=True), [np.array([0.5, 2.0]), np.array([3.0, 4.0]), np.zeros(2)]
    seeds = {"x": np.zeros(2), "table": np.zeros(2), "y": np.array([1.0, 10.0])}
    found, _ = gradients(func, [2], args, {name: seeds[name] for name in active})
    wanted = {"x": [6.0, 60.0], "table": [41.0, 176.0], "y": [0.0, 0.0]}
    assert {name: found[name].tolist() for name in active} == {name: wanted[name] for name in active}


@sim.kernel
def integers_first(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for j in range(n):
        at[i, 0] = (at[i, 0] + j + 1) % 3
    for _ in range(n):
        k = at[i, 0]
        x[i, k] = x[i, k] * x[i, (k + 1) % 3]
        at[i, 0] = (k + 2) % 3
    if n > 2:
        at[i, 1] = at[i, 0]
        at[i, 0] = 1


@sim.kernel
def integers_at_places_of_their_own(x: sim.array2d[f64], at: sim.array2d[int], n: int):
    i = sim.tid()
    for j in range(n):
        at[i, at[i, 0] % 2] = (at[i, 0] + j + 1) % 3
    for _ in range(n):
        k = at[i, 0]
        x[i, k] = x[i, k] * x[i, (k + 1) % 3]
        at[i, at[i, 1] % 2] = (k + 2) % 3


@sim.kernel
def other_steps(x: sim.array2d[f64], n: int, step: int, far: sim.int64):
    i = sim.tid()
    k, big = 0, far
    while k < n:
        x[i, (k + 1) % 3] = 0.5 * x[i, k % 3] * x[i, k % 3] + f64(big) * 0.01
        big += sim.int64(7)
        k += step


@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_loops_over_integers_are_taken_back_though_no_gradient_passes(n):
    for kernel in (integers_first, integers_at_places_of_their_own):
        made = check(kernel, [2], [numbers(2, 3), np.array([[0, 1], [2, 0]], np.int32), n], {"x"}, tolerance=1e-6)
        places = [
            ((int32, 2), (kind, 1)) for kind in (float64, int32)
        ]  # two indices and what was there, for each array
        assert [log.arrays for log in made.logs] == [*places, ((int32, 1),)]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_counters_with_other_steps_need_no_frame(step):
    made = check(other_steps, [2], [numbers(2, 3), 7, step, 5], {"x"}, tolerance=1e-6)
    assert {kind for log in made.logs for kind, _ in log.arrays} <= {
        float64,
        int32,
    }, "nothing is kept of the 64-bit counter"


@sim.kernel
def takes_in_nested_loops(x: sim.array2d[f64], count: sim.array[int], y: sim.array[f64], n: int):
    i = sim.tid()
    a, j = x[i, 0], 0
    while j < n:
        for k in range(j % 3):
            slot = sim.atomic_add(count, i, k + 1)
            a = a * x[i, slot % 3] + 0.1 * f64(slot)
        if a > 0.3:
            slot = sim.atomic_add(count, i, 1)
            a = a * 0.7 + x[i, slot % 3]
        j += 1
    y[i] = a


@pytest.mark.parametrize(("slots", "n"), [(512, 0), (512, 4), (2, 5), (4, 19)])
def test_what_atomics_returned_is_taken_again_wherever_a_loop_is_restored(slots, n, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    made = check(
        takes_in_nested_loops,
        [2],
        [numbers(2, 3), np.array([0, 5], np.int32), numbers(2), n],
        {"x", "y"},
        tolerance=1e-6,
    )
    assert made.returned == (int32,)


@sim.kernel
def planes(x: sim.array2d[f64], count: sim.array[int], y: sim.array2d[f64]):
    i, j = sim.tid()
    slot = sim.atomic_add(count, 0, 1)
    x[i, j] = sim.sin(x[i, j]) * x[i, j] + 0.0 * f64(slot)
    y[i, j] = x[i, j] * x[i, j]


def test_threads_of_several_dimensions_have_records_of_their_own():
    made = check(planes, [2, 3], [numbers(2, 3), np.zeros(1, np.int32), numbers(2, 3)], {"x", "y"}, record={"x", "y"})
    assert (
        made.func.dims == 2 and made.live_in == () and sum(slots for kind, slots in made.caches if kind is float64) > 0
    )


@sim.kernel
def put_together(m: sim.array[sim.mat33d], y: sim.array[sim.mat33d]):
    i = sim.tid()
    u, sigma, v = sim.svd3(m[i])
    y[i] = u * sim.diag(sigma) * sim.transpose(v)


def test_decompositions_put_together_in_a_kernel_are_right_where_values_coincide():
    func, ct = traced(put_together, source=True), numbers(1, 3, 3)
    for m in (np.diag([3.0, 2.0, 1.0]), np.eye(3)):
        found, _ = gradients(func, [1], [m[None], ct], {"m": np.zeros((1, 3, 3)), "y": ct})
        np.testing.assert_allclose(found["m"], ct, atol=1e-6)


@sim.kernel
def put_together_in_a_loop(m: sim.array[sim.mat33d], n: int):
    i = sim.tid()
    for _ in range(n):
        u, sigma, v = sim.svd3(m[i])
        m[i] = u * sim.diag(sigma) * sim.transpose(v)


def test_in_a_replay_values_are_not_moved_apart_and_equal_ones_are_refused():
    """Stores are performed again bit for bit: what was moved apart would be another number."""
    func, ct = traced(put_together_in_a_loop, source=True), numbers(1, 3, 3)
    found, made = gradients(func, [1], [np.diag([3.0, 2.0, 1.0])[None], 2], {"m": ct})
    assert made.logs
    np.testing.assert_allclose(found["m"], ct, atol=1e-9)
    with pytest.raises(Fault):
        gradients(func, [1], [np.eye(3)[None], 2], {"m": ct})


@sim.kernel
def uses_a_call_twice(x: sim.array[f64], table: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    d = dotted(x[i], table)
    y[i] = d * d


def test_calls_are_inlined_in_the_adjoint_and_stay_in_its_source():
    func, args = traced(uses_a_call_twice, source=True), [np.array([0.5, 2.0]), np.array([3.0, 4.0]), np.zeros(2)]
    found, made = gradients(func, [2], args, {"x": np.zeros(2), "y": np.ones(2)})
    assert found["x"].tolist() == [2 * 17.5 * 3, 2 * 22.0 * 3]
    assert not any(op.name == "call" for op in walk(made.func.body)) and any(
        op.name == "call" for op in walk(made.source.body)
    )


@pytest.mark.parametrize(("kernel", "active"), [
    (takes_in_nested_loops, {"x", "y"}), (lists_in_a_loop, {"x", "y"}), (overwrites_in_a_loop, {"x", "z"}),
    (integers_at_places_of_their_own, {"x"}),
], ids=lambda v: getattr(v, "name", ""))  # fmt: skip
def test_positions_in_logs_begin_at_zero(kernel, active):
    """Storage of a thread holds anything at first: it is written before it is read, in the adjoint and in the launch
    that counts."""
    made = kernel_adjoint(tbr_of(traced(kernel), active))
    for func in (made.func, made.recording):
        ops = list(walk(func.body))
        positions = [op.results[0] for op in ops if op.name == "tape" and op.attrs["slots"] == 1]
        assert positions
        for position in positions:
            first = next(op for op in ops if position in op.operands)
            assert first.name == "tape_store" and first.operands[2].const == 0 and first in func.body.ops
