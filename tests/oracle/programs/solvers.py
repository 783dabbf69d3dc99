"""Programs about linear solvers (form: `functions`)."""

import numpy as np
from sim.optim import linear

import sim as wp


def _system(n=12):
    r = np.random.default_rng(9)
    m = r.normal(size=(n, n))
    return m @ m.T + n * np.eye(n), r.normal(size=n)


def conjugate_gradients():
    a, b = _system()
    x = wp.zeros(12, dtype=wp.float64)
    linear.cg(wp.array(a), wp.array(b), x, tol=1e-12, maxiter=200)
    return [x.numpy(), [1.0]]


def conjugate_residuals():
    a, b = _system()
    x = wp.zeros(12, dtype=wp.float64)
    linear.cr(wp.array(a), wp.array(b), x, tol=1e-12, maxiter=200)
    return [x.numpy()]


def stabilised_bicgradients():
    a, b = _system()
    x = wp.zeros(12, dtype=wp.float64)
    linear.bicgstab(wp.array(a + np.triu(a) * 0.1), wp.array(b), x, tol=1e-12, maxiter=200)
    return [x.numpy()]


def minimal_residuals():
    a, b = _system()
    x = wp.zeros(12, dtype=wp.float64)
    linear.gmres(wp.array(a + np.triu(a) * 0.1), wp.array(b), x, tol=1e-12, maxiter=200, restart=20)
    return [x.numpy()]


def preconditioned():
    a, b = _system()
    x = wp.zeros(12, dtype=wp.float64)
    matrix = wp.array(a)
    linear.cg(matrix, wp.array(b), x, tol=1e-12, M=linear.preconditioner(matrix, "diag"))
    return [x.numpy()]
