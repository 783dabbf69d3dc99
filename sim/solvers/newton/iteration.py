"""Newton's method on the equations of one step, with a line search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.solvers.newton.elements import StepInputs, host
from sim.solvers.newton.sparse import SingularStep
from sim.solvers.newton.system import KktResidual, StepSystem

SHORTEST = 2.0**-14
"""Of the parts of a step that are tried."""
SHIFTS, GROWTH, LEAST_SHIFT = 3, 8.0, 1e-3
"""Shifts of the matrix that are tried in an iteration, each over the one before, and the least of them, in masses."""
GIVES = (1e-3, 1e-1, 10.0)
"""Of contacts over J W J^T, where none of these leads on: rigid ones that ask for nearly the same contradict each other
away from the solution (R. T. Rockafellar, "Augmented Lagrangians and Applications of the Proximal Point Algorithm in
Convex Programming", 1976: multipliers then come by parts)."""
MOST_MERIT = 2.0
"""The merit of a step on its way, over that of where it may start: damping has no potential, and may raise it."""
SAFE = 1e-6
"""Full steps of Newton's method that are shorter than this, relative, are taken: what they gain is below rounding."""
RESTING = 1e-7
"""The least way of a point that counts, over its coordinates."""
ROUNDED = 1e-4
"""Corrections below this, relative, that stop shrinking are taken for rounding errors."""


@dataclass(frozen=True)
class StepOutcome:
    """How a step ended.  correction: the last step of any point over the longest way of a point, inf where the
    iteration broke down; converged: whether what a further iteration would change is negligible."""

    iterations: int
    correction: float
    converged: bool


@dataclass(eq=False)
class Iteration:
    """The positions x of one step on their way to the solution, from the predicted ones or from those before the step:
    from where the potential is lower.

    at: the equations there; kept: the multipliers that are unknowns; least: the smallest residual so far; ceiling: what
    the merit, without `kept`, never exceeds; shift: of the matrix, in masses, that is tried next.
    """

    system: StepSystem
    x: array
    inputs: StepInputs
    predicted: np.ndarray = field(init=False)
    kept: np.ndarray = field(init=False)
    at: KktResidual = field(init=False)
    least: float = field(init=False)
    ceiling: float = field(init=False)
    shift: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        self.predicted = host(self.x).copy()
        self.kept = np.zeros(self.system.size - self.system.positions)
        self.at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        resting, free = self.predicted.copy(), self.system.free
        resting[free] = host(self.inputs.x_before)[free]
        self.x.assign(resting)
        at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        merits = self.unsupported(at), self.unsupported(self.at)
        if merits[0] < merits[1]:
            self.at = at
        else:
            self.x.assign(self.predicted)
        self.least, self.ceiling = self.at.norm, MOST_MERIT * max(merits)

    def run(self, tolerance: float, most: int) -> StepOutcome:
        """Iterate until a full step of Newton's method is shorter than `tolerance`, relative, at most so many times."""
        last = correction = np.inf
        for iteration in range(1, most + 1):
            moved, full = self._advance()
            correction = moved / self.way if moved > 0.0 else 0.0
            if full and (correction <= tolerance or 0.5 * last < correction <= ROUNDED):
                return StepOutcome(iteration, correction, True)
            if not np.isfinite(correction):
                return StepOutcome(iteration, correction, False)
            last = correction if full else np.inf
        return StepOutcome(most, correction, False)

    def unsupported(self, at: KktResidual) -> float:
        """The merit without multipliers that are unknowns."""
        return self.system.merit(at, at, np.zeros_like(self.kept))

    @property
    def way(self) -> float:
        """The longest way of a point in this step, as predicted or as it is; of what is at rest, a way that rounding of
        positions leaves to be seen."""
        before = host(self.inputs.x_before)
        ways = [float(np.abs(x - before).max(initial=0.0)) for x in (self.predicted, host(self.x))]
        return max(*ways, RESTING * float(np.abs(before).max(initial=0.0)), np.finfo(float).tiny)

    def _advance(self) -> tuple[float, bool]:
        """The longest way of a point in one iteration, inf where none is possible; was it a full step of Newton's
        method?

        Such a step is taken where it lowers residual or energy, as near the solution it always does.  Else the matrix
        gets more and more mass, by which a body that buckles leaves its saddle in steps of a useful length (A. Longva,
        F. Loeschner, J. A. Fernandez-Fernandez, E. Larionov, U. M. Ascher, J. Bender, "Pitfalls of Projection", 2023);
        or it is made positive definite block by block, and the step shortened until it goes downhill.
        """
        if not np.isfinite(self.at.norm):
            return np.inf, False
        start, n = host(self.x).copy(), self.system.positions
        for shift, give, definite, shortest in self._attempts():
            full = not (shift or give or definite)
            try:
                factor, _ = self.system.factor(self.x, self.inputs, self.at, definite, shift, give)
                step = -factor.solve(self.at.residual)
            except SingularStep:
                continue
            # along the step the multipliers are those of its end
            slope = float((self.at.residual[:n] - self.system.pull(self.at, step[n:])) @ step[:n])
            if not np.isfinite(step).all() or (not full and slope > 0.0):
                continue
            search = _LineSearch(self, start, step, slope, 0.5 if full else 0.9)
            longest, part = float(np.abs(step[:n]).max(initial=0.0)), 1.0
            while part >= shortest:
                new = search.at(part)
                if search.accepts(new, part) or (full and longest <= SAFE * self.way):
                    self.at, self.kept, self.least = new, self.kept + step[n:], min(self.least, new.norm)
                    self.shift = max((shift or self.shift) / GROWTH, LEAST_SHIFT)
                    return part * longest, full
                part *= 0.5
            self.x.assign(start)
            self.at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        return np.inf, False

    def _attempts(self) -> Iterator[tuple[float, float, bool, float]]:
        """Shift of the matrix, give of its contacts, whether its blocks are made definite, shortest part of the step
        that is tried."""
        yield 0.0, 0.0, False, 1.0
        for k in range(SHIFTS):
            yield self.shift * GROWTH**k, 0.0, False, 0.25
        yield 0.0, 0.0, True, SHORTEST
        for give in GIVES:
            yield 0.0, give, True, SHORTEST


@dataclass(frozen=True, eq=False)
class _LineSearch:
    """Parts of a step from `start`.  slope: the derivative of the merit along it; enough: residual over the smallest so
    far that is taken for progress, whatever the merit."""

    of: Iteration
    start: np.ndarray
    step: np.ndarray
    slope: float
    enough: float

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
        """Whether the residual is smaller than ever, so that no steps go round in circles, or the merit is smaller
        (sufficient decrease: J. Nocedal, S. Wright, "Numerical Optimization", 2006, eq. 3.4)."""
        it = self.of
        if it.unsupported(new) > it.ceiling:
            return False
        if new.norm <= self.enough * it.least:
            return True
        if self.slope > 0.0:
            return False
        before = it.system.merit(it.at, it.at, self.kept)
        return it.system.merit(new, it.at, self.kept) <= before + 1e-4 * part * self.slope
