"""A line search for the strong Wolfe conditions that counts every evaluation and survives non-finite values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

DECREASE = 1e-4
"""Sufficient decrease: f(a) <= f(0) + DECREASE a f'(0)  (Nocedal & Wright, Numerical Optimization, eq. 3.7a)."""
CURVATURE = 0.9
"""Flat enough: |f'(a)| <= CURVATURE |f'(0)|  (eq. 3.7b); loose, as is usual for quasi-Newton directions."""
GROWTH = 4.0
"""The longest extrapolation, relative to the last trial."""
SHRINK = 0.25
"""Back-off from a non-finite trial: there is nothing to interpolate."""


@dataclass(frozen=True)
class Trial:
    """One evaluated point of the line: step length, value, derivative along the line, and what the caller attached."""

    a: float
    value: float
    slope: float
    point: Any = None

    @property
    def finite(self) -> bool:
        """Can the point be used at all?"""
        return bool(np.isfinite(self.value) and np.isfinite(self.slope))


@dataclass(frozen=True)
class LineSearchResult:
    """The outcome: the accepted trial (None if there is none), the evaluations, and whether all of them broke down."""

    trial: Trial | None
    evaluations: int
    all_non_finite: bool


def wolfe_search(
    evaluate: Callable[[float], Trial],
    start: Trial,
    first: float,
    limit: float,
    noise: float,
    trials: int = 12,
    refinements: int = 5,
) -> LineSearchResult:
    """Look for an acceptable step 0 < a <= limit along a descent direction (Nocedal & Wright, algorithms 3.5 and 3.6).

    start: the point a = 0 (slope < 0).  first: the first trial.  noise: absolute resolution of the value.
    After `refinements` trials beyond the first sufficient decrease the best one is taken as it is: a step that
    fails the curvature condition is still a good step, and an evaluation is a whole simulation.
    """
    low, high = start, None
    a = min(first, limit)
    extra, broken = 0, 0
    for count in range(1, trials + 1):
        trial = evaluate(a)
        if not trial.finite:
            broken += 1
            high = trial
        elif trial.value > start.value + DECREASE * a * start.slope or trial.value >= low.value:
            # Where rounding hides the decrease, the slope still tells (Hager & Zhang 2005, eq. 4.1).
            hidden = low is start and abs(trial.value - start.value) <= noise
            if hidden and CURVATURE * start.slope <= trial.slope <= (2 * DECREASE - 1) * start.slope:
                return LineSearchResult(trial, count, False)
            high = trial
        elif abs(trial.slope) <= -CURVATURE * start.slope or (a == limit and trial.slope < 0):
            return LineSearchResult(trial, count, False)
        else:
            if trial.slope * (1.0 if high is None else high.a - low.a) >= 0:
                high = low
            low = trial
        extra += low is not start
        if extra > refinements:
            break
        a = _next(low, high, limit)
        if -start.slope * abs(a - low.a) < noise or abs(a - low.a) <= 1e-14 * abs(a):
            break  # what is left to gain along this line is below resolution
    return LineSearchResult(None if low is start else low, count, broken == count)


def _next(low: Trial, high: Trial | None, limit: float) -> float:
    """The next trial: interpolation inside a bracket, extrapolation while there is none."""
    if high is None:
        return min(GROWTH * low.a, limit)
    if not high.finite:
        return low.a + SHRINK * (high.a - low.a)
    guess = _cubic_minimum(low, high)
    margin = 0.1 * (high.a - low.a)
    inside = sorted((low.a + margin, high.a - margin))
    return min(max(guess, inside[0]), inside[1])


def _cubic_minimum(p: Trial, q: Trial) -> float:
    """Minimum of the cubic through two values and slopes (Nocedal & Wright, eq. 3.59); the middle if there is none."""
    d1 = p.slope + q.slope - 3 * (p.value - q.value) / (p.a - q.a)
    square = d1 * d1 - p.slope * q.slope
    if not square >= 0:
        return 0.5 * (p.a + q.a)
    d2 = float(np.copysign(np.sqrt(square), q.a - p.a))
    below = q.slope - p.slope + 2 * d2
    return 0.5 * (p.a + q.a) if below == 0 else q.a - (q.a - p.a) * (q.slope + d2 - d1) / below
