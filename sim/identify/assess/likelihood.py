"""ProfileLikelihood likelihoods: how far a parameter can go while all others make up for it.

At each fixed value of one coordinate u the loss is made least over the others, from the last ones on (warm starts).
The deviance of a value is

    D(u) = (L(u) - L_min) (A^-1)_uu / s_u^2

with A the Gauss-Newton matrix of the loss and s_u the standard error of the coordinate at the optimum: for residuals
that are linear in the parameters D = ((u - u_min) / s_u)^2, whatever the weights of the loss and the correlation of the
residuals (an adjustment of the log-likelihood's height: R. Chandler, S. Bate, Biometrika 94, 2007).  Where D stays
below the quantile of chi^2 with one degree of freedom lie the values that the recordings allow (S. Venzon, S.
Moolgavkar, 1988; A. Raue et al., Bioinformatics 25, 2009).  Unlike a standard error it sees where the loss is no
parabola: an interval that is open at a side, or not centred.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sim.identify.assess.uncertainty import Uncertainty, inverse_among, noise_matrix
from sim.identify.losses.jacobian import Linearised, linearise
from sim.identify.problem import Problem

QUANTILES = {0.68: 0.9889, 0.9: 2.7055, 0.95: 3.8415, 0.99: 6.6349}
"""Of chi^2 with one degree of freedom."""

STRIDE = 0.7
"""How much the root of the deviance is to grow from a value to the next."""

MOST_VALUES, MOST_STEPS = 20, 12
"""Values on either side, and Gauss-Newton steps at each."""

CLOSE = 1e-3
"""Of the deviance: what the next step may still promise."""

FAR = 12.0
"""In coordinates, how far values are looked for: beyond a factor of e^12 of a logarithm a parameter is not bounded."""


@dataclass(frozen=True, eq=False)
class ProfileLikelihood:
    """The profile likelihood of one number.

    values: (k,) physical, ascending; deviances: (k,); coordinates: (k, n) of all parameters there.
    interval: of the values with a deviance below `quantile`; infinite where it has no end; wald: the same from the
    standard error.  verdict: "closed"; "open below", "open above", "flat" (both): the recordings do not end it;
    "bounded below", "bounded above", "bounded": a bound of the parameter does.
    """

    name: str
    values: np.ndarray
    deviances: np.ndarray
    coordinates: np.ndarray
    interval: tuple[float, float]
    wald: tuple[float, float]
    verdict: str
    quantile: float
    rollouts: int

    def __repr__(self) -> str:
        low, high = self.interval
        return f"ProfileLikelihood({self.name}: {low:.4g} to {high:.4g}, {self.verdict}; {len(self.values)} values)"


def profile_likelihood(
    problem: Problem, x: np.ndarray, known: Uncertainty, names: Sequence[str] | None = None, level: float = 0.95
) -> dict[str, ProfileLikelihood]:
    """Profiles of numbers by their labels (None: all) about an optimum x (n,); known: its standard errors.

    Takes some n + 1 rollouts of the fitted experiments per Gauss-Newton step, a few steps per value.
    Raises ValueError for another level than 68, 90, 95, 99 %, an unknown name, one whose coordinates are not its own
    (an inertia).
    """
    labels = [label for p in problem.sought for label in p.labels]
    wanted = _wanted(problem, labels, names)
    if level not in QUANTILES:
        raise ValueError(f"level={level}; expected one of {', '.join(map(str, QUANTILES))}")
    with problem.remembering():
        middle = _least(problem, np.asarray(x, np.float64), None, 1.0)
        return {labels[i]: _ProfileSearch(problem, middle, known, i, QUANTILES[level]).run(labels[i]) for i in wanted}


def least_loss(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Coordinates (n,) of the least loss near x, by Gauss-Newton steps within the bounds."""
    with problem.remembering():
        return _least(problem, x, None, CLOSE).x


