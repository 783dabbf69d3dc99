"""From material values to what the solver reads: launches on the tape, so that gradients flow back.

A `Derivation` is one such launch and knows when its inputs have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.core.lang.types import Homogeneous
from sim.core.lang.types.structs import HostStruct
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.derived.arrays import ArrayFactory, source_of
from sim.model.derived.kernels import broadcast_rows, kernels


class Derivation:
    """One launch that derives `outputs` from `inputs`.  It is due when one of `values` or of `derived` was written.

    values: material values; derived: results of earlier derivations.
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
        self.kernel, self.dim = kernel, dim
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._values, self._derived = list(values), list(derived)
        self._seen: tuple[Any, ...] | None = None

    @property
    def sources(self) -> list[array]:
        """The arrays that the outputs depend on."""
        return [*self._values, *self._derived]

    @property
    def carries(self) -> bool:
        """Whether a gradient flows through it."""
        known = (*self.inputs, *self._values, *self._derived, *self.outputs)  # of structs nobody looks at the fields
        return any(isinstance(a, HostStruct) or (isinstance(a, array) and a.requires_grad) for a in known)

    def due(self) -> bool:
        """Whether what it depends on was written since the last run, or its kernel reads other constants, functions."""
        return self._seen is None or self._state() != self._seen or self.kernel.outdated

    def run(self) -> None:
        """Launches the kernel, on the tape if one is open."""
        launch(self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs)
        self._seen = self._state()

    def _state(self) -> tuple[Any, ...]:
        # Memory that NumPy reaches may change without a count of the writes: then the values themselves are compared.
        exported = [a.device.numpy(a).tobytes() for a in self._values if a.buffer.exported]
        return (*[a.buffer.version for a in self._values], *[a.buffer.version for a in self._derived], *exported)


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
    source = make.constant(source_of(chosen, value.size, count), int)
    to = make.constant(target.astype(np.int32), int)
    if value.dtype is not real:
        use = own.broadcast_direction if direction else own.broadcast_vec3
        return Derivation(use, dim, [value, source, to], [out], values=[value])
    amount = make.constant(np.ones(dim) if factor is None else factor, real)
    use = own.broadcast
    if isinstance(out.dtype, Homogeneous):
        use = broadcast_rows(real, out.dtype.shape[0], entries or range(out.dtype.shape[0]))
    return Derivation(use, dim, [value, source, amount, to], [out], values=[value])
