"""Markers, experiments and method of a scene, as the pieces of a `Problem`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry import (
    GeometryError,
    embed,
    embed_in_triangles,
    farthest_points,
    quaternion_about,
    quaternion_inverse,
    quaternion_product,
)
from sim.identify.data.angles import AngleTarget, read_angles, sample_angles
from sim.identify.data.experiments import Experiment, Markers, Target, TimeGrid
from sim.identify.data.measures import MEASURE_SPECS, Measure
from sim.io import Recording, load_recording
from sim.io.recording import suggest
from sim.model import Group, Model
from sim.model.sites import point_positions
from sim.scene.build.context import BuildContext
from sim.scene.build.registration import make_registration, with_targets

WHOLE = 1e-6
"""A duration may miss a whole number of frames by this part of a frame."""

GUESSED_NOISE = 1e-3
"""Of noise that is estimated where nobody gives a guess [m]."""

SAID_OFF = 0.3
"""Error of a recording between its frames, over its noise, from which on it is told."""

MOST_FRAMES = 1_000_000
"""Frames are kept, and those of a longer experiment would not fit into memory."""


def make_schedule(context: BuildContext, time: dict[str, Any], path: str) -> TimeGrid:
    """The time steps of an experiment."""
    frames = time["duration"] * time["fps"]
    whole = math.floor(frames + WHOLE)
    if whole < 1:
        what = f"{time['duration']:g} s are less than one frame at {time['fps']:g} Hz"
        context.problem(path, what, "raise `time.duration` or `time.fps`")
    if whole > MOST_FRAMES:
        what = f"{time['duration']:g} s at {time['fps']:g} Hz are {whole:,} frames, more than {MOST_FRAMES:,}"
        context.problem(path, what, "lower `time.duration` or `time.fps`; `time.substeps` sets the length of a step")
        whole = 1
    elif frames - whole > WHOLE and whole:
        context.warnings.append(
            f"{path}: {time['duration']:g} s are {frames:.6g} frames at {time['fps']:g} Hz; the last whole one, at "
            f"{whole / time['fps']:.6g} s, is the end"
        )
    return TimeGrid(max(whole, 1), float(time["fps"]), int(time["substeps"]))


def make_markers(context: BuildContext, pinned: np.ndarray) -> dict[str, Markers]:
    """The points of every set of markers.  pinned: particles that are not free."""
    out = {}
    for name, entry in context.entries("markers"):
        group = context.groups.get(entry["on"])
        if group is None:
            continue
        path = f"markers.{name}"
        if name in context.places:
            out[name] = _carried(name, entry["on"], group, context.places[name])
        elif "at" in entry:
            with context.at(f"{path}.at"):
                out[name] = _carried(name, entry["on"], group, entry["at"])
                _warn_of_far(context, name, entry["on"], group, np.asarray(entry["at"], float))
        elif "where" in entry:
            with context.at(f"{path}.where"):
                out[name] = Markers(name, entry["on"], context.chosen(entry["on"], entry["where"]))
        else:
            with context.at(f"{path}.farthest"):
                free = np.flatnonzero(~np.isin(group.points, pinned))
                chosen = farthest_points(group.positions, entry["farthest"], among=free)
                out[name] = Markers(name, entry["on"], group.start + chosen)
    return out


def _carried(name: str, on: str, group: Group, places: ArrayLike) -> Markers:
    """Places that move with the nearest tetrahedron of a solid, or triangle of a cloth, extrapolated if outside."""
    x = np.asarray(places, float)
    if group.kind == "sites":
        # each has a site of its own, if it is not a node; in the order of the places, which is that of the columns
        nearest = np.argmin(np.linalg.norm(x[:, None] - group.positions, axis=2), axis=1)
        return Markers(name, on, group.start + nearest)
    if len(group.tets):
        found = embed(x, group.positions, group.tets - group.start)
    elif len(group.triangles):
        found = embed_in_triangles(x, group.positions, group.triangles - group.start)
    else:
        raise GeometryError(f"`{on}` has no elements that could carry markers", "Use `where` with `near`")
    return Markers(name, on, found.points + np.int32(group.start), found.weights)


def _warn_of_far(context: BuildContext, name: str, on: str, group: Group, places: np.ndarray) -> None:
    """Names places further from a mesh than it measures: a marker is carried as the element next to it turns."""
    if group.kind == "sites":
        return
    size = float(np.linalg.norm(np.ptp(group.positions, axis=0)))
    apart = np.linalg.norm(places[:, None] - group.positions, axis=2).min(axis=1)
    if apart.max() > size:
        k = int(np.argmax(apart))
        context.warnings.append(
            f"markers.{name}.at.{k}: it lies {apart[k]:.3g} m beside `{on}`, which measures {size:.3g} m, and goes as"
            " the element next to it turns: is it the unit? `at` has places where the objects begin, `position` counted"
        )


def make_measures(context: BuildContext, markers: dict[str, Markers]) -> list[Measure]:
    """The numbers of interest."""
    out = []
    for name, entry in context.data["measures"].items():
        along = context.data["world"]["gravity"] if entry["along"] == "gravity" else entry["along"]
        size = float(np.linalg.norm(along))
        if size == 0.0:
            context.problem(f"measures.{name}.along", "there is no gravity to measure along", "give a direction")
            continue
        x, y, z = (float(a) / size for a in along)
        settings = {key: entry[key] for key in MEASURE_SPECS[entry["kind"]].keys if key in entry}
        _check_enough(context, name, entry, markers)
        _check_last(context, name, entry)
        out.append(Measure(name, entry["of"], (x, y, z), entry["kind"], settings))
    return out


def _check_last(context: BuildContext, name: str, entry: dict[str, Any]) -> None:
    """A mean over the end of an experiment is of less than all of it."""
    if entry.get("last", 0.0) > context.longest + WHOLE > WHOLE:
        what = f"{entry['last']:g} s are longer than every experiment, {context.longest:g} s at most"
        context.problem(f"measures.{name}.last", what, "give less, or simulate longer")


def _check_enough(context: BuildContext, name: str, entry: dict[str, Any], markers: dict[str, Markers]) -> None:
    """A rotation takes three markers, or two with an axis."""
    if entry["kind"] != "rotation" or entry["of"] not in markers:
        return
    count, needed = markers[entry["of"]].count, 2 if "about" in entry else 3
    if count < needed:
        hint = "observe more, or give the axis, `about`" if count == 2 else "observe more"
        context.problem(f"measures.{name}", f"{count} marker(s) tell no rotation; {needed} do", hint)


def make_experiments(context: BuildContext, model: Model | None, markers: dict[str, Markers]) -> list[Experiment]:
    """Every experiment with its targets; without a model (it could not be built) settings are not read."""
    out = []
    for name, entry in context.data["experiments"].items():
        path = f"experiments.{name}"
        time = context.data["time"] | {
            place.removeprefix("time."): value for place, value in entry["set"].items() if place.startswith("time.")
        }
        settings = _settings(context, model, name)
        schedule = make_schedule(context, time, f"{path}.set" if time != context.data["time"] else "time.duration")
        registration = None
        if model is not None and "align" in entry.get("target", {}):
            registration = make_registration(context, name, schedule, model)
        lead, targets = 0 if registration is None else registration.lead, {}
        if "planned" in entry.get("target", {}):
            targets = _planned(context, f"{path}.target", entry["target"], schedule, markers, lead, model)
        elif "target" in entry:
            targets = _targets(context, f"{path}.target", entry["target"], schedule, markers, lead)
        angles = _angles(context, f"{path}.angles", entry["angles"], schedule) if "angles" in entry else {}
        if registration is not None and targets:
            registration, targets = with_targets(context, name, registration, schedule, targets)
        relaxed = entry.get("start", context.data.get("start")) == "equilibrium"
        out.append(Experiment(name, schedule, entry["use"] == "fit", settings, targets, angles, registration, relaxed))
    return out


def _settings(context: BuildContext, model: Model | None, experiment: str) -> dict[str, np.ndarray]:
    """Material values of an experiment's own, by their path in the model, from what its `set` says."""
    settings: dict[str, np.ndarray] = {}
    for path, found in context.set_values[experiment].items():
        value, target = context.data["experiments"][experiment]["set"][path], found.model_path
        if found.steps[0] == "time":
            continue
        place = f"experiments.{experiment}.set.{path}"
        if found.steps[-1] == "rotation" and "rod" not in context.data["objects"][found.steps[1]]:
            _refuse_turned_twice(context, experiment, found.steps[1], place)
            settings[f"{found.steps[1]}.rotation"] = _turned(context, found.steps[1], value)[None]
        elif target is None or not isinstance(value, float | list):
            what = f"`{path}` that differs from one experiment to another"
            context.refuse(place, what, "what may differ is `time`, gravity, placements, shapes and motion vectors")
        elif model is not None:
            with context.at(place):
                whole = settings.setdefault(target, model[target].numpy().astype(float))
                whole[..., slice(None) if found.component is None else found.component] = value
    return settings


