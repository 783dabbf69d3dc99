"""Operators between arrays on the host."""

import operator

import numpy as np
import pytest

import sim

X, Y = np.array([1.5, -2.0, 7.0]), np.array([2.0, 3.0, -0.5])
_OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]


@pytest.mark.parametrize("op", _OPERATORS)
@pytest.mark.parametrize("dtype", [sim.float16, sim.float32, sim.float64])
def test_arrays_and_numbers(op, dtype):
    x, y = sim.array(X, dtype=dtype), sim.array(Y, dtype=dtype)
    for got, expected in (
        (op(x, y), op(X, Y)),
        (op(x, 2), op(X, 2)),
        (op(2.5, x), op(2.5, X)),
        (op(dtype(2), y), op(2, Y)),
    ):
        assert got.dtype is dtype
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-3 if dtype is sim.float16 else 1e-6)


def test_powers_signs_and_remainders():
    x, n = sim.array(X, dtype=float), sim.array([7, 8, -9], dtype=sim.int16)
    np.testing.assert_allclose((x**2).numpy(), X**2)
    np.testing.assert_allclose((2**x).numpy(), 2**X)
    np.testing.assert_allclose((-x).numpy(), -X)
    np.testing.assert_allclose((+x).numpy(), X)
    np.testing.assert_allclose((x // 2).numpy(), X // 2)
    assert (n % sim.int16(5)).list() == [sim.mod(sim.int16(k), sim.int16(5)) for k in (7, 8, -9)]
    assert (n + 1).dtype is sim.int16


def test_vectors_broadcasting_and_indexed_arrays():
    v = sim.array(np.arange(6.0).reshape(2, 3), dtype=sim.vec3d)
    np.testing.assert_array_equal((2 * v + sim.vec3d(1, 2, 3)).numpy(), 2 * v.numpy() + [1, 2, 3])
    m = sim.array(np.arange(6.0).reshape(2, 3), dtype=sim.float64)
    np.testing.assert_array_equal((m - sim.array(X)).numpy(), m.numpy() - X)
    chosen = sim.array(X, dtype=float)[sim.array([2, 0], dtype=int)]
    np.testing.assert_array_equal((chosen * 2.0).numpy(), [14.0, 3.0])


def test_in_place_and_gradient():
    """d/dx sum((x x + y) 2) = 4 x."""
    x, y = sim.array(X, requires_grad=True), sim.array(Y)
    total = sim.zeros(1, dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        z = x * x
        same = z
        z += y
        z *= 2
        sim.utils.array_sum(z, out=total)
    assert z is same
    tape.backward(total)
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)


def test_refused():
    n = sim.array([1, 2], dtype=int)
    with pytest.raises(TypeError, match="no implicit conversion"):
        n + 1.5
    with pytest.raises(TypeError, match="unsupported operand"):
        n + "1"
    with pytest.raises(TypeError):
        n + np.ones(2)
