"""Where the rim of a cylinder is next to a straight line: places that move along the rim.

Each step looks for where that is, of the two places where a line may come over the rim; steps of Newton's method say
from there where it has come in a projection, so that derivatives are those of a place that moves.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.core.lang.frontend.builtins import abs, atan2, cos, max, sin, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import cross, dot, normalize

NEWTON, SEARCH, FURTHEST = 5, 12, 0.25
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
def crossing_of(q, b, radius, root):
    """Where along a line it comes out of the cylinder about the z axis, or into it for root = -1; and the discriminant,
    negative where it does not, in parts of the square of the radius."""
    flat = b[0] * b[0] + b[1] * b[1]
    come = q[0] * b[0] + q[1] * b[1]
    disc = come * come - flat * (q[0] * q[0] + q[1] * q[1] - radius * radius)
    return flat, come, disc / (radius * radius)


CROSSES = 1e-3
"""Least discriminant of a line that crosses a rim at two places."""


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
