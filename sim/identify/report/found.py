"""What a run found, in a form to use again: a fragment of a scene, an option of the command, hashes of the data."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.identify.parameters.parameters import Parameter
from sim.identify.problem import Problem
from sim.io.html import format_number


def found_values(problem: Problem, result: Mapping[str, Any]) -> dict[str, Any]:
    """Path in the scene -> what was found for it: a number, a vector, or `{"file": name}` for one value per element.

    A scene with these values starts where the run ended.  Left out is what a scene cannot hold (see `not_in_scene`).
    """
    out: dict[str, Any] = {}
    for p in problem.sought:
        final = result["parameters"][p.name]["final"]
        if final is None or not_in_scene(p):
            continue
        for k, (place, factor) in enumerate(p.places.items()):
            value = factor * np.asarray(final, np.float64)
            if p.experiments:
                out |= {
                    f"experiments.{name}.set.{place}": one.tolist()
                    for name, one in zip(p.experiments, value, strict=True)
                }
            else:
                out[place] = {"file": _array_name(p, k)} if p.per in ("element", "point") else value.tolist()
    return out


def not_in_scene(p: Parameter) -> str:
    """Why what was found for a parameter cannot be written into a scene; empty where it can."""
    if not p.places:
        return (
            "its `start` stands for all regions at once" if p.per == "region" else "it belongs to no place of a scene"
        )
    each = any(place.endswith(".each") for place in p.places)
    if p.per in ("element", "point") and (
        each or np.ndim(p.start) > 1 or any(place.endswith(".start") for place in p.places)
    ):
        return f"a scene takes no list of these from a file: they stand in result.json, parameters.{p.name}.final"
    return ""


def found_arrays(problem: Problem, result: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The files of the run folder that `found_values` names: name -> (n,) values."""
    out = {}
    for p in problem.sought:
        final = result["parameters"][p.name]["final"]
        if final is not None and p.per in ("element", "point") and not not_in_scene(p):
            for k, factor in enumerate(p.places.values()):
                out[_array_name(p, k)] = factor * np.asarray(final, np.float64)
    return out


def _array_name(p: Parameter, k: int) -> str:
    return f"found.{p.name}{f'.{k}' if k else ''}.npy"


def fragment(problem: Problem, result: Mapping[str, Any]) -> str:
    """YAML that includes the scene and sets what was found; saved beside it, it is the scene that starts there."""
    import yaml  # slow to import, and needed once a run

    values = found_values(problem, result)
    if not values:
        return ""
    tree: dict[str, Any] = {}
    whole = yaml.safe_load(problem.description.resolved) if problem.description.resolved else {}
    for path, value in values.items():
        _set(tree, whole, path.split(".") if ".set." not in path else _steps_of_set(path), value)
    source = problem.description.source
    lines = [
        f"# {p.name} = {_told(result['parameters'][p.name])}"
        for p in problem.sought
        if not not_in_scene(p) and np.ndim(p.start) == 0
    ]
    lines += [f"# {p.name} is left out: {not_in_scene(p)}" for p in problem.sought if not_in_scene(p)]
    head = f"format: {whole.get('format', 2)}\n" + (f"include: [{source.name}]\n" if source is not None else "")
    body = yaml.dump(tree, Dumper=_dumper(yaml), sort_keys=False, width=110, allow_unicode=True)
    return "\n".join([*lines, head + body]).rstrip() + "\n"


def set_options(problem: Problem, result: Mapping[str, Any]) -> str:
    """Options of the command that set what was found; empty where it needs a file: values by element or experiment."""
    values = found_values(problem, result)
    if any(isinstance(value, dict) or ".set." in path for path, value in values.items()):
        return ""
    return " ".join(f"--set {shlex.quote(f'{path}={_yaml_number(value)}')}" for path, value in values.items())


def file_hashes(problem: Problem) -> dict[str, str]:
    """SHA-256 of the scene's file and of every file that it names; those that are gone are left out."""
    source = problem.description.source
    files = ({source.name: source} if source is not None else {}) | dict(problem.description.files)
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.is_file()}


def command_line(command: list[str]) -> str:
    """A command as it would be typed: the program by its name, what needs it quoted."""
    return shlex.join([Path(command[0]).name, *command[1:]]) if command else ""


def _told(row: Mapping[str, Any]) -> str:
    error = row.get("standard_error")
    known = f" ± {format_number(float(error), 2)}" if error is not None and np.isfinite(error) else ""
    return f"{format_number(row['final'], 6)}{known} {row['unit']}".rstrip()


def _steps_of_set(path: str) -> list[str]:
    """The keys of an experiment's `set` are paths themselves."""
    before, _, place = path.partition(".set.")
    return [*before.split("."), "set", place]


def _set(tree: dict[str, Any], whole: Any, steps: list[str], value: Any) -> None:
    """Puts a value into nested tables; a list on the way is copied whole from the scene, as merging replaces lists."""
    holder: Any = tree
    for step, after in zip(steps, [*steps[1:], ""], strict=True):
        inside = whole.get(step) if isinstance(whole, dict) else whole[int(step)] if isinstance(whole, list) else None
        key: Any = int(step) if isinstance(holder, list) else step
        if after == "":
            holder[key] = value
        elif not isinstance(holder, list) and step not in holder:
            holder[key] = inside if isinstance(inside, list) else {}
        if after:
            holder, whole = holder[key], inside


def _yaml_number(value: Any) -> str:
    return repr(value) if not isinstance(value, list) else f"[{', '.join(map(_yaml_number, value))}]"


def _dumper(yaml: Any) -> Any:
    class Dumper(yaml.SafeDumper):
        """Vectors in one line."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> Any:
            numbers = all(isinstance(item, int | float) for item in sequence)
            return super().represent_sequence(tag, sequence, numbers or flow_style)

    return Dumper
