"""`sim.optim.linear` against NumPy's direct solver, and its gradients against the closed form."""

import numpy as np
import pytest
from sim.optim.linear import (
    LinearOperator,
    LinearSolverError,
    aslinearoperator,
    bicgstab,
    cg,
    cr,
    gmres,
    preconditioner,
)

import sim

N = 24
rng = np.random.default_rng(1)
NOISE = rng.normal(size=(N, N))
DEFINITE = NOISE @ NOISE.T + N * np.eye(N)
GENERAL = NOISE + 2 * N * np.eye(N)
RIGHT = rng.normal(size=N)
WEIGHTS = rng.normal(size=N)


@sim.kernel
def laplace(
    k: sim.array(dtype=sim.float64),
    x: sim.array(dtype=sim.float64),
    y: sim.array(dtype=sim.float64),
    z: sim.array(dtype=sim.float64),
    alpha: sim.float64,
    beta: sim.float64,
):
    """A chain of springs of stiffness k[i] between i - 1 and i, whose ends are held."""
    i = sim.tid()
    n = x.shape[0]
    total = (k[i] + k[i + 1]) * x[i]
    if i > 0:
        total -= k[i] * x[i - 1]
    if i < n - 1:
        total -= k[i + 1] * x[i + 1]
    z[i] = alpha * total + beta * y[i]


def chain(k: sim.array, transposed: bool = True) -> LinearOperator:
    def product(x, y, z, alpha, beta):
        sim.launch(laplace, x.shape, [k, x, y, z, alpha, beta])

    size = k.shape[0] - 1
    return LinearOperator((size, size), k.dtype, k.device, product, transposed=product if transposed else None)


def dense_chain(k: np.ndarray) -> np.ndarray:
    return np.diag(k[:-1] + k[1:]) - np.diag(k[1:-1], 1) - np.diag(k[1:-1], -1)


