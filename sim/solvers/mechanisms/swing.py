"""How fast bodies swing across the pull of their joints, against the length of a step.

A body that joints pull apart by F at the arm r swings back when it is turned, with the stiffness K of r x F; so does a
light link in a taut chain, at omega^2 = 12 F / (m l).  Rigid rows that push along the directions of the start of a step
follow it explicitly, as SHAKE does: steps of omega h > 2 break down, however well they are solved.  Along the
directions of the end, with several iterations, they do not; the energy decreases.  omega is that of the fastest motion
that the joints leave free: the largest eigenvalue of K against the masses, among what their rows do not hold.

2 to 10 links of 1 kg together, with a ball of 1 to 1000 kg, swung from the horizontal at 60 to 2400 Hz, looked at 30
times: 28 of 60 runs broke down, all but one seen at an omega h of 2 and more; of the others one was (2.03).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.geometry import rotation_from_quaternion
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.base import Solver
from sim.solvers.mechanisms.rows import body_name, frame_of, joint_ends, joint_rows, joint_trees, root_of

MOST = 1.2
"""Of omega h: above it, advice is due."""
MOST_BODIES = 40
"""Of a tree that is looked at: of larger ones nothing is said."""
LEAST = 1e-7
"""A singular value below this part of the largest one counts as zero."""
LINEAR = {"ball": (0, 1, 2), "revolute": (0, 1, 2), "fixed": (0, 1, 2), "prismatic": (-1, 0, 1)}
"""The rows that push along the axes of the parent's frame (of a ball joint, of the world); -1: none does."""


@dataclass(frozen=True)
class Swing:
    """angle: omega h of the body where it is largest; body: its name; label: of the joint that pulls most, by `force`
    [N]."""

    angle: float
    body: str
    label: str
    force: float

    def advice(self, dt: float) -> str:
        """What to say of steps of dt [s]; "" where they are short enough."""
        if self.angle <= MOST:
            return ""
        times = int(np.ceil(2.0 * self.angle))
        return (
            f"{self.label!r} pulls {self.body!r} with {self.force:.3g} N, across which that swings by {self.angle:.2g}"
            f" rad in a step of {dt:.3g} s; steps of 2 break down: take {times} times as many substeps, or"
            " `direction: end` with several iterations of a direct solve"
        )


def fastest_swing(solver: Solver, state: State, dt: float) -> Swing | None:
    """In the state after a step of dt [s], under the forces of that step; None where nothing swings or is known.

    Of the joints of the first world whose rigid rows push along the directions of the start.
    """
    begins, model = getattr(solver, "begins", None), solver.model
    if begins is None or not model.joint_count:
        return None
    q = state.body_q.device.numpy(state.body_q).astype(np.float64)
    ends, worst = joint_ends(model), None
    pulls = _pulls(solver, q, solver.effective_dt(dt))
    for joints in joint_trees(model, [number * model.worlds for number in range(len(model.joints))]):
        touched = np.unique(ends[joints])
        bodies = touched[touched >= 0]
        pulling = {j: pulls[j] for j in joints if j in pulls}
        if not pulling or len(bodies) > MOST_BODIES or not np.isfinite(np.stack([*pulling.values()])).all():
            continue
        W, rows = joint_rows(model, joints, bodies, q, rigid=False)
        K, at = np.zeros_like(W), {int(body): 6 * k + 3 for k, body in enumerate(bodies)}
        for j, force in pulling.items():
            for side, sign in ((0, -1.0), (1, 1.0)):
                body = int(ends[j, side])
                if body >= 0:
                    K[at[body] : at[body] + 3, at[body] : at[body] + 3] += _stiffness(model, q, j, side, sign * force)
        half = root_of(W)
        _, sizes, motions = np.linalg.svd(np.concatenate(rows) @ half)
        free = half @ motions[int((sizes > LEAST * sizes[0]).sum()) :].T
        rates, modes = np.linalg.eigh(free.T @ K @ free)
        if len(rates) and rates[-1] > 0.0 and (worst is None or rates[-1] * dt**2 > worst.angle**2):
            turning = np.linalg.norm((free @ modes[:, -1]).reshape(-1, 6)[:, 3:], axis=1)
            body = int(bodies[turning.argmax()])
            own = max(
                (j for j in pulling if body in ends[j]), key=lambda j: float(np.linalg.norm(pulls[j])), default=-1
            )
            if own >= 0:
                name = body_name(model, body)
                label = list(model.joints)[own // model.worlds]
                worst = Swing(float(np.sqrt(rates[-1])) * dt, name, label, float(np.linalg.norm(pulls[own])))
    return worst


def swing_warning(solver: Solver, state: State, dt: float) -> str:
    """What to say of the last step of dt [s], which led to a state; "" where there is nothing."""
    found = fastest_swing(solver, state, dt)
    return found.advice(dt) if found is not None else ""


def _pulls(solver: Solver, q: np.ndarray, dt: float) -> dict[int, np.ndarray]:
    """Joint -> force (3,) on its child, in the world [N]."""
    model, found = solver.model, {}
    for batch in solver.batches:
        made = batch.set
        rows = LINEAR.get(made.constraint.name)
        if rows is None or made.slots.only_particles or not solver.begins(batch):  # type: ignore[attr-defined]
            continue
        lam = batch.multiplier.device.numpy(batch.multiplier).astype(np.float64) / dt**2
        for number, label in enumerate(model.joints):
            row = int(made.index_of[label][0]) if label in made.index_of else -1
            if row >= 0:
                force = np.array([lam[row, r] if r >= 0 else 0.0 for r in rows])
                j = number * model.worlds
                found[j] = frame_of(model, q, j, 0)[1] @ force if made.constraint.frames else force
    return found


def _stiffness(model: Model, q: np.ndarray, j: int, side: int, force: np.ndarray) -> np.ndarray:
    """(3, 3) of the torque of a force that a joint puts on its parent (side 0) or child against turns of that body."""
    body = int(joint_ends(model)[j, side])
    com = model.body_com.device.numpy(model.body_com).astype(np.float64)[body]
    arm = frame_of(model, q, j, side)[0] - q[body, :3] - rotation_from_quaternion(q[body, 3:]) @ com
    across = np.outer(arm, force)
    return (arm @ force) * np.eye(3) - 0.5 * (across + across.T)
