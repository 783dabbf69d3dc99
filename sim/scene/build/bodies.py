"""Rigid bodies, rods and their sites, handed to a `ModelBuilder`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.geometry import quaternion_about, rotation_from_axis_angle
from sim.scene.build.context import BuildContext
from sim.scene.build.followed import motions
from sim.scene.build.shapes import add_forms

BODY_KINDS = ("body", "rod")


def add_bodies(context: BuildContext) -> None:
    """Every body of the scene, then every rod, whose ends may be clamped in one; `context.bodies` has their numbers."""
    for kind, add in (("body", _body), ("rod", _rod)):
        for name, entry in context.entries("objects"):
            if kind not in entry:
                continue
            path = f"objects.{name}"
            for key, none in (("scale", 1.0), ("drag", 0.0)):
                if entry[key] != none:
                    context.refuse(f"{path}.{key}", f"`{key}` of a {kind}", "remove it")
            for key in ("air", "regions"):
                if entry.get(key):
                    context.refuse(f"{path}.{key}", f"`{key}` of a {kind}", "remove it")
            with context.at(f"{path}.{kind}"):
                context.bodies[name] = add(context, name, entry)
            if name not in context.bodies:  # what holds it has nothing more to say
                context.skipped.add(path)


def _turn(entry: dict[str, Any]) -> np.ndarray:
    rotation = entry["rotation"]
    return np.asarray(rotation_from_axis_angle(rotation["axis"], rotation["angle"]) if rotation["angle"] else np.eye(3))


def _body(context: BuildContext, name: str, entry: dict[str, Any]) -> np.ndarray:
    body, rotation = entry["body"], entry["rotation"]
    weighs = [shape for shape in body["shapes"].values() if "density" in shape or "mass" in shape]
    if "mass" not in body and not weighs and not body["held"]:
        what, hint = (
            "nothing gives it a mass",
            "give `mass` and `inertia`, or shapes with `density`; `mass: 0` holds it",
        )
        context.problem(f"objects.{name}.body", what, hint)
    if body.get("mass") == 0.0 and weighs and not body["held"]:
        what, hint = "`mass: 0` holds a body, and its shapes weigh something", "leave it out, or write `held: true`"
        context.problem(f"objects.{name}.body.mass", what, hint)
    if body["held"] or body.get("mass") == 0.0:
        for key in ("velocity", "spin"):
            if any(entry[key]):
                what = f"`{key}` of a body that is held, and moves as its `motion` says"
                context.problem(f"objects.{name}.{key}", what, "give it a `motion`, or leave out `held`")
    number = context.builder.add_body(
        (*entry["position"], *quaternion_about(rotation["axis"], rotation["angle"])),
        body.get("mass"),
        body.get("inertia"),
        body["com"],
        name,
        velocity=entry["velocity"],
        spin=entry["spin"],
        held=body["held"],
        motion=motions(context, f"objects.{name}.body.motion", body["motion"], np.array(entry["position"])),
    )
    if any(entry["turn"]):
        context.builder.set_rotation(context.builder.bodies[name], entry["turn"])
    add_forms(context, name, number, body)
    return np.array([number])


def _rod(context: BuildContext, name: str, entry: dict[str, Any]) -> np.ndarray:
    rod = entry["rod"]
    for key in ("turn", "spin"):
        if any(entry[key]) or any(steps[:3] == ("objects", name, key) for steps in context.varied):
            hint = "turn its `points`, or what its end is clamped in" if key == "turn" else "give it a `velocity`"
            what = f"`{key}` of a rod, whose segments would each turn by themselves"
            context.refuse(f"objects.{name}.{key}", what, hint)
    line = np.array(rod["points"]) @ _turn(entry).T
    ends = {}
    for end, of in rod["clamp"].items():
        if of == "world":
            ends[f"clamp_{end}"] = -1
        elif len(context.bodies.get(of, ())) == 1:
            ends[f"clamp_{end}"] = int(context.bodies[of][0])
        elif f"objects.{of}" not in context.skipped:
            context.problem(f"objects.{name}.rod.clamp.{end}", f"`{of}` is no body", "name a body, or `world`")
    stiffness = rod.get("stiffness")
    pieces = context.finer * (rod.get("segments") or len(line) - (not rod["closed"]))
    in_pieces = "segments" in rod or context.finer > 1
    group = context.builder.add_rod(
        divided(line, pieces, rod["closed"]) if in_pieces else line,
        radius=rod["radius"],
        density=rod["density"],
        young=rod.get("young"),
        poisson=rod.get("poisson"),
        stiffness=None if stiffness is None else {"stretch": np.inf, "shear": np.inf, **stiffness},
        damping=rod["damping"],
        normal=rod.get("normal"),
        closed=rod["closed"],
        twist_rate=rod["twist_rate"],
        curvature=(rod["curvature_2"], rod["curvature_3"]),
        pos=entry["position"],
        velocity=entry["velocity"],
        cfg=_surface(context, rod.get("surface")),
        label=name,
        **ends,
    )
    return group.bodies


def warn_of_rods(context: BuildContext) -> None:
    """Names the rods that pass through what others collide with."""
    for name, entry in context.entries("objects"):
        if "surface" in entry.get("rod", {"surface": None}):
            continue
        met = [shape for shape, of in context.entries("shapes") if name in of["touches"]]
        for other, of in context.entries("objects"):
            body = of.get("body", {})
            if body.get("shapes") and name in body.get("touches", [name]):
                met.append(other)
        if met:
            named = ", ".join(f"`{m}`" for m in met)
            context.warnings.append(
                f"objects.{name}.rod: it has no `surface` and passes through {named}; give it"
                " `surface: {friction: 0.3}`, or list what else they touch in their `touches`"
            )


def _surface(context: BuildContext, entry: dict[str, Any] | None) -> Any:
    if entry is None:
        return None
    return context.builder.ShapeConfig(
        mu=entry.get("friction"), restitution=entry.get("restitution"), touches=entry.get("touches")
    )


def divided(line: np.ndarray, segments: int, closed: bool) -> np.ndarray:
    """Points at equal distances along a line of points (n, 3): segments + 1 of them, or segments of a closed one."""
    whole = np.concatenate([line, line[:1]]) if closed else line
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(whole, axis=0), axis=1))])
    at = np.linspace(0.0, along[-1], segments + 1)[: segments if closed else None]
    return np.stack([np.interp(at, along, whole[:, k]) for k in range(3)], axis=1)


def add_sites(context: BuildContext) -> None:
    """The points of bodies that markers may observe: named sites, nodes of rods, and the places of markers.

    They come last: they are numbered behind all particles.
    """
    for name, bodies in context.bodies.items():
        entry = context.data["objects"][name]
        observed = [m["at"] for _, m in context.entries("markers") if m["on"] == name and "at" in m]
        poses = [context.builder.pose_of(int(body)) for body in bodies]
        if "rod" in entry:
            lengths = context.builder.bodies[name].lengths
            assert lengths is not None
            starts = [(k, np.array([-0.5 * length, 0.0, 0.0])) for k, length in enumerate(lengths)]
            last = [(len(lengths) - 1, np.array([0.5 * lengths[-1], 0.0, 0.0]))]
            found = starts + ([] if entry["rod"]["closed"] else last)
            edges = [(k, k + 1) for k in range(len(found) - 1)]
            edges += [(len(found) - 1, 0)] if entry["rod"]["closed"] else []
        else:
            found = [(0, np.array(at)) for at in entry["body"]["sites"].values()] or [(0, np.zeros(3))]
            edges = []
        for place in (np.array(x) for places in observed for x in places):
            nearest = int(np.argmin([np.linalg.norm(place - pose.p) for pose in poses]))
            found.append((nearest, poses[nearest].seen(place)))
        with context.at(f"objects.{name}"):
            on = [int(bodies[k]) for k, _ in found]
            context.groups[name] = context.builder.add_sites(on, [x for _, x in found], name, edges=edges)
