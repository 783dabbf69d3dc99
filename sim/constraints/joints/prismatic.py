"""A slider: two frames that do not turn towards each other, along the first axis of the parent's."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.joints.frames import apart, turn_vector


@constraint(
    points=2,
    rows=5,
    frames=(0, 1),
    units={"compliance": "m/N"},
    added_by="add_joint_prismatic",
    from_start=True,
    angular=2,
)
def prismatic(x):
    """Displacement across the parent's first axis [m], then the rotation vector between the frames [rad].

    Compliance of the first two rows [m/N], of the others [rad/(N m)].
    """
    d, turn = apart(x), turn_vector(x)
    return d[1], d[2], turn[0], turn[1], turn[2]
