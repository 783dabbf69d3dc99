"""Contact of the rims of a cylinder with an edge of a closed surface of triangles: C >= 0 apart.

A rim and an edge are two lines that cross, next to each other where their common normal goes through both; it looks out
of the faces beside the edge, and out of side and end of the cylinder.  Each step looks for where that is on the rim, of
the two places where an edge may come over it; steps of Newton's method say from there where it has come in a
projection, so that derivatives are those of a place that moves along the rim.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.primitives.boxes import OPEN
from sim.constraints.contact.solids.cylinders.ridge_side import looks_out, ridge_of
from sim.constraints.contact.solids.cylinders.rim_places import (
    ALIKE,
    LEANS,
    NEWTON,
    across_both,
    begin_at,
    found_from,
    settled,
)
from sim.core.lang.frontend.builtins import abs, cos, sin
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, length, normalize
from sim.core.lang.types import vec3


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "other_scale": "", "a": "m", "b": "m", "left": "m", "right": "m",
           "root": "", "rim": "", "angle": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
    chosen="rim",
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
        n, place = across_both(p, v, radius, height, settled(p, v, radius, height, angle, NEWTON))
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
        _, place = across_both(p, v, radius, height, settled(p, v, radius, height, angle, NEWTON))
    return place


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
