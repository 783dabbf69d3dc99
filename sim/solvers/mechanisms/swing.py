"""How fast bodies swing across the pull of their joints, against the length of a step.

A body that joints pull apart by F at the arm r swings back when it is turned, with the stiffness K of r x F; so does a
light link in a taut chain, at omega^2 = 12 F / (m l).  Rigid rows that push along the directions of the start of a step
follow it explicitly, as SHAKE does: steps of omega h > 2 break down, however well they are solved.  (2 to 10 links of
1 kg together, with a ball of 1 to 1000 kg, swung from the horizontal at 60 to 2400 Hz: of 60 runs 28 broke down, at an
omega h of 1.6 and more as it was looked at 30 times; of the others three came above 2.)  Along the
directions of the end, with several iterations, they do not; the energy decreases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.constraints.slots.pattern import PARTICLE, WORLD
from sim.geometry import quaternion_product, rotated, rotation_from_quaternion
from sim.model.state import State
from sim.solvers.base import Solver
from sim.solvers.batch import ConstraintBatch

MOST = 1.2
"""Of omega h: above it, advice is due."""
LINEAR = {"ball": (0, 1, 2), "revolute": (0, 1, 2), "fixed": (0, 1, 2), "rod": (0, 1, 2), "cable": (0, 1, 2),
          "prismatic": (-1, 0, 1)}  # fmt: skip
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
    """Of the bodies in the state after a step of dt [s], under the forces of that step; None where none swings."""
    begins, model = getattr(solver, "begins", None), solver.model
    if begins is None or not model.body_count:
        return None
    q = state.body_q.device.numpy(state.body_q).astype(np.float64)[:, 3:]
    stiffness, pulls = np.zeros((model.body_count, 3, 3)), np.zeros(model.body_count)
    labels = [""] * model.body_count
    for batch in solver.batches:
        if batch.set.slots.only_particles or not begins(batch) or batch.set.constraint.name not in LINEAR:
            continue
        for j, bodies, forces in _forces(batch, q, solver.effective_dt(dt)):
            offset = batch.set.placing[f"offset_{j}"]
            arms = rotated(q[bodies], offset.device.numpy(offset).astype(np.float64))
            along = np.einsum("ki,ki->k", arms, forces)
            across = np.einsum("ki,kj->kij", arms, forces)
            K = along[:, None, None] * np.eye(3) - 0.5 * (across + across.transpose(0, 2, 1))
            np.add.at(stiffness, bodies, K)
            for row, (body, size) in enumerate(zip(bodies.tolist(), np.linalg.norm(forces, axis=1), strict=True)):
                if size > pulls[body]:
                    pulls[body], labels[body] = size, _label(batch, row)
    inverse = model.body_inv_inertia.device.numpy(model.body_inv_inertia).astype(np.float64)
    R = np.array([rotation_from_quaternion(turn) for turn in q])
    inverse = R @ inverse @ R.transpose(0, 2, 1)
    finite = np.isfinite(stiffness).all(axis=(1, 2)) & np.isfinite(inverse).all(axis=(1, 2))
    rates = np.zeros(model.body_count)
    rates[finite] = np.linalg.eigvals(inverse[finite] @ stiffness[finite]).real.max(axis=1)
    worst = int(np.argmax(rates))
    if rates[worst] <= 0.0:
        return None
    name = next(g.name for g in model.bodies.values() if g.start <= worst < g.start + g.count)
    return Swing(float(np.sqrt(rates[worst])) * dt, name, labels[worst], float(pulls[worst]))


def swing_warning(solver: Solver, state: State, dt: float) -> str:
    """What to say of the last step of dt [s], which led to a state; "" where there is nothing."""
    found = fastest_swing(solver, state, dt)
    return found.advice(dt) if found is not None else ""


def _forces(batch: ConstraintBatch, q: np.ndarray, dt: float) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """For each slot of a joint that is on a body: slot, bodies (n,), forces (n, 3) on them in the world [N]."""
    made = batch.set
    lam = batch.multiplier.device.numpy(batch.multiplier).astype(np.float64) / dt**2
    points = made.points.device.numpy(made.points)
    rows = LINEAR[made.constraint.name]
    force = np.stack([lam[:, r] if r >= 0 else np.zeros(len(lam)) for r in rows], axis=1)
    kinds = made.slots.kinds
    if made.constraint.frames:
        frame = made.placing["frame_0"]
        turn = frame.device.numpy(frame).astype(np.float64)
        force = rotated(turn if kinds[0] == WORLD else quaternion_product(q[points[:, 0]], turn), force)
    for j, sign in ((0, -1.0), (1, 1.0)):
        if kinds[j] not in (PARTICLE, WORLD):
            yield j, points[:, j], sign * force


def _label(batch: ConstraintBatch, row: int) -> str:
    return next(label for label, rows in batch.set.index_of.items() if row in rows)
