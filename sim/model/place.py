"""Where the arrays of a model live, and in which precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.lang.types import Scalar
from sim.core.runtime.array import array
from sim.core.runtime.device import Device


@dataclass(frozen=True)
class Place:
    """Device and precision of a model, and whether its values carry gradients."""

    device: Device
    real: Scalar
    requires_grad: bool

    def constant(self, host: np.ndarray, dtype: Any) -> array:
        """An array without a gradient."""
        return array(host, dtype=dtype, device=self.device)
