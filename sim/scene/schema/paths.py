"""Dotted paths: how a name such as `objects.skirt.cloth.density` finds its schema line and its value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sim.schema.errors import word_hint
from sim.schema.reading import SchemaLine, Steps

MISSING = object()  # the value of a path that the schema knows and the data does not hold


@dataclass(frozen=True)
class SceneValue:
    """Where a path leads.

    lines: the schema lines of its steps, from a top-level key to the value itself.
    """

    steps: Steps
    lines: tuple[SchemaLine, ...]
    value: Any

    @property
    def line(self) -> SchemaLine:
        """What the schema says of the value."""
        return self.lines[-1]

    @property
    def present(self) -> bool:
        """Whether the data holds a value there."""
        return self.value is not MISSING

    @property
    def may_be_set(self) -> bool:
        """Whether an experiment may set it; tables of the whole scene are not set as one."""
        return len(self.steps) > 1 and any(line.may_be_set for line in self.lines)

    @property
    def model_path(self) -> str | None:
        """The path in `model.materials` of the material value that it is, or is part of; None if there is none.

        `objects.skirt.cloth.material.bend.compliance` is `skirt.bend.compliance`, and so are its `each` and its
        regions.
        """
        _, template = self._material_value
        return template.format(*self.steps) if template else None

    @property
    def component(self) -> int | None:
        """Which component of a vector of the model it is: 1 of `world.gravity.1`; None where it is all of it."""
        rest = self._within
        return int(rest[0]) if len(rest) == 1 and rest[0].isdigit() else None

    @property
    def region(self) -> str | None:
        """The region whose value it is; None where it is for the whole object."""
        rest = self._within
        return rest[1] if len(rest) == 2 and rest[0] == "regions" else None

    @property
    def _within(self) -> Steps:
        """The steps from the material value of the model to this one."""
        return self.steps[self._material_value[0] :]

    @property
    def _material_value(self) -> tuple[int, str]:
        """How many steps lead to the last line that names a path in the model, and that path."""
        named = [(k + 1, line.model_path) for k, line in enumerate(self.lines) if line.model_path]
        return named[-1] if named else (len(self.steps), "")


class NoSuchPath(LookupError):
    """A path that the schema does not know: `steps` ends with the first unknown word, `known` could stand there."""

    def __init__(self, steps: Steps, known: list[str]):
        super().__init__(".".join(steps))
        self.steps = steps
        self.known = known


def inner(value: Any, step: str) -> Any:
    """What stands one step inside `value`, or `MISSING`."""
    if isinstance(value, dict):
        return value.get(step, MISSING)
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return MISSING


def find(root: SchemaLine, data: Any, dotted: str) -> SceneValue:
    """Follows a path through schema and data.  Raises `NoSuchPath`.

    Keys of `set` and `expect` are paths themselves: a step may hold dots.
    """
    value, words = data, dotted.split(".")
    steps: Steps = ()
    lines: tuple[SchemaLine, ...] = ()
    while words:
        line = lines[-1] if lines else root
        children = line.kind.children(line, None if value is MISSING else value)
        sizes = (n for n in range(1, len(words) + 1) if ".".join(words[:n]) in children)
        size = next(sizes, 0)
        if not size:
            raise NoSuchPath((*steps, words[0]), list(children))
        step, words = ".".join(words[:size]), words[size:]
        lines, value, steps = (*lines, children[step]), inner(line.kind.whole(value), step), (*steps, step)
    return SceneValue(steps, lines, value)


def every_path(root: SchemaLine, data: Any) -> Iterator[SceneValue]:
    """Every path that the schema knows, for the names and lists that the data has."""
    for step, line in root.kind.children(root, data).items():
        yield from paths_below(SceneValue((step,), (line,), inner(data, step)))


def paths_below(at: SceneValue) -> Iterator[SceneValue]:
    """A value itself, and every path inside it."""
    yield at
    inside = at.line.kind.whole(at.value)
    for step, line in at.line.kind.children(at.line, at.value if at.present else None).items():
        yield from paths_below(SceneValue((*at.steps, step), (*at.lines, line), inner(inside, step)))


def path_hint(root: SchemaLine, data: Any, dotted: str, accept: Callable[[SceneValue], bool]) -> str:
    """A hint for a path that cannot be used: that it has no value yet, the closest accepted one, or the keys known
    where it goes wrong."""
    if _left_out(root, data, dotted):
        return f"it is a key that was left out: give it a value there, `{dotted.rpartition('.')[2]}: ...`"
    paths = [".".join(found.steps) for found in every_path(root, data) if accept(found)]
    close = difflib.get_close_matches(dotted, paths, 1, cutoff=0.75)
    if close:
        return f"did you mean `{close[0]}`?"
    try:
        steps = find(root, data, dotted).steps
    except NoSuchPath as error:
        return word_hint(error.steps[-1], error.known)
    value = data
    for step in steps:
        deeper = inner(value, step)
        if deeper is MISSING:
            return word_hint(step, value if isinstance(value, dict) else ())
        value = deeper
    return ""


def _left_out(root: SchemaLine, data: Any, dotted: str) -> bool:
    """Whether the schema knows a path, and the scene has all of it but its last key."""
    try:
        found = find(root, data, dotted)
        above = find(root, data, ".".join(found.steps[:-1]))
    except NoSuchPath:
        return False
    return not found.present and isinstance(above.value, dict)


def overlap(a: Steps, b: Steps) -> bool:
    """Whether one of two places is, or holds, the other."""
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]
