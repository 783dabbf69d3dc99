"""The energy that contacts add to what moves: counted impulse by impulse, so that none with restitution adds any.

A step adds impulses p one after the other, while positions are projected and in the sweeps over the velocities.  Those
of the positions move all of the step, those of the velocities what is there as it ends, and the velocity of a step is
that of its middle.  So with the work of the forces that add b to the velocity of all in a step, as gravity adds h g to
what falls, each of them adds

    p . (d / h + W p / 2) - p . b / 2        d: how far all has come so far              of the positions
    p . (v + W p / 2) + p . b / 2                                                        of the velocities

exactly, where what is held counts as what it does by itself, b being what its motion adds, and of what turns the energy
L I^-1 L / 2 of the angular momentum L before and after, in the axes that it has then.  With the shares (1 - s) p and
s p of an impulse at the part s of the step the velocity that counts is that at the impact.  Were b left out of a wall
that speeds up, or of what a force pushes, an elastic impact would seem to add energy, of the order of the step, in half
of its phases: held back, it does not know its restitution any more.

Newton's law of restitution with friction adds energy of its own (T. R. Kane, D. A. Levinson, "Dynamics: Theory and
Applications", 1985, section 5.8), and so do projections along directions that change as they act: an impact that would
have gives back less.  What counts is what all contacts of something add: of a box that falls on a face one corner takes
back what another one has given too much.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.slots.bodies import in_world
from sim.constraints.slots.linearization import row_functions, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.frontend.builtins import sqrt, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar

ROUNDING = 5e-6
"""What an impact may add, in parts of the energy of its normal impulse alone: rounding, in float32 too, so that an
elastic one without friction, which adds nothing, is not at a switch."""


@memoize
def push_work_of(slots: Slots, real: Scalar) -> Function:
    """`work(p_k, b_k, force, torques, motion, masses, since, moved, turns, poses, moving, dt)` in a kernel: the energy
    [J] that a push of positions adds, by multipliers times their rows, `force`, which move all by `motion`; torques:
    of each body, as its angular momentum counts them."""
    n_particles, n_bodies, velocities = len(slots.particles), len(slots.bodies), velocities_of(slots)

    @func
    def along(force, come, motion, gain, dt):
        return dot(force, come + 0.5 * motion) / (dt * dt) - 0.5 * dot(force, gain) / dt

    @func
    def turning(torque, turned, mass, turn, pose, gain, b, moving, dt):
        done = dot(torque, logarithm(turn)) / (dt * dt)
        if mass > 0.0:
            inverse = moving.bodies.inv_inertia[b]
            before = moving.momentum[b] + moving.impulse[b] / dt
            after, q = before + torque / dt, exponential(turned) * pose[1]
            done = 0.5 * (dot(after, in_world(q, inverse, after)) - dot(before, in_world(pose[1], inverse, before)))
        return done - 0.5 * dot(torque, gain) / dt

    @func
    def work(p_k, b_k, force, torques, motion, masses, since, moved, turns, poses, moving, dt):
        gains, total = velocities(p_k, b_k, moving.gains, moving.body_gains), real(0.0)
        for p in static(range(n_particles)):
            total += along(force[p], since[p], motion[p], gains[p], dt)
        for g in static(range(n_bodies)):
            at, mass = n_particles + 2 * g, masses[n_particles + g]
            total += along(force[at], moved[g], motion[at], gains[at], dt)
            total += turning(torques[g], motion[at + 1], mass, turns[g], poses[g], gains[at + 1], b_k[g], moving, dt)
        return total

    return work


@memoize
def halfway_of(slots: Slots) -> Function:
    """`halfway(velocity, p_k, b_k, moving)` in a kernel: velocities of all movers as a step ends, with half of what
    forces add in it."""
    velocities, size = velocities_of(slots), len(slots.particles) + 2 * len(slots.bodies)

    @func
    def halfway(velocity, p_k, b_k, moving):
        gains = velocities(p_k, b_k, moving.gains, moving.body_gains)
        return [velocity[i] + 0.5 * gains[i] for i in static(range(size))]

    return halfway


@memoize
def impulse_work_of(slots: Slots) -> Function:
    """`work(force, velocity, masses, inertias)` in a kernel: the energy [J] that impulses over the movers add;
    velocity: see `halfway_of`."""
    _, response, product = row_functions(slots)

    @func
    def work(force, velocity, masses, inertias):
        return product(force, velocity) + 0.5 * product(force, response(force, masses, inertias))

    return work


@memoize
def budget_of(slots: Slots) -> tuple[Function, Function]:
    """Functions in a kernel, of what contacts with restitution have added so far in a step [J], in equal parts to what
    each of them may move:

    `added(p_k, b_k, masses, moving)`            what a contact has to make up for: what its mover has that has most
    `add(gained, p_k, b_k, masses, moving)`      adds to it
    """
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def added(p_k, b_k, masses, moving):
        most, count = 0.0 * masses[0], 0.0 * masses[0]
        for p in static(range(n_particles)):
            if masses[p] > 0.0:
                if count == 0.0 or moving.added[p_k[p]] > most:
                    most = moving.added[p_k[p]]
                count += 1.0
        for g in static(range(n_bodies)):
            if masses[n_particles + g] > 0.0:
                if count == 0.0 or moving.body_added[b_k[g]] > most:
                    most = moving.body_added[b_k[g]]
                count += 1.0
        return count * most

    @func
    def add(gained, p_k, b_k, masses, moving):
        count = 0.0 * masses[0]
        for j in static(range(n_particles + n_bodies)):
            if masses[j] > 0.0:
                count += 1.0
        for p in static(range(n_particles)):
            if masses[p] > 0.0:
                moving.added[p_k[p]] += gained / count
        for g in static(range(n_bodies)):
            if masses[n_particles + g] > 0.0:
                moving.body_added[b_k[g]] += gained / count

    return added, add


@memoize
def part_that_adds(slots: Slots) -> Function:
    """`part(allowed, least, most, velocity, masses, inertias)` in a kernel: which part of the way from impulses
    `least` of a contact, without its rebound, to those with it, `most`, adds no more than `allowed` [J]; 0 where none
    does."""
    size, (_, response, product) = len(slots.particles) + 2 * len(slots.bodies), row_functions(slots)
    work = impulse_work_of(slots)

    @func
    def part_of(allowed, least, most, velocity, masses, inertias):
        more, part = [most[i] - least[i] for i in static(range(size))], 0.0 * allowed
        c = work(least, velocity, masses, inertias) - allowed
        if c < 0.0:
            b = product(more, velocity) + product(more, response(least, masses, inertias))
            a = 0.5 * product(more, response(more, masses, inertias))
            root = sqrt(b * b - 4.0 * a * c)
            if b > 0.0:
                part = -2.0 * c / (b + root)
            else:
                part = (root - b) / (2.0 * a)
        return part

    return part_of
