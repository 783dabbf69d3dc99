"""Horizons: how far into the experiments a search looks.

Far from the truth, a motion and its recording soon have nothing to do with each other (an oscillation is out of phase,
a contact is met or not), and the misfit of the whole has many minima.  Over a short time from the start it has one: a
fit of the first part, then of more, follows that one to the end (multiple shooting and "curriculum" fits are of this
kind).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim.identify.data.experiments import Experiment, TimeGrid
from sim.identify.losses.terms.base import Term

ROUNDING = 1e-6
"""Part of a frame by which a horizon may miss it."""


@dataclass(frozen=True)
class Horizon:
    """The first part of every experiment: a fraction of its duration, or if given a `time` [s]."""

    fraction: float = 1.0
    time: float | None = None

    @property
    def label(self) -> str:
        """For people, and for the log: `10 %`, `0.2 s`, `all`."""
        if self.time is not None:
            return f"{self.time:g} s"
        return "all" if self.fraction == 1.0 else f"{100 * self.fraction:g} %"

    def frames(self, schedule: TimeGrid) -> int:
        """How many frames of an experiment it holds: one at least."""
        if self.time is not None:
            wanted = math.floor(self.time * schedule.fps + ROUNDING)
        else:
            wanted = math.ceil(self.fraction * schedule.frames - ROUNDING)
        return min(max(wanted, 1), schedule.frames)

    def of(self, experiment: Experiment) -> Experiment:
        """The experiment up to here: shorter, and so are its targets."""
        frames = self.frames(experiment.schedule)
        known = experiment.registration
        shorter = {name: target.positions[:frames] for name, target in experiment.targets.items()}
        if known is not None and frames < experiment.schedule.frames:
            shorter = {name: known.within_reach(seen, experiment.schedule.fps) for name, seen in shorter.items()}
        targets = {name: replace(experiment.targets[name], positions=seen) for name, seen in shorter.items()}
        angles = {name: replace(target, values=target.values[:frames]) for name, target in experiment.angles.items()}
        schedule = replace(experiment.schedule, frames=frames)
        return replace(experiment, schedule=schedule, targets=targets, angles=angles)

    def terms(self, terms: Sequence[Term], experiments: Sequence[Experiment]) -> list[Term]:
        """The terms that find something up to here, each for the experiments where it does."""
        pairs = [(e, self.of(e)) for e in experiments]
        return [found for term in terms if (found := term.up_to(pairs)) is not None]
