"""The kernel language as plain Python on dual numbers: values and derivatives that no compiler of ours has touched.

The source of a kernel is run as it stands, with another `sim`.  What Python does differently is little: assignment
copies, and so do arguments that are not references.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True, slots=True)
class Dual:
    """A number and its derivative along one direction."""

    value: float
    slope: float = 0.0

    def __add__(self, other: Any) -> Dual:
        other = dual(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __sub__(self, other: Any) -> Dual:
        return self + -dual(other)

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy multiplies its elements
        other = dual(other)
        return Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)

    def __truediv__(self, other: Any) -> Dual:
        other = dual(other)
        ratio = self.value / other.value
        return Dual(ratio, (self.slope - ratio * other.slope) / other.value)

    def __lt__(self, other: Any) -> bool:
        return self.value < dual(other).value

    def __gt__(self, other: Any) -> bool:
        return self.value > dual(other).value

    def __abs__(self) -> Dual:
        return self if self.value > 0.0 else -self

    def __radd__(self, other: float) -> Dual:
        return self + other

    def __rmul__(self, other: float) -> Dual:
        return self * other


def dual(x: Any = 0.0) -> Dual:
    return x if isinstance(x, Dual) else Dual(float(x))


class Components(np.ndarray):
    """A vector, a matrix, or an array of numbers: numpy has the indexing, and the arithmetic of its elements."""

    x, y, z = (
        property(lambda self, k=k: self[k], lambda self, value, k=k: self.__setitem__(k, value)) for k in range(3)
    )


def components(shape: Sequence[int], *parts: Any) -> Components:
    out = np.empty(shape, object).view(Components)
    out.reshape(-1)[:] = [dual(p) for p in parts] or dual()
    return out


def copied(value: Any) -> Any:
    """What an assignment stores: nothing that is written to its source later changes it."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)):
        return type(value)(map(copied, value))
    return type(value)(*value.fields()) if isinstance(value, Struct) else value


class Struct:
    """A value of a struct type: its fields hold copies of what is stored in them."""

    kinds: ClassVar[dict[str, Callable]]

    def __init__(self, *values: Any) -> None:
        for name, value in zip(self.kinds, values or [kind() for kind in self.kinds.values()], strict=True):
            setattr(self, name, copied(value))

    def fields(self) -> list[Any]:
        return [getattr(self, name) for name in self.kinds]


def struct(cls: type) -> type:
    return type(cls.__name__, (Struct,), {"kinds": cls.__annotations__})


class Reference:
    """Annotates an argument that is passed as it is."""

    def __class_getitem__(cls, _: Any) -> type[Reference]:
        return cls


def func(f: Callable) -> Callable:
    kinds = [p.annotation for p in inspect.signature(f).parameters.values()]

    @wraps(f)
    def call(*values: Any) -> Any:
        return f(*(v if kind is Reference else copied(v) for v, kind in zip(values, kinds, strict=True)))

    return call


def zeros(shape: int, dtype: Callable) -> Any:
    return components((shape,)) if dtype is dual else [dtype() for _ in range(shape)]


def atomic_add(array: Components, index: int, value: Dual) -> None:
    array[index] += value


class PlainSim:
    """What a kernel finds under the name `sim`."""

    thread = 0
    float64 = staticmethod(dual)
    vec2d, vec3d, mat22d = (staticmethod(partial(components, shape)) for shape in ((2,), (3,), (2, 2)))
    array = array2d = ref = Reference
    struct, func, kernel = staticmethod(struct), staticmethod(func), staticmethod(func)
    zeros, atomic_add = staticmethod(zeros), staticmethod(atomic_add)
    abs, min, max = abs, min, max
    where = staticmethod(lambda condition, a, b: a if condition else b)
    dot = staticmethod(lambda a, b: sum(a * b, dual()))
    transpose = staticmethod(np.transpose)

    def tid(self) -> int:
        return self.thread

    @staticmethod
    def sin(x: Dual) -> Dual:
        return Dual(math.sin(x.value), math.cos(x.value) * x.slope)

    @staticmethod
    def sqrt(x: Dual) -> Dual:
        root = math.sqrt(x.value)
        return Dual(root, 0.5 * x.slope / root)


class _Copying(ast.NodeTransformer):
    """Assignments copy, and the name `sim` stays what it is."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = ast.Call(ast.Name("copied", ast.Load()), [node.value], [])
        return node

    def visit_Import(self, _: ast.Import) -> None:
        return None


class PlainKernel:
    """A kernel of a module's source, on dual numbers, one thread after the other."""

    def __init__(self, source: str, name: str) -> None:
        self.sim = PlainSim()
        self.names: dict[str, Any] = {"sim": self.sim, "copied": copied}
        tree = ast.fix_missing_locations(_Copying().visit(ast.parse(source)))
        exec(compile(tree, name, "exec", dont_inherit=True), self.names)  # annotations are values
        self.function = self.names[name]

    def launch(self, threads: int, *arguments: Any) -> None:
        for self.sim.thread in range(threads):
            self.function(*arguments)


def filled(kind: Any, numbers: Iterator[Dual]) -> Any:
    """A value of a type: its numbers one after the other, whole ones 1."""
    if isinstance(kind, partial):
        return kind(*(next(numbers) for _ in range(math.prod(kind.args[0]))))
    if kind in (dual, int):
        return next(numbers) if kind is dual else 1
    return kind(*(filled(k, numbers) for k in kind.kinds.values()))


def numbers(value: Any) -> Iterator[Dual]:
    """Back from `filled`."""
    if isinstance(value, Dual):
        yield value
    elif not isinstance(value, int):
        for part in value.fields() if isinstance(value, Struct) else value:
            yield from numbers(part)
