"""Indices that may be negative count from the end; those that cannot be are used as they are."""

import numpy as np
import pytest

import sim
from sim.core.lang.frontend.tracer import trace_kernel
from sim.core.lang.ir.core import walk
from sim.core.lang.types import array_type, float32, int32

REALS, WHOLES = array_type(float32, 1), array_type(int32, 1)


def counted(kernel, *types, any_integers=False):
    """How many indices of a kernel may count from the end."""
    func = trace_kernel(kernel, types, may_be_negative=any_integers)
    return sum(op.name == "from_end" for op in walk(func.body)), func.attrs["not_negative"]


def direct(a, n):
    i = sim.tid()
    a[i] = a[i + 1] + a[2 * i] + a[i % 3] + a[max(i - 4, 0)] + a[i // 2]
    for k in range(1, 9):
        a[k - 1] = a[i >> 1]


def guarded(a, n):
    i = sim.tid()
    if i > 1 and a[i - 2] > 0.0:
        a[i - 2] = 0.0
    if i == 0:
        return
    a[i - 1] = a[i - 1] + 1.0
    if i >= n:
        a[i - n] = 2.0


def of_width(a, n):
    i = sim.tid()
    row, column = i // n, i % n
    a[row * n + column] = a[i + n]


def unknown(a, n):
    i = sim.tid()
    a[i - 1] = a[-1]
    if i < 3:
        a[i - 1] = 0.0
    a[int(a[i])] = 1.0
    a[i - n] = 1.0


def gathered(a, at):
    i = sim.tid()
    a[i] = a[at[i]] + sim.vec3(a[0])[at[i] - 1]


@pytest.mark.parametrize(
    ("kernel", "may_be", "needed"), [(direct, 0, ()), (guarded, 0, ()), (of_width, 0, (1,)), (unknown, 4, ())]
)
def test_only_indices_that_may_be_negative_are_looked_at(kernel, may_be, needed):
    assert counted(kernel, REALS, int32) == (may_be, needed)


def test_without_the_promise_integers_of_the_kernel_are_looked_at():
    assert counted(of_width, REALS, int32, any_integers=True) == (2, ())


def test_numbers_from_memory_are_looked_at():
    assert counted(gathered, REALS, WHOLES)[0] == 2


@sim.kernel
def shifted(x: sim.array(dtype=float), out: sim.array(dtype=float), by: int):
    i = sim.tid()
    out[i] = 2.0 * x[i + by]


@pytest.mark.parametrize("by", [0, 1, -1, -4])
def test_values_and_gradients_of_a_shift(by):
    x = sim.array(np.arange(4.0), dtype=float, requires_grad=True)
    out = sim.zeros(3, dtype=float, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(shifted, dim=3, inputs=[x, out, by])
    tape.backward(grads={out: sim.array([1.0, 10.0, 100.0], dtype=float)})
    at = np.arange(by, by + 3) % 4
    expected = np.zeros(4)
    np.add.at(expected, at, [2.0, 20.0, 200.0])
    assert out.numpy().tolist() == (2.0 * at).tolist()
    assert x.grad.numpy().tolist() == expected.tolist()


def test_a_recorded_launch_notices_that_a_number_is_negative():
    x, out = sim.array(np.arange(4.0), dtype=float), sim.zeros(3, dtype=float)
    command = sim.launch(shifted, dim=3, inputs=[x, out, 0], record_cmd=True)
    command.set_param_by_name("by", -1)
    command.launch()
    assert out.numpy().tolist() == [6.0, 0.0, 2.0]
    command.set_param_by_name("by", 1)
    command.launch()
    assert out.numpy().tolist() == [2.0, 4.0, 6.0]


@sim.kernel
def of_many_dimensions(x: sim.array2d(dtype=sim.vec3), at: sim.array(dtype=int), out: sim.array(dtype=float)):
    i = sim.tid()
    k = at[i]
    part, v, m = sim.zeros(shape=3, dtype=float), x[k, k - 1], sim.outer(x[0, 0], x[k, 0])
    part[k] = 1.0
    out[i] = v[k] + 10.0 * m[k, k] + 100.0 * part[-2] + x[k][k][k] + float(x.shape[k])


def test_all_that_can_be_indexed(checked_bounds):
    x = np.random.default_rng(0).random((2, 3, 3), dtype=np.float32)
    at = np.array([-1, 1, -2])
    out = sim.zeros(3, dtype=float)
    sim.launch(of_many_dimensions, 3, [sim.array(x, dtype=sim.vec3), sim.array(at, dtype=int), out])
    expected = [x[k, k - 1][k] + 10 * x[0, 0][k] * x[k, 0][k] + 100 * (k % 3 == 1) + x[k, k][k] + (2, 3)[k] for k in at]
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


@pytest.fixture
def checked_bounds():
    sim.set_check_bounds(True)
    yield
    sim.set_check_bounds(False)


def test_what_is_before_the_first_is_still_out_of_bounds(checked_bounds):
    x, out = sim.zeros(4, dtype=float), sim.zeros(3, dtype=float)
    with pytest.raises(sim.KernelFault, match="x"):
        sim.launch(shifted, dim=3, inputs=[x, out, -5])
