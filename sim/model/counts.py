"""What a model consists of, in numbers."""

from __future__ import annotations

import numpy as np

from sim.model.model import Model

HELD = {"ball": 3, "revolute": 5, "prismatic": 5, "fixed": 6}
"""Joint -> how many of the six relative motions of two bodies it takes away, where it is rigid."""


def model_counts(model: Model) -> dict[str, int]:
    """Points, bodies, rods, joints, shapes: those that there are; degrees of freedom.

    Of each free point 3 and of each free body 6, less what rigid joints and rods of constant length (`distance`) hold;
    joints that close loops hold some of it twice.  What is elastic, limits and ropes hold nothing.
    """
    rods = sum(group.lengths is not None for group in model.bodies.values())
    free = [int(np.count_nonzero(a.device.numpy(a) > 0)) for a in (model.particle_free, model.body_free)]
    freedom = 3 * free[0] + 6 * free[1]
    for label, joint in model.joints.items():
        compliance = model.materials[f"{label}.compliance"] if joint.sets else None
        if compliance is None or np.any(compliance.device.numpy(compliance) > 0.0):
            continue
        constant = joint.kind == "distance" and f"{label}.distance" in model.materials
        freedom -= len(joint.parents) * (1 if constant else HELD.get(joint.kind, 0))
    counts = {"points": model.particle_count, "bodies": model.body_count, "rods": rods, "joints": len(model.joints),
              "shapes": len(model.shapes)}  # fmt: skip
    return {**{name: count for name, count in counts.items() if count}, "degrees of freedom": max(freedom, 0)}
