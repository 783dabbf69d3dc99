"""Contact of the rims of a cylinder with an edge of a closed surface of triangles: C >= 0 apart.

A rim and an edge are two lines that cross, next to each other where their common normal goes through both; it looks out
of the faces beside the edge, and out of side and end of the cylinder.  Each step looks for where that is on the rim, of
the two places where an edge may come over it; steps of Newton's method say from there where it has come in a
projection, so that derivatives are those of a place that moves along the rim.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.boxes import OPEN
from sim.constraints.contact.solids.ridge_side import looks_out, ridge_of
from sim.constraints.contact.solids.rims import CROSSES, crossing_of
from sim.core.lang.frontend.builtins import abs, atan2, cos, max, sin, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.types import vec3

STEPS, SEARCH, FURTHEST = 5, 12, 0.25
"""Of Newton's method in a projection, and as a place is chosen; how far one goes at most, in radians."""
CURVED = 0.01
"""Least second derivative of half the square of the distance, in squares of the radius: where a rim is along an edge
there is no place that is next to it."""
ALIKE = 1.0 - 1e-4
"""Cosine of the angle between places that are one."""
LEVEL = 1e-4
"""Slope of the same, in squares of the radius, above which a place has not been found."""

LEANS = 0.02
"""How far a normal may lean out of those of a rim, as a sine: where it leans, what it says to be inside is outside."""


@func
def slope_along(p, b, radius, height, angle):
    """Of a place of a rim, by its angle, and a line through p along the unit vector b: the unit vectors out of and
    along the rim; the derivative by the angle of half the square of their distance, over the radius, and that of it."""
    out, along = type(p)(cos(angle), sin(angle), 0.0 * angle), type(p)(-sin(angle), cos(angle), 0.0 * angle)
    apart = p - radius * out
    apart[2] -= height
    far, tilt = dot(apart, b), dot(along, b)
    return out, along, tilt * far - dot(p, along), dot(p, out) - dot(out, b) * far - radius * tilt * tilt


@func
def settled(p, b, radius, height, angle, steps):
    """The angle at which a rim is next to a line, from one near it."""
    for _ in range(steps):
        _, _, slope, bend = slope_along(p, b, radius, height, angle)
        angle -= clamp(slope / max(bend, CURVED * radius), 0.0 * angle - FURTHEST, 0.0 * angle + FURTHEST)
    return angle


@func
def across_both(p, b, radius, height, angle):
    """The unit normal of a line and a rim at an angle, out of the cylinder; and that place of the rim."""
    out, along, _, _ = slope_along(p, b, radius, height, angle)
    n, place, up = normalize(cross(b, along)), radius * out, 0.0 * angle + 1.0
    place[2] += height
    if height < 0.0:
        up = -up
    if dot(n, out) + up * n[2] < 0.0:
        n = -n
    return n, place


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "other_scale": "", "a": "m", "b": "m", "left": "m", "right": "m",
           "root": "", "rim": "", "angle": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
)  # fmt: skip
def contact_ridge_rim(
    x,
    radius: float,
    half_height: float,
    other_scale: vec3,
    a: vec3,
    b: vec3,
    left: vec3,
    right: vec3,
    root: float,
    rim: float,
    angle: float,
):
    """Distance of a rim of a cylinder, the first, from an edge of a mesh, along the normal of both, negative where they
    have crossed.  C [m].

    a, b, left, right: see `contact_ridge_side`; root: 1 where the edge leaves the cylinder, seen along its axis, or -1;
    rim: which one, 1 or -1, 0: open; angle: of a place of it that is near the edge.  A step chooses the last two.
    """
    if abs(rim) > 0.5:
        p, u = ridge_of(x, other_scale, a, b)
        v, height = normalize(u), rim * half_height
        n, place = across_both(p, v, radius, height, settled(p, v, radius, height, angle, STEPS))
        return dot(n, p - place)
    return 0.0 * x.p[0] + OPEN


@contact_ridge_rim.touched_at
def _at_rim(
    x,
    radius: float,
    half_height: float,
    other_scale: vec3,
    a: vec3,
    b: vec3,
    left: vec3,
    right: vec3,
    root: float,
    rim: float,
    angle: float,
):
    """On the cylinder."""
    place = 0.0 * x.p
    if abs(rim) > 0.5:
        p, u = ridge_of(x, other_scale, a, b)
        v, height = normalize(u), rim * half_height
        _, place = across_both(p, v, radius, height, settled(p, v, radius, height, angle, STEPS))
    return place


@func
def begin_at(p, b, radius, height, root):
    """The angle to look from for a root: where the line crosses the rim, seen along the axis, else where it is next to
    the axis, or in the plane of the rim."""
    flat, come, disc = crossing_of(p, b, radius, root)
    t = 0.0 * radius
    if flat > CROSSES:
        t = (root * radius * sqrt(max(disc, 0.0 * disc)) - come) / flat
    else:
        t = (height - p[2]) / b[2]
    return atan2(p[1] + t * b[1], p[0] + t * b[0])


@func
def found_from(p, b, radius, height, angle):
    """The angle at which a rim is next to a line, from one near it, and whether there is one."""
    angle = settled(p, b, radius, height, angle, SEARCH)
    _, _, slope, bend = slope_along(p, b, radius, height, angle)
    return angle, bend > CURVED * radius and abs(slope) < LEVEL * radius


@func
def rim_met(x, radius, half_height, root, rim, other_scale, a, b, left, right):
    """Whether an edge meets a rim; at which angle; the unit vector from the rim to it; the place on the edge, in parts
    of it, and that on the rim."""
    p, u = ridge_of(x, other_scale, a, b)
    size, height, place = length(u), rim * half_height, 0.0 * u
    v, n, t, met = u / size, 0.0 * u, 0.0 * radius, False
    angle, there = found_from(p, v, radius, height, begin_at(p, v, radius, height, root))
    if there:
        other, both = found_from(p, v, radius, height, begin_at(p, v, radius, height, -root))
        if both and cos(other - angle) > ALIKE:  # each rim has a row of its own
            there = root * rim > 0.0
    if there:
        n, place = across_both(p, v, radius, height, angle)
        t = dot(place - p, v) / size
        on_side, on_end = n[0] * cos(angle) + n[1] * sin(angle), rim * n[2]
        if t > 0.0 and t < 1.0 and on_side > -LEANS and on_end > -LEANS:
            met = looks_out(x, other_scale, a, left, right, u, -n) > 0.5
    return met, angle, n, t, place
