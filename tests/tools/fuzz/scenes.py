"""Scenes spoilt at random: a key is dropped, a value is of another type or size, a name refers to nothing.

What comes of one is either a problem that could be built, or a `SceneError` with a place and words.  By a seed that is
printed with what went wrong, so that it can be had again:

    SIM_FUZZ_SCENES=cloth:17 python -m pytest tests/scene/validate/test_fuzz_scenes.py
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import sim
from sim.scene import SceneError

NUMBERS = [0, -1, 1e30, -1e30, 1e-30, 1e300, 1e-300, float("nan"), float("inf"), -0.0, 2**63, 10**400, 0.5, 7, 1e6, 1e9]
OTHERS = [None, True, "", "word", "1 mm", "3 parsecs", "1e400 m", [], {}, [1, 2], [1, 2, 3], ["a"], {"a": 1}, "${x}"]
Keys = tuple[Any, ...]


class _Loader(yaml.SafeLoader):
    """Of YAML 1.2, as scenes are: `on` is a word."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if tag != "tag:yaml.org,2002:bool" or first in "tTfF"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def places(tree: Any, path: Keys = ()) -> Iterator[Keys]:
    """Every value in nested mappings and lists, by its keys."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def at(tree: Any, path: Keys) -> Any:
    """What stands at a path."""
    for key in path:
        tree = tree[key]
    return tree


def spoil(tree: Any, rng: random.Random) -> str:
    """Edits a tree at one place; says what was done."""
    known = list(places(tree))
    leaves = [path for path in known if not isinstance(at(tree, path), dict)]
    path = rng.choice(leaves if leaves and rng.random() < 0.7 else known or [()])
    if not path:
        return "nothing is left"
    holder, key = at(tree, path[:-1]), path[-1]
    value, name = holder[key], ".".join(map(str, path))
    kind = rng.choice(["number", "number", "other", "drop", "unknown", "rename", "size", "swap", "unit"])
    if kind == "drop":
        del holder[key]
        return f"{name} dropped"
    if kind == "unknown" and isinstance(holder, dict):
        holder[rng.choice(["nothing", "", "a b", str(key) + "s", 3])] = rng.choice([value, 1, None])
        return f"a key beside {name}"
    if kind == "rename" and isinstance(value, str):
        holder[key] = rng.choice([value + "x", value[:-1], value.upper(), " " + value, "nothing"])
    elif kind == "size" and isinstance(value, list):
        holder[key] = rng.choice([value[:-1], value + value[-1:], value * 2, value[::-1], [value]])
    elif kind == "swap":
        other = rng.choice(list(places(tree)))
        holder[key] = copy.deepcopy(at(tree, other))
        return f"{name} = that of {'.'.join(map(str, other))}"
    elif kind == "unit" and isinstance(value, int | float) and not isinstance(value, bool):
        holder[key] = f"{value} {rng.choice(['m', 's', 'kg', 'N/m', 'Pa', 'deg', 'apples', ''])}"
    elif kind == "other":
        holder[key] = copy.deepcopy(rng.choice(OTHERS))
    elif isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.3:
        holder[key] = rng.choice([-value, 0 * value, 1e3 * value, 1e-3 * value, 1e12 * value, -1e12 * value])
    else:
        holder[key] = rng.choice(NUMBERS)
    return f"{name} = {holder[key]!r}"


@dataclass(frozen=True)
class Spoilt:
    """A scene with one to three edits."""

    scene: str
    seed: int
    edits: tuple[str, ...]
    text: str

    @classmethod
    def make(cls, source: Path, seed: int) -> Spoilt:
        """That of a seed."""
        rng = random.Random(f"{source.stem}:{seed}")
        tree = yaml.load(source.read_text(encoding="utf-8"), Loader=_Loader)
        edits = tuple(spoil(tree, rng) for _ in range(rng.choice([1, 1, 1, 2, 3])))
        return cls(source.stem, seed, edits, yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))

    def wrong(self, folder: Path) -> str:
        """What is wrong with what comes of it, if anything.  folder: with the files that the scene names."""
        path = folder / f"{self.scene}.spoilt.yaml"
        path.write_text(self.text, encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            try:
                sim.load_scene(path, allow_outside=True).build()
            except SceneError as error:
                return "; ".join(text for p in error.problems if (text := self._vague(p, path)))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        return ""

    def _vague(self, problem: Any, path: Path) -> str:
        """What a diagnostic lacks: a place in the file, or words."""
        mark = problem.mark
        if not problem.what.strip() or mark.line < 1 or path.name not in str(mark):
            return f"a problem without place or words: {mark}: {problem.what!r}"
        return ""

    def __str__(self) -> str:
        return f"SIM_FUZZ_SCENES={self.scene}:{self.seed}: {'; '.join(self.edits)}"
