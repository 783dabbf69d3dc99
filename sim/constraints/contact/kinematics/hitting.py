"""Where contacts touch: what rests or slides as the step ends, what hits as it hits.

The direction n of a contact and the arms at which it acts change as things move and turn.  Taken as a step ends, they
depend on when in the step an impact was, and so does the velocity after it: by a part of the order of the step h.  But
the time of impact depends on what came before, and a change of it by h takes that part from one end to the other: in
the derivative it is of order one, however short the step.  So an impact acts in the whole step along its rows at
x* = x_0 + t v, where it happens, and C is linear there:

    C(x) = C(x*) + G* . (x - x*)

With the target and the rebound of `make_impact` its impulses on positions and velocities are then (1 - s) and s times
that of the motion, s = t / h, along the same row.  What slides over something curved approaches it too, but not as the
step begins: it `hits` by as much as it did then.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.kinematics.geometry import contact_of
from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import imaginary, quat_inverse
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector

SLIDES, HITS = 0.25, 0.5
"""How fast C decreases as the step begins, in parts of how fast it does in the whole step: up to the first it slides,
from the second on it hits."""


@func
def hits_of(rate, mean):
    """Whether what approaches does so from the beginning of a step, 0 ... 1; dC/dt then, and in the mean."""
    hits = 0.0 * rate
    if mean < 0.0:
        hits = min(max((rate / mean - SLIDES) / (HITS - SLIDES), 0.0 * rate), 1.0 + 0.0 * rate)
    return hits


@func
def _placed(at, begun, rate, hits, t):
    if hits > 0.0:
        at = at + hits * (begun + t * rate - at)
    return at


@func
def _turned(q, begun, spin, hits, t):
    if hits > 0.0:
        q = normalize(q + hits * (exponential(t * spin) * begun - q))
    return q


@memoize
def there_of(slots: Slots) -> Function:
    """`there(x, x_0, poses, begun, velocity, hits, t)` in a kernel: particles and poses of bodies where the rows of a
    contact are taken: as they are now, for hits = 0, and at the time t for hits = 1; velocity: before the step."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def there(x, x_0, poses, begun, velocity, hits, t):
        return [_placed(x[p], x_0[p], velocity[p], hits, t) for p in static(range(n_particles))], [
            (
                _placed(poses[g][0], begun[g][0], velocity[n_particles + 2 * g], hits, t),
                _turned(poses[g][1], begun[g][1], velocity[n_particles + 2 * g + 1], hits, t),
            )
            for g in static(range(n_bodies))
        ]

    return there


@memoize
def hit_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`hit(x, x_0, poses, begun, velocity, hits, t, placing, parameters)` in a kernel: what `contact_of` gives where
    `there_of` says, but C as it is now; and how far it is from now to there, for particles and for bodies."""
    contact, n_particles, n_bodies = contact_of(c, slots, real), len(slots.particles), len(slots.bodies)
    there_at, (_, _, product) = there_of(slots), row_functions(slots)

    @func
    def turned_since(q, there):
        return 2.0 * imaginary(q * quat_inverse(there))

    @func
    def hit(x, x_0, poses, begun, velocity, hits, t, placing, parameters):
        at, there = there_at(x, x_0, poses, begun, velocity, hits, t)
        C, G, n, T, E, share, arms = contact(at, there, placing, parameters)
        back_p = [at[p] - x[p] for p in static(range(n_particles))]
        back_b = [there[g][0] - poses[g][0] for g in static(range(n_bodies))]
        gap = C[0]
        if hits > 0.0:
            gap += product(G, [-back_p[p] for p in static(range(n_particles))] + [
                -back_b[k // 2] if k % 2 == 0 else turned_since(poses[k // 2][1], there[k // 2][1])
                for k in static(range(2 * n_bodies))
            ])  # fmt: skip
        return gap, G, n, T, E, share, arms, back_p, back_b

    return hit


@memoize
def moved_together(slots: Slots) -> Function:
    """`together(masses, share, carried, since, moved)` in a kernel: how far the place where two sides touch has come in
    a step; carried: with the first of two bodies, see `carried_of`.

    A step moves by its impulses from where it began, and forces act where it ends: between two places that have come
    a different way they would be a couple.  So what counts for angular momentum is the place less this, the same for
    both sides, and the sum of both is kept to rounding.
    """
    n_particles = len(slots.particles)

    @func
    def together(masses, share, carried, since, moved):
        if n_particles:
            total, way = sum(share), moved[0]
            if sum([masses[p] for p in static(range(n_particles))]) > 0.0:
                way = sum([(share[p] / total) * since[p] for p in static(range(n_particles))])
            return way
        return carried * moved[0] + (1.0 - carried) * moved[1]

    return together


def two_sided(slots: Slots) -> bool:
    """Is a contact between two movers, of which particles together are one?"""
    return len(slots.bodies) + min(len(slots.particles), 1) == 2


@memoize
def shifts_of(slots: Slots) -> Function:
    """`shifts(carried, apart)` in a kernel: how far the arms on each body are shifted, see `meeting_of`; apart: by how
    much more the first side has come since the impact than the second, or particles than the body."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def shifts(carried, apart):
        if n_particles:
            return [apart for _ in static(range(n_bodies))]
        return [(1.0 - carried) * apart, -carried * apart]

    return shifts


