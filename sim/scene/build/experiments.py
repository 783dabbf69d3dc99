"""Markers, experiments and method of a scene, as the pieces of a `Diagnostic`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.geometry import GeometryError, embed, embed_in_triangles, farthest_points
from sim.identify.data.expectations import Expectation
from sim.identify.data.experiments import Experiment, Markers, Schedule, Target
from sim.identify.data.measures import Measure
from sim.identify.losses.losses import Term
from sim.identify.search.horizon import Horizon
from sim.identify.search.loop import Stop
from sim.identify.search.method import ITERATIONS, Method
from sim.io import Recording, load_recording
from sim.model import Group, Model
from sim.rollout import Checkpointed, StoreAll
from sim.scene.build.context import BuildContext
from sim.scene.build.model_paths import component_path

WHOLE = 1e-6
"""A duration may miss a whole number of frames by this part of a frame."""

MOST_FRAMES = 1_000_000
"""Frames are kept, and those of a longer experiment would not fit into memory."""


def make_schedule(context: BuildContext, time: dict[str, Any], path: str) -> Schedule:
    """The time steps of an experiment."""
    frames = time["duration"] * time["fps"]
    whole = math.floor(frames + WHOLE)
    if whole < 1:
        context.problem(
            path,
            f"{time['duration']:g} s are less than one frame at {time['fps']:g} Hz",
            "raise `time.duration` or `time.fps`",
        )
    if whole > MOST_FRAMES:
        context.problem(
            path,
            f"{time['duration']:g} s at {time['fps']:g} Hz are {whole:,} frames, more than {MOST_FRAMES:,}",
            "lower `time.duration` or `time.fps`; `time.substeps` sets the length of a step",
        )
        whole = 1
    elif frames - whole > WHOLE and whole:
        context.warnings.append(
            f"{path}: {time['duration']:g} s are {frames:.6g} frames at {time['fps']:g} Hz; the last whole one, at "
            f"{whole / time['fps']:.6g} s, is the end"
        )
    return Schedule(max(whole, 1), float(time["fps"]), int(time["substeps"]))


def make_markers(context: BuildContext, pinned: np.ndarray) -> dict[str, Markers]:
    """The points of every set of markers.  pinned: particles that are not free."""
    out = {}
    for name, entry in context.entries("markers"):
        group = context.groups.get(entry["on"])
        if group is None:
            continue
        path = f"markers.{name}"
        if "at" in entry:
            with context.at(f"{path}.at"):
                out[name] = _carried(name, entry["on"], group, entry["at"])
        elif "where" in entry:
            with context.at(f"{path}.where"):
                out[name] = Markers(name, entry["on"], group.choose(entry["where"]))
        else:
            with context.at(f"{path}.farthest"):
                free = np.flatnonzero(~np.isin(group.points, pinned))
                chosen = farthest_points(group.positions, entry["farthest"], among=free)
                out[name] = Markers(name, entry["on"], group.start + chosen)
    return out


def _carried(name: str, on: str, group: Group, places: list[list[float]]) -> Markers:
    """Places that move with the nearest tetrahedron of a solid, or triangle of a cloth, extrapolated if they lie
    outside."""
    x = np.asarray(places, float)
    if len(group.tets):
        found = embed(x, group.positions, group.tets - group.start)
    elif len(group.triangles):
        found = embed_in_triangles(x, group.positions, group.triangles - group.start)
    else:
        raise GeometryError(f"`{on}` has no elements that could carry markers", "Use `where` with `near`")
    return Markers(name, on, found.points + np.int32(group.start), found.weights)


def make_measures(context: BuildContext) -> list[Measure]:
    """The numbers of interest."""
    out = []
    for name, entry in context.data["measures"].items():
        along = context.data["world"]["gravity"] if entry["along"] == "gravity" else entry["along"]
        size = float(np.linalg.norm(along))
        if size == 0.0:
            context.problem(f"measures.{name}.along", "there is no gravity to measure along", "give a direction")
            continue
        x, y, z = (float(a) / size for a in along)
        out.append(Measure(name, entry["of"], (x, y, z), entry["kind"], entry.get("last", 0.0)))
    return out


def make_experiments(context: BuildContext, model: Model | None, markers: dict[str, Markers]) -> list[Experiment]:
    """Every experiment with its targets; without a model (it could not be built) settings are not read."""
    out = []
    for name, entry in context.data["experiments"].items():
        path = f"experiments.{name}"
        time = dict(context.data["time"])
        settings: dict[str, np.ndarray] = {}
        for place, value in entry["set"].items():
            if place.startswith("time."):
                time[place.removeprefix("time.")] = value
                continue
            found, component = component_path(context.scene.find(place).steps)
            if found is None or not isinstance(value, float | list):
                context.refuse(
                    f"{path}.set.{place}",
                    f"`{place}` that differs from one experiment to another",
                    "what may differ is `time`, gravity, placements, shapes and motion vectors",
                )
            elif model is not None:
                with context.at(f"{path}.set.{place}"):
                    settings.setdefault(found, model[found].numpy().astype(float))[
                        ..., slice(None) if component is None else component
                    ] = value
        schedule = make_schedule(context, time, f"{path}.set" if time != context.data["time"] else "time.duration")
        targets = _targets(context, f"{path}.target", entry["target"], schedule, markers) if "target" in entry else {}
        out.append(Experiment(name, schedule, entry["use"] == "fit", settings, targets))
    return out


def _targets(
    context: BuildContext, path: str, entry: dict[str, Any], schedule: Schedule, markers: dict[str, Markers]
) -> dict[str, Target]:
    columns: dict[str, Any] = dict(entry.get("markers", {}))
    if not columns:
        if len(context.data["markers"]) > 1:
            context.problem(
                path,
                "the scene has several sets of markers, and nothing says which columns are which",
                "add `markers: {name: [columns]}`",
            )
            return {}
        columns = dict.fromkeys(context.data["markers"])
    out = {}
    for name, chosen in columns.items():
        recording = load_target(context, path, entry, chosen, markers[name].count if name in markers else None)
        if recording is None or name not in markers:
            continue
        with context.at(path):
            times = schedule.times
            used = times <= entry.get("duration", math.inf) + WHOLE / schedule.fps
            positions = np.full((len(times), recording.marker_count, 3), np.nan)
            positions[used] = recording.sample(times[used])
            target = Target(positions, entry["noise"], recording.sample([0.0])[0])
            if not target.seen.any():
                context.problem(
                    path,
                    f"no marker of `{name}` is seen at any frame of the experiment",
                    "check `start` and `duration`",
                )
                continue
            missing = int((~target.seen).sum())
            if missing:
                context.warnings.append(
                    f"{path}: {missing} of {target.seen.size} marker positions were not seen and "
                    "are left out of the loss"
                )
            out[name] = target
    return out


def load_target(
    context: BuildContext, path: str, entry: dict[str, Any], columns: list[int | str] | None, count: int | None
) -> Recording | None:
    """The recording of a target, of some of its columns, so many if `count` is known; None, and a problem, where it
    cannot be used."""
    with context.at(f"{path}.file"):
        file = context.scene.file(f"{path}.file")
        with context.at(path):
            return load_recording(
                file, entry.get("key"), rate=entry.get("rate"), unit=entry["unit"], start=entry.get("start"),
                duration=entry.get("duration"), axes=entry["axes"], mirror=entry["mirror"], markers=columns, marker_count=count,
            )  # fmt: skip
    return None


def make_method(context: BuildContext, experiments: Sequence[Experiment], terms: Sequence[Term]) -> Method:
    """How to search."""
    optimize = context.data["optimize"]
    name = next((name for name in ITERATIONS if name in optimize), "default")
    own = optimize.get(name, {})
    horizons = tuple(Horizon(**part) if isinstance(part, dict) else Horizon(part) for part in optimize["horizon"])
    _check_horizons(context, horizons, [e for e in experiments if e.fit], terms)
    return Method(
        name,
        own.get("iterations"),
        own.get("rate", 0.1),
        optimize["objective"],
        Stop(**optimize["stop"]),
        optimize["starts"],
        optimize["seed"],
        horizons,
    )


def _check_horizons(
    context: BuildContext, horizons: Sequence[Horizon], fitted: Sequence[Experiment], terms: Sequence[Term]
) -> None:
    """Each horizon is longer than the one before, finds something to compare, and the last one leaves nothing out."""
    if not fitted:
        return
    complete = not context.problems
    frames = [[h.frames(e.schedule) for e in fitted] for h in horizons]
    for k, horizon in enumerate(horizons):
        path = f"optimize.horizon.{k}"
        if k and not (all(np.greater_equal(frames[k], frames[k - 1])) and frames[k] != frames[k - 1]):
            context.problem(
                path,
                f"the horizon {horizon.label} is not longer than the one before",
                "let them grow, by a frame at least",
            )
        elif complete and k < len(horizons) - 1 and not any(term.simulated for term in horizon.terms(terms, fitted)):
            context.problem(
                path,
                f"nothing that the loss compares lies within the horizon {horizon.label}",
                "begin with a longer one",
            )
    if horizons[-1] != Horizon():
        context.problem(
            f"optimize.horizon.{len(horizons) - 1}",
            "the last horizon leaves out a part of the recordings",
            "end with `all`; a shorter `time.duration`, or `at` in the loss, leaves out the rest for good",
        )


def make_strategy(data: dict[str, Any]) -> StoreAll | Checkpointed:
    """How the gradient finds its way back."""
    chosen = data["optimize"]["rollout"]
    return Checkpointed(**chosen["checkpointed"]) if "checkpointed" in chosen else StoreAll()


def make_expectations(context: BuildContext) -> list[Expectation]:
    """The claims to check after a run."""
    out = []
    for path, entry in context.data["expect"].items():
        between = tuple(entry["between"]) if "between" in entry else None
        out.append(
            Expectation(
                path,
                entry.get("value"),
                entry.get("within"),
                between,
                entry.get("below"),
                entry.get("above"),
                measured="measured" in entry,
            )
        )
    return out
