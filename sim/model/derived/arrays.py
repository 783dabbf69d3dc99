"""Where the arrays of a model live, and in which precision; values that are one for all elements or one for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.lang.types import Scalar
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.device import Device


def per_element(values: np.ndarray, count: int) -> np.ndarray:
    """Values for each of `count` elements from one for all, one for each world or one for each."""
    return np.repeat(values, count // len(values), axis=0)


def source_of(chosen: np.ndarray, size: int, count: int) -> np.ndarray:
    """Where the value of elements `chosen` of `count` stands among `size`: one for all, for each world or for each."""
    return (chosen // (count // size)).astype(np.int32)


@dataclass(frozen=True)
class ArrayFactory:
    """Makes the arrays of a model: on its device, in its precision, with gradients if its values carry them."""

    device: Device
    real: Scalar
    requires_grad: bool

    def constant(self, host: np.ndarray, dtype: Any) -> array:
        """An array without a gradient."""
        return array(host, dtype=dtype, device=self.device)

    def zeros(self, count: int, dtype: Any) -> array:
        """An array of zeros."""
        return zeros(count, dtype, self.device, self.requires_grad)
