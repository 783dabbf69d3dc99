"""What pulls a joint along its free coordinate, stops it, or slows it down: an angle [rad] or a distance [m].

A drive is a spring and a damper that may be zero; friction is a row that keeps the coordinate where the step began, as
far as its force allows.
"""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.joints.frames import angle_about_axis, apart

DRIVE_UNITS = {
    "target_pos": "rad or m", "target_vel": "rad/s or m/s", "target_ke": "N m/rad or N/m",
    "target_kd": "N m s/rad or N s/m", "effort_limit": "N m or N",
}  # fmt: skip
FREE = 1e30
"""[N m] or [N]: an effort that is not limited."""


@constraint(
    points=2, frames=(0, 1), driven=True, limited="effort_limit", units=DRIVE_UNITS, added_by="add_joint_revolute"
)
def drive_angle(
    x,
    target_pos: float,
    target_vel: float,
    target_ke: float,
    target_kd: float,
    effort_limit: float,
    middle: float,
    bounded: float,
):
    """Angle of a hinge minus its target, pulled by -ke C - kd (dC/dt - target_vel), at most `effort_limit`.  C [rad].

    The angle is that within half a turn of the middle between the limits, if it is bounded; of its target, if not.
    """
    return angle_about_axis(x, bounded * middle + (1.0 - bounded) * target_pos) - target_pos


@constraint(
    points=2, frames=(0, 1), driven=True, limited="effort_limit", units=DRIVE_UNITS, added_by="add_joint_prismatic"
)
def drive_distance(x, target_pos: float, target_vel: float, target_ke: float, target_kd: float, effort_limit: float):
    """Position of a slider minus its target, pulled by -ke C - kd (dC/dt - target_vel), at most `effort_limit`.
    C [m]."""
    return apart(x)[0] - target_pos


@constraint(points=2, frames=(0, 1), unilateral=True, units={"limit": "rad"}, added_by="add_joint_revolute")
def limit_angle(x, limit: float, sign: float, middle: float):
    """How far a hinge is from a limit: sign (angle - limit) >= 0, sign 1 for a lower one, -1 for an upper.  C [rad].

    The angle is that within half a turn of the middle between the limits.
    """
    return sign * (angle_about_axis(x, middle) - limit)


@constraint(points=2, frames=(0, 1), unilateral=True, units={"limit": "m"}, added_by="add_joint_prismatic")
def limit_distance(x, limit: float, sign: float):
    """How far a slider is from a limit: sign (position - limit) >= 0.  C [m]."""
    return sign * (apart(x)[0] - limit)


@constraint(
    points=2,
    frames=(0, 1),
    elastic=(False,),
    limited="friction",
    units={"friction": "N m"},
    added_by="add_joint_revolute",
)
def friction_angle(x, friction: float, turned: float):
    """Dry friction of a hinge: its torque stops the motion of a step, or is `friction` at most.  C [rad].

    turned: what has been of that already, over `friction`, where the hinge comes to a stop within the step and may go
    back in the rest of it.  A step finds that.
    """
    return angle_about_axis(x, 0.0)


@constraint(
    points=2,
    frames=(0, 1),
    elastic=(False,),
    limited="friction",
    units={"friction": "N"},
    added_by="add_joint_prismatic",
)
def friction_distance(x, friction: float, turned: float):
    """Dry friction of a slider: its force stops the motion of a step, or is `friction` at most.  C [m].

    turned: as of `friction_angle`.
    """
    return apart(x)[0]
