"""Contact of points with each other and with triangles and edges: C >= 0 apart."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.library.vector import length


@constraint(
    points=2,
    unilateral=True,
    added_by="add_constraints",
    units={"radius": "m", "other_radius": "m"},
    reach=("radius", "other_radius"),
)
def contact_points(x, radius: float, other_radius: float):
    """Distance of the surfaces of two balls.  C [m]."""
    return length(x[0] - x[1]) - radius - other_radius
