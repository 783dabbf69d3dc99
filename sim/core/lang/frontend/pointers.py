"""Arrays that a kernel knows by their address: it makes them, `array(ptr=..., shape=..., dtype=...)`, or finds them in
memory, in a struct or in the header of a structure such as a mesh.

Nothing is known of that memory: no tape sees what is read and written there, so recording such a launch is refused.
What a structure keeps is constant while a launch runs: reading it is a plain operation, `peek`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sim.core.lang.frontend.traced import (
    AnyMemory,
    ArrayRef,
    Axis,
    LValue,
    Mismatch,
    PointerArray,
    TracedValue,
    flatten,
    type_of,
)
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Value
from sim.core.lang.types import (
    ArrayType,
    Leaf,
    Struct,
    Type,
    array_type,
    in_memory,
    int32,
    int64,
    leaves_of,
    uint64,
)


def read(b: Builder, x: LValue) -> list[Value]:
    """The leaves of an element."""
    at, leaves = _element(b, x)
    load = b.peek if x.array.constant else b.load_at  # type: ignore[union-attr]
    return [load(_moved(b, at, leaf.offset), leaf.scalar) for leaf in leaves[: len(leaves_of(in_memory(x.type)))]]


def write(b: Builder, x: LValue, values: Sequence[Value], add: bool) -> None:
    """Stores leaves of an element, or adds to them."""
    at, leaves = _element(b, x)
    for leaf, value in zip(leaves, values, strict=False):
        place = _moved(b, at, leaf.offset)
        b.store_at(place, b.emit("add", b.load_at(place, leaf.scalar), value) if add else value)


def array_at(b: Builder, kind: ArrayType, values: Iterator[Value]) -> ArrayRef:
    """The array that an `array_place` in memory says, from the leaves of that."""
    n = kind.ndim
    address, *numbers = (next(values) for _ in in_memory(kind).leaves)  # type: ignore[attr-defined]
    array = PointerArray(address, array_type(kind.dtype, n), tuple(numbers[:n]), tuple(numbers[n : 2 * n]))
    if not kind.indexed:
        return ArrayRef(array)
    return ArrayRef(array, tuple(map(partial(_through, b), numbers[2 * n : 3 * n], numbers[3 * n :])))


def unset(b: Builder, kind: ArrayType, name: str) -> ArrayRef:
    """An array that was not set: it has no elements."""
    n = kind.ndim
    shape, strides = (b.const(0, int32),) * n, (b.const(0, int64),) * n
    return ArrayRef(PointerArray(b.const(0, uint64), array_type(kind.dtype, n), shape, strides, name))


def is_unset(array: AnyMemory) -> bool:
    """Whether it is one that was not set."""
    return isinstance(array, PointerArray) and array.address.const == 0


def _through(b: Builder, address: Value, extent: Value) -> Axis:
    """A dimension that is seen through the indices at an address."""
    indices = PointerArray(address, array_type(int32, 1), (extent,), (b.const(int32.size, int64),))
    return Axis(b.const(0, int32), b.const(1, int32), extent, indices)


def _numbers(value: ArrayRef, kind: ArrayType) -> list[Value] | None:
    """The leaves of the `array_place` of an array as `array_at` has made it; None of others."""
    array, indices = value.array, list[PointerArray]()
    if not isinstance(array, PointerArray) or array.constant:
        return None
    for k in value.index:
        if (
            not isinstance(k, Axis)
            or not isinstance(k.indices, PointerArray)
            or (k.start.const, k.step.const) != (0, 1)
        ):
            return None
        indices.append(k.indices)
    if len(indices) != (kind.ndim if kind.indexed else 0):
        return None
    return [array.address, *array.shape, *array.strides, *(a.address for a in indices), *(a.shape[0] for a in indices)]


def stored(b: Builder, value: TracedValue, kind: Type) -> list[Value]:
    """The leaves of a value in memory.  Raises Mismatch for an array whose place a kernel does not know."""
    if isinstance(kind, Struct):
        return [leaf for key, field in kind.fields.items() for leaf in stored(b, value.values[key], field)]
    if not isinstance(kind, ArrayType):
        return flatten(value)
    if value is None:
        return [b.const(0, leaf.scalar) for leaf in leaves_of(in_memory(kind))]
    numbers = _numbers(value, kind)
    if numbers is None:
        raise Mismatch(
            f"{type_of(value)} that is an argument, or a view, cannot be put into an element of an array",
            "fill the array of structs before the launch",
        )
    return numbers


def _element(b: Builder, x: LValue) -> tuple[Value, tuple[Leaf, ...]]:
    """The address of an element, and the leaves from the first one that is meant on."""
    array = x.array
    assert isinstance(array, PointerArray)
    at = array.address
    for index, n, stride in zip(x.index, array.shape, array.strides, strict=True):
        inside = index if array.constant else b.emit("in_bounds", b.emit("cast", index, type=n.type), n)
        step = b.emit("mul", b.emit("cast", inside, type=int64), stride)
        at = b.emit("add", at, b.emit("cast", step, type=uint64))
    leaves = leaves_of(array.type.dtype)
    if x.offset is not None:  # components lie side by side
        size = leaves[x.first].scalar.size
        moved = b.emit("mul", b.emit("cast", x.offset, type=int64), size)
        at = b.emit("add", at, b.emit("cast", moved, type=uint64))
    return at, leaves[x.first :]


def _moved(b: Builder, at: Value, offset: int) -> Value:
    return b.emit("add", at, offset) if offset else at
