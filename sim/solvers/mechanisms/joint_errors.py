"""How far rigid joints are apart: what the sweeps of a solver have left undone of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sim.core.lang.errors import entry_point
from sim.core.runtime.arrays.array import array
from sim.geometry import quaternion_inverse, quaternion_product, rotated
from sim.model.fields import DISTANCE, FIXED, PRISMATIC, REVOLUTE
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.base import Solver, SolverError

LARGE = 0.01
"""Of the size of a mechanism [1], or of a turn in [rad]: above this, advice is due."""


@dataclass(frozen=True)
class JointErrors:
    """Violations of the rows that hold rigid joints, largest and root of the mean square, over joints and frames.

    max_distance, rms_distance [m]; max_angle, rms_angle [rad]; worst: label of the joint with the largest part of
    `size` or angle, and frame: the one in which that is; size: largest distance of two joints, or of a joint from a
    centre of mass [m]; advice: what to do where they are large, else "".
    """

    max_distance: float
    rms_distance: float
    max_angle: float
    rms_angle: float
    worst: str
    size: float
    advice: str = ""
    frame: int = 0

    def __str__(self) -> str:
        if not self.worst:
            return "no rigid joints"
        return (
            f"joints apart by up to {self.max_distance:.3g} m and {self.max_angle:.3g} rad (rms"
            f" {self.rms_distance:.3g} m, {self.rms_angle:.3g} rad), most at {self.worst!r}"
        )


@entry_point
def joint_errors(solver: Solver, poses: State | array | np.ndarray) -> JointErrors:
    """The errors of the rigid joints (those of compliance 0) in a state, or in all frames of a trajectory: `body_q`,
    (frames, bodies, 7) in NumPy.

    For joints of distances that are ropes, by how much they are too long or too short.
    """
    model = solver.model
    body_q = poses.body_q if isinstance(poses, State) else poses
    given = body_q if isinstance(body_q, np.ndarray) else body_q.device.numpy(body_q)
    host = given.reshape(-1, *given.shape[-2:]).astype(np.float64)
    if host.shape[1] != model.body_count:
        raise SolverError(f"these are poses of {host.shape[1]} bodies, and the model has {model.body_count}")
    model.refresh()
    holds = rigid_joints(model)
    rigid = holds.any(axis=1)
    if not rigid.any():
        return JointErrors(0.0, 0.0, 0.0, 0.0, "", 0.0)
    kind, parent, child, X_p, X_c = (
        a.device.numpy(a)[rigid]
        for a in (model.joint_kind, model.joint_parent, model.joint_child, model.joint_X_p, model.joint_X_c)
    )
    (p_at, p_turn), (c_at, c_turn) = (_in_world(host, *end) for end in ((parent, X_p), (child, X_c)))
    seen_by = quaternion_inverse(p_turn)
    lengths, angles = _violations(kind, rotated(seen_by, c_at - p_at), quaternion_product(seen_by, c_turn))
    for n in np.flatnonzero(kind == DISTANCE):
        low, high = _distances(model, int(np.flatnonzero(rigid)[n]))
        apart = np.linalg.norm(c_at[:, n] - p_at[:, n], axis=1)
        lengths[:, n] = np.maximum(0.0, np.maximum(low - apart, apart - high))
    lengths, angles = lengths * holds[rigid, 0], angles * holds[rigid, 1]
    com = _in_world(host, np.arange(model.body_count), np.hstack([model.body_com.numpy(), np.tile([0, 0, 0, 1.0],
                    (model.body_count, 1))]))[0]  # fmt: skip
    marks = np.concatenate([p_at[0], com[0]])
    size = float(np.linalg.norm(np.ptp(marks, axis=0)))
    share = np.nan_to_num(np.maximum(lengths / max(size, 1e-30), angles), nan=np.inf)
    labels = [label for label in model.joints for _ in range(model.worlds)]
    frame, number = (int(k) for k in np.unravel_index(np.argmax(share), share.shape))
    worst = labels[np.flatnonzero(rigid)[number]]
    distances = float(lengths.max()), float(np.sqrt((lengths**2).mean()))
    turns = float(angles.max()), float(np.sqrt((angles**2).mean()))
    found = JointErrors(*distances, *turns, worst, size, frame=frame)
    return found if share.max() <= LARGE else replace(found, advice=_advice(solver, found))


def joint_warning(solver: Solver, state: State) -> str:
    """What to say of the joints of a state; "" where they hold, or there are none."""
    return joint_errors(solver, state).advice if solver.model.joint_count else ""


def start_warning(solver: Solver) -> str:
    """What to say of rigid joints that do not hold where the bodies begin; else ""."""
    model = solver.model
    found = joint_errors(solver, model.state()) if model.joint_count else None
    if found is None or not found.advice:
        return ""
    return (
        f"{found}, where the bodies begin, of a mechanism of {found.size:.3g} m: the first step throws them together;"
        " check places and turns of bodies and joints"
    )


def _advice(solver: Solver, found: JointErrors) -> str:
    """What brings joints together."""
    direct = getattr(solver, "direct", None)
    others = (
        "" if direct is None or found.worst in direct else f", or solve them together (direct=[{found.worst!r}, ...])"
    )
    return (
        f"{found}, of a mechanism of {found.size:.3g} m: the sweeps do not hold them; take shorter steps (more"
        f" substeps), more iterations ({solver.sweeps} now){others}"
    )


def rigid_joints(model: Model) -> np.ndarray:
    """(joints, 2) bool: of which rows without compliance hold the lengths, and the angles."""
    out = np.zeros((model.joint_count, 2), bool)
    for number, (label, joint) in enumerate(model.joints.items()):
        own = slice(number * model.worlds, (number + 1) * model.worlds)
        for key, parts in (("compliance", (0, 1)), ("linear_compliance", (0,)), ("angular_compliance", (1,))):
            path = f"{label}.{key}"
            for part in parts if joint.sets and path in model.materials else ():
                out[own, part] = model[path].device.numpy(model[path]) == 0.0
    return out


def _distances(model: Model, joint: int) -> tuple[float, float]:
    """The least and the largest distance that a joint allows."""
    label, world = list(model.joints)[joint // model.worlds], joint % model.worlds

    def value(key: str, otherwise: float) -> float:
        path = f"{label}.{key}"
        if path not in model.materials:
            return otherwise
        given = model[path].device.numpy(model[path])
        return float(given[world if len(given) > 1 else 0])

    if f"{label}.distance" in model.materials:
        return value("distance", 0.0), value("distance", 0.0)
    return value("min_distance", 0.0), value("max_distance", np.inf)


def _violations(kind: np.ndarray, apart: np.ndarray, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths and angles (frames, joints) by which joints fail to hold, from place and turn of the child's frame in the
    parent's."""
    along = apart.copy()
    along[..., 0] = np.where(kind == PRISMATIC, 0.0, along[..., 0])
    lengths = np.where(kind == DISTANCE, 0.0, np.linalg.norm(along, axis=-1))
    # the angle between the x axes for a hinge; the whole turn for sliders and welds
    tilt = 2.0 * np.arctan2(np.linalg.norm(turn[..., 1:3], axis=-1), np.linalg.norm(turn[..., [0, 3]], axis=-1))
    whole = 2.0 * np.arctan2(np.linalg.norm(turn[..., :3], axis=-1), np.abs(turn[..., 3]))
    angles = np.where(kind == REVOLUTE, tilt, np.where((kind == PRISMATIC) | (kind == FIXED), whole, 0.0))
    return lengths, angles


def _in_world(poses: np.ndarray, bodies: np.ndarray, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places (frames, n, 3) and turns (frames, n, 4) of frames (n, 7) on bodies, -1 the world."""
    still = np.tile([0.0, 0, 0, 0, 0, 0, 1], (len(poses), 1, 1))
    own = np.concatenate([poses, still], axis=1)[:, bodies]  # -1 is the last
    turn = np.broadcast_to(frames[:, 3:], (*own.shape[:2], 4))
    place = own[..., :3] + rotated(own[..., 3:], np.broadcast_to(frames[:, :3], (*own.shape[:2], 3)))
    return place, quaternion_product(own[..., 3:], turn)
