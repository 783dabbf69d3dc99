"""What joints between two frames share: axes, and how they are turned towards each other."""

from __future__ import annotations

from sim.constraints.slots.rotations import logarithm, nearest_angle
from sim.core.lang.frontend.builtins import atan2
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.static import vector_type
from sim.core.lang.library.transform import transform_multiply


@func
def joint_frame_of(body, place, body_q):
    """A frame `place` on a body (-1: in the world) of those at `body_q`, in the world."""
    if body >= 0:
        return transform_multiply(body_q[body], place)
    return place


@func
def axis_of(q, k):
    """Axis k of a frame in the world."""
    v = vector_type(q, 3)
    return quat_rotate(q, v(1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0))


@func
def apart(x):
    """The origin of the second frame as the first sees it [m]."""
    return x.p


@func
def relative_turn(x):
    """The rotation of the second frame as the first sees it."""
    return x.q


@func
def angle_about_axis(x, near):
    """By how much the second frame is turned about the first axis of the first [rad], within half a turn of `near`."""
    q = relative_turn(x)
    return nearest_angle(2.0 * atan2(q[0], q[3]), near)


@func
def turn_vector(x):
    """The rotation vector of the second frame as the first sees it [rad], its angle up to pi."""
    return logarithm(relative_turn(x))
