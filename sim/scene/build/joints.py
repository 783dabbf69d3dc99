"""Joints of a scene, handed to a `ModelBuilder`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sim.model import ModelError
from sim.scene.build.context import BuildContext

WORLD = -1


def add_joints(context: BuildContext) -> None:
    """Every joint between bodies that could be built."""
    for name, entry in context.entries("joints"):
        path = f"joints.{name}"
        parent, child = (_body(context, f"{path}.{end}", entry[end], entry) for end in ("parent", "child"))
        if parent == child and child is not None:
            what = f"the joint holds `{entry['child']}` to itself"
            context.problem(f"{path}.parent", what, "a joint is between two bodies, or a body and the `world`")
        elif parent is not None and child is not None:
            with context.at(path):
                _add(context, name, entry, parent, child)
    _refuse_tied(context)


def _refuse_tied(context: BuildContext) -> None:
    """What is tied to a body at its place in the scene would be torn where a joint places that body elsewhere."""
    joints, placed = [joint for _, joint in context.entries("joints")], set[str]()
    for _ in joints:  # those below one that is placed, to any depth
        placed |= {joint["child"] for joint in joints if "start" in joint or joint["parent"] in placed}
    for name, entry in context.data["attachments"].items():
        if entry.get("to") in placed:
            what = f"the start of a joint places `{entry['to']}`, and points are tied to it where it is without"
            context.problem(f"attachments.{name}.to", what, "place the objects where they begin, and leave `start` out")
    for name, entry in context.data["objects"].items():
        for end, of in entry.get("rod", {}).get("clamp", {}).items():
            if of in placed:
                what = f"the start of a joint places `{of}`, and the rod is clamped to it where it is without"
                hint = "place the objects where they begin, and leave `start` out"
                context.problem(f"objects.{name}.rod.clamp.{end}", what, hint)


def _body(context: BuildContext, path: str, name: str, entry: dict[str, Any]) -> int | None:
    """The number of the body that a joint names: of a rod the segment that is nearest to it.  None: there is none."""
    if name == "world":
        return WORLD
    bodies = context.bodies.get(name)
    if bodies is None:
        if f"objects.{name}" not in context.skipped:
            context.problem(path, f"`{name}` is no body", "a joint is between bodies, rods and the `world`")
        return None
    if len(bodies) > 1 and "at" not in entry:
        context.problem(path, f"`{name}` has {len(bodies)} segments", "give the place of the joint by `at`")
        return None
    place = np.array(entry.get("at", (0.0, 0.0, 0.0)))
    return int(min(bodies, key=lambda body: float(np.linalg.norm(context.builder.pose_of(int(body)).p - place))))


def _add(context: BuildContext, name: str, entry: dict[str, Any], parent: int, child: int) -> None:
    builder = context.builder
    at_parent, at_child = builder.joint_frames(parent, child, entry.get("at", (0.0, 0.0, 0.0)))
    if "parent_at" in entry:
        at_parent[:3], at_child[:3] = entry["parent_at"], entry["child_at"]
    common: dict[str, Any] = {
        "compliance": entry["compliance"],
        "damping": _given(context, name, "damping"),
        "label": name,
    }
    common |= {key: entry[key] for key in ("linear_compliance", "angular_compliance") if key in entry}
    kind = next(k for k in ("revolute", "prismatic", "ball", "fixed", "distance") if k in entry)
    if kind not in ("revolute", "prismatic"):
        for key in ("limits", "drive", "friction", "start"):
            if entry.get(key):
                raise ModelError(f"`{key}` of a joint without an axis", "It belongs to `revolute` and `prismatic`")
    if kind == "ball":
        builder.add_joint_ball(parent, child, at_parent, at_child, **common)
    elif kind == "fixed":
        builder.add_joint_fixed(parent, child, at_parent, at_child, **common)
    elif kind == "distance":
        given = entry["distance"]
        length = given.get("length")
        least, most = (length, length) if length else (given.get("least", -1.0), given.get("most", -1.0))
        builder.add_joint_distance(parent, child, at_parent, at_child, min_distance=least, max_distance=most, **common)
    else:
        _warn_of_idle(context, name, entry.get("drive", {}))
        _warn_of_start(context, name, entry)
        add = builder.add_joint_revolute if kind == "revolute" else builder.add_joint_prismatic
        along = {**common, **_along(entry), "friction": _given(context, name, "friction")}
        add(parent, child, at_parent, at_child, entry[kind]["axis"], **along)


def _along(entry: dict[str, Any]) -> dict[str, Any]:
    """What acts along the free coordinate."""
    drive = entry.get("drive", {})
    low, high = entry.get("limits", (None, None))
    named = {"target": "target_pos", "speed": "target_vel", "stiffness": "target_ke", "damping": "target_kd",
             "effort": "effort_limit", "keys": "target_keys"}  # fmt: skip
    out = {named[key]: value for key, value in drive.items()}
    start = entry.get("start")
    if start is not None:
        out |= {"start_pos": start["position"], "start_vel": start["speed"]}
    return {**out, "limit_lower": low, "limit_upper": high}


def _warn_of_idle(context: BuildContext, name: str, drive: dict[str, Any]) -> None:
    """Names targets of a drive that nothing pulls to, nor may later."""
    for strength, targets in (("stiffness", ("target", "keys")), ("damping", ("speed",))):
        idle = [key for key in targets if drive.get(key)]
        if idle and not drive[strength] and ("joints", name, "drive", strength) not in context.varied:
            named = " and ".join(f"`{key}`" for key in idle)
            context.warnings.append(f"joints.{name}.drive: {named} without effect: it has no `{strength}`")


def _warn_of_start(context: BuildContext, name: str, entry: dict[str, Any]) -> None:
    """Names a joint that begins outside of its limits, whose first steps throw it back."""
    low, high = entry.get("limits", (None, None))
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    begin = entry.get("start", {}).get("position", 0.0)
    if not low <= begin <= high:
        where = "`start.position`" if "start" in entry else "where the objects are placed"
        context.warnings.append(
            f"joints.{name}: it begins at {begin:g}, {where}, outside of its limits [{low:g}, {high:g}], and is thrown"
            " back by the first steps; let it begin within them by `start: {position: ...}`"
        )


def _given(context: BuildContext, name: str, key: str) -> float | None:
    """A value of a joint; None where it is 0 and stays so: then it needs no row."""
    value = float(context.data["joints"][name][key])
    return value if value or ("joints", name, key) in context.varied else None
