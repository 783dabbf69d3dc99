"""Values while tracing: what a variable of a kernel may hold.

* a `Value` of the IR: a scalar of the run;
* a Python number, bool, string, type, function, module: *static*, known now.  Numbers are weak: they take the type of
  what they meet, and alone become int32 or the tracer's `real`;
* `VectorValue`: a vector, matrix, quaternion or transform, a row of scalar `Value`s;  `StructValue`: a struct;  tuples;
* `ArrayRef`: an array, or a view of one with some of its indices fixed, or dimensions shown in part;
* `Undefined`: a name that has no value on some path.

All are immutable: assigning to a component makes a new one.  `LValue` is an element of an array (or a part of one) that
has not been loaded yet, so that `a[i].x` loads one scalar and can be assigned to.
"""

from __future__ import annotations

import types as python_types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Value
from sim.core.lang.types import (
    ArrayType,
    Homogeneous,
    Matrix,
    Quaternion,
    Scalar,
    Struct,
    Transformation,
    Type,
    Vector,
    array_type,
    bool_,
    int32,
)

TracedValue: TypeAlias = Any
"""One of the above: an open union, since any object of Python may be a static value."""
Positional: TypeAlias = tuple[TracedValue, ...]
Keywords: TypeAlias = dict[str, TracedValue]


@dataclass(frozen=True, eq=False)
class VectorValue:
    """A vector, matrix (row major), quaternion or transform: one scalar value per leaf."""

    type: Homogeneous
    leaves: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class StructValue:
    """A struct: a traced value per field (arrays: an `ArrayRef` or None)."""

    type: Struct
    values: dict[str, TracedValue]


@dataclass(frozen=True, eq=False)
class Axis:
    """A dimension of an array of which a view shows a part: its element k is start + k * step of the array, or of
    `indices`, where there are some, and these say which of the array.

    extent: how many there are.
    """

    start: Value
    step: Value
    extent: Value
    indices: Value | PointerArray | None = None


@dataclass(frozen=True, eq=False)
class LocalArray:
    """A small array of the thread; its content is the variable `name`: see `local_arrays`."""

    name: str
    type: ArrayType
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PointerArray:
    """An array that a kernel knows by its address; strides [bytes].  See `pointers`.

    name, constant: of one that a structure keeps, which kernels only read.
    """

    address: Value
    type: ArrayType
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    name: str = "an array by its address"
    constant: bool = False


@dataclass(frozen=True, eq=False)
class ChosenArray:
    """One of several array parameters, of one type, which the run chooses: that whose number `which` is.

    A parameter's number is its place among those of the kernel, so that choices of choices need no other numbers.
    """

    options: Mapping[int, Value]
    which: Value

    @property
    def type(self) -> ArrayType:
        return next(iter(self.options.values())).type  # type: ignore[return-value]

    @property
    def name(self) -> str:
        return " or ".join(option.name for option in self.options.values())


AnyMemory: TypeAlias = Value | LocalArray | PointerArray | ChosenArray
"""What an `ArrayRef` shows: a parameter, a local array, memory by its address, one of several parameters."""


@dataclass(frozen=True, eq=False)
class ArrayRef:
    """An array parameter or a local array, or a view of it of `ndim` dimensions: its first `len(index)` dimensions are
    fixed by an index or shown in part (`Axis`), the others are whole."""

    array: AnyMemory
    index: tuple[Value | Axis, ...] = ()

    @property
    def ndim(self) -> int:
        fixed = sum(not isinstance(k, Axis) for k in self.index)
        return self.array.type.ndim - fixed  # type: ignore[attr-defined, no-any-return]

    @property
    def dtype(self) -> Type:
        return self.array.type.dtype  # type: ignore[attr-defined, no-any-return]


@dataclass(frozen=True, eq=False)
class LValue:
    """An array element, or leaves `first ..` of it, of type `type`.

    offset: a run-time leaf number that counts from `first` inside of `extent` leaves (a component chosen at run time).
    """

    array: AnyMemory
    index: tuple[Value, ...]
    type: Type
    first: int = 0
    offset: Value | None = None
    extent: int = 0


class Extents(tuple[Value, ...]):
    """The shape of an array: as in Warp it can be asked for four extents, those that it does not have are zero."""


