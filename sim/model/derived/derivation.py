"""From material values to what the solver reads: launches on the tape, so that gradients flow back.

A `Derivation` is one such launch and knows when its inputs have changed.  Those of one form become one: see `merging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.lang.types import Homogeneous
from sim.core.lang.types.structs import HostStruct
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import Launch, launch
from sim.model.derived.arrays import ArrayFactory, source_of
from sim.model.derived.kernels import broadcast_rows, kernels

MANY = 1 << 14
"""Threads that are worth a launch of their own: bringing large values together costs memory, and saves nothing."""


@dataclass(frozen=True, eq=False)
class Column:
    """Constants: an element for each thread of a launch."""

    host: np.ndarray
    dtype: Any

    @property
    def size(self) -> int:
        """How many."""
        return len(self.host)


@dataclass(frozen=True, eq=False)
class Picked:
    """Each thread takes an element of a value, an array or constants: two parameters of a kernel, the value and which
    of its elements (threads,)."""

    value: array | Column
    source: np.ndarray

    @classmethod
    def of(cls, value: array, chosen: np.ndarray, count: int) -> Picked:
        """The values of elements `chosen` of `count`, of one for all, for each world or for each."""
        return cls(value, source_of(chosen, value.size, count))


class Update:
    """Makes `outputs` of `values`, material values, and of `derived`, results of earlier steps."""

    def __init__(self, outputs: Sequence[array], values: Sequence[array], derived: Sequence[array]) -> None:
        self.outputs, self.values, self.derived = list(outputs), list(values), list(derived)
        self._seen: tuple[Any, ...] | None = None

    @property
    def sources(self) -> list[array]:
        """The arrays that the outputs depend on."""
        return [*self.values, *self.derived]

    @property
    def carries(self) -> bool:
        """Whether a gradient flows through it."""
        return any(a.requires_grad for a in (*self.sources, *self.outputs))

    def due(self) -> bool:
        """Whether one of its values or of what is derived was written since the last run."""
        return self._seen is None or self._state() != self._seen

    def run(self) -> None:
        """Does it, on the tape if one is open."""
        self._perform()
        self._seen = self._state()

    def record(self) -> None:
        """It is not due: the open tape takes note of it, as of one that runs now."""
        self.run()

    def _perform(self) -> None:
        raise NotImplementedError

    def _state(self) -> tuple[Any, ...]:
        # Memory that NumPy reaches may change without a count of the writes: then the values themselves are compared.
        exported = [a.device.numpy(a).tobytes() for a in self.values if a.buffer.exported]
        return (*[a.buffer.version for a in self.values], *[a.buffer.version for a in self.derived], *exported)


class Derivation(Update):
    """One launch that derives `outputs` from `inputs`.

    inputs: the arguments of the kernel in order; arrays among them serve all threads, what differs between threads is a
    `Column` or `Picked`.  Columns are arrays only once it is `merged`.
    values: material values that are not `Picked`.  Derivations store elements of their own; one that stores anew what
    another has derived has that among `derived`.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: int,
        inputs: Sequence[Any],
        outputs: Sequence[array],
        values: Sequence[array] = (),
        derived: Sequence[array] = (),
    ) -> None:
        picked = [a.value for a in inputs if isinstance(a, Picked) and isinstance(a.value, array)]
        super().__init__(outputs, [*values, *picked], derived)
        self.kernel, self.dim, self.inputs = kernel, dim, list(inputs)
        self._launch: Launch | None = None  # recorded, as long as its kernel reads the same constants and functions

    @property
    def carries(self) -> bool:
        """See `Update`."""
        known = (*self.inputs, *self.sources, *self.outputs)  # of structs nobody looks at the fields
        return any(isinstance(a, HostStruct) or (isinstance(a, array) and a.requires_grad) for a in known)

    def due(self) -> bool:
        """See `Update`; or its kernel reads other constants, functions."""
        return super().due() or self.kernel.outdated

    @property
    def form(self) -> tuple[object, ...]:
        """That of others that may be one launch with it."""
        if self.dim > MANY or not any(isinstance(a, (Column, Picked)) for a in self.inputs):
            return (self,)
        return self.kernel, *map(_form, self.inputs), *map(id, self.outputs)

    def record(self) -> None:
        """See `Update`."""
        if self._launch is None:
            self.run()
        else:
            self._launch.record_again()

    def _perform(self) -> None:
        if self._launch is None or self.kernel.outdated:
            self._launch = launch(self.kernel, self.dim, self.inputs, self.outputs, record_cmd=True)
        assert self._launch is not None, "asked to be recorded"
        self._launch.launch()


def _form(argument: Any) -> object:
    if isinstance(argument, Column):
        return Column
    if isinstance(argument, Picked):
        return Picked, isinstance(argument.value, array)
    return ("number", argument) if isinstance(argument, (int, float)) else id(argument)


def broadcast(
    make: ArrayFactory,
    value: array,
    count: int,
    chosen: np.ndarray,
    target: np.ndarray,
    out: array,
    *,
    factor: np.ndarray | None = None,
    direction: bool = False,
    entries: range | None = None,
) -> Derivation:
    """The derivation of `out[target[j]]` from the value of element `chosen[j]` of `count`.

    value: (1,) for all of them, (worlds,) or (count,).  A scalar is multiplied by `factor` (of the chosen elements); a
    vec3 is copied, or normalised as a `direction`.  entries: of `out`, where its elements are vectors.
    """
    real, dim, own = make.real, len(chosen), kernels(make.real)
    picked, to = Picked.of(value, chosen, count), Column(target, int)
    if value.dtype is not real:
        return Derivation(own.broadcast_direction if direction else own.broadcast_vec3, dim, [picked, to], [out])
    amount = Column(np.ones(dim) if factor is None else factor, real)
    use = own.broadcast
    if isinstance(out.dtype, Homogeneous):
        use = broadcast_rows(real, out.dtype.shape[0], entries or range(out.dtype.shape[0]))
    return Derivation(use, dim, [picked, amount, to], [out])
