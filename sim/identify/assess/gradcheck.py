"""Gradients against differences, through the whole rollout.

For every parameter the derivative along one direction of its coordinates is compared with central differences.  Their
step is chosen without a look at the gradient, in two ways: where the estimates of two steps agree best (too long:
curvature; too short: rounding), and where the differences to both sides do: a loss with small jumps, as of contacts
under BDF2, which begin anew where they touch, has a slope between its jumps alone.  The nearer of the two is taken.

A gradient may be right and of no use all the same.  What chaos does to it the rollouts say (`sim.rollout.growth`); what
switches do, contacts above all, shows when the derivative is taken at neighbouring points: if it scatters, so does the
loss, and its slope at one point is not that of its mean (H. J. T. Suh, M. Simchowitz, K. Zhang, R. Tedrake, "Do
Differentiable Simulators Give Better Policy Gradients?", 2022).

What a difference can tell ends where the noise of the loss begins: sums in other orders of numbers that are all but
equal.  It is measured, by the loss next to the point, where a straight line is all that should be left of it.

And at a switch there is no derivative: the gradient is that to one side, and is compared with the differences to both.
Contacts are looked at, step by step, at the point (`sim.solvers.ContactWatch`) and at both ends of each difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.identify.problem import Problem

STEPS = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7)
TOLERANCE = 1e-5
LAST_BITS = 8 * float(np.finfo(np.float64).eps)
"""Relative, of a loss: what is left of it in the difference of two values that should be equal."""
CLOSE = 1e-9 * np.linspace(-1.0, 1.0, 8)
"""Coordinates, about the point, at which the noise of the loss is measured."""
SURE = 3.0
"""Standard deviations of the noise that a difference is trusted to."""
NEARBY = np.linspace(-1e-2, 1e-2, 7)
"""Coordinates, about the point, at which the derivative is taken again."""
ROUGH = 0.25
"""Scatter from which a derivative is not worth following."""


@dataclass(frozen=True)
class SlopeCheck:
    """One parameter: the derivative by back-propagation and by differences, and how far they are apart.

    step: of the difference, in coordinates.  switched: contacts that do something else at its one end than at its other
    (push or not, stick or slip, rest or rebound), summed over all time steps: it straddles a kink, and says less.
    scatter: of the derivative at `NEARBY` coordinates about a straight line, over its size there (root mean squares).
    at_switch: contacts within a relative 1e-6 of a switch at the point itself; then sides are the differences to both
    sides of it, and the gradient may be that of one.
    rounding: what the noise of the loss, or its last bits, make of such a difference.
    """

    parameter: str
    gradient: float
    difference: float
    step: float
    switched: int
    scatter: float
    at_switch: int = 0
    sides: tuple[float, float] | None = None
    rounding: float = 0.0

    @property
    def vanishes(self) -> bool:
        """Whether both are zero as far as differences of this loss can tell."""
        return max(abs(self.gradient), abs(self.difference)) <= self.rounding

    @property
    def error(self) -> float:
        """Relative to the larger of the two; at a switch that to the side which is nearer, if that is less."""
        return min(map(self._off, (self.difference, *(self.sides or ()))))

    def _off(self, difference: float) -> float:
        scale = max(abs(self.gradient), abs(difference))
        return abs(self.gradient - difference) / scale if scale else 0.0

    @property
    def resolution(self) -> float:
        """The relative error up to which rounding lets differences tell."""
        scale = max(abs(self.gradient), abs(self.difference))
        return self.rounding / scale if scale else 0.0

    @property
    def ok(self) -> bool:
        """Whether it is below the tolerance as far as differences can tell, or nothing depends on the parameter."""
        return self.vanishes or self.error <= TOLERANCE + self.resolution

    @property
    def rough(self) -> bool:
        """Whether the derivative is so different at neighbouring points that it says little, though it is right."""
        return self.scatter > ROUGH and not self.vanishes


def check_gradient(problem: Problem, x: np.ndarray | None = None, seed: int = 0) -> list[SlopeCheck]:
    """A row for each parameter at coordinates x (n,) (default: the start).  Use a float64 problem.

    A parameter of several numbers is varied along a random direction of unit length.
    """
    x = problem.start if x is None else np.asarray(x, dtype=np.float64)
    gradient = problem.evaluate(x).gradient
    rng = np.random.default_rng(seed)
    directions = {}
    for name, part in problem.space.slices.items():
        direction = np.zeros(x.size)
        own = rng.normal(size=part.stop - part.start)
        direction[part] = own / np.linalg.norm(own) if own.size > 1 else 1.0
        directions[name] = direction
    whole = sum(directions.values(), np.zeros(x.size))
    near = _nearby(problem, x, whole, gradient)
    there = sum(look.count.switching for look in problem.contacts(x))
    last_bits = max(LAST_BITS * abs(problem.value(x)), SURE * _noise(problem, x, whole))
    rows = []
    for name, direction in directions.items():
        slope = float(gradient @ direction)
        estimates, sides = _differences(problem, x, direction)
        difference, step = min(estimates, key=lambda found: abs(found[0] - slope))
        switched = switched_contacts(problem, x - step * direction, x + step * direction)
        known = sides if there else None
        spread = scatter(near @ direction)
        rows.append(SlopeCheck(name, slope, difference, step, switched, spread, there, known, last_bits / step))
    return rows


def scatter(slopes: np.ndarray) -> float:
    """How far the derivatives at `NEARBY` coordinates are from a straight line, over their size; infinite where one is
    not finite."""
    if not np.isfinite(slopes).all():
        return float("inf")
    rest = slopes - np.polyval(np.polyfit(NEARBY, slopes, 1), NEARBY)
    size = float(np.sqrt(np.mean(slopes**2)))
    return float(np.sqrt(np.mean(rest**2))) / size if size else 0.0


def _noise(problem: Problem, x: np.ndarray, direction: np.ndarray) -> float:
    """Standard deviation of the loss about a straight line, within `CLOSE` coordinates along a direction."""
    values = np.array([problem.value(x + offset * direction) for offset in CLOSE])
    rest = values - np.polyval(np.polyfit(CLOSE / CLOSE[-1], values, 1), CLOSE / CLOSE[-1])
    return float(np.sqrt(np.sum(rest**2) / (len(values) - 2)))


def _nearby(problem: Problem, x: np.ndarray, direction: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Gradients (points, n) at `NEARBY` coordinates along a direction; nan where the simulation breaks down."""
    found = []
    for offset in NEARBY:
        try:
            found.append(problem.evaluate(x + offset * direction).gradient if offset else middle)
        except FloatingPointError:
            found.append(np.full(x.size, np.nan))
    return np.array(found)


