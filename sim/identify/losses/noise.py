"""Noise that is not known: found with the parameters, as the size of what they leave.

Of normal residuals r of a standard deviation s that is not known, -2 log L / n is log s^2 + mean(r^2) / s^2 up to a
constant.  At its least over s it is log mean(r^2) + 1, the profiled likelihood, so that with n numbers of its own each
group of residuals counts as n log of the mean of their squares.  What parameters change of it is what they change at
the s found (the envelope theorem): residuals over s, weighted as they then are, give gradient and Gauss-Newton matrix.
Beyond `huber` squares become their tangents: s is that of the likelihood whose logarithm they are (P. Huber, 1964),
scaled so that it is right where the noise is normal.  Outliers count less in it, but they do count.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sim.identify.losses.residuals import Residuals

LEAST = 1e-6
"""Of the guess: no noise is found to be smaller, for the likelihood of a perfect fit has no end."""

LEAST_NUMBERS = 30
"""An estimate takes so many: of 30 numbers it is known to 13 %."""

GROUPINGS = {"all": "one number", "axes": "one for each axis", "markers": "one for each marker"}
"""Whose noise is found together."""


def groups_of(by: str, shape: tuple[int, int]) -> np.ndarray:
    """The number of the group (markers, axes) of each marker and axis."""
    markers, axes = shape
    rows, columns = np.indices((markers, axes))
    return {"all": np.zeros(shape, int), "axes": columns, "markers": rows}[by]


def with_noise_found(part: Residuals, by: str) -> Residuals:
    """Residuals over the noise that they themselves have, of values (frames, markers, axes) over a guess of it.

    by: a key of `GROUPINGS`.  Markers that are never seen keep the guess.
    """
    group = groups_of(by, part.values.shape[1:])
    weight = np.where(part.weight[..., None] > 0, part.weight[..., None], 0.0) * np.ones(part.values.shape)
    inside = math.erf(part.huber / math.sqrt(2.0)) if math.isfinite(part.huber) else 1.0
    size = inside * weight * part.own_variance[..., None]
    factor, offset = np.ones(group.shape), 0.0
    for k in range(int(group.max()) + 1):
        own = np.broadcast_to(group == k, part.values.shape)
        wanted = float(np.sum(size[own]))
        if wanted > 0.0:
            found = max(_scale(np.abs(part.values[own]), weight[own], wanted, part.huber), LEAST)
            factor[group == k] = found
            offset += 2.0 * wanted * math.log(found)
    return replace(part, values=part.values / factor, noise=np.asarray(part.noise) * factor, offset=offset)


def _scale(r: np.ndarray, weight: np.ndarray, wanted: float, huber: float) -> float:
    """The s at which the sum of weight * score(r / s) * r / s is `wanted`, of sizes r (n,); 0 where all r are."""
    order = np.argsort(-r)
    r, weight = r[order], weight[order]
    squares = np.append(np.cumsum((weight * r * r)[::-1])[::-1], 0.0)  # of all but the first so many
    if squares[0] == 0.0:
        return 0.0
    if not math.isfinite(huber):
        return math.sqrt(squares[0] / wanted)
    sizes = huber * np.append(0.0, np.cumsum(weight * r))  # of the first so many
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = huber / r  # 1 / s where each is cut off: the sum grows with it
        sums = squares[:-1] * reached**2 + sizes[:-1] * reached
    beyond = int(np.sum(sums[r > 0] < wanted))
    a, b = float(squares[beyond]), float(sizes[beyond])
    return (b + math.sqrt(b * b + 4.0 * a * wanted)) / (2.0 * wanted)
