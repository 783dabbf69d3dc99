"""Cross-validation over takes: each is predicted by a fit to the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.identify.assess.likelihood import least_loss
from sim.identify.assess.misfit import Misfit, given_up, misfits
from sim.identify.problem import Problem

WORSE = 1.25
"""How many times worse than fitted a take may be predicted, to be said to carry over."""


@dataclass(frozen=True, eq=False)
class Fold:
    """One take left out.  parameters: what the others give.  predicted, fitted: rms of its residuals over what the
    stated noise leaves, with these and with what all takes give; nan where the simulation breaks down."""

    take: str
    parameters: dict[str, Any]
    predicted: float
    fitted: float


@dataclass(frozen=True, eq=False)
class Folds:
    """All takes, each left out once.  notes: what else to know."""

    folds: tuple[Fold, ...]
    notes: tuple[str, ...] = ()

    @property
    def predicted(self) -> float:
        """Root mean square over takes of what is predicted."""
        return math.sqrt(float(np.mean([f.predicted**2 for f in self.folds])))

    @property
    def fitted(self) -> float:
        """The same of what is fitted."""
        return math.sqrt(float(np.mean([f.fitted**2 for f in self.folds])))

    @property
    def verdict(self) -> str:
        """What the two say, in a line."""
        ratio = self.predicted / self.fitted if self.fitted > 0 else math.nan
        text = f"left out, takes are met to {self.predicted:.3g} of their noise; fitted, to {self.fitted:.3g}"
        if not math.isfinite(ratio):
            return f"{text}; somewhere the simulation breaks down"
        if ratio > WORSE:
            return f"{text}: what is found belongs to the takes it was found from as much as to the material"
        if self.notes:
            return f"{text}; {'; '.join(self.notes)}"
        return f"{text}: what is found carries over"


def cannot_leave_out(problem: Problem) -> str:
    """Why no take can be left out; "" where they can."""
    takes = sum(bool(e.targets) for e in problem.fitted)
    if takes < 2:
        return f"{takes} fitted experiment(s) with a recording: leaving one out takes two"
    own = [p.name for p in problem.sought if p.experiments]
    if own:
        return f"{', '.join(own)}: one value for each experiment, which no other one predicts"
    return "a term of the loss has no residuals" if any(not term.has_residuals for term in problem.terms) else ""


def cross_validate(
    problem: Problem, x: np.ndarray, progress: Callable[[int, int], None] = lambda done, takes: None
) -> Folds:
    """Leave out every fitted take with a recording once, from an optimum x (n,) on.

    Raises ValueError for less than two of them, for parameters with a value for each experiment (nothing predicts that
    of another), or for a term without residuals.
    """
    if why := cannot_leave_out(problem):
        raise ValueError(why)
    takes = [e for e in problem.fitted if e.targets]
    with problem.remembering():
        found = misfits(problem, problem.simulate(x, [e for e in problem.experiments if e.targets]))
        noise = {(m.experiment, m.markers): _noise_of(found, m) for m in found}
        whole = dict(_rms(found, noise))
    folds = []
    for k, left_out in enumerate(takes):
        others = [replace(e, fit=e.fit and e.name != left_out.name) for e in problem.experiments]
        trial = replace(problem, experiments=others)
        try:
            there = least_loss(trial, x)
            simulated = trial.simulate(there, [e for e in trial.experiments if e.name == left_out.name])
            predicted = dict(_rms(misfits(trial, simulated), noise))[left_out.name]
        except FloatingPointError:
            there, predicted = np.full(x.shape, np.nan), math.nan
        folds.append(Fold(left_out.name, problem.physical(there), predicted, whole[left_out.name]))
        progress(k + 1, len(takes))
    return Folds(tuple(folds), tuple(given_up(found)))


def _noise_of(found: Sequence[Misfit], m: Misfit) -> float:
    """Of what is compared, one coordinate [m]: as it is stated, or the least that was estimated of these markers in any
    take, for what the model misses of a take is in its own."""
    if m.estimated is None:
        return m.noise
    return min(other.noise for other in found if other.markers == m.markers and other.estimated is not None)


def _rms(found: Sequence[Misfit], noise: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, float]]:
    """Experiment -> rms of its residuals in units of what noise alone leaves: of markers of experiments, as it is
    stated or was estimated from all takes."""
    for name in dict.fromkeys(m.experiment for m in found):
        own = [(m, m.rms / (math.sqrt(3.0) * noise[name, m.markers])) for m in found if m.experiment == name]
        yield name, math.sqrt(sum(m.numbers * over**2 for m, over in own) / sum(m.numbers for m, _ in own))
