"""The linear system of a constraint on any mixture of slots: C and its gradients, along what its multipliers push.

The generalised inverse mass of points of bodies: see `projection`.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import constraint_at
from sim.constraints.slots.bodies import frame_wrench, in_world, point_wrench
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_rotate, quat_to_rotation_vector
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, transformation


@memoize
def points_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`points_at(x, poses, placing)` in a kernel: the points of a constraint as C takes them.

    x: of its particles; poses: (x, q) of its bodies; placing: the entries of `slot_struct`, in order.
    """
    n_points, body_of, frame = c.points, slots.body_of, transformation(real)
    is_frame, on_body = tuple(j in c.frames for j in range(n_points)), tuple(body >= 0 for body in body_of)
    framed = [j for j in slots.placed if j in c.frames]
    particle_at, offset_at, frame_at = (
        tuple(start + there.index(j) if j in there else -1 for j in range(n_points))
        for start, there in ((0, slots.particles), (0, slots.placed), (len(slots.placed), framed))
    )

    @func
    def at_slot(j, x, poses, placing):
        if particle_at[j] >= 0:
            return x[particle_at[j]]
        place = placing[offset_at[j]]
        if on_body[j]:
            place = poses[body_of[j]][0] + quat_rotate(poses[body_of[j]][1], place)
        if is_frame[j]:
            turned = placing[frame_at[j]]
            if on_body[j]:
                turned = poses[body_of[j]][1] * turned
            return frame(place, turned)
        return place

    @func
    def points_at(x, poses, placing):
        return [at_slot(static(j), x, poses, placing) for j in static(range(n_points))]

    return points_at


@memoize
def wrenches_of(c: Constraint, slots: Slots) -> Function:
    """`wrenches(gradients, points, centers)` in a kernel: of one row, for each body, force and torque about its centre
    of mass of a unit multiplier.  gradients: of C by its points; centers: of mass of its bodies."""
    is_frame, of_body = tuple(j in c.frames for j in range(c.points)), slots.bodies

    @func
    def at_slot(j, gradients, points, center):
        if is_frame[j]:
            return frame_wrench(gradients[j], points[j], center)
        return point_wrench(gradients[j], points[j], center)

    @func
    def on_body(g, gradients, points, centers):
        parts = [at_slot(static(j), gradients, points, centers[g]) for j in static(of_body[g])]
        return sum([part[0] for part in parts]), sum([part[1] for part in parts])

    @func
    def wrenches(gradients, points, centers):
        return [on_body(static(g), gradients, points, centers) for g in static(range(len(of_body)))]

    return wrenches


@func
def softness(alpha, stiffness):
    """alpha / (alpha + stiffness), 0 where nothing can move."""
    whole = alpha + stiffness
    return alpha / whole if whole > 0.0 else 0.0 * alpha


@func
def between(begin, end, s):
    """From one at s = 0 to the other at s = 1."""
    return begin + s * (end - begin)


