"""Rehearsals: recordings made by the scene itself, with its noise, are fitted as a real one would be.

What comes out is known, so that biases, spreads and the coverage of standard errors can be counted before anybody makes
an experiment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim.identify.assess.estimate import standard_errors
from sim.identify.assess.likelihood import least_loss
from sim.identify.assess.uncertainty import coordinate_names
from sim.identify.data.experiments import Experiment, Simulation, Target
from sim.identify.data.registration import Alignment
from sim.identify.losses.jacobian import linearise
from sim.identify.problem import Problem

TRUSTED = 1.96
"""Standard errors on either side of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class Recovery:
    """What a rehearsal says about one number, in coordinates.

    name; true: its value.  mean, spread: of the values found, as physical numbers.  bias: of the mean, in spreads of a
    single fit.  predicted: the median standard error over the spread, 1 where it is right.  coverage: share of the 95 %
    intervals that hold the truth.
    """

    name: str
    true: float
    mean: float
    spread: float
    bias: float
    predicted: float
    coverage: float


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Refits of `takes` synthetic recordings, of which `failed` broke down.  estimates, errors: (takes, n) in
    coordinates; rows: one for each number."""

    takes: int
    failed: int
    estimates: np.ndarray
    errors: np.ndarray
    rows: tuple[Recovery, ...]

    @property
    def sure(self) -> float:
        """How far a coverage may be from 95 % by chance: two standard errors of a share."""
        done = max(self.takes - self.failed, 1)
        return 2.0 * math.sqrt(0.95 * 0.05 / done)

    def __repr__(self) -> str:
        shown = ", ".join(f"{row.name} {row.coverage:.0%}" for row in self.rows)
        return f"Rehearsal({self.takes} takes; coverage of 95 % intervals: {shown})"


Lying = Callable[[Experiment, np.random.Generator], Alignment | None]
"""Draws how the recording of an experiment lies; None: in the clock and the axes of the simulation."""


def somewhere(e: Experiment, rng: np.random.Generator) -> Alignment | None:
    """How a recording may lie: its clock within half of what is sought, its axes by some degrees and a part of the size
    of what is seen."""
    if e.registration is None:
        return None
    time = rng.uniform(-0.5, 0.5) * e.registration.time
    if not e.registration.frame:
        return Alignment(time)
    seen = np.concatenate([t.positions[t.seen] for t in e.targets.values()])
    size = float(np.linalg.norm(seen.std(axis=0)))
    return Alignment(time, rng.normal(scale=0.05, size=3), rng.normal(scale=0.05 * size, size=3))


def rehearse(
    problem: Problem,
    truth: np.ndarray | None = None,
    takes: int = 50,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, takes: None,
    lying: Lying = somewhere,
    begin: np.ndarray | None = None,
) -> Rehearsal:
    """Fit `takes` recordings that the problem makes at coordinates `truth` (n,) (default: its start).

    Recordings show the markers in the frames in which those of the problem do, or would, where they are only planned,
    with independent normal noise of their standard deviation (the guess, where it is estimated), and lie in time and
    space as `lying` draws it.  Every fit begins at `begin` (n,) (default: the truth, where what is found is the optimum
    nearby; whether a search gets there from afar is another question).
    Raises ValueError where nothing is compared with recordings, or the simulation breaks down at the truth.
    """
    x = problem.start if truth is None else np.asarray(truth, np.float64)
    if not any(e.targets for e in problem.fitted):
        raise ValueError("no fitted experiment has a recording: there is nothing to rehearse")
    try:
        made = problem.simulate(x, problem.fitted)
    except FloatingPointError as error:
        raise ValueError(f"at the values to be found the simulation breaks down ({error})") from error
    rng = np.random.default_rng(seed)
    estimates, errors, failed = [], [], 0
    for k in range(takes):
        recorded = {name: _recorded(problem, simulation, rng, lying) for name, simulation in made.items()}
        trial = replace(problem, experiments=[recorded.get(e.name, e) for e in problem.experiments])
        try:
            there = least_loss(trial, x if begin is None else begin)
            known = standard_errors(trial, linearise(trial, there))
        except FloatingPointError:
            failed += 1
        else:
            estimates.append(there)
            errors.append(known.deviations)
        progress(k + 1, takes)
    found, deviations = np.reshape(estimates, (-1, x.size)), np.reshape(errors, (-1, x.size))
    rows = tuple(_recovery(problem, x, found, deviations, i) for i in range(x.size)) if len(found) > 1 else ()
    return Rehearsal(takes, failed, found, deviations, rows)


def _recorded(problem: Problem, simulation: Simulation, rng: np.random.Generator, draw: Lying) -> Experiment:
    """An experiment with recordings of a simulation."""
    e = simulation.experiment
    lying = draw(e, rng)
    targets: Mapping[str, Target] = e.targets
    out = {}
    for name, target in targets.items():
        places = problem.seen_by(simulation, name, lying)
        noise = rng.normal(scale=target.noise, size=(len(places) + 1, *places.shape[1:]))
        start = problem.markers[name].at(simulation.start)
        seen = np.where(np.isfinite(target.positions), places + noise[1:], np.nan)
        first = None if target.start is None else np.where(np.isfinite(target.start), start + noise[0], np.nan)
        out[name] = replace(target, positions=seen, start=first, planned=False)
    return replace(e, targets=out)


def _recovery(problem: Problem, x: np.ndarray, found: np.ndarray, deviations: np.ndarray, i: int) -> Recovery:
    values = [_physical(problem, row, i) for row in (x, *found)]
    spread = float(found[:, i].std(ddof=1))
    inside = np.abs(found[:, i] - x[i]) <= TRUSTED * deviations[:, i]
    return Recovery(
        coordinate_names(problem)[i],
        values[0],
        float(np.mean(values[1:])),
        float(np.std(values[1:], ddof=1)),
        float(found[:, i].mean() - x[i]) / spread if spread else 0.0,
        float(np.median(deviations[:, i])) / spread if spread else math.inf,
        float(inside.mean()),
    )


def _physical(problem: Problem, x: np.ndarray, i: int) -> float:
    return float(np.concatenate([np.ravel(value) for value in problem.space.unpack(x).values()])[i])
