"""Newton's method on the equations of one step, with a line search."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.solvers.newton.elements import StepInputs, host
from sim.solvers.newton.sparse import SingularStep
from sim.solvers.newton.system import KktResidual, StepSystem

SHORTEST = 2.0**-14
"""Of the parts of a step that are tried."""
SAFE = 1e-6
"""Full steps of Newton's method that are shorter than this, relative, are taken: what they gain is below rounding."""
ROUNDED = 1e-4
"""Corrections below this, relative, that stop shrinking are taken for rounding errors."""


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended.  correction: the last Newton step of any point over the longest way of a point, inf where the
    iteration broke down; converged: whether what a further iteration would change is negligible."""

    iterations: int
    correction: float
    converged: bool


@dataclass(eq=False)
class Iteration:
    """The positions x of one step on their way to the solution, from the predicted ones or from those before the step:
    from where the potential is lower.

    at: the equations there; kept: the multipliers that are unknowns.
    """

    system: StepSystem
    x: array
    inputs: StepInputs
    predicted: np.ndarray = field(init=False)
    kept: np.ndarray = field(init=False)
    at: KktResidual = field(init=False)

    def __post_init__(self) -> None:
        self.predicted = host(self.x).copy()
        self.kept = np.zeros(self.system.size - self.system.positions)
        self.at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        resting, free = self.predicted.copy(), self.system.free
        resting[free] = host(self.inputs.x_before)[free]
        self.x.assign(resting)
        at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        if self.system.merit(at, self.kept) < self.system.merit(self.at, self.kept):
            self.at = at
        else:
            self.x.assign(self.predicted)

    def run(self, tolerance: float, most: int) -> StepOutcome:
        """Iterate until a full step of Newton's method is shorter than `tolerance`, relative, at most so many times."""
        last = np.inf
        for iteration in range(1, most + 1):
            moved, full = self._advance()
            correction = moved / self.way if moved > 0.0 else 0.0
            if full and (correction <= tolerance or 0.5 * last < correction <= ROUNDED):
                return StepOutcome(iteration, correction, True)
            if not np.isfinite(correction):
                return StepOutcome(iteration, correction, False)
            last = correction if full else np.inf
        return StepOutcome(most, last, False)

    @property
    def way(self) -> float:
        """The longest way of a point in this step, as predicted or as it is."""
        before = host(self.inputs.x_before)
        ways = [float(np.abs(x - before).max(initial=0.0)) for x in (self.predicted, host(self.x))]
        return max(*ways, np.finfo(float).tiny)

    def _advance(self) -> tuple[float, bool]:
        """The longest way of a point in one iteration, inf where none is possible; was it a full step of Newton's
        method?

        Such a step is taken where it lowers residual or energy, as near the solution it always does; else one with the
        positive definite matrix, shortened until it does.
        """
        if not np.isfinite(self.at.norm):
            return np.inf, False
        start, n = host(self.x).copy(), self.system.positions
        for definite in (False, True):
            try:
                step = -self.system.factor(self.x, self.inputs, self.at, definite)[0].solve(self.at.residual)
            except SingularStep:
                continue
            # along the step the multipliers are those of its end
            slope = float((self.at.residual[:n] - self.system.pull(self.at, step[n:])) @ step[:n])
            if not np.isfinite(step).all() or (definite and slope > 0.0):
                continue
            search = _LineSearch(self, start, step, slope, definite)
            longest, part = float(np.abs(step[:n]).max(initial=0.0)), 1.0
            while part >= (SHORTEST if definite else 1.0):
                new = search.at(part)
                if search.accepts(new, part) or (not definite and longest <= SAFE * self.way):
                    self.at, self.kept = new, self.kept + step[n:]
                    return part * longest, not definite
                part *= 0.5
            self.x.assign(start)
            self.at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        return np.inf, False


@dataclass(frozen=True, eq=False)
class _LineSearch:
    """Parts of a step from `start`.  slope: the derivative of the merit along it."""

    of: Iteration
    start: np.ndarray
    step: np.ndarray
    slope: float
    definite: bool

    @property
    def kept(self) -> np.ndarray:
        return np.asarray(self.of.kept + self.step[self.of.system.positions :])

    def at(self, part: float) -> KktResidual:
        """The equations at a part of the step."""
        it, moved = self.of, self.start.copy()
        n = it.system.positions
        moved[it.system.free] += part * self.step[:n].reshape(-1, 3)
        it.x.assign(moved)
        return it.system.evaluate(it.x, it.predicted, it.inputs, self.kept)

    def accepts(self, new: KktResidual, part: float) -> bool:
        """Whether the residual is smaller, or the merit (sufficient decrease: J. Nocedal, S. Wright, "Numerical
        Optimization", 2006, eq. 3.4), or the force along the step: damping forces have no potential."""
        it = self.of
        if new.norm <= (0.9 if self.definite else 0.5) * it.at.norm:
            return True
        if self.slope > 0.0:
            return False
        if it.system.merit(new, self.kept) <= it.system.merit(it.at, self.kept) + 1e-4 * part * self.slope:
            return True
        along = float(new.residual[: it.system.positions] @ self.step[: it.system.positions])
        return it.system.damped and (along if self.definite else abs(along)) <= -0.9 * self.slope
