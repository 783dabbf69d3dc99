"""A rigid arm: a point that four others carry, at an offset that turns with them."""

from __future__ import annotations

import numpy as np

from sim.constraints.base import constraint
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.types import vec3


@func
def frame_of(a, b, c, d):
    """Three unit vectors at right angles that turn with four points: the bisectors of b - a and d - c, their normal."""
    u, v = normalize(b - a), normalize(d - c)
    first, second = normalize(u + v), normalize(u - v)
    return first, second, cross(first, second)


@constraint(
    points=5,
    rows=3,
    units={"arm": "m", "shift": "m", "axis_1": "", "axis_2": "", "axis_3": ""},
    added_by="add_load with an arm",
)
def lever(x, arm: vec3, shift: vec3, axis_1: vec3, axis_2: vec3, axis_3: vec3):
    """Place of x0 as seen from x1, x2, x3, x4, minus its place at rest.  C [m], along the axes of a frame that turns
    with the four (the bisectors of their diagonals x2 - x1 and x4 - x3, their normal); compliance [m/N].

    arm: its offset at rest, from a place `shift` away from the mean of the four; axis_1, ...: the frame at rest.
    No force or torque is left over, whatever the state: C does not change as all of them move as one rigid body.
    """
    e1, e2, e3 = frame_of(x[1], x[2], x[3], x[4])
    r, at_rest = x[0] - 0.25 * (x[1] + x[2] + x[3] + x[4]), arm + shift
    return dot(e1, r) - dot(axis_1, at_rest), dot(e2, r) - dot(axis_2, at_rest), dot(e3, r) - dot(axis_3, at_rest)


@func
def velocity_of(direction, rate):
    """How fast a vector's unit vector changes."""
    n = normalize(direction)
    return (rate - dot(n, rate) * n) / dot(n, direction)


@func
def carried_velocity(x, v, offset):
    """Velocity of a point `offset` away from the mean of four points, whose frame carries it."""
    e1, e2, e3 = frame_of(x[0], x[1], x[2], x[3])
    u, w = x[1] - x[0], x[3] - x[2]
    du, dw = velocity_of(u, v[1] - v[0]), velocity_of(w, v[3] - v[2])
    d1 = velocity_of(normalize(u) + normalize(w), du + dw)
    d2 = velocity_of(normalize(u) - normalize(w), du - dw)
    turning = dot(e1, offset) * d1 + dot(e2, offset) * d2 + dot(e3, offset) * (cross(d1, e2) + cross(e1, d2))
    return 0.25 * (v[0] + v[1] + v[2] + v[3]) + turning


def rest_frame(points: np.ndarray) -> np.ndarray:
    """`frame_of` on the host: (3, 3), an axis a row, of four points (4, 3); nan where their diagonals are parallel."""
    u, v = points[1] - points[0], points[3] - points[2]
    with np.errstate(invalid="ignore"):
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        first, second = u + v, u - v
        if min(np.linalg.norm(first), np.linalg.norm(second)) < 1e-3:
            return np.full((3, 3), np.nan)
        first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    return np.stack([first, second, np.cross(first, second)])
