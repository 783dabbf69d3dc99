"""The linear system of a constraint on any mixture of slots: C and its gradients, along what its multipliers push.

The generalised inverse mass of points of bodies: see `projection`.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.slots.bodies import frame_wrench, matrix_in_world, point_wrench, seen_from
from sim.constraints.slots.pattern import WORLD, Slots
from sim.constraints.slots.rotations import logarithm
from sim.core.lang.embedding import fields_at, value_and_grad
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_rotate, quat_rotate_inv, quat_to_matrix
from sim.core.lang.library.vector import cross, dot, spatial_bottom, spatial_top
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
def seen_points(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """As `points_of`; what a frame sees as it sees it, which is what C takes."""
    points_at = points_of(c, slots, real)

    @func
    def frame_seen(x, poses, placing):
        a, b = points_at(x, poses, placing)
        return seen_from(a, b)

    @func
    def point_seen(x, poses, placing):
        a, b = points_at(x, poses, placing)
        return quat_rotate_inv(a.q, b - a.p)

    return {(): points_at, (0,): point_seen, (0, 1): frame_seen}[c.frames]


@memoize
def rows_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`rows_at(x, poses, placing, parameters)` in a kernel, see `points_of`: C, and of each row the gradient: by the
    particles, then force and torque about its centre of mass on each body, of a unit multiplier.

    Where the points of C are to be one, the forces act at one place, a particle's if there is one: opposite forces at
    two points that are not there yet would be a couple, and turn what is free.  So they do between two frames.
    """
    evaluate = value_and_grad(lambda: c.traced(real), f"{c.name}_at")
    points_at, particles, of_body = points_of(c, slots, real), slots.particles, slots.bodies
    rows, bodies = range(c.rows), range(len(of_body))
    first = tuple(own[0] == 0 for own in of_body)  # of two frames: is it that of this body?
    meeting = (*particles, 0)[0]
    acting_at = tuple(meeting if c.meeting and WORLD not in slots.kinds else j for j in range(c.points))

    @func
    def on_body(g, gradients, points, center):
        parts = [point_wrench(gradients[j], points[acting_at[j]], center) for j in static(of_body[g])]
        return sum([part[0] for part in parts]), sum([part[1] for part in parts])

    @func
    def at_points(gradients, points, poses):
        on = [on_body(static(g), gradients, points, poses[g][0]) for g in static(bodies)]
        return [gradients[j] for j in static(particles)] + [on[k // 2][k % 2] for k in static(range(2 * len(of_body)))]

    @func
    def rows_at_points(x, poses, placing, parameters):
        points = points_at(x, poses, placing)
        C, J = evaluate(points, parameters)
        return C, [at_points(J[r], points, poses) for r in static(rows)]

    @func
    def on_frame(g, force, torque, place, center):
        if first[g]:
            return -force, -(cross(place - center, force) + torque)
        return force, cross(place - center, force) + torque

    @func
    def at_frames(pair, place, poses):
        on = [on_frame(static(g), pair[0], pair[1], place, poses[g][0]) for g in static(bodies)]
        return [on[k // 2][k % 2] for k in static(range(2 * len(of_body)))]

    @func
    def rows_at_frames(x, poses, placing, parameters):
        a, b = points_at(x, poses, placing)
        seen, axes = seen_from(a, b), quat_to_matrix(a.q)
        C, J = evaluate(seen, parameters)
        return C, [at_frames(frame_wrench(J[r], axes, seen), b.p, poses) for r in static(rows)]

    @func
    def pulled(g, force, place, center):
        """Force and torque on body g of a force on what a frame sees, and the opposite on the frame at that place."""
        force, torque = point_wrench(force, place, center)
        if first[g]:
            return -force, -torque
        return force, torque

    @func
    def seen_by_frame(force, place, poses):
        on = [pulled(static(g), force, place, poses[g][0]) for g in static(bodies)]
        return [force for _ in static(particles)] + [on[k // 2][k % 2] for k in static(range(2 * len(of_body)))]

    @func
    def rows_seen(x, poses, placing, parameters):
        a, b = points_at(x, poses, placing)
        C, J = evaluate(quat_rotate_inv(a.q, b - a.p), parameters)
        return C, [seen_by_frame(quat_rotate(a.q, J[r]), b, poses) for r in static(rows)]

    return {(): rows_at_points, (0,): rows_seen, (0, 1): rows_at_frames}[c.frames]


@memoize
def movers_of(slots: Slots) -> Function:
    """`movers(k, points, bodies, particle, dx, turn)` in a kernel, of constraint k: the numbers of its particles and
    bodies, what the step works on of the particles, poses of the bodies as the step began, how far they have come, how
    far they have turned, and their poses now."""
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    n_particles, n_bodies = len(particles), len(owners)

    @func
    def movers(k, points, bodies, particle, dx, turn):
        p_k = [points[k, j] for j in static(particles)]
        b_k = [points[k, j] for j in static(owners)]
        of_p = [particle[p_k[p]] for p in static(range(n_particles))]
        moved, turns = [dx[b_k[g]] for g in static(range(n_bodies))], [turn[b_k[g]] for g in static(range(n_bodies))]
        begun = [(bodies.x[b_k[g]], bodies.q[b_k[g]]) for g in static(range(n_bodies))]
        poses = [(begun[g][0] + moved[g], turns[g] * begun[g][1]) for g in static(range(n_bodies))]
        return p_k, b_k, of_p, begun, moved, turns, poses

    return movers


@memoize
def masses_of(slots: Slots) -> Function:
    """`masses(p_k, b_k, poses, w, bodies)` in a kernel: inverse masses of particles and bodies, and inverse inertias of
    bodies in the axes of the world."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def masses(p_k, b_k, poses, w, bodies):
        inverse = [w[p_k[p]] for p in static(range(n_particles))] + [
            bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))
        ]
        return inverse, [matrix_in_world(poses[g][1], bodies.inv_inertia[b_k[g]]) for g in static(range(n_bodies))]

    return masses


@memoize
def velocities_of(slots: Slots) -> Function:
    """`velocities(p_k, b_k, v, body_qd)` in a kernel, over the movers: of particles, and of each body that of its
    centre of mass and its angular velocity."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def velocities(p_k, b_k, v, body_qd):
        return [v[p_k[p]] for p in static(range(n_particles))] + [
            spatial_top(body_qd[b_k[i // 2]]) if i % 2 == 0 else spatial_bottom(body_qd[b_k[i // 2]])
            for i in static(range(2 * n_bodies))
        ]

    return velocities


@memoize
def motions_of(slots: Slots, real: Scalar) -> Function:
    """`motions(p_k, of_p, x_ref, moved, turns)` in a kernel, over the movers: how far all has come in a step so
    far, of a body its centre of mass, and the vector of its turn."""
    displacement = particle_layout(real).displacement
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def motions(p_k, of_p, x_ref, moved, turns):
        return [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))] + [
            moved[k // 2] if k % 2 == 0 else logarithm(turns[k // 2]) for k in static(range(2 * n_bodies))
        ]

    return motions


@func
def elastic_share(alpha, stiffness):
    """alpha / (alpha + stiffness), 0 where nothing can move."""
    whole = alpha + stiffness
    return alpha / whole if whole > 0.0 else 0.0 * alpha


@memoize
def row_functions(slots: Slots) -> tuple[Function, Function, Function]:
    """Functions of rows in a kernel, lists of vectors over the movers: of each particle one, of each body two.

    between(begin, end, s): from one at s = 0 to the other at s = 1; response(row, masses, inertias): how a unit
    multiplier along it moves them; and product(row, motion).
    """
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    size = n_particles + 2 * n_bodies

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

    return between, response, product


def active_rows(c: Constraint, damped: bool) -> tuple[int, ...]:
    """The rows of C that act, on slots: all that pull or slow down."""
    return c.active(damped or c.driven or c.dry)


def turns(c: Constraint) -> bool:
    """Do its rows of dry friction know when they turn round, see `turned` of `friction_angle`?"""
    return c.dry and "turned" in c.parameters


def pushes_from_start(c: Constraint, start_direction: bool) -> bool:
    """Do rows of C push along gradients of the start?  Then J W D^T is not symmetric."""
    return start_direction and not c.unilateral and not c.driven and any(c.elastic)


@memoize
def pushes_along_of(c: Constraint, slots: Slots, active: tuple[int, ...]) -> Function:
    """`pushes_along(G_0, G, alpha, masses, inertias)` in a kernel: what the active rows push along that push from the
    start, with gradients G_0 there and G at the end, the more of the latter the softer they are."""
    m, (between, response, product) = len(active), row_functions(slots)
    alike = [[j for j in range(m) if active[j] in vector] for r in active for vector in c.vectors if r in vector]

    @func
    def pushes_along(G_0, G, alpha, masses, inertias):
        own = [product(G[i], response(G[i], masses, inertias)) for i in static(range(m))]
        # of components of a vector the mean: the trace is the same in all axes
        mean = [sum([own[j] for j in static(alike[i])]) / static(len(alike[i])) for i in static(range(m))]
        return [between(G_0[i], G[i], elastic_share(alpha[i], mean[i])) for i in static(range(m))]

    return pushes_along


@memoize
def linearization_of(c: Constraint, slots: Slots, real: Scalar, damped: bool, start_direction: bool) -> Function:
    """`linearization(k, points, ..., turn, lam)` in a kernel, with the arguments of the projection: of constraint k

        G                  gradients of C at its particles, force and torque of it on its bodies, see `row_functions`
        D                  the same of what multipliers push along, see `make_slot_projection`
        W                  inverse masses of its particles and bodies, and inverse inertias in the world
        (weight, alpha, b) of (weight G W D^T + alpha) dlambda = b, for each row: eq. 18 with the terms of eq. 26

    G[i], D[i], ...: for the active row i; lam: the multiplier so far.
    """
    position = particle_layout(real).position
    rows, elastic, active, holding = c.rows, c.elastic, active_rows(c, damped), c.dry
    slowing = damped or c.driven or holding
    resists, m = tuple(slowing and acts for acts in c.damped), len(active)
    slowed, driven, chosen = any(resists), c.driven, pushes_from_start(c, start_direction)
    rows_at, movers, masses_at = rows_of(c, slots, real), movers_of(slots), masses_of(slots)
    motions, pushes_along, (_, _, product) = (
        motions_of(slots, real),
        pushes_along_of(c, slots, active),
        row_functions(slots),
    )
    n_particles = len(slots.particles)
    parameter_names = tuple(c.parameters)
    ke_at, kd_at, vel_at = (
        parameter_names.index(name) if name in parameter_names else -1
        for name in ("target_ke", "target_kd", "target_vel")
    )

    @func
    def linearization(k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam):
        p_k, b_k, of_p, begun, dx_b, turn_b, poses = movers(k, points, bodies, particle, dx, turn)
        masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
        placed_k, data_k = fields_at(placing, k), fields_at(data, k)

        C, every = rows_at([position(of_p[p]) for p in static(range(n_particles))], poses, placed_k, data_k)
        G = [every[active[i]] for i in static(range(m))]
        alpha = [
            (real(1.0) if driven else compliance[k] if rows == 1 else compliance[k][active[i]]) / (dt * dt)
            for i in static(range(m))
        ]
        # the directions along which the multipliers push, gradients of the present or of the start; what they move
        D = G
        if chosen:
            _, every = rows_at([x_ref[p_k[p]] for p in static(range(n_particles))], begun, placed_k, data_k)
            D = pushes_along([every[active[i]] for i in static(range(m))], G, alpha, masses, inertias)
        if slowed:  # how far all has come since the step began
            since = motions(p_k, of_p, x_ref, dx_b, turn_b)
        terms = []
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
            b = -(stiff * C[r] + gamma * rate + alpha[i] * (lam if rows == 1 else lam[r]))
            terms = terms + [(stiff + gamma, alpha[i], b)]
        return G, D, (masses, inertias), terms

    return linearization
