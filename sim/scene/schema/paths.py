"""Dotted paths: how a name such as `objects.skirt.cloth.density` finds its schema line and its value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sim.schema.errors import did_you_mean
from sim.schema.reading import SchemaLine, Steps

MISSING = object()  # the value of a path that the schema knows and the data does not hold


@dataclass(frozen=True)
class SceneValue:
    """Where a path leads."""

    steps: Steps
    line: SchemaLine
    value: Any

    @property
    def present(self) -> bool:
        """Whether the data holds a value there."""
        return self.value is not MISSING


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
    """Follows a path through schema and data. Raises `NoSuchPath`.

    Keys of `set` and `expect` are paths themselves: a step may hold dots.
    """
    line, value, words = root, data, dotted.split(".")
    steps: Steps = ()
    while words:
        children = line.kind.children(line, None if value is MISSING else value)
        sizes = (n for n in range(1, len(words) + 1) if ".".join(words[:n]) in children)
        size = next(sizes, 0)
        if not size:
            raise NoSuchPath((*steps, words[0]), list(children))
        step, words = ".".join(words[:size]), words[size:]
        line, value, steps = children[step], inner(value, step), (*steps, step)
    return SceneValue(steps, line, value)


def every_path(line: SchemaLine, value: Any, steps: Steps = ()) -> Iterator[SceneValue]:
    """Every path that the schema knows below `line`, for the names and lists that `value` has."""
    if steps:
        yield SceneValue(steps, line, value)
    for step, child in line.kind.children(line, None if value is MISSING else value).items():
        yield from every_path(child, inner(value, step), (*steps, step))


def path_hint(root: SchemaLine, data: Any, dotted: str, accept: Callable[[SceneValue], bool]) -> str:
    """A hint for a path that cannot be used: the closest accepted one, or the keys known where it goes wrong."""
    paths = [".".join(found.steps) for found in every_path(root, data) if accept(found)]
    close = difflib.get_close_matches(dotted, paths, 1, cutoff=0.75)
    if close:
        return f"did you mean `{close[0]}`?"
    try:
        steps = find(root, data, dotted).steps
    except NoSuchPath as error:
        return did_you_mean(error.steps[-1], error.known)
    value = data
    for step in steps:
        deeper = inner(value, step)
        if deeper is MISSING:
            return did_you_mean(step, value if isinstance(value, dict) else ())
        value = deeper
    return ""


def overlap(a: Steps, b: Steps) -> bool:
    """Whether one of two places is, or holds, the other."""
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]
