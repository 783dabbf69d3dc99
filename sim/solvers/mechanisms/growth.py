"""Whether sweeps over rigid joints gain energy, where three or more of them meet at a body.

A free system under one sweep P over its rigid rows moves as x' = P (2 x - x_last): its modes grow by |z| a step, the
roots of z^2 = mu (2 z - 1) for the eigenvalues mu of P.  P is a product of the projections of each joint, whose mu are
complex where three or more meet at a body; there and back, in an even number of sweeps, they are real, and |z| <= 1.

Stars of 2 to 6 joints on hubs of 1 to .01 times the mass of an arm, with one and three sweeps: of 40, the nine that
this says grow (by 2 to 11 % a step) did, and no other.
"""

from __future__ import annotations

import numpy as np

from sim.model.model import Model
from sim.solvers.base import Solver
from sim.solvers.mechanisms.joint_errors import rigid_joints
from sim.solvers.mechanisms.rows import body_name, joint_ends, joint_rows, joint_trees

MEETING = 3
"""Joints at one body from which on sweeps may gain energy."""
MOST_BODIES = 40
"""Of a tree that is looked at: of larger ones nothing is said."""
WORTH_SAYING = 1e-3
"""Growth in a step."""


def sweep_growth(solver: Solver) -> tuple[float, str]:
    """By which part the motion of rigid joints may grow in a step, where the bodies begin, and the body at which most
    of these joints meet; (0, "") where it does not, or nothing is known."""
    begins, model = getattr(solver, "begins", None), solver.model
    if begins is None or solver.sweeps % 2 == 0 or not model.joint_count:
        return 0.0, ""
    worst, where = 0.0, ""
    for joints in joint_trees(model, _swept(solver)):
        ends = joint_ends(model)[joints].ravel()
        count = np.bincount(ends[ends >= 0], minlength=model.body_count)
        bodies = np.flatnonzero(count)
        if count.max() < MEETING or len(bodies) > MOST_BODIES:
            continue
        found = _growth(model, joints, bodies, solver.sweeps)
        if found > worst:
            worst, where = found, body_name(model, int(count.argmax()))
    return (worst, where) if worst > WORTH_SAYING else (0.0, "")


def growth_of_joints(solver: Solver) -> str:
    """A sentence for people on joints whose sweeps gain energy; else ""."""
    growth, body = sweep_growth(solver)
    if not body:
        return ""
    return (
        f"sweeps over the rigid joints that meet at {body!r} may gain {100 * growth:.2g} % in every step with an odd"
        f" number of iterations ({solver.sweeps} now): take {solver.sweeps + 1}, or solve them together (`direct`)"
    )


def _swept(solver: Solver) -> list[int]:
    """Rigid joints of the first world that are projected one after the other, in the order of a sweep."""
    model, places = solver.model, dict[int, tuple[int, int]]()
    rigid = rigid_joints(model)
    direct = getattr(solver, "direct", ())
    for number, label in enumerate(model.joints):
        if not rigid[number * model.worlds].any() or label in direct:
            continue
        for k, batch in enumerate(solver.batches):
            made = batch.set
            if label in made.index_of and made.constraint.from_start and made.index_of[label][0] >= 0:
                places[number * model.worlds] = k, int(made.index_of[label][0])
    return sorted(places, key=lambda j: places[j])


def _growth(model: Model, joints: list[int], bodies: np.ndarray, sweeps: int) -> float:
    """|z| - 1 of the mode that grows most."""
    W, rows = joint_rows(model, joints, bodies)
    P = np.eye(len(W))
    steps = [W @ J.T @ np.linalg.pinv(J @ W @ J.T, hermitian=True, rcond=1e-10) @ J for J in rows]
    for sweep in range(sweeps):
        for step in steps[::-1] if sweep % 2 else steps:
            P = P - step @ P
    mu = np.linalg.eigvals(P).astype(complex)
    root = np.sqrt(mu * mu - mu)
    return float(max(np.abs(mu + root).max(), np.abs(mu - root).max()) - 1.0)
