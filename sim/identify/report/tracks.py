"""Motion over time, measured and simulated: every marker, the mean of a measure, the centre that has a goal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sim.identify.data.experiments import Experiment, Simulation
from sim.identify.data.measures import Measure
from sim.identify.data.motion import Motion
from sim.identify.losses.terms.base import trajectory_terms
from sim.identify.losses.terms.match import compared_by
from sim.identify.problem import Problem
from sim.io.html import quantity
from sim.io.report_tracks import Track

Simulations = Mapping[str, Simulation]


def tracks(problem: Problem, before: Simulations, after: Simulations | None) -> list[Track]:
    """What a report shows over time, by experiment: measures and goals first, then every marker that was recorded."""
    out = []
    for e in problem.experiments:
        motion = Motion(before[e.name], None) if after is None else Motion(after[e.name], before[e.name])
        out += [_of_measures(problem, e, motion, own) for own in _alike(problem.measures)]
        goals = [term.goal_track(motion, problem.markers) for term in trajectory_terms(problem.terms) if term.counts(e)]
        out += [track for track in goals if track is not None]
        out += [compared_by(problem.terms, e, name).track(motion, problem.markers[name]) for name in e.targets]
    return out


def _alike(measures: list[Measure]) -> list[list[Measure]]:
    """Measures of the same markers along the same direction."""
    groups: dict[object, list[Measure]] = {}
    for m in measures:
        groups.setdefault((m.markers, m.direction), []).append(m)
    return list(groups.values())


def _of_measures(problem: Problem, e: Experiment, motion: Motion, measures: list[Measure]) -> Track:
    """The mean displacement along a direction, which measures are taken of."""
    markers, direction = problem.markers[measures[0].markers], np.asarray(measures[0].direction)
    after, before, seen = (
        None if x is None else _mean_along(x, direction) for x in (*motion.at(markers), motion.seen(markers))
    )
    assert after is not None
    found = problem.measure(motion.after)
    words, levels = [], []
    for m in measures:
        simulated, measured, error = (found[m.name][key] for key in ("simulated", "measured", "error"))
        told = f"{m.name} {quantity(simulated, m.unit)}"
        if measured is not None:
            told += f", measured {quantity(measured, m.unit)}" + ("" if error is None else f" ({100 * error:+.1f} %)")
            if m.spec.is_level:
                levels.append([measured])
        words.append(told)
    gravity = problem.model.gravity.numpy()[0].astype(np.float64)
    downward = gravity @ direction > (1 - 1e-9) * np.linalg.norm(gravity) > 0
    way = "along gravity" if downward else f"along ({', '.join(f'{x:.3g}' for x in direction)})"
    about, axes, headings = (
        f"measures of {markers.name}, {way}",
        (f"mean of {markers.name}, {way}",),
        ["; ".join(words)],
    )
    return Track(e.name, about, motion.times, after, before, seen, axes=axes, headings=headings, levels=levels)


def _mean_along(x: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """(frames, 1, 1): of the displacement of all markers; nan where one is not seen."""
    return ((x - x[:1]) @ direction).mean(axis=1)[:, None, None]
