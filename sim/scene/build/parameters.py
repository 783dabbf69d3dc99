"""What a scene seeks, as `Parameter`s of a `Diagnostic`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.identify.parameters.parameters import Binding, Parameter
from sim.identify.parameters.transforms import make_transform
from sim.model import Model, UnknownPathError
from sim.scene.build.context import BuildContext
from sim.scene.build.model_paths import component_path, region_of
from sim.schema.containers import Union


def make_parameters(context: BuildContext, model: Model) -> list[Parameter]:
    """What is sought.  A parameter with a value for each region becomes one for each, `name.region`."""
    out: list[Parameter] = []
    for name, entry in context.data["parameters"].items():
        path = f"parameters.{name}"
        reached = {place: _model_path(context, model, path, place) for place in entry["of"]}
        paths = {place: found for place, found in reached.items() if found is not None}
        if len(paths) < len(reached) or not _of_one_size(context, model, path, entry, paths):
            continue
        begin = f"{path}.start" if "start" in entry else ""
        if entry["per"] == "region":
            first = next(iter(paths))
            for region in context.by_region[first].names:
                value = context.scene.get(f"{first}.regions.{region}") / entry["of"][first]
                # A `start` stands for all regions at once: nothing in the scene can hold what is found for one.
                bindings = [
                    Binding(found, entry["of"][place], context.by_region[place].within(region),
                            "" if begin else f"{place}.regions.{region}")
                    for place, found in paths.items()
                ]  # fmt: skip
                _add(
                    out,
                    context,
                    path,
                    f"{name}.{region}",
                    entry,
                    np.asarray(entry.get("start", value), float),
                    bindings,
                )
            continue
        bindings = [
            Binding(found, entry["of"][place], _elements(context, place), place) for place, found in paths.items()
        ]
        _add(out, context, path, name, entry, _start(context, model, entry, paths), bindings, begin)
    return out


def _add(
    out: list[Parameter],
    context: BuildContext,
    path: str,
    name: str,
    entry: dict[str, Any],
    start: np.ndarray,
    bindings: list[Binding],
    start_place: str = "",
) -> None:
    """Adds a parameter, unless its start, bounds and transform do not fit each other."""
    own: tuple[str, ...] = ()
    if entry["per"] == "experiment":
        own = tuple(context.data["experiments"])
        start = np.stack([_own_start(context, experiment, entry["of"], start) for experiment in own])
    bounds = tuple(entry.get("bounds", (None, None)))
    try:
        transform = make_transform(entry["transform"], start, bounds, entry.get("scale"))
        transform.check(start, name)
    except ValueError as error:
        context.problem(path, str(error))
        return
    inside = transform.off_the_bounds(start)
    if (inside != start).any():
        side = "lower" if (inside > start).any() else "upper"
        context.warnings.append(
            f"`{name}` starts on its {side} bound; the search begins beside it, at {_shown(inside[inside != start])}: give "
            "a `start` between the bounds"
        )
        start = inside
    out.append(
        Parameter(
            name,
            start,
            bindings,
            transform,
            _unit(context, next(iter(entry["of"]))),
            entry["transform"],
            bounds,
            own,
            entry["per"],
            start_place,
        )
    )


def _shown(values: np.ndarray) -> str:
    return f"{values.flat[0]:.5g}" + (" and so on" if values.size > 1 else "")


def _model_path(context: BuildContext, model: Model, path: str, place: str) -> str | None:
    """The material value of a place in the scene; None, and a problem, where the model has none."""
    found, _ = component_path(context.scene.find(place).steps)
    assert found is not None, "the schema lets nothing vary that the model has no value for"
    try:
        model[found]
    except UnknownPathError as error:
        zero = "a damping of 0 is left out; give it a positive value" if found.endswith(".damping") else ""
        context.problem(path, f"the model has no value for `{place}`", zero or error.hint)
        return None
    return found


def _of_one_size(context: BuildContext, model: Model, path: str, entry: dict[str, Any], paths: dict[str, str]) -> bool:
    """Whether values that are tied element by element have equally many; notes a problem where not."""
    if entry["per"] not in ("element", "point"):
        return True
    sizes = {place: model[found].size for place, found in paths.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"`{place}` {size}" for place, size in sizes.items())
        context.problem(
            path, f"one value for each {entry['per']} of things of different size: {shown}", "make a parameter for each"
        )
        return False
    return True


def _elements(context: BuildContext, place: str) -> np.ndarray | None:
    """The elements that a number of one region is for, or the component of a vector; None where it is for all."""
    steps = context.scene.find(place).steps
    component = component_path(steps)[1]
    if component is not None:
        return np.arange(3)[None] == component
    region = region_of(steps)
    if region is None:
        return None
    return context.by_region[place.removesuffix(f".regions.{region}")].within(region)


def _start(context: BuildContext, model: Model, entry: dict[str, Any], paths: dict[str, str]) -> np.ndarray:
    """Where a parameter starts: as it says, else at the value of the scene; one for each element or point, if it has so
    many."""
    place, path = next(iter(paths.items()))
    start = (
        np.asarray(entry["start"], float)
        if "start" in entry
        else _in_scene(context, model, place, path) / entry["of"][place]
    )
    if entry["per"] in ("element", "point"):
        start = np.broadcast_to(start, model[path].numpy().shape).copy()
    return start


def _in_scene(context: BuildContext, model: Model, place: str, path: str) -> np.ndarray:
    """The value of a scene's number or vector; of a file's and of regions' values those that the model has."""
    value = context.scene.get(place)
    if isinstance(value, dict) and "each" in value:
        value = value["each"]
    return model[path].numpy().astype(float) if isinstance(value, dict) else np.asarray(value, float)


def _own_start(context: BuildContext, experiment: str, of: dict[str, float], otherwise: np.ndarray) -> np.ndarray:
    """Where a parameter starts in an experiment: at the value that this one sets, else where it starts elsewhere."""
    settings = {
        context.scene.find(path).steps: value for path, value in context.data["experiments"][experiment]["set"].items()
    }
    for place, factor in of.items():
        steps = context.scene.find(place).steps
        component = component_path(steps)[1]
        value = settings.get(steps)
        if value is None and component is not None and isinstance(settings.get(steps[:-1]), list):
            value = settings[steps[:-1]][component]
        if isinstance(value, float | list):
            return np.broadcast_to(np.asarray(value, float) / factor, otherwise.shape)
    return otherwise


def _unit(context: BuildContext, place: str) -> str:
    kind: Any = context.scene.line(place).kind
    return (kind.kinds[0] if isinstance(kind, Union) else kind).unit
