"""Scenes on meshes of half the edge length: which can be made finer, and where their markers are then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sim.identify.data.experiments import Markers
from sim.identify.problem import NotRefined
from sim.scene.build.context import BuildContext
from sim.scene.validate.document import Document


def marker_places(context: BuildContext, markers: Mapping[str, Markers]) -> dict[str, np.ndarray]:
    """Where every marker is (n, 3) [m] while its object is at rest."""
    x = np.concatenate([group.positions for group in sorted(context.groups.values(), key=lambda group: group.start)])
    return {name: of.at(x) for name, of in markers.items()}


def has_mesh(scene: Document, name: str) -> bool:
    """Whether an object has elements that can be divided."""
    return not scene.data["objects"][name].keys().isdisjoint(("cloth", "soft", "rod"))


def refuse_to_refine(scene: Document) -> None:
    """Raises NotRefined where a finer mesh would not be the same scene: values that belong to one element or point."""
    reason = next(_reasons(scene), None)
    if reason is not None:
        raise NotRefined(reason)


def _reasons(scene: Document) -> Iterator[str]:
    data = scene.data
    if not any(has_mesh(scene, name) for name in data["objects"]):
        yield "chains, loose points and rigid bodies have no mesh: the compliance of a link is that of one link"
    for name, entry in data["parameters"].items():
        if entry["per"] in ("element", "point"):
            yield f"`{name}` has a value for each {entry['per']}"
    for name, entry in data["objects"].items():
        body: dict[str, Any] = entry.get("cloth") or entry.get("soft") or {}
        values = {key: body[key] for key in ("density",) if key in body}
        for constraint, keys in body.get("material", {}).items():
            values |= {f"material.{constraint}.{key}": value for key, value in keys.items()}
        for key, value in values.items():
            if isinstance(value, dict) and ("file" in value or "each" in value):
                yield f"`objects.{name}.{key}` has a value for each element"
    for table in ("attachments", "shapes"):
        for name, entry in data[table].items():
            if entry["compliance"] > 0:
                yield f"`{table}.{name}.compliance` is that of each point"
    for table in ("attachments", "loads"):
        for name, entry in data[table].items():
            if "indices" in entry["where"] and has_mesh(scene, entry["on"]):
                yield f"`{table}.{name}` chooses points by their number in the mesh"