class Members(tuple[TracedValue, ...]):
    """A tuple that messages can say something of: `what`, as in "this constraint has 2 points"."""

    what: str

    def __new__(cls, items: Iterable[TracedValue], what: str) -> Members:
        made = super().__new__(cls, items)
        made.what = what
        return made


@dataclass(frozen=True, eq=False)
class Undefined:
    """A name that has no value on some path; `why` completes the sentence "`x` ..."."""

    why: str


@dataclass(frozen=True, eq=False)
class Range:
    """`range(...)` with bounds that may be known only at run time."""

    start: TracedValue
    stop: TracedValue
    step: TracedValue
    rolled: bool = False


class Mismatch(Exception):
    """Two values that cannot be one variable."""


def is_number(x: TracedValue) -> bool:
    """Whether x is a weak Python number or bool."""
    return isinstance(x, (bool, int, float))


def is_traced(x: TracedValue) -> bool:
    return isinstance(x, (Value, VectorValue, StructValue, ArrayRef))


def constant(x: TracedValue) -> TracedValue:
    """The Python number of a static number or of a constant value, else None."""
    return x.const if isinstance(x, Value) else x if is_number(x) else None


def whole(x: TracedValue) -> int | None:
    """The Python int of a static integer, else None."""
    k = constant(x)
    return k if isinstance(k, int) and not isinstance(k, bool) else None


def type_of(x: TracedValue, real: Scalar | None = None) -> Type | None:
    """The type of a traced value (of a weak number: the one it takes alone, if `real` is given), else None."""
    if isinstance(x, (Value, VectorValue, StructValue, LValue)):
        return x.type
    if isinstance(x, ArrayRef):
        return array_type(x.dtype, x.ndim)
    if real is not None and is_number(x):
        return bool_ if isinstance(x, bool) else int32 if isinstance(x, int) else real
    return None


def kind_of(x: TracedValue) -> str:
    """ "scalar", "vector", "matrix", "quat", "transform", "struct", "array" or "other": what operators choose by."""
    ty = x if isinstance(x, Type) else type_of(x)
    if ty is None:
        return "scalar" if is_number(x) else "other"
    for cls, name in _KINDS.items():
        if isinstance(ty, cls):
            return name
    return "other"


_KINDS: dict[type, str] = {
    Scalar: "scalar",
    Vector: "vector",
    Matrix: "matrix",
    Quaternion: "quat",
    Transformation: "transform",
    Struct: "struct",
    ArrayType: "array",
}


def describe(x: TracedValue) -> str:
    """What a value is, for messages."""
    if isinstance(x, bool):
        return f"the constant {x}"
    if is_number(x):
        return f"the number {x!r}"
    ty = type_of(x)
    if ty is not None:
        return str(ty)
    if isinstance(x, tuple):
        return f"a tuple of {len(x)}"
    if isinstance(x, str):
        return f"the string {x!r}"
    if x is None:
        return "None"
    if isinstance(x, Type):
        return f"the type {x}"
    if isinstance(x, Range):
        return "a range"
    if isinstance(x, python_types.ModuleType):
        return f"the module {x.__name__}"
    name = getattr(x, "name", None) or getattr(x, "__name__", None)
    return f"the function {name}" if callable(x) and isinstance(name, str) else f"a Python {type(x).__name__}"


def flatten(x: TracedValue) -> list[Value]:
    """All scalar values inside, in a fixed order (of an array view: its indices)."""
    if isinstance(x, Value):
        return [x]
    if isinstance(x, VectorValue):
        return list(x.leaves)
    if isinstance(x, StructValue):
        return [v for part in x.values.values() for v in flatten(part)]
    if isinstance(x, tuple):
        return [v for part in x for v in flatten(part)]
    if isinstance(x, ArrayRef):
        shown = [v for k in x.index for v in ((k.start, k.step, k.extent) if isinstance(k, Axis) else (k,))]
        return [*shown, x.array.which] if isinstance(x.array, ChosenArray) else shown
    return []


def name_values(x: TracedValue, name: str) -> None:
    """Give the scalars of a variable its name, for whoever reads generated code; those that have one keep it."""
    found = flatten(x)
    for k, value in enumerate(found):
        value.name = value.name or (name if len(found) == 1 else f"{name}_{'xyzw'[k] if len(found) <= 4 else k}")


