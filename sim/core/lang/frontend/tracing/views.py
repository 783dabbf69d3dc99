"""Views of arrays inside of kernels: rows and slices, as indices of the array that they show.

Nothing happens when a view is made: it is start, step and extent for each dimension that is left (`traced.Axis`), and
an element of it is an element of the array, which is what analyses and back ends see.
"""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.frontend.pointers import is_unset
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Axis,
    LocalArray,
    LValue,
    Positional,
    TracedValue,
    describe,
    dimensions,
    extent_of,
    is_number,
    type_of,
    whole,
)
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.ir.core import Op, Value
from sim.core.lang.references import IndexedReference
from sim.core.lang.types import Scalar, array_type, int32


def part_of_array(t: Context, x: ArrayRef, keys: Positional, node: ast.AST) -> TracedValue:
    """x[keys], as many keys as x has dimensions at most: an element, or a view."""
    if is_unset(x.array):
        raise t.error(node, f"the array {x.array.name} was not set")
    parts: list[Value | Axis] = []
    rest = list(keys)
    ndim: int = x.array.type.ndim  # type: ignore[attr-defined]
    for k in range(ndim):
        part = x.index[k] if k < len(x.index) else None
        if isinstance(part, Value):
            parts.append(part)
        elif not rest:
            if part is None:
                break  # this dimension and those after it are whole
            parts.append(part)
        else:
            key = rest.pop(0)
            parts.append(_sliced(t, x, k, key, node) if isinstance(key, slice) else _at(t, x, k, key, node))
    index = tuple(part for part in parts if isinstance(part, Value))
    return LValue(x.array, index, x.dtype) if len(index) == ndim else ArrayRef(x.array, tuple(parts))


def seen_through_indices(t: Context, name: str, ty: IndexedReference) -> ArrayRef:
    """An argument that is passed as an array and indices, with its parameters added to the function."""
    array = Value(ty.array, name)
    t.block.params.append(array)
    shown: list[Axis] = []
    for k, chosen in enumerate(ty.chosen):
        indices = Value(array_type(int32, 1), f"{name}.indices[{k}]") if chosen else None
        if indices is not None:
            t.block.params.append(indices)
        extent = t.b.shape(array if indices is None else indices, 0 if chosen else k)
        shown.append(Axis(t.b.const(0, int32), t.b.const(1, int32), extent, indices))
    return ArrayRef(array, tuple(shown))


def _at(t: Context, x: ArrayRef, k: int, key: TracedValue, node: ast.AST) -> Value:
    """The index of the array where a view has its element `key`; negative ones count from the end."""
    if isinstance(key, tuple):
        raise t.error(node, "an index is a tuple", "write a[i, j]")
    index = _integer(t, key, "an array index", node)
    axis = x.index[k] if k < len(x.index) else None
    known = whole(index)
    if isinstance(x.array, LocalArray) and known is not None and axis is None:
        n = x.array.shape[k]
        if not -n <= known < n:
            raise t.error(node, f"index {known} is outside of 0 .. {n - 1}")
    index = t.from_end(index, lambda: axis.extent if isinstance(axis, Axis) else extent_of(t.b, x.array, k))
    if not isinstance(axis, Axis):
        return index
    index = t.b.emit("in_bounds", t.b.emit("cast", index, type=int32), axis.extent)
    index = t.b.emit("add", axis.start, t.b.emit("mul", index, axis.step))
    return index if axis.indices is None else t.load(LValue(axis.indices, (index,), int32))


def _integer(t: Context, key: TracedValue, what: str, node: ast.AST) -> Value:
    if is_number(key) and not isinstance(key, (bool, float)):
        return t.as_value(key, None, node)
    if isinstance(key, Value) and isinstance(key.type, Scalar) and key.type.is_int:
        return key
    raise t.error(node, f"{what} is an integer, not {describe(key)}", "write int(...)" if type_of(key, t.real) else "")


def _sliced(t: Context, x: ArrayRef, k: int, key: slice, node: ast.AST) -> Axis:
    """Dimension k of x by start:stop:step, by Python's rules, also for bounds and steps of the run."""

    def emit(name: str, *operands: Any) -> Value:
        return t.b.emit(name, *operands, type=int32)

    def bound(given: TracedValue, default: Value) -> Value:
        if given is None:
            return default
        value = emit("cast", _integer(t, given, "a bound of a slice", node))
        value = emit("select", emit("lt", value, zero), emit("add", value, n), value)
        return emit("min", emit("max", value, lowest), highest)

    axis = dimensions(t.b, x)[k]
    assert isinstance(axis, Axis)
    zero, n = t.b.const(0, int32), axis.extent
    step = emit("cast", _integer(t, 1 if key.step is None else key.step, "the step of a slice", node))
    if step.const == 0:
        raise t.error(node, "Slice step cannot be zero")
    if step.const is None:
        t.b.append(Op("assert", [emit("ne", step, zero)], [], {"message": "slice step cannot be zero"}))
    down = emit("lt", step, zero)
    lowest = emit("select", down, -1, zero)
    highest = emit("add", n, lowest)
    start = bound(key.start, emit("select", down, highest, lowest))
    stop = bound(key.stop, emit("select", down, lowest, highest))
    span = emit("select", down, emit("sub", start, stop), emit("sub", stop, start))
    size = emit("abs", step)
    extent = emit("div", emit("add", emit("max", span, zero), emit("sub", size, 1)), size)
    start = emit("add", axis.start, emit("mul", start, axis.step))
    return Axis(start, emit("mul", step, axis.step), extent, axis.indices)
