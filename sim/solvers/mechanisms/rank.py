"""Rigid joints in loops that hold something twice: a direct solve cannot say what their forces are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.model.model import Model
from sim.solvers.base import SolverError
from sim.solvers.mechanisms.joint_errors import rigid_joints
from sim.solvers.mechanisms.rows import joint_ends, joint_rows, joint_trees, root_of

LEAST = 1e-7
"""A singular value below this part of the largest one counts as zero."""
MOST_BODIES = 100
"""Of loops that are looked at."""


def refuse_dependent(model: Model, direct: Sequence[str]) -> None:
    """Raises SolverError where rigid joints that are solved directly follow from others, where the bodies begin.

    Looks at the joints of the first world that are in loops: at trees there is nothing to find.
    """
    rigid, ends = rigid_joints(model), joint_ends(model)
    labels = {number * model.worlds: label for number, label in enumerate(model.joints)}
    free = model.body_free.device.numpy(model.body_free) > 0
    for joints in joint_trees(model, [j for j, label in labels.items() if label in direct and rigid[j].any()]):
        touched = np.unique(ends[joints])
        bodies = touched[touched >= 0]
        movable = int(free[bodies].sum())
        anchored = movable < len(touched)
        if len(joints) <= movable - (not anchored) or len(bodies) > MOST_BODIES:
            continue
        W, rows = joint_rows(model, joints, bodies)
        J = np.concatenate(rows)
        if not len(J):
            continue
        scaled = J @ root_of(W)
        scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-300)
        left, sizes, _ = np.linalg.svd(scaled)
        rank = int((sizes > LEAST * sizes[0]).sum())
        if rank < len(J):
            owner = np.repeat(np.arange(len(joints)), [len(own) for own in rows])
            named = [labels[joints[k]] for k in np.unique(owner[(np.abs(left[:, rank:]) > 1e-6).any(axis=1)])]
            raise SolverError(
                f"direct: the rigid joints {', '.join(map(repr, named))} are in a loop, and {len(J) - rank} of their"
                f" {len(J)} rows follow from the others: their forces are not determined",
                "Give one of them a compliance, or leave them to the sweeps",
            )