def switched_contacts(problem: Problem, low: np.ndarray, high: np.ndarray) -> int:
    """How many (time step, contact) pairs do at one of two points what they do not at the other."""
    pairs = zip(problem.contacts(low), problem.contacts(high), strict=True)
    return int(sum(np.count_nonzero(a.does != b.does) for a, b in pairs))


def _differences(
    problem: Problem, x: np.ndarray, direction: np.ndarray
) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Two estimates of the derivative along a direction, and their steps: Richardson's rule on the neighbouring steps
    that agree best, and the step whose differences forward and backward do.  And those to both sides, by that rule."""
    middle = problem.value(x)
    forward = [(problem.value(x + h * direction) - middle) / h for h in STEPS]
    backward = [(middle - problem.value(x - h * direction)) / h for h in STEPS]
    plain = [(a + b) / 2.0 for a, b in zip(forward, backward, strict=True)]
    finer = _extrapolated(plain, 2)
    best = int(np.argmin(np.abs(np.diff(finer))))
    even = int(np.argmin(np.abs(np.subtract(forward, backward))))
    ends = [_extrapolated(side, 1) for side in (backward, forward)]
    below, above = (side[int(np.argmin(np.abs(np.diff(side)))) + 1] for side in ends)
    return [(float(finer[best + 1]), STEPS[best + 1]), (float(plain[even]), STEPS[even])], (below, above)


def _extrapolated(values: list[float], order: int) -> list[float]:
    """Richardson's rule on values at `STEPS` whose error is of an order."""
    powers = [h**order for h in STEPS]
    return [
        (a * later - b * value) / (a - b)
        for a, b, value, later in zip(powers, powers[1:], values, values[1:], strict=False)
    ]
