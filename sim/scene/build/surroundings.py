"""Shapes, self-contact, attachments and loads of a scene, handed to a `ModelBuilder`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.model import Model
from sim.model.build.self_contact import EVERY
from sim.scene.build.bodies import BODY_KINDS
from sim.scene.build.context import BuildContext
from sim.scene.build.followed import force_over_time, motions

RIGID_SURFACES = {"body": "shapes", "rod": "surface"}
"""The key by which what is rigid collides."""
UNSAID = {"friction": 0.0, "every": EVERY}
"""Values of `contact` that say no more than its defaults."""
TOUCHING = 1e-9
"""Depth [m] below which a point on the surface of a shape is not inside of it."""


def add_shapes(context: BuildContext) -> None:
    """Every shape of the scene."""
    for name, entry in context.entries("shapes"):
        touches = [on for on in entry["touches"] if on in context.groups or on in context.bodies]
        if not touches:
            continue
        with context.at(f"shapes.{name}"):
            made_of = context.builder.ShapeConfig(mu=entry.get("friction"), restitution=entry.get("restitution"))
            common = {"compliance": entry["compliance"], "touches": touches, "label": name, "cfg": made_of}
            if "sphere" in entry:
                context.builder.add_shape_sphere(entry["sphere"]["center"], entry["sphere"]["radius"], **common)
            else:
                plane = entry["plane"]
                context.builder.add_ground_plane(point=plane["point"], normal=plane["normal"], **common)


def add_contact(context: BuildContext) -> None:
    """What collides with itself, and how bodies are found."""
    if "contact" in context.skipped:
        return
    entry = context.data["contact"]
    if "bodies" in entry:
        with context.at("contact.bodies"):
            context.builder.detect_bodies(**entry["bodies"])
    _self_contact(context, entry)


def _self_contact(context: BuildContext, entry: dict[str, Any]) -> None:
    """The surfaces that collide with themselves and with each other."""
    options = {key: value for key, value in entry.items() if key not in ("self", "bodies")}
    if not entry["self"]:
        idle = [key for key, value in options.items() if value != UNSAID.get(key)]
        if idle:
            own = "; friction of shapes and bodies is a key of theirs" if "friction" in idle else ""
            keys = ", ".join(f"`{key}`" for key in idle)
            context.warnings.append(f"contact: {keys} without effect, since `self` names no object{own}")
        return
    for k, name in enumerate(entry["self"]):
        kind = next((kind for kind in BODY_KINDS if kind in context.data["objects"].get(name, {})), None)
        if kind is not None:
            what, by = f"`{name}` is a {kind}, which has no surface of triangles", RIGID_SURFACES[kind]
            context.problem(f"contact.self.{k}", what, f"leave it out: a {kind} collides by its `{by}`")
    named = [name for name in entry["self"] if name in context.groups]
    if len(named) == len(entry["self"]):
        with context.at("contact"):
            context.builder.add_self_contact(named, **options)


def add_loads(context: BuildContext) -> None:
    """Every load of the scene."""
    for name, entry in context.entries("loads"):
        if entry["on"] in context.bodies:
            _force_on_body(context, name, entry)
            continue
        for key in ("torque", "at"):
            if key in entry:
                context.problem(f"loads.{name}.{key}", f"`{key}` is for a body, and `{entry['on']}` is none",
                                "remove it: forces on points turn what they are part of")  # fmt: skip
        points = context.choose(f"loads.{name}", entry)
        with context.at(f"loads.{name}"):
            if points is not None:
                more = {"arm": entry["arm"], "compliance": entry["compliance"]} if "arm" in entry else {}
                if "force" in entry:
                    more["force"] = force_over_time(context, f"loads.{name}.force", entry["force"])
                context.builder.add_load(points, entry["mass"], label=name, **more)


def _force_on_body(context: BuildContext, name: str, entry: dict[str, Any]) -> None:
    """What acts on a body over time."""
    path, bodies, builder = f"loads.{name}", context.bodies[entry["on"]], context.builder
    if len(bodies) > 1:
        context.refuse(f"{path}.on", "a load of a rod", "hold a body by it, and load that")
        return
    if entry["mass"] or ("loads", name, "mass") in context.varied or "arm" in entry:
        what = "a mass that is added to a body"
        context.refuse(path, what, "give the body a shape more, with a `mass` of its own")
        return
    if entry["where"] != {"all": True}:
        context.problem(f"{path}.where", f"`{entry['on']}` is a body, and has no points", "say `at`, where it acts")
        return
    more: dict[str, Any] = {key: force_over_time(context, f"{path}.{key}", entry[key])
                            for key in ("force", "torque") if key in entry}  # fmt: skip
    if not more:
        context.problem(path, f"nothing acts on the body `{entry['on']}`", "give `force` or `torque`")
    elif None not in more.values():
        body = int(bodies[0])
        if "at" in entry:
            more["at"] = builder.pose_of(body).seen(np.array(entry["at"]))
        with context.at(path):
            builder.add_body_force(body, label=name, **more)


def add_attachments(context: BuildContext) -> dict[str, np.ndarray]:
    """Every attachment of the scene; the particles of each by its name."""
    attached = {}
    for name, entry in context.entries("attachments"):
        if entry["on"] in context.bodies:
            what = f"`{entry['on']}` is rigid, and has no points that could be held"
            hint = "hold a body by `held: true` and a `motion`, or by a joint; clamp the end of a rod"
            context.problem(f"attachments.{name}.on", what, hint)
            continue
        points = context.choose(f"attachments.{name}", entry)
        with context.at(f"attachments.{name}"):
            if points is None:
                continue
            if "to" in entry:
                _tie(context, name, entry, points)
            else:
                group = context.groups[entry["on"]]
                middle = group.positions[points - group.start].mean(axis=0)
                motion = motions(context, f"attachments.{name}.motion", entry["motion"], middle)
                if "release" in entry:
                    motion.append({"release": entry["release"]})
                    context.warn_if_never(f"attachments.{name}.release", entry["release"])
                    if entry["compliance"] == 0.0:
                        what = "pinned points, of compliance 0, cannot be let go"
                        context.problem(
                            f"attachments.{name}.release", what, "add `compliance: 1e-7 m/N`, or another small one"
                        )
                        continue
                context.builder.add_attachment(
                    points, motion or None, entry["compliance"], name,
                    offset=entry.get("offset"), turn=entry.get("turn"),
                )  # fmt: skip
                attached[name] = points
    return attached


def _tie(context: BuildContext, name: str, entry: dict[str, Any], points: np.ndarray) -> None:
    """Ties points to the body that carries them, to the nearest segment of a rod."""
    path = f"attachments.{name}"
    for key in ("motion", "offset", "turn", "release"):
        if entry.get(key) is not None and entry[key] != []:
            context.problem(f"{path}.{key}", f"`{key}` of points that a body carries", "remove it: the body moves them")
    bodies = context.bodies.get(entry["to"])
    if bodies is None:
        if f"objects.{entry['to']}" not in context.skipped:
            context.problem(f"{path}.to", f"`{entry['to']}` is no body", "name a body or a rod")
        return
    group, builder = context.groups[entry["on"]], context.builder
    rows = []
    for point in points:
        place = group.positions[point - group.start]
        poses = {int(body): builder.pose_of(int(body)) for body in bodies}
        body = min(poses, key=lambda number: float(np.linalg.norm(poses[number].p - place)))
        rows.append([int(point), builder.point_of(body, poses[body].seen(place).tolist())])
    builder.add_constraints("ball", rows, entry["compliance"], label=name)


@dataclass(frozen=True, eq=False)
class ShapeToTouch:
    """A shape of the world, and an object that collides with it by its `points` (n,), which keep a distance of
    `thickness` [m]."""

    shape: str
    is_sphere: bool
    on: str
    points: np.ndarray
    thickness: float


def shapes_to_touch(context: BuildContext, pinned: np.ndarray) -> list[ShapeToTouch]:
    """Every shape of the world with every object of particles that it touches.  pinned: particles that no contact
    moves."""
    out = []
    for name, entry in context.entries("shapes"):
        for on in entry["touches"]:
            if on in context.groups and on not in context.bodies:
                points = context.groups[on].points
                thickness = context.data["objects"][on].get("cloth", {}).get("thickness", 0.0)
                out.append(ShapeToTouch(name, "sphere" in entry, on, points[~np.isin(points, pinned)], thickness))
    return out


def inside_shapes(pairs: Sequence[ShapeToTouch], model: Model) -> Iterator[tuple[str, str, str, bool]]:
    """Points that begin inside of shapes of the world, with the material values of a model as they are: names of the
    shape and the object, a sentence, and whether they are deeper than the thickness of the object."""
    positions = model.state().particle_q.numpy()
    touching = TOUCHING + 8.0 * np.finfo(positions.dtype).eps * np.abs(positions).max(initial=0.0)
    for pair in pairs:
        depth = pair.thickness - _height(model, pair, positions[pair.points])
        inside = depth[depth > touching]
        if len(inside):
            what = (
                f"{len(inside)} points of `{pair.on}` start inside the shape `{pair.shape}`, at most"
                f" {inside.max():.3g} m deep"
            )
            yield pair.shape, pair.on, what, bool(inside.max() > pair.thickness + touching)


def _height(model: Model, pair: ShapeToTouch, positions: np.ndarray) -> np.ndarray:
    """Distance of points (n, 3) from the surface of a shape [m], negative inside."""

    def value(key: str) -> np.ndarray:
        return np.asarray(model[f"{pair.shape}.{key}"].numpy()[0], float)

    if pair.is_sphere:
        return np.linalg.norm(positions - value("center"), axis=1) - value("radius")
    normal = value("normal")
    return (positions - value("point")) @ (normal / np.linalg.norm(normal))
