"""Material values: what the user wrote, by path, as arrays that a gradient reaches."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.errors import did_you_mean
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.device import DeviceLike
from sim.model.errors import ModelError, UnknownPathError

FINITE = "(-inf, inf)"
"""Of numbers that go on smoothly below 0 by as much as a difference takes."""
INSIDE = "Keep it there: seek its logarithm, or give an optimiser bounds"


def check_interval(name: str, found: np.ndarray, bounds: str, hint: str = "Check its unit") -> None:
    """Raises unless all numbers lie in an interval written as "(0, 0.5]"; "" is no limit."""
    if not bounds:
        return
    low, high = (float(end) for end in bounds[1:-1].split(","))
    inside = (found > low if bounds[0] == "(" else found >= low) & (
        found < high if bounds[-1] == ")" else found <= high
    )
    if not inside.all():
        raise ModelError(f"{name} = {found[~inside].flat[0]:g} is outside of {bounds}", hint)


class Materials(dict[str, array]):
    """path -> array of shape (1,) or (n,).  Paths: `label.key` and `label.constraint.key`, and `gravity`.

    allowed: path -> the interval of numbers that mean something, as text such as "(0, inf)", where others would go
    unseen: a nan leaves a constraint out and a density below 0 holds a point, with a gradient of 0.
    """

    def __init__(self, real: Scalar, device: DeviceLike, requires_grad: bool) -> None:
        super().__init__()
        self._real, self._device, self._requires_grad = real, device, requires_grad
        self.allowed: dict[str, str] = {}
        self._looked_at: dict[str, int] = {}  # path -> how often its memory had been written

    def refuse_meaningless(self) -> None:
        """Raises ModelError where a value that was written since the last call is none that is allowed."""
        for path, bounds in self.allowed.items():
            value = self[path]
            if value.buffer.exported or self._looked_at.get(path) != value.buffer.version:
                check_interval(path, value.device.numpy(value), bounds, INSIDE)
                self._looked_at[path] = value.buffer.version

    def add(self, path: str, value: Any, allowed: str = "") -> array:
        """Makes the array of a value (1,) or (n,), with a last axis of 3 for vectors.  allowed: see `Materials`."""
        if allowed:
            self.allowed[path] = allowed
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