@pytest.mark.parametrize("jacobi", ["id", "diag", "diag_abs"])
@pytest.mark.parametrize(
    ("solver", "matrix", "settings"),
    [
        (cg, DEFINITE, {}),
        (cr, DEFINITE, {}),
        (bicgstab, GENERAL, {}),
        (bicgstab, DEFINITE, {"is_left_preconditioner": True}),
        (gmres, GENERAL, {}),
        (gmres, DEFINITE, {"restart": 9}),
        (gmres, GENERAL, {"is_left_preconditioner": True}),
    ],
)
def test_solutions_and_gradients(solver, matrix, settings, jacobi):
    a, b = sim.array(matrix, requires_grad=True), sim.array(RIGHT, requires_grad=True)
    x = sim.array(rng.normal(size=N), requires_grad=True)
    a.grad.fill_(0.5)
    with sim.Tape() as tape:
        count, norm, bound = solver(a, b, x, tol=1e-13, atol=0.0, maxiter=300, M=preconditioner(a, jacobi), **settings)
    assert 0 < count < 300 and norm <= bound
    solution, adjoint = np.linalg.solve(matrix, RIGHT), np.linalg.solve(matrix.T, WEIGHTS)
    np.testing.assert_allclose(x.numpy(), solution, atol=1e-11)
    tape.backward(grads={x: WEIGHTS})
    np.testing.assert_allclose(b.grad.numpy(), adjoint, atol=1e-11)
    np.testing.assert_allclose(a.grad.numpy() - 0.5, -np.outer(adjoint, solution), atol=1e-11)
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("solver", [cg, cr, gmres])
def test_gradients_reach_what_an_operator_is_made_of(solver):
    stiffness = rng.uniform(1.0, 2.0, size=9)
    k, b = sim.array(stiffness, requires_grad=True), sim.array(RIGHT[:8], requires_grad=True)
    x = sim.zeros(8, dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        solver(chain(k), b, x, tol=1e-14, maxiter=50)
    tape.backward(grads={x: WEIGHTS[:8]})

    def loss(k: np.ndarray) -> float:
        return WEIGHTS[:8] @ np.linalg.solve(dense_chain(k), RIGHT[:8])

    steps = 1e-6 * np.eye(9)
    slopes = [(loss(stiffness + s) - loss(stiffness - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(k.grad.numpy(), slopes, rtol=1e-7)


def test_an_overwritten_right_hand_side_and_solution():
    b = sim.array(RIGHT, requires_grad=True)
    x, y = (sim.zeros(N, dtype=sim.float64, requires_grad=True) for _ in range(2))
    with sim.Tape() as tape:
        cg(sim.array(DEFINITE), b, x, tol=1e-14)
        sim.copy(y, x)
        b.fill_(0.0)
        x.fill_(0.0)
    tape.backward(grads={y: WEIGHTS})
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.solve(DEFINITE, WEIGHTS), atol=1e-12)
    np.testing.assert_allclose(y.numpy(), np.linalg.solve(DEFINITE, RIGHT), atol=1e-12)


def test_single_precision_and_vectors():
    b = sim.array(RIGHT.reshape(-1, 3), dtype=sim.vec3)
    x = sim.zeros(N // 3, dtype=sim.vec3)
    count, norm, bound = cg(sim.array(DEFINITE.astype(np.float32)), b, x, maxiter=200)
    assert count <= N and norm <= bound
    np.testing.assert_allclose(x.numpy().ravel(), np.linalg.solve(DEFINITE, RIGHT), rtol=1e-4, atol=1e-6)
    diagonal = sim.array(np.arange(1.0, 1.0 + N).reshape(-1, 3), dtype=sim.vec3)
    gmres(diagonal, b, x, maxiter=200, M=preconditioner(diagonal))
    np.testing.assert_allclose(x.numpy().ravel(), RIGHT / np.arange(1.0, 1.0 + N), rtol=1e-5)


def test_a_graph_solves_for_what_is_there():
    b, x = sim.zeros(N, dtype=sim.float64), sim.zeros(N, dtype=sim.float64)
    with sim.ScopedCapture() as capture:
        x.zero_()
        cg(sim.array(DEFINITE), b, x, tol=1e-13)
    for k in range(2):
        b.assign(RIGHT * (k + 1))
        sim.capture_launch(capture.graph)
        np.testing.assert_allclose(x.numpy(), np.linalg.solve(DEFINITE, RIGHT) * (k + 1), atol=1e-11)


def test_the_callback_sees_the_residual_fall():
    seen = []
    x = sim.zeros(N, dtype=sim.float64)
    result = cr(sim.array(DEFINITE), sim.array(RIGHT), x, callback=lambda *a: seen.append(a), check_every=1)
    norms = [norm for _, norm, _ in seen]
    assert [k for k, _, _ in seen] == list(range(result[0] + 1))
    assert norms == sorted(norms, reverse=True) and seen[-1] == result
    assert cg(sim.array(DEFINITE), sim.array(RIGHT), sim.zeros_like(x), tol=1e-14, maxiter=3)[0] == 3
    assert cg(sim.array(DEFINITE), sim.zeros_like(x), sim.zeros_like(x))[0] == 0


def test_what_does_not_fit_is_refused():
    a, b, x = sim.array(DEFINITE), sim.array(RIGHT), sim.zeros(N, dtype=sim.float64)
    for call, words in (
        (lambda: cg(a, b, sim.zeros(N)), "x has elements of float32"),
        (lambda: cg(a, b, x[: N - 1]), "shape"),
        (lambda: cg(sim.array(DEFINITE[:, :3]), b, x), "24 rows and 3 columns"),
        (lambda: cg(sim.array(DEFINITE[:3, :3]), b, x), "3 rows, b 24 numbers"),
        (lambda: aslinearoperator("matrix"), "sparse matrices are not supported"),
        (lambda: preconditioner(a, "ilu"), "no preconditioner 'ilu'"),
        (lambda: preconditioner(chain(sim.array(RIGHT)), "diag"), "make one of your own"),
        (lambda: gmres(a, b, x, restart=0), "at least 1"),
        (lambda: LinearOperator((N, N), b.dtype, b.device, None, batch_offsets=b), "one by one"),
    ):
        with pytest.raises(LinearSolverError, match=words):
            call()
    c = sim.array(RIGHT[:8], requires_grad=True)
    y = sim.zeros(8, dtype=sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        gmres(chain(sim.array(np.ones(9)), transposed=False), c, y)
    with pytest.raises(sim.GradientError, match="transpose"):
        tape.backward(grads={y: WEIGHTS[:8]})
    with sim.Tape(), pytest.raises(sim.GradientError, match="x has no gradient"):
        cg(a, sim.array(RIGHT, requires_grad=True), x)
