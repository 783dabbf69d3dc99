"""What the next sweep over positions or velocities does with one-sided constraints, and which switches are near."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.diagnostics.switches import (
    CLOSING,
    CONE,
    NEAR,
    OPEN,
    SLIPS,
    STICKS,
    THRESHOLD,
    near,
    stopping_of,
)
from sim.constraints.contact.impacts.shares import hard_part
from sim.constraints.contact.kernels.forms import contact_struct, moving_struct, sides_of
from sim.constraints.contact.kernels.surface import impact_struct, surface_struct
from sim.constraints.contact.kinematics.geometry import slip_of, slip_rate_of
from sim.constraints.contact.kinematics.hitting import hit_of, meeting_of, rate_at_impact, shifts_of, two_sided
from sim.constraints.contact.laws.energy import budget_of, halfway_of
from sim.constraints.contact.laws.friction import along_both, mobility_of, rubbed_against, unturned
from sim.constraints.contact.laws.restitution import held_back_of
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import (
    masses_of,
    movers_of,
    row_functions,
    rows_of,
    velocities_of,
)  # fmt: skip
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, static, tid
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_look(c: Constraint, slots: Slots, real: Scalar, rough: bool) -> Kernel:
    """What the next projection does with one-sided constraints `start + tid()`, and how near it is to a switch.

    done: how many sweeps there were before.  rounding [of C]: below it C is not known.
    """
    vec3, spatial, Quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface, Impacts = surface_struct(real), impact_struct(real)
    layout = particle_layout(real)
    particle_type, position, displacement = layout.type(real), layout.position, layout.displacement
    n_particles = len(slots.particles)
    movers, masses_at = movers_of(slots), masses_of(slots)
    hit, rows_at, velocities = hit_of(c, slots, real), rows_of(c, slots, real), velocities_of(slots)
    slip, stopping_at, (_, response, product) = slip_of(slots), stopping_of(slots, real), row_functions(slots)

    @kernel(name=f"look_{c.name}_{slots.kinds}{'_friction' if rough else ''}")
    def look(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        compliance: array[real],
        impacts: Impacts,
        w: array[real],
        x_ref: array[vec3],
        v: array[vec3],
        bodies: Bodies,
        body_qd: array[spatial],
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        along: array[vec3],
        done: int,
        rounding: real,
        travel: array[real],
        does: array[int],
        switching: array[int],
    ):
        k = start + tid()
        p_k, b_k, of_p, begun, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
        masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
        x = [position(of_p[p]) for p in static(range(n_particles))]
        lam, target = real(0.0), real(0.0)
        if done > 0:
            lam = multiplier[k]
        alpha = compliance[k] / (dt * dt)
        if rough:
            target = impacts.target[k]
            x_0, v_0 = [x_ref[p_k[p]] for p in static(range(n_particles))], velocities(p_k, b_k, v, body_qd)
            hits, t = impacts.hits[k], impacts.time[k]
            touch = hit(x, x_0, poses, begun, v_0, hits, t, fields_at(placing, k), fields_at(data, k))
            gap, G, n, T, E, share, arms, _, _ = touch
        else:
            C, rows = rows_at(x, poses, fields_at(placing, k), fields_at(data, k))
            gap, G = C[0], rows[0]
        M = response(G, masses, inertias)
        own = product(G, M)
        pushes = lam * own + target - gap
        if abs(lam * own + max(target, 0.0) - gap) <= NEAR * travel[k] + rounding:
            switching[k] = switching[k] | static(CLOSING)
        do = static(OPEN)
        if pushes > 0.0:
            do = static(STICKS)
            if rough:
                dlam = (target - gap - alpha * lam) / (own + alpha)
                lam_t = along[k] if done > 0 else 0.0 * along[k]
                since = [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))]
                u = slip(n, share, arms, since, moved, turns) - impacts.before[k]
                for i in static(range(2)):
                    u += (dlam * product(E[i], M)) * T[i]
                stopping = stopping_at(T, E, masses, inertias, lam_t, u)
                most = 0.5 * (surface.friction[k] + surface.other_friction[k]) * (lam + dlam)
                if stopping > most:
                    do = static(SLIPS)
                if most > 0.0 and near(stopping, most, most):
                    switching[k] = switching[k] | static(CONE)
        does[k] = do

    return look


@memoize
def make_look_at_velocities(c: Constraint, slots: Slots, real: Scalar, crowded: bool) -> Kernel:
    """The same before a sweep over the velocities, of contacts with friction or restitution; crowded: see `parted`."""
    Contacts, Moving = contact_struct(c, slots, real), moving_struct(real)
    sides, masses_at, velocities = sides_of(slots, real), masses_of(slots), velocities_of(slots)
    meeting, slip_rate, stopping_at = meeting_of(c, slots, real), slip_rate_of(slots), stopping_of(slots, real)
    between_there, along_there = rate_at_impact(slots, tuple(g for g, own in enumerate(slots.bodies) for _ in own))
    pair, shifts = two_sided(slots), shifts_of(slots)
    n_particles = len(slots.particles)
    (_, response, product), mobility = row_functions(slots), mobility_of(slots, real)
    held_back, (added, _), halfway = held_back_of(slots, real), budget_of(slots), halfway_of(slots)

    @kernel(name=f"look_at_velocities_{c.name}_{slots.kinds}")
    def look(
        start: int,
        contacts: Contacts,
        moving: Moving,
        dt: real,
        rounding: real,
        travel: array[real],
        does: array[int],
        switching: array[int],
    ):
        k = start + tid()
        if contacts.multiplier[k] > 0.0:
            (p_k, b_k, _, begun, _, _, poses), x_p, _, placed_k, data_k = sides(k, contacts, moving)
            rebound, surface = contacts.impacts.rebound[k], contacts.surface
            pressed, pulled = contacts.multiplier[k] + contacts.late[k], contacts.along[k]
            masses, inertias = masses_at(p_k, b_k, poses, moving.w, moving.bodies)
            x_0 = [moving.x_ref[p_k[p]] for p in static(range(n_particles))]
            v_0, hits = velocities(p_k, b_k, moving.v_before, moving.body_qd_before), contacts.impacts.hits[k]
            t, carried = contacts.impacts.time[k], contacts.impacts.carried[k]
            met = meeting(x_p, x_0, poses, begun, v_0, hits, t, placed_k, data_k, masses, carried)
            n, T, G, E, share, arms, apart = met
            velocity = velocities(p_k, b_k, moving.v, moving.body_qd)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            M = response(G, masses, inertias)
            own, away, between = product(G, M), product(G, velocity), slip_rate(n, share, arms, velocity)
            if static(pair):
                shifted = shifts(carried, apart)
                away += along_there(G, velocity, shifted)
                between += between_there(arms, velocity, shifted)
            dlam = (rebound - away) * dt / own
            if contacts.compliance[k] > 0.0:
                hard = hard_part(contacts.compliance[k], own, dt)
                dlam = hard * dlam - (1.0 - hard) * contacts.late[k]
            slip, coming = dt * (between - contacts.impacts.after[k]), contacts.impacts.coming[k]
            if dot(pulled, pulled) > 0.0 and dot(coming, coming) > 0.0:  # where joints answer, see `Answered`
                along, slips = along_both(T, pulled), along_both(T, coming + slip / dt)
                if near(dot(along, slips) / pressed, contacts.impacts.loses[k], length(coming)):
                    switching[k] = switching[k] | static(THRESHOLD)
            if rebound > 0.0:
                u = slip
                for i in static(range(2)):
                    u += (dlam * product(E[i], M)) * T[i]
                K, turned = mobility(E, masses, inertias), along_both(T, contacts.turned[k])
                x = rubbed_against(K, T, pulled, u, mu * (pressed + dlam), turned)
                gained, at = added(p_k, b_k, masses, moving), halfway(velocity, p_k, b_k, moving)
                dlam, _, _, beyond = held_back(
                    dlam, x, pressed, pulled, away, own, gained, at, masses, inertias, G, T, E, dt
                )
                if near(beyond, real(0.0), real(1.0)):
                    switching[k] = switching[k] | static(THRESHOLD)
            total = pressed + dlam
            if static(crowded):  # what was before an impact is given in any case
                total -= contacts.cut[k][0]
                if contacts.cut[k][0] > 0.0:
                    pulled = pulled - contacts.rubbed[k]
            pulled = pulled - (mu * pressed) * contacts.turned[k]
            mu *= unturned(contacts.turned[k])
            if abs(total) * own <= NEAR * travel[k] + rounding:
                switching[k] = switching[k] | static(CLOSING)
            for i in static(range(2)):
                slip += (dlam * product(E[i], M)) * T[i]
            stopping = stopping_at(T, E, masses, inertias, pulled, slip)
            most_of_friction = mu * total
            if stopping > most_of_friction:
                does[k] = static(SLIPS)
            if most_of_friction > 0.0 and near(stopping, most_of_friction, most_of_friction):
                switching[k] = switching[k] | static(CONE)

    return look
