"""Contact of a point with a shape: C >= 0 outside.

The plane and the sphere stand still in the world.  What else has a shape carries its own frame, of a body or of the
world: C takes the point as that frame sees it, so that one declaration serves what stands still and what moves.
"""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.frontend.builtins import abs, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import dot, length, normalize
from sim.core.lang.types import vec3


@constraint(
    points=1,
    internal=False,
    unilateral=True,
    units={"point": "m", "thickness": "m"},
    added_by="add_ground_plane",
    reach=("thickness",),
)
def contact_plane(x, point: vec3, normal: vec3, thickness: float):
    """Height of a point above a plane through `point` with unit `normal`, minus the thickness.  C [m]."""
    return dot(x[0] - point, normal) - thickness


UPRIGHT = 1e-3
"""Tilt below which the deepest place of a rim fades to its centre: that of a cylinder which stands is all of it."""


@func
def lowered(tilt):
    """How far a rim of radius 1 reaches below its centre, and the derivative, by the sine of its tilt: the sine itself,
    and smooth through 0, where its own slope jumps."""
    u = tilt / UPRIGHT
    if u < 1.0:
        return UPRIGHT * u * u * (2.0 - u), u * (4.0 - 3.0 * u)
    return tilt, 0.0 * tilt + 1.0


@constraint(
    points=2,
    internal=False,
    unilateral=True,
    units={"point": "m", "radius": "m"},
    added_by="add_ground_plane",
)
def contact_rim(x, point: vec3, normal: vec3, radius: float):
    """Height of the lowest place of a cylinder's rim above a plane; its centre, and that of the other rim.  C [m]."""
    across = across_axis(x, normal)
    square, low = dot(across, across), 0.0 * radius
    if square > 0.0:
        low, _ = lowered(sqrt(square))
    return dot(x[0] - point, normal) - radius * low


@contact_rim.touched_at
def _lowest(x, point: vec3, normal: vec3, radius: float):
    across = across_axis(x, normal)
    square, place = dot(across, across), x[0]
    if square > 0.0:
        tilt = sqrt(square)
        _, slope = lowered(tilt)
        place -= (radius * slope / tilt) * across
    return place


@func
def across_axis(x, normal):
    """The part of a normal across the axis of a cylinder."""
    axis = normalize(x[0] - x[1])
    return normal - dot(normal, axis) * axis


@constraint(
    points=1,
    internal=False,
    unilateral=True,
    units={"center": "m", "radius": "m", "thickness": "m"},
    added_by="add_shape_sphere",
    reach=("thickness",),
)
def contact_sphere(x, center: vec3, radius: float, thickness: float):
    """Distance of a point from a sphere, minus the thickness.  C [m]."""
    return length(x[0] - center) - radius - thickness


@constraint(
    points=2,
    unilateral=True,
    units={"half": "m", "thickness": "m"},
    added_by="add_shape_box",
    frames=(0,),
    reach=("", "thickness"),
)
def contact_box(x, half: vec3, thickness: float = 0.0):
    """Distance of a point from a box of half sizes `half` about the frame's origin, minus the thickness.  C [m]."""
    across, along, up = abs(x[0]) - half[0], abs(x[1]) - half[1], abs(x[2]) - half[2]
    inside = max(max(across, along), up)
    if inside > 0.0:
        a, b, c = max(across, 0.0), max(along, 0.0), max(up, 0.0)
        return sqrt(a * a + b * b + c * c) - thickness
    return inside - thickness


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "thickness": "m"},
    added_by="add_shape_capsule",
    frames=(0,),
    reach=("", "thickness"),
)
def contact_capsule(x, radius: float, half_height: float, thickness: float = 0.0):
    """Distance of a point from a capsule along the frame's z axis, minus the thickness.  C [m].

    half_height: of the line of centres; 0 is a ball.
    """
    up = x[2] - clamp(x[2], -half_height, half_height)
    return sqrt(x[0] * x[0] + x[1] * x[1] + up * up) - radius - thickness


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "thickness": "m"},
    added_by="add_shape_cylinder",
    frames=(0,),
    reach=("", "thickness"),
)
def contact_cylinder(x, radius: float, half_height: float, thickness: float = 0.0):
    """Distance of a point from a cylinder along the frame's z axis, minus the thickness.  C [m]."""
    around, up = sqrt(x[0] * x[0] + x[1] * x[1]) - radius, abs(x[2]) - half_height
    inside = max(around, up)
    if inside > 0.0:
        a, b = max(around, 0.0), max(up, 0.0)
        return sqrt(a * a + b * b) - thickness
    return inside - thickness
