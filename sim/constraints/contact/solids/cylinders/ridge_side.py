"""Contact of the side of a cylinder with an edge of a closed surface of triangles: C >= 0 apart.

Every edge along which a mesh is bent outward has a row.  On which side of the axis it is the faces beside it say: the
common normal of edge and axis looks out of both of them.  So C is smooth through 0, and an edge that has come past the
axis in a step is pushed back the way that it came.  Each step chooses the side (`ridge_choice`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.primitives.box_choice import BESIDE
from sim.constraints.contact.primitives.boxes import OPEN
from sim.constraints.contact.solids.mesh_edges import PARALLEL, into, place_of
from sim.core.lang.frontend.builtins import abs, max, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.types import vec3


@func
def ridge_of(x, other_scale, a, b):
    """Beginning of an edge, and from there to its end, as the first sees them."""
    p = place_of(x, a, other_scale)
    return p, place_of(x, b, other_scale) - p


@func
def across_axis(u):
    """The unit vector across the z axis and an edge along u."""
    return type(u)(-u[1], u[0], 0.0 * u[2]) / sqrt(u[0] * u[0] + u[1] * u[1])


@func
def beside_axis(p, u):
    """Where the z axis, and an edge from p along u, in parts of it, are next to each other."""
    t = -(p[0] * u[0] + p[1] * u[1]) / (u[0] * u[0] + u[1] * u[1])
    return p[2] + t * u[2], t


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "other_scale": "", "a": "m", "b": "m", "left": "m", "right": "m",
           "side": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
    chosen="side",
)  # fmt: skip
def contact_ridge_side(
    x, radius: float, half_height: float, other_scale: vec3, a: vec3, b: vec3, left: vec3, right: vec3, side: float
):
    """Distance of the side of a cylinder, the first, from an edge of a mesh, along their common normal, negative where
    it is inside.  C [m].

    a, b: ends of the edge, left, right: third corners of the triangles beside it, before they are scaled; side: of the
    axis, 1 or -1, on which the edge is; 0: open.  A step chooses that.
    """
    if abs(side) > 0.5:
        p, u = ridge_of(x, other_scale, a, b)
        return side * dot(across_axis(u), p) - radius
    return 0.0 * x.p[0] + OPEN


@contact_ridge_side.touched_at
def _at_side(
    x, radius: float, half_height: float, other_scale: vec3, a: vec3, b: vec3, left: vec3, right: vec3, side: float
):
    """On the cylinder."""
    place = 0.0 * x.p
    if abs(side) > 0.5:
        p, u = ridge_of(x, other_scale, a, b)
        place = (side * radius) * across_axis(u)
        height, _ = beside_axis(p, u)
        place[2] += height
    return place


@func
def looks_out(x, other_scale, a, left, right, u, n):
    """1 where a unit vector across an edge looks out of both faces beside it, as nearly as boxes have it; -1 where its
    opposite does; 0 where neither does."""
    start, out = place_of(x, a, other_scale), 0.0 * n[0]
    one, two = into(u, place_of(x, left, other_scale) - start), into(u, place_of(x, right, other_scale) - start)
    if dot(n, one + two) < 0.0 and max(dot(n, one), dot(n, two)) < BESIDE:
        out += 1.0
    elif dot(n, one + two) > 0.0 and max(-dot(n, one), -dot(n, two)) < BESIDE:
        out -= 1.0
    return out


@func
def side_met(x, radius, half_height, other_scale, a, b, left, right):
    """Which side of a cylinder an edge meets, 1 or -1, 0: none; the unit vector towards it; the place on the edge, in
    parts of it, and that on the cylinder."""
    p, u = ridge_of(x, other_scale, a, b)
    side, n, t, place = 0.0 * radius, 0.0 * u, 0.0 * radius, 0.0 * u
    if u[0] * u[0] + u[1] * u[1] > PARALLEL * dot(u, u):
        height, t = beside_axis(p, u)
        if t > 0.0 and t < 1.0 and abs(height) < half_height:
            m = across_axis(u)
            side = -looks_out(x, other_scale, a, left, right, u, m)
            n = side * m
            place = radius * n
            place[2] += height
    return side, n, t, place
