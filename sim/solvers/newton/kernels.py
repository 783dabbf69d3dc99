"""Kernels of Newton's method, one set for each constraint: C and its gradients, second derivatives, the residual."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.projection import constraint_at, parameter_struct, value_type
from sim.core.lang.embedding import fields_at, hessian_product
from sim.core.lang.frontend.builtins import atomic_add, static, tid, where
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@dataclass(frozen=True)
class ElementKernels:
    """The kernels of one constraint.

    linearize: C of every constraint, and its gradients: row r, point j in column r * points + j.
    curvature: column d of sum_r multiplier_r d2C_r/dx2, for thread (constraint, d).
    turning:   d2C_r/dx2 along a displacement, for thread (constraint, r).
    residual:  what a constraint adds to x - x~ - W J^T lambda, and its rows C + alpha~ lambda + gamma J dx.
    """

    linearize: Kernel
    curvature: Kernel
    turning: Kernel
    residual: Kernel


@memoize
def element_kernels(c: Constraint, real: Scalar, damped: bool) -> ElementKernels:
    """The kernels for sets with or without damping."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    n_points, rows, active = c.points, c.rows, c.active(damped)
    elastic, resists = c.elastic, tuple(damped and acts for acts in c.damped)
    at = constraint_at(c, real, gradient=True)
    hessian = hessian_product(lambda: c.traced(real), f"second_derivative_of_{c.name}")

    @kernel(name=f"linearize_{c.name}")
    def linearize(points: array2d[int], data: Data, x: array[vec3], C_out: array2d[real], J_out: array2d[vec3]):
        k = tid()
        C, J = at([x[points[k, j]] for j in static(range(n_points))], data, k)
        for r in static(range(rows)):
            C_out[k, r] = C[r]
            for j in static(range(n_points)):
                J_out[k, r * n_points + j] = J[r][j]

    @kernel(name=f"curvature_{c.name}")
    def curvature(points: array2d[int], data: Data, x: array[vec3], multiplier: array[value], out: array2d[vec3]):
        k, d = tid()
        lam = multiplier[k]
        weights = [lam if rows == 1 else lam[r] for r in static(range(rows))]
        along = [
            vec3(
                where(d == 3 * j, real(1.0), real(0.0)),
                where(d == 3 * j + 1, real(1.0), real(0.0)),
                where(d == 3 * j + 2, real(1.0), real(0.0)),
            )
            for j in static(range(n_points))
        ]
        moved = hessian([x[points[k, j]] for j in static(range(n_points))], fields_at(data, k), weights, along)
        for j in static(range(n_points)):
            out[k * 3 * n_points + d, j] = moved[j]

    @kernel(name=f"turning_{c.name}")
    def turning(points: array2d[int], data: Data, x: array[vec3], x_before: array[vec3], out: array2d[vec3]):
        k, r = tid()
        weights = [where(r == i, real(1.0), real(0.0)) for i in static(range(rows))]
        along = [x[points[k, j]] - x_before[points[k, j]] for j in static(range(n_points))]
        moved = hessian([x[points[k, j]] for j in static(range(n_points))], fields_at(data, k), weights, along)
        for j in static(range(n_points)):
            out[k, r * n_points + j] = moved[j]

    @kernel(name=f"residual_{c.name}")
    def residual(
        points: array2d[int],
        data: Data,
        compliance: array[value],
        damping: array[real],
        w: array[real],
        x_before: array[vec3],
        dt: real,
        x: array[vec3],
        multiplier: array[value],
        moved: array[vec3],
        row: array2d[real],
    ):
        k = tid()
        x_k = [x[points[k, j]] for j in static(range(n_points))]
        C, J = at(x_k, data, k)
        for r in static(active):
            lam = multiplier[k] if rows == 1 else multiplier[k][r]
            total = (compliance[k] if rows == 1 else compliance[k][r]) / (dt * dt) * lam
            if elastic[r]:
                total += C[r]
            if resists[r]:
                steps = [dot(J[r][j], x_k[j] - x_before[points[k, j]]) for j in static(range(n_points))]
                total += damping[k] / dt * sum(steps)
            row[k, r] = total
            for j in static(range(n_points)):
                atomic_add(moved, points[k, j], -(w[points[k, j]] * lam) * J[r][j])

    return ElementKernels(linearize, curvature, turning, residual)
