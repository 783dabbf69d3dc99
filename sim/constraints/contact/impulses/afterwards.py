"""Where joints, and what they hold, are after an impact: from the velocities after it, which sweeps find sooner.

Positions of a step know an impact at s by (1 - s) h times its impulses.  Sweeps over them are few, and what joints hold
is moved by each to where these had let go of it alone.  With the velocities after all of them, v, and x* and v*, those
of the step without contacts,

    x = x* + (1 - s) h (v - v*)

of what is held by joints that an impact pushes, and of what it was hit by; but for those where a limit is reached in
the same step, which has a time of its own.  That goes straight on where joints lead along a circle, for less than a
step: what it is off by, of the order of (h v)^2, they take back at once (`make_closed`).

What rests meanwhile is pushed for all of the step, not since s, and by that x leaves things in what they rest on: a
taut rope on a drum, of which one more point comes to touch, by a tenth of a link.  Sweeps over positions know better.
So they keep their word by how much of what presses a mechanism is no impact (`placed_part`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.impulses.held import HeldLayout, held_row_struct
from sim.constraints.contact.kernels.forms import Form
from sim.constraints.contact.kinematics.rows import kept_of
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, in_world, matrix_in_world, slot_struct
from sim.constraints.slots.linearization import movers_of, rows_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_inverse
from sim.core.lang.library.vector import spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@func
def joined(one, other):
    """`since` of two of which one impact is that of both."""
    first = [max(one[i], other[i]) for i in static(range(3))]
    return type(one)(first[0], first[1], first[2], one[3] + other[3], one[4] + other[4])


@func
def placed_part(since):
    """How far what was hit goes to where velocities lead it, 0 ... 1, by the part of what presses it that is an impact:
    squared, so that it is next to nothing where that is little."""
    part = 0.0 * since[3]
    if since[4] > 0.0:
        part = 1.0 - since[3] / since[4]
    return part * part


@memoize
def make_since(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """Of what contacts push that joints hold, `since`: how much of the step was left as it was hit, how much of an
    impact it was, and how much was left where its rows are, which are those at the end of the step of what slides; then
    how strongly it is pressed by what rests, and by all: own lambda^2, as pushes have given energy to it alone."""
    vec5, particles, owners = vector(5, real), slots.particles, tuple(own[0] for own in slots.bodies)
    kept = kept_of(c, slots, real)

    @func
    def pushes(contacts, k: int):
        return contacts.multiplier[k] > 0.0

    @func
    def one(k, contacts, moving, dt):
        if pushes(contacts, k):
            held, reached = False, False
            for j in static(particles):
                m = moving.mechanism[contacts.points[k, j]]
                if m >= 0:
                    held, reached = True, reached or moving.reached[m] > 0
            for j in static(owners):
                m = moving.body_mechanism[contacts.points[k, j]]
                if m >= 0:
                    held, reached = True, reached or moving.reached[m] > 0
            if held and not reached:
                share = contacts.impacts.share[k]
                left = share * min(1.0 - contacts.impacts.time[k] / dt, real(1.0))
                since = contacts.impacts.hits[k] * left
                _, _, _, own, _, _ = kept(k, contacts.rows)
                pressed = own * contacts.multiplier[k] * contacts.multiplier[k]
                found = vec5(left, share, since, (1.0 - share) * pressed, pressed)
                for j in static(particles):
                    p = contacts.points[k, j]
                    if moving.w[p] > 0.0:
                        moving.since[p] = joined(moving.since[p], found)
                for j in static(owners):
                    b = contacts.points[k, j]
                    if moving.bodies.inv_mass[b] > 0.0:
                        moving.body_since[b] = joined(moving.body_since[b], found)

    return form.kernel("since", one, pushes, c, slots, real)


@dataclass(frozen=True)
class AfterwardsKernels:
    """shared: `since` of mechanism tid(), and of all that it holds; particles, bodies: moves them.  What turns keeps
    its angular momentum as it is moved."""

    shared: Kernel
    particles: Kernel
    bodies: Kernel


@memoize
def afterwards_kernels(real: Scalar) -> AfterwardsKernels:
    """See `AfterwardsKernels`."""
    vec3, vec5, spatial, quat = vector(3, real), vector(5, real), vector(6, real), quaternion(real)
    Bodies = body_struct(real)
    layout = particle_layout(real)

    @func
    def most(first, last, of, since, found):
        for i in range(first, last):
            found = joined(found, since[of[i]])
        return found

    @kernel
    def shared(
        particles: array[int],
        of_particles: array[int],
        bodies: array[int],
        of_bodies: array[int],
        since: array[vec5],
        body_since: array[vec5],
        of_mechanism: array[vec5],
    ):
        m = tid()
        found = most(particles[m], particles[m + 1], of_particles, since, vec5())
        found = most(bodies[m], bodies[m + 1], of_bodies, body_since, found)
        of_mechanism[m] = found
        if found[1] > 0.0:
            for i in range(particles[m], particles[m + 1]):
                since[of_particles[i]] = found
            for i in range(bodies[m], bodies[m + 1]):
                body_since[of_bodies[i]] = found

    @kernel
    def place_particles(
        since: array[vec5],
        x_ref: array[vec3],
        predicted: array[layout.type(real)],
        v_predicted: array[vec3],
        v: array[vec3],
        dt: real,
        particle: array[layout.type(real)],
    ):
        i = tid()
        left, share = since[i][0], since[i][1]
        if share > 0.0:
            come = layout.displacement(predicted[i], x_ref[i]) - layout.displacement(particle[i], x_ref[i])
            way = share * come + (left * dt) * (v[i] - v_predicted[i])
            particle[i] += layout.moved_by(placed_part(since[i]) * way)

    @kernel
    def place_bodies(
        bodies: Bodies,
        since: array[vec5],
        dx_predicted: array[vec3],
        turn_predicted: array[quat],
        qd_predicted: array[spatial],
        dt: real,
        dx: array[vec3],
        turn: array[quat],
        qd: array[spatial],
    ):
        i = tid()
        left, share = since[i][0], since[i][1]
        if share > 0.0:
            q, inverse = bodies.q[i], bodies.inv_inertia[i]
            v, omega, rest = spatial_top(qd[i]), spatial_bottom(qd[i]), left * dt
            momentum = solve(matrix_in_world(turn[i] * q, inverse), omega)
            hit = exponential((1.0 - left) * logarithm(turn_predicted[i]))
            halfway = exponential(0.5 * rest * in_world(hit * q, inverse, momentum)) * hit
            after = exponential(rest * in_world(halfway * q, inverse, momentum)) * hit
            part = placed_part(since[i])
            dx[i] = dx[i] + part * (share * (dx_predicted[i] - dx[i]) + rest * (v - spatial_top(qd_predicted[i])))
            turn[i] = exponential((part * share) * logarithm(after * quat_inverse(turn[i]))) * turn[i]
            omega = in_world(turn[i] * q, inverse, momentum)
            qd[i] = spatial(v[0], v[1], v[2], omega[0], omega[1], omega[2])

    shared.race_free = True  # a mover is held by one mechanism
    return AfterwardsKernels(shared, place_particles, place_bodies)


@memoize
def make_closed(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Moves what rows hold back onto them, in mechanisms that were hit: what went straight on is beside its circle by
    (h v)^2, which the next step would take for a velocity.  Where a row has a compliance, to where that holds what
    positions ended with: as far as (h v)^2 alone, to the share in which it gives way."""
    Data, SlotData, Bodies, Rows = (
        parameter_struct(c, real),
        slot_struct(c, slots, real),
        body_struct(real),
        held_row_struct(real),
    )
    vec3, vec5, quat, layout = vector(3, real), vector(5, real), quaternion(real), particle_layout(real)
    own, rows_at, movers = HeldLayout(c, slots), rows_of(c, slots, real), movers_of(slots)
    active, q, n_particles, n_bodies = own.active, own.movers, len(slots.particles), len(slots.bodies)
    m, single, value = len(active), c.rows == 1, value_type(c, real)

    @kernel(name=f"close_{c.name}_{slots.kinds}")
    def close(
        start: int,
        points: array2d[int],
        mechanism: array[int],
        placing: SlotData,
        data: Data,
        bodies: Bodies,
        since: array[vec5],
        multiplier: array[value],
        rows: Rows,
        particle: array[layout.type(real)],
        dx: array[vec3],
        turn: array[quat],
    ):
        k = start + tid()
        if since[mechanism[k]][1] > 0.0:
            p_k, b_k, of_p, _, _, turns, poses = movers(k, points, bodies, particle, dx, turn)
            x = [layout.position(of_p[p]) for p in static(range(n_particles))]
            C, _ = rows_at(x, poses, fields_at(placing, k), fields_at(data, k))
            lam, part = [real(0.0) for _ in static(range(m))], placed_part(since[mechanism[k]])
            for j in static(range(m)):
                pulled = multiplier[k] if single else multiplier[k][active[j]]
                left = C[active[j]] + rows.numbers[k, m * m + m + j] * pulled
                lam = [lam[i] - rows.numbers[k, i * m + j] * (part * left) for i in static(range(m))]
            way = [sum([lam[r] * rows.vectors[k, (m + r) * q + i] for r in static(range(m))]) for i in static(range(q))]
            for p in static(range(n_particles)):
                particle[p_k[p]] += layout.moved_by(way[p])
            for g in static(range(n_bodies)):
                dx[b_k[g]] += way[n_particles + 2 * g]
                turn[b_k[g]] = exponential(way[n_particles + 2 * g + 1]) * turns[g]

    close.race_free = True  # the constraints of a launch share what is held only, which does not move
    return close