def _wanted(problem: Problem, labels: list[str], names: Sequence[str] | None) -> list[int]:
    out = []
    for name in labels if names is None else names:
        p = next((p for p in problem.sought if name in (p.name, *p.labels)), None)
        if p is None:
            raise ValueError(f"no parameter is called {name!r}; there are {', '.join(labels)}")
        if p.transform.name == "log-cholesky":
            if names is None:
                continue
            raise ValueError(f"{name!r} has no coordinate of its own: the six of an inertia move together")
        out += [i for i, label in enumerate(labels) if label == name or (name == p.name and label in p.labels)]
    return list(dict.fromkeys(out))


@dataclass(frozen=True, eq=False)
class _LeastLoss:
    """A least loss, what the residuals are there, and how many rollouts it took."""

    loss: float
    there: Linearised
    rollouts: int

    @property
    def x(self) -> np.ndarray:
        return self.there.x


def _least(problem: Problem, x: np.ndarray, held: int | None, unit: float) -> _LeastLoss:
    """The least loss over all coordinates but one, from x on; unit: the loss that is worth a deviance of one."""
    lower, upper = problem.bounds
    there, rollouts = linearise(problem, x), x.size + 1
    loss = sum(part.loss for part in there.residuals)
    for _ in range(MOST_STEPS):
        descent, matrix = there.descent, there.step_matrix
        free = np.arange(x.size) != (-1 if held is None else held)
        free &= ~((x <= lower) & (descent < 0)) & ~((x >= upper) & (descent > 0))
        inverse, _ = inverse_among(matrix, free)
        step = inverse @ descent
        if float(descent @ step) <= CLOSE * unit:
            break
        for _ in range(6):
            moved = np.clip(x + step, lower, upper)
            try:
                next_there = linearise(problem, moved)
            except FloatingPointError:
                next_there = None
            rollouts += x.size + 1
            value = math.inf if next_there is None else sum(part.loss for part in next_there.residuals)
            if value < loss:
                break
            step = 0.5 * step
        else:
            break  # no step lowers it: differences end here
        assert next_there is not None
        x, there, loss = moved, next_there, value
    return _LeastLoss(loss, there, rollouts)


@dataclass(frozen=True, eq=False)
class _ProfileValue:
    """A value on the way: its coordinate, the root of its deviance, all coordinates."""

    u: float
    root: float
    x: np.ndarray


