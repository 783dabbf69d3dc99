"""Places of frames: rigid motions of NumPy arrays, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.geometry import rotation_from_quaternion

_NONE = np.array([0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True, eq=False)
class Placed:
    """A frame in another: its origin p (3,) [m], and its rotation, a quaternion q (x, y, z, w)."""

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
        return Placed(self.p + self.rotation @ inner.p, multiplied(self.q, inner.q))

    def seen(self, place: np.ndarray) -> np.ndarray:
        """A place (3,) of the frame outside, as this one sees it."""
        return self.rotation.T @ (place - self.p)


STAYS = Placed(np.zeros(3), _NONE)


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quaternion of the rotation a after b."""
    v = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
    return np.array([*v, a[3] * b[3] - a[:3] @ b[:3]])


def turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """The quaternion of a turn about an axis (3,) of length 1."""
    return np.array([*(np.sin(0.5 * angle) * axis), np.cos(0.5 * angle)])


def turn_of_rpy(rpy: np.ndarray) -> np.ndarray:
    """The quaternion of roll, pitch, yaw: turns about the fixed axes x, y, z, one after the other."""
    x, y, z = (turn(axis, angle) for axis, angle in zip(np.eye(3), rpy, strict=True))
    return multiplied(z, multiplied(y, x))
