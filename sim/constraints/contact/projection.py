"""The XPBD projection of contacts with Coulomb friction, and the velocities after impacts.

Friction has a multiplier of its own, three numbers that add up over the sweeps of a step and are cut to the cone by the
normal one.  (Each correction alone is clipped by M. Macklin, M. Mueller, N. Chentanez, T.-Y. Kim, "Unified Particle
Physics for Real-Time Applications", 2014, section 6.1, and by Mueller et al. 2020, section 3.5.)  With the slip u, the
directions T across the normal and the rows E of `geometry`, K = E W E^T, it becomes the multiplier that takes the slip
to zero if that is inside of the cone, and else the one at its edge that is opposite to the slip it leaves:

    lambda_t = (K + s)^-1 (K lambda_t^before - T^T u)          s = 0, or |lambda_t| = mu lambda_n with s > 0

That is the maximum of dissipation, and a continuous function across the edge.  A body is not as easy to move along all
directions: the multiplier that would stop the slip, shortened, does not point against it, and a block that slides on
four corners loses 7 % of its friction that way.

The bound is mu times the whole normal impulse of a step, that of the positions and that of the velocities after it.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.boxes import chosen_of
from sim.constraints.contact.geometry import contact_of, gap_of, slip_of, slip_rate_of
from sim.constraints.contact.surface import impact_struct, surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import sqrt, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.static import scalar_type
from sim.core.lang.library.vector import cross, dot, outer
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

NEWTON = 6
"""Iterations for s: exact after one where K is the same in all directions, and quadratic from one side elsewhere."""


@func
def coulomb(K, b, most):
    """x with K x = b if |x| <= most; else of that length, with (K + s) x = b and s > 0.  K: 2 x 2, positive definite.

    It is the minimum of x K x / 2 - b x in a disk, the subproblem of trust regions, solved as in J. J. More, D. C.
    Sorensen, "Computing a Trust Region Step", SIAM J. Sci. Stat. Comput. 4(3), 1983, algorithm 3.2.
    """
    s = 0.0 * most
    x = inverted(K, s) @ b
    if dot(x, x) > most * most:
        if most > 0.0:
            for _ in static(range(NEWTON)):
                square = dot(x, x)
                s += square / dot(x, inverted(K, s) @ x) * (sqrt(square) / most - 1.0)
                x = inverted(K, s) @ b
            x *= most / sqrt(dot(x, x))
        else:
            x = 0.0 * b
    return x


@func
def inverted(K, s):
    """(K + s)^-1 of a symmetric 2 x 2 matrix."""
    a, c, d = K[0, 0] + s, K[0, 1], K[1, 1] + s
    det = a * d - c * c
    return type(K)(d / det, -c / det, -c / det, a / det)


@coulomb.vjp
def _coulomb_vjp(K, b, most, x, ct):
    """Of the equations that x solves, by the implicit function theorem."""
    free = inverted(K, 0.0 * most) @ b
    by_most = 0.0 * most
    by_b = 0.0 * b
    if dot(free, free) > most * most:
        if most > 0.0:
            inverse = inverted(K, dot(x, b - K @ x) / dot(x, x))
            back, along = inverse @ ct, inverse @ x
            part = dot(back, x) / dot(x, along)
            by_b = back - part * along
            by_most = part * most
        else:
            by_most = dot(ct, b) / sqrt(dot(b, b))
    else:
        by_b = inverted(K, 0.0 * most) @ ct
    return -outer(by_b, x), by_b, by_most


@func
def along_both(T, u):
    """The part of a vector along two directions."""
    return vector(2, scalar_type(u))(dot(T[0], u), dot(T[1], u))


@memoize
def mobility_of(slots: Slots, real: Scalar) -> Function:
    """`mobility(E, masses, inertias)` in a kernel: K = E W E^T (2, 2), how unit forces along two directions move the
    place where they act."""
    _, response, product = row_functions(slots)
    mat22 = matrix((2, 2), real)

    @func
    def mobility(E, masses, inertias):
        M = [response(E[i], masses, inertias) for i in static(range(2))]
        mixed = product(E[0], M[1])
        return mat22(product(E[0], M[0]), mixed, mixed, product(E[1], M[1]))

    return mobility


@memoize
def friction_of(slots: Slots, real: Scalar) -> Function:
    """`friction(T, E, masses, inertias, multiplier, u, most)` in a kernel: the multiplier (2,) along the directions T
    after friction, at most `most`, has worked against a slip u; multiplier (3,): that before, in the world."""
    mobility = mobility_of(slots, real)

    @func
    def friction(T, E, masses, inertias, multiplier, u, most):
        K = mobility(E, masses, inertias)
        return coulomb(K, K @ along_both(T, multiplier) - along_both(T, u), most)

    return friction


@memoize
def moved_together(slots: Slots) -> Function:
    """`together(masses, share, since, moved)` in a kernel: how far the place where two sides touch has come in a step.

    A step moves by its impulses from where it began, and forces act where it ends: between two places that have come
    a different way they would be a couple.  So what counts for angular momentum is the place less this, the same for
    both sides, and the sum of both is kept to rounding.
    """
    n_particles = len(slots.particles)

    @func
    def together(masses, share, since, moved):
        if n_particles:
            total = sum(share)
            return sum([(share[p] / total) * since[p] for p in static(range(n_particles))])
        return (masses[0] * moved[0] + masses[1] * moved[1]) / (masses[0] + masses[1])

    return together


@memoize
def push_of(slots: Slots, real: Scalar) -> Function:
    """`push(p_k, b_k, force, masses, inertias, share, since, moved, turns, particle, dx, turn, impulse)` in a kernel:
    moves what a contact is between by multipliers times their rows, `force`."""
    moved_by = particle_layout(real).moved_by
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    _, response, _ = row_functions(slots)
    together, two_sided = moved_together(slots), n_bodies + min(n_particles, 1) == 2

    @func
    def push(p_k, b_k, force, masses, inertias, share, since, moved, turns, particle, dx, turn, impulse):
        motion = response(force, masses, inertias)
        for p in static(range(n_particles)):
            particle[p_k[p]] += moved_by(motion[p])
        for g in static(range(n_bodies)):
            dx[b_k[g]] += motion[n_particles + 2 * g]
            turn[b_k[g]] = exponential(motion[n_particles + 2 * g + 1]) * turns[g]
            if masses[n_particles + g] > 0.0:
                torque = force[n_particles + 2 * g + 1]
                if static(two_sided):
                    torque += cross(moved[g] - together(masses, share, since, moved), force[n_particles + 2 * g])
                impulse[b_k[g]] += torque

    return push


@func
def lane_span(lanes, color: int, together: int, thread: int):
    """The lanes of a colour that a thread of a launch takes, from the first to before the last: `together` of them.

    Near pairs of bodies are lanes, each of as many contacts; those of colour c, lanes[c] to before lanes[c + 1], share
    no free body.  What is left over without a colour one thread takes, one after the other.
    """
    begin = min(lanes[color] + thread * together, lanes[color + 1])
    return begin, min(begin + together, lanes[color + 1])


@memoize
def make_contact_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, exclusive: bool = False, lane: int = 0, single: bool = False
) -> Kernel:
    """One projection of contacts `start + tid()`: the normal row, to C = `impacts.target` or above, then friction.

    first: the multipliers are zero before; exclusive: see `sim.constraints.projection.make_projection`; lane: contacts
    of a near pair, which a thread takes one after the other (`lane_span`); single: or one of them, the one with that
    number in each lane, as a reverse sweep likes it better: it keeps no log of what was stored before.
    """
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface, Impacts = surface_struct(real), impact_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    displacement = layout.displacement
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    movers, masses_at = movers_of(slots), masses_of(slots)
    contact, slip, friction = contact_of(c, slots, real), slip_of(slots), friction_of(slots, real)
    gap, chosen = gap_of(c, slots, real), chosen_of(c)
    _, response, product = row_functions(slots)
    push = push_of(slots, real)

    @func
    def one(
        k,
        points,
        placing,
        data,
        surface,
        compliance,
        impacts,
        w,
        x_ref,
        bodies,
        dt,
        particle,
        dx,
        turn,
        impulse,
        multiplier,
        along,
    ):
        p_k, b_k, of_p, _, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
        x_p, placed_k, data_k = (
            [position(of_p[p]) for p in static(range(n_particles))],
            fields_at(placing, k),
            fields_at(data, k),
        )
        lam, lam_t = real(0.0), vec3()
        if not first:
            lam, lam_t = multiplier[k], along[k]
        if gap(x_p, poses, placed_k, data_k) < impacts.target[k] or lam > 0.0:
            masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
            C, G, n, T, E, share, arms = contact(x_p, poses, placed_k, data_k)
            alpha = compliance[k] / (dt * dt)
            M = response(G, masses, inertias)
            dlam = max((impacts.target[k] - C[0] - alpha * lam) / (product(G, M) + alpha), -lam)
            since = [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))]
            u = slip(n, share, arms, since, moved, turns) - impacts.before[k]
            for i in static(range(2)):  # what the normal push adds to it
                u += (dlam * product(E[i], M)) * T[i]
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            x = friction(T, E, masses, inertias, lam_t, u, mu * (lam + dlam))
            pushed = x - along_both(T, lam_t)
            force = [
                dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i]
                for i in static(range(n_particles + 2 * n_bodies))
            ]
            push(p_k, b_k, force, masses, inertias, share, since, moved, turns, particle, dx, turn, impulse)
            lam, lam_t = lam + dlam, x[0] * T[0] + x[1] * T[1]
        multiplier[k], along[k] = lam, lam_t

    @kernel(name=f"project_{c.name}_{slots.kinds}_friction")
    def project(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        compliance: array[real],
        impacts: Impacts,
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        one(
            start + tid(),
            points,
            placing,
            data,
            surface,
            compliance,
            impacts,
            w,
            x_ref,
            bodies,
            dt,
            particle,
            dx,
            turn,
            impulse,
            multiplier,
            along,
        )

    @kernel(name=f"project_{c.name}_{slots.kinds}_lanes")
    def project_lanes(
        color: int,
        together: int,
        back: int,
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        compliance: array[real],
        impacts: Impacts,
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        first, last = lane_span(lanes, color, together, tid())
        for i in range((last - first) * lane):
            k = first * lane + i
            if back > 0:
                k = last * lane - 1 - i
            if chosen(data, k):
                one(
                    k,
                    points,
                    placing,
                    data,
                    surface,
                    compliance,
                    impacts,
                    w,
                    x_ref,
                    bodies,
                    dt,
                    particle,
                    dx,
                    turn,
                    impulse,
                    multiplier,
                    along,
                )

    @kernel(name=f"project_{c.name}_{slots.kinds}_row")
    def project_row(
        color: int,
        row: int,
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        compliance: array[real],
        impacts: Impacts,
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        lane_at = lanes[color] + tid()
        if lane_at < lanes[color + 1]:
            k = lane_at * lane + row
            if chosen(data, k):
                one(
                    k,
                    points,
                    placing,
                    data,
                    surface,
                    compliance,
                    impacts,
                    w,
                    x_ref,
                    bodies,
                    dt,
                    particle,
                    dx,
                    turn,
                    impulse,
                    multiplier,
                    along,
                )

    if lane:
        project_lanes.race_free = True  # the lanes of a colour share what is held only
        project_row.race_free = True
        return project_row if single else project_lanes
    project.race_free = True  # the contacts of a launch share what is held only, which does not move
    if exclusive:
        written = ("particle", "dx", "turn", "impulse", "multiplier", "along", "x_ref", "w")
        project.exclusive = frozenset((*written, *(f"bodies.{name}" for name in Bodies.fields)))
    return project


@memoize
def impact_work_of(slots: Slots) -> Function:
    """`work(G, E, lam, lam_t, dt, velocity, masses, inertias)` in a kernel: what the impulses F of a contact have added
    to the energy [J] of what now moves with `velocity`, as if they were alone, F v - F W F / 2; and the last term.

    lam, lam_t (2,): its multipliers, those of friction along the rows E.
    """
    size, (_, response, product) = len(slots.particles) + 2 * len(slots.bodies), row_functions(slots)

    @func
    def work(G, E, lam, lam_t, dt, velocity, masses, inertias):
        F = [(lam * G[i] + lam_t[0] * E[0][i] + lam_t[1] * E[1][i]) / dt for i in static(range(size))]
        alone = 0.5 * product(F, response(F, masses, inertias))
        return product(F, velocity) - alone, alone

    return work


@func
def held_back(rebound, away, gained, own):
    """The rebound of a contact that has gained energy: a step of Newton's method towards none, by the normal impulse.

    Newton's law of restitution and friction together add energy where what presses also turns (T. R. Kane, D. A.
    Levinson, "Dynamics: Theory and Applications", 1985, section 5.8): an impact that would gives back less.
    """
    if gained > 0.0 and away > 0.0:
        rebound = max(rebound - own * gained / away, 0.0)
    return rebound


@memoize
def make_rebound(
    c: Constraint, slots: Slots, real: Scalar, first: bool, exclusive: bool = False, lane: int = 0, single: bool = False
) -> Kernel:
    """The velocities after a step of what contacts `start + tid()` have pushed: dC/dt = `impacts.rebound`, and the slip
    as friction allows, by impulses `late` [m kg] that count with those of the positions.

    first: `late` is zero before; lane: as in the projection.
    """
    vec3, spatial, Quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface, Impacts = surface_struct(real), impact_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    movers, masses_at, velocities = movers_of(slots), masses_of(slots), velocities_of(slots)
    contact, slip_rate, friction = contact_of(c, slots, real), slip_rate_of(slots), friction_of(slots, real)
    (_, response, product), work_of = row_functions(slots), impact_work_of(slots)

    @func
    def one(
        k,
        points,
        placing,
        data,
        surface,
        impacts,
        w,
        bodies,
        dt,
        particle,
        dx,
        turn,
        multiplier,
        v,
        body_qd,
        late,
        along,
    ):
        if multiplier[k] > 0.0:
            p_k, b_k, of_p, _, _, _, poses = movers(k, points, bodies, particle, dx, turn)
            masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
            _, G, n, T, E, share, arms = contact(
                [position(of_p[p]) for p in static(range(n_particles))],
                poses,
                fields_at(placing, k),
                fields_at(data, k),
            )
            velocity = velocities(p_k, b_k, v, body_qd)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            M = response(G, masses, inertias)
            own = product(G, M)
            before = real(0.0)
            if not first:
                before = late[k]
                if mu > 0.0 and impacts.rebound[k] > 0.0:
                    gained, _ = work_of(
                        G, E, multiplier[k] + before, along_both(T, along[k]), dt, velocity, masses, inertias
                    )
                    impacts.rebound[k] = held_back(impacts.rebound[k], product(G, velocity), gained, own)
            dlam = max((impacts.rebound[k] - product(G, velocity)) * dt / own, -(multiplier[k] + before))
            u = dt * slip_rate(n, share, arms, velocity)
            for i in static(range(2)):
                u += (dlam * product(E[i], M)) * T[i]
            x = friction(T, E, masses, inertias, along[k], u, mu * (multiplier[k] + before + dlam))
            pushed = x - along_both(T, along[k])
            force = [
                (dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i]) / dt
                for i in static(range(n_particles + 2 * n_bodies))
            ]
            motion = response(force, masses, inertias)
            for p in static(range(n_particles)):
                v[p_k[p]] += motion[p]
            for g in static(range(n_bodies)):
                d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            late[k] = before + dlam
            along[k] = x[0] * T[0] + x[1] * T[1]
        else:
            late[k] = 0.0

    @kernel(name=f"rebound_{c.name}_{slots.kinds}")
    def rebound(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        impacts: Impacts,
        w: array[real],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        v: array[vec3],
        body_qd: array[spatial],
        late: array[real],
        along: array[vec3],
    ):
        one(
            start + tid(),
            points,
            placing,
            data,
            surface,
            impacts,
            w,
            bodies,
            dt,
            particle,
            dx,
            turn,
            multiplier,
            v,
            body_qd,
            late,
            along,
        )

    @kernel(name=f"rebound_{c.name}_{slots.kinds}_lanes")
    def rebound_lanes(
        color: int,
        together: int,
        back: int,
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        impacts: Impacts,
        w: array[real],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        v: array[vec3],
        body_qd: array[spatial],
        late: array[real],
        along: array[vec3],
    ):
        first, last = lane_span(lanes, color, together, tid())
        for i in range((last - first) * lane):
            k = first * lane + i
            if back > 0:
                k = last * lane - 1 - i
            one(
                k,
                points,
                placing,
                data,
                surface,
                impacts,
                w,
                bodies,
                dt,
                particle,
                dx,
                turn,
                multiplier,
                v,
                body_qd,
                late,
                along,
            )

    @kernel(name=f"rebound_{c.name}_{slots.kinds}_row")
    def rebound_row(
        color: int,
        row: int,
        lanes: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        impacts: Impacts,
        w: array[real],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        v: array[vec3],
        body_qd: array[spatial],
        late: array[real],
        along: array[vec3],
    ):
        lane_at = lanes[color] + tid()
        if lane_at < lanes[color + 1]:
            k = lane_at * lane + row
            one(
                k,
                points,
                placing,
                data,
                surface,
                impacts,
                w,
                bodies,
                dt,
                particle,
                dx,
                turn,
                multiplier,
                v,
                body_qd,
                late,
                along,
            )

    if lane:
        rebound_lanes.race_free = True  # as in the projection
        rebound_row.race_free = True
        return rebound_row if single else rebound_lanes
    rebound.race_free = True  # as in the projection
    if exclusive:
        written = ("particle", "dx", "turn", "multiplier", "late", "along", "w", "v", "body_qd", "impacts.rebound")
        rebound.exclusive = frozenset((*written, *(f"bodies.{name}" for name in Bodies.fields)))
    return rebound
