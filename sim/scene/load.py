"""From a file to a `Scene`: includes are merged, overrides applied, everything is checked at once."""

from __future__ import annotations

import copyreg
import importlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from sim.files import FileError, read_text
from sim.scene.build.sound_parts import problems_of_sound_parts
from sim.scene.scene import Scene
from sim.scene.schema.keys.materials import MaterialSpec, registered_materials
from sim.scene.schema.keys.scene import scene_schema
from sim.scene.schema.paths import NoSuchPath, find, path_hint
from sim.scene.validate.checks import check_parts, check_references
from sim.scene.validate.expectations import check_expectations
from sim.scene.validate.loss import check_loss
from sim.scene.validate.parameters import check_parameters
from sim.schema.containers import List, Table
from sim.schema.errors import Diagnostic, Mark, SceneError, SourceText, word_hint
from sim.schema.kinds import File
from sim.schema.reading import BROKEN, Default, Reading, SchemaLine
from sim.schema.yaml_marks import YamlNode, node_of, read_yaml

LARGEST_SCENE = 2**24
"""Bytes of a scene file at most (16 MiB): numbers in bulk belong into recordings, meshes and .npy files."""


def load_scene(
    path: str | os.PathLike[str],
    overrides: Mapping[str, object] | Sequence[str] = (),
    materials: Mapping[str, MaterialSpec] | None = None,
    allow_outside: bool = False,
    base: str | os.PathLike[str] | None = None,
    modules: Iterable[ModuleType] = (),
    open_files: bool = True,
) -> Scene:
    """Reads and checks a scene file.

    overrides: texts `a.b=value` (the value in YAML, units allowed) or a mapping path -> value; they win over the file.
    materials: the constraints that `material` may name; default: those that are registered.
    allow_outside: lets files lie outside the folder of the scene.
    base: the folder that the file's relative paths refer to, if not its own (a resolved scene in a run folder).
    modules: those whose functions `custom` in a loss may name; a scene imports nothing by itself.
    open_files: where a scene has problems, look into the meshes and recordings of its other parts as well.

    Raises `SceneError` with every problem at once.  A scene without any is read without opening meshes and recordings:
    what is wrong with those is found when it is built.
    """
    path = Path(path)
    reading = Reading(
        Path(base) if base is not None else path.parent, allow_outside, {module.__name__: module for module in modules}
    )
    if materials is None:
        materials = registered_materials()
    schema = scene_schema(materials)
    root = _merged_file(path, reading, schema, ())
    for node, dotted in _override_nodes(overrides, reading):
        root = _overridden(root, dotted, node, reading, schema)
    if "experiments" in root.value and not root.value["experiments"].value:
        # An empty table is as good as none: the default, one experiment without a target, takes its place.
        root = replace(root, value={key: child for key, child in root.value.items() if key != "experiments"})
    if "name" not in root.value:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", path.stem)
        root = replace(root, value={**root.value, "name": YamlNode(name, root.mark)})
    data = schema.kind.read(root, (), reading)
    if data is not BROKEN:
        data["include"] = []  # done: what is resolved stands for itself
        check_parts(data, schema, materials, reading)
        targets = check_parameters(data, schema, reading)
        check_loss(data, targets, reading)
        check_expectations(data, targets, reading)
        check_references(reading)
    if data is BROKEN:
        raise SceneError(reading.problems)
    scene = Scene(path, reading.base, data, schema, reading.marks, allow_outside, reading.modules)
    if reading.problems:
        raise SceneError([*reading.problems, *(problems_of_sound_parts(scene, reading.problems) if open_files else [])])
    return scene


