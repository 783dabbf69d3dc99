"""Adam or SGD as a step-wise minimiser with bounds, which backs off when the function becomes non-finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.core.optim.adam import SGD, Adam
from sim.core.optim.base import MinimizerSpec, Setting
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


class Descent:
    """One update of a rule (`Adam`, `SGD`) per step, then projection onto the bounds.

    rule: the class; settings: its arguments besides `params` (`lr=0.2, ...`).
    A step into non-finite values is undone: the search goes back to the best point so far, with half the rate and
    without the momentum that led there; after `retries` of these in one step it gives up ("non_finite").
    """

    def __init__(self, rule: type[Adam] | type[SGD] = Adam, retries: int = 10, **settings: Any):
        self.retries = retries
        self._rule: Adam | SGD = rule(None, **settings)
        self._settings = (rule, settings)

    def begin(self, value_and_grad: ValueAndGrad, x0: Any, bounds: Bounds = None) -> None:
        """Forget everything and evaluate the start x0 (n,)."""
        self.lower, self.upper = as_bounds(bounds, np.size(x0))
        self.x = as_start(x0, self.lower, self.upper)
        self.value, self.gradient = evaluate(value_and_grad, self.x)
        self._best = (self.x, self.value, self.gradient)
        rule, settings = self._settings
        self._rule = rule([self.x.copy()], **settings)

    def step(self, value_and_grad: ValueAndGrad) -> Step:
        """One update; several evaluations only where the function is non-finite."""
        x, gradient = self.x, self.gradient
        for trial in range(1, self.retries + 2):
            self._rule.params[0][...] = x
            self._rule.step([gradient])
            new = np.clip(self._rule.params[0], self.lower, self.upper)
            value, new_gradient = evaluate(value_and_grad, new)
            if is_finite(value, new_gradient):
                length = float(np.max(np.abs(new - self.x), initial=0.0))
                self.x, self.value, self.gradient = new, value, new_gradient
                if value < self._best[1]:
                    self._best = (new, value, new_gradient)
                return Step(length, trial)
            x, _, gradient = self._best
            self._rule.reset_internal_state()
            self._rule.lr *= 0.5
        return Step(0.0, self.retries + 1, "non_finite")

    def stationarity(self) -> float:
        """Max-norm of the projected gradient at x."""
        return projected_gradient_norm(self.x, self.gradient, self.lower, self.upper)

    def state_dict(self) -> State:
        """Everything that the following steps depend on, as plain arrays and scalars (copies)."""
        x, value, gradient = self._best
        own = {
            "x": self.x.copy(),
            "value": self.value,
            "gradient": self.gradient.copy(),
            "lower": self.lower.copy(),
            "upper": self.upper.copy(),
            "best_x": x.copy(),
            "best_value": value,
            "best_gradient": gradient.copy(),
        }
        return own | {f"rule.{key}": item for key, item in self._rule.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        array = {
            key: np.array(state[key], dtype=np.float64)
            for key in ("x", "gradient", "lower", "upper", "best_x", "best_gradient")
        }
        self.x, self.gradient, self.lower, self.upper = (array[k] for k in ("x", "gradient", "lower", "upper"))
        self.value = float(state["value"])
        self._best = (array["best_x"], float(state["best_value"]), array["best_gradient"])
        self._rule.set_params([self.x.copy()])
        self._rule.load_state_dict({k.removeprefix("rule."): v for k, v in state.items() if k.startswith("rule.")})


SPEC = MinimizerSpec(
    "adam",
    "Adam",
    100,
    lambda _, settings: Descent(Adam, lr=settings["rate"]),
    (Setting("rate", float, 0.1, "step in the scale of `transform`", "(0, inf)"),),
)
