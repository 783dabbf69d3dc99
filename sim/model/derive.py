"""From material values to what the solver reads: kernels, launched on the tape, so that gradients flow back.

A `Derivation` is one such launch and knows when its inputs have changed.  All kernels store each element at most once
per launch; a value of shape (1,) is read by all threads, and its gradient is their sum.
"""

# Annotations of kernels are types made per precision: they are evaluated here, not postponed.
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sim.core.lang.builtins import tid, where
from sim.core.lang.library.vector import cross, normalize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.array import array
from sim.core.runtime.kernel import Kernel, kernel
from sim.core.runtime.launch import launch


@dataclass(frozen=True)
class Kernels:
    """The kernels for one precision."""

    spread: Kernel
    spread_vec3: Kernel
    spread_direction: Kernel
    invert: Kernel
    place: Kernel
    gather: Kernel


@cache
def kernels(real: Scalar) -> Kernels:
    """The kernels for float32 or float64."""
    vec3 = vector(3, real)

    @kernel
    def spread(value: array[real], source: array[int], factor: array[real], target: array[int], out: array[real]):
        """out[target[k]] = value[source[k]] factor[k]."""
        k = tid()
        out[target[k]] = value[source[k]] * factor[k]

    @kernel
    def spread_vec3(value: array[vec3], source: array[int], target: array[int], out: array[vec3]):
        """out[target[k]] = value[source[k]]."""
        k = tid()
        out[target[k]] = value[source[k]]

    @kernel
    def spread_direction(value: array[vec3], source: array[int], target: array[int], out: array[vec3]):
        """out[target[k]] = value[source[k]] / |value[source[k]]|."""
        k = tid()
        out[target[k]] = normalize(value[source[k]])

    @kernel
    def invert(mass: array[real], free: array[real], inv_mass: array[real]):
        """inv_mass[i] = free[i] / mass[i], 0 where the mass is not positive."""
        i = tid()
        inv_mass[i] = where(mass[i] > 0.0, free[i] / mass[i], 0.0)

    @kernel
    def place(
        base: array[vec3], position: array[vec3], velocity: array[vec3], stride: int, spin: array[vec3], center: vec3,
        free: array[real], q: array[vec3], qd: array[vec3],
    ):
        """q = base + position; qd = free (velocity + spin x (base - center))."""
        k = tid()
        q[k] = base[k] + position[0]
        qd[k] = (velocity[k * stride] + cross(spin[0], base[k] - center)) * free[k]

    @kernel
    def gather(q: array[vec3], point: array[int], anchor: array[vec3]):
        """anchor[k] = q[point[k]]."""
        k = tid()
        anchor[k] = q[point[k]]

    return Kernels(spread, spread_vec3, spread_direction, invert, place, gather)


@cache
def spread_rows(real: Scalar, rows: int) -> Kernel:
    """As `spread`, into a vector of `rows` equal entries: the compliance of a constraint of several rows."""
    row = vector(rows, real)

    @kernel
    def spread_to_rows(value: array[real], source: array[int], factor: array[real], target: array[int], out: array[row]):
        k = tid()
        out[target[k]] = row(value[source[k]] * factor[k])

    return spread_to_rows


class Derivation:
    """One launch that derives `outputs` from `inputs`.  It is due when one of `values` or of `derived` was written.

    values: material values; derived: results of earlier derivations.
    """

    def __init__(self, kernel: Kernel, dim: int, inputs: Sequence[Any], outputs: Sequence[array],
                 values: Sequence[array] = (), derived: Sequence[array] = ()) -> None:
        self.kernel, self.dim = kernel, dim
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._values, self._derived = list(values), list(derived)
        self._seen: tuple[Any, ...] | None = None

    def due(self) -> bool:
        """Whether what it depends on was written since the last run."""
        return self._seen is None or self._state() != self._seen

    def run(self) -> None:
        """Launches the kernel, on the tape if one is open."""
        launch(self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs)
        self._seen = self._state()

    def _state(self) -> tuple[Any, ...]:
        # Memory that NumPy reaches may change without a count of the writes: then the values themselves are compared.
        exported = [a.device.numpy(a).tobytes() for a in self._values if a.buffer.exported]
        return (*[a.buffer.version for a in self._values], *[a.buffer.version for a in self._derived], *exported)


def spreading(
    real: Scalar, value: array, count: int, chosen: np.ndarray, target: np.ndarray, out: array, *,
    factor: np.ndarray | None = None, direction: bool = False,
    make: Callable[[np.ndarray, Any], array],
) -> Derivation:
    """The derivation of `out[target[j]]` from the value of element `chosen[j]` of `count`.

    value: (1,) for all of them or (count,).  A scalar is multiplied by `factor` (of the chosen elements); a vec3 is
    copied, or normalised as a `direction`.  make(host, type): a constant array.
    """
    own = kernels(real)
    source = np.zeros(len(chosen), np.int32) if value.size == 1 and count != 1 else chosen.astype(np.int32)
    places = [make(source, int), make(target.astype(np.int32), int)]
    dim = len(chosen)
    if value.dtype is not real:
        use = own.spread_direction if direction else own.spread_vec3
        return Derivation(use, dim, [value, *places], [out], values=[value])
    amount = np.ones(dim) if factor is None else factor
    use = own.spread if out.dtype is real else spread_rows(real, len(out.dtype))  # type: ignore[arg-type]
    return Derivation(use, dim, [value, places[0], make(amount, real), places[1]], [out], values=[value])
