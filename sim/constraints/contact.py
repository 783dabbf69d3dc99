"""Contact of a point with a fixed shape: C >= 0 outside.  No friction yet."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.library.vector import dot, length
from sim.core.lang.types import vec3


@constraint(
    points=1, internal=False, unilateral=True, units={"point": "m", "thickness": "m"}, added_by="add_ground_plane"
)
def contact_plane(x, point: vec3, normal: vec3, thickness: float):
    """Height of a point above a plane through `point` with unit `normal`, minus the thickness.  C [m]."""
    return dot(x[0] - point, normal) - thickness


@constraint(
    points=1,
    internal=False,
    unilateral=True,
    units={"center": "m", "radius": "m", "thickness": "m"},
    added_by="add_shape_sphere",
)
def contact_sphere(x, center: vec3, radius: float, thickness: float):
    """Distance of a point from a sphere, minus the thickness.  C [m]."""
    return length(x[0] - center) - radius - thickness