def _refuse_turned_twice(context: BuildContext, experiment: str, name: str, place: str) -> None:
    """An experiment that sets `rotation` leaves no room for a `turn`: the model has one value for both."""
    own = context.data["experiments"][experiment]["set"]
    sought = any(steps[:3] == ("objects", name, "turn") for steps in context.varied)
    if sought or any(context.data["objects"][name]["turn"]) or f"objects.{name}.turn" in own:
        context.problem(place, f"`{name}` has a `turn` besides", "let the experiment set `turn` instead")


def _turned(context: BuildContext, name: str, rotation: dict[str, Any]) -> np.ndarray:
    """The rotation vector (3,) [rad] of a body's turn beyond that which the scene gives it."""
    own = context.data["objects"][name]["rotation"]
    given, wanted = (quaternion_about(turn["axis"], turn["angle"]) for turn in (own, rotation))
    further = np.asarray(quaternion_product(wanted, quaternion_inverse(given)))
    further = further if further[3] >= 0.0 else -further
    size = float(np.linalg.norm(further[:3]))
    return 2.0 * math.atan2(size, float(further[3])) / size * further[:3] if size else np.zeros(3)


def _targets(
    context: BuildContext, path: str, entry: dict[str, Any], schedule: TimeGrid, markers: dict[str, Markers], lead: int
) -> dict[str, Target]:
    """What each set of markers should do, (frames, markers, 3) with NaN where nothing is to be compared; `lead` frames
    before t = 0 first, as far as they were recorded."""
    columns: dict[str, Any] = entry.get("markers") or dict.fromkeys(context.data["markers"])
    if not entry.get("markers") and len(columns) > 1:
        what = "the scene has several sets of markers, and nothing says which columns are which"
        context.problem(path, what, "add `markers: {name: [columns]}`")
        return {}
    out: dict[str, Target] = {}
    noise = _NoiseOfFile(entry["noise"])
    for name, chosen in columns.items():
        count = markers[name].count if name in markers else None
        recording = load_target(context, path, entry, chosen, count, lead / schedule.fps)
        if recording is None:
            context.unread.add((path.split(".")[1], name))
        if recording is None or name not in markers:
            continue
        with context.at(path):
            times = (np.arange(schedule.frames + 1) - lead) / schedule.fps
            used = times <= entry.get("duration", math.inf) + WHOLE / schedule.fps
            used &= (times >= 0.0) | (times > recording.time[0] - recording.interval)
            positions = np.full((len(times), recording.marker_count, 3), np.nan)
            positions[used] = recording.sample(times[used])
            own = noise.of_next(recording.marker_count)
            if own is None:
                continue
            target = Target(positions[1:], own, positions[0], noise.estimated)
            within = target.seen[lead:]  # nobody misses what was before
            if not within.any():
                what = f"no marker of `{name}` is seen at any frame of the experiment"
                context.problem(path, what, "check `start` and `duration`")
                continue
            off, typical = recording.off_between_frames(times[used & (times >= 0.0)]), float(np.median(own))
            if off > SAID_OFF * typical:
                context.warnings.append(
                    f"{path}: frames of the simulation lie between those of the recording, which is interpolated there,"
                    f" and off by some {off / typical:.2g} times the noise: values that are found may be off by more"
                    " than their errors; record faster, or take its own rate for `time.fps`, and one of its frames for"
                    " `start`"
                )
            missing = int((~within).sum())
            if missing:
                unseen = f"{missing} of {within.size} marker positions were not seen"
                context.warnings.append(f"{path}: {unseen} and are left out of the loss")
            out[name] = target
    noise.check_count(context, path)
    return out


