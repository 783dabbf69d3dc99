"""How a scene is read: what a kind of value has to do, what one schema line says, and what is gathered on the way.

A schema is a tree of kinds. `kind.read(node, steps, reading)` turns a YAML node into SI data: `fits` looks at its
shape, `take` at its value, and kinds that hold others read those. For `{density: 0.2 kg/m^2}` a `Table` reads each key
by the kind of its `SchemaLine`; that of `density` is a `Number("kg/m^2")`, which gives 0.2.

Reading never stops at the first problem: a kind notes what is wrong in the `Reading` and returns `BROKEN`, and the
value is left out of the data. What needs the whole scene (names of objects, units of a parameter) is noted too and
checked later, by those who read the whole scene.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.schema.errors import Diagnostic, Mark
from sim.schema.yaml_marks import YamlNode

Json = dict[str, Any]
Steps = tuple[str, ...]  # a path, step by step; items of lists by their index as text


class Default(enum.Enum):
    """What stands for a value that is not given, where that is not a value itself."""

    REQUIRED = enum.auto()  # leaving it out is a problem
    ABSENT = enum.auto()  # it stays out of the data


class Broken(enum.Enum):
    """Marks a value that could not be read."""

    BROKEN = enum.auto()


BROKEN = Broken.BROKEN


@dataclass
class Reading:
    """What is gathered while a scene is read."""

    base: Path  # the folder that file names in the data are relative to
    allow_outside: bool = False
    modules: Mapping[str, Any] = field(default_factory=dict)  # name -> module whose functions the scene may name
    problems: list[Diagnostic] = field(default_factory=list)
    marks: dict[Steps, Mark] = field(default_factory=dict)  # of values
    key_marks: dict[Steps, Mark] = field(default_factory=dict)
    references: list[tuple[Steps, str, str]] = field(default_factory=list)  # (place, table, name)
    names: dict[str, list[str]] = field(default_factory=dict)  # of objects, markers, ...: also of those with problems
    deferred: dict[Steps, YamlNode] = field(default_factory=dict)  # values whose unit another value decides
    broken: set[Steps] = field(default_factory=set)

    def mark(self, steps: Steps, key: bool = False) -> Mark:
        """The place of a value (or of its key); of what holds it, where it is not written itself."""
        while steps not in self.marks:
            steps = steps[:-1]
        return self.key_marks.get(steps, self.marks[steps]) if key else self.marks[steps]

    def problem(self, steps: Steps, what: str, hint: str = "", key: bool = False) -> None:
        """Notes a problem at a value, or at its key."""
        self.problems.append(Diagnostic(self.mark(steps, key), ".".join(steps), what, hint))

    def fail(self, steps: Steps, what: str, hint: str = "") -> Any:
        """Notes a problem with a value that cannot be read."""
        self.problem(steps, what, hint)
        self.broken.add(steps)
        return BROKEN

    def read_deferred(self, steps: Steps, entry: dict[str, Any], key: str, kind: Kind) -> Any:
        """Reads a value of the entry at `steps` that waited for its kind, into the entry; None if missing or broken."""
        place = (*steps, key)
        if key not in entry or place not in self.deferred:
            return None
        value = kind.read(self.deferred[place], place, self)
        if value is BROKEN:
            del entry[key]
            return None
        entry[key] = value
        return value

    def is_broken(self, steps: Steps) -> bool:
        """Whether a value, or one that holds it, could not be read: its absence is no further problem."""
        return any(steps[:n] in self.broken for n in range(len(steps) + 1))


class Kind(ABC):
    """One kind of value. Each says all of itself: what it takes, how messages and the reference page put it into words,
    what editors are told."""

    unit: str = ""

    @abstractmethod
    def words(self) -> str:
        """What is expected, for messages and documentation."""

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether a plain value has the shape of this kind (`Union` chooses by it)."""

    @abstractmethod
    def json_schema(self) -> Json:
        """The JSON Schema (draft 7) of its values, for editors."""

    def take(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        """The SI data of a node whose shape fits; a kind that says nothing else takes what is written."""
        return node.value

    def cell(self) -> str:
        """What the reference page says of it in a table of keys."""
        return self.words()

    def nested(self, path: str) -> list[tuple[str, Kind]]:
        """The kinds that it holds, each with the path of its values, for the reference page."""
        return []

    def children(self, line: SchemaLine, value: Any) -> Mapping[str, SchemaLine]:
        """The schema lines of what stands inside `value`, which `line` describes."""
        return {}

    def whole(self, value: Any) -> Any:
        """A value as it stands for itself: what may be left out around it put back."""
        return value

    def read(self, node: YamlNode, steps: Steps, reading: Reading) -> Any:
        """The SI data of a node, or `BROKEN` with the problem noted."""
        reading.marks[steps] = node.mark
        if node.key_mark is not None:
            reading.key_marks[steps] = node.key_mark
        if not self.fits(node.plain):
            return reading.fail(steps, f"expected {self.words()}, got {described(node.plain)}", self.hint(node.plain))
        return self.take(node, steps, reading)

    def hint(self, value: Any) -> str:
        """Advice for a value that does not fit."""
        return ""


@dataclass(frozen=True)
class SchemaLine:
    """One key: all that is said of it, in one place.

    only_with: keys of the same table that it belongs to, one of which must be given.  may_vary: it may be a parameter.
    may_be_set: an experiment may set it, and what stands inside it.  model_path: the material value of the model that
    it sets; `{1}` is the second step of its own path.  per_point: where it differs from element to element, its
    elements are points.
    """

    name: str
    kind: Kind
    doc: str
    default: Any = Default.ABSENT
    only_with: tuple[str, ...] = ()
    may_vary: bool = False
    may_be_set: bool = False
    model_path: str = ""
    per_point: bool = False

    @property
    def unit(self) -> str:
        """SI unit of the number, empty for plain numbers and what is no number."""
        return self.kind.unit


def yaml_text(data: Any) -> str:
    """A default, in YAML's flow style."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{key}: {yaml_text(child)}" for key, child in data.items()) + "}"
    if isinstance(data, list | tuple):
        return "[" + ", ".join(yaml_text(child) for child in data) + "]"
    if isinstance(data, bool):
        return str(data).lower()
    return '""' if data == "" else f"{data:g}" if isinstance(data, float) else str(data)


def described(value: Any) -> str:
    """A value of the wrong shape, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"`{value}`"
