"""Many arrays, one after the other, in one: one operation of a tape, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.operations import Copy, GradientOf, Operation, perform
from sim.core.runtime.devices.graph import capturing


def concatenate(dest: array, parts: Sequence[array]) -> None:
    """dest = the elements of `parts`, packed arrays of one dimension, in order; differentiable.

    Where a graph captures it, or forward mode looks on, it is a copy for each part.
    """
    if capturing() is None and observers.current() is None:
        perform(_Concatenate(dest, parts))
        return
    for view, part in zip(_views(dest, parts), parts, strict=True):
        perform(Copy(view, part))


class _Concatenate(Operation):
    """dest = its parts."""

    name = "concatenation"

    def __init__(self, dest: array, parts: Sequence[array]) -> None:
        Copy.check_forms(dest.dtype, parts[0].dtype, dest.shape, (sum(p.size for p in parts),))
        self.dest, self.parts = dest, parts
        self.reads, self.writes = tuple(parts), (dest,)

    def check(self) -> None:
        for part in self.parts:
            Copy.check_gradients(self.dest, part)

    def run(self) -> None:
        device = self.dest.device
        if device.is_cpu:
            np.concatenate([device.numpy(part) for part in self.parts], out=device.numpy(self.dest))
            return
        for view, part in zip(_views(self.dest, self.parts), self.parts, strict=True):
            device.copy(view, part)

    def adjoint(self, gradient_of: GradientOf) -> None:
        after = gradient_of(self.dest)
        if after is None:
            return
        device = self.dest.device
        for view, part in zip(_views(after, self.parts), self.parts, strict=True):
            before = gradient_of(part)
            if before is not None:
                device.add(before, view)
        device.clear(after)


def _views(whole: array, parts: Sequence[array]) -> list[array]:
    """The elements of each part."""
    ends = list(accumulate(part.size for part in parts))
    return [whole[end - part.size : end] for end, part in zip(ends, parts, strict=True)]
