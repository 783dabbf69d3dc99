"""Whether sweeps over rigid joints gain energy, where three or more of them meet at a body.

A free system under one sweep P over its rigid rows moves as x' = P (2 x - x_last): its modes grow by |z| a step, the
roots of z^2 = mu (2 z - 1) for the eigenvalues mu of P.  P is a product of the projections of each joint, whose mu are
complex where three or more meet at a body; there and back, in an even number of sweeps, they are real, and |z| <= 1.

Stars of 2 to 6 joints on hubs of 1 to .01 times the mass of an arm, with one and three sweeps: of 40, the nine that
this says grow (by 2 to 11 % a step) did, and no other.
"""

from __future__ import annotations

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.geometry import rotation_from_quaternion
from sim.model.fields import BALL, FIXED, PRISMATIC, REVOLUTE
from sim.model.model import Model
from sim.solvers.base import Solver
from sim.solvers.mechanisms.joint_errors import rigid_joints

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
    for joints in _trees(model, _swept(solver)):
        ends = _ends(model)[joints].ravel()
        count = np.bincount(ends[ends >= 0], minlength=model.body_count)
        bodies = np.flatnonzero(count)
        if count.max() < MEETING or len(bodies) > MOST_BODIES:
            continue
        found = _growth(model, joints, bodies, solver.sweeps)
        if found > worst:
            name = next(g.name for g in model.bodies.values() if g.start <= count.argmax() < g.start + g.count)
            worst, where = found, name
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


def _ends(model: Model) -> np.ndarray:
    return np.stack([_host(model.joint_parent), _host(model.joint_child)], axis=1).astype(int)


def _host(values: array) -> np.ndarray:
    out = values.device.numpy(values)
    return out.astype(np.float64) if out.dtype.kind == "f" else out


def _trees(model: Model, joints: list[int]) -> list[list[int]]:
    """Joints that are connected by free bodies, in their order."""
    free, ends, tree = _host(model.body_free) > 0, _ends(model), {j: j for j in joints}

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


def _growth(model: Model, joints: list[int], bodies: np.ndarray, sweeps: int) -> float:
    """|z| - 1 of the mode that grows most."""
    at = {int(body): 6 * k for k, body in enumerate(bodies)}
    q, com, ends, rigid = _host(model.body_q), _host(model.body_com), _ends(model), rigid_joints(model)
    inv_mass, inv_inertia = _host(model.body_inv_mass), _host(model.body_inv_inertia)
    W = np.zeros((6 * len(bodies), 6 * len(bodies)))
    centers = {}
    for body, k in at.items():
        R = rotation_from_quaternion(q[body, 3:])
        W[k : k + 3, k : k + 3] = inv_mass[body] * np.eye(3)
        W[k + 3 : k + 6, k + 3 : k + 6] = R @ inv_inertia[body] @ R.T
        centers[body] = q[body, :3] + R @ com[body]
    P, steps = np.eye(len(W)), []
    for j in joints:
        J = np.zeros((6, len(W)))
        place, axes = _frame(model, q, j)
        for body, sign in zip(ends[j].tolist(), (-1.0, 1.0), strict=True):
            if body >= 0:
                k, (x, y, z) = at[body], place - centers[body]
                J[:3, k : k + 3] = sign * axes.T
                J[:3, k + 3 : k + 6] = -sign * axes.T @ np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
                J[3:, k + 3 : k + 6] = sign * axes.T
        J = J[_held(int(_host(model.joint_kind)[j]), *rigid[j])]
        steps.append(W @ J.T @ np.linalg.pinv(J @ W @ J.T, hermitian=True, rcond=1e-10) @ J)
    for sweep in range(sweeps):
        for step in steps[::-1] if sweep % 2 else steps:
            P = P - step @ P
    mu = np.linalg.eigvals(P).astype(complex)
    root = np.sqrt(mu * mu - mu)
    return float(max(np.abs(mu + root).max(), np.abs(mu - root).max()) - 1.0)


def _frame(model: Model, q: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Place and axes (columns) of the parent's frame of a joint."""
    X, body = _host(model.joint_X_p)[j], int(_host(model.joint_parent)[j])
    axes = rotation_from_quaternion(X[3:])
    if body < 0:
        return X[:3], axes
    R = rotation_from_quaternion(q[body, 3:])
    return q[body, :3] + R @ X[:3], R @ axes


def _held(kind: int, lengths: bool, angles: bool) -> list[int]:
    """Which of the six motions of the child against the parent, along and about the axes of a joint, are held: those
    of lengths, and of angles.  Of distances nothing is said."""
    held = {REVOLUTE: ([0, 1, 2], [4, 5]), PRISMATIC: ([1, 2], [3, 4, 5]), FIXED: ([0, 1, 2], [3, 4, 5]),
            BALL: ([0, 1, 2], [])}  # fmt: skip
    along, about = held.get(kind, ([], []))
    return along * bool(lengths) + about * bool(angles)