def _from_resolved(text: str, path: Path, base: Path, allow_outside: bool, modules: Sequence[str]) -> Scene:
    """A scene of its resolved text, where it was sent to: recordings and meshes are read from `base`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.yaml"
        file.write_text(text, encoding="utf-8")
        loaded = [importlib.import_module(name) for name in modules]
        scene = load_scene(file, allow_outside=allow_outside, base=base, modules=loaded, open_files=False)
        return replace(scene, path=path)


def _reduced(scene: Scene) -> tuple[Callable[..., Scene], tuple[Any, ...]]:
    where = scene.path.resolve(), scene.base.resolve()
    return _from_resolved, (scene.resolved_yaml(), *where, scene.allow_outside, tuple(scene.modules))


copyreg.pickle(Scene, _reduced)  # a scene goes to other processes as text: all else is made of it there


def _merged_file(
    path: Path, reading: Reading, schema: SchemaLine, above: tuple[Path, ...], asked: Mark | None = None
) -> YamlNode:
    """The tree of a file on top of those of its `include`s. `asked`: what names the file, None for the first."""
    folder = path.parent if asked is not None else reading.base
    source = SourceText(str(path), _text(path, reading, asked), folder)
    root = read_yaml(source, reading.problems)
    if root.value is None:
        root = YamlNode({}, Mark(source, 1, 1))
    if not isinstance(root.value, dict):
        what = "a scene is a mapping of keys and values"
        recorded = path.suffix.lower() in (".csv", ".trc")
        hint = f"`simopt new KIND --from {path.name}` writes one around a recording" if recorded else ""
        raise SceneError([*reading.problems, Diagnostic(root.mark, "", what, hint or "begin with `format: 2`")])
    here = path.resolve()
    if here in above:
        chain = " -> ".join(file.name for file in (*above, here))
        what = f"files include each other: {chain}"
        raise SceneError([*reading.problems, Diagnostic(asked or root.mark, "include", what)])
    merged: YamlNode | None = None
    include = root.value.get("include")
    names = BROKEN if include is None else List(File()).read(include, ("include",), reading)
    for item, name in zip(include.value, names, strict=True) if include is not None and names is not BROKEN else ():
        part = _merged_file(reading.base / name, reading, schema, (*above, here), item.mark)
        _same_format(part, root, name, reading)
        merged = part if merged is None else _merge(merged, part, schema)
    # The names are read, relative to the file that gave them; the checks that follow must not see them again.
    root = replace(root, value={key: child for key, child in root.value.items() if key != "include"})
    return root if merged is None else _merge(merged, root, schema)


def _same_format(part: YamlNode, root: YamlNode, name: str, reading: Reading) -> None:
    """Values of another version of the format may mean something else."""
    below, above = part.value.get("format"), root.value.get("format")
    if below is not None and above is not None and below.value != above.value:
        what = f"`{name}` has format {below.value}, this file {above.value}"
        reading.problems.append(
            Diagnostic(above.mark, "format", what, "bring both to one; see docs/reference/scene.md")
        )


def _text(path: Path, reading: Reading, asked: Mark | None) -> str:
    try:
        return read_text(path, LARGEST_SCENE)
    except FileError as error:
        reason = error.what if path.exists() else "there is no such file"
        siblings = [p.name for p in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        hint = error.hint if path.exists() else word_hint(path.name, siblings, list_up_to=0)
        mark = asked or Mark(SourceText(str(path), "", path.parent), 1, 1)
        where = "include" if asked else ""
        raise SceneError(
            [*reading.problems, Diagnostic(mark, where, f"cannot read `{path}`: {reason}", hint)]
        ) from None


def _merge(below: YamlNode, above: YamlNode, line: SchemaLine) -> YamlNode:
    """`above` wins; tables are merged key by key, and a choice replaces the choice below it; all else is replaced."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    children = dict(below.value)
    lines = line.kind.children(line, {**below.plain, **above.plain})
    for key, child in above.value.items():
        if key in children and key in lines:
            child = _merge(children[key], child, lines[key])
        _drop_rivals(children, key, line)
        children[key] = child
    return replace(above, value=children)


def _drop_rivals(children: dict[str, YamlNode], key: str, line: SchemaLine) -> None:
    """A later `adam` replaces an earlier `lbfgs`, which could not stand beside it, and what belonged to it."""
    if not isinstance(line.kind, Table):
        return
    for rival in line.kind.rivals(key):
        if children.pop(rival, None) is not None:
            for other in line.kind.lines:
                if rival in other.only_with and key not in other.only_with:
                    children.pop(other.name, None)


def _override_nodes(
    overrides: Mapping[str, object] | Sequence[str], reading: Reading
) -> Iterable[tuple[YamlNode, str]]:
    """Value and path of every override; each is a source of its own, so that messages can show it."""
    if isinstance(overrides, str):
        raise TypeError("overrides is a list of texts `path=value` or a mapping, not one text")
    if isinstance(overrides, Mapping):
        for dotted, value in overrides.items():
            source = SourceText("override", f"{dotted}={value}", reading.base)
            yield node_of(value, Mark(source, 1, len(dotted) + 2)), dotted
        return
    for text in overrides:
        source = SourceText("--set", text, reading.base)
        dotted, equals, _ = text.partition("=")
        if not equals or not dotted.strip():
            reading.problems.append(Diagnostic(Mark(source, 1, 1), "", f"`{text}` sets nothing", "write path=value"))
            continue
        try:
            yield read_yaml(source, reading.problems, column_offset=len(dotted) + 1), dotted.strip()
        except SceneError as error:
            reading.problems[:] = error.problems


def _overridden(root: YamlNode, dotted: str, node: YamlNode, reading: Reading, schema: SchemaLine) -> YamlNode:
    plain = root.plain
    source = node.mark.source
    try:
        steps = find(schema, plain, dotted).steps
        return _placed(root, schema, steps, replace(node, key_mark=Mark(source, 1, 1)))
    except NoSuchPath:
        hint = path_hint(schema, plain, dotted, lambda found: True)
        reading.problems.append(
            Diagnostic(Mark(source, 1, 1), dotted, f"`{dotted}` does not exist in this scene", hint)
        )
        return root


def _placed(holder: YamlNode, line: SchemaLine, steps: Sequence[str], node: YamlNode) -> YamlNode:
    """`holder` with `node` at `steps`; tables on the way that are not written yet start from their defaults."""
    if not steps:
        return node
    step, rest = steps[0], steps[1:]
    child_line = line.kind.children(line, holder.plain)[step]
    if isinstance(line.kind.whole(holder.plain), list) and not isinstance(holder.value, list):
        holder = replace(holder, value=[holder])  # one that stands without its list
    if isinstance(holder.value, list):
        items = list(holder.value)
        items[int(step)] = _placed(items[int(step)], child_line, rest, node)
        return replace(holder, value=items)
    if holder.value is not None and not isinstance(holder.value, dict):
        raise NoSuchPath(tuple(steps), [])
    children = dict(holder.value or {})
    child = children.get(step)
    if child is None or child.value is None:
        default = child_line.default if not isinstance(child_line.default, Default) else None
        child = node_of(default, node.mark)
    _drop_rivals(children, step, line)
    children[step] = _placed(child, child_line, rest, node)
    return replace(holder, value=children)
