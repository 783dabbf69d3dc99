"""What joints between two frames share: axes, and how they are turned towards each other."""

from __future__ import annotations

import math

from sim.core.lang.frontend.builtins import atan2, floor, static, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import imaginary, quat_rotate
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
    angle = 2.0 * atan2(q[0], q[3])
    return angle - 2.0 * math.pi * floor((angle - near) / (2.0 * math.pi) + 0.5)


ANGLE_OVER_SINE = (
    2.0, 0.6666666666666189, 0.2666666666736505, 0.11428571388085568, 0.050793663193303897, 0.023087791209553992,
    0.01065889656610338, 0.004947521422339475, 0.002502167739741652, 0.0003284209582695303, 0.003402226781397109,
    -0.007952854446449574, 0.018390659369666898, -0.03172341088255942, 0.04306800687173906, -0.04490851290021751,
    0.03547663193832672, -0.02051854928124302, 0.008229881033701113, -0.002051279321627658, 0.00024234611662233074,
)  # fmt: skip
"""2 acos(w) / sqrt(1 - w^2) in powers of 1 - w, for w in [0, 1]: interpolated at Chebyshev nodes, within 1e-15."""


@func
def turn_vector(x):
    """The rotation vector of the second frame as the first sees it [rad], its angle up to pi.

    angle / sin(angle / 2) is a smooth function of w = cos(angle / 2) on its own: as a polynomial it has neither the
    branches of `quat_to_rotation_vector`, which every row of a gradient would repeat, nor a derivative that cancels.
    """
    q = relative_turn(x)
    sign = where(q[3] < 0.0, -1.0, 1.0)
    y = 1.0 - sign * q[3]
    factor = ANGLE_OVER_SINE[-1] + 0.0 * y
    for k in static(range(len(ANGLE_OVER_SINE) - 2, -1, -1)):
        factor = factor * y + ANGLE_OVER_SINE[k]
    return (sign * factor) * imaginary(q)
