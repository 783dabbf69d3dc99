"""What the step-wise minimisers have in common: the protocol, box bounds, a measure of convergence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

ValueAndGrad = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""x (n,) -> value, gradient (n,); may be non-finite, or raise FloatingPointError, where the function breaks down."""

State = dict[str, Any]
"""A flat dictionary of NumPy arrays and plain scalars, so that `numpy.savez` and back is exact to the bit."""

Bounds = tuple[Any, Any] | None
"""(lower, upper), each a number, an array (n,) or None; infinities mean "open"."""


@dataclass(frozen=True)
class Step:
    """One iteration of a minimiser.

    length: max-norm of the change of x.  evaluations: how many calls of the function it took.
    stopped: None after a step; else "line_search" (no step lowers the value any further) or "non_finite" (every trial
    was non-finite), and then x, value and gradient are what they were.
    """

    length: float
    evaluations: int
    stopped: str | None = None


class Minimizer(Protocol):
    """A minimiser that is driven one step at a time and whose whole memory can be saved between two steps."""

    x: np.ndarray
    value: float
    gradient: np.ndarray

    def begin(self, value_and_grad: ValueAndGrad, x0: np.ndarray, bounds: Bounds = None) -> None:
        """Forget everything and evaluate the start."""

    def step(self, value_and_grad: ValueAndGrad) -> Step:
        """Take one step from x."""

    def stationarity(self) -> float:
        """Max-norm of the projected gradient at x."""

    def state_dict(self) -> State:
        """A copy of everything that the following steps depend on."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; `begin` is not needed then."""


def as_bounds(bounds: Bounds, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds as float64 arrays (n,), with infinities where there is none."""
    if bounds is not None and (not isinstance(bounds, tuple) or len(bounds) != 2):
        raise ValueError(
            "bounds is one tuple (lower, upper) of numbers or arrays, not a list of pairs as in SciPy; infinities mean"
            " open"
        )
    lower, upper = (None, None) if bounds is None else bounds
    low = np.broadcast_to(np.asarray(-np.inf if lower is None else lower, dtype=np.float64), (n,)).copy()
    high = np.broadcast_to(np.asarray(np.inf if upper is None else upper, dtype=np.float64), (n,)).copy()
    wrong = np.flatnonzero(~(low <= high))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(f"bounds[{i}]: lower {low[i]} is not below upper {high[i]}")
    return low, high


def as_start(x0: Any, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The start as a float64 copy inside the bounds; a start outside is an error, not silently moved."""
    x = np.array(x0, dtype=np.float64)
    wrong = np.flatnonzero(~((x >= lower) & (x <= upper)))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(f"x0[{i}] = {x[i]} is outside its bounds [{lower[i]}, {upper[i]}]; choose a start within")
    return x


def evaluate(value_and_grad: ValueAndGrad, x: np.ndarray) -> tuple[float, np.ndarray]:
    """Call the function on a copy of x; a breakdown comes back as nan, a wrong shape as an error."""
    try:
        value, gradient = value_and_grad(x.copy())
    except FloatingPointError:
        return float("nan"), np.full(x.shape, np.nan)
    gradient = np.array(gradient, dtype=np.float64)
    if gradient.shape != x.shape:
        raise ValueError(f"value_and_grad returned a gradient of shape {gradient.shape} for x of shape {x.shape}")
    return float(value), gradient


def is_finite(value: float, gradient: np.ndarray) -> bool:
    """Are the value and all of the gradient finite?"""
    return bool(np.isfinite(value) and np.isfinite(gradient).all())


def projected_gradient_norm(x: np.ndarray, gradient: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """max |P(x - g) - x|: zero exactly at a stationary point of the bounded problem."""
    return float(np.max(np.abs(np.clip(x - gradient, lower, upper) - x), initial=0.0))
