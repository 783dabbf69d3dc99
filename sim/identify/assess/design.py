"""Which recording, or which marker, would tell more: by the information that each has about the parameters.

With J the derivatives of what a camera sees over its noise, the information of independent observations is the sum of
J' J over them (R. Fisher); its inverse bounds the covariance of any estimate.  Take by take and marker by marker these
sums are at hand at the optimum, so that standard errors with one take more, or without one marker, follow without a
rollout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sim.identify.assess.uncertainty import coordinate_names, inverse_among
from sim.identify.data.experiments import Experiment
from sim.identify.data.registration import Alignment
from sim.identify.losses.jacobian import central, linearise
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.base import Term, TrajectoryTerm
from sim.identify.problem import Problem

Source = tuple[str, str, int]
"""Experiment, markers, and number of one of them; -1: all of them, with an empty name those of all markers."""


@dataclass(frozen=True, eq=False)
class Design:
    """What each source of information is worth.

    names: of the numbers sought, (n,).  errors: (n,) standard errors in coordinates of what is fitted now, by the
    stated noise.  another: experiment -> the factors (n,) on them by one more take like it (of one that is only
    predicted: by fitting it).  without: source -> the factors (n,) without a marker of what is fitted.
    """

    names: tuple[str, ...]
    errors: np.ndarray
    another: Mapping[str, np.ndarray]
    without: Mapping[Source, np.ndarray]

    def best(self, i: int) -> tuple[str, float]:
        """The experiment that shrinks error i most, and the factor."""
        name = min(self.another, key=lambda e: float(self.another[e][i]))
        return name, float(self.another[name][i])

    def most_missed(self, i: int) -> tuple[Source, float] | None:
        """The marker without which error i grows most, and the factor; None where there is one marker."""
        if not self.without:
            return None
        source = max(self.without, key=lambda s: float(self.without[s][i]))
        return source, float(self.without[source][i])


def design(problem: Problem, x: np.ndarray | None = None) -> Design:
    """What takes and markers are worth at coordinates x (n,) (default: the start).

    Takes 2 n + 1 rollouts of all experiments that have recordings.  Raises ValueError where none is fitted, or a term
    has no residuals; FloatingPointError where a rollout breaks down.
    """
    x = problem.start if x is None else np.asarray(x, np.float64)
    if not any(e.targets for e in problem.fitted):
        raise ValueError("no fitted experiment has a recording")
    if any(not term.has_residuals for term in problem.terms):
        raise ValueError("a term of the loss has no residuals")
    fitted = {e.name for e in problem.fitted}
    takes = [replace(_as_stated(e), fit=True) if e.targets else e for e in problem.experiments]
    everything = replace(problem, experiments=takes, terms=_of_all(problem.terms, takes))
    everything = replace(everything, experiments=_recorded(everything, x))
    found = central(everything, linearise(everything, x))
    pieces: dict[Source, np.ndarray] = {}
    prior = np.zeros((x.size, x.size))
    for part, jacobian in zip(found.residuals, found.jacobians, strict=True):
        if not part.markers:
            prior += np.einsum("fmai,fma,fmaj->ij", jacobian, part.curvature, jacobian)
            continue
        for m in range(part.values.shape[1]):
            source = (part.experiment, part.markers, m)
            pieces[source] = pieces.get(source, 0.0) + _information(part, jacobian, m)
    now = prior + sum((piece for source, piece in pieces.items() if source[0] in fitted), np.zeros_like(prior))
    errors = _errors(now)
    by_take: dict[str, np.ndarray] = {}
    for source, piece in pieces.items():
        by_take[source[0]] = by_take.get(source[0], 0.0) + piece
    another = {name: _over(_errors(now + piece), errors) for name, piece in by_take.items()}
    own = {source: piece for source, piece in pieces.items() if source[0] in fitted}
    places = dict.fromkeys((markers, m) for _, markers, m in own)
    without = {
        ("", markers, m): _over(_errors(now - sum(p for s, p in own.items() if s[1:] == (markers, m))), errors)
        for markers, m in places
    } if len(places) > 1 else {}  # fmt: skip
    return Design(coordinate_names(problem), errors, another, without)


def _over(errors: np.ndarray, before: np.ndarray) -> np.ndarray:
    """How many times as large as before errors are: once where neither tells anything."""
    return np.divide(errors, before, out=np.ones_like(errors), where=np.isfinite(before) | np.isfinite(errors))


def _of_all(terms: Sequence[Term], experiments: Sequence[Experiment]) -> list[Term]:
    """Terms that count every experiment in which they find something."""
    out: list[Term] = []
    for term in terms:
        if isinstance(term, TrajectoryTerm):
            names = tuple(e.name for e in experiments if e.fit and term.is_defined_for(e))
            out += [replace(term, experiments=names)] if names else []
        else:
            out.append(term)
    return out


def _recorded(problem: Problem, x: np.ndarray) -> list[Experiment]:
    """Experiments with what would be seen of those that are only planned."""
    out = {e.name: e for e in problem.experiments}
    for name, simulation in problem.simulate(x, [e for e in problem.experiments if e.planned]).items():
        e = simulation.experiment
        seen = {
            markers: replace(
                target,
                positions=np.where(target.seen[..., None], problem.seen_by(simulation, markers, Alignment()), np.nan),
                planned=False,
            )
            for markers, target in e.targets.items()
        }
        out[name] = replace(e, targets=seen)
    return list(out.values())


def _as_stated(e: Experiment) -> Experiment:
    """With the noise that is guessed where it is to be estimated: at coordinates that are not found, what is estimated
    is the misfit."""
    return replace(e, targets={name: replace(target, estimated="") for name, target in e.targets.items()})


def _information(part: Residuals, jacobian: np.ndarray, m: int) -> np.ndarray:
    """J' J of one marker, over the noise of single residuals; a shared first frame counts as noise of each."""
    used = part.weight[:, m] > 0
    J = jacobian[used, m] / np.sqrt(part.own_variance[used, m])[:, None, None]
    return np.einsum("fai,faj->ij", J, J)


def _errors(information: np.ndarray) -> np.ndarray:
    """Standard errors (n,); infinite where it says nothing."""
    inverse, lost = inverse_among(information, np.ones(len(information), bool))
    out = np.sqrt(np.maximum(np.diagonal(inverse), 0.0))
    out[lost] = math.inf
    return out
