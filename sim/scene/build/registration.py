"""What a scene wants to be found of how recordings lie: `align` of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.identify.data.experiments import Target, TimeGrid
from sim.identify.data.registration import LEAST_FRAMES, Registration, frames_within
from sim.model import Model
from sim.scene.build.context import BuildContext

FRAMES = 5
"""The largest offset of time that is sought where nobody says, in frames of the experiment."""

SPEEDS = ("velocity", "spin", "speed")
"""Last words of paths in a scene that set something moving."""


def make_registration(context: BuildContext, experiment: str, schedule: TimeGrid, model: Model) -> Registration | None:
    """That of an experiment, before its targets are known."""
    path = f"experiments.{experiment}.target.align"
    entry = context.data["experiments"][experiment]["target"]["align"]
    if not (entry["time"] or entry["frame"]):
        return None
    reach = FRAMES / schedule.fps if entry["time"] is True else float(entry["time"])
    if reach and schedule.frames < LEAST_FRAMES:
        what = f"the experiment has {schedule.frames} frames; an offset of its clock takes {LEAST_FRAMES}"
        context.problem(path, what, "simulate longer, or with more `time.fps`")
        return None
    at_rest, lost = _at_rest(context, experiment, model), frames_within(reach, schedule.fps)
    if lost >= schedule.frames:
        _nothing_left(context, experiment, reach)
        return None
    lead = lost if at_rest and not _follows(context) else 0
    return Registration(reach, bool(entry["frame"]), at_rest=at_rest, lead=lead)


def with_targets(
    context: BuildContext, experiment: str, known: Registration, schedule: TimeGrid, targets: Mapping[str, Target]
) -> tuple[Registration, dict[str, Target]]:
    """The registration about the middle of what was seen, and targets without what may lie outside of the
    simulation."""
    places = np.concatenate([t.positions[t.seen] for t in targets.values()])
    out = {}
    for name, target in targets.items():
        out[name] = replace(target, positions=known.within_reach(target.positions, schedule.fps))
        if not out[name].seen.any():
            _nothing_left(context, experiment, known.time)
    return replace(known, pivot=places.mean(axis=0)), out


def _nothing_left(context: BuildContext, experiment: str, reach: float) -> None:
    what = f"with offsets of up to {reach:g} s no frame is left that the simulation has at every one of them"
    context.problem(f"experiments.{experiment}.target.align.time", what, "give a smaller one, or simulate longer")


def _at_rest(context: BuildContext, experiment: str, model: Model) -> bool:
    """Whether nothing moves as an experiment begins, whatever the parameters are."""
    if any(np.any(a.numpy() != 0.0) for a in (model.particle_qd, model.body_qd)):
        return False
    sought = [value.steps for found in context.parameter_values.values() for value in found.values()]
    own = [value.steps for value in context.set_values[experiment].values()]
    return not any(step in SPEEDS for steps in (*sought, *own) for step in steps[-2:])


def _follows(context: BuildContext) -> bool:
    """Whether something goes as recorded: that may have moved before, too."""
    driven = [*context.data["attachments"].values()]
    driven += [entry["body"] for entry in context.data["objects"].values() if "body" in entry]
    return any("follow" in motion for entry in driven for motion in entry["motion"])
