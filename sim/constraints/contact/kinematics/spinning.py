"""How fast bodies turn where an impact is in a step.

What turns freely keeps its angular momentum L, and its angular velocity I^-1 L changes as I turns with it.  Between the
impact and the end of its step that is of the order of the step, but depends on when the impact was: taken as the step
ends, velocities had derivatives by up to 18 % off, at any step, where a body tumbled at 2 rad/s (a 2:1 inertia).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.contact.kinematics.hitting import there_of
from sim.constraints.projection import solve
from sim.constraints.slots.bodies import in_world, matrix_in_world
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import imaginary, quat_inverse
from sim.core.lang.library.vector import cross
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix


@func
def _elsewhere(omega, inverse, turned, mass):
    """The angular velocity of the same momentum, where the body is turned by so little."""
    if mass > 0.0:
        omega = omega + cross(turned, omega) - inverse @ cross(turned, solve(inverse, omega))
    return omega


@func
def _predicted(turn, omega, q, there, b, moving, hits, dt):
    """The vector of a turn in a step, and the angular velocity before it, as the momenta say at the impact."""
    if moving.bodies.inv_mass[b] > 0.0:
        inverse = moving.bodies.inv_inertia[b]
        before = solve(matrix_in_world(q, inverse), omega)
        after = moving.momentum[b] + moving.impulse[b] / dt
        turn = turn + hits * (dt * in_world(there, inverse, after) - turn)
        omega = omega + hits * (in_world(there, inverse, before) - omega)
    return turn, omega


@memoize
def _with_turns(slots: Slots) -> Function:
    """Vectors over the movers, with others in the place of those of turns."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def with_turns(over, turns):
        return [over[p] for p in static(range(n_particles))] + [
            over[n_particles + k] if k % 2 == 0 else turns[k // 2] for k in static(range(2 * n_bodies))
        ]

    return with_turns


@memoize
def predicted_of(slots: Slots) -> Function:
    """`predicted(motion, velocity, x, x_0, b_k, poses, begun, hits, t, moving, dt)` in a kernel: how far all comes in a
    step, and how fast it was before it, over the movers, of what turns as if all of the step were as at the impact."""
    n_particles, n_bodies, there_at = len(slots.particles), len(slots.bodies), there_of(slots)
    with_turns = _with_turns(slots)

    @func
    def predicted(motion, velocity, x, x_0, b_k, poses, begun, hits, t, moving, dt):
        _, there = there_at(x, x_0, poses, begun, velocity, hits, t)
        at = [n_particles + 2 * g + 1 for g in static(range(n_bodies))]
        each = [
            _predicted(motion[at[g]], velocity[at[g]], begun[g][1], there[g][1], b_k[g], moving, hits, dt)
            for g in static(range(n_bodies))
        ]
        turns, spins = [of[0] for of in each], [of[1] for of in each]
        return with_turns(motion, turns), with_turns(velocity, spins)

    return predicted


@memoize
def turned_of(slots: Slots, real: Scalar) -> Function:
    """`turned(x, x_0, poses, begun, velocity, hits, t, inertias)` in a kernel: by how much each body is to turn from
    where it is to where it was hit, and inverse inertias there."""
    there_at, n_bodies, mat33 = there_of(slots), len(slots.bodies), matrix((3, 3), real)

    @func
    def inverse_there(inverse, turned):
        x, y, z, none = turned[0], turned[1], turned[2], 0.0 * turned[0]
        turning = mat33(none, -z, y, z, none, -x, -y, x, none)
        return inverse + turning @ inverse - inverse @ turning

    @func
    def turned(x, x_0, poses, begun, velocity, hits, t, inertias):
        _, there = there_at(x, x_0, poses, begun, velocity, hits, t)
        by = [2.0 * imaginary(there[g][1] * quat_inverse(poses[g][1])) for g in static(range(n_bodies))]
        return by, [inverse_there(inertias[g], by[g]) for g in static(range(n_bodies))]

    return turned


@memoize
def spins_of(slots: Slots) -> Function:
    """`spins(velocity, masses, inertias, turned)` in a kernel: velocities over the movers, of what turns as it was
    hit."""
    n_particles, n_bodies, with_turns = len(slots.particles), len(slots.bodies), _with_turns(slots)

    @func
    def spins(velocity, masses, inertias, turned):
        each = [
            _elsewhere(velocity[n_particles + 2 * g + 1], inertias[g], turned[g], masses[n_particles + g])
            for g in static(range(n_bodies))
        ]
        return with_turns(velocity, each)

    return spins