@memoize
def linearization_of(c: Constraint, slots: Slots, real: Scalar, damped: bool, start_direction: bool) -> Function:
    """`linearization(k, points, ..., turn, lam)` in a kernel, with the arguments of the projection: of constraint k

        (J, on)            gradients of C at its particles, force and torque of it on its bodies
        (D, along)         the same of what multipliers push along, see `make_slot_projection`
        (weight, alpha, b) of (weight J W D^T + alpha) dlambda = b, for each row: eq. 18 with the terms of eq. 26

    J[i][p], on[i][g], ...: for the active row i; lam: the multiplier so far.
    """
    layout = particle_layout(real)
    position, displacement = layout.position, layout.displacement
    rows, elastic, active = c.rows, c.elastic, c.active(damped or c.driven)
    resists, m = tuple((damped or c.driven) and acts for acts in c.damped), len(active)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    at, points_at = constraint_at(c, real, gradient=True), points_of(c, slots, real)
    wrenches, driven = wrenches_of(c, slots), c.driven
    chosen = start_direction and not c.unilateral and not driven and any(elastic)
    n_particles, n_bodies = len(particles), len(owners)
    parameter_names = tuple(c.parameters)
    ke_at, kd_at, vel_at = (
        parameter_names.index(name) if name in parameter_names else -1
        for name in ("target_ke", "target_kd", "target_vel")
    )

    @func
    def linearization(k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam):
        p_k = [points[k, j] for j in static(particles)]
        b_k = [points[k, j] for j in static(owners)]
        of_p = [particle[p_k[p]] for p in static(range(n_particles))]
        dx_b, turn_b = [dx[b_k[g]] for g in static(range(n_bodies))], [turn[b_k[g]] for g in static(range(n_bodies))]
        begun = [(bodies.x[b_k[g]], bodies.q[b_k[g]]) for g in static(range(n_bodies))]
        poses = [(begun[g][0] + dx_b[g], turn_b[g] * begun[g][1]) for g in static(range(n_bodies))]
        w_p = [w[p_k[p]] for p in static(range(n_particles))]
        w_b = [bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))]
        inertia_b = [bodies.inv_inertia[b_k[g]] for g in static(range(n_bodies))]
        placed_k, data_k = fields_at(placing, k), fields_at(data, k)

        x = points_at([position(of_p[p]) for p in static(range(n_particles))], poses, placed_k)
        C, J_all = at(x, data, k)
        on = [wrenches(J_all[active[i]], x, [poses[g][0] for g in static(range(n_bodies))]) for i in static(range(m))]
        J = [[J_all[active[i]][j] for j in static(particles)] for i in static(range(m))]
        # the directions along which the multipliers push: gradients of the present, or of the start
        D, along = J, on
        if chosen:
            x_0 = points_at([x_ref[p_k[p]] for p in static(range(n_particles))], begun, placed_k)
            _, J_0 = at(x_0, data, k)
            on_0 = [
                wrenches(J_0[active[i]], x_0, [begun[g][0] for g in static(range(n_bodies))]) for i in static(range(m))
            ]
            s = [
                softness(
                    (compliance[k] if rows == 1 else compliance[k][active[i]]) / (dt * dt),
                    sum([w_p[p] * dot(J[i][p], J[i][p]) for p in static(range(n_particles))])
                    + sum(
                        [
                            w_b[g] * dot(on[i][g][0], on[i][g][0])
                            + dot(on[i][g][1], in_world(poses[g][1], inertia_b[g], on[i][g][1]))
                            for g in static(range(n_bodies))
                        ]
                    ),
                )
                for i in static(range(m))
            ]
            D = [
                [between(J_0[active[i]][particles[p]], J[i][p], s[i]) for p in static(range(n_particles))]
                for i in static(range(m))
            ]
            along = [
                [
                    (between(on_0[i][g][0], on[i][g][0], s[i]), between(on_0[i][g][1], on[i][g][1], s[i]))
                    for g in static(range(n_bodies))
                ]
                for i in static(range(m))
            ]

        terms = []
        for i in static(range(m)):
            r = active[i]
            rate = real(0.0)
            if resists[r]:
                rate = sum(
                    [dot(J[i][p], displacement(of_p[p], x_ref[p_k[p]])) for p in static(range(n_particles))]
                ) + sum(
                    [
                        dot(on[i][g][0], dx_b[g]) + dot(on[i][g][1], quat_to_rotation_vector(turn_b[g]))
                        for g in static(range(n_bodies))
                    ]
                )
            alpha = (compliance[k] if rows == 1 else compliance[k][r]) / (dt * dt)
            stiff = real(1.0 if elastic[r] else 0.0)
            gamma = real(0.0)
            if driven:
                stiff, gamma = data_k[ke_at], data_k[kd_at] / dt
                rate -= dt * data_k[vel_at]
            elif resists[r]:
                gamma = damping[k] / dt
            b = -(stiff * C[r] + gamma * rate + alpha * (lam if rows == 1 else lam[r]))
            terms = terms + [(stiff + gamma, alpha, b)]
        return (J, on), (D, along), terms

    return linearization
