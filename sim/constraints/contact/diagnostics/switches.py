"""How near the branches of a contact are to where they switch, in a step that is being taken.

A step is a program with branches, and its derivative that of the branches taken: at a switch the loss has a kink, or
another slope on its other side, and the gradient is one-sided.  Of a one-sided constraint these are

* closing: r = lambda K + target - C, how far it would push in all if it were not one-sided, K = G W G^T; it pushes
  where r > 0.  Both C and lambda are zero at r = 0.  And an impact at the very beginning of the step;
* cone: the length of the multiplier of friction that would stop all slip, against mu lambda_n;
* threshold: the speed of approach, against those where impacts begin to rebound, and where they do in full; and what
  rebounds against what falls back within the step.

A launch of `make_foresight` (`predicted`) after the prediction and of `make_look` (`sweeps`) before each sweep looks
for them; nothing of the step itself is changed.  Closing is measured by how far C has come in the predicted step, the
others by what they are compared with.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.contact.laws.friction import along_both, inverted, mobility_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar

NEAR = 1e-6
"""Relative distance from a switch at which a contact counts as switching."""
CLOSING, CONE, THRESHOLD, TOGETHER = 1, 2, 4, 8
"""Bits of what switches.  TOGETHER: impacts of one mover at the same time."""
OPEN, STICKS, SLIPS = 0, 1, 2
"""What a contact does in a step; one without friction sticks."""
GROWS, REBOUNDS = 4, 8
"""What is added to that of an impact whose rebound is not yet in full, and in full."""


@func
def near(a, b, scale):
    """Whether a is so near to b that rounding, or a small change of a parameter, takes it to the other side."""
    return abs(a - b) <= NEAR * scale


@memoize
def stopping_of(slots: Slots, real: Scalar) -> Function:
    """`stopping(T, E, masses, inertias, multiplier, u)` in a kernel: the length of the multiplier of friction that
    would stop the slip u; multiplier (3,): that before."""
    mobility = mobility_of(slots, real)

    @func
    def stopping(T, E, masses, inertias, multiplier, u):
        K = mobility(E, masses, inertias)
        return length(along_both(T, multiplier) - inverted(K, real(0.0)) @ along_both(T, u))

    return stopping
