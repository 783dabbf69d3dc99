"""Bounded limited-memory BFGS, step by step.

The method of Byrd, Lu, Nocedal & Zhu, "A limited memory algorithm for bound constrained optimization" (1995), with
the projection of Morales & Nocedal (2011) in place of the truncated subspace step, written for functions whose every
evaluation is a simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.optim.base import MinimizerSpec
from sim.core.optim.line_search import LineSearchResult, Trial, wolfe_search
from sim.core.optim.minimizer import (
    Bounds,
    State,
    Step,
    ValueAndGrad,
    as_bounds,
    as_start,
    evaluate,
    is_finite,
    projected_gradient_norm,
)
from sim.core.optim.quadratic_model import QuadraticModel


@dataclass(frozen=True)
class MinimizeResult:
    """What `LBFGS.minimize` found.

    stopped_because: "gradient", "iterations", "callback", "line_search" (no step lowers the value any further) or
    "non_finite".
    """

    x: np.ndarray
    value: float
    gradient: np.ndarray
    iterations: int
    evaluations: int
    stopped_because: str


class LBFGS:
    """Minimises a smooth function of n numbers within bounds, from its values and gradients.

    memory: how many past steps shape the estimate of the second derivative.
    first_step: the first trial moves no component by more than this, so scale x such that one is a bold step.
    max_step: the same limit for all later steps.
    noise: changes of the value below noise * max(1, |value|) are taken for rounding.
    """

    def __init__(self, memory: int = 10, first_step: float = 1.0, max_step: float = np.inf, noise: float = 1e-15):
        if memory < 1:
            raise ValueError(f"memory = {memory}: keep at least one past step")
        if not (first_step > 0 and max_step > 0):
            raise ValueError(f"first_step = {first_step}, max_step = {max_step}: both must be positive")
        self.memory = memory
        self.first_step = first_step
        self.max_step = max_step
        self.noise = noise

    def minimize(
        self,
        value_and_grad: ValueAndGrad,
        x0: Any,
        bounds: Bounds = None,
        iterations: int = 100,
        gradient_tolerance: float = 1e-8,
        callback: Callable[[LBFGS], Any] | None = None,
    ) -> MinimizeResult:
        """Minimise from x0 (n,) within bounds = (lower, upper); the value never rises.

        gradient_tolerance: stop when no component of the projected gradient is larger.  callback(self): called after
        every step; a true answer stops.
        """
        self.begin(value_and_grad, x0, bounds)
        if not is_finite(self.value, self.gradient):
            raise FloatingPointError(f"the value or the gradient is not finite at the start x0 = {self.x}")
        evaluations, done, why = 1, 0, "iterations"
        while done < iterations:
            if self.stationarity() <= gradient_tolerance:
                why = "gradient"
                break
            step = self.step(value_and_grad)
            evaluations += step.evaluations
            if step.stopped:
                why = step.stopped
                break
            done += 1
            if callback is not None and callback(self):
                why = "callback"
                break
        else:
            why = "gradient" if self.stationarity() <= gradient_tolerance else why
        return MinimizeResult(self.x.copy(), self.value, self.gradient.copy(), done, evaluations, why)

    def begin(self, value_and_grad: ValueAndGrad, x0: Any, bounds: Bounds = None) -> None:
        """Forget everything and evaluate the start x0 (n,)."""
        n = np.size(x0)
        self.lower, self.upper = as_bounds(bounds, n)
        self.x = as_start(x0, self.lower, self.upper)
        self.value, self.gradient = evaluate(value_and_grad, self.x)
        self._forget()

    def step(self, value_and_grad: ValueAndGrad) -> Step:
        """One step to a lower value; an exception on the way leaves x, value and gradient as they were."""
        found = self._search(value_and_grad)
        evaluations = found.evaluations
        if found.trial is None and len(self._s):
            # A poor model of the curvature is the usual reason; the gradient alone knows better.
            self._forget()
            found = self._search(value_and_grad)
            evaluations += found.evaluations
        if found.trial is None:
            return Step(0.0, evaluations, "non_finite" if found.all_non_finite and evaluations else "line_search")
        x, value, gradient = found.trial.point
        self._remember(x - self.x, gradient - self.gradient)
        length = float(np.max(np.abs(x - self.x)))
        self.x, self.value, self.gradient = x, value, gradient
        return Step(length, evaluations)

    def stationarity(self) -> float:
        """Max-norm of the projected gradient at x."""
        return projected_gradient_norm(self.x, self.gradient, self.lower, self.upper)

    def state_dict(self) -> State:
        """Everything that the following steps depend on, as plain arrays and scalars (copies)."""
        return {
            "x": self.x.copy(),
            "value": self.value,
            "gradient": self.gradient.copy(),
            "lower": self.lower.copy(),
            "upper": self.upper.copy(),
            "steps": self._s.copy(),
            "changes": self._y.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; the following steps are the same to the bit."""
        array = {key: np.array(item, dtype=np.float64, order="C") for key, item in state.items()}
        self.x, self.value, self.gradient = array["x"], float(array["value"]), array["gradient"]
        self.lower, self.upper = array["lower"], array["upper"]
        self._s, self._y = array["steps"], array["changes"]

    def _forget(self) -> None:
        """Start the curvature model anew."""
        self._s = np.zeros((0, self.x.size))
        self._y = np.zeros((0, self.x.size))

    def _remember(self, s: np.ndarray, y: np.ndarray) -> None:
        """Add a step and its change of gradient, oldest out; not where the curvature was not clearly positive."""
        if s @ y > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            self._s = np.concatenate([self._s, s[None]])[-self.memory :]
            self._y = np.concatenate([self._y, y[None]])[-self.memory :]

    def _direction(self) -> np.ndarray:
        """From x to the minimum of the quadratic model within bounds."""
        if len(self._s):
            try:
                theta = float(self._y[-1] @ self._y[-1]) / float(self._s[-1] @ self._y[-1])
                model = QuadraticModel(self._s, self._y, theta)
                d: np.ndarray = model.minimum(self.x, self.gradient, self.lower, self.upper) - self.x
                if np.isfinite(d).all() and self.gradient @ d < 0:
                    return d
            except np.linalg.LinAlgError:
                pass  # nearly dependent past steps: the model cannot be solved
            self._forget()
        moves = np.where(self.gradient < 0, self.x < self.upper, self.x > self.lower)
        theta = max(1.0, float(np.max(np.abs(self.gradient[moves]), initial=0.0)) / self.first_step)
        model = QuadraticModel(self._s, self._y, theta)
        d = model.minimum(self.x, self.gradient, self.lower, self.upper) - self.x
        return d

    def _search(self, value_and_grad: ValueAndGrad) -> LineSearchResult:
        """Direction and line search from x; see `wolfe_search` for what comes back."""
        d = self._direction()
        slope = float(self.gradient @ d)
        if not slope < 0:
            return LineSearchResult(None, 0, False)
        noise = self.noise * max(1.0, abs(self.value))
        start = Trial(0.0, self.value, slope)
        # Where a component would reach its bound; the step ends at the first of these.
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(d > 0, (self.upper - self.x) / d, np.where(d < 0, (self.lower - self.x) / d, np.inf))
        limit = float(min(np.min(reach), self.max_step / np.max(np.abs(d))))

        def trial(a: float) -> Trial:
            x = np.where(reach <= a * (1 + 1e-12), np.where(d > 0, self.upper, self.lower), self.x + a * d)
            value, gradient = evaluate(value_and_grad, x)
            if not is_finite(value, gradient):
                return Trial(a, np.nan, np.nan)
            return Trial(a, value, float(gradient @ d), (x, value, gradient))

        return wolfe_search(trial, start, 1.0, limit, noise)


SPEC = MinimizerSpec(
    "lbfgs", "L-BFGS with bounds", 30, lambda traits, _: LBFGS(max_step=traits.max_step, noise=traits.noise)
)
