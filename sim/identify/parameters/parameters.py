"""Parameters of a problem, and their bindings to the material values of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.identify.parameters.transforms import Transform

COMPONENTS = {3: ("x", "y", "z"), 6: ("xx", "yy", "zz", "xy", "xz", "yz")}
"""Names of the components of values of several numbers, by how many they are."""


@dataclass(frozen=True, eq=False)
class Binding:
    """A material value that follows a parameter: factor times the parameter.

    path: of the value in the model.  elements: (n,) bool, those elements of the value that follow, or components,
    (1, 3) bool; None: all of it.  place: the path in the scene of the same value; empty: a scene has none.
    """

    path: str
    factor: float = 1.0
    elements: np.ndarray | None = None
    place: str = ""

    def scatter(self, value: np.ndarray, below: np.ndarray) -> np.ndarray:
        """The material value, in the shape of `below`, which stands where it does not follow the parameter."""
        out = np.broadcast_to(self.factor * value, below.shape)
        return out.copy() if self.elements is None else np.where(self.elements, out, below)

    def pull_back(self, gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The gradient by the parameter, in its shape, from that by the material value: the transpose of `scatter`."""
        own = gradient if self.elements is None else gradient[self.elements]
        total = own.reshape(shape) if own.size == np.prod(shape, dtype=int) else own.sum()
        return self.factor * total


@dataclass(frozen=True, eq=False)
class Parameter:
    """A quantity to be identified.

    start: physical start value, a number or an array; with `experiments` given, one value for each of them (axis 0).
    bindings: the material values that follow it; two of one path have no element in common.  unit, transform, bounds:
    as in the scene.  per: what has its own value, as in the scene.  start_place: the path in the scene of its own
    `start`, which goes before the values of its bindings.
    """

    name: str
    start: np.ndarray
    bindings: Sequence[Binding]
    transform: Transform
    unit: str = ""
    bounds: tuple[float | None, float | None] = (None, None)
    experiments: tuple[str, ...] = ()
    per: str = "scene"
    start_place: str = ""

    @property
    def reach(self) -> int:
        """How many of its numbers one experiment depends on."""
        return self.start.size // max(1, len(self.experiments))

    @property
    def places(self) -> dict[str, float]:
        """The paths of the scene that set it -> factor on its value there."""
        own = {b.place: b.factor for b in self.bindings if b.place}
        return own | ({self.start_place: 1.0} if self.start_place else {})

    @property
    def labels(self) -> list[str]:
        """Names of its numbers, in its array's order: `v.x` of vectors, `I.xy` of inertia, `k[a]` by experiment, `k[3]`
        by element."""
        shape = np.shape(self.start)
        own = shape[1:] if self.experiments else shape
        components = COMPONENTS.get(own[-1], ()) if own else ()
        vector = bool(components) and (len(own) > 1 or self.per not in ("element", "point"))
        out = []
        for index in np.ndindex(*shape):
            words: list[str] = [str(i) for i in (index[:-1] if vector else index)]
            if self.experiments:
                words[0] = self.experiments[index[0]]
            out.append(
                self.name + (f"[{', '.join(words)}]" if words else "") + (f".{components[index[-1]]}" if vector else "")
            )
        return out

    def of(self, value: np.ndarray, experiment: str) -> np.ndarray:
        """The value in one experiment."""
        return value[self.experiments.index(experiment)] if self.experiments else value