def _planned(
    context: BuildContext,
    path: str,
    entry: dict[str, Any],
    schedule: TimeGrid,
    markers: dict[str, Markers],
    lead: int,
    model: Model | None,
) -> dict[str, Target]:
    """What would be seen of each set of markers: where they are at the start, in the frames of a camera that runs
    `lead` frames before t = 0."""
    every = schedule.fps / entry["planned"].get("rate", schedule.fps)
    if abs(every - round(every)) > WHOLE or every < 1.0 - WHOLE:
        what = f"a camera of {schedule.fps / every:g} Hz has frames between those of {schedule.fps:g} Hz"
        hint = "give a `rate` of which `time.fps` is a multiple; fewer `time.substeps` keep the steps as they are"
        context.problem(f"{path}.planned.rate", what, hint)
        return {}
    times = np.arange(schedule.frames + 1) - lead
    seen = (times % round(every) == 0) & (times <= entry.get("duration", math.inf) * schedule.fps + WHOLE)
    if not seen[lead + 1 :].any():
        context.problem(
            path, "no frame of the camera lies in the experiment", "give a higher `rate`, or simulate longer"
        )
        return {}
    noise, out = _NoiseOfFile(entry["noise"]), {}
    q = np.zeros((0, 3)) if model is None else point_positions(model, model.particle_q, model.body_q).numpy()
    for name in entry["planned"].get("markers", list(context.data["markers"])):
        if name not in markers or model is None:
            continue
        own = noise.of_next(markers[name].count)
        if own is not None:
            places = np.where(seen[:, None, None], markers[name].at(q.astype(float)), np.nan)
            out[name] = Target(places[1:], own, places[0], noise.estimated, planned=True)
    noise.check_count(context, path)
    return out


