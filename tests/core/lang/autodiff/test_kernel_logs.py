"""What atomics return inside loops, as slots of a list: it cannot be computed again, so the launch that is recorded
writes it down."""

import sys

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient, backend

import sim
from sim.core.lang.autodiff import checkpoints

f64 = sim.float64


@pytest.fixture(autouse=True, params=["interp", "llvm", "cuda"])
def on_backend(request):
    with backend(request.param, sys.modules[__name__]):
        yield


@sim.kernel
def close_pairs(x: sim.array[f64], count: sim.array[int], first: sim.array[int], depth: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        other = x[j % x.shape[0]]
        d = x[i] - other
        if d * d > 0.0 and d * d < 0.2:
            slot = sim.atomic_add(count, 0, 1)
            first[slot] = i
            depth[slot] = 0.5 - sim.abs(d) * other


@sim.kernel
def energy(count: sim.array[int], first: sim.array[int], depth: sim.array[f64], x: sim.array[f64], out: sim.array[f64]):
    k = sim.tid()
    if k < count[0]:
        sim.atomic_add(out, 0, depth[k] * depth[k] * x[first[k]] * f64(k + 1))


@sim.kernel
def nested_with_a_recurrence(x: sim.array2d[f64], count: sim.array[int], out: sim.array[f64], n: int):
    i = sim.tid()
    a = x[i, 0]
    j = 0
    while j < n:
        for k in range(j % 3 + 1):
            x[i, k % 2] = x[i, (k + 1) % 2] * a + 0.1
            if x[i, k % 2] < 0.9:
                slot = sim.atomic_add(count, i, 1)
                a = a * 0.9 + x[i, slot % 2] * 0.2
                if slot > 40:
                    return
        j += 1
    sim.atomic_add(out, 0, a * a * x[i, 0] * x[i, 1])


def listed(x, n):
    count, first = sim.zeros(1, dtype=int), sim.zeros(64, dtype=int)
    depth, out = sim.zeros(64, dtype=f64, requires_grad=True), sim.zeros(1, dtype=f64, requires_grad=True)
    for _ in range(2):  # the list is built anew
        count.zero_()
        sim.launch(close_pairs, x.shape[0], [x, count, first, depth, n])
        sim.launch(energy, 64, [count, first, depth, x], [out])
    return out


@pytest.mark.parametrize(("slots", "n"), [(512, 0), (512, 5), (4, 13)])
def test_a_list_filled_in_a_loop(slots, n, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    (found,) = assert_gradient(lambda x: listed(x, n), array([0.1, 0.7, 0.35, 0.9, 0.62]), tolerance=1e-6)
    assert n == 0 or np.abs(found).max() > 1e-3


@pytest.mark.parametrize(("slots", "n"), [(512, 6), (2, 17)])
def test_beside_stores_that_are_replayed(slots, n, monkeypatch):
    monkeypatch.setattr(checkpoints, "SLOTS", slots)

    def program(x):
        out = sim.zeros(1, dtype=f64, requires_grad=True)
        sim.launch(nested_with_a_recurrence, 2, [x, sim.zeros(2, dtype=int), out, n])
        return out

    (found,) = assert_gradient(program, array([[0.4, 0.7], [0.8, 0.5]]), tolerance=1e-6)
    assert np.abs(found).max() > 1e-4


def test_what_is_kept_is_reported_and_an_adjoint_launch_alone_is_refused():
    x = array([0.1, 0.3, 0.5])
    with sim.Tape() as tape:
        out = listed(x, 3)
    assert any("what atomics of the launch of 'close_pairs' returned" in entry.reason for entry in tape.memory())
    arguments = [x, sim.zeros(1, dtype=int), sim.zeros(64, dtype=int), sim.zeros(64, dtype=f64, requires_grad=True), 3]
    with pytest.raises(sim.LaunchError, match="'count'"):
        sim.launch(close_pairs, 3, arguments, adjoint=True)
    tape.backward(out)


def test_a_captured_backward_seeds_anew_and_finds_logs_that_are_too_short():
    x, count, first = array([0.1, 0.7, 0.35, 0.9, 0.62]), sim.zeros(1, dtype=int), sim.zeros(64, dtype=int)
    depth, out = sim.zeros(64, dtype=f64, requires_grad=True), sim.zeros(1, dtype=f64, requires_grad=True)
    tape = sim.Tape()
    with sim.capture() as forward, tape:
        count.zero_()
        out.zero_()
        sim.launch(close_pairs, 5, [x, count, first, depth, 5])
        sim.launch(energy, 64, [count, first, depth, x], [out])
    with sim.capture() as backward:
        tape.zero()
        tape.backward(out)
    for values in ([0.1, 0.7, 0.35, 0.9, 0.62], [0.12, 0.7, 0.36, 0.9, 0.62]):
        x.assign(np.array(values))
        forward.replay()
        backward.replay()
        again = array(values)
        with sim.Tape() as plain:
            loss = sim.zeros(1, dtype=f64, requires_grad=True)
            count.zero_()
            sim.launch(close_pairs, 5, [again, count, first, depth, 5])
            sim.launch(energy, 64, [count, first, depth, again], [loss])
        plain.backward(loss)
        np.testing.assert_array_equal(x.grad.numpy(), again.grad.numpy())
    x.assign(np.array([0.1, 0.15, 0.12, 0.13, 0.14]))  # more pairs than when it was captured
    forward.replay()
    with pytest.raises(sim.GradientError, match="capture it again"):
        backward.replay()
