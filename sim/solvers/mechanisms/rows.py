"""The rigid rows of joints where the bodies begin, as matrices on the host: what growth and rank are found from."""

from __future__ import annotations

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.geometry import rotation_from_quaternion
from sim.model.fields import BALL, FIXED, PRISMATIC, REVOLUTE
from sim.model.model import Model
from sim.solvers.mechanisms.joint_errors import rigid_joints


def body_name(model: Model, body: int) -> str:
    """Of the group that a body is of."""
    return next(g.name for g in model.bodies.values() if g.start <= body < g.start + g.count)


def joint_ends(model: Model) -> np.ndarray:
    """(joints, 2): parent and child, -1 the world."""
    return np.stack([_host(model.joint_parent), _host(model.joint_child)], axis=1).astype(int)


def _host(values: array) -> np.ndarray:
    out = values.device.numpy(values)
    return out.astype(np.float64) if out.dtype.kind == "f" else out


def joint_trees(model: Model, joints: list[int]) -> list[list[int]]:
    """Joints that are connected by free bodies, in their order."""
    free, ends, tree = _host(model.body_free) > 0, joint_ends(model), {j: j for j in joints}

    def root(j: int) -> int:
        while tree[j] != j:
            j = tree[j]
        return j

    first: dict[int, int] = {}
    for j in joints:
        for body in ends[j]:
            if body >= 0 and free[body]:
                tree[root(j)] = root(first.setdefault(int(body), j))
    return [[j for j in joints if root(j) == k] for k in joints if root(k) == k]


def joint_rows(
    model: Model, joints: list[int], bodies: np.ndarray, poses: np.ndarray | None = None, rigid: bool = True
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Inverse masses and inertias (6 n, 6 n) of n bodies; for each joint its rigid rows (rows, 6 n), or all that hold
    it, by velocities of the centres of mass, and angular velocities.  poses: None where the bodies begin."""
    at = {int(body): 6 * k for k, body in enumerate(bodies)}
    q = _host(model.body_q) if poses is None else poses
    com, ends = _host(model.body_com), joint_ends(model)
    holds = rigid_joints(model) if rigid else np.ones((model.joint_count, 2), bool)
    inv_mass, inv_inertia = _host(model.body_inv_mass), _host(model.body_inv_inertia)
    W, centers, found = np.zeros((6 * len(bodies), 6 * len(bodies))), {}, []
    for body, k in at.items():
        R = rotation_from_quaternion(q[body, 3:])
        W[k : k + 3, k : k + 3] = inv_mass[body] * np.eye(3)
        W[k + 3 : k + 6, k + 3 : k + 6] = R @ inv_inertia[body] @ R.T
        centers[body] = q[body, :3] + R @ com[body]
    for j in joints:
        J = np.zeros((6, len(W)))
        place, axes = frame_of(model, q, j, 0)
        for body, sign in zip(ends[j].tolist(), (-1.0, 1.0), strict=True):
            if body >= 0:
                k, (x, y, z) = at[body], place - centers[body]
                J[:3, k : k + 3] = sign * axes.T
                J[:3, k + 3 : k + 6] = -sign * axes.T @ np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
                J[3:, k + 3 : k + 6] = sign * axes.T
        found.append(J[_held(int(_host(model.joint_kind)[j]), *holds[j])])
    return W, found


def frame_of(model: Model, q: np.ndarray, j: int, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Place and axes (columns) of the frame of a joint on its parent (side 0) or child, with the bodies at poses q."""
    X, body = _host(model.joint_X_c if side else model.joint_X_p)[j], int(joint_ends(model)[j, side])
    axes = rotation_from_quaternion(X[3:])
    if body < 0:
        return X[:3], axes
    R = rotation_from_quaternion(q[body, 3:])
    return q[body, :3] + R @ X[:3], R @ axes


def root_of(W: np.ndarray) -> np.ndarray:
    """A matrix L with L L^T = W, which is positive semidefinite."""
    values, vectors = np.linalg.eigh(W)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _held(kind: int, lengths: bool, angles: bool) -> list[int]:
    """Which of the six motions of the child against the parent, along and about the axes of a joint, are held: those
    of lengths, and of angles.  Of distances nothing is said."""
    held = {REVOLUTE: ([0, 1, 2], [4, 5]), PRISMATIC: ([1, 2], [3, 4, 5]), FIXED: ([0, 1, 2], [3, 4, 5]),
            BALL: ([0, 1, 2], [])}  # fmt: skip
    along, about = held.get(kind, ([], []))
    return along * bool(lengths) + about * bool(angles)
