"""The velocities of contacts after a step: rebounds, and friction with them."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.friction import along_both, friction_of
from sim.constraints.contact.geometry import contact_of, slip_rate_of
from sim.constraints.contact.projection import lane_span
from sim.constraints.contact.surface import impact_struct, surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of, row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


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
