"""What a scene wants to be found of how recordings lie: `align` of a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.identify.data.experiments import Target, TimeGrid
from sim.identify.data.registration import LEAST_FRAMES, Registration
from sim.model import Model
from sim.scene.build.context import BuildContext

FRAMES = 5
"""The largest offset of time that is sought where nobody says, in frames of the experiment."""

SPEEDS = ("velocity", "spin", "speed")
"""Last words of paths in a scene that set something moving."""


def make_registration(
    context: BuildContext, experiment: str, schedule: TimeGrid, targets: Mapping[str, Target], model: Model
) -> tuple[Registration | None, dict[str, Target]]:
    """That of an experiment, and its targets without what may lie outside of the simulation."""
    path = f"experiments.{experiment}.target.align"
    entry = context.data["experiments"][experiment]["target"]["align"]
    if not (entry["time"] or entry["frame"]):
        return None, dict(targets)
    reach = FRAMES / schedule.fps if entry["time"] is True else float(entry["time"])
    if reach and schedule.frames < LEAST_FRAMES:
        what = f"the experiment has {schedule.frames} frames; an offset of its clock takes {LEAST_FRAMES}"
        context.problem(path, what, "simulate longer, or with more `time.fps`")
        return None, dict(targets)
    places = np.concatenate([t.positions[t.seen] for t in targets.values()])
    known = Registration(reach, bool(entry["frame"]), places.mean(axis=0), _at_rest(context, experiment, model))
    out = {}
    for name, target in targets.items():
        out[name] = replace(target, positions=known.within_reach(target.positions, schedule.fps))
        if not out[name].seen.any():
            what = f"with offsets of up to {reach:g} s no frame is left that the simulation has at every one of them"
            context.problem(f"{path}.time", what, "give a smaller one, or simulate longer")
    return known, out


def _at_rest(context: BuildContext, experiment: str, model: Model) -> bool:
    """Whether nothing moves as an experiment begins, whatever the parameters are."""
    if any(np.any(a.numpy() != 0.0) for a in (model.particle_qd, model.body_qd)):
        return False
    sought = [value.steps for found in context.parameter_values.values() for value in found.values()]
    own = [value.steps for value in context.set_values[experiment].values()]
    return not any(step in SPEEDS for steps in (*sought, *own) for step in steps[-2:])
