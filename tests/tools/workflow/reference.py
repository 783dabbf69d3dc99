"""What `sim` promises, said again without any of its machinery: a stand-in for `sim` that runs the same programs on
NumPy arrays.

What is recorded is bound when it is recorded (a node holds copies of all values); gradients add up until they are
cleared; a graph does again what the code did.  Rollouts are computed from their values by `models.Fresh`,
forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

USER = -1
"""In the place of the number of a tape: whoever wrote this gradient was no backward."""


class Ambiguous(Exception):
    """Nobody has said what this program is to do."""


# ------------------------------------------------------------------------------------------ arrays
@dataclass(eq=False)
class Cell:
    """Memory of numbers.  `left`: for each of them, the tape whose backward has left it there."""

    value: np.ndarray
    requires: bool = False
    gradient: Array | None = None
    left: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.full(self.value.shape, USER)


class Array:
    """Some elements of a cell: `at` are their numbers; `inner`: axes at the end that belong to an element."""

    def __init__(self, world: World, cell: Cell, at: np.ndarray, inner: int) -> None:
        self.world, self.cell, self.at, self.inner = world, cell, at, inner

    @property
    def value(self) -> np.ndarray:
        return self.cell.value[self.at]

    @value.setter
    def value(self, new: Any) -> None:
        self.cell.value[self.at] = new
        self.cell.left[self.at] = USER

    @property
    def size(self) -> int:
        return int(np.prod(self.at.shape[: self.at.ndim - self.inner]))

    @property
    def requires_grad(self) -> bool:
        return self.cell.requires

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        for tape in self.world.tapes if wanted and not self.cell.requires else ():
            if self.cell in tape.touched(tape.nodes):
                raise Ambiguous("an array gets a gradient in the middle of a recording")
        self.cell.requires = wanted
        if not wanted:
            self.cell.gradient = None

    @property
    def grad(self) -> Array | None:
        if not self.cell.requires:
            return None
        whole = self.cell.gradient
        if whole is None:
            whole = self.cell.gradient = self.world.made(np.zeros(self.cell.value.size), False)
        return Array(self.world, whole.cell, whole.at.ravel()[self.at], self.inner)

    @grad.setter
    def grad(self, other: Array | None) -> None:
        self.cell.gradient = other
        self.cell.requires = self.cell.requires or other is not None

    def __getitem__(self, key: Any) -> Array:
        return Array(self.world, self.cell, self.at[key], self.inner)

    def reshape(self, shape: Any) -> Array:
        inner = self.at.shape[self.at.ndim - self.inner :]
        return Array(self.world, self.cell, self.at.reshape((*np.atleast_1d(shape), *inner)), self.inner)

    def flatten(self) -> Array:
        return self.reshape((-1,))

    def view(self, kind: str) -> Array:
        return Array(self.world, self.cell, self.at, int(kind == "vec3d"))

    def assign(self, source: Any) -> None:
        self.world.perform(Copy(self, source) if isinstance(source, Array) else Copy(self, None, np.array(source)))

    def fill_(self, value: float) -> None:
        self.assign(np.full(self.at.shape, value))

    def zero_(self) -> None:
        self.fill_(0.0)


# ------------------------------------------------------------------------------------------ operations
class Operation:
    """Something that memory goes through.  It keeps which arrays, numbers and settings; values are looked at when it
    runs."""

    reads: list[Array]
    writes: list[Array]
    vague = False
    """Whether it may not look at all that it could read."""
    detached = False
    """Whether no tape sees it."""

    def values(self) -> list[np.ndarray]:
        """What it depends on, now."""
        return [a.value.copy() for a in self.reads]

    def run(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """New content of what it writes."""
        raise NotImplementedError

    def back(self, values: list[np.ndarray], cotangents: list[np.ndarray]) -> list[np.ndarray]:
        """Cotangents of what it reads.  What it writes begins with none: what it keeps of the old content is read
        too."""
        raise NotImplementedError


class Copy(Operation):
    """A copy, or a write of constants."""

    def __init__(
        self, target: Array, source: Array | None, data: np.ndarray | None = None, detached: bool = False
    ) -> None:
        self.reads, self.writes, self.data, self.detached = (
            [source] if source is not None else [],
            [target],
            data,
            detached,
        )

    def run(self, values: list[np.ndarray]) -> list[np.ndarray]:
        return [self.data if self.data is not None else values[0]]

    def back(self, values: list[np.ndarray], cotangents: list[np.ndarray]) -> list[np.ndarray]:
        return cotangents if self.data is None else []


class Launch(Operation):
    """A kernel, with the function and the numbers that it had when launched."""

    def __init__(self, kernel: Kernel, arrays: list[Array], bound: Bound | None = None) -> None:
        self.kernel, self.bound = kernel, bound or kernel.bind()
        self.reads, self.writes = arrays, [arrays[-1]]

    def run(self, values: list[np.ndarray]) -> list[np.ndarray]:
        return [self.kernel.run(self.bound, *values)]

    def back(self, values: list[np.ndarray], cotangents: list[np.ndarray]) -> list[np.ndarray]:
        return self.kernel.back(self.bound, *values, cotangents[0])


@dataclass(eq=False)
class Node:
    """An operation on a tape, with the values that it saw."""

    operation: Operation
    values: list[Any]

    def __post_init__(self) -> None:
        self.active = any(a.requires_grad for a in (*self.operation.reads, *self.operation.writes))

    def back(self, adjoint: dict[Cell, np.ndarray]) -> None:
        operation = self.operation
        cotangents = []
        for a in operation.writes:
            cotangents.append(adjoint[a.cell][a.at].copy())
            adjoint[a.cell][a.at] = 0.0
        if any(c.any() for c in cotangents):
            for a, c in zip(operation.reads, operation.back(self.values, cotangents), strict=True):
                np.add.at(adjoint[a.cell], a.at, c)


# ------------------------------------------------------------------------------------------ kernels
@dataclass(frozen=True)
class Shape:
    """A function of one number and its derivative."""

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]


SHAPES = {
    "squash": Shape(lambda x: x / (1 + x * x), lambda x: (1 - x * x) / (1 + x * x) ** 2),
    "soften": Shape(lambda x: 0.7 * x - 0.1 * x * x, lambda x: 0.7 - 0.2 * x),
}


@dataclass(eq=False)
class Function:
    """A function that kernels call.  factor: its derivative, where `func_grad` has set one."""

    name: str
    factor: float | None = None


Bound = tuple[float, Shape, float | None]
"""What a kernel finds outside of its arguments: a factor, a function, its derivative where `func_grad` has set one."""


class Kernels:
    """The stand-in for the module `kernels`."""

    GAIN, doubled, tripled = 1.3, 2.0, 3.0

    def __init__(self) -> None:
        self.squash, self.soften = Function("squash"), Function("soften")
        self.shape = self.squash

    def __getattr__(self, name: str) -> Kernel:
        return Kernel(self, name)


@dataclass(eq=False)
class Kernel:
    """One of the kernels, the last argument is written.  Its derivative is taken from the formulas here."""

    module: Kernels
    name: str

    def bind(self) -> Bound:
        function = self.module.shape
        return self.module.GAIN, SHAPES[function.name], function.factor

    def run(self, bound: Bound, *v: np.ndarray) -> np.ndarray:
        gain, shape, _ = bound
        if self.name == "apply":
            return gain * shape.value(v[0])
        if self.name == "in_place":
            return shape.value(v[0]) + 0.5 * v[0]
        if self.name == "blend":
            return v[0] * v[1] + 0.3 * v[2]
        if self.name == "total":
            return v[1] + (0.5 * v[0] * v[0] + 0.3 * v[0]).sum()
        if self.name == "weigh":
            return v[2] + (v[1] * v[0] + 0.5 * v[0] * v[0]).sum()
        return 0.2 * v[1][0] * v[0]

    def back(self, bound: Bound, *v: np.ndarray) -> list[np.ndarray]:
        gain, shape, factor = bound
        *v, c = v
        slope = shape.slope(v[0]) if factor is None else factor
        if self.name == "apply":
            return [gain * slope * c, 0.0 * c]
        if self.name == "in_place":
            return [(slope + 0.5) * c]
        if self.name == "blend":
            return [v[1] * c, v[0] * c, 0.3 * c]
        if self.name == "total":
            return [(v[0] + 0.3) * c[0], c]
        if self.name == "weigh":
            return [(v[1] + v[0]) * c[0], v[0] * c[0], c]
        return [0.2 * v[1][0] * c, np.array([0.2 * (v[0] * c).sum()]), 0.0 * c]


@dataclass(eq=False)
class Command:
    """A launch for later, with the function and the numbers of now."""

    world: World
    kernel: Kernel
    arrays: list[Array]

    def __post_init__(self) -> None:
        self.bound = self.kernel.bind()

    def launch(self) -> None:
        self.world.perform(Launch(self.kernel, list(self.arrays), self.bound))

    def set_param_at_index(self, index: int, value: Array) -> None:
        self.arrays[index] = value


# ------------------------------------------------------------------------------------------ tapes and graphs
@dataclass(eq=False)
class Tape:
    world: World
    nodes: list[Node] = field(default_factory=list)
    order: int = 0
    seeded: list[Array] = field(default_factory=list)

    def __enter__(self) -> Tape:
        self.order = self.order or self.world.next_order()
        self.world.tapes.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.world.tapes.pop()

    def touched(self, nodes: list[Node], surely: bool = False) -> dict[Cell, np.ndarray]:
        """Cell -> which of its elements the tape has to do with.

        surely: without those that only a new state may have read, and without operations on arrays that had no
        gradient.
        """
        out: dict[Cell, np.ndarray] = {}
        nodes = [n for n in nodes if n.active or not surely]
        reads = [a for n in nodes for a in n.operation.reads if not (surely and n.operation.vague)]
        for a in [*reads, *(a for n in nodes for a in n.operation.writes), *self.seeded]:
            out.setdefault(a.cell, np.zeros(a.cell.value.shape, bool))[a.at] = True
        return out

    def backward(self, loss: Array | None = None, grads: dict[Array, Any] | None = None) -> None:
        given = ([(loss, np.ones(loss.value.shape))] if loss is not None else []) + list((grads or {}).items())
        self.seeded += [a for a, _ in given]
        nodes, order = list(self.nodes), self.order
        self.world.act(lambda: self.sweep(nodes, order, given))

    def sweep(self, nodes: list[Node], order: int, given: list[tuple[Array, np.ndarray]]) -> None:
        touched = self.touched(nodes)
        adjoint, aside = {}, {}
        for cell in touched:
            adjoint[cell], aside[cell] = np.zeros(cell.value.shape), np.zeros(cell.value.shape)
            if cell.gradient is not None and cell.requires:
                value, left = cell.gradient.value.ravel(), cell.gradient.cell.left[cell.gradient.at].ravel()
                written = self.overwritten(nodes, cell)
                seed = touched[cell] & ((left > order) | (left == USER))
                if given:  # they are the only seeds: docs/decisions/16-seeds.md
                    if (written & (left == USER) & (value != 0.0)).any():
                        raise Ambiguous(
                            "seeds are given, and `.grad` of an array that the tape overwrites has been written"
                        )
                    aside[cell] = np.where(touched[cell] & ~(written & seed), value, 0.0)
                else:
                    adjoint[cell], aside[cell] = np.where(seed, value, 0.0), np.where(touched[cell] & ~seed, value, 0.0)
        for a, weights in given:
            adjoint[a.cell][a.at] += weights
        for node in reversed(nodes):
            node.back(adjoint)
        for cell, at in touched.items():
            if cell.requires:
                whole = self.world.whole(cell).grad
                whole.cell.value[whole.at.ravel()[at]] = (adjoint[cell] + aside[cell])[at]
                whole.cell.left[whole.at.ravel()[at]] = order

    @staticmethod
    def overwritten(nodes: list[Node], cell: Cell) -> np.ndarray:
        out = np.zeros(cell.value.shape, bool)
        for a in (a for n in nodes for a in n.operation.writes if a.cell is cell):
            out[a.at] = True
        return out

    def record_func(self, back: Callable[[], None], arrays: list[Array]) -> None:
        """What programs record does nothing."""
        self.nodes.append(Node(Copy(arrays[0], arrays[0]), [arrays[0].value]))

    def zero(self) -> None:
        touched, surely = self.touched(self.nodes), self.touched(self.nodes, surely=True)
        self.world.act(lambda: self.clear(touched, surely))

    def clear(self, touched: dict[Cell, np.ndarray], surely: dict[Cell, np.ndarray]) -> None:
        for cell, at in touched.items():
            if cell.requires and cell.gradient is not None:
                places = cell.gradient.at.ravel()[at]
                if cell not in surely and cell.gradient.cell.value[places].any():
                    raise Ambiguous("an array that the tape may not know")
                cell.gradient.cell.value[places] = 0.0
                cell.gradient.cell.left[places] = USER

    def reset(self) -> None:
        self.zero()
        self.nodes, self.seeded, self.order = [], [], 0


@dataclass(eq=False)
class Graph:
    """What a capture noted."""

    world: World
    actions: list[Callable[[], None]] = field(default_factory=list)

    def __enter__(self) -> Graph:
        self.world.graphs.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        self.world.graphs.pop()

    def replay(self) -> None:
        for action in list(self.actions):
            action()
        if self.world.graphs:
            self.world.graphs[-1].actions.append(self.replay)


# ------------------------------------------------------------------------------------------ the module
class World:
    """The stand-in for the module `sim`, without physics."""

    float64, vec3d = "float64", "vec3d"

    def __init__(self) -> None:
        self.tapes: list[Tape] = []
        self.graphs: list[Graph] = []
        self._order = 0

    def next_order(self) -> int:
        self._order += 1
        return self._order

    def made(self, value: np.ndarray, requires: bool, inner: int = 0) -> Array:
        cell = Cell(np.array(value, dtype=np.float64).ravel(), requires)
        return Array(self, cell, np.arange(cell.value.size).reshape(np.shape(value)), inner)

    def whole(self, cell: Cell) -> Array:
        return Array(self, cell, np.arange(cell.value.size), 0)

    def perform(self, operation: Operation) -> None:
        """Runs it; notes it on the open tape and in the open graph."""
        node = Node(operation, [])

        def again() -> None:
            node.values = operation.values()
            for a, value in zip(operation.writes, operation.run(node.values), strict=True):
                a.value = value
            if self.tapes and not operation.detached:
                self.tapes[-1].nodes.append(node if first else Node(operation, node.values))

        first = True
        again()
        first = False
        if self.graphs:
            self.graphs[-1].actions.append(again)

    def act(self, action: Callable[[], None]) -> None:
        action()
        if self.graphs:
            self.graphs[-1].actions.append(action)

    # -- what programs call

    def Tape(self, **_: Any) -> Tape:  # noqa: N802
        return Tape(self)

    def capture(self) -> Graph:
        return Graph(self)

    @property
    def autograd(self) -> World:
        return self

    def detect_nonfinite(self) -> AbstractContextManager:
        return nullcontext()

    def array(self, data: Any, dtype: str, requires_grad: bool = False) -> Array:
        return self.made(data, requires_grad, int(dtype == "vec3d"))

    def clone(self, source: Array, requires_grad: bool | None = None) -> Array:
        made = self.made(
            np.zeros(source.at.shape), source.requires_grad if requires_grad is None else requires_grad, source.inner
        )
        self.perform(Copy(made, source, detached=requires_grad is False))
        return made

    def copy(self, target: Array, source: Array) -> None:
        target.assign(source)

    def launch(
        self, kernel: Kernel, dim: int, inputs: list[Array], outputs: list[Array] = (), record_cmd: bool = False
    ) -> Command | None:
        if record_cmd:
            return Command(self, kernel, [*inputs, *outputs])
        self.perform(Launch(kernel, [*inputs, *outputs]))
        return None

    def func_grad(self, function: Function) -> Callable[[float], None]:
        return lambda factor: setattr(function, "factor", factor)