def rebuild(x: TracedValue, values: Iterator[Value]) -> TracedValue:
    """A value shaped as x with its scalars replaced, in the order of `flatten`."""
    if isinstance(x, Value):
        return next(values)
    if isinstance(x, VectorValue):
        return VectorValue(x.type, tuple(next(values) for _ in x.leaves))
    if isinstance(x, StructValue):
        return StructValue(x.type, {k: rebuild(v, values) for k, v in x.values.items()})
    if isinstance(x, tuple):
        return tuple(rebuild(v, values) for v in x)
    if isinstance(x, ArrayRef):
        index = tuple(
            Axis(next(values), next(values), next(values), k.indices) if isinstance(k, Axis) else next(values)
            for k in x.index
        )
        chosen = isinstance(x.array, ChosenArray)
        return ArrayRef(ChosenArray(x.array.options, next(values)) if chosen else x.array, index)  # type: ignore[union-attr]
    return x


def extent_of(b: Builder, array: AnyMemory, k: int) -> Value:
    """The extent of dimension k of an array."""
    if isinstance(array, PointerArray):
        return array.shape[k]
    if isinstance(array, ChosenArray):
        return by_selection(b, array, lambda option: b.shape(option, k))
    return b.const(array.shape[k], int32) if isinstance(array, LocalArray) else b.shape(array, k)


def by_selection(b: Builder, array: ChosenArray, number: Callable[[Value], Value]) -> Value:
    """A number of the array that is chosen: it costs nothing to have that of the others too."""
    first, *rest = array.options.items()
    found = number(first[1])
    for place, option in rest:
        found = b.emit("select", b.emit("eq", array.which, b.const(place, int32)), number(option), found)
    return found


def dimensions(b: Builder, x: ArrayRef) -> list[Value | Axis]:
    """For each dimension of the array: the index that is fixed, or the part that the view shows."""
    rest = range(len(x.index), x.array.type.ndim)  # type: ignore[attr-defined]
    return [*x.index, *(Axis(b.const(0, int32), b.const(1, int32), extent_of(b, x.array, k)) for k in rest)]


def extents(b: Builder, x: ArrayRef) -> Extents:
    """The shape of a view."""
    return Extents(k.extent for k in dimensions(b, x) if isinstance(k, Axis))


def like_views(a: ArrayRef, b: ArrayRef) -> bool:
    """Whether two views of one array show its dimensions in the same way, so that only numbers tell them apart."""
    chosen = isinstance(a.array, ChosenArray) and isinstance(b.array, ChosenArray)
    one = a.array.options == b.array.options if chosen else a.array is b.array  # type: ignore[union-attr]
    return one and [_way(k) for k in a.index] == [_way(k) for k in b.index]


def _way(k: Value | Axis) -> int | str:
    return (id(k.indices) if k.indices is not None else "part") if isinstance(k, Axis) else "fixed"


def is_typed(x: TracedValue) -> bool:
    """Whether no weak number is inside, so that x can be carried around a loop as it is."""
    if isinstance(x, tuple):
        return all(is_typed(v) for v in x)
    return is_traced(x)


def same(a: TracedValue, b: TracedValue) -> bool:
    """Whether two values are the same thing: nothing to choose between."""
    if a is b:
        return True
    if isinstance(a, Value) or isinstance(b, Value):
        return False
    if isinstance(a, VectorValue) and isinstance(b, VectorValue):
        return a.type is b.type and all(x is y for x, y in zip(a.leaves, b.leaves, strict=True))
    if isinstance(a, StructValue) and isinstance(b, StructValue):
        return a.type is b.type and all(same(a.values[k], b.values[k]) for k in a.values)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, ArrayRef) and isinstance(b, ArrayRef):
        return like_views(a, b) and all(x is y for x, y in zip(flatten(a), flatten(b), strict=True))
    if is_number(a) and is_number(b):
        return type(a) is type(b) and repr(a) == repr(b)  # tells -0.0 from 0.0, and a NaN equals itself
    if is_traced(a) or is_traced(b):
        return False
    try:
        return type(a) is type(b) and bool(a == b)
    except Exception:
        return False
