"""Rows of rigid joints that say the same: between two bodies at most six of them can be independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sim.model.build.joints.blocks import JointBlock
from sim.model.errors import ModelError

LEAST = 1e-7
"""A singular value below this part of the largest one counts as zero."""


def refuse_redundant(new: JointBlock, others: Sequence[JointBlock], poses: Mapping[int, np.ndarray]) -> None:
    """Raises ModelError where rigid joints between the same two bodies hold something twice, at the initial poses."""
    rigid = [block for block in (*others, new) if _rigid(block).any() and _ends(block) == _ends(new)]
    if not _rigid(new).any() or len(rigid) < 2:
        return
    places = np.array([block.parent.in_world(poses)[0] for block in rigid])
    spread = max(float(np.ptp(places, axis=0).max()), 1e-3)
    rows = np.concatenate([_rows(block, poses, places[0], spread)[_rigid(block)] for block in rigid])
    sizes = np.linalg.svd(rows, compute_uv=False)
    rank = int((sizes > LEAST * sizes[0]).sum())
    if rank < len(rows):
        named = " and ".join(repr(block.label) for block in rigid)
        raise ModelError(
            f"the joints {named} are rigid and between the same two bodies: {len(rows) - rank} of their {len(rows)}"
            " rows follow from the others, so that their forces are not determined",
            "Give one of them a compliance, or take joints that hold less",
        )


def _ends(block: JointBlock) -> frozenset[int]:
    return frozenset((block.parent.body, block.child.body))


def _rigid(block: JointBlock) -> np.ndarray:
    """(rows,) bool: which of the rows that hold a joint have no compliance."""
    for row in (row for row in block.rows if row.constraint.from_start):
        out = np.zeros(row.constraint.rows, bool)
        for key in (key for key in row.values if key.endswith("compliance")):
            out[row.constraint.rows_of(key)] = not row.values[key].any()
        return out
    return np.zeros(0, bool)


def _rows(block: JointBlock, poses: Mapping[int, np.ndarray], about: np.ndarray, unit: float) -> np.ndarray:
    """(rows, 6): what a joint measures of a velocity of one body against the other, and `unit` times its spin."""
    place, axes = block.parent.in_world(poses)
    moved = np.hstack([np.eye(3), -_cross(place - about) / unit])
    turned = np.hstack([np.zeros((3, 3)), np.eye(3)])
    across = axes.T[1:]
    if block.joint.kind == "distance":
        apart = block.child.in_world(poses)[0] - place
        return (apart / np.linalg.norm(apart))[None] @ moved
    return {
        "ball": moved,
        "revolute": np.vstack([moved, across @ turned]),
        "prismatic": np.vstack([across @ moved, turned]),
        "fixed": np.vstack([moved, turned]),
    }[block.joint.kind]


def _cross(r: np.ndarray) -> np.ndarray:
    """(3, 3) whose product with v is r x v."""
    x, y, z = r
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
