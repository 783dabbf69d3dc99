"""Threads that do nothing are not run, and only those."""

import numpy as np
import pytest

import sim
from sim.core.lang.analysis.guards import guard_of

f64 = sim.float64


@sim.kernel
def below(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if i < count[count.shape[0] - 1]:
        y[i] = x[i] * x[i]


@sim.kernel
def else_too(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if i < count[0]:
        y[i] = x[i]
    else:
        y[i] = -x[i]


@sim.kernel
def before_too(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i]
    if i < count[0]:
        y[i] += 1.0


@sim.kernel
def of_each(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if i < count[i]:
        y[i] = x[i]


@sim.kernel
def that_grows(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if i < count[0]:
        y[i] = x[i]
        count[1] = 7


@sim.kernel
def backwards(count: sim.array[int], x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    if count[0] < i:
        y[i] = x[i]


def traced(kernel: sim.Kernel):
    return kernel.specialise(tuple(p.type for p in kernel.parameters)).func


def test_a_guard_around_all_that_a_kernel_does() -> None:
    guard = guard_of(traced(below))
    assert guard is not None and guard.ops[-1].results == [guard.bound]


@pytest.mark.parametrize("kernel", [else_too, before_too, of_each, that_grows, backwards], ids=lambda k: k.name)
def test_no_guard(kernel: sim.Kernel) -> None:
    assert guard_of(traced(kernel)) is None


@pytest.mark.parametrize("count", [-3, 0, 5, 16, 29, 30, 31, 1000])
def test_threads_below_the_bound(count: int) -> None:
    x = sim.array(np.arange(30.0), dtype=f64, requires_grad=True)
    y = sim.full(30, -1.0, dtype=f64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(below, 30, inputs=[sim.array([99, count], dtype=sim.int32), x], outputs=[y])
    done = np.arange(30) < count
    np.testing.assert_array_equal(y.numpy(), np.where(done, np.arange(30.0) ** 2, -1.0))
    tape.backward(grads={y: sim.ones(30, dtype=f64)})
    np.testing.assert_array_equal(x.grad.numpy(), np.where(done, 2.0 * np.arange(30.0), 0.0))
