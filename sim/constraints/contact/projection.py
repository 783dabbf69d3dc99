"""The XPBD projection of contacts with Coulomb friction (`friction`): positions."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.boxes import chosen_of
from sim.constraints.contact.friction import along_both, friction_of
from sim.constraints.contact.geometry import contact_of, gap_of, slip_of
from sim.constraints.contact.surface import impact_struct, surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of, row_functions
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import cross
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


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