@memoize
def meeting_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`meeting(x, x_0, poses, begun, velocity, hits, t, placing, parameters, masses, carried)` in a kernel: n, T, G, E,
    share and arms of a contact as `hit_of` gives them, for impulses on the velocities as a step ends; and `apart`.

    Impulses act where things are then.  The arms of what has hit are taken from there to one place for both sides, so
    that the angular momentum of both is kept; what that adds is what those on the positions (`push_of`) have left out.
    Velocities between the places are still those at the impact: `rate_at_impact`.
    """
    hit, together, shifts = hit_of(c, slots, real), moved_together(slots), shifts_of(slots)
    n_particles, pair, vec3 = len(slots.particles), two_sided(slots), vector(3, real)
    size, owners = n_particles + 2 * len(slots.bodies), tuple(g for g, own in enumerate(slots.bodies) for _ in own)

    @func
    def turning(k, row, shifted):
        if k >= n_particles and (k - n_particles) % 2 == 1:
            return row[k] + cross(shifted[(k - n_particles) // 2], row[k - 1])
        return row[k]

    @func
    def later(row, shifted):
        return [turning(static(k), row, shifted) for k in static(range(size))]

    @func
    def meeting(x, x_0, poses, begun, velocity, hits, t, placing, parameters, masses, carried):
        touch = hit(x, x_0, poses, begun, velocity, hits, t, placing, parameters)
        _, G, n, T, E, share, arms, back_p, back = touch
        apart = vec3()
        if static(pair):
            if static(n_particles > 0):
                apart = back[0] - together(masses, share, carried, back_p, back)
            else:
                apart = back[0] - back[1]
            shifted = shifts(carried, apart)
            G, E = later(G, shifted), [later(E[side], shifted) for side in static(range(2))]
            arms = [(arms[i][0], arms[i][1] + shifted[owners[i]]) for i in static(range(len(owners)))]
        return n, T, G, E, share, arms, apart

    return meeting


@memoize
def rate_at_impact(slots: Slots, owners: tuple[int, ...]) -> tuple[Function, Function]:
    """Functions in a kernel that say what to add to velocities at shifted arms (`meeting_of`) for those at the impact:
    `between(arms, velocity, shifted)` to that between the places, and `along(G, velocity, shifted)` to dC/dt; owners:
    the body of each arm."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def between(arms, velocity, shifted):
        return sum(
            [
                arms[a][0] * cross(shifted[owners[a]], velocity[n_particles + 2 * owners[a] + 1])
                for a in static(range(len(owners)))
            ]
        )

    @func
    def along(G, velocity, shifted):
        return sum(
            [
                dot(G[n_particles + 2 * g], cross(shifted[g], velocity[n_particles + 2 * g + 1]))
                for g in static(range(n_bodies))
            ]
        )

    return between, along
