"""Two frames that stay together."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.joints.frames import apart, turn_vector


@constraint(
    points=2, rows=6, frames=(0, 1), units={"compliance": "m/N"}, added_by="add_joint_fixed", from_start=True, angular=3
)
def fixed(x):
    """Displacement of the child's frame in the parent's [m], then the rotation vector between them [rad].

    Compliance of the first three rows [m/N], of the others [rad/(N m)].
    """
    d, turn = apart(x), turn_vector(x)
    return d[0], d[1], d[2], turn[0], turn[1], turn[2]
