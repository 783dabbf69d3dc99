"""Material values: what the user wrote, by path, as arrays that a gradient reaches."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.errors import did_you_mean
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.device import DeviceLike
from sim.model.errors import UnknownPathError


class Materials(dict[str, array]):
    """path -> array of shape (1,) or (n,).  Paths: `label.key` and `label.constraint.key`, and `gravity`."""

    def __init__(self, real: Scalar, device: DeviceLike, requires_grad: bool) -> None:
        super().__init__()
        self._real, self._device, self._requires_grad = real, device, requires_grad

    def add(self, path: str, value: Any) -> array:
        """Makes the array of a value (1,) or (n,), with a last axis of 3 for vectors."""
        host = np.asarray(value, np.float64)
        dtype = self._real if host.ndim == 1 else vector(host.shape[1], self._real)
        made = array(host, dtype=dtype, device=self._device, requires_grad=self._requires_grad)
        self[path] = made
        return made

    def __missing__(self, path: Any) -> array:
        near = did_you_mean(str(path), self) if "." in str(path) else ""
        if near:
            hint = ""
        elif str(path).endswith(".damping"):
            hint = "A damping of 0 makes no value; give it a positive one to begin with"
        else:
            first = str(path).split(".")[0]
            own = [p for p in self if p.split(".")[0] == first] or list(self)
            hint = f"There are: {', '.join(own[:12])}{', ...' if len(own) > 12 else ''}"
        raise UnknownPathError(f"no material value {path!r}{near}", hint)
