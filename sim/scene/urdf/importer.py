"""simopt import: a robot in URDF becomes a scene.

Links with a mass are bodies, those without are part of the body that they are fixed to, as sites of it.  Coordinates of
joints are 0 where a scene begins: limits are counted from the pose.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sim.files import FileError, quoted, read_text
from sim.geometry import Placed
from sim.scene.urdf.elements import read_xml
from sim.scene.urdf.forms import TABLES
from sim.scene.urdf.robot import DROPPABLE, MOVES, RobotReader, UrdfJoint, UrdfLink
from sim.scene.urdf.tree import WORLD, RobotTree
from sim.schema.errors import Diagnostic, Mark, SceneError, SourceText, word_hint
from sim.schema.kinds import Number
from sim.schema.reading import BROKEN, Reading
from sim.schema.yaml_marks import read_yaml, resolve_scalar

NOTHING = 1e-15
"""Places [m] and turns [rad] up to which something is where its body is."""

LARGEST_ROBOT = 2**24
"""Bytes of a URDF at most (16 MiB): meshes are files of their own."""


@dataclass(frozen=True)
class Imported:
    """A robot as a scene: the text of the scene, how many bodies and joints it has, what was left out or renamed."""

    text: str
    bodies: int
    joints: int
    notes: tuple[str, ...]


def import_urdf(
    path: str | os.PathLike[str],
    pose: Sequence[str] = (),
    drop: Collection[str] = (),
    free: bool = False,
    packages: Sequence[str | os.PathLike[str]] = (),
    folder: str | os.PathLike[str] | None = None,
) -> Imported:
    """The scene of a robot.

    pose: texts `joint=value` (with a unit, if wanted), where the scene begins; 0 for all others.
    drop: what is left out, names of `DROPPABLE`.  free: the root falls; otherwise it does not move.
    packages: folders that `package://` is looked for in; folder: where the scene will be, default that of the URDF.

    Raises `SceneError` with everything that a scene cannot have, each with its line.  No other file is opened; those of
    meshes have to be there.
    """
    path = Path(path)
    for name in drop:
        if name not in DROPPABLE:
            raise ValueError(f"drop: {name!r} is none of {', '.join(DROPPABLE)}")
    try:
        source = SourceText(str(path), read_text(path, LARGEST_ROBOT), path.parent)
    except FileError as error:
        mark = Mark(SourceText(str(path), "", path.parent), 1, 1)
        raise SceneError([Diagnostic(mark, "", f"cannot read `{path}`: {error.what}", error.hint)]) from None
    root = read_xml(source)
    reader = RobotReader(drop, path.parent, [Path(root).absolute() for root in packages])
    reader.read(root)
    if not reader.links and not reader.problems:
        reader.problem(root.mark, "", "no link", "a robot has at least one")
    values = _pose(reader, pose)
    tree = RobotTree(reader, values, free)
    if reader.problems:
        raise SceneError(reader.problems)
    return _Writer(path, tree, values, path.parent if folder is None else Path(folder)).run()


def _pose(reader: RobotReader, texts: Iterable[str]) -> dict[str, float]:
    """Joint -> coordinate [rad, m]; every joint has to be within its limits."""
    reading = Reading(Path())
    values: dict[str, float] = {}
    moving = [j.name for j in reader.joints.values() if j.kind in MOVES]
    for text in texts:
        source = SourceText("--pose", text, Path())
        name, equals, _ = text.partition("=")
        if not equals:
            reader.problem(Mark(source, 1, 1), "", f"{quoted(text)} sets nothing", "write joint=value")
        elif name not in moving:
            what = f"no joint {quoted(name)} that moves"
            reader.problem(Mark(source, 1, 1), "", what, word_hint(name, moving))
        else:
            try:
                node = read_yaml(source, reading.problems, column_offset=len(name) + 1)
            except SceneError as error:
                reading.problems[:] = error.problems
                continue
            value = Number(reader.joints[name].unit).read(node, (name,), reading)
            if value is not BROKEN:
                values[name] = value
    reader.problems += reading.problems
    for joint in reader.joints.values():
        if joint.limits is not None and joint.limits[0] <= joint.limits[1]:
            low, high = joint.limits
            value = values.get(joint.name, 0.0)
            if not low <= value <= high:
                what = f"it would begin at {value:g} {joint.unit}, outside of its limits {low:g} to {high:g}"
                hint = f"`--pose {joint.name}={0.5 * (low + high):.4g}` begins in the middle"
                reader.problem(joint.mark, f"joint {quoted(joint.name)}", what, hint)
    return values


@dataclass
class _Writer:
    path: Path
    tree: RobotTree
    pose: dict[str, float]
    folder: Path
    taken: set[str] = field(default_factory=lambda: {"world"})
    notes: list[str] = field(default_factory=list)

    def run(self) -> Imported:
        tree = self.tree
        self.notes += tree.reader.notes
        names = {body: self._name(body, "link") for body in tree.bodies} | {WORLD: "world"}
        joints = [(self._name(joint.name, "joint"), joint, parent, child) for joint, parent, child in tree.joints]
        objects = [line for body, parts in tree.parts().items()
                   for line in self._body(tree.links[body], names[body], parts)]  # fmt: skip
        still = [line for link in self._seen_in_world() for line in self._still(link)]
        held = [line for name, joint, a, b in joints for line in self._joint(joint, name, names[a], names[b])]
        posed = [f"{quoted(name)} {value:g} {tree.reader.joints[name].unit}" for name, value in self.pose.items()]
        if posed:
            self.notes.append(f"limits and targets count from the pose: {', '.join(posed)}")
        direct = ", ".join(_word(name) for name, *_ in joints)
        text = [
            f"# From {quoted(self.path.name)} by `simopt import`.",
            *(f"# {note}" for note in self.notes),
            "format: 2",
            "world: {gravity: [0, 0, -9.81]}",
            "time: {duration: 1, fps: 60, substeps: 20}",
            f"solver: {{xpbd: {{direct: [{direct}]}}}}" if joints else "solver: {xpbd: {}}",
            "objects:",
            *still,
            *objects,
            *(["joints:", *held] if held else []),
        ]
        return Imported("\n".join(text) + "\n", len(tree.bodies), len(joints), tuple(self.notes))

    def _seen_in_world(self) -> list[UrdfLink]:
        """Links that are part of the world and have forms."""
        return [self.tree.links[name] for name, body in self.tree.carrier.items()
                if body == WORLD and self.tree.links[name].forms]  # fmt: skip

    def _still(self, link: UrdfLink) -> list[str]:
        """A body that does not move, for what is seen of a link of the world."""
        name = self._name(link.name, "link")
        lines = self._entries(["mass: 0"], self._forms(link.name, [link.name]))
        return [f"  {name}:", *lines, *_placement(self.tree.placed[link.name])]

    def _forms(self, body: str, links: Iterable[str]) -> list[str]:
        """Shapes and visuals of the links that make up a body; shapes, which overlap at joints, collide with nothing
        until the user names it."""
        out: dict[str, dict[str, str]] = {}
        for link in links:
            for form in self.tree.links[link].forms:
                table = out.setdefault(form.table, {})
                name = new = _identifier(form.name if link == body else f"{link}_{form.name}")
                number = 0
                while new in table:
                    number += 1
                    new = f"{name}_{number}"
                outside = self.tree.placed[link].then(form.origin)
                placed = self.tree.placed[body]
                at, turn = placed.seen(outside.p), Placed(outside.p, placed.turn_seen(outside.q)).rotation_vector
                where = f", at: {_numbers(at)}" if np.abs(at).max() > NOTHING else ""
                where += f", turn: {_numbers(turn)}" if np.abs(turn).max() > NOTHING else ""
                table[new] = f"{{{form.kind}: {{{form.sizes(self.folder)}}}{where}}}"
        lines = [
            f"{table}: {{" + ", ".join(f"{k}: {v}" for k, v in forms.items()) + "}" for table, forms in out.items()
        ]
        return [*lines, *(["touches: []"] if TABLES["collision"] in out else [])]

    @staticmethod
    def _entries(entries: Sequence[str], longer: Sequence[str]) -> list[str]:
        """The lines of a body: what is short in one, what is longer in one each."""
        lines = [", ".join(entries), *longer]
        lines = [f"{'    body: {' if not k else '      '}{line}" for k, line in enumerate(lines)]
        return [f"{line}," for line in lines[:-1]] + [lines[-1] + "}"]

    def _body(self, link: UrdfLink, name: str, parts: Sequence[str]) -> list[str]:
        tree = self.tree
        placed = tree.placed[link.name]
        inertia = link.inertia if link.inertia[3:].any() else link.inertia[:3]
        sites: dict[str, np.ndarray] = {}
        for part in parts:
            site = _identifier(part)
            while site in sites:
                site += "_"
            sites[site] = placed.seen(tree.placed[part].p)
        entries = [f"mass: {_number(link.mass)}", f"inertia: {_numbers(inertia)}", f"com: {_numbers(link.com)}"]
        entries += ["held: true"] if link.name in tree.held else []
        if sites:
            origin = {name: np.zeros(3)} if name not in sites else {}
            entries.append("sites: {" + ", ".join(f"{k}: {_numbers(x)}" for k, x in (origin | sites).items()) + "}")
        forms = self._forms(link.name, [link.name, *parts])
        return [f"  {name}:", *self._entries(entries, forms), *_placement(placed)]

    def _joint(self, joint: UrdfJoint, name: str, parent: str, child: str) -> list[str]:
        placed = self.tree.placed[joint.child]
        kind = {"continuous": "revolute"}.get(joint.kind, joint.kind)
        axis = f"{{axis: {_numbers(placed.rotation @ joint.axis)}}}" if joint.kind in MOVES else "{}"
        lines = [f"  {name}:", f"    {kind}: {axis}", f"    parent: {_word(parent)}", f"    child: {_word(child)}"]
        lines.append(f"    at: {_numbers(placed.p)}")
        if joint.limits is not None:
            begins = self.pose.get(joint.name, 0.0)
            lines.append(f"    limits: {_numbers(np.array(joint.limits) - begins)}")
        drive = {"effort": joint.effort, "damping": joint.damping}
        given = ", ".join(f"{key}: {_number(value)}" for key, value in drive.items() if value)
        lines += [f"    drive: {{{given}}}"] if given else []
        lines += [f"    friction: {_number(joint.friction)}"] if joint.friction else []
        return lines

    def _name(self, name: str, what: str) -> str:
        """A name of the scene's own kind that nothing else has."""
        new = _identifier(name)
        if new in self.taken:
            new = f"{new}_{what}"
        while new in self.taken:
            new += "_"
        if new != name:
            self.notes.append(f"renamed: {what} {quoted(name)} is `{new}`")
        self.taken.add(new)
        return new


def _placement(placed: Placed) -> list[str]:
    vector = placed.rotation_vector
    angle = float(np.linalg.norm(vector))
    lines = [f"    position: {_numbers(placed.p)}"] if placed.p.any() else []
    if angle:
        lines.append(f"    rotation: {{axis: {_numbers(vector / angle)}, angle: {_number(angle)}}}")
    return lines


def _identifier(name: str) -> str:
    new = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return new if re.match(r"[A-Za-z_]", new) else f"_{new}"


def _word(name: str) -> str:
    """A name as a value: quoted where YAML would read it as something else (`true`, `null`)."""
    return name if isinstance(resolve_scalar(name), str) else f'"{name}"'


def _number(value: float) -> str:
    return f"{value:.15g}" if value else "0"


def _numbers(values: np.ndarray) -> str:
    """A list of them; what is zero but for rounding is zero."""
    least = 1e-15 * float(np.abs(values).max(initial=0.0))
    return "[" + ", ".join(_number(float(v)) if abs(v) > least else "0" for v in values) + "]"
