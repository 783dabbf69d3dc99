"""Residuals on the host: what a loss is made of, number by number, for standard errors and Gauss-Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of one term in one experiment, in units of their noise.

    values: (frames, markers, axes), three axes of places, one of an angle; the term is the sum of weight * rho(values),
    rho(r) = r^2, beyond `huber` its tangent.  weight: (frames, markers); 0 where nothing was seen.
    frames: (frames,) their numbers in the experiment.
    reference: (frames, markers) number of the frame whose observation was subtracted, -1 where none was: two residuals
    that subtract one observation have its noise in common.  observation_noise: that of one observation, where that of a
    residual is 1.  noise: unit of the values [m], or units (markers, axes).  markers: name of the markers; empty for
    what is no recording (a prior, a goal).
    offset: what noise that is estimated adds to the loss by its size; see `sim.identify.losses.noise`.
    """

    term: str
    experiment: str
    values: np.ndarray
    weight: np.ndarray
    frames: np.ndarray
    reference: np.ndarray
    markers: str = ""
    noise: float | np.ndarray = 1.0
    huber: float = math.inf
    observation_noise: float = 1.0
    offset: float = 0.0

    @property
    def score(self) -> np.ndarray:
        """Half the derivative of rho: the residuals, beyond `huber` their bound; same shape as `values`."""
        return np.clip(self.values, -self.huber, self.huber)

    @property
    def curvature(self) -> np.ndarray:
        """Half the second derivative of the loss by each residual (frames, markers, axes)."""
        return self.weight[..., None] * (np.abs(self.values) <= self.huber)

    @property
    def secant(self) -> np.ndarray:
        """As `curvature`, but never zero: weight * score / value, of a parabola that touches the loss from above.

        Gauss-Newton steps by it come down from anywhere (iteratively reweighted least squares: P. Holland, R. Welsch,
        1977), where by `curvature` residuals that are all beyond `huber` would give no step.
        """
        return self.weight[..., None] * np.minimum(1.0, self.huber / np.maximum(np.abs(self.values), 1e-300))

    @property
    def loss(self) -> float:
        """The term's value, weight included."""
        r = np.abs(self.values)
        if math.isfinite(self.huber):
            r = np.sqrt(np.where(r <= self.huber, r * r, self.huber * (2.0 * r - self.huber)))
        return float(np.sum(self.weight[..., None] * r * r)) + self.offset

    @property
    def own_variance(self) -> np.ndarray:
        """Variance of each residual (frames, markers) by the noise: of a difference of two observations the sum of
        theirs."""
        return self.observation_noise**2 * (1.0 + (self.reference >= 0))

    def in_units_of(self, other: Residuals) -> Residuals:
        """The same over the noise of others, which may have been estimated at other parameters."""
        if self.noise is other.noise:
            return self
        return replace(self, values=self.values * (np.asarray(self.noise) / other.noise), noise=other.noise)

    def times(self, factor: float) -> Residuals:
        """With another weight."""
        return replace(self, weight=factor * self.weight, offset=factor * self.offset)

    def of_observations(self, y: np.ndarray) -> np.ndarray:
        """What residuals' coefficients y (frames, markers, axes, ...) are for the observations, of independent noise.

        Returns (all frames up to the last, markers, axes, ...).
        """
        out = np.zeros((int(self.frames.max(initial=0)) + 1, *y.shape[1:]))
        marker = np.broadcast_to(np.arange(y.shape[1]), y.shape[:2])
        frame = np.broadcast_to(self.frames[:, None], y.shape[:2])
        np.add.at(out, (frame, marker), self.observation_noise * y)
        relative = self.reference >= 0
        np.add.at(out, (self.reference[relative], marker[relative]), -self.observation_noise * y[relative])
        return out


def single(term: str, experiment: str, values: np.ndarray, weight: float) -> Residuals:
    """Residuals (n,) that belong to no recording: a goal's, a prior's; each has the weight."""
    flat = np.asarray(values, dtype=np.float64).reshape(1, -1, 1)
    shape = flat.shape[:2]
    return Residuals(term, experiment, flat, np.full(shape, weight), np.zeros(1, np.int32), np.full(shape, -1))
