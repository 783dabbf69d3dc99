"""How residuals and measured numbers change with the parameters: finite differences of whole rollouts.

One rollout per coordinate, which is cheaper than a gradient for each of thousands of residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from sim.core.lang.types import float64
from sim.identify.data.experiments import Experiment, Simulation
from sim.identify.losses.residuals import Residuals
from sim.model import Model

STEPS = {"float64": 1e-4, "float32": 1e-2}
"""Steps in coordinates by precision.  The error of one-sided differences is about as large, relative to the slope."""

ROUNDING = 1e-6
"""Change of every residual by one of a coordinate, in units of the noise, below which it is taken for rounding: a
coordinate that no recording of any length tells must not be told by that."""

Numbers = Callable[[Mapping[str, Simulation]], dict[str, float]]
"""Numbers by name that are taken from simulations."""


class Simulated(Protocol):
    """What is linearised: a `Problem`."""

    model: Model
    experiments: list[Experiment]

    @property
    def fitted(self) -> list[Experiment]:
        """The experiments that the loss counts."""

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the coordinates."""

    def simulate(self, x: Any, experiments: Sequence[Experiment] | None = None) -> dict[str, Simulation]:
        """Experiments at coordinates x."""

    def reaches(self, i: int, experiment: Experiment) -> bool:
        """Whether coordinate i can change an experiment."""

    def residuals(self, x: Any, simulations: Mapping[str, Simulation]) -> list[Residuals]:
        """What the loss at x is made of."""


@dataclass(frozen=True, eq=False)
class Linearised:
    """Residuals at coordinates x and their derivatives.

    jacobians: for each of `residuals` d values / d x, (frames, markers, 3, n).  slopes: number -> its derivative (n,).
    """

    x: np.ndarray
    residuals: list[Residuals]
    jacobians: list[np.ndarray]
    slopes: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def matrix(self) -> np.ndarray:
        """The Gauss-Newton matrix J' W J (n, n): half the second derivative of the loss, where residuals are small."""
        return self._product([part.curvature for part in self.residuals])

    @property
    def step_matrix(self) -> np.ndarray:
        """The same for a step of the search, from where residuals may be large; see `Residuals.secant`."""
        return self._product([part.secant for part in self.residuals])

    def _product(self, weights: list[np.ndarray]) -> np.ndarray:
        out = np.zeros((self.x.size, self.x.size))
        for weight, jacobian in zip(weights, self.jacobians, strict=True):
            out += np.einsum("fmai,fma,fmaj->ij", jacobian, weight, jacobian)
        return out

    @property
    def descent(self) -> np.ndarray:
        """-J' W r (n,): half the negative gradient of the loss."""
        out = np.zeros(self.x.size)
        for part, jacobian in zip(self.residuals, self.jacobians, strict=True):
            out -= np.einsum("fmai,fm,fma->i", jacobian, part.weight, part.score)
        return out


def linearise(
    problem: Simulated,
    x: Any,
    at_x: Mapping[str, Simulation] | None = None,
    numbers: Numbers | None = None,
    side: int = 1,
) -> Linearised:
    """Residuals and derivatives at coordinates x (n,), within the bounds.

    at_x: simulations at x, of the fitted experiments at least, if they are there already; with `numbers` they have to
    be of all experiments.  side: of the differences, where bounds leave a choice.  Raises FloatingPointError where a
    rollout breaks down.
    """
    x = np.asarray(x, dtype=np.float64)
    wanted = problem.fitted if numbers is None else problem.experiments
    base = problem.simulate(x, wanted) if at_x is None else at_x
    residuals = problem.residuals(x, base)
    known = numbers(base) if numbers is not None else {}
    jacobians = [np.zeros((*part.values.shape, x.size)) for part in residuals]
    slopes = {name: np.zeros(x.size) for name in known}
    for i, step in enumerate(_steps(problem, x, side)):
        moved = x.copy()
        moved[i] += step
        step = moved[i] - x[i]  # as it was rounded
        there = {**base, **problem.simulate(moved, [e for e in wanted if problem.reaches(i, e)])}
        for jacobian, part, other in zip(jacobians, residuals, problem.residuals(moved, there), strict=True):
            jacobian[..., i] = (other.in_units_of(part).values - part.values) / step
        for name, value in numbers(there).items() if numbers is not None else ():
            slopes[name][i] = (value - known[name]) / step
        if max((float(np.max(np.abs(j[..., i]), initial=0.0)) for j in jacobians), default=0.0) < ROUNDING:
            for jacobian in jacobians:
                jacobian[..., i] = 0.0
    return Linearised(x, residuals, jacobians, slopes)


def central(
    problem: Simulated, found: Linearised, at_x: Mapping[str, Simulation] | None = None, numbers: Numbers | None = None
) -> Linearised:
    """What was linearised, by differences to both sides: their error is of second order in the step.

    One-sided ones tell apart what the same change of the motion explains, by what is of second order in each.
    """
    other = linearise(problem, found.x, at_x, numbers, side=-1)
    return replace(
        found,
        jacobians=[0.5 * (a + b) for a, b in zip(found.jacobians, other.jacobians, strict=True)],
        slopes={name: 0.5 * (slope + other.slopes[name]) for name, slope in found.slopes.items()},
    )


def step_of(problem: Simulated) -> float:
    """The step of differences, in coordinates."""
    return STEPS["float64" if problem.model.dtype is float64 else "float32"]


def _steps(problem: Simulated, x: np.ndarray, side: int) -> np.ndarray:
    """A step (n,) for each coordinate to the side, away from a bound that is near."""
    lower, upper = problem.bounds
    there, away = x + side * step_of(problem), x - side * step_of(problem)
    kept = ((lower <= there) & (there <= upper)) | (away < lower) | (upper < away)
    return np.where(kept, side, -side) * step_of(problem)