class _NoiseOfFile:
    """The noise of a target, which its sets of markers share in their order.

    estimated: whose noise is found, see `Target`.
    """

    def __init__(self, given: Any) -> None:
        self.estimated, self.given = "", 0
        if given == "estimated":
            given = {"estimated": "all", "guess": GUESSED_NOISE}
        if isinstance(given, dict) and "estimated" in given:
            self.estimated, given = given["estimated"], given["guess"]
        if isinstance(given, dict):
            self._values = np.stack([np.broadcast_to(np.asarray(one, float), 3) for one in given["each"]])
        else:
            self._values = np.asarray(given, float)

    def of_next(self, count: int) -> float | np.ndarray | None:
        """Of so many markers more, as `Target` has it [m]; None where there are not as many."""
        begin, self.given = self.given, self.given + count
        if self._values.ndim < 2:
            return self._values if self._values.ndim else float(self._values)
        return self._values[begin : self.given] if self.given <= len(self._values) else None

    def check_count(self, context: BuildContext, path: str) -> None:
        """Notes noises of more or fewer markers than there were."""
        if self._values.ndim == 2 and self.given and self.given != len(self._values):
            what = f"{len(self._values)} noises of {self.given} markers"
            context.problem(f"{path}.noise", what, "give one for each, in the order of `markers`")


def _angles(context: BuildContext, path: str, entry: dict[str, Any], schedule: TimeGrid) -> dict[str, AngleTarget]:
    """The angle that each line of markers should have."""
    out = {}
    with context.at(f"{path}.file"):
        times, found = read_angles(context.scene.file(f"{path}.file"), entry["unit"])
        columns = entry.get("columns", {name: name for name in context.data["markers"] if name in found})
        if not columns:
            what = f"no column is called like markers of the scene: {', '.join(found)}"
            context.problem(path, what, "add `columns: {markers: column}`")
        for name, column in columns.items():
            if column not in found:
                hint = suggest(column, list(found), "columns")
                context.problem(f"{path}.columns.{name}", f"the file has no column `{column}`", hint)
                continue
            with context.at(path):
                out[name] = sample_angles(times - entry["start"], found, column, schedule.times, entry["noise"])
    return out


def load_target(
    context: BuildContext,
    path: str,
    entry: dict[str, Any],
    columns: list[int | str] | None,
    count: int | None,
    before: float = 0.0,
) -> Recording | None:
    """The recording of a target, some of its columns, so many if `count` is known, from `before` [s] before its start
    on; None, and a problem, if unusable."""
    with context.at(f"{path}.file"):
        file = context.scene.file(f"{path}.file")
        with context.at(path):
            recording = load_recording(
                file, entry.get("key"), rate=entry.get("rate"), unit=entry.get("unit"),
                start=entry.get("start"), duration=entry.get("duration"),
                axes=entry.get("axes"), up=entry.get("up"), world_up=_world_up(context), mirror=entry["mirror"],
                markers=columns, marker_count=count, before=before,
            )  # fmt: skip
            if recording.origin is not None:
                context.origins[path] = recording.origin
            return recording
    return None


def _world_up(context: BuildContext) -> str | None:
    """Our axis that points against gravity; y without gravity, None where it points along none."""
    gravity = context.data.get("world", {}).get("gravity", [0.0, 0.0, 0.0])  # broken: said elsewhere
    along = np.flatnonzero(gravity)
    if len(along) > 1:
        return None
    return "y" if not len(along) else "-" * (gravity[along[0]] > 0) + "xyz"[along[0]]
