"""What a scene identifies, as `Parameter`s of a `Problem`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.identify.parameters.parameters import Binding, Parameter
from sim.identify.parameters.transforms import LogCholeskyTransform, LogTransform, make_transform
from sim.model import Model, UnknownPathError
from sim.scene.build.context import BuildContext
from sim.scene.schema.paths import SceneValue
from sim.scene.validate.parameters import ParameterTarget

Entry = Mapping[str, Any]  # one of `parameters`
Values = Mapping[str, SceneValue]  # what its paths lead to


def make_parameters(context: BuildContext, model: Model) -> list[Parameter]:
    """The parameters.  One with a value for each region becomes one for each, `name.region`."""
    made: list[Parameter | None] = []
    for name, entry in context.data["parameters"].items():
        values = context.parameter_values[name]
        # Every value is looked at, so that all problems are noted.
        if not all([_is_in_model(context, model, name, value) for value in values.values()]):
            continue
        if not _of_one_size(context, model, name, entry, values):
            continue
        if entry["per"] == "region":
            regions = context.by_region[next(iter(values))].names
            made += [_of_region(context, name, entry, values, region) for region in regions]
        else:
            made.append(_of_all(context, model, name, entry, values))
    return [parameter for parameter in made if parameter is not None]


def _of_region(context: BuildContext, name: str, entry: Entry, values: Values, region: str) -> Parameter | None:
    # A `start` stands for all regions at once: nothing in the scene can hold what is found for one.
    bindings = [
        Binding(
            str(value.model_path),
            entry["of"][path],
            context.by_region[path].within(region),
            "" if "start" in entry else f"{path}.regions.{region}",
        )
        for path, value in values.items()
    ]
    path, value = next(iter(values.items()))
    start = entry.get("start", value.value["regions"][region] / entry["of"][path])
    return _checked(context, name, f"{name}.{region}", np.asarray(start, float), bindings)


def _of_all(context: BuildContext, model: Model, name: str, entry: Entry, values: Values) -> Parameter | None:
    bindings = [
        Binding(str(value.model_path), entry["of"][path], _elements(context, model, path, value), path)
        for path, value in values.items()
    ]
    start_place = f"parameters.{name}.start" if "start" in entry else ""
    return _checked(context, name, name, _start(model, entry, values), bindings, start_place)


def _checked(
    context: BuildContext,
    entry_name: str,
    name: str,
    start: np.ndarray,
    bindings: list[Binding],
    start_place: str = "",
) -> Parameter | None:
    """A parameter of an entry; None, and a problem, where its start, bounds and transform do not fit each other."""
    entry, values = context.data["parameters"][entry_name], context.parameter_values[entry_name]
    experiments: tuple[str, ...] = ()
    if entry["per"] == "experiment":
        experiments = tuple(context.data["experiments"])
        start = np.stack([_own_start(context, experiment, entry, values, start) for experiment in experiments])
    bounds = tuple(entry.get("bounds", (None, None)))
    try:
        asked = make_transform(entry["transform"], start, bounds, entry.get("scale"))
        asked.check(start, name)
    except ValueError as error:
        context.problem(f"parameters.{entry_name}", str(error))
        return None
    transform = make_transform(asked.name, start, _within(bounds, entry, values, start), asked.scale)
    inside = asked.off_the_bounds(start)  # what may not be else, as a friction of 0, can begin there
    if (inside != start).any():
        side = "lower" if (inside > start).any() else "upper"
        moved = inside[inside != start]
        context.warnings.append(
            f"`{name}` starts on its {side} bound; the search begins beside it, at {moved[0]:.5g}"
            f"{' and so on' if moved.size > 1 else ''}: give a `start` between the bounds"
        )
    return Parameter(
        name,
        inside,
        bindings,
        transform,
        next(iter(values.values())).line.unit,
        bounds,
        experiments,
        entry["per"],
        start_place,
    )


def _within(bounds: tuple[Any, Any], entry: Entry, values: Values, start: np.ndarray) -> tuple[Any, Any]:
    """Bounds with their open ends where numbers end that a scene may hold: no search shall find a stiffness below 0."""
    if entry["transform"] == LogCholeskyTransform.name:
        return bounds
    ranges = [ParameterTarget((), value, entry["of"][path]).allowed(start) for path, value in values.items()]
    lows, highs = ([end for end in ends if end is not None] for ends in zip(*ranges, strict=True))
    low, high = max(lows, default=None), min(highs, default=None)
    if entry["transform"] == LogTransform.name and low is not None and low <= 0:
        low = None  # a logarithm does not come that far
    return (low if bounds[0] is None else bounds[0], high if bounds[1] is None else bounds[1])


def _is_in_model(context: BuildContext, model: Model, name: str, value: SceneValue) -> bool:
    """Whether the model has the material value that a parameter reaches; notes a problem where not."""
    path = value.model_path
    assert path is not None, "the schema lets nothing vary that the model has no value for"
    try:
        model[path]
    except UnknownPathError as error:
        zero = "a damping of 0 is left out; give it a positive value" if path.endswith(".damping") else ""
        if zero and value.steps[0] == "joints":
            zero = "it damps what gives way: the joint needs a compliance"
        place = ".".join(value.steps)
        context.problem(f"parameters.{name}", f"the model has no value for `{place}`", zero or error.hint)
        return False
    return True


def _of_one_size(context: BuildContext, model: Model, name: str, entry: Entry, values: Values) -> bool:
    """Whether values that are tied element by element have equally many; notes a problem where not."""
    if entry["per"] not in ("element", "point"):
        return True
    sizes = {path: model[str(value.model_path)].size for path, value in values.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"`{path}` {size}" for path, size in sizes.items())
        what = f"one value for each {entry['per']} of things of different size: {shown}"
        context.problem(f"parameters.{name}", what, "make a parameter for each")
        return False
    return True


def _elements(context: BuildContext, model: Model, path: str, value: SceneValue) -> np.ndarray | None:
    """The elements that a number of one region is for, the component of a vector or entry of a list; None where it is
    for all."""
    if value.component is not None:
        shape = model[str(value.model_path)].numpy().shape
        found: np.ndarray = np.broadcast_to(np.arange(shape[-1]) == value.component, shape)
        return found
    if value.region is not None:
        return context.by_region[path.removesuffix(f".regions.{value.region}")].within(value.region)
    return None


def _start(model: Model, entry: Entry, values: Values) -> np.ndarray:
    """Where a parameter starts: as it says, else as in the scene; one for each element or point, if it has so many."""
    path, value = next(iter(values.items()))
    in_model = model[str(value.model_path)].numpy()
    start = np.asarray(entry["start"], float) if "start" in entry else _in_scene(value, in_model) / entry["of"][path]
    return np.broadcast_to(start, in_model.shape).copy() if entry["per"] in ("element", "point") else start


def _in_scene(value: SceneValue, in_model: np.ndarray) -> np.ndarray:
    """The value of a scene's number or vector; of a file's and of regions' values those that the model has."""
    data = value.value
    if isinstance(data, dict) and "each" in data:
        data = data["each"]
    return in_model.astype(float) if isinstance(data, dict) else np.asarray(data, float)


def _own_start(
    context: BuildContext, experiment: str, entry: Entry, values: Values, otherwise: np.ndarray
) -> np.ndarray:
    """Where a parameter starts in an experiment: at the value that this one sets, else where it starts elsewhere."""
    settings = context.data["experiments"][experiment]["set"]
    own = {value.steps: settings[path] for path, value in context.set_values[experiment].items()}
    for path, value in values.items():
        number = own.get(value.steps)
        if number is None and value.component is not None and isinstance(own.get(value.steps[:-1]), list):
            number = own[value.steps[:-1]][value.component]
        if isinstance(number, float | list):
            return np.broadcast_to(np.asarray(number, float) / entry["of"][path], otherwise.shape)
    return otherwise
