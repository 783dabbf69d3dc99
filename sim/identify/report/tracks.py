"""Motion over time, measured and simulated: every marker, the mean of a measure, the centre that has a goal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
        shown = [t for t in trajectory_terms(problem.terms) if t.counts(e) or t.predicts(e)]
        goals = [term.goal_track(motion, problem.markers) for term in shown]
        out += [track for track in goals if track is not None]
        out += [compared_by(problem.terms, e, name).track(motion, problem.markers[name]) for name in e.targets]
    return out


def _alike(measures: list[Measure]) -> list[list[Measure]]:
    """Measures of the same signal of the same markers."""
    groups: dict[object, list[Measure]] = {}
    for m in measures:
        way = m.direction if m.spec.signal_unit == "m" else tuple(m.settings.get("about", ()))
        groups.setdefault((m.markers, m.spec.signal_unit, way), []).append(m)
    return list(groups.values())


def _of_measures(problem: Problem, e: Experiment, motion: Motion, measures: list[Measure]) -> Track:
    """What measures are taken of, over time."""
    first, markers = measures[0], problem.markers[measures[0].markers]
    after, before, seen = (
        None if x is None else first.signal(x, x[0])[:, None, None] for x in (*motion.at(markers), motion.seen(markers))
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
    what, way = _what_is_shown(problem, first)
    return Track(
        e.name,
        f"measures of {markers.name}, {way}",
        motion.times,
        after,
        before,
        seen,
        axes=(f"{what} of {markers.name}, {way}",),
        unit=first.spec.signal_unit,
        headings=["; ".join(words)],
        levels=levels,
    )


def _what_is_shown(problem: Problem, m: Measure) -> tuple[str, str]:
    """What a measure is taken of, and along or about which direction."""
    if m.spec.signal_unit == "rad":
        about = m.settings.get("about")
        return "rotation", "rotation" if about is None else f"rotation about ({_numbers(about)})"
    direction, gravity = np.asarray(m.direction), problem.model.gravity.numpy()[0].astype(np.float64)
    downward = gravity @ direction > (1 - 1e-9) * np.linalg.norm(gravity) > 0
    return "mean", "along gravity" if downward else f"along ({_numbers(direction)})"


def _numbers(vector: Iterable[float]) -> str:
    return ", ".join(f"{x:.3g}" for x in vector)
