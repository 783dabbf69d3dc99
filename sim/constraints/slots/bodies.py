"""What a step works on of rigid bodies, and how forces at their points and frames move them.

A body is where it is by the place x [m] of its centre of mass and its rotation q.  A step moves it from (x, q) with
which it begins to x + dx and turn q: the displacement and the turn are kept apart from where it began, so that
velocities are not differences of large numbers.  `impulse` [kg m^2/s times s] adds up the torques of all multipliers,
from which the angular momentum at the end follows exactly.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from functools import cache

from sim.constraints.base import Constraint
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.function import func
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.quaternion import (
    imaginary,
    quat_inverse,
    quat_multiply,
    quat_rotate,
    quat_rotate_inv,
    quat_to_matrix,
)
from sim.core.lang.library.vector import cross
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, Type, array_type, matrix, quaternion, vector


@cache
def body_struct(real: Scalar) -> Struct:
    """Of all bodies what a step does not change: inverse mass [1/kg], inverse inertia about the centre of mass in the
    body's axes [1/(kg m^2)], place of the centre of mass and rotation with which the step begins."""
    parts = {
        "inv_mass": real,
        "inv_inertia": matrix((3, 3), real),
        "x": vector(3, real),
        "q": quaternion(real),
    }
    return Struct("bodies", {name: array_type(kind) for name, kind in parts.items()})


@memoize
def slot_struct(c: Constraint, slots: Slots, real: Scalar) -> Struct:
    """The entries of `slot_types`, an array each."""
    fields = {name: array_type(kind) for name, kind in slot_types(c, slots, real).items()}
    return Struct(f"slots_{c.name}_{slots.kinds}", fields)


def slot_types(c: Constraint, slots: Slots, real: Scalar) -> dict[str, Type]:
    """Where the points of a set of constraints are on their bodies or in the world: `offset_<slot>` [m] from the centre
    of mass, in the body's axes, and for a slot that is a frame `frame_<slot>`, its rotation relative to the body."""
    offsets = {f"offset_{j}": vector(3, real) for j in slots.placed}
    return {**offsets, **{f"frame_{j}": quaternion(real) for j in slots.placed if j in c.frames}}


@func
def in_world(q, inertia, u):
    """A matrix in the axes of a body, such as its inverse inertia, times a vector in those of the world."""
    return quat_rotate(q, inertia @ quat_rotate_inv(q, u))


@func
def matrix_in_world(q, inertia):
    """A matrix in the axes of a body, in those of the world."""
    r = quat_to_matrix(q)
    return r @ inertia @ transpose(r)


@func
def point_wrench(gradient, place, center):
    """Force and torque about `center` of a unit multiplier at a point."""
    return gradient, cross(place - center, gradient)


@func
def seen_from(a, b):
    """The frame b as the frame a sees it."""
    return type(a)(quat_rotate_inv(a.q, b.p - a.p), quat_multiply(quat_inverse(a.q), b.q))


@func
def frame_wrench(gradient, axes, seen):
    """Force on the second of two frames, and torque about its origin, of a unit multiplier; the first gets the opposite
    at the same place.

    axes: those of the first frame, a matrix; seen: the second frame as the first sees it, (p, q); gradient: of C by it.
    A small turn theta in these axes changes q by 1/2 E theta = 1/2 (theta, 0) q: its torque is 1/2 E^T dC/dq.
    """
    g, u = imaginary(gradient.q), imaginary(seen.q)
    twisting = 0.5 * (seen.q[3] * g - gradient.q[3] * u + cross(u, g))
    return axes @ gradient.p, axes @ twisting
