"""Where bodies begin that joints place: `start_pos` and `start_vel` of hinges and sliders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.model.build.joints.blocks import JointBlock
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.coordinates import joint_trees, kinematic_kernels
from sim.model.derived.derivation import Derivation, broadcast
from sim.model.errors import ModelError
from sim.model.fields import BALL, FREE
from sim.model.materials import Materials


def derive_starts(
    blocks: Sequence[JointBlock],
    worlds: int,
    arrays: Mapping[str, array],
    values: Mapping[str, Any],
    materials: Materials,
    make: ArrayFactory,
) -> list[Derivation]:
    """Poses and velocities of the bodies that joints place, after those that bodies have by themselves.

    Placed are the children of joints that have a start, and of all joints below them.  values: of `joint_arrays`.
    Raises ModelError where such a body is held, has a velocity of its own or a loop of joints.
    """
    if not any(block.starts for block in blocks):
        return []
    labels = [block.label for block in blocks for _ in range(worlds)]
    kind, parent, child = (np.asarray(values[f"joint_{name}"]) for name in ("kind", "parent", "child"))
    starts = np.array([bool(block.starts) for block in blocks for _ in range(worlds)])
    trees = [_placing(tree, parent, child, starts) for tree in joint_trees(kind, parent, child, labels)]
    order = [j for tree in trees for j in tree]
    _check(order, kind, child, labels, arrays)
    q_start, qd_start = values["joint_q_start"], values["joint_qd_start"]
    q = np.zeros(arrays["joint_target_pos"].size)
    q[q_start[kind == BALL] + 3] = 1.0
    joint_q, joint_qd = make.zeros(len(q), make.real), make.zeros(arrays["joint_target_vel"].size, make.real)
    joint_q.assign(q)
    made = []
    for number, block in enumerate(blocks):
        rows = number * worlds + np.arange(worlds)
        for (key, value), begin, out in zip(
            block.starts.items(), (q_start, qd_start), (joint_q, joint_qd), strict=False
        ):
            given = materials.add(f"{block.label}.{key}", value)
            made.append(broadcast(make, given, worlds, np.arange(worlds), begin[rows], out))
    offset = np.cumsum([0, *map(len, trees)])
    frames = [arrays["joint_X_p"], arrays["joint_X_c"]]
    derived = [*frames, arrays["body_com"], joint_q, joint_qd, arrays["body_q"], arrays["body_qd"]]
    inputs = [
        make.constant(offset, int),
        make.constant(np.array(order), int),
        *(arrays[f"joint_{name}"] for name in ("kind", "parent", "child")),
        *frames,
        *(arrays[f"joint_{name}"] for name in ("q_start", "qd_start")),
        arrays["body_com"],
        joint_q,
        joint_qd,
    ]
    placed = [arrays["body_q"], arrays["body_qd"]]
    made.append(Derivation(kinematic_kernels(make.real)[0], len(trees), inputs, placed, derived=derived))
    return made


def _placing(tree: Sequence[int], parent: np.ndarray, child: np.ndarray, starts: np.ndarray) -> list[int]:
    """The joints of a tree, parents first, that have a start or are below one."""
    placed: set[int] = set()
    chosen = []
    for j in tree:
        if starts[j] or int(parent[j]) in placed:
            chosen.append(j)
            placed.add(int(child[j]))
    return chosen


def _check(
    order: Sequence[int], kind: np.ndarray, child: np.ndarray, labels: Sequence[str], arrays: Mapping[str, array]
) -> None:
    free = arrays["body_free"].device.numpy(arrays["body_free"])
    for j in order:
        if kind[j] == FREE:
            raise ModelError(
                f"{labels[j]}: a free joint is below one that has a start_pos", "Leave it out, or place it by eval_fk"
            )
        if not free[child[j]]:
            raise ModelError(
                f"{labels[j]}: its child, body {child[j]}, is held, and the start of a joint would place it",
                "Give the joint of a body that is free a start_pos, and leave out `held`",
            )
