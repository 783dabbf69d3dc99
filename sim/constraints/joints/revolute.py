"""A hinge: two frames with one origin and one first axis."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.joints.frames import apart, relative_turn


@constraint(
    points=2,
    rows=5,
    frames=(0, 1),
    units={"compliance": "m/N"},
    added_by="add_joint_revolute",
    from_start=True,
    angular=3,
)
def revolute(x):
    """Displacement of the child's origin in the parent's frame [m], then the parent's first axis along the child's
    second and third: entries of the rotation matrix.

    Compliance of the first three rows [m/N], of the others [1/(N m)].
    """
    d, q = apart(x), relative_turn(x)
    return d[0], d[1], d[2], 2.0 * (q[0] * q[1] - q[2] * q[3]), 2.0 * (q[0] * q[2] + q[1] * q[3])
