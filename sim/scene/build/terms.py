"""The terms of a scene's loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.geometry import neighbours
from sim.identify.data.experiments import Experiment, Markers
from sim.identify.losses.custom import Custom, CustomLossError
from sim.identify.losses.losses import Match, Reach, Slow, Term, chosen_frames
from sim.identify.losses.penalties import Prior, Smooth
from sim.identify.parameters.parameters import Parameter
from sim.model import Model
from sim.scene.build.context import BuildContext
from sim.scene.build.model_paths import model_path

KINDS = ("match", "reach", "slow", "prior", "smooth", "custom")


def make_terms(
    made: BuildContext,
    model: Model | None,
    markers: dict[str, Markers],
    experiments: list[Experiment],
    sought: Sequence[Parameter],
) -> list[Term]:
    """The terms of the loss; without a model (it could not be built) those that need it are left out."""
    out: list[Term] = []
    uses: dict[str, int] = {}
    for i, entry in enumerate(made.data["loss"]):
        path = f"loss.{i}"
        kind = next(kind for kind in KINDS if kind in entry)
        about = entry[kind]["marker"] if kind in ("reach", "slow") else entry[kind]
        name = f"{kind}_{about.rpartition(':')[2]}"
        uses[name] = uses.get(name, 0) + 1
        name = name if uses[name] == 1 else f"{name}_{uses[name]}"
        common: dict[str, Any] = {"name": name, "weight": entry["weight"]}
        if kind in ("prior", "smooth"):
            own = [p for p in sought if p.name == about or p.name.startswith(f"{about}.")]
            out += _priors(common, entry, own) if kind == "prior" else _smooth(made, path, common, entry, own)
            continue
        if "experiments" in entry:
            common["experiments"] = tuple(entry["experiments"])
        if kind == "custom":
            out += _custom(made, path, common, entry, model, markers, experiments)
            continue
        if about not in markers:
            continue
        if kind == "reach":
            goal = entry["reach"]
            out.append(Reach(**common, markers=about, point=tuple(goal["point"]), at=goal["at"], scale=goal["scale"]))
            continue
        if kind == "slow":
            goal = entry["slow"]
            out.append(Slow(**common, markers=about, at=goal["at"], scale=goal["scale"]))
            continue
        huber = math.inf if entry["norm"] == "square" else entry["norm"]["huber"]
        at = entry["at"] if isinstance(entry["at"], str) else tuple(entry["at"])
        term = Match(**common, markers=about, compare=entry["compare"], at=at, huber=huber)
        _check_match(made, path, term, experiments)
        out.append(term)
    return out


def _priors(common: dict[str, Any], entry: dict[str, Any], own: Sequence[Parameter]) -> list[Term]:
    """One for the parameter; one for each region of it, which share the weight."""
    return [
        Prior(
            name=common["name"] + p.name.removeprefix(entry["prior"]),
            weight=common["weight"] / len(own),
            parameter=p.name,
            value=entry["value"],
            factor=entry.get("factor"),
            sd=entry.get("sd"),
        )
        for p in own
    ]


def _smooth(
    made: BuildContext, path: str, common: dict[str, Any], entry: dict[str, Any], own: Sequence[Parameter]
) -> list[Term]:
    if not own:
        return []
    sought = made.data["parameters"][entry["smooth"]]
    regions = [p.name.partition(".")[2] for p in own] if sought["per"] == "region" else None
    pairs = np.unique(np.concatenate([_neighbours(made, place, regions) for place in sought["of"]]), axis=0)
    if not len(pairs):
        made.problem(
            f"{path}.smooth",
            f"nothing that `{entry['smooth']}` reaches has a neighbour",
            "leave the term out, or use a `prior`",
        )
        return []
    return [Smooth(**common, transforms={p.name: p.transform for p in own}, pairs=pairs, sd=entry["sd"])]


def _neighbours(made: BuildContext, place: str, regions: Sequence[str] | None) -> np.ndarray:
    """Pairs (m, 2) of neighbouring elements of what stands at a place in the scene: their numbers, or those of their
    `regions`."""
    label, _, key = str(model_path(made.scene.find(place).steps)).partition(".")
    group = made.groups[label]
    elements = group.elements[key.rpartition(".")[0]] if "." in key else group.points[:, None]
    pairs = neighbours(elements, group.edges)
    if regions is not None:
        found = made.by_region[place]
        of = np.array([regions.index(name) for name in found.names])[found.source[pairs]]
        pairs = np.unique(np.sort(of[of[:, 0] != of[:, 1]], axis=1), axis=0)
    return pairs


def _custom(
    made: BuildContext,
    path: str,
    common: dict[str, Any],
    entry: dict[str, Any],
    model: Model | None,
    markers: dict[str, Markers],
    experiments: list[Experiment],
) -> list[Term]:
    """A loss of the user's own, tried once for every experiment that it counts."""
    source = entry["custom"]
    module, _, function = source.partition(":")
    term = Custom(**common, function=getattr(made.scene.modules[module], function), source=source)
    if "gauss_newton" in made.data["optimize"]:
        made.problem(
            "optimize.gauss_newton",
            f"Gauss-Newton needs residuals, and `{source}` (in `{path}`) has none",
            "use `lbfgs` or `adam`",
        )
        return []
    for experiment in experiments:
        if model is None or not model.requires_grad or not term.counts(experiment):
            continue
        try:
            term.check(model, markers, experiment)
        except CustomLossError as error:
            made.problem(f"{path}.custom", error.what, error.hint)
            return []
    return [term]


def _check_match(made: BuildContext, path: str, term: Match, experiments: list[Experiment]) -> None:
    """What is only known once recordings are read."""
    for experiment in experiments:
        if not term.counts(experiment):
            continue
        if term.markers not in experiment.targets:
            if experiment.targets:
                made.problem(
                    path,
                    f"the recording of `{experiment.name}` has no markers `{term.markers}`",
                    f"name their columns in `experiments.{experiment.name}.target.markers`",
                )
            continue
        try:
            frames = chosen_frames(experiment.schedule, term.at)
        except ValueError as error:
            made.problem(f"{path}.at", str(error), "widen the span")
            continue
        if not experiment.targets[term.markers].seen[frames].any():
            made.problem(
                path, f"no marker of `{term.markers}` is seen in the frames that count", "let other frames count"
            )
