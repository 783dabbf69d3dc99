"""Motion over time, measured and simulated: every marker, the mean that a measure is taken of, the centre that has a
goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sim.identify.assess.misfit import compared_by
from sim.identify.data.experiments import Experiment, Markers, Simulation
from sim.identify.data.measures import Measure
from sim.identify.losses.losses import Match, Reach, Slow, frame_at
from sim.identify.problem import Problem
from sim.io.html import quantity
from sim.io.report_tracks import Track

Simulations = Mapping[str, Simulation]


def tracks(problem: Problem, before: Simulations, after: Simulations | None) -> list[Track]:
    """What a report shows over time, experiment by experiment: measures and goals first, then every marker that was
    recorded."""
    out = []
    for e in problem.experiments:
        pair = _Pair(before[e.name], None) if after is None else _Pair(after[e.name], before[e.name])
        out += [_of_measures(problem, e, pair, own) for own in _alike(problem.measures)]
        for term in problem.terms:
            if isinstance(term, Reach) and term.counts(e):
                out.append(_of_goal(problem.markers[term.markers], term, pair))
            elif isinstance(term, Slow) and term.counts(e):
                out.append(_of_speed(problem.markers[term.markers], term, pair))
        out += [_of_match(problem.markers[name], compared_by(problem, e, name), pair) for name in e.targets]
    return out


@dataclass(frozen=True, eq=False)
class _Pair:
    """An experiment as it is simulated, and at the start of the search if there was one."""

    after: Simulation
    before: Simulation | None

    @property
    def experiment(self) -> Experiment:
        return self.after.experiment

    @property
    def times(self) -> np.ndarray:
        """(frames + 1,) with the start."""
        return np.concatenate([[0.0], self.after.times])

    def at(self, markers: Markers) -> list[np.ndarray | None]:
        """Places of markers (frames + 1, markers, 3), after and before."""
        return [
            None if s is None else np.concatenate([markers.at(s.start)[None], markers.at(s.positions)])
            for s in (self.after, self.before)
        ]

    def seen(self, markers: Markers) -> np.ndarray | None:
        """The same as recorded; nan where not seen."""
        target = self.experiment.targets.get(markers.name)
        if target is None:
            return None
        start = np.full((markers.count, 3), np.nan) if target.start is None else target.start
        return np.concatenate([start[None], target.positions])


def _of_match(markers: Markers, term: Match, pair: _Pair) -> Track:
    """Every marker, as the loss compares it: its position, its way from where it is first counted, or its velocity."""
    e = pair.experiment
    target, seen = e.targets[markers.name], pair.seen(markers)
    after, before = pair.at(markers)
    counted, first = term.counted(e)
    times, noise, unit = pair.times, target.noise, "m"
    counted = np.concatenate([np.zeros((1, markers.count), bool), counted])
    shown = [after, before, seen]
    if term.compare == "displacement":
        shown = [None if x is None else x - x[first + 1, np.arange(markers.count)] for x in shown]
        noise = np.sqrt(2.0) * noise
    elif term.compare == "velocity":
        shown = [None if x is None else np.diff(x, axis=0) * e.schedule.fps for x in shown]
        times, counted, noise, unit = times[1:], counted[1:], np.sqrt(2.0) * noise * e.schedule.fps, "m/s"
    after, before, seen = shown
    assert after is not None
    axes = tuple(axis if term.compare == "position" else f"{term.compare} {axis}" for axis in "xyz")
    return Track(
        e.name,
        f"markers {markers.name} ({'in the loss' if term.counts(e) else 'predicted'})",
        times,
        after,
        before,
        seen,
        counted,
        axes,
        unit,
        float(noise),
        [str(i) for i in range(markers.count)],
    )


def _alike(measures: list[Measure]) -> list[list[Measure]]:
    """Measures of the same markers along the same direction."""
    groups: dict[object, list[Measure]] = {}
    for m in measures:
        groups.setdefault((m.markers, m.direction), []).append(m)
    return list(groups.values())


def _of_measures(problem: Problem, e: Experiment, pair: _Pair, measures: list[Measure]) -> Track:
    """The mean displacement along a direction, which measures are taken of."""
    markers, direction = problem.markers[measures[0].markers], np.asarray(measures[0].direction)
    after, before, seen = (
        None if x is None else _mean_along(x, direction) for x in (*pair.at(markers), pair.seen(markers))
    )
    assert after is not None
    found = problem.measure(pair.after)
    words, levels = [], []
    for m in measures:
        simulated, measured, error = (found[m.name][key] for key in ("simulated", "measured", "error"))
        told = f"{m.name} {quantity(simulated, m.unit)}"
        if measured is not None:
            told += f", measured {quantity(measured, m.unit)}" + ("" if error is None else f" ({100 * error:+.1f} %)")
            if m.kind == "settled":
                levels.append([measured])
        words.append(told)
    gravity = problem.model.gravity.numpy()[0].astype(np.float64)
    downward = gravity @ direction > (1 - 1e-9) * np.linalg.norm(gravity) > 0
    way = "along gravity" if downward else f"along ({', '.join(f'{x:.3g}' for x in direction)})"
    return Track(
        e.name,
        f"measures of {markers.name}, {way}",
        pair.times,
        after,
        before,
        seen,
        axes=(f"mean of {markers.name}, {way}",),
        headings=["; ".join(words)],
        levels=levels,
    )


def _mean_along(x: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """(frames, 1, 1): of the displacement of all markers; nan where one is not seen."""
    return ((x - x[:1]) @ direction).mean(axis=1)[:, None, None]


def _of_goal(markers: Markers, term: Reach, pair: _Pair) -> Track:
    """The centre of markers and the point that it should reach."""
    after, before = (None if x is None else x.mean(axis=1, keepdims=True) for x in pair.at(markers))
    assert after is not None
    frame = frame_at(pair.experiment.schedule, term.at) + 1
    distance = float(np.linalg.norm(after[frame, 0] - np.array(term.point)))
    when = float(pair.times[frame])
    return Track(
        pair.experiment.name,
        f"centre of {markers.name} and its goal",
        pair.times,
        after,
        before,
        goals=[(when, term.point)],
        headings=[f"centre of {markers.name}: {quantity(distance, 'm')} from its goal at {when:.6g} s"],
    )


def _of_speed(markers: Markers, term: Slow, pair: _Pair) -> Track:
    """The speed of the centre of markers, which should be small at a time."""
    schedule = pair.experiment.schedule
    after, before = (
        None if x is None else np.linalg.norm(np.diff(x.mean(axis=1), axis=0), axis=1)[:, None, None] * schedule.fps
        for x in pair.at(markers)
    )
    assert after is not None
    frame = max(1, frame_at(schedule, term.at))
    when = float(schedule.times[frame])
    return Track(
        pair.experiment.name,
        f"speed of the centre of {markers.name}",
        schedule.times,
        after,
        before,
        axes=("speed",),
        unit="m/s",
        goals=[(when, (0.0,))],
        headings=[f"centre of {markers.name}: {quantity(float(after[frame, 0, 0]), 'm/s')} at {when:.6g} s"],
    )
