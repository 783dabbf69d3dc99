"""Where contacts touch: what rests or slides as the step ends, what hits as it hits.

The direction n of a contact and the arms at which it acts change as things move and turn.  Taken as a step ends, they
depend on when in the step an impact was, by as much as a step changes them.  That is of the order of the step in what
follows; but the time of impact t is in its derivative, and dt / dp is of the order of one over the step: the derivative
of the motion would be missed by as much as there is of it, however short the step.  So an impact acts along the rows
at x* = x_0 + t v, where it happens, in the whole step, and C is linear there:

    C(x) = C(x*) + G* . (x - x*)

With the target and the rebound of `impact` its impulses on positions and velocities are then (1 - s) and s times that
of the motion, s = t / h, along the same row.  What slides over something curved approaches it too, but not as the step
begins: it `hits` by as much as it did then.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.geometry import contact_of
from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import imaginary, quat_inverse
from sim.core.lang.library.vector import normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar

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
    """`there(x, x_0, poses, begun, velocity, hits, t)` in a kernel: particles, and poses of bodies, of which the rows of
    a contact are: those now, for hits = 0, and at the time t for hits = 1; velocity: before the step."""
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
    """`hit(x, x_0, poses, begun, velocity, hits, t, placing, parameters)` in a kernel: what `contact_of` gives of what
    `there_of` says, with C as it is now; then how far there is from now, in displacements of particles and of bodies."""
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
