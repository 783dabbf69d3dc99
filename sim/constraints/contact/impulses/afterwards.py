"""Where joints, and what they hold, are after an impact: from the velocities after it, which sweeps find sooner.

Positions of a step know an impact at s by (1 - s) h times its impulses.  Sweeps over them are few, and what joints hold
is moved by each to where these had let go of it alone.  With the velocities after all of them, v, and x* and v*, those
of the step without contacts,

    x = x* + (1 - s) h (v - v*)

of what is held by joints that an impact pushes, and of what it was hit by; but for those where a limit is reached in
the same step, which has a time of its own.  That goes straight on where joints lead along a circle, for less than a
step: what it is off by, of the order of (h v)^2, joints take back in the next one.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.forms import Form
from sim.constraints.particles import particle_layout
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.frontend.builtins import max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_inverse
from sim.core.lang.library.vector import spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_since(c: Constraint, slots: Slots, real: Scalar, form: Form) -> Kernel:
    """Of what contacts hit that push what joints hold: how much of the step was left, and how much of an impact it
    was, `since`."""
    vec2, particles, owners = vector(2, real), slots.particles, tuple(own[0] for own in slots.bodies)

    @func
    def hits(contacts, k: int):
        return contacts.multiplier[k] > 0.0 and contacts.impacts.share[k] > 0.0

    @func
    def later(before, left, share):
        return vec2(max(before[0], left), max(before[1], share))

    @func
    def one(k, contacts, moving, dt):
        if hits(contacts, k):
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
                for j in static(particles):
                    p = contacts.points[k, j]
                    if moving.w[p] > 0.0:
                        moving.since[p] = later(moving.since[p], left, share)
                for j in static(owners):
                    b = contacts.points[k, j]
                    if moving.bodies.inv_mass[b] > 0.0:
                        moving.body_since[b] = later(moving.body_since[b], left, share)

    return form.kernel("since", one, hits, c, slots, real)


@dataclass(frozen=True)
class AfterwardsKernels:
    """shared: `since` of mechanism tid(), of all that it holds; particles, bodies: moves them."""

    shared: Kernel
    particles: Kernel
    bodies: Kernel


@memoize
def afterwards_kernels(real: Scalar) -> AfterwardsKernels:
    """See `AfterwardsKernels`."""
    vec2, vec3, spatial, quat = vector(2, real), vector(3, real), vector(6, real), quaternion(real)
    layout = particle_layout(real)

    @func
    def most(first, last, of, since, found):
        for i in range(first, last):
            one = since[of[i]]
            found = vec2(max(found[0], one[0]), max(found[1], one[1]))
        return found

    @kernel
    def shared(
        particles: array[int],
        of_particles: array[int],
        bodies: array[int],
        of_bodies: array[int],
        since: array[vec2],
        body_since: array[vec2],
    ):
        m = tid()
        found = most(particles[m], particles[m + 1], of_particles, since, vec2())
        found = most(bodies[m], bodies[m + 1], of_bodies, body_since, found)
        if found[1] > 0.0:
            for i in range(particles[m], particles[m + 1]):
                since[of_particles[i]] = found
            for i in range(bodies[m], bodies[m + 1]):
                body_since[of_bodies[i]] = found

    @kernel
    def place_particles(
        since: array[vec2],
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
            particle[i] += layout.moved_by(share * come + (left * dt) * (v[i] - v_predicted[i]))

    @kernel
    def place_bodies(
        since: array[vec2],
        dx_predicted: array[vec3],
        turn_predicted: array[quat],
        qd_predicted: array[spatial],
        qd: array[spatial],
        dt: real,
        dx: array[vec3],
        turn: array[quat],
    ):
        i = tid()
        left, share = since[i][0], since[i][1]
        if share > 0.0:
            change = (left * dt) * (qd[i] - qd_predicted[i])
            dx[i] = dx[i] + share * (dx_predicted[i] - dx[i]) + spatial_top(change)
            back = exponential(share * logarithm(turn_predicted[i] * quat_inverse(turn[i])))
            turn[i] = exponential(spatial_bottom(change)) * (back * turn[i])

    shared.race_free = True  # a mover is held by one mechanism
    return AfterwardsKernels(shared, place_particles, place_bodies)
