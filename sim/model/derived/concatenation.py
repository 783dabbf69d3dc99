"""Many arrays, one after the other, in one: one operation of a tape, however many there are.

On the CPU it is one launch, of a kernel that knows the arrays by their addresses; on a GPU a copy for each.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, scalar_of, size_of, uint64
from sim.core.runtime.ambient import observers
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.operations import Copy, GradientOf, Operation, perform
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch


@memoize
def _kernels(real: Scalar) -> tuple[Kernel, Kernel]:
    """From numbers at places (n,) to those at one address, and back: added, and taken from there."""

    @kernel(name="concatenate")
    def collect(place: array[uint64], whole: uint64):
        k = tid()
        here, there = array(ptr=whole, shape=place.shape[0], dtype=real), array(ptr=place[k], shape=1, dtype=real)
        here[k] = there[0]

    @kernel(name="give_back")
    def give(place: array[uint64], whole: uint64):
        k = tid()
        here = array(ptr=whole, shape=place.shape[0], dtype=real)
        if place[k] > uint64(0):
            there = array(ptr=place[k], shape=1, dtype=real)
            there[0] += here[k]
        here[k] = real(0.0)

    return collect, give


class Concatenation(Operation):
    """whole = the elements of `parts`, arrays of one dimension, in order."""

    name = "concatenation"

    def __init__(self, whole: array, parts: Sequence[array]) -> None:
        Copy.check_forms(whole.dtype, parts[0].dtype, whole.shape, (sum(part.size for part in parts),))
        self.whole, self.parts = whole, parts
        self.reads, self.writes = tuple(parts), (whole,)
        self._real = scalar_of(whole.dtype)
        numbers = [part.nbytes // size_of(self._real) for part in parts]
        self._part = np.repeat(np.arange(len(parts)), numbers)
        self._offset = np.concatenate([np.arange(n) * size_of(self._real) for n in numbers])
        self._bytes = np.array([part.nbytes for part in parts])
        ends = list(accumulate(part.size for part in parts))
        self._spans = [slice(end - part.size, end) for end, part in zip(ends, parts, strict=True)]
        self._places = self._placed([part.ptr or 0 for part in parts])
        self._gradients: tuple[list[int], array | None] = [], None
        """The addresses of the gradients of the parts, when they were last wanted, and what is made of them."""

    def do(self) -> None:
        """Does it, with all that belongs to a write.  Captured, or where forward mode looks on, it is copies."""
        if not _looked_at():
            perform(self)
            return
        for span, part in zip(self._spans, self.parts, strict=True):
            perform(Copy(self.whole[span], part))

    def check(self) -> None:
        if not self.whole.requires_grad:
            for part in self.parts:
                Copy.check_gradients(self.whole, part)

    def carries(self) -> bool:
        return any(a.requires_grad for a in (self.whole, *self.parts))

    def run(self) -> None:
        device = self.whole.device
        if device.is_cpu:
            collect, _ = _kernels(self._real)
            launch(collect, self._places.size, [self._places, self.whole.ptr], record_tape=False)
            return
        for span, part in zip(self._spans, self.parts, strict=True):
            device.copy(self.whole[span], part)

    def adjoint(self, gradient_of: GradientOf) -> None:
        after = gradient_of(self.whole)
        if after is None:
            return
        gradients = [gradient_of(part) for part in self.parts]
        at_once = after.device.is_cpu and not _looked_at()
        places = self._gradient_places(gradients) if at_once else None
        if places is not None:
            _, give = _kernels(self._real)
            launch(give, places.size, [places, after.ptr], record_tape=False)
            return
        for span, before in zip(self._spans, gradients, strict=True):
            if before is not None:
                before.device.add(before, after[span])
        after.device.clear(after)

    def _gradient_places(self, gradients: Sequence[array | None]) -> array | None:
        """Where each number has its gradient, 0 for none; None where one launch cannot add to all of them."""
        addresses = [0 if a is None else a.ptr or 0 for a in gradients]
        known, places = self._gradients
        if addresses != known:
            first = np.array(addresses, np.int64)
            order = np.argsort(first)
            order = order[first[order] > 0]
            overlap = np.any(first[order][1:] < (first + self._bytes)[order][:-1])
            elsewhere = any(a is not None and a.device is not self.whole.device for a in gradients)
            places = None if overlap or elsewhere else self._placed(addresses)
            self._gradients = addresses, places
        return places

    def _placed(self, addresses: Sequence[int]) -> array:
        first = np.array(addresses, np.uint64)[self._part]
        there = np.where(first > 0, first + self._offset.astype(np.uint64), np.uint64(0))
        return array(there, dtype=uint64, device=self.whole.device)


def _looked_at() -> bool:
    """Whether what happens to each array is looked at: by a graph, or forward mode."""
    return capturing() is not None or observers.current() is not None
