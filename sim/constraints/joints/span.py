"""Two points at a distance from each other: a massless rod, or a rope."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.library.vector import length


@constraint(points=2, units={"distance": "m"}, added_by="add_joint_distance", from_start=True)
def span(x, distance: float):
    """Distance of two points minus its value.  C [m]; compliance [m/N]."""
    return length(x[1] - x[0]) - distance


@constraint(points=2, unilateral=True, units={"limit": "m"}, added_by="add_joint_distance")
def limit_span(x, limit: float, sign: float):
    """How far a distance is from a limit: sign (distance - limit) >= 0, sign 1 for the least, -1 for the largest.
    C [m]."""
    return sign * (length(x[1] - x[0]) - limit)
