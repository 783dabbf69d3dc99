"""Turns as URDF gives them: roll, pitch and yaw."""

from __future__ import annotations

import numpy as np

from sim.geometry import quaternion_about, quaternion_product


def turn_of_rpy(rpy: np.ndarray) -> np.ndarray:
    """The quaternion of roll, pitch, yaw: turns about the fixed axes x, y, z, one after the other."""
    x, y, z = (quaternion_about(axis, angle) for axis, angle in zip(np.eye(3), rpy, strict=True))
    return quaternion_product(z, quaternion_product(y, x))
