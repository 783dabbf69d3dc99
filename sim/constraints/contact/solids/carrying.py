"""Which of two bodies the place where they touch goes with.

A step moves by its impulses from where it began, and forces act where it ends.  For the angular momentum of both to be
kept a force acts at one place on both, as the step began; and arms are right to the order of the step where that is the
place where they touched then.  A ball or a corner takes its place of contact along over something flat; between round
things it comes as far as

    (R_b d_a + R_a d_b) / (R_a + R_b)          d: how far both come;  R: their radii

With another place a force has an arm that grows with how far one comes beside the other in a step: what rolls on a free
body is slowed down, a ball on a cart by an eighth in half a second at 120 Hz.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.boxes import contact_corner
from sim.constraints.contact.primitives.pairs import contact_points
from sim.constraints.contact.primitives.shapes import contact_capsule
from sim.constraints.contact.solids.cylinders.ridge_side import contact_ridge_side
from sim.constraints.contact.solids.cylinders.rim_mesh import contact_rim_mesh
from sim.constraints.contact.solids.cylinders.rims import contact_rim_face, contact_side
from sim.constraints.contact.solids.distance_patches import PATCHES
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.memoize import memoize

ROUND = {
    contact_points: ("radius", "other_radius"),
    contact_capsule: ("radius", "thickness"),
    contact_side: ("radius", "thickness"),
}
"""Contacts of two round sides, and their radii."""
CARRIES = (contact_corner, contact_rim_face, contact_rim_mesh, contact_ridge_side)
"""Contacts whose second side takes its place along; as do points that a frame sees, over what is not round."""


@memoize
def carried_of(c: Constraint, slots: Slots) -> Function:
    """`carried(masses, parameters)` in a kernel, of a contact of two bodies: the part of the way that the place comes
    which is that of the first; the rest is that of the second.

    Beside what is held there is no sum to keep: it is that of the free one.  Of edges that cross, whose place goes with
    neither, the light one's more than the heavy one's.
    """
    names = tuple(c.parameters)
    radii = tuple(names.index(name) for name in ROUND.get(c, ()))
    carries = c in (*CARRIES, *PATCHES.values()) or (c.frames == (0,) and not radii)

    @func
    def carried(masses, parameters):
        first = 0.0 * masses[0]
        if masses[0] > 0.0:
            if masses[1] > 0.0:
                if static(not carries):
                    first = masses[0] / (masses[0] + masses[1])
                    if static(len(radii) == 2):
                        size = parameters[radii[0]] + parameters[radii[1]]
                        if size > 0.0:
                            first = parameters[radii[1]] / size
            else:
                first += 1.0
        return first

    return carried
