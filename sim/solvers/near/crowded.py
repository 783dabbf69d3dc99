"""Steps of things with several contacts at once, which impacts part: see `sim.constraints.contact.impacts.parted`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sim.core.lang.types import matrix, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.model.model import Model
from sim.solvers.batch import ConstraintBatch


def crowded(model: Model, batches: Sequence[ConstraintBatch]) -> bool:
    """May something that moves have several contacts with friction or restitution at once?"""
    found = [Counter[int](), Counter[int]()]
    for batch in batches:
        if batch.set.surface:
            points, slots = batch.set.points.numpy(), batch.set.slots
            for seen, own in zip(found, (slots.particles, [own[0] for own in slots.bodies]), strict=True):
                for column in own:
                    seen.update(points[:, column].tolist())
    free = model.particle_inv_mass.numpy() > 0.0, model.body_inv_mass.numpy() > 0.0
    return any(count > 1 and of[i] for of, seen in zip(free, found, strict=True) for i, count in seen.items())


def make_room(model: Model, moving: Any, parted: bool) -> list[array]:
    """Room in a `moving_struct` for what is added up over the contacts of each mover; none where nothing is parted."""
    made, vec3, spatial = [], vector(3, model.dtype), vector(6, model.dtype)
    for name, on_body in {"carried": spatial, "lasting": spatial, "parting": vec3}.items():
        for key, each, count in ((name, vec3, model.particle_count), (f"body_{name}", on_body, model.body_count)):
            made.append(zeros(count if parted else 0, each, model.device, model.requires_grad))
            setattr(moving, key, made[-1])
    rows = matrix((6, 6), model.dtype)
    for key, kind in {"struck": spatial, "strikes": model.dtype, "gram": rows, "partner": rows}.items():
        made.append(zeros(model.body_count if parted else 0, kind, model.device, model.requires_grad))
        setattr(moving, key, made[-1])
    return made


def make_split(model: Model, contacts: Any, count: int) -> list[array]:
    """The same in a `contact_struct`, for so many contacts."""
    vec2, vec3 = vector(2, model.dtype), vector(3, model.dtype)
    made = []
    for name, kind in {"cut": vec2, "rubbed": vec3, "lasting": vec3}.items():
        made.append(zeros(count, kind, model.device, model.requires_grad))
        setattr(contacts, name, made[-1])
    return made
