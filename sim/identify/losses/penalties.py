"""Terms of a loss that look at parameters alone: where they should stay, and that neighbours should be alike."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sim.identify.losses.losses import Term
from sim.identify.losses.residuals import Residuals, single
from sim.identify.parameters.transforms import Transform

Values = Mapping[str, np.ndarray]
"""Physical values of parameters by name."""


@dataclass(frozen=True)
class Penalty(Term, ABC):
    """A term that needs no simulation."""

    simulated: ClassVar[bool] = False

    @abstractmethod
    def value_and_grad(self, values: Values) -> tuple[float, dict[str, np.ndarray]]:
        """The term without its weight, and its gradient by the physical values of the parameters that it looks at."""

    @abstractmethod
    def residuals(self, values: Values) -> Residuals:
        """The term residual by residual, without its weight."""


@dataclass(frozen=True)
class Prior(Penalty):
    """A parameter that should stay near `value`: (log(p / value) / log(factor))^2, or ((p - value) / sd)^2, mean over
    its numbers."""

    parameter: str = ""
    value: float = 0.0
    factor: float | None = None
    sd: float | None = None

    def value_and_grad(self, values: Values) -> tuple[float, dict[str, np.ndarray]]:
        p = values[self.parameter]
        r = self._off(p)
        if self.factor is not None:
            slope = 1.0 / (p * math.log(self.factor))
        else:
            assert self.sd is not None
            slope = np.full(np.shape(p), 1.0 / self.sd)
        return float(np.mean(r * r)), {self.parameter: 2.0 * r * slope / np.size(p)}

    def residuals(self, values: Values) -> Residuals:
        """How many widths the parameter is off."""
        p = values[self.parameter]
        return single(self.name, "", self._off(p), 1.0 / np.size(p))

    def _off(self, p: np.ndarray) -> np.ndarray:
        if self.factor is not None:
            return np.log(p / self.value) / math.log(self.factor)
        assert self.sd is not None
        return (p - self.value) / self.sd


@dataclass(frozen=True, eq=False)
class Smooth(Penalty):
    """Neighbours that should be alike: the mean over pairs of ((v_i - v_j) / sd)^2, v the values as the transform shows
    them.

    transforms: parameter -> its transform; v is log(p) for `log`, log((p - low) / (high - p)) for `logit`, p itself for
    `none`. pairs: (m, 2) numbers of elements, counted through the parameters, each of which has as many as its first
    axis is long, a plain number one.  Of vectors every component counts.
    """

    transforms: Mapping[str, Transform] = field(default_factory=dict)
    pairs: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), int))
    sd: float = 1.0

    def value_and_grad(self, values: Values) -> tuple[float, dict[str, np.ndarray]]:
        r = self._off(values)
        slope = np.zeros((int(self.pairs.max()) + 1, r.shape[1]))
        for end, sign in ((0, 2.0), (1, -2.0)):
            np.add.at(slope, self.pairs[:, end], sign * r / (self.sd * r.size))
        gradients, begin = {}, 0
        for name, transform in self.transforms.items():
            p = values[name]
            count = len(np.atleast_1d(p))
            u = transform.to_coordinates(p)
            rate = transform.pull_back(u, np.ones(p.shape)) / transform.scale  # dp / dv
            own = np.zeros((count, r.shape[1]))
            part = slope[begin : begin + count]
            own[: len(part)] = part  # elements behind the last pair have no neighbours
            gradients[name] = own.reshape(p.shape) / rate
            begin += count
        return float(np.mean(r * r)), gradients

    def residuals(self, values: Values) -> Residuals:
        """The differences, in units of `sd`."""
        r = self._off(values)
        return single(self.name, "", r, 1.0 / r.size)

    def _off(self, values: Values) -> np.ndarray:
        """(pairs, components)."""
        shown = [t.to_coordinates(values[name]) * t.scale for name, t in self.transforms.items()]
        v = np.concatenate([one.reshape(len(np.atleast_1d(one)), -1) for one in shown])
        return (v[self.pairs[:, 0]] - v[self.pairs[:, 1]]) / self.sd
