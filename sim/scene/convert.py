"""From format 1 to format 2 of a scene: the same simulation, in numbers of the newer format.

`bend.compliance` of a cloth is 1 / B of a plate in format 2 and was 3 / B in format 1: it is divided by three, with all
that is said of it: starts and bounds of parameters, priors, expectations.  Only the digits of these numbers are written
anew, so that comments, units and layout stay.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.files import read_text
from sim.scene.load import LARGEST_SCENE, load_scene
from sim.scene.scene import Scene
from sim.schema.errors import Diagnostic, Mark, SceneError, SourceText
from sim.schema.reading import Steps
from sim.schema.yaml_marks import YamlNode, read_yaml

_BEND = re.compile(r"objects\.[^.]+\.cloth\.material\.bend\.compliance(\.regions\.[^.]+)?\Z")
_NUMBER = re.compile(r"(?:&\S+\s+)?['\"]?\s*([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)")
_FACTOR = 3.0


@dataclass(frozen=True)
class Converted:
    """A scene file in format 2: its text, and a line for each number that is another one."""

    text: str
    changes: tuple[str, ...]


def convert_scene(path: str | os.PathLike[str], allow_outside: bool = False) -> Converted:
    """A scene of format 1 in format 2.

    Raises `SceneError` where the scene has problems, is of format 2 already, includes other files, takes compliances
    from an array, has a parameter that is a compliance of bending and something else at once, or a yield strain of
    bending, which depends on the compliance.
    """
    path = Path(path)
    scene = load_scene(path, allow_outside=allow_outside)
    source = SourceText(str(path), read_text(path, LARGEST_SCENE), path.parent)
    root = read_yaml(source, [])
    return _Conversion(scene, source, root).run()


@dataclass(frozen=True)
class _Conversion:
    scene: Scene
    source: SourceText
    root: YamlNode

    def run(self) -> Converted:
        """The new text, read again and compared with what it should say."""
        if self.scene.data["format"] != 1:
            raise self._cannot(("format",), "this scene is of format 2 already")
        if "include" in self.root.value:
            what = "the scene includes other files, whose format has to change with it"
            raise self._cannot(("include",), what, "convert `resolved.yaml` of a run of it, which has all of them")
        divided = dict(number for top in self._places() for number in self._numbers(top))
        changes, edits = [], {self._offset(self._node(("format",)).mark): ("1", "2")}
        for steps, node in divided.items():
            found = _NUMBER.match(self.source.text, self._offset(node.mark))
            if found is None:
                raise self._cannot(steps, "no number stands here in digits", "write it as a number")
            new = repr(float(found[1]) / _FACTOR)
            if found.start(1) not in edits:
                changes.append(f"{node.mark.line}: {'.'.join(steps)}: {found[1]} -> {new}")
            edits[found.start(1)] = found[1], new
        text = self.source.text
        for at, (old, new) in sorted(edits.items(), reverse=True):
            text = text[:at] + new + text[at + len(old) :]
        self._compare(text, divided)
        return Converted(text, tuple(changes))

    # ------------------------------------------------------------------------------------------------ what changes
    def _places(self) -> Iterator[Steps]:
        """Paths of everything that is a compliance of bending, or is compared with one."""
        for name, entry in self.scene.data["objects"].items():
            bend = entry.get("cloth", {}).get("material", {}).get("bend")
            if bend is None:
                continue
            steps = "objects", name, "cloth", "material", "bend"
            if any("yield" in branch for branch in bend.get("branches", ())):
                raise self._cannot((*steps, "branches"), "yield strains of bending depend on its compliance")
            value = bend["compliance"]
            if isinstance(value, dict) and "file" in value:
                what = "the compliances stand in an array"
                raise self._cannot((*steps, "compliance"), what, "divide them by 3, and write `format: 2`")
            if not isinstance(value, dict):
                yield (*steps, "compliance")
            elif "regions" in value:
                yield (*steps, "compliance", "regions")
        for name in filter(self._is_bend, self.scene.data["parameters"]):
            yield from self._said_of(name)

    def _is_bend(self, parameter: str) -> bool:
        """Whether a parameter is a compliance of bending."""
        reached = {bool(_BEND.match(path)) for path in self.scene.data["parameters"][parameter]["of"]}
        if len(reached) > 1:
            what = f"`{parameter}` is a compliance of bending and something else at once"
            raise self._cannot(("parameters", parameter, "of"), what, "make two parameters of it")
        return reached == {True}

    def _said_of(self, name: str) -> Iterator[Steps]:
        """What stands in the unit of a parameter."""
        entry = self.scene.data["parameters"][name]
        keys = ["start", "bounds"] if entry["transform"] != "none" else ["start", "bounds", "scale"]
        yield from (("parameters", name, key) for key in keys if key in self._node(("parameters", name)).value)
        for k, term in enumerate(self.scene.data["loss"]):
            place = "loss", str(k)
            if term.get("prior") == name:
                yield from ((*place, key) for key in ("value", "sd") if key in term)
            if term.get("smooth") == name and entry["transform"] == "none":
                yield *place, "sd"
        for path, claim in self.scene.data["expect"].items():
            if path.split(".")[:2] == ["parameters", name]:
                yield from (("expect", path, key) for key in ("value", "between", "below", "above") if key in claim)

    # --------------------------------------------------------------------------------------------------- the text
    def _node(self, steps: Steps) -> YamlNode:
        node = self.root
        for step in steps:
            node = node.value[int(step)] if isinstance(node.value, list) else node.value[step]
        return node

    def _numbers(self, steps: Steps) -> Iterator[tuple[Steps, YamlNode]]:
        """The numbers at a path and below it."""
        node = self._node(steps)
        if isinstance(node.value, dict | list):
            keys = node.value if isinstance(node.value, dict) else map(str, range(len(node.value)))
            for key in keys:
                yield from self._numbers((*steps, key))
        elif node.value is not None:
            yield steps, node

    def _offset(self, mark: Mark) -> int:
        """Characters of the text before a place."""
        lines = self.source.text.splitlines(keepends=True)
        return sum(map(len, lines[: mark.line - 1])) + mark.column - 1

    def _compare(self, text: str, divided: Mapping[Steps, YamlNode]) -> None:
        """Raises where a number has changed that should not: two things share it, by an anchor."""
        after = dict(_leaves(read_yaml(SourceText(self.source.name, text, self.source.folder), []).plain))
        for steps, value in _leaves(self.root.plain):
            if steps not in divided and steps != ("format",) and after[steps] != value:
                what = "this number is another one's as well, which means something else"
                raise self._cannot(steps, what, "write both out, without an anchor")

    def _cannot(self, steps: Steps, what: str, hint: str = "") -> SceneError:
        """That this scene is not converted, with the place why."""
        return SceneError([Diagnostic(self._node(steps).mark, ".".join(steps), f"cannot convert: {what}", hint)])


def _leaves(value: Any, steps: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(child, (*steps, str(key)))
    else:
        yield steps, value
