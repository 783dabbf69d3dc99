"""Checks of what is sought: parameters and the numbers they reach, the terms of the loss, the expectations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sim.identify.data.measures import MEASURE_SPECS
from sim.identify.losses.terms import TERMS
from sim.identify.losses.terms.base import Draft
from sim.scene.schema.paths import NoSuchPath, SceneValue, find, overlap, path_hint, paths_below
from sim.scene.validate.checks import parts
from sim.schema.containers import Union
from sim.schema.errors import word_hint
from sim.schema.kinds import Number, Tuple, bounds_words, inside
from sim.schema.reading import BROKEN, Kind, Reading, SchemaLine, Steps
from sim.schema.units import parse_unit

_MAY_VARY = ("parameters are material values, densities, masses, positions, velocities, spins, gravity, motion "
             "vectors, centres and radii")  # fmt: skip


@dataclass(frozen=True)
class ParameterTarget:
    """A number (or vector) that a parameter reaches: where it stands, what it is, and the factor to it."""

    place: Steps  # of the path in `of`
    found: SceneValue
    factor: float

    @property
    def kind(self) -> Number | Tuple:
        kind: Kind = self.found.line.kind
        if isinstance(kind, Union):
            kind = kind.kinds[0]
        assert isinstance(kind, Number | Tuple)
        return kind

    def starts(self) -> list[float]:
        """The numbers that the scene gives, as values of the parameter; none where a file gives them."""
        value = self.found.value
        if isinstance(value, dict):
            value = list(value.get("regions", {}).values())
        return [number / self.factor for number in (value if isinstance(value, list) else [value])]


def check_parameters(data: dict[str, Any], root: SchemaLine, reading: Reading) -> None:
    """Parameters, loss, optimiser and expectations; reads the values whose unit a parameter or a result decides."""
    targets = {}
    for steps, entry in parts(data, "parameters"):
        targets[steps[1]] = _parameter(steps, entry, data, root, reading)
    _reached_twice(targets, data, reading)
    for i, term in enumerate(data.get("loss", [])):
        _term(("loss", str(i)), term, data, targets, reading)
    if reading.names.get("parameters") and data.get("loss") == [] and "loss" not in reading.broken:
        reading.problem(("parameters",), "nothing says what the parameters should achieve", "add a `loss`", key=True)
    if data.get("optimize", {}).get("starts", 1) > 1:
        for steps, entry in parts(data, "parameters"):
            if None in entry.get("bounds", [None]) and not reading.is_broken((*steps, "bounds")):
                reading.problem(
                    steps,
                    "several starts are drawn within the bounds, and this parameter has not both",
                    "add `bounds: [low, high]`",
                    key=True,
                )
    for path in list(data.get("expect", {})):
        _expectation(path, data, targets, reading)


def _parameter(
    steps: Steps, entry: dict[str, Any], data: dict[str, Any], root: SchemaLine, reading: Reading
) -> list[ParameterTarget]:
    of, place = entry.get("of"), (*steps, "of")
    if of is None:
        return []
    if isinstance(of, str):
        wanted = [(place, of, 1.0)]
    elif isinstance(of, list):
        wanted = [((*place, str(i)), path, 1.0) for i, path in enumerate(of)]
    else:
        wanted = [((*place, path), path, factor) for path, factor in of.items()]
    entry["of"] = {path: factor for _, path, factor in wanted}
    found = [_target(where, path, factor, entry, data, root, reading) for where, path, factor in wanted]
    targets = [target for target in found if target is not None]
    if not targets:
        return []
    first = targets[0]
    for other in targets[1:]:
        if parse_unit(other.kind.unit)[1] != parse_unit(first.kind.unit)[1] or _count(other) != _count(first):
            reading.problem(
                other.place,
                f"`{'.'.join(other.found.steps)}` is {other.kind.words()}, "
                f"`{'.'.join(first.found.steps)}` is {first.kind.words()}",
                "one parameter reaches numbers of one dimension",
            )
            return targets
        if entry.get("per") == "region" and other.found.value["regions"].keys() != first.found.value["regions"].keys():
            reading.problem(
                other.place,
                f"`{'.'.join(other.found.steps)}` has other regions than `{'.'.join(first.found.steps)}`",
                "tied values have a value for each of the same regions",
            )
            return targets
    _range(steps, entry, targets, reading)
    return targets


def _count(target: ParameterTarget) -> int:
    return target.kind.count if isinstance(target.kind, Tuple) else 1


def _target(
    place: Steps,
    path: str,
    factor: float,
    entry: dict[str, Any],
    data: dict[str, Any],
    root: SchemaLine,
    reading: Reading,
) -> ParameterTarget | None:
    def usable(other: SceneValue) -> bool:
        numeric = isinstance(other.value, float | list) or _of_elements(other.value)
        return other.line.may_vary and other.present and numeric

    by_key = len(place) == 4 and not place[3].isdigit()
    try:
        found = find(root, data, path)
    except NoSuchPath as error:
        if not reading.is_broken(error.steps):
            hint = path_hint(root, data, path, usable)
            reading.problem(place, f"`{path}` does not exist in this scene", hint, key=by_key)
        return None
    if not found.present:
        if not reading.is_broken(found.steps):
            hint = path_hint(root, data, path, usable)
            reading.problem(place, f"`{path}` does not exist in this scene", hint, key=by_key)
        return None
    if not found.line.may_vary:
        numbers = [".".join(other.steps) for other in paths_below(found) if usable(other)]
        hint = "name one of: " + ", ".join(f"`{number}`" for number in numbers[:6]) if numbers else _MAY_VARY
        reading.problem(place, f"`{path}` may not be a parameter", hint, key=by_key)
        return None
    if not usable(found):
        options = found.value if isinstance(found.value, dict) else ()
        hint = "name one of: " + ", ".join(f"`{path}.{option}`" for option in options)
        reading.problem(place, f"`{path}` is not one number", hint, key=by_key)
        return None
    if not _has_such_values(found, place, path, entry, reading, by_key):
        return None
    if factor == 0.0:
        reading.problem(place, "a factor of zero reaches nothing")
        return None
    return ParameterTarget(place, found, factor)


def _has_such_values(
    found: SceneValue, place: Steps, path: str, entry: dict[str, Any], reading: Reading, by_key: bool
) -> bool:
    """Whether what a parameter reaches has a value for each of what it has a value for; notes a problem where not."""
    per = entry.get("per")
    if per is None or reading.is_broken((*place[:2], "per")):
        return True
    if isinstance(found.value, dict):
        needed = ("region", "element") if "regions" in found.value else ("element",)
        if found.line.per_point:
            needed = (*needed, "point")
        if per not in needed:
            reading.problem(place, f"`{path}` has a value for each {needed[0]}", f"add `per: {needed[0]}`", key=by_key)
        return per in needed
    if per == "region":
        reading.problem(
            place,
            f"`{path}` is one value, with none for each region",
            (
                "write `{regions: {name: value}}` there, the regions chosen in"
                f" `{'.'.join(found.steps[:2])}.regions`"
                if isinstance(found.line.kind, Union)
                else "only material values, densities and masses of particles have regions"
            ),
            key=by_key,
        )
        return False
    elements = isinstance(found.line.kind, Union) or found.steps[-1] == "each"
    if per == "element" and not elements:
        reading.problem(
            place,
            f"`{path}` is one value, with none for each element",
            "material values, densities and masses of particles have elements",
            key=by_key,
        )
        return False
    if per == "point" and not found.line.per_point:
        reading.problem(
            place,
            f"`{path}` is one value, with none for each point",
            "positions and velocities of objects, densities and masses of particles have points"
            + ("; this one can be `per: element`" if elements else ""),
            key=by_key,
        )
        return False
    return True


def _of_elements(value: Any) -> bool:
    return isinstance(value, dict) and bool({"file", "regions"} & value.keys())


def _range(steps: Steps, entry: dict[str, Any], targets: list[ParameterTarget], reading: Reading) -> None:
    """Reads bounds, start and scale in the unit of the targets, and checks them against each other."""
    unit, count = targets[0].kind.unit, _count(targets[0])
    bounds = _later(steps, "bounds", entry, Tuple(2, unit, none=True), reading)
    plain = entry.get("transform", "none") != "none"  # a change of a logarithm has no unit
    _later(steps, "scale", entry, Number("" if plain else unit, "(0, inf)"), reading)
    if "start" in entry:
        start = _later(steps, "start", entry, Tuple(count, unit) if count > 1 else Number(unit), reading)
        starts = [] if start is None else start if isinstance(start, list) else [start]
        place, origin = (*steps, "start"), "`start`"
    else:
        starts, place, origin = targets[0].starts(), targets[0].place, "the value in the scene"
        for other in targets[1:]:
            theirs = other.starts()
            if len(theirs) != len(starts) or not all(map(_close, theirs, starts)):
                reading.problem(
                    other.place,
                    "the tied values differ in the scene, so the start is not clear",
                    f"give `start` in `{'.'.join(steps)}`, or make them equal",
                )
    low, high = bounds or (None, None)
    outside = [n for n in starts if (low is not None and n < low) or (high is not None and n > high)]
    if outside:
        shown = ", ".join("null" if end is None else f"{end:g}" for end in (low, high))
        reading.problem(
            (*steps, "bounds"),
            f"the bounds [{shown}] exclude the start {outside[0]:g} ({origin})",
            "widen the bounds, or give another `start`",
        )
    elif low is not None and low == high:
        reading.problem((*steps, "bounds"), "the bounds are equal: nothing can vary")
    if not _transform(steps, entry.get("transform"), (low, high), starts, place, reading):
        return
    for target in targets:
        path, allowed = ".".join(target.found.steps), target.kind.bounds
        if any(not inside(number * target.factor, allowed) for number in starts):
            reading.problem(place, f"the start is not allowed for `{path}`: it must be {bounds_words(allowed)}")
        # Bounds may stand on an end of the interval that is not allowed itself: the optimiser stays between them.
        ends = [end * target.factor for end in (low, high) if end is not None]
        if any(not inside(end, f"[{allowed[1:-1]}]" if allowed else "") for end in ends):
            reading.problem((*steps, "bounds"), f"the bounds reach beyond {allowed}, which is allowed for `{path}`")


def _transform(
    steps: Steps,
    transform: str | None,
    bounds: tuple[float | None, float | None],
    starts: list[float],
    place: Steps,
    reading: Reading,
) -> bool:
    """Whether the transform is defined for bounds and starts; notes what is not."""
    if transform == "logit":
        if None in bounds and not reading.is_broken((*steps, "bounds")):
            reading.problem((*steps, "transform"), "`logit` needs a low and a high bound", "add `bounds: [low, high]`")
            return False
        if any(number in bounds for number in starts):
            reading.problem(place, "`logit` needs a start between the bounds, and it is one of them")
            return False
    if transform == "log":
        if any(end is not None and end <= 0 for end in bounds):
            reading.problem(
                (*steps, "bounds"), "the logarithm needs positive bounds", "raise the low bound, or `transform: none`"
            )
            return False
        if any(number <= 0 for number in starts):
            reading.problem(
                place,
                f"the logarithm needs a positive start, and it is {min(starts):g}",
                "give a positive value, or `transform: none`",
            )
            return False
    return True


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9)


def _later(steps: Steps, key: str, entry: dict[str, Any], kind: Kind, reading: Reading) -> Any:
    """Reads a value that waited for its unit; None where it is not given or broken."""
    place = (*steps, key)
    if key not in entry or place not in reading.later:
        return None
    value = kind.read(reading.later[place], place, reading)
    if value is BROKEN:
        del entry[key]
        return None
    entry[key] = value
    return value


def _reached_twice(targets: dict[str, list[ParameterTarget]], data: dict[str, Any], reading: Reading) -> None:
    reached: list[tuple[str, ParameterTarget]] = []
    for name, own in targets.items():
        for target in own:
            for other_name, other in reached:
                if overlap(target.found.steps, other.found.steps):
                    who = "twice" if other_name == name else f"by the parameter `{other_name}` as well"
                    reading.problem(
                        target.place, f"`{'.'.join(target.found.steps)}` is reached {who}", "let one parameter reach it"
                    )
                    break
            reached.append((name, target))
    for steps, entry in parts(data, "experiments"):
        for path in entry.get("set", {}):
            for name, target in reached:
                own_values = data["parameters"][name].get("per") == "experiment"
                if not own_values and overlap(tuple(path.split(".")), target.found.steps):
                    reading.problem(
                        (*steps, "set", path),
                        f"`{path}` is sought by the parameter `{name}`",
                        "give the parameter `per: experiment`, or do not set it here",
                        key=True,
                    )


def _term(
    steps: Steps,
    term: dict[str, Any],
    data: dict[str, Any],
    targets: dict[str, list[ParameterTarget]],
    reading: Reading,
) -> None:
    units = {name: own[0].kind.unit for name, own in targets.items() if own}
    draft = Draft(steps, term, data, units, reading, lambda key, kind: _later(steps, key, term, kind, reading))
    for key in TERMS.keys() & term.keys():
        TERMS[key].check(draft)


def _results(data: dict[str, Any], targets: dict[str, list[ParameterTarget]]) -> dict[str, tuple[str, int]]:
    """Paths in result.json that can be expected -> unit and count of numbers."""
    plain = ("loss.initial", "loss.final", "loss.best_iteration", "iterations", "peak_memory_mb")
    results = {**{path: ("", 1) for path in plain}, "wall_s": ("s", 1)}
    for name, entry in data.get("parameters", {}).items():
        own = targets.get(name)
        of = (own[0].kind.unit, _count(own[0])) if own else ("", 1)
        names = (
            [f"{name}.{region}" for region in own[0].found.value["regions"]]
            if own and entry.get("per") == "region"
            else [name]
        )
        results |= {f"parameters.{one}{part}": of for one in names for part in ("", ".start", ".final")}
    for name in data.get("experiments", {}):
        results[f"experiments.{name}.loss"] = ("", 1)
        for measure, entry in data.get("measures", {}).items():
            unit = MEASURE_SPECS[entry["kind"]].unit if "kind" in entry else ""
            path = f"experiments.{name}.{measure}"
            results |= {f"{path}{part}": (unit, 1) for part in ("", ".simulated", ".measured")}
            results[f"{path}.error"] = ("", 1)
    return results


def _expectation(path: str, data: dict[str, Any], targets: dict[str, list[ParameterTarget]], reading: Reading) -> None:
    steps, entry = ("expect", path), data["expect"][path]
    results = _results(data, targets)
    words = path.split(".")
    if path not in results and words[:2] != ["loss", "terms"]:
        if not reading.is_broken(tuple(words[:2])) and not reading.is_broken(("measures", words[-1])):
            shown = [known for known in results if not known.endswith((".start", ".final", ".simulated", ".measured"))]
            hint = word_hint(path, results) or word_hint(path, shown)
            reading.problem(steps, f"`{path}` is not a number in the result", hint, key=True)
        return
    unit, count = results.get(path, ("", 1))
    number: Kind = Number(unit)
    value = _later(steps, "value", entry, Tuple(count, unit) if count > 1 else number, reading)
    if value in (0.0, 0):
        reading.problem((*steps, "value"), "a relative tolerance of zero allows nothing", "use `between`")
    between = _later(steps, "between", entry, Tuple(2, unit), reading)
    if between and between[0] >= between[1]:
        reading.problem((*steps, "between"), f"{between[0]:g} is not below {between[1]:g}", "write [low, high]")
    for key in ("below", "above"):
        _later(steps, key, entry, number, reading)
    if "measured" in entry:
        measure = len(words) == 3 and words[0] == "experiments" and words[2] in data.get("measures", {})
        if not measure:
            reading.problem(
                (*steps, "measured"),
                f"`{path}` has no measured counterpart",
                "`measured` is for `experiments.<name>.<measure>`",
                key=True,
            )
        elif "target" not in data["experiments"][words[1]] and not reading.is_broken((*words[:2], "target")):
            reading.problem(
                (*steps, "measured"),
                f"experiment `{words[1]}` has no recording to measure",
                f"give `experiments.{words[1]}.target`",
                key=True,
            )
