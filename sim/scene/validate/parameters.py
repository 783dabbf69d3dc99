"""Checks of `parameters`: the numbers that they reach, how finely, and whether start and bounds fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.identify.parameters.log_cholesky import is_physical
from sim.identify.parameters.transforms import LogCholeskyTransform, LogTransform
from sim.scene.schema.keys.bodies import BODY_MASS, INERTIA
from sim.scene.schema.paths import SceneValue, overlap, paths_below
from sim.scene.validate.checks import existing, parts
from sim.schema.containers import List, Union
from sim.schema.kinds import POSITIVE, Number, Tuple, bounds_words, inside
from sim.schema.reading import Kind, Reading, SchemaLine, Steps
from sim.schema.units import parse_unit

_MAY_VARY = ("parameters are material values, densities, masses, positions, velocities, spins, gravity, motion "
             "vectors, centres and radii")  # fmt: skip

BESIDE_END = 1e-6
"""Of the way from an end that a value may not have to where it starts: as near as a search may come to it."""


@dataclass(frozen=True)
class ParameterTarget:
    """A number (or vector) that a parameter reaches: where it stands, what it is, and the factor to it."""

    place: Steps  # of the path in `of`
    found: SceneValue
    factor: float

    @property
    def path(self) -> str:
        """Its path in the scene."""
        return ".".join(self.found.steps)

    @property
    def kind(self) -> Number | Tuple:
        """Of a material value, which may be many numbers, the kind of one."""
        kind: Kind = self.found.line.kind
        if isinstance(kind, Union):
            plain = (k for k in kind.kinds if isinstance(k, Number | Tuple) and k.fits(self.found.value))
            kind = next(plain, kind.kinds[0])
        if isinstance(kind, List):
            kind = kind.item
        assert isinstance(kind, Number | Tuple)
        return kind

    @property
    def count(self) -> int:
        """How many numbers one value has: 3 of a vector."""
        return self.kind.count if isinstance(self.kind, Tuple) else 1

    def allowed(self, start: np.ndarray) -> tuple[float | None, float | None]:
        """Between which values of the parameter the number is one that a scene may hold; None is open.

        An end that is not allowed itself is left out by a part of how far a `start` (all numbers of it) is from it.
        """
        if not self.kind.bounds:
            return None, None
        text, inner = self.kind.bounds, [float(start.min()), float(start.max())]
        ends = [float(end) / self.factor for end in text[1:-1].split(",")]
        out = [text[0] == "(", text[-1] == ")"]
        if self.factor < 0:
            ends, out = ends[::-1], out[::-1]
        kept = [end + BESIDE_END * (near - end) if left_out and np.isfinite(end) else end
                for end, near, left_out in zip(ends, inner, out, strict=True)]  # fmt: skip
        low, high = (end if np.isfinite(end) else None for end in kept)
        return low, high

    def starts(self) -> list[float]:
        """The numbers that the scene gives, as values of the parameter; none where a file gives them."""
        value = self.found.value
        if isinstance(value, dict):
            value = list(value.get("regions", {}).values())
        return [number / self.factor for number in (value if isinstance(value, list) else [value])]


Targets = dict[str, list[ParameterTarget]]  # parameter -> what it reaches, as far as that could be read


def check_parameters(data: dict[str, Any], root: SchemaLine, reading: Reading) -> Targets:
    """Reads bounds, starts and scales in the unit of what the parameters reach."""
    targets = {steps[1]: _Check(steps, entry, data, root, reading).run() for steps, entry in parts(data, "parameters")}
    _reached_twice(targets, reading)
    _set_by_experiments(targets, data, reading)
    if data.get("optimize", {}).get("starts", 1) > 1:
        for steps, entry in parts(data, "parameters"):
            free = entry.get("transform") == LogCholeskyTransform.name
            if None in entry.get("bounds", [None]) and not free and not reading.is_broken((*steps, "bounds")):
                what = "several starts are drawn within the bounds, and this parameter has not both"
                reading.problem(steps, what, "add `bounds: [low, high]`", key=True)
    return targets


@dataclass(frozen=True)
class _Check:
    """The check of one parameter."""

    steps: Steps
    entry: dict[str, Any]
    data: dict[str, Any]
    root: SchemaLine
    reading: Reading

    def run(self) -> list[ParameterTarget]:
        """What the parameter reaches; notes what is wrong with it."""
        if "of" not in self.entry:
            return []
        wanted = self._wanted()
        if not wanted:
            hint = "name a value of the scene by its path: `of: world.gravity.1`"
            self.reading.problem((*self.steps, "of"), "nothing is named that is sought", hint)
        self.entry["of"] = {path: factor for _, path, factor in wanted}
        found = [self._target(place, path, factor) for place, path, factor in wanted]
        targets = [target for target in found if target is not None]
        if any(isinstance(target.found.line.kind, List) for target in targets):
            self.entry.setdefault("per", "element")
        if targets and self._are_alike(targets):
            self._check_range(targets)
        return targets

    def _wanted(self) -> list[tuple[Steps, str, float]]:
        """Place, path and factor of everything in `of`: one path, a list of them, or path -> factor."""
        of, place = self.entry["of"], (*self.steps, "of")
        if isinstance(of, str):
            return [(place, of, 1.0)]
        if isinstance(of, list):
            return [((*place, str(i)), path, 1.0) for i, path in enumerate(of)]
        return [((*place, path), path, factor) for path, factor in of.items()]

    # ------------------------------------------------------------------------------------------ what `of` names
    def _target(self, place: Steps, path: str, factor: float) -> ParameterTarget | None:
        found = existing(self.root, self.data, path, self.reading, place, _is_key(place), _is_usable)
        if found is None or not self._may_be_parameter(found, place, path):
            return None
        if not self._has_value_for_each(found, place, path):
            return None
        if factor == 0.0:
            self.reading.problem(place, "a factor of zero reaches nothing")
            return None
        return ParameterTarget(place, found, factor)

    def _may_be_parameter(self, found: SceneValue, place: Steps, path: str) -> bool:
        if not found.line.may_vary:
            numbers = [".".join(other.steps) for other in paths_below(found) if _is_usable(other)]
            hint = "name one of: " + ", ".join(f"`{number}`" for number in numbers[:6]) if numbers else _MAY_VARY
            self._problem_at(place, f"`{path}` may not be a parameter", hint)
            return False
        if not _is_usable(found):
            options = found.value if isinstance(found.value, dict) else ()
            hint = "name one of: " + ", ".join(f"`{path}.{option}`" for option in options)
            self._problem_at(place, f"`{path}` is not one number", hint)
            return False
        return True

    def _has_value_for_each(self, found: SceneValue, place: Steps, path: str) -> bool:
        """Whether it has a value for each region, element or point that the parameter has one for (`per`)."""
        per = self.entry.get("per")
        if per is None or self.reading.is_broken((*self.steps, "per")):
            return True
        material_value = isinstance(found.line.kind, Union)
        if isinstance(found.value, dict):
            held = [*(["region"] if "regions" in found.value else []), "element"]
            if per in held or (per == "point" and found.line.per_point):
                return True
            self._problem_at(place, f"`{path}` has a value for each {held[0]}", f"add `per: {held[0]}`")
            return False
        elements = material_value or found.steps[-1] == "each" or isinstance(found.line.kind, List)
        if per == "region":
            chosen_in = ".".join((*found.steps[:2], "regions"))
            hint = "only material values, densities and masses of particles have regions"
            if material_value:
                hint = f"write `{{regions: {{name: value}}}}` there, the regions chosen in `{chosen_in}`"
        elif per == "element" and not elements:
            hint = "material values, densities and masses of particles have elements"
        elif per == "point" and not found.line.per_point:
            hint = "positions and velocities of objects, densities and masses of particles have points"
            hint += "; this one can be `per: element`" if elements else ""
        else:
            return True
        self._problem_at(place, f"`{path}` is one value, with none for each {per}", hint)
        return False

    def _problem_at(self, place: Steps, what: str, hint: str) -> None:
        """A problem with a path in `of`."""
        self.reading.problem(place, what, hint, key=_is_key(place))

    def _are_alike(self, targets: Sequence[ParameterTarget]) -> bool:
        """Whether what one parameter reaches has one dimension, and the same regions."""
        first = targets[0]
        for other in targets[1:]:
            if parse_unit(other.kind.unit)[1] != parse_unit(first.kind.unit)[1] or other.count != first.count:
                what = f"`{other.path}` is {other.kind.words()}, `{first.path}` is {first.kind.words()}"
                self.reading.problem(other.place, what, "one parameter reaches numbers of one dimension")
                return False
            if self.entry.get("per") != "region":
                continue
            if other.found.value["regions"].keys() != first.found.value["regions"].keys():
                what = f"`{other.path}` has other regions than `{first.path}`"
                self.reading.problem(other.place, what, "tied values have a value for each of the same regions")
                return False
        return True

    # ------------------------------------------------------------------------------------------ start and bounds
    def _check_range(self, targets: Sequence[ParameterTarget]) -> None:
        """Reads bounds, start and scale in the unit of the targets, and checks them against each other."""
        unit = targets[0].kind.unit
        low, high = self._read("bounds", Tuple(2, unit, none=True)) or (None, None)
        self._stay_physical(targets, (low, high))
        transformed = self.entry.get("transform", "none") != "none"  # a change of a logarithm has no unit
        self._read("scale", Number("" if transformed else unit, POSITIVE))
        starts, place, origin = self._starts(targets)
        outside = [n for n in starts if (low is not None and n < low) or (high is not None and n > high)]
        if outside:
            shown = ", ".join("null" if end is None else f"{end:g}" for end in (low, high))
            what = f"the bounds [{shown}] exclude the start {outside[0]:g} ({origin})"
            self.reading.problem((*self.steps, "bounds"), what, "widen the bounds, or give another `start`")
        elif low is not None and low == high:
            self.reading.problem((*self.steps, "bounds"), "the bounds are equal: nothing can vary")
        if self._can_transform((low, high), starts, place):
            for target in targets:
                self._check_allowed(target, (low, high), starts, place)

    def _stay_physical(self, targets: Sequence[ParameterTarget], bounds: tuple[float | None, float | None]) -> None:
        """Inertia of a body is sought in `log-cholesky`, its mass in `log` unless it has a low bound."""
        lines, transform = [target.found.lines for target in targets], self.entry.get("transform")
        whole = all(line[-1].kind is INERTIA for line in lines)
        if whole and transform in ("log", "logit"):
            what = f"`{transform}` of an inertia: it could become one that no body has"
            self.reading.problem((*self.steps, "transform"), what, "leave it out, or write `log-cholesky`")
        elif whole:
            self.entry["transform"] = LogCholeskyTransform.name
            if bounds != (None, None):
                what = "bounds of an inertia: it stays physical without them"
                self.reading.problem((*self.steps, "bounds"), what, "leave them out; a `prior` keeps it near a value")
        elif transform == LogCholeskyTransform.name:
            what = f"`{transform}` is for the inertia of a body as a whole"
            self.reading.problem((*self.steps, "transform"), what, "choose `none`, `log` or `logit`")
        elif any(line[-1].kind is BODY_MASS for line in lines) and transform == "none" and bounds[0] is None:
            self.entry["transform"] = LogTransform.name
        for target, line in zip(targets, lines, strict=True):
            if not whole and any(entry.kind is INERTIA for entry in line):
                self._physical_component(target, bounds)

    def _physical_component(self, target: ParameterTarget, bounds: tuple[float | None, float | None]) -> None:
        """The bounds of one component keep the inertia physical, the others being as they are."""
        component = target.found.component
        data: Any = self.data
        for step in target.found.steps[:-1]:
            data = data[step]
        for end in bounds:
            row = np.array(data, float)
            row[component] = np.nan if end is None else end * target.factor
            if not is_physical(row):
                what = f"`{target.path}` alone may become what no body has"
                inertia = ".".join(target.found.steps[:-1])
                hint = f"seek `{inertia}` as a whole, or give `bounds` within which a body has it"
                self.reading.problem(target.place, what, hint, key=_is_key(target.place))
                return

    def _read(self, key: str, kind: Kind) -> Any:
        return self.reading.read_deferred(self.steps, self.entry, key, kind)

    def _starts(self, targets: Sequence[ParameterTarget]) -> tuple[list[float], Steps, str]:
        """Where the parameter starts, the place that says so, and its name."""
        first = targets[0]
        if "start" in self.entry:
            start = self._read(
                "start", Tuple(first.count, first.kind.unit) if first.count > 1 else Number(first.kind.unit)
            )
            numbers = [] if start is None else start if isinstance(start, list) else [start]
            return numbers, (*self.steps, "start"), "`start`"
        starts = first.starts()
        for other in targets[1:]:
            theirs = other.starts()
            if len(theirs) != len(starts) or not all(map(_is_close, theirs, starts)):
                what = "the tied values differ in the scene, so the start is not clear"
                self.reading.problem(other.place, what, f"give `start` in `{'.'.join(self.steps)}`, or make them equal")
        return starts, first.place, "the value in the scene"

    def _can_transform(self, bounds: tuple[float | None, float | None], starts: list[float], place: Steps) -> bool:
        """Whether the transform is defined for bounds and starts; notes what is not."""
        transform, at_bounds = self.entry.get("transform"), (*self.steps, "bounds")
        if transform == "logit":
            if None in bounds and not self.reading.is_broken(at_bounds):
                what = "`logit` needs a low and a high bound"
                self.reading.problem((*self.steps, "transform"), what, "add `bounds: [low, high]`")
                return False
            if any(number in bounds for number in starts):
                self.reading.problem(place, "`logit` needs a start between the bounds, and it is one of them")
                return False
        if transform == "log":
            if any(end is not None and end <= 0 for end in bounds):
                hint = "raise the low bound, or `transform: none`"
                self.reading.problem(at_bounds, "the logarithm needs positive bounds", hint)
                return False
            if any(number <= 0 for number in starts):
                what = f"the logarithm needs a positive start, and it is {min(starts):g}"
                self.reading.problem(place, what, "give a positive value, or `transform: none`")
                return False
        return True

    def _check_allowed(
        self, target: ParameterTarget, bounds: tuple[float | None, float | None], starts: list[float], place: Steps
    ) -> None:
        """Start and bounds lie where the schema allows the number to be."""
        path, allowed = target.path, target.kind.bounds
        if any(not inside(number * target.factor, allowed) for number in starts):
            what = f"the start is not allowed for `{path}`: it must be {bounds_words(allowed)}"
            self.reading.problem(place, what)
        # Bounds may stand on an end of the interval that is not allowed itself: the optimiser stays between them.
        ends = [end * target.factor for end in bounds if end is not None]
        if any(not inside(end, f"[{allowed[1:-1]}]" if allowed else "") for end in ends):
            what = f"the bounds reach beyond {allowed}, which is allowed for `{path}`"
            self.reading.problem((*self.steps, "bounds"), what)


def _is_key(place: Steps) -> bool:
    """Whether a path in `of` stands there as the key of a mapping."""
    return len(place) == 4 and not place[3].isdigit()


def _is_usable(value: SceneValue) -> bool:
    """Whether a parameter may reach it: it is there, may vary, and is a number or one for each element."""
    of_elements = isinstance(value.value, dict) and bool({"file", "regions"} & value.value.keys())
    return value.line.may_vary and value.present and (of_elements or isinstance(value.value, float | list))


def _is_close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9)


def _reached_twice(targets: Targets, reading: Reading) -> None:
    """A number follows one parameter."""
    reached: list[tuple[str, ParameterTarget]] = []
    for name, own in targets.items():
        for target in own:
            for other_name, other in reached:
                if overlap(target.found.steps, other.found.steps):
                    who = "twice" if other_name == name else f"by the parameter `{other_name}` as well"
                    reading.problem(target.place, f"`{target.path}` is reached {who}", "let one parameter reach it")
                    break
            reached.append((name, target))


def _set_by_experiments(targets: Targets, data: dict[str, Any], reading: Reading) -> None:
    """An experiment sets a parameter's number where each experiment has its own, and then it is the start."""
    for steps, entry in parts(data, "experiments"):
        for path in entry.get("set", {}):
            for name, own in targets.items():
                if data["parameters"][name].get("per") == "experiment":
                    continue
                for _ in (target for target in own if overlap(tuple(path.split(".")), target.found.steps)):
                    what = f"`{path}` is sought by the parameter `{name}`"
                    hint = "give the parameter `per: experiment`, or do not set it here"
                    reading.problem((*steps, "set", path), what, hint, key=True)
