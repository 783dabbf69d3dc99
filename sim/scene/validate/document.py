"""A scene that has been read: its data in SI units, addressed by dotted paths, with the place of everything."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from sim.scene.schema.paths import MISSING, NoSuchPath, SceneValue, find, inner, path_hint
from sim.schema.containers import Union
from sim.schema.errors import Diagnostic, Mark, SceneError, SourceText
from sim.schema.kinds import ALLOW_OUTSIDE, LEAVES_FOLDER, File
from sim.schema.reading import BROKEN, Default, Reading, SchemaLine, Steps
from sim.schema.yaml_marks import node_of, resolve_scalar


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A valid scene, as data.

    `data` holds plain dicts, lists, SI floats and words, with every default filled in. Files in it are relative to
    `base`. A scene is never changed: `set_value` gives another one.
    """

    path: Path
    base: Path
    data: dict[str, Any]
    schema: SchemaLine
    marks: Mapping[Steps, Mark]
    allow_outside: bool = False
    modules: Mapping[str, Any] = field(default_factory=dict)  # name -> module whose functions the scene may name

    def __repr__(self) -> str:
        counts = (
            (len(self.data[key]), word)
            for key, word in (
                ("objects", "object"),
                ("experiments", "experiment"),
                ("parameters", "parameter"),
                ("loss", "loss term"),
                ("expect", "expectation"),
            )
        )
        listed = ", ".join(f"{n} {word}{'s' * (n != 1)}" for n, word in counts if n)
        return f"{type(self).__name__}({self.name}, {self.path}: {listed})"

    @property
    def name(self) -> str:
        """Identifier of the scene: its `name`, or the name of its file."""
        return self.data["name"]

    def find(self, path: str) -> SceneValue:
        """Schema line and value of a path. Raises `KeyError` with a hint for one that does not exist."""
        try:
            found = find(self.schema, self.data, path)
        except NoSuchPath:
            found = None
        if found is None or not found.present:
            hint = path_hint(self.schema, self.data, path, lambda other: other.present)
            raise KeyError(f"the scene has no `{path}`; {hint}" if hint else f"the scene has no `{path}`")
        return found

    def get(self, path: str) -> Any:
        """The value at a path, such as `objects.skirt.cloth.density` or `attachments.waist.motion.0.move`."""
        return self.find(path).value

    def line(self, path: str) -> SchemaLine:
        """What the schema says about a path: unit, meaning, whether it may be a parameter."""
        return self.find(path).line

    def mark(self, path: str) -> Mark:
        """Where a value is written; what holds it, where it is a default."""
        try:
            steps = find(self.schema, self.data, path).steps if path else ()
        except NoSuchPath as error:
            steps = error.steps
        while steps not in self.marks:
            steps = steps[:-1]
        return self.marks[steps]

    def where(self, path: str) -> str:
        """`file:line:col` of a value."""
        return str(self.mark(path))

    def problem(self, path: str, what: str, hint: str = "") -> Diagnostic:
        """A problem at a path, for a `SceneError` of a later stage."""
        return Diagnostic(self.mark(path), path, what, hint)

    def file(self, path: str) -> Path:
        """The file that the value at `path` names. Raises `SceneError` where a link leads out of the scene's folder."""
        found = self.find(path)
        if not isinstance(found.line.kind, File):
            raise TypeError(f"`{path}` is not a file but {found.line.kind.words()}")
        target = self.base / found.value
        if not self.allow_outside and not target.resolve().is_relative_to(self.base.resolve()):
            raise SceneError([self.problem(path, f"`{found.value}` {LEAVES_FOLDER}", ALLOW_OUTSIDE)])
        return target

    def files(self) -> dict[str, Path]:
        """Every file that the scene names, as written there -> where it is; of a mesh of tetrahedra both files."""
        out: dict[str, Path] = {}

        def look(line: SchemaLine, value: Any) -> None:
            kind = line.kind.choose(value) if isinstance(line.kind, Union) and line.kind.fits(value) else line.kind
            if isinstance(kind, File) and isinstance(value, str):
                out[value] = self.base / value
                if value.endswith(".node"):
                    out[value.removesuffix(".node") + ".ele"] = (self.base / value).with_suffix(".ele")
            for key, child in line.kind.children(line, value).items():
                below = inner(value, key)
                if below is not MISSING:
                    look(child, below)

        look(self.schema, self.data)
        return out

    def set_value(self, path: str, value: Any) -> Self:
        """The scene with another value at `path`; units are allowed, and the value by itself is checked as in a file.

        Raises `KeyError` for a path that does not exist, `SceneError` for a value that does not fit it.
        """
        found = self.find(path)
        source = SourceText("value", f"{path}={value}", self.base)
        mark = Mark(source, 1, len(path) + 2)
        reading = Reading(self.base, self.allow_outside, marks=dict(self.marks))
        read = found.line.kind.read(node_of(value, mark), found.steps, reading)
        for steps, table, name in reading.references:
            if name not in self.data[table]:
                reading.problem(steps, f"unknown {table.removesuffix('s')} `{name}`")
        if reading.deferred:
            reading.problem(found.steps, "the unit of this value depends on others", "give it to `load_scene` instead")
        if read is BROKEN or reading.problems:
            raise SceneError(reading.problems)
        data = copy.deepcopy(self.data)
        holder: Any = data
        for step in found.steps[:-1]:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        last = found.steps[-1]
        holder[int(last) if isinstance(holder, list) else last] = read
        return replace(self, data=data, marks=reading.marks)

    def without(self, *keys: str) -> Self:
        """The scene with some top-level keys at their defaults.

        `without("experiments", "parameters", "loss", "expect")` leaves what is to be simulated, and no target.
        """
        lines = self.schema.kind.children(self.schema, self.data)
        data = copy.deepcopy(self.data)
        for key in keys:
            if key not in lines or isinstance(lines[key].default, Default):
                raise KeyError(f"`{key}` is not a top-level key that has a default")
            reading = Reading(self.base, self.allow_outside, marks=dict(self.marks))
            data[key] = lines[key].kind.read(node_of(lines[key].default, self.marks[()]), (key,), reading)
        return replace(self, data=data)

    def resolved_yaml(self) -> str:
        """The scene with all defaults in SI units, as YAML; `load_scene(..., base=scene.base)` gives the same data."""
        import yaml

        class SceneDumper(yaml.SafeDumper):
            """Quotes what our own rules would read as something else than text, and nothing else."""

            def ignore_aliases(self, data: Any) -> bool:
                return True

            def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
                tag = str(super().resolve(kind, value, implicit))
                if kind is not yaml.ScalarNode or not implicit[0]:
                    return tag
                names = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}
                own = names[type(resolve_scalar(value))]
                return f"tag:yaml.org,2002:{own}" if value not in ("<<", "=") else tag

        return yaml.dump(self.data, Dumper=SceneDumper, sort_keys=False, allow_unicode=True, width=118)
