"""Contact of balls and capsules with the triangles and edges of a surface of particles: C >= 0 apart.

The centre of a ball meets triangles, the line of centres of a capsule edges as well: what is narrower than a triangle
does not pass between its corners.  The force on a triangle is shared by its corners as the place on it says.  Each step
chooses on which side of a triangle the centre is that was over it as the step began, so that what is predicted beyond
is pushed back; and looks, as it ends, whether one has come through all the same.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint, constraint
from sim.constraints.contact.primitives.pairs import (
    edge_edge,
    place_in_triangle,
    places_on_edges,
    point_triangle,
    side_of_edge,
    side_of_triangle,
)
from sim.constraints.contact.solids.row_kernels import make_choosing, make_passing
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar
from sim.core.runtime.launch.kernel import Kernel

HALVINGS = 24
"""Of a step, to find when four points are in a plane."""


@constraint(
    points=4,
    unilateral=True,
    units={"radius": "m", "thickness": "m", "side": ""},
    added_by="add_shape_sphere",
    reach=("radius", "", "", ""),
)
def contact_ball_triangle(x, radius: float, thickness: float, side: float):
    """Distance of the centre x[0] of a ball from a triangle, minus its radius and the thickness.  C [m].

    side: over the triangle the distance from its plane, negative on the other side than this: 1 where the corners turn
    left seen from there, or -1; 0: never negative.  A step chooses it.
    """
    n, b, _ = point_triangle(x, side)
    return dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3]) - radius - thickness


@constraint(
    points=4,
    unilateral=True,
    units={"radius": "m", "thickness": "m", "side": ""},
    added_by="add_shape_capsule",
    reach=("radius", "radius", "", ""),
)
def contact_capsule_edge(x, radius: float, thickness: float, side: float):
    """Distance of the line of centres x[0] x[1] of a capsule from an edge, minus its radius and the thickness.  C [m].

    side: where they cross, the first is on the side of `side` (1 or -1) times the product of their directions; 0: on
    any.  A step chooses it.
    """
    n, b, _ = edge_edge(x, side)
    return dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3]) - radius - thickness


FACETS = {contact_ball_triangle: ("side",), contact_capsule_edge: ("side",)}
"""The constraints of this file, and what every step chooses of them."""


@memoize
def make_side_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """On which side the constraints `tid()` of `FACETS` were as the step began; 0 where they were beside each other."""
    side_of = side_of_triangle if c is contact_ball_triangle else side_of_edge

    @func
    def chosen(before, now, k, data, meshes):
        side = side_of(now, before)
        data.side[k] = where(side > 0.0, real(1.0), where(side < 0.0, real(-1.0), real(0.0)))

    return make_choosing(c, slots, real, points_of(c, slots, real), chosen)


@memoize
def make_facet_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the constraints `tid()` of `FACETS`: those whose centre or line has come through a triangle or an edge within
    a step, by the greatest number, from 1 on.

    All points come in straight lines.  When four are in a plane is found by halving, where they are on another side of
    each other as the step ends (X. Provot, "Collision and Self-Collision Handling in Cloth Model Dedicated to Design
    Garments", 1997: the cubic), and whether they meet then.
    """
    of_triangle = c is contact_ball_triangle

    @func
    def volume(x):
        return dot(cross(x[1] - x[0], x[2] - x[0]), x[3] - x[0])

    @func
    def between(a, b, s):
        return [(1.0 - s) * a[j] + s * b[j] for j in static(range(4))]

    @func
    def met(x):
        if static(of_triangle):
            _, _, _, inside = place_in_triangle(x[0], x[1], x[2], x[3])
        else:
            _, _, inside = places_on_edges(x[0], x[1], x[2], x[3])
        return inside

    @func
    def passed(a, b, k, data, meshes):
        first, found = volume(a), False
        if first * volume(b) < 0.0:
            low, high = real(0.0), real(1.0)
            for _ in range(HALVINGS):
                s = 0.5 * (low + high)
                if first * volume(between(a, b, s)) > 0.0:
                    low = s
                else:
                    high = s
            found = met(between(a, b, 0.5 * (low + high)))
        return found

    return make_passing(c, slots, real, points_of(c, slots, real), passed)
