"""Which contacts have an impact, and which rest or are springs: numbers from 0 to 1, smooth between.

What approaches at less than twice the speed that gravity gives in a step rests and has no rebound, as in M. Mueller et
al., "Detailed Rigid Body Simulation with Extended Position Based Dynamics", SCA 2020, section 3.6; here the rebound
grows from there to its full size at twice that speed, instead of at once.
What lies on something and is pulled onto it by rigid links that hold it, as a taut rope on a drum, rests as what falls
with that pull beside gravity.
Without gravity bodies rest on each other, too, where the acceleration of a step alone brings them back: their way is
curved.

What has a compliance is a spring: its forces turn around what comes, in as many steps as that takes, and it has no
impacts, nor a restitution.  Where steps are too long to see that, it is as hard as they can tell (`hard_part`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize

RESTING = 2.0
"""Up to so many times the speed that gravity gives in a step an impact has no rebound, from twice that on its full."""

CARRIED = 0.1
"""Without gravity: of how the last step changed the velocity of one of both, see `carried_speed_of`."""


@func
def resting_speed(gravity, dt):
    """What approaches no faster [m/s] rests."""
    return RESTING * length(gravity) * dt


@memoize
def carried_speed_of(slots: Slots) -> Function:
    """`carried_speed(velocity, last)` in a kernel: `resting_speed` without gravity, by how much the last step changed
    the velocity of what moves, which was not at rest before.

    A ball that flies into a free cloth is pressed by its threads, and both go on together: by the sign of a rounding
    error it hits or it rests, were all that approaches an impact, and what begins 1e-9 m beside it is 1e-4 m away soon.
    """
    n_particles = len(slots.particles)
    linear = [*range(n_particles), *(n_particles + 2 * g for g in range(len(slots.bodies)))]

    @func
    def carried_speed(velocity, last):
        speed = 0.0 * velocity[0][0]
        for i in static(linear):
            if dot(last[i], last[i]) > 0.0:
                speed = max(speed, static(CARRIED) * length(velocity[i] - last[i]))
        return speed

    return carried_speed


@func
def share_of_impact(approach, resting):
    """0 for what rests, as it approaches no faster than `resting`, 1 for an impact, from twice that on."""
    share = 0.0 * approach
    if approach > resting:
        share = share + 1.0
        if approach < 2.0 * resting:
            share = (approach - resting) / resting
    return share


@func
def hard_part(compliance, own, dt):
    """Of a contact with this compliance [m/N], of what gives way to it by own [1/kg]: 1 for what is as hard as a step
    can tell, 0 for a spring that swings for more than 2 pi steps; smooth between, and flat at both."""
    part, stiff = 0.0 * own, own * dt * dt
    if compliance < stiff:
        softer = compliance / stiff
        part = (1.0 - softer * softer) * (1.0 - softer * softer)
    return part


@func
def still_of(start, near):
    """1 where a contact began a step as `near` as what rests does, or inside, and 0 at twice that: then others have
    pushed it in, at once, and it does not press as hard again."""
    still = 0.0 * start
    if start <= near:
        still = still + 1.0
    elif start < 2.0 * near:
        still = 2.0 - start / near
    return still
