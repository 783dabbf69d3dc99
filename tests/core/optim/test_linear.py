"""`sim.optim.linear` against NumPy's direct solver, and its gradients against the closed form."""

import numpy as np
import pytest
from sim.optim.linear import (
    CG,
    GMRES,
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


@pytest.mark.parametrize("left", [None, False, True])
@pytest.mark.parametrize("solver", [cg, cr, bicgstab, gmres])
def test_systems_side_by_side_are_solved_each_by_itself(solver, left):
    """Of one of many sizes, one of numbers of another order, and unknowns behind them that are left alone."""
    sizes, whole = [3, 1, 8], np.eye(N)
    ends = np.cumsum([0, *sizes])
    for low, high in zip(ends, ends[1:], strict=False):
        whole[low:high, low:high] = 10.0 ** (low / 2) * DEFINITE[low:high, low:high]
    a, b = sim.array(whole, requires_grad=True), sim.array(RIGHT, requires_grad=True)
    x = sim.ones(N, dtype=sim.float64, requires_grad=True)
    operator = aslinearoperator(a, batch_offsets=sim.array(ends, dtype=int), max_batch_length=8)
    assert operator.batch_count == 3
    given = {} if left is None or solver in (cg, cr) else {"is_left_preconditioner": left}
    jacobi = None if left is None else preconditioner(a)
    count, norm, bound = solver(operator, b, x, tol=1e-11, atol=0.0, M=jacobi, maxiter=40, **given)
    assert 0 < count < 40 and norm <= bound
    np.testing.assert_allclose(x.numpy()[:12], np.linalg.solve(whole, RIGHT)[:12], rtol=1e-10)
    assert (x.numpy()[12:] == 1.0).all()
    with sim.Tape(), pytest.raises(sim.GradientError, match="leave out some of the 24 unknowns"):
        solver(operator, b, x)
    every = aslinearoperator(a, batch_offsets=sim.array([0, 3, 4, N], dtype=int))
    with sim.Tape() as tape:
        solver(every, b, x, tol=1e-11, atol=0.0, maxiter=40)
    tape.backward(grads={x: WEIGHTS})
    np.testing.assert_allclose(b.grad.numpy(), np.linalg.solve(whole.T, WEIGHTS), rtol=1e-9)


@pytest.mark.parametrize("solver", [cg, cr])
def test_a_restart_looks_at_the_residual_itself(solver):
    seen, x = [], sim.zeros(N, dtype=sim.float64)
    a, b = sim.array(DEFINITE), sim.array(RIGHT)
    count, norm, bound = solver(
        a, b, x, tol=1e-10, maxiter=99, restart=5, check_every=1, callback=lambda *s: seen.append(s[0])
    )
    assert seen == list(range(0, count + 1, 5)) and norm <= bound
    np.testing.assert_allclose(np.linalg.norm(RIGHT - DEFINITE @ x.numpy()), norm, atol=1e-13)


def test_a_solver_is_called_again_for_other_arrays():
    a, b, x = sim.array(DEFINITE), sim.array(RIGHT), sim.zeros(N, dtype=sim.float64)
    solver = cg(a, b, x, tol=1e-12, maxiter=99, run=False)
    assert isinstance(solver, CG) and not x.numpy().any()
    solver()
    y = sim.zeros_like(x)
    solver(A=sim.array(2.0 * DEFINITE), x=y, M=preconditioner(a))
    np.testing.assert_allclose(y.numpy(), 0.5 * x.numpy(), rtol=1e-9)


def test_counts_and_norms_stay_in_arrays_for_graphs():
    a, b, x = sim.array(DEFINITE), sim.array(RIGHT), sim.zeros(N, dtype=sim.float64)
    solver = gmres(a, b, x, tol=1e-12, maxiter=99, check_every=0, run=False)
    assert isinstance(solver, GMRES)
    with sim.ScopedCapture() as capture:
        count, square, bound = solver()
    sim.capture_launch(capture.graph)
    assert 0 < count.numpy()[0] < 99 and square.numpy()[0] <= bound.numpy()[0]
    sim.capture_launch(capture.graph)
    assert count.numpy()[0] == 0
    b.assign(2.0 * RIGHT)
    sim.capture_launch(capture.graph)
    assert count.numpy()[0] > 0
    np.testing.assert_allclose(x.numpy(), 2.0 * np.linalg.solve(DEFINITE, RIGHT), atol=1e-9)


def test_the_callback_sees_the_residual_fall():
    seen = []
    x = sim.zeros(N, dtype=sim.float64)
    result = cr(sim.array(DEFINITE), sim.array(RIGHT), x, callback=lambda *a: seen.append(a), check_every=1)
    norms = [norm for _, norm, _ in seen]
    assert [k for k, _, _ in seen] == list(range(result[0] + 1))
    assert norms == sorted(norms, reverse=True) and seen[-1] == result
    assert cg(sim.array(DEFINITE), sim.array(RIGHT), sim.zeros_like(x), tol=1e-14, maxiter=3)[0] == 3
    assert cg(sim.array(DEFINITE), sim.zeros_like(x), sim.zeros_like(x))[0] == 0


def test_the_device_of_an_operator_may_be_its_name():
    k = sim.array(np.ones(N + 1))
    for device in ("cpu", None, k.device):
        made = LinearOperator((N, N), k.dtype, device, chain(k).matvec)
        x = sim.zeros(N, dtype=sim.float64)
        cg(made, sim.array(RIGHT), x, tol=1e-12, maxiter=100)
        np.testing.assert_allclose(dense_chain(np.ones(N + 1)) @ x.numpy(), RIGHT, atol=1e-9)


def test_what_does_not_fit_is_refused():
    a, b, x = sim.array(DEFINITE), sim.array(RIGHT), sim.zeros(N, dtype=sim.float64)
    with pytest.raises(TypeError):
        cg(a, b, x, restart=1.5)
    for call, words in (
        (lambda: cg(a, b, sim.zeros(N)), "x has elements of float32"),
        (lambda: cg(a, b, x[: N - 1]), "shape"),
        (lambda: cg(sim.array(DEFINITE[:, :3]), b, x), "24 rows and 3 columns"),
        (lambda: cg(sim.array(DEFINITE[:3, :3]), b, x), "3 rows, b 24 numbers"),
        (lambda: aslinearoperator("matrix"), "sparse matrices are not supported"),
        (lambda: preconditioner(a, "ilu"), "no preconditioner 'ilu'"),
        (lambda: preconditioner(chain(sim.array(RIGHT)), "diag"), "make one of your own"),
        (lambda: gmres(a, b, x, restart=0), "at least 1"),
        (lambda: cg(a, b, x, restart=-1), "restart is -1"),
        (lambda: aslinearoperator(a, batch_offsets=b), "one dimension of int32"),
        (lambda: aslinearoperator(a, max_batch_length=3), "requires batch_offsets"),
        (lambda: cg(aslinearoperator(a, sim.array([3, 0], dtype=int)), b, x), r"batch_offsets are \[3, 0\]"),
        (lambda: cg(aslinearoperator(a, sim.array([0, N + 1], dtype=int)), b, x), "vectors of 24 numbers"),
        (lambda: cg(a, b, x, run=False)(A=aslinearoperator(a, sim.array([0, N], dtype=int))), "another array"),
        (lambda: cg(a, b, x, run=False)(b=b[:3]), "made for a matrix"),
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
