"""Whether contacts of a model may rebound: kernels of those that may count the energy of impulses, see `energy`.

Chosen when a solver is made: where no coefficient of restitution was declared, none can be given later.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.contact.laws.energy import (
    ROUNDING,
    budget_of,
    halfway_of,
    impulse_work_of,
    part_that_adds,
    push_work_of,
)
from sim.constraints.contact.laws.friction import along_both
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import max, min, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar


@memoize
def impulse_of(slots: Slots) -> Function:
    """`impulse(dlam, x, pulled, G, T, E, dt)` in a kernel: impulses over the movers of a change `dlam` of the normal
    multiplier of a contact, and of those of friction from `pulled` (3,) to x (2,) along T."""
    size = len(slots.particles) + 2 * len(slots.bodies)

    @func
    def impulse(dlam, x, pulled, G, T, E, dt):
        pushed = x - along_both(T, pulled)
        return [(dlam * G[i] + pushed[0] * E[0][i] + pushed[1] * E[1][i]) / dt for i in static(range(size))]

    return impulse


@memoize
def held_back_of(slots: Slots, real: Scalar) -> Function:
    """`held_back(dlam, x, pressed, pulled, away, own, gained, velocity, masses, inertias, G, T, E, dt)` in a kernel:
    the changes `dlam` and x of a contact that rebounds, or what of them adds no energy; what they add [J]; and how far
    the whole is from adding any, in parts of the energy of its normal impulse; velocity: see `halfway_of`.

    Less is a part of the way from no rebound at all, with friction in proportion: both are in the cone, and so is what
    is between.  pressed: the normal multiplier so far; gained [J]: what was added so far, see `budget_of`.
    """
    work, part_of = impulse_work_of(slots), part_that_adds(slots)
    impulse, size = impulse_of(slots), len(slots.particles) + 2 * len(slots.bodies)

    @func
    def held_back(dlam, x, pressed, pulled, away, own, gained, velocity, masses, inertias, G, T, E, dt):
        force = impulse(dlam, x, pulled, G, T, E, dt)
        alone = 0.5 * own * ((pressed + dlam) / dt) ** 2
        allowed, added = static(ROUNDING) * alone - gained, work(force, velocity, masses, inertias)
        beyond = added - allowed
        if beyond > 0.0 and pressed + dlam > 0.0:  # what lets go of everything has nothing to hold back
            still = max(-away * dt / own, -pressed)
            y = ((pressed + still) / (pressed + dlam)) * x
            least = impulse(still, y, pulled, G, T, E, dt)
            part = part_of(allowed, least, force, velocity, masses, inertias)
            dlam, x = still + part * (dlam - still), y + part * (x - y)
            given = [least[i] + part * (force[i] - least[i]) for i in static(range(size))]
            added = work(given, velocity, masses, inertias)
        return dlam, x, added, beyond / alone

    return held_back


@dataclass(frozen=True)
class Rebounding:
    """Contacts may rebound."""

    def push_work(self, slots: Slots, real: Scalar) -> Function:
        """`count(p_k, b_k, force, torques, motion, ...)` in a kernel: adds what a push adds, see `push_work_of`."""
        work, (_, add) = push_work_of(slots, real), budget_of(slots)

        @func
        def count(p_k, b_k, force, torques, motion, masses, since, moved, turns, poses, moving, dt):
            gained = work(p_k, b_k, force, torques, motion, masses, since, moved, turns, poses, moving, dt)
            add(gained, p_k, b_k, masses, moving)

        return count

    def budget(self, slots: Slots) -> tuple[Function, Function]:
        """See `budget_of`."""
        return budget_of(slots)

    def halfway(self, slots: Slots) -> Function:
        """See `halfway_of`."""
        return halfway_of(slots)

    def held_back(self, slots: Slots, real: Scalar) -> Function:
        """See `held_back_of`."""
        return held_back_of(slots, real)

    def slower(self, slots: Slots) -> Function:
        """Nothing: what an impact adds is counted."""
        return _as_fast


@dataclass(frozen=True)
class NoRebound:
    """None does: the same functions, which count nothing."""

    def push_work(self, slots: Slots, real: Scalar) -> Function:
        """Nothing counted."""

        @func
        def count(p_k, b_k, force, torques, motion, masses, since, moved, turns, poses, moving, dt):
            pass

        return count

    def budget(self, slots: Slots) -> tuple[Function, Function]:
        """Nothing added."""

        @func
        def added(p_k, b_k, masses, moving):
            return 0.0 * masses[0]

        @func
        def add(gained, p_k, b_k, masses, moving):
            pass

        return added, add

    def halfway(self, slots: Slots) -> Function:
        """The velocities as they are: nothing is counted."""

        @func
        def halfway(velocity, p_k, b_k, moving):
            return velocity

        return halfway

    def held_back(self, slots: Slots, real: Scalar) -> Function:
        """Nothing held back."""

        @func
        def held_back(dlam, x, pressed, pulled, away, own, gained, velocity, masses, inertias, G, T, E, dt):
            return dlam, x, real(0.0), real(0.0)

        return held_back

    def slower(self, slots: Slots) -> Function:
        """Nothing held back."""
        return _as_fast


@dataclass(frozen=True)
class Answered(NoRebound):
    """Contacts may rebound, and joints answer: what these take of the energy no contact can count, but need not.

    Joints whose rows have no rate do no work in an impact.  So with the velocities at its place before and after it,
    whatever joints answer, an impulse p of a contact adds p . (v- + v+) / 2.  With friction f of what slides at u-,
    and then at u+, one that would rebound at e of its approach c adds nothing if it leaves slower than that, by

        f . (u- + u+) / p - (1 - e) c

    and more or less as the other contacts of the same mover add: of a box that hits with a face one corner takes back
    what another one gives too much.
    """

    def slower(self, slots: Slots) -> Function:
        """By how much less than `rebound`, from what pressed and rubbed so far; keeps what that adds."""
        added, add = budget_of(slots)

        @func
        def slower(k, contacts, moving, p_k, b_k, masses, rebound, pressed, rubbed, slips):
            less, impacts = 0.0 * pressed, contacts.impacts
            if pressed > 0.0:
                others, rubs = added(p_k, b_k, masses, moving) - impacts.worked[k], dot(rubbed, slips)
                beyond = (rubs + 2.0 * others) / pressed - impacts.loses[k] - static(ROUNDING) * rebound
                if beyond > 0.0:
                    less = min(beyond, rebound)
                now = 0.5 * (rubs - pressed * (impacts.loses[k] + less))
                add(now - impacts.worked[k], p_k, b_k, masses, moving)
                impacts.worked[k] = now
            return less

        return slower


@func
def _as_fast(k, contacts, moving, p_k, b_k, masses, rebound, pressed, rubbed, slips):
    return 0.0 * rebound


Restitution = Rebounding | NoRebound | Answered
"""What contacts of a model may do."""
