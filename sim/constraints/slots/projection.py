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
from sim.constraints.slots.bodies import body_struct, frame_wrench, matrix_in_world, point_wrench, slot_struct
from sim.constraints.slots.pattern import Slots
from sim.core.lang.constants import nan
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, static, tid, where
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.quaternion import quat_from_rotation_vector, quat_rotate, quat_to_rotation_vector
from sim.core.lang.library.static import scalar_type
from sim.core.lang.library.vector import dot, outer
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
    of mass of a unit multiplier.  gradients: of C by its points; centers: of mass of its bodies.

    Where the points of C are to be one, the forces act at one place, a particle's if there is one: opposite forces at
    two points that are not there yet would be a couple, and turn what is free.
    """
    is_frame, of_body = tuple(j in c.frames for j in range(c.points)), slots.bodies
    meeting = (*slots.particles, 0)[0]
    acting_at = tuple(meeting if c.meeting else j for j in range(c.points))

    @func
    def at_slot(j, gradients, points, center):
        if is_frame[j]:
            return frame_wrench(gradients[j], points[j], center)
        return point_wrench(gradients[j], points[acting_at[j]], center)

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
def solve_pivoted(a, b):
    """x with a x = b for a small matrix of positive determinant, NaN where it is not: elimination with pairwise
    pivoting (D. C. Sorensen, "Analysis of Pairwise Pivoting in Gaussian Elimination", 1985).

    G W D^T is near a positive definite matrix, but its diagonal says nothing: where a body's inertia is small about a
    far point, an entry passes through zero while a turn of a few degrees takes the arm past an axis.
    """
    n = len(b)
    sign = scalar_type(b)(1)
    for i in static(range(n)):
        for j in static(range(i + 1, n)):
            swap = abs(a[j, i]) > abs(a[i, i])
            sign = where(swap, -sign, sign)
            for k in static(range(i, n)):
                upper, lower = where(swap, a[j, k], a[i, k]), where(swap, a[i, k], a[j, k])
                a[i, k], a[j, k] = upper, lower
            upper, lower = where(swap, b[j], b[i]), where(swap, b[i], b[j])
            f = a[j, i] / a[i, i]
            for k in static(range(i, n)):
                a[j, k] = a[j, k] - f * a[i, k]
            b[i], b[j] = upper, lower - f * upper
        sign = where(a[i, i] > 0.0, sign, -sign)
    for i in static(range(n - 1, -1, -1)):
        for k in static(range(i + 1, n)):
            b[i] = b[i] - a[i, k] * b[k]
        b[i] = where(sign > 0.0, b[i] / a[i, i], nan)
    return b


@solve_pivoted.vjp
def _solve_pivoted_vjp(a, b, x, ct):
    t = solve_pivoted(transpose(a), ct)
    return outer(-t, x), t


@memoize
def row_functions(slots: Slots) -> tuple[Function, Function, Function, Function]:
    """Functions of rows in a kernel, lists of vectors over the movers: of each particle one, of each body two.

    gradient(J, on): of one row, particle by particle, then force and torque on each body; between(begin, end, s): from
    one at s = 0 to the other at s = 1; response(row, masses, inertias): how a unit multiplier along it moves them; and
    product(row, motion).
    """
    particles, n_bodies = slots.particles, len(slots.bodies)
    n_particles, size = len(particles), len(particles) + 2 * n_bodies

    @func
    def gradient(J, on):
        return [J[j] for j in static(particles)] + [on[k // 2][k % 2] for k in static(range(2 * n_bodies))]

    @func
    def between(begin, end, s):
        return [begin[k] + s * (end[k] - begin[k]) for k in static(range(size))]

    @func
    def moved(k, row, masses, inertias):
        if k < n_particles:
            return masses[k] * row[k]
        g = (k - n_particles) // 2
        if (k - n_particles) % 2 == 0:
            return masses[n_particles + g] * row[k]
        return inertias[g] @ row[k]

    @func
    def response(row, masses, inertias):
        return [moved(static(k), row, masses, inertias) for k in static(range(size))]

    @func
    def product(row, motion):
        return sum([dot(row[k], motion[k]) for k in static(range(size))])

    return gradient, between, response, product


@memoize
def make_slot_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, damped: bool, start_direction: bool, exclusive: bool = False
) -> Kernel:
    """One XPBD projection of constraints `start + tid()` whose points are not all particles; see `make_projection`.

    points: (n, k) numbers of particles, or of bodies, 0 for the world.
    driven: rows of stiffness and damping, that of eq. 26 divided by alpha, whose compliance and damping are not read.
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
    holding = bool(c.limited) and not any(c.elastic)  # rows of dry friction: they stop what moves, if they can
    slowing = damped or c.driven or holding
    rows, unilateral, elastic, active = c.rows, c.unilateral, c.elastic, c.active(slowing)
    resists, m = tuple(slowing and acts for acts in c.damped), len(active)
    square, column = matrix_of((m, m), real), vector(m, real)
    slowed = any(resists)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    at, points_at = constraint_at(c, real, gradient=True), points_of(c, slots, real)
    wrenches, driven, limit = wrenches_of(c, slots), c.driven, c.limited
    gradient, between, response, product = row_functions(slots)
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
        masses = [w[p_k[p]] for p in static(range(n_particles))] + [
            bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))
        ]
        inertias = [matrix_in_world(poses[g][1], bodies.inv_inertia[b_k[g]]) for g in static(range(n_bodies))]
        placed_k, data_k = fields_at(placing, k), fields_at(data, k)

        x = points_at([position(of_p[p]) for p in static(range(n_particles))], poses, placed_k)
        C, J = at(x, data, k)
        G = [gradient(J[active[i]], wrenches(J[active[i]], x, centers)) for i in static(range(m))]
        alpha = [
            (real(1.0) if driven else compliance[k] if rows == 1 else compliance[k][active[i]]) / (dt * dt)
            for i in static(range(m))
        ]
        # the directions along which the multipliers push, gradients of the present or of the start; what they move
        D = G
        own = [real(0.0) for i in static(range(m))]
        if chosen:
            x_0 = points_at([x_ref[p_k[p]] for p in static(range(n_particles))], begun, placed_k)
            centers_0 = [begun[g][0] for g in static(range(n_bodies))]
            _, J_0 = at(x_0, data, k)
            G_0 = [gradient(J_0[active[i]], wrenches(J_0[active[i]], x_0, centers_0)) for i in static(range(m))]
            own = [product(G[i], response(G[i], masses, inertias)) for i in static(range(m))]
            D = [between(G_0[i], G[i], softness(alpha[i], own[i])) for i in static(range(m))]
        M = [response(D[i], masses, inertias) for i in static(range(m))]

        if slowed:  # how far all has come since the step began
            since = [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))] + [
                dx_b[k // 2] if k % 2 == 0 else quat_to_rotation_vector(turn_b[k // 2])
                for k in static(range(2 * n_bodies))
            ]
        lam = value() if first else multiplier[k]
        A, b = square(), column()
        for i in static(range(m)):
            for j in static(range(0 if chosen else i, m)):
                A[i, j] = product(G[i], M[j])
        if not chosen:
            for i in static(range(m)):
                for j in static(range(i)):
                    A[i, j] = A[j, i]
        # the system A dlam = b of eq. 18, with the terms of eq. 26 on damped rows
        for i in static(range(m)):
            r = active[i]
            rate = product(G[i], since) if resists[r] else real(0.0)
            stiff = real(1.0 if elastic[r] else 0.0)
            gamma = real(0.0)
            if driven:
                stiff, gamma = data_k[ke_at], data_k[kd_at] / dt
                if vel_at >= 0:
                    rate -= dt * data_k[vel_at]
            elif holding:
                gamma = real(1.0)
            elif resists[r]:
                gamma = damping[k] / dt
            b[i] = -(stiff * C[r] + gamma * rate + alpha[i] * (lam if rows == 1 else lam[r]))
            for j in static(range(m)):
                A[i, j] = (stiff + gamma) * A[i, j]
            A[i, i] += alpha[i]
        dlam = column()
        if rows == 1:
            if A[0, 0] > 0.0:  # else rigid between bodies that cannot move
                dlam[0] = b[0] / A[0, 0]
                if unilateral:
                    dlam[0] = max(dlam[0], -lam)
                if limit_at >= 0:
                    most = data_k[limit_at] * (dt * dt)
                    dlam[0] = min(max(dlam[0], -most - lam), most - lam)
            elif chosen:
                if own[0] > 0.0:  # the direction of the start pushes the wrong way, or not at all
                    dlam[0] = nan
        elif sum(masses) > 0.0:
            dlam = solve_pivoted(A, b) if chosen else solve(A, b)
        for p in static(range(n_particles)):  # eq. 17
            particle[p_k[p]] += moved_by(sum([dlam[i] * M[i][p] for i in static(range(m))]))
        for g in static(range(n_bodies)):
            dx[b_k[g]] += sum([dlam[i] * M[i][n_particles + 2 * g] for i in static(range(m))])
            turned = quat_from_rotation_vector(sum([dlam[i] * M[i][n_particles + 2 * g + 1] for i in static(range(m))]))
            turn[b_k[g]] = turned * turn_b[g]
            if masses[n_particles + g] > 0.0:
                impulse[b_k[g]] += sum([dlam[i] * D[i][n_particles + 2 * g + 1] for i in static(range(m))])
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
