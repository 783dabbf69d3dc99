"""Placement of geometry: file axes to ours, rotations, and position/rotation/scale of an object. All float64."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError

_AXES = {"x": 0, "y": 1, "z": 2}
_SPELLINGS = [sign + name for sign in ("", "-") for name in _AXES]


def axes_matrix(axes: Sequence[str] | None, mirror: bool = False) -> np.ndarray:
    """Matrix (3, 3) that turns coordinates of a file into ours: ``ours = matrix @ file``.

    ``axes`` names, for our x, y and z in turn, the file axis that becomes it: ``["z", "-y", "x"]``. The result has to
    be a rotation, since a reflection exchanges left and right of the recorded thing; ``mirror=True`` allows one.
    """
    if axes is None:
        return np.eye(3)
    names = [str(name).strip().lower().removeprefix("+") for name in axes]
    if isinstance(axes, str) or len(names) != 3:
        raise GeometryError(f"axes {axes!r} must name three file axes", "Write them as in [z, -y, x]")
    matrix = np.zeros((3, 3))
    for row, name in enumerate(names):
        if name not in _SPELLINGS:
            near = difflib.get_close_matches(name, _SPELLINGS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Use x, y, z, -x, -y or -z"
            raise GeometryError(f"axes {axes!r}: unknown axis {name!r}", hint)
        matrix[row, _AXES[name[-1]]] = -1.0 if name.startswith("-") else 1.0
    if not matrix.any(axis=0).all():
        raise GeometryError(f"axes {axes!r} use a file axis twice", "Name each of x, y and z once")
    if np.linalg.det(matrix) < 0 and not mirror:
        raise GeometryError(
            f"axes {axes!r} mirror the geometry: they are not a rotation",
            "Change one sign or exchange two axes, or say `mirror: true` if that is meant",
        )
    return matrix


def rotation_from_axis_angle(axis: ArrayLike, angle: float) -> np.ndarray:
    """Rotation matrix (3, 3) about ``axis`` (3,), of any length but zero, by ``angle`` [rad] (Rodrigues' formula)."""
    direction = np.asarray(axis, dtype=np.float64)
    length = np.linalg.norm(direction)
    if direction.shape != (3,) or not np.isfinite(length) or length == 0:
        raise GeometryError(f"rotation axis {axis!r} has no direction", "Give three numbers, not all zero")
    x, y, z = direction / length
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross)


def rotation_from_quaternion(quaternion: ArrayLike) -> np.ndarray:
    """Rotation matrix (3, 3) of a quaternion (x, y, z, w) of any length but zero."""
    q = np.asarray(quaternion, dtype=np.float64)
    length = np.linalg.norm(q)
    if q.shape != (4,) or not np.isfinite(length) or length == 0:
        raise GeometryError(f"quaternion {quaternion!r} is no rotation", "Give (x, y, z, w), not all zero")
    x, y, z, w = q / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def place(
    points: ArrayLike, position: ArrayLike = (0.0, 0.0, 0.0), rotation: ArrayLike | None = None, scale: float = 1.0
) -> np.ndarray:
    """Points (n, 3) scaled and turned about the origin of their own frame, then moved: ``scale R p + position`` [m]."""
    if not (np.isfinite(scale) and scale > 0):
        raise GeometryError(f"scale {scale!r} must be positive", "To mirror a mesh give it `axes` and `mirror: true`")
    placed = np.asarray(points, dtype=np.float64) * scale
    if rotation is not None:
        placed = placed @ np.asarray(rotation, dtype=np.float64).T
    return placed + np.asarray(position, dtype=np.float64)


# ------------------------------------------------------------------------------------------ quaternions (x, y, z, w)
IDENTITY_TURN = (0.0, 0.0, 0.0, 1.0)


def quaternion_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The Hamilton products a b (..., 4): the rotation b, then a."""
    u, v = a[..., :3], b[..., :3]
    real = a[..., 3:] * b[..., 3:] - (u * v).sum(-1, keepdims=True)
    return np.concatenate([a[..., 3:] * v + b[..., 3:] * u + np.cross(u, v), real], axis=-1)


def quaternion_inverse(q: np.ndarray) -> np.ndarray:
    """The inverses of unit quaternions (..., 4)."""
    return np.asarray(q * np.array([-1.0, -1.0, -1.0, 1.0]))


def rotated(q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Vectors (..., 3) turned by unit quaternions (..., 4)."""
    u, w = q[..., :3], q[..., 3:]
    t = 2.0 * np.cross(u, x)
    return np.asarray(x + w * t + np.cross(u, t))


def quaternion_about(axis: ArrayLike, angle: float) -> np.ndarray:
    """The quaternion (4,) of a turn by `angle` [rad] about an axis (3,) of any length but zero."""
    direction = np.asarray(axis, np.float64) / np.linalg.norm(axis)
    return np.array([*(np.sin(0.5 * angle) * direction), np.cos(0.5 * angle)])


def quaternion_between(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The quaternion of the shortest turn from a unit vector to another; None where they are opposite."""
    q = np.append(np.cross(a, b), 1.0 + a @ b)
    length = np.linalg.norm(q)
    return None if length < 1e-9 else np.asarray(q / length)


@dataclass(frozen=True, eq=False)
class Placed:
    """A frame in another: its origin p (3,) [m], and its rotation, a unit quaternion q (4,)."""

    p: np.ndarray
    q: np.ndarray

    @property
    def rotation(self) -> np.ndarray:
        """Matrix (3, 3)."""
        return rotation_from_quaternion(self.q)

    @property
    def turned(self) -> bool:
        """Whether its axes are others than those of the frame that it is in."""
        return bool(self.q[:3].any())

    @property
    def rotation_vector(self) -> np.ndarray:
        """Axis times angle (3,) [rad], the angle up to pi."""
        q = self.q if self.q[3] >= 0.0 else -self.q
        sine = float(np.linalg.norm(q[:3]))
        return 2.0 * np.arctan2(sine, q[3]) / sine * q[:3] if sine else np.zeros(3)

    def then(self, inner: Placed) -> Placed:
        """A frame that is placed in this one, as the frame outside sees it."""
        return Placed(self.p + rotated(self.q, inner.p), quaternion_product(self.q, inner.q))

    def seen(self, place: np.ndarray) -> np.ndarray:
        """A place (3,) of the frame outside, as this one sees it."""
        return rotated(quaternion_inverse(self.q), place - self.p)

    def turn_seen(self, turn: np.ndarray) -> np.ndarray:
        """A rotation (4,) in the frame outside, as this one sees it."""
        return quaternion_product(quaternion_inverse(self.q), turn)


UNPLACED = Placed(np.zeros(3), np.array(IDENTITY_TURN))
