"""Everything of a scene that a model is built from."""

from __future__ import annotations

import numpy as np

from sim.scene.build.bodies import add_bodies, add_sites, warn_of_rods
from sim.scene.build.context import NAMED, BuildContext
from sim.scene.build.joints import add_joints
from sim.scene.build.objects import add_objects
from sim.scene.build.surroundings import add_attachments, add_contact, add_loads, add_shapes


def add_parts(context: BuildContext) -> np.ndarray:
    """Objects, attachments, shapes and loads; the particles (n,) that are pinned."""
    _check_names(context)
    add_objects(context)
    add_bodies(context)
    add_joints(context)
    attached = add_attachments(context)
    pinned = [points for name, points in attached.items() if context.data["attachments"][name]["compliance"] == 0.0]
    held = np.concatenate([np.zeros(0, np.int32), *pinned])
    add_shapes(context)
    warn_of_rods(context)
    add_contact(context)
    add_loads(context)
    add_sites(context)
    return held


def _check_names(context: BuildContext) -> None:
    """Objects, shapes, attachments and loads name material values of one model: a name is used once among them."""
    taken = {"gravity": "world.gravity"}
    for table in NAMED:
        for name in context.data[table]:
            path = f"{table}.{name}"
            if name in taken:
                context.problem(path, f"the name `{name}` is taken by `{taken[name]}`", "choose another name")
                context.skipped.add(path)
            taken.setdefault(name, path)
