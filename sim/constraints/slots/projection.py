"""The XPBD projection of a constraint on any mixture of particles, points of bodies and places in the world.

The generalised inverse mass of points of bodies: M. Mueller, M. Macklin, N. Chentanez, S. Jeschke, T.-Y. Kim, "Detailed
Rigid Body Simulation with Extended Position Based Dynamics", SCA 2020, eqs. 2 to 9, here for several rows and several
points of one body: with the force f_i and torque tau_i of row i on a body, the sums over its points,

    (J W J^T)_ij = sum over particles of w J_i . J_j + sum over bodies of (w f_i . f_j + tau_i . I^-1 tau_j)
    x += w sum_i dlambda_i f_i        q <- exp(I^-1 sum_i dlambda_i tau_i) q

Sets of particles alone have the kernel of `sim.constraints.projection`, whose equation numbers are meant below.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import constraint_at, parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, frame_wrench, in_world, point_wrench, slot_struct
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_from_rotation_vector, quat_rotate, quat_to_rotation_vector
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, transformation, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

matrix_of = matrix


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
def make_slot_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, damped: bool, start_direction: bool, exclusive: bool = False
) -> Kernel:
    """One XPBD projection of constraints `start + tid()` whose points are not all particles; see `make_projection`.

    points: (n, k) numbers of particles, or of bodies, 0 for the world.
    start_direction: rows without compliance push along the gradients that they have where the step begins (SHAKE: J.-P.
    Ryckaert, G. Ciccotti, H. J. C. Berendsen, J. Comput. Phys. 23, 1977): with J of the present, D of the start,
    (J W D^T) dlambda = -C, moved by W D^T dlambda.  That conserves momenta exactly, and energies to second order, where
    the gradient at the end takes out energy as implicit Euler does.  Elastic rows need the latter: a row of compliance
    alpha pushes along D + s (J - D), s = alpha~ / (alpha~ + J W J^T), so that the motion is a smooth function of alpha.
    """
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    SlotData, Bodies, Quat = slot_struct(c, slots, real), body_struct(real), quaternion(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    displacement, moved_by = layout.displacement, layout.moved_by
    rows, unilateral, elastic, active = c.rows, c.unilateral, c.elastic, c.active(damped or c.driven)
    resists, m = tuple((damped or c.driven) and acts for acts in c.damped), len(active)
    square, column = matrix_of((m, m), real), vector(m, real)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    at, points_at = constraint_at(c, real, gradient=True), points_of(c, slots, real)
    wrenches, driven, limit = wrenches_of(c, slots), c.driven, c.limited
    chosen = start_direction and not unilateral and not driven and any(elastic)
    n_particles, n_bodies = len(particles), len(owners)
    parameter_names = tuple(c.parameters)
    ke_at, kd_at, vel_at, limit_at = (
        parameter_names.index(name) if name in parameter_names else -1
        for name in ("target_ke", "target_kd", "target_vel", limit)
    )

    @kernel(name=f"project_{c.name}_{slots.kinds}")
    def project(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        damping: array[real],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[value],
    ):
        k = start + tid()
        p_k = [points[k, j] for j in static(particles)]
        b_k = [points[k, j] for j in static(owners)]
        of_p = [particle[p_k[p]] for p in static(range(n_particles))]
        dx_b, turn_b = [dx[b_k[g]] for g in static(range(n_bodies))], [turn[b_k[g]] for g in static(range(n_bodies))]
        begun = [(bodies.x[b_k[g]], bodies.q[b_k[g]]) for g in static(range(n_bodies))]
        poses = [(begun[g][0] + dx_b[g], turn_b[g] * begun[g][1]) for g in static(range(n_bodies))]
        centers = [poses[g][0] for g in static(range(n_bodies))]
        w_p = [w[p_k[p]] for p in static(range(n_particles))]
        w_b = [bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))]
        inertia_b = [bodies.inv_inertia[b_k[g]] for g in static(range(n_bodies))]
        placed_k, data_k = fields_at(placing, k), fields_at(data, k)

        x = points_at([position(of_p[p]) for p in static(range(n_particles))], poses, placed_k)
        C, J = at(x, data, k)
        on = [wrenches(J[active[i]], x, centers) for i in static(range(m))]
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
                    sum(
                        [
                            w_p[p] * dot(J[active[i]][particles[p]], J[active[i]][particles[p]])
                            for p in static(range(n_particles))
                        ]
                    )
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
                [between(J_0[active[i]][j], J[active[i]][j], s[i]) for j in static(particles)] for i in static(range(m))
            ]
            along = [
                [
                    (between(on_0[i][g][0], on[i][g][0], s[i]), between(on_0[i][g][1], on[i][g][1], s[i]))
                    for g in static(range(n_bodies))
                ]
                for i in static(range(m))
            ]
        else:
            D = [[J[active[i]][j] for j in static(particles)] for i in static(range(m))]

        lam = value() if first else multiplier[k]
        spun = [
            [in_world(poses[g][1], inertia_b[g], along[i][g][1]) for g in static(range(n_bodies))]
            for i in static(range(m))
        ]  # I^-1 tau
        A, b = square(), column()
        for i in static(range(m)):
            r = active[i]
            J_i = [J[r][j] for j in static(particles)]
            for j in static(range(m)):
                A[i, j] = sum([w_p[p] * dot(J_i[p], D[j][p]) for p in static(range(n_particles))]) + sum(
                    [
                        w_b[g] * dot(on[i][g][0], along[j][g][0]) + dot(on[i][g][1], spun[j][g])
                        for g in static(range(n_bodies))
                    ]
                )
            rate = real(0.0)
            if resists[r]:
                rate = sum(
                    [dot(J_i[p], displacement(of_p[p], x_ref[p_k[p]])) for p in static(range(n_particles))]
                ) + sum(
                    [
                        dot(on[i][g][0], dx_b[g]) + dot(on[i][g][1], quat_to_rotation_vector(turn_b[g]))
                        for g in static(range(n_bodies))
                    ]
                )
            # the system A dlam = b of eq. 18, with the terms of eq. 26 on damped rows
            alpha = (compliance[k] if rows == 1 else compliance[k][r]) / (dt * dt)
            stiff = real(1.0 if elastic[r] else 0.0)
            gamma = real(0.0)
            if driven:
                stiff, gamma = data_k[ke_at], data_k[kd_at] / dt
                rate -= dt * data_k[vel_at]
            elif resists[r]:
                gamma = damping[k] / dt
            for j in static(range(m)):
                A[i, j] = (stiff + gamma) * A[i, j]
            A[i, i] += alpha
            b[i] = -(stiff * C[r] + gamma * rate + alpha * (lam if rows == 1 else lam[r]))
        dlam = column()
        if rows == 1:
            if A[0, 0] != 0.0:  # else rigid between bodies that cannot move
                dlam[0] = b[0] / A[0, 0]
                if unilateral:
                    dlam[0] = max(dlam[0], -lam)
                if limit_at >= 0:
                    most = data_k[limit_at] * (dt * dt)
                    dlam[0] = min(max(dlam[0], -most - lam), most - lam)
        elif sum(w_p) + sum(w_b) > 0.0:
            dlam = solve(A, b)
        for p in static(range(n_particles)):  # eq. 17
            particle[p_k[p]] += moved_by(w_p[p] * sum([dlam[i] * D[i][p] for i in static(range(m))]))
        for g in static(range(n_bodies)):
            dx[b_k[g]] += w_b[g] * sum([dlam[i] * along[i][g][0] for i in static(range(m))])
            turned = quat_from_rotation_vector(sum([dlam[i] * spun[i][g] for i in static(range(m))]))
            turn[b_k[g]] = turned * turn_b[g]
            if w_b[g] > 0.0:
                impulse[b_k[g]] += sum([dlam[i] * along[i][g][1] for i in static(range(m))])
        if rows == 1:
            lam += dlam[0]
        else:
            for i in static(range(m)):
                lam[active[i]] += dlam[i]
        multiplier[k] = lam

    project.race_free = True  # the constraints of a launch share what is held only, which does not move
    if exclusive:
        moved = ("particle", "dx", "turn", "impulse")
        project.exclusive = frozenset((*moved, "x_ref", "w", "multiplier"))
    return project
