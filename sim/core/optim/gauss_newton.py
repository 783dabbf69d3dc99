"""Gauss-Newton with Levenberg's and Marquardt's damping, within bounds, step by step.

For sums of squares of residuals r(x): the curvature is J' W J, J = dr/dx.  (K. Levenberg, 1944; D. Marquardt, "An
algorithm for least-squares estimation of nonlinear parameters", 1963; bounds by projection as in D. Bertsekas,
"Projected Newton methods", 1982.)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sim.core.optim.base import MinimizerSpec, NormalEquations
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

LOWEST, HIGHEST = 1e-9, 1e9
"""Damping, in units of the diagonal: hardly any, and so much that no step is left."""
IDLE = 3
"""After so many steps in a row that gain next to nothing it ends: it would creep along what residuals do not tell."""


class GaussNewton:
    """Minimises a sum of squares, or any increasing function of it, from values, gradients and residuals' derivatives.

    model: called once per step; see `NormalEquations`.
    max_step: no component moves further in the first step; where a step of that length is predicted well, the next may
        be twice as long, so that a poorly chosen scale of x costs a few steps and no more.
    damping: of the first step, in units of the diagonal of J' W J.
    noise: changes of the value below noise * max(1, |value|) are taken for rounding, those below twice as much for
        next to nothing.
    """

    def __init__(self, model: NormalEquations, max_step: float = np.inf, damping: float = 1e-3, noise: float = 1e-15):
        if not (max_step > 0 and damping > 0):
            raise ValueError(f"max_step = {max_step}, damping = {damping}: both must be positive")
        self.model, self.noise = model, noise
        self._first_reach = self.reach = max_step
        self._first_damping = self.damping = damping
        self.idle = 0

    def begin(self, value_and_grad: ValueAndGrad, x0: np.ndarray, bounds: Bounds = None) -> None:
        """Forget everything and evaluate the start x0 (n,)."""
        self.lower, self.upper = as_bounds(bounds, np.size(x0))
        self.x = as_start(x0, self.lower, self.upper)
        self.value, self.gradient = evaluate(value_and_grad, self.x)
        self.damping, self.reach, self.idle = self._first_damping, self._first_reach, 0

    def step(self, value_and_grad: ValueAndGrad) -> Step:
        """One step to a lower value, more damped with every trial that fails."""
        if self.idle >= IDLE:
            return Step(0.0, 0, "line_search")
        try:
            matrix, descent = self.model(self.x.copy())
        except FloatingPointError:
            return Step(0.0, 0, "non_finite")
        matrix = self._scaled(matrix, descent)
        noise = self.noise * max(1.0, abs(self.value))
        evaluations, met_finite, limit = 0, False, np.inf
        while self.damping <= HIGHEST:
            d = self._direction(matrix)
            if not d.any():
                break
            longest = float(np.max(np.abs(d)))
            if longest > limit:
                self.damping *= 4.0
                continue
            predicted = -float(self.gradient @ d + 0.5 * d @ matrix @ d)
            if not predicted > 0:  # a wall took more from the step than it could bear
                self.damping *= 4.0
                continue
            x = np.clip(self.x + d, self.lower, self.upper)
            value, gradient = evaluate(value_and_grad, x)
            evaluations += 1
            met_finite |= is_finite(value, gradient)
            gained = self.value - value
            if is_finite(value, gradient) and (gained >= 1e-4 * predicted or (predicted < noise and gained >= 0)):
                # A good prediction is trusted more in the next step, a poor one less.
                self.damping *= 0.2 if gained > 0.75 * predicted else 0.5 if gained > 0.25 * predicted else 2.0
                self.damping = max(self.damping, LOWEST)
                length = float(np.max(np.abs(x - self.x), initial=0.0))
                if length >= self.reach * (1 - 1e-9) and gained > 0.75 * predicted:
                    self.reach *= 2.0
                self.idle = self.idle + 1 if gained < 2.0 * noise else 0
                self.x, self.value, self.gradient = x, value, gradient
                return Step(length, evaluations)
            if predicted < noise:
                break
            if longest >= self.reach * (1 - 1e-9):  # more damping alone may leave it as long
                limit = 0.5 * longest
            self.damping *= 4.0
        self.damping = min(self.damping, HIGHEST)
        return Step(0.0, evaluations, "line_search" if met_finite or not evaluations else "non_finite")

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
            "damping": self.damping,
            "reach": self.reach,
            "idle": float(self.idle),
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Go on from a saved state; the following steps are the same to the bit."""
        self.x, self.gradient, self.lower, self.upper = (
            np.array(state[key], dtype=np.float64) for key in ("x", "gradient", "lower", "upper")
        )
        self.value, self.damping, self.reach = (float(np.asarray(state[key])) for key in ("value", "damping", "reach"))
        self.idle = int(float(np.asarray(state.get("idle", 0.0))))

    def _scaled(self, matrix: np.ndarray, descent: np.ndarray) -> np.ndarray:
        """The second derivative of what is minimised: J' W J with the factor that turns -J' W r into its gradient."""
        size = float(descent @ descent)
        factor = -float(self.gradient @ descent) / size if size > 0 else 1.0
        return matrix * (factor if factor > 0 else 1.0)

    def _direction(self, matrix: np.ndarray) -> np.ndarray:
        """The damped step, within the box: what would leave it stops at its wall; the others are solved for again."""
        diagonal = np.diagonal(matrix)
        damped = matrix + np.diag(self.damping * np.maximum(diagonal, 1e-12 * diagonal.max(initial=0.0)))
        d = np.zeros_like(self.x)
        fixed = np.where(self.gradient > 0, self.x <= self.lower, self.x >= self.upper)
        while not fixed.all():
            free, walls = np.flatnonzero(~fixed), np.flatnonzero(fixed)
            pull = self.gradient[free] + matrix[np.ix_(free, walls)] @ d[walls]
            d[free] = -np.linalg.lstsq(damped[np.ix_(free, free)], pull, rcond=None)[0]
            inside = np.clip(self.x + d, self.lower, self.upper) - self.x
            beyond = ~fixed & (inside != d)
            # Bounds that only rounding passes are no walls.
            beyond &= np.abs(inside - d) > 1e-12 * np.maximum(1.0, np.abs(d))
            d = inside
            if not beyond.any():
                break
            fixed |= beyond
        largest = float(np.max(np.abs(d), initial=0.0))
        return d * min(1.0, self.reach / largest) if largest > 0 else d


SPEC = MinimizerSpec(
    "gauss_newton",
    "Gauss-Newton with damping: few steps, each with one more rollout for every number that is sought",
    30,
    lambda traits, _: GaussNewton(traits.normal_equations, max_step=traits.max_step, noise=traits.noise),
    linearises=True,
)
