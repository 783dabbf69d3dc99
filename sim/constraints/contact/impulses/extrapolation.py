"""Where sweeps over velocities lead, from the last of them: Aitken's process (A. C. Aitken, "On Bernoulli's numerical
solution of algebraic equations", 1926, section 8), for all contacts of what joints hold together.

A contact alone knows the inverse mass of the body that it is on, own = G W G^T, and what joints hold gives way less.
So each sweep leaves 1 - 1 / R of what is left to do, R = own / G W' G^T, and W' what joints leave of W: of a light foot
under a heavy leg nearly all.  Impulses change by d_1, d_2 = q d_1, ... then, and come to d_3 q / (1 - q) in the end,

    q = <d_2, d_3> / <d_2, d_2>        <d, e> = sum of d A e over contacts, A the inverse masses of each

where q is about the same from one sweep to the next (`UNSTEADY`); else they stay as they are.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.impulses.rebound import pushed_of
from sim.constraints.contact.kernels.forms import Form
from sim.constraints.contact.kinematics.geometry import across
from sim.constraints.contact.kinematics.rows import inertias_of, kept_of, normal_of, placed_of
from sim.constraints.contact.laws.friction import along_both
from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, max, min, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

WINDOW = 4
"""Sweeps from one extrapolation to the next: three changes, and what the jump leaves."""

UNSTEADY = 0.3
"""How much q may change from sweep to sweep, over 1 - q."""

SETTLED = 1e-5
"""Changes of impulses up to this part of them are left to sweeps: how rounding goes on says nothing of where these
lead."""

SLOWEST = 0.9998
"""The largest q: what is 5,000 times as heavy as it seems."""


@memoize
def make_noted(c: Constraint, slots: Slots, real: Scalar, crowded: bool, form: Form, first: bool) -> Kernel:
    """Keeps what a sweep has changed of the impulses of contacts, and what the one before it has; first: there is
    none before it."""
    vec3 = vector(3, real)

    @func
    def one(k, contacts, moving, dt):
        x = along_both(across(contacts.rows.vectors[k, 0]), contacts.along[k])
        now = vec3(contacts.late[k], x[0], x[1])
        if static(first):
            contacts.earlier[k], contacts.change[k] = vec3(), vec3()
        else:
            contacts.earlier[k], contacts.change[k] = contacts.change[k], now - contacts.given[k]
        contacts.given[k] = now

    return form.kernel("note", one, pushed_of(crowded), c, slots, real)


@memoize
def make_trend(c: Constraint, slots: Slots, real: Scalar, crowded: bool, form: Form) -> Kernel:
    """Adds up <d_1, d_1>, <d_1, d_2>, <d_2, d_2> and <d_2, d_3>, and the same of whole impulses, of what joints hold:
    `trend` of their movers."""
    vec3, vec5, mat33 = vector(3, real), vector(5, real), matrix((3, 3), real)
    particles, owners, kept = slots.particles, tuple(own[0] for own in slots.bodies), kept_of(c, slots, real)
    pushed = pushed_of(crowded)

    @func
    def one(k, contacts, moving, dt):
        if pushed(contacts, k):
            n, _, _, own, coupled, K = kept(k, contacts.rows)
            A = mat33(own, coupled[0], coupled[1], coupled[0], K[0, 0], K[0, 1], coupled[1], K[1, 0], K[1, 1])
            x = along_both(across(n), contacts.along[k])
            first, second = contacts.earlier[k], contacts.change[k]
            now = vec3(contacts.late[k], x[0], x[1])
            third, whole = now - contacts.given[k], now + vec3(contacts.multiplier[k], real(0.0), real(0.0))
            contacts.earlier[k], contacts.change[k] = second, third
            eased = A @ second
            sums = vec5(
                dot(first, A @ first), dot(first, eased), dot(second, eased), dot(third, eased), dot(whole, A @ whole)
            )
            for j in static(particles):
                p = contacts.points[k, j]
                if moving.mechanism[p] >= 0:
                    moving.trend[p] += sums
            for j in static(owners):
                b = contacts.points[k, j]
                if moving.body_mechanism[b] >= 0:
                    moving.body_trend[b] += sums

    return form.kernel("trend", one, pushed, c, slots, real)


@memoize
def make_stretch(real: Scalar) -> Kernel:
    """q / (1 - q) of mechanisms tid() that an impact has hit, 0 of others."""
    vec5 = vector(5, real)

    @kernel
    def stretch(
        particles: array[int],
        of_particles: array[int],
        bodies: array[int],
        of_bodies: array[int],
        hit: array[int],
        trend: array[vec5],
        body_trend: array[vec5],
        stretch: array[real],
    ):
        m = tid()
        sums, more = vec5(), real(0.0)
        for i in range(particles[m], particles[m + 1]):
            sums += trend[of_particles[i]]
        for i in range(bodies[m], bodies[m + 1]):
            sums += body_trend[of_bodies[i]]
        if hit[m] > 0 and sums[0] > 0.0 and sums[2] > static(SETTLED * SETTLED) * sums[4]:
            before, q = sums[1] / sums[0], sums[3] / sums[2]
            if q > 0.0 and q < static(SLOWEST) and abs(q - before) < static(UNSTEADY) * (1.0 - q):
                more = q / (1.0 - q)
        stretch[m] = more

    stretch.race_free = True  # a mover is held by one mechanism
    return stretch


@memoize
def make_extrapolated(c: Constraint, slots: Slots, real: Scalar, crowded: bool, form: Form) -> Kernel:
    """Gives contacts the impulses that sweeps lead to, those that share no mover at once."""
    spatial, n_particles, n_bodies = vector(6, real), len(slots.particles), len(slots.bodies)
    masses_at, placed, (_, response, _) = inertias_of(slots), placed_of(c, slots, real), row_functions(slots)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    (_, _, force), pushed = normal_of(c, slots, real), pushed_of(crowded)

    @func
    def stretch_of(k, contacts, moving):
        """That of its mechanism; the lesser of two."""
        found = real(-1.0)
        for j in static(particles):
            m = moving.mechanism[contacts.points[k, j]]
            if m >= 0:
                found = moving.stretch[m] if found < 0.0 else min(found, moving.stretch[m])
        for j in static(owners):
            m = moving.body_mechanism[contacts.points[k, j]]
            if m >= 0:
                found = moving.stretch[m] if found < 0.0 else min(found, moving.stretch[m])
        return found

    @func
    def one(k, contacts, moving, dt):
        if pushed(contacts, k):
            factor = stretch_of(k, contacts, moving)
            if factor > 0.0:
                n, share, arms = placed(k, contacts.rows)
                T, more = across(n), factor * contacts.change[k]
                dlam = max(more[0], -(contacts.multiplier[k] + contacts.late[k]))
                p_k = [contacts.points[k, j] for j in static(particles)]
                b_k = [contacts.points[k, j] for j in static(owners)]
                masses, inertias = masses_at(p_k, b_k, moving)
                rubs = more[1] * T[0] + more[2] * T[1]
                motion = response(force(k, contacts.rows, n, share, arms, dlam / dt, rubs / dt), masses, inertias)
                for p in static(range(n_particles)):
                    moving.v[p_k[p]] += motion[p]
                for g in static(range(n_bodies)):
                    d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                    moving.body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
                contacts.late[k] += dlam
                contacts.along[k] += rubs

    return form.kernel("extrapolate", one, pushed, c, slots, real)
