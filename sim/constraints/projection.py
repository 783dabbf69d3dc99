"""What follows from C: the XPBD projection, energy, force and rest measurement, one generic kernel each.

Equation numbers: M. Macklin, M. Mueller, N. Chentanez, "XPBD: Position-Based Simulation of Compliant Constrained
Dynamics", MIG 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.constraints.base import Constraint, ConstraintError
from sim.constraints.particles import particle_layout
from sim.core.backends.interp import evaluate
from sim.core.lang.embedding import embed, fields_at, value_and_grad
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.source import own_module
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.vector import dot, outer
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type, float64, matrix, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

matrix_of = matrix


@memoize
def parameter_struct(c: Constraint, real: Scalar) -> Struct:
    """The parameters of a set of constraints: one array each."""
    return Struct(f"{c.name}_parameters", {p.name: array_type(p.type(real)) for p in c.parameters.values()})


def value_type(c: Constraint, real: Scalar) -> Any:
    """What C, its compliance and its multiplier are: a scalar, or a vector of its rows."""
    return real if c.rows == 1 else vector(c.rows, real)


def weight_type(points: int, real: Scalar) -> Any:
    """The inverse masses of the points of a constraint: a scalar, or a vector of them."""
    return real if points == 1 else vector(points, real)


@memoize
def make_weighing(n_points: int, real: Scalar) -> Kernel:
    """weights[k] = inverse masses of the points of constraint k, side by side, as projections take them."""
    weight = weight_type(n_points, real)

    @kernel(name=f"weigh_{n_points}")
    def weigh(points: array2d[int], w: array[real], weights: array[weight]):
        k = tid()
        if n_points == 1:
            weights[k] = w[points[k, 0]]
        else:
            found = weight()
            for j in static(range(n_points)):
                found[j] = w[points[k, j]]
            weights[k] = found

    return weigh


def constraint_at(c: Constraint, real: Scalar, gradient: bool) -> Function:
    """`at(points, parameters, k)` in a kernel: C of constraint k there, or (C, gradients), gradients[row][point]."""
    evaluate = (value_and_grad if gradient else embed)(lambda: c.traced(real), f"{c.name}_at")

    @func(name=f"{c.name}_at")
    def at(points, parameters, k):
        return evaluate(points, fields_at(parameters, k))

    return at


@func
def solve(a, b):
    """x with a x = b, for a small symmetric positive definite matrix: elimination without pivoting."""
    n = len(b)
    for i in static(range(n)):
        for j in static(range(i + 1, n)):
            f = a[j, i] / a[i, i]
            for k in static(range(i, n)):
                a[j, k] = a[j, k] - f * a[i, k]
            b[j] = b[j] - f * b[i]
    for i in static(range(n - 1, -1, -1)):
        for k in static(range(i + 1, n)):
            b[i] = b[i] - a[i, k] * b[k]
        b[i] = b[i] / a[i, i]
    return b


@solve.vjp
def _solve_vjp(a, b, x, ct):
    t = solve(transpose(a), ct)
    return outer(-t, x), t


@memoize
def refuse_not_unit(c: Constraint) -> None:
    """Raises ConstraintError where a gradient that is declared to be of length one is not."""
    func = c.gradient(float64).func
    for trial in range(3):
        given = 1.0 + 0.5 * np.sin(1.7 * np.arange(len(func.params) - 1) + trial)
        gradients = np.reshape(evaluate(func, *given, 1.0), (c.points, 3))
        sizes = np.linalg.norm(gradients, axis=1)
        if not (np.abs(sizes - 1.0) < 1e-9).all():
            found = ", ".join(f"{size:.3g}" for size in sizes)
            raise ConstraintError(
                f"constraint '{c.name}' is declared with unit=True, but its gradients by its points have the lengths"
                f" {found} at some place, not 1; leave `unit` out"
            )


@memoize
def make_projection(
    c: Constraint, real: Scalar, first: bool, damped: bool, averaged: bool, exclusive: bool = False
) -> Kernel:
    """One XPBD projection of constraints `start + tid()`, eq. 18, with Rayleigh damping, eq. 26.

    first:    the multipliers are zero before (first iteration of a substep), so they are not read.
    damped:   with gamma = damping / dt, on the rows that damping acts on; else the term is not there.  Such a row is
              that of eq. 26 times alpha: (1 + gamma) J W J^T + alpha, with gamma alone if it is not elastic.
    averaged: Jacobi with mass splitting: a point of n constraints, its valence, counts as n of mass m / n, so that all
              corrections may be applied at once and momentum is conserved (R. Tonge, F. Benevolenski, A. Voroshilov,
              "Mass Splitting for Jitter-Free Parallel Rigid Body Simulation", 2012).  They are added to `correction`;
              else to dx.
    exclusive: no two of the constraints of a launch share a point, not even a pinned one, and none has a point twice.

    weights: see `make_weighing`.
    """
    if c.unit and not own_module(c.function.__module__):  # tests look at ours
        refuse_not_unit(c)
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    displacement, moved_by = layout.displacement, layout.moved_by
    n_points, rows, unilateral = c.points, c.rows, c.unilateral
    at = constraint_at(c, real, gradient=True)
    elastic, active = c.elastic, c.active(damped)
    resists, m = tuple(damped and acts for acts in c.damped), len(active)
    square, column, weight = matrix_of((m, m), real), vector(m, real), weight_type(n_points, real)

    @kernel(name=f"project_{c.name}")
    def project(
        start: int,
        points: array2d[int],
        data: Data,
        compliance: array[value],
        damping: array[real],
        weights: array[weight],
        valence: array[real],
        x_ref: array[vec3],
        dt: real,
        particle: array[particle_type],
        correction: array[vec3],
        multiplier: array[value],
    ):
        per_dt, k = 1.0 / (dt * dt), start + tid()
        at_k = [points[k, j] for j in static(range(n_points))]
        of_k = [particle[at_k[j]] for j in static(range(n_points))]
        C, J = at([position(of_k[j]) for j in static(range(n_points))], data, k)
        of_points = weights[k]
        own_w = [of_points if n_points == 1 else of_points[j] for j in static(range(n_points))]
        w_k = [own_w[j] * (valence[at_k[j]] if averaged else 1.0) for j in static(range(n_points))]
        gamma = damping[k] / dt if damped else 0.0
        lam = value() if first else multiplier[k]
        # J W J^T, and dC/dt dt: point by point, so that only the gradients at one of them have to be at hand
        A, b, rates = square(), column(), column()
        for p in static(range(n_points)):
            for i in static(range(m)):
                for j in static(range(i, m)):
                    A[i, j] += w_k[p] if c.unit else w_k[p] * dot(J[active[i]][p], J[active[j]][p])
                if resists[active[i]]:
                    rates[i] += dot(J[active[i]][p], displacement(of_k[p], x_ref[at_k[p]]))
        for i in static(range(m)):
            for j in static(range(i)):
                A[i, j] = A[j, i]
        # the system A dlam = b of eq. 18, with the terms of eq. 26 on damped rows
        for i in static(range(m)):
            r = active[i]
            weight = (1.0 if elastic[r] else 0.0) + (gamma if resists[r] else 0.0)
            for j in static(range(m)):
                A[i, j] = weight * A[i, j]
            alpha = (compliance[k] if rows == 1 else compliance[k][r]) * per_dt
            A[i, i] += alpha
            if first:
                residual = C[r] if elastic[r] else 0.0
            else:
                residual = alpha * (lam if rows == 1 else lam[r])
                if elastic[r]:
                    residual = C[r] + residual
            if resists[r]:
                residual += gamma * rates[i]
            b[i] = -residual
        dlam = column()
        if rows == 1:
            if A[0, 0] > 0.0:  # else rigid between points that cannot move
                dlam[0] = b[0] / A[0, 0]
                if unilateral:
                    dlam[0] = max(dlam[0], -lam)
        elif sum([w_k[j] for j in static(range(n_points))]) > 0.0:
            dlam = solve(A, b)
        for j in static(range(n_points)):  # eq. 17, moved by W J^T dlam
            if rows == 1:
                moved = (own_w[j] * dlam[0]) * J[0][j]
            else:
                moved = own_w[j] * sum([dlam[i] * J[active[i]][j] for i in static(range(m))])
            if averaged:
                correction[at_k[j]] += moved
            else:
                particle[at_k[j]] += moved_by(moved)
        if rows == 1:
            lam += dlam[0]
        else:
            for i in static(range(m)):
                lam[active[i]] += dlam[i]
        multiplier[k] = lam

    project.race_free = True  # the constraints of a launch share pinned points only, which do not move
    if exclusive:
        project.exclusive = frozenset(("particle", "correction", "x_ref", "weights", "valence", "multiplier"))
    return project