class _ProfileSearch:
    """The profile of one coordinate."""

    def __init__(self, problem: Problem, middle: _LeastLoss, known: Uncertainty, i: int, quantile: float) -> None:
        self.problem, self.middle, self.i, self.quantile = problem, middle, i, quantile
        inverse, _ = inverse_among(middle.there.matrix, np.ones(middle.x.size, bool))
        self.deviation, own = float(known.deviations[i]), float(inverse[i, i])
        if not (math.isfinite(self.deviation) and self.deviation > 0.0 and own > 0.0):
            # held by a bound, or not known at all: what the loss of independent noise is worth
            self.deviation, own = math.inf, 1.0
            self.per_loss = _per_loss(middle.there, i)
        else:
            # a profile sees for itself where the loss is steep: what is it worth by the derivatives alone?
            self.per_loss = own * (float(known.widened[i]) / self.deviation) ** 2
        self.lower, self.upper = (float(end[i]) for end in problem.bounds)
        self.rollouts = 0

    def run(self, name: str) -> ProfileLikelihood:
        u = float(self.middle.x[self.i])
        here = _ProfileValue(u, 0.0, self.middle.x)
        below, above = ([*self._side(-1.0)], [*self._side(1.0)])
        row = [*reversed(below), here, *above]
        ends = [self._end([here, *side], end) for side, end in ((below, self.lower), (above, self.upper))]
        verdict = _verdict([end[1] for end in ends])
        low, high = ends[0][0], ends[1][0]
        reach = math.sqrt(self.quantile) * self.deviation
        physical = self._physical
        return ProfileLikelihood(
            name, np.array([physical(v.u) for v in row]), np.array([v.root**2 for v in row]),
            np.array([v.x for v in row]), (physical(low), physical(high)), (physical(u - reach), physical(u + reach)),
            verdict, self.quantile, self.rollouts,
        )  # fmt: skip

    def _side(self, sign: float) -> Iterator[_ProfileValue]:
        """Values away from the optimum, until the deviance is large enough or there are no more."""
        start = float(self.middle.x[self.i])
        bound = self.upper if sign > 0 else self.lower
        room = abs(bound - start)
        if room == 0.0:
            return
        length = min(STRIDE * self.deviation, room, 1.0)
        last, slope = _ProfileValue(start, 0.0, self.middle.x), self._tangent()
        for _ in range(MOST_VALUES):
            u = last.u + sign * length
            if abs(u - start) >= room * (1.0 - 1e-12):
                u = bound
            guess = last.x + (u - last.u) * slope
            guess[self.i] = u
            try:
                found = _least(self.problem, np.clip(guess, *self.problem.bounds), self.i, 1.0 / self.per_loss)
            except FloatingPointError:  # the simulation breaks down there: half the way
                length *= 0.5
                continue
            self.rollouts += found.rollouts
            root = math.sqrt(max(found.loss - self.middle.loss, 0.0) * self.per_loss)
            there = _ProfileValue(u, root, found.x)
            yield there
            grown = root - last.root
            slope = (found.x - last.x) / (u - last.u)
            last = there
            if root**2 >= self.quantile or u == bound or abs(u - start) > FAR:
                return
            length *= min(max(STRIDE / grown, 0.5), 3.0) if grown > 0 else 3.0

    def _tangent(self) -> np.ndarray:
        """How the others go along, by the Gauss-Newton matrix at the optimum."""
        matrix = self.middle.there.matrix
        others = np.arange(len(matrix)) != self.i
        inverse, _ = inverse_among(matrix, others)
        out = -inverse @ matrix[:, self.i]
        out[self.i] = 1.0
        return out

    def _end(self, side: Sequence[_ProfileValue], bound: float) -> tuple[float, str]:
        """The coordinate where the deviance reaches the quantile, and what ends the interval: "" that, "open",
        "bounded"."""
        wanted = math.sqrt(self.quantile)
        for before, after in zip(side[:-1], side[1:], strict=True):
            if after.root >= wanted:
                share = (wanted - before.root) / (after.root - before.root)
                return before.u + share * (after.u - before.u), ""
        last = side[-1].u
        if last == bound:
            return last, "bounded"
        return math.copysign(math.inf, bound - side[0].u if bound != side[0].u else bound), "open"

    def _physical(self, u: float) -> float:
        """The value of the number at a coordinate."""
        space = self.problem.space
        name = next(name for name, part in space.slices.items() if part.start <= self.i < part.stop)
        x = self.middle.x.copy()
        x[self.i] = u
        with np.errstate(over="ignore"):
            value = space.unpack(x)[name].ravel()[self.i - space.slices[name].start]
        return float(value)


def _per_loss(there: Linearised, i: int) -> float:
    """What a loss is worth as a deviance, by the stated noise: of coordinate i alone, of all where it changes
    nothing."""
    noise = np.zeros_like(there.matrix)
    for part, jacobian in zip(there.residuals, there.jacobians, strict=True):
        noise += noise_matrix(part, jacobian)[0]
    chosen = [i] if noise[i, i] > 0.0 else slice(None)
    size, matrix = np.diagonal(noise)[chosen].sum(), np.diagonal(there.matrix)[chosen].sum()
    return float(matrix / size) if size > 0.0 else 1.0


def _verdict(ends: Sequence[str]) -> str:
    below, above = ends
    if below == above:
        return {"": "closed", "open": "flat", "bounded": "bounded"}[below]
    words = [f"{end} {side}" for end, side in zip(ends, ("below", "above"), strict=True) if end]
    return ", ".join(words)
