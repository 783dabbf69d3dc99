"""The arrays of a model that say where its joints are, and what their drives aim at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.core.lang.types import quaternion
from sim.core.runtime.arrays.array import array
from sim.model.build.joints.blocks import AT, JointBlock
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.body_kernels import body_derivations
from sim.model.derived.derivation import Column, Derivation, Picked, broadcast
from sim.model.fields import JOINT_KINDS
from sim.model.groups import Joint
from sim.model.materials import Materials


def _starts(counts: Sequence[int], worlds: int) -> np.ndarray:
    """The first entry of each joint in each world, where those of all worlds stand together."""
    return np.cumsum([0, *(n for n in counts for _ in range(worlds))])


def joint_arrays(blocks: Sequence[JointBlock], worlds: int, bodies: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts and constant content of the arrays of joints."""
    joints = [block.joint for block in blocks]
    coordinates = _starts([j.coordinates for j in joints], worlds)
    velocities = _starts([j.velocities for j in joints], worlds)
    keys = [0 if block.keys is None else len(block.keys.times) for block in blocks]
    none = np.zeros(0, np.int32)
    parents, children = (
        np.concatenate([none, *ends]) for ends in ([j.parents for j in joints], [j.children for j in joints])
    )
    ends = np.concatenate([children, parents])
    which = np.concatenate([2 * np.arange(len(children)), 2 * np.arange(len(parents)) + 1])[ends >= 0]
    order = np.argsort(ends[ends >= 0], kind="stable")
    values = {
        "joint_kind": np.repeat([JOINT_KINDS.index(j.kind) for j in joints], worlds),
        "joint_parent": parents,
        "joint_child": children,
        "joint_q_start": coordinates[:-1],
        "joint_qd_start": velocities[:-1],
        "target_key_offset": _starts(keys, worlds),
        "target_key_smooth": np.repeat([block.keys is not None and block.keys.smooth for block in blocks], worlds),
        "target_key_time": np.concatenate([np.zeros(0), *(np.tile(b.keys.times, worlds) for b in blocks if b.keys)]),
        "body_joint_offset": np.cumsum([0, *np.bincount(ends[ends >= 0], minlength=bodies)]),
        "body_joint": which[order],
    }
    counts = {
        "joints": len(children), "joints + 1": len(children) + 1, "joint coordinates": int(coordinates[-1]),
        "joint velocities": int(velocities[-1]), "target keys": len(values["target_key_time"]),
        "bodies + 1": bodies + 1, "joint ends": len(which),
    }  # fmt: skip
    return counts, values


def listed_joints(blocks: Sequence[JointBlock], values: Mapping[str, Any], worlds: int) -> dict[str, Joint]:
    """Label -> joint.  values: of `joint_arrays`."""
    starts = [values[name].reshape(-1, worlds) for name in ("joint_q_start", "joint_qd_start")]
    return {block.label: block.listed(q, qd) for block, q, qd in zip(blocks, *starts, strict=True)}


def derive_joints(
    blocks: Sequence[JointBlock],
    worlds: int,
    arrays: Mapping[str, array],
    values: Mapping[str, Any],
    materials: Materials,
    make: ArrayFactory,
) -> list[Derivation]:
    """Frames of joints, and targets of their drives, from material values.  values: of `joint_arrays`."""
    made = []
    for number, block in enumerate(blocks):
        everyone = np.arange(worlds)
        rows = number * worlds + everyone
        for end, key, out in zip((block.parent, block.child), AT, ("joint_X_p", "joint_X_c"), strict=True):
            path = f"{block.label}.{key}"
            at = materials[path] if path in materials else materials.add(path, np.tile(end.at, (worlds, 1)))
            turn = Column(np.tile(end.turn, (worlds, 1)), quaternion(make.real))
            inputs = [Picked.of(at, everyone, worlds), turn, Column(rows, int)]
            made.append(Derivation(body_derivations(make.real).joint_frame, worlds, inputs, [arrays[out]]))
        starts = {"target_pos": values["joint_q_start"], "target_vel": values["joint_qd_start"]}
        for key, target in block.targets.items():
            value = materials.add(f"{block.label}.{key}", target)
            made.append(broadcast(make, value, worlds, everyone, starts[key][rows], arrays[f"joint_{key}"]))
        if block.keys is not None:
            value = materials.add(f"{block.label}.target_keys", block.keys.values)
            every = np.arange(value.size)
            slots = values["target_key_offset"][number * worlds] + every
            made.append(broadcast(make, value, value.size, every, slots, arrays["target_key_value"]))
    return made
