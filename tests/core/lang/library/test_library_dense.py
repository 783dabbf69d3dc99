"""Matrices in arrays: products, Cholesky's factor and linear systems against NumPy, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim

N, REGULARIZATION = 4, 0.1


@sim.kernel
def product(t1: int, t2: int, a: sim.array(dtype=sim.float64), b: sim.array(dtype=sim.float64), c: sim.array(dtype=sim.float64)):  # fmt: skip # noqa: E501
    sim.dense_gemm(2, 3, N, t1, t2, a, b, c)


@sim.kernel
def factor(a: sim.array(dtype=sim.float64), lower: sim.array(dtype=sim.float64)):
    sim.dense_chol(N, a, sim.float64(REGULARIZATION), lower)


@sim.kernel
def solve(
    a: sim.array(dtype=sim.float64), lower: sim.array(dtype=sim.float64), b: sim.array(dtype=sim.float64),
    x: sim.array(dtype=sim.float64), y: sim.array(dtype=sim.float64),
):  # fmt: skip
    sim.dense_solve(N, a, lower, b, x)
    sim.dense_subs(N, lower, b, y)


def flat(values: Any) -> Any:
    return sim.array(np.ascontiguousarray(values).ravel(), dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("t1", [0, 1])
@pytest.mark.parametrize("t2", [0, 1])
def test_products(t1: int, t2: int) -> None:
    rng = np.random.default_rng(1)
    a, b, w = rng.normal(size=(2, N)), rng.normal(size=(N, 3)), rng.normal(size=(2, 3))
    ours = [flat(a.T if t1 else a), flat(b.T if t2 else b), flat(np.zeros(6))]
    with sim.Tape() as tape:
        sim.launch(product, dim=1, inputs=[t1, t2, *ours])
    np.testing.assert_allclose(ours[2].numpy().reshape(2, 3), a @ b, rtol=1e-14)
    tape.backward(grads={ours[2]: flat(w)})
    for x, t, expected in ((ours[0], t1, w @ b.T), (ours[1], t2, a.T @ w)):
        np.testing.assert_allclose(x.grad.numpy(), (expected.T if t else expected).ravel(), rtol=1e-13)


def test_systems_and_their_gradients() -> None:
    """By A, through the factor: -(A^-1 w) x^T, of which Cholesky reads the lower half; by b: A^-1 w."""
    rng = np.random.default_rng(2)
    m, b, w = rng.normal(size=(N, N)), rng.normal(size=N), rng.normal(size=N)
    a = m @ m.T
    ours, lower, right, x, y = flat(a), flat(np.zeros((N, N))), flat(b), flat(np.zeros(N)), flat(np.zeros(N))
    with sim.Tape() as tape:
        sim.launch(factor, dim=1, inputs=[ours, lower])
        sim.launch(solve, dim=1, inputs=[ours, lower, right, x, y])
    whole = a + REGULARIZATION * np.eye(N)
    solution, multipliers = np.linalg.solve(whole, b), np.linalg.solve(whole, w)
    np.testing.assert_allclose(lower.numpy().reshape(N, N), np.linalg.cholesky(whole), atol=1e-13)
    np.testing.assert_allclose(x.numpy(), solution, rtol=1e-12)
    assert (x.numpy() == y.numpy()).all()
    tape.backward(grads={x: flat(w)})
    np.testing.assert_allclose(right.grad.numpy(), multipliers, rtol=1e-12)
    found, expected = ours.grad.numpy().reshape(N, N), -np.outer(multipliers, solution)
    np.testing.assert_allclose(found, np.tril(expected + expected.T) - np.diag(np.diag(expected)), atol=1e-12)
