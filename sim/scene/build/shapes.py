"""Shapes and visuals of a scene's bodies, handed to a `ModelBuilder`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.geometry import load_mesh, quaternion_about
from sim.scene.build.context import BuildContext
from sim.scene.schema.keys.bodies import FORMS


def add_forms(context: BuildContext, name: str, body: int, entry: dict[str, Any]) -> None:
    """The shapes and visuals of an object that is a body."""
    builder = context.builder
    for label, shape in entry["shapes"].items():
        path = f"objects.{name}.body.shapes.{label}"
        made_of = builder.ShapeConfig(
            shape.get("density", 0.0),
            shape.get("friction"),
            shape.get("restitution"),
            shape.get("mass"),
            entry.get("touches"),
        )
        with context.at(path):
            kind, size = _form(context, path, shape)
            getattr(builder, f"add_shape_{kind}")(body, _pose(shape), cfg=made_of, label=label, **size)
    for label, visual in entry["visuals"].items():
        path = f"objects.{name}.body.visuals.{label}"
        with context.at(path):
            kind, size = _form(context, path, visual)
            getattr(builder, f"add_visual_{kind}")(body, _pose(visual), **size)


def _pose(form: dict[str, Any]) -> tuple[float, ...]:
    angle = float(np.linalg.norm(form["turn"]))
    turn = quaternion_about(form["turn"], angle) if angle else (0.0, 0.0, 0.0, 1.0)
    return (*form["at"], *turn)


def _form(context: BuildContext, path: str, form: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Its kind, and the arguments of the builder that say how large it is."""
    kind = next(kind for kind in FORMS if kind in form)
    size = form[kind]
    if kind == "box":
        return kind, dict(zip(("hx", "hy", "hz"), size["half"], strict=True))
    if kind == "mesh":
        mesh = load_mesh(context.scene.file(f"{path}.mesh.file"), size["unit"], size["axes"], size["mirror"])
        return kind, {"vertices": mesh.positions, "indices": mesh.triangles}
    return kind, size
