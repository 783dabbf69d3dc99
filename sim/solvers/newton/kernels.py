"""Kernels of Newton's method, one set for each constraint: C and its gradients, second derivatives, the residual.

Points of a constraint are particles, or places and frames of the world, which do not move: all derivatives are by the
particles.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.projection import parameter_struct, value_type
from sim.constraints.slots.bodies import slot_struct
from sim.constraints.slots.linearization import points_of, rows_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at, hessian_product
from sim.core.lang.frontend.builtins import atomic_add, static, tid, where
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_rotate, quat_rotate_inv
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@dataclass(frozen=True)
class ElementKernels:
    """The kernels of one constraint.

    linearize: C of every constraint, and its gradients: row r, particle j in column r * particles + j.
    curvature: column d of sum_r multiplier_r d2C_r/dx2, for thread (constraint, d).
    turning:   d2C_r/dx2 along a displacement, for thread (constraint, r).
    residual:  what a constraint adds to x - x~ - W J^T lambda, and its rows C + alpha~ lambda + gamma J dx.
    """

    linearize: Kernel
    curvature: Kernel
    turning: Kernel
    residual: Kernel


@memoize
def second_derivative_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`second_derivative(x, placing, parameters, weights, along)` in a kernel: that of sum_r weights[r] C_r by the
    particles x, along a displacement of them, a vector for each.  placing: the entries of `slot_struct`."""
    hessian = hessian_product(lambda: c.traced(real), f"second_derivative_of_{c.name}")
    vec3, points_at, particles = vector(3, real), points_of(c, slots, real), slots.particles
    particle_at = tuple(particles.index(j) if j in particles else -1 for j in range(c.points))

    @func
    def displaced(j, along):
        if particle_at[j] >= 0:
            return along[particle_at[j]]
        return vec3()

    @func
    def of_points(x, placing, parameters, weights, along):
        all_along = [displaced(static(j), along) for j in static(range(c.points))]
        moved = hessian(points_at(x, [], placing), parameters, weights, all_along)
        return [moved[j] for j in static(particles)]

    @func
    def of_point_seen(x, placing, parameters, weights, along):
        frame, place = points_at(x, [], placing)
        seen, turned = quat_rotate_inv(frame.q, place - frame.p), quat_rotate_inv(frame.q, along[0])
        return [quat_rotate(frame.q, hessian(seen, parameters, weights, turned))]

    return {(): of_points, (0,): of_point_seen}[c.frames]


@memoize
def element_kernels(c: Constraint, slots: Slots, real: Scalar, damped: bool) -> ElementKernels:
    """The kernels for sets with or without damping.  slots: without bodies."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    SlotData, at, hessian = slot_struct(c, slots, real), rows_of(c, slots, real), second_derivative_of(c, slots, real)
    particles, rows, active = slots.particles, c.rows, c.active(damped)
    elastic, resists = c.elastic, tuple(damped and acts for acts in c.damped)
    n_points, name = len(particles), slots.key(c).replace("@", "_")

    @kernel(name=f"linearize_{name}")
    def linearize(
        points: array2d[int], placing: SlotData, data: Data, x: array[vec3], C_out: array2d[real], J_out: array2d[vec3]
    ):
        k = tid()
        x_k = [x[points[k, j]] for j in static(particles)]
        C, J = at(x_k, [], fields_at(placing, k), fields_at(data, k))
        for r in static(range(rows)):
            C_out[k, r] = C[r]
            for j in static(range(n_points)):
                J_out[k, r * n_points + j] = J[r][j]

    @kernel(name=f"curvature_{name}")
    def curvature(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        x: array[vec3],
        multiplier: array[value],
        out: array2d[vec3],
    ):
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
        x_k = [x[points[k, j]] for j in static(particles)]
        moved = hessian(x_k, fields_at(placing, k), fields_at(data, k), weights, along)
        for j in static(range(n_points)):
            out[k * 3 * n_points + d, j] = moved[j]

    @kernel(name=f"turning_{name}")
    def turning(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        x: array[vec3],
        x_before: array[vec3],
        out: array2d[vec3],
    ):
        k, r = tid()
        weights = [where(r == i, real(1.0), real(0.0)) for i in static(range(rows))]
        along = [x[points[k, j]] - x_before[points[k, j]] for j in static(particles)]
        x_k = [x[points[k, j]] for j in static(particles)]
        moved = hessian(x_k, fields_at(placing, k), fields_at(data, k), weights, along)
        for j in static(range(n_points)):
            out[k, r * n_points + j] = moved[j]

    @kernel(name=f"residual_{name}")
    def residual(
        points: array2d[int],
        placing: SlotData,
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
        x_k = [x[points[k, j]] for j in static(particles)]
        x_0 = [x_before[points[k, j]] for j in static(particles)]
        C, J = at(x_k, [], fields_at(placing, k), fields_at(data, k))
        for r in static(active):
            lam = multiplier[k] if rows == 1 else multiplier[k][r]
            total = (compliance[k] if rows == 1 else compliance[k][r]) / (dt * dt) * lam
            if elastic[r]:
                total += C[r]
            if resists[r]:
                steps = [dot(J[r][j], x_k[j] - x_0[j]) for j in static(range(n_points))]
                total += damping[k] / dt * sum(steps)
            row[k, r] = total
            for j in static(range(n_points)):
                p = points[k, static(particles[j])]
                atomic_add(moved, p, -(w[p] * lam) * J[r][j])

    return ElementKernels(linearize, curvature, turning, residual)
