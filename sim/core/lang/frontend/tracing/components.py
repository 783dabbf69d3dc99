"""Parts of values: `x.name`, `x[i]`, copies with one part replaced, and what a loop goes through."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from functools import reduce
from types import ModuleType

from sim.core.lang.errors import NotSupportedError, UnknownAttribute, did_you_mean
from sim.core.lang.frontend import pointers
from sim.core.lang.frontend.elsewhere import NUMPY, WARP, instead
from sim.core.lang.frontend.source import own_module
from sim.core.lang.frontend.traced import (
    ArrayRef,
    ChosenArray,
    Extents,
    LocalArray,
    LValue,
    Members,
    Positional,
    Range,
    StructValue,
    TracedValue,
    VectorValue,
    by_selection,
    describe,
    extents,
    is_number,
    is_traced,
    type_of,
    whole,
)
from sim.core.lang.frontend.tracing.construct import fit_field
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.frontend.tracing.views import part_of_array
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
    int32,
    vector,
)

_XYZW = "xyzw"


def iterate(t: Context, x: TracedValue, node: ast.AST) -> list[TracedValue]:
    """What a loop over a tuple, vector, matrix (rows) or constant range goes through."""
    if isinstance(x, range):
        return list(x)
    if isinstance(x, tuple):
        return list(x)
    if isinstance(x, Range):
        bounds = [whole(k) for k in (x.start, x.stop, x.step)]
        if None not in bounds:
            return list(range(*bounds))  # type: ignore[arg-type]
        raise t.error(node, "this range has to be constant", "use a `for` loop")
    if isinstance(x, VectorValue):
        return [subscript(t, x, (k,), node) for k in range(len(x.type))]
    if isinstance(x, ArrayRef) and isinstance(x.array, LocalArray) and whole(extents(t.b, x)[0]) is not None:
        return [t.load(subscript(t, x, (k,), node)) for k in range(whole(extents(t.b, x)[0]) or 0)]
    if isinstance(x, ArrayRef):
        raise t.error(node, "a loop over an array", "loop over its indices: `for i in range(len(a))`")
    raise t.error(node, f"{describe(x)} cannot be looped over", "write `for i in range(n)`")


def get_attribute(t: Context, x: TracedValue, name: str, node: ast.AST) -> TracedValue:
    """`x.name`."""
    if isinstance(x, (VectorValue, LValue)) and isinstance(x.type, Homogeneous):
        part = x.type.named_part(name)
        if part is not None:
            return component_of(t, x, *part)
    if isinstance(x, LValue) and isinstance(x.type, Struct) and name in x.type.fields:
        low, _ = x.type.field_leaves(name)
        field = LValue(x.array, x.index, x.type.fields[name], x.first + low)
        return t.load(field) if isinstance(field.type, ArrayType) and not _is_target(node) else field
    if isinstance(x, StructValue) and name in x.values:
        return get_field(t, x, name, node)
    if isinstance(x, ArrayRef):
        return _array_attribute(t, x, name, node)
    if isinstance(x, (Value, VectorValue, LValue)) or is_number(x):
        return _value_attribute(t, x, name, node)
    if isinstance(x, StructValue):
        raise t.error(
            node,
            f"struct {x.type} has no field '{name}'{did_you_mean(name, x.values)}",
            f"it has {', '.join(x.values)}",
            UnknownAttribute,
        )
    if isinstance(x, Type) and name == "dtype" and isinstance(x, Scalar):
        return x
    try:
        found = getattr(x, name)
    except NotSupportedError as problem:
        what, _, how = str(problem).partition(": ")
        raise t.error(node, what, how) from None
    except AttributeError:
        hint = instead(WARP, name) if isinstance(x, ModuleType) and own_module(x.__name__) else ""
        near = "" if hint else did_you_mean(name, [k for k in dir(x) if k[0] != "_"])
        raise t.error(node, f"{describe(x)} has no attribute '{name}'{near}", hint, UnknownAttribute) from None
    t.captures.attribute(t.frame.function, x, name, found)
    return t.static(found, name, node)


def _is_target(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def get_field(t: Context, x: StructValue, name: str, node: ast.AST) -> TracedValue:
    value = x.values[name]
    if value is None:
        return pointers.unset(t.b, x.type.fields[name], f"'{name}' of this {x.type}")  # type: ignore[arg-type]
    return value


def _array_attribute(t: Context, x: ArrayRef, name: str, node: ast.AST) -> TracedValue:
    if name == "shape":
        return extents(t.b, x)
    if name == "ndim":
        return x.ndim
    if name == "dtype":
        return x.dtype
    if name == "ptr":
        return _address(t, x, node)
    if name == "size":
        return reduce(lambda a, b: t.b.emit("mul", a, b), extents(t.b, x))
    known = ("shape", "ndim", "dtype", "size", "ptr")
    near = did_you_mean(name, known)
    raise t.error(node, f"an array has no attribute '{name}' in a kernel{near}", kind=UnknownAttribute)


def _address(t: Context, x: ArrayRef, node: ast.AST) -> Value:
    """Where an array lies."""
    if isinstance(x.array, LocalArray):
        raise t.error(node, "an array that a kernel makes has no address: it is a row of values")
    if x.index:
        raise t.error(node, "the address of a part of an array", "take that of the array")
    if isinstance(x.array, ChosenArray):
        return by_selection(t.b, x.array, t.b.address)
    return t.b.address(x.array) if isinstance(x.array, Value) else x.array.address


def _value_attribute(t: Context, x: TracedValue, name: str, node: ast.AST) -> TracedValue:
    ty = type_of(x, t.real)
    if name == "dtype" and isinstance(ty, (Scalar, Homogeneous)):
        return ty if isinstance(ty, Scalar) else ty.dtype
    if name == "shape" and isinstance(ty, Homogeneous):
        return ty.shape
    if name == "length" and isinstance(ty, Vector):
        return ty.length
    known: Sequence[str] = ()
    if isinstance(ty, (Vector, Quaternion)):
        known = _XYZW[: ty.length]
    elif isinstance(ty, Transformation):
        known = ("p", "q")
    elif isinstance(ty, Struct):
        known = list(ty.fields)
    ours = instead(NUMPY, name) or (f"write sim.{name}(...)" if name in NAMES else "")
    hint = "; ".join([*([f"it has {', '.join(known)}"] if known else []), *([ours] if ours else [])])
    raise t.error(node, f"{ty} has no component '{name}'{did_you_mean(name, known)}", hint, UnknownAttribute)


def component_of(t: Context, x: VectorValue | LValue, ty: Type, first: int) -> TracedValue:
    """Leaves `first ..` of a composite, as a value of type `ty`."""
    if isinstance(x, LValue):
        if x.offset is None:
            return LValue(x.array, x.index, ty, x.first + first)
        return LValue(x.array, x.index, ty, x.first, t.leaf(x.offset, first), x.extent)
    return x.leaves[first] if isinstance(ty, Scalar) else t.compose(ty, iter(x.leaves[first:]))


def subscript(t: Context, x: TracedValue, keys: Positional, node: ast.AST) -> TracedValue:
    """`x[keys]`."""
    if isinstance(x, ArrayRef):
        x, keys = part_of_array(t, x, keys[: x.ndim], node), keys[x.ndim :]
    if isinstance(x, (VectorValue, LValue)) and isinstance(x.type, Homogeneous) and _has_slice(keys):
        places, shape = _positions(t, x.type, keys, node)
        parts = t.load(x)
        return VectorValue(x.type.part(shape), tuple(t.load(subscript(t, parts, at, node)) for at in places))
    for key in keys:
        if not isinstance(x, dict) and isinstance(key, tuple):
            raise t.error(node, "an index is a tuple", "write a[i, j]")
        x = _subscript_once(t, x, key, node)
    return x


def _subscript_once(t: Context, x: TracedValue, key: TracedValue, node: ast.AST) -> TracedValue:
    if isinstance(x, (VectorValue, LValue)) and isinstance(x.type, Homogeneous):
        return _component(t, x, key, node)
    k = whole(key)
    if isinstance(x, Extents) and k is not None and len(x) <= k < 4:
        return 0
    if isinstance(x, tuple) and k is not None:
        return x[_position(t, k, len(x), node, x.what if isinstance(x, Members) else "")]
    if isinstance(x, tuple) and x and isinstance(key, Value):
        return _choose_item(t, x, key, node)
    if is_traced(x) or isinstance(x, LValue) or is_number(x) or isinstance(key, Value):
        raise t.error(
            node, f"{describe(x)} cannot be indexed", "too many indices?" if isinstance(type_of(x), Scalar) else ""
        )
    try:
        return t.static(x[key], "[...]", node)
    except Exception as problem:
        raise t.error(node, f"{describe(x)}[{key!r}]: {type(problem).__name__}: {problem}") from None


def _position(t: Context, k: int, size: int, node: ast.AST, what: str = "") -> int:
    if not -size <= k < size:
        raise t.error(node, f"index {k} is outside of 0 .. {size - 1}{': ' if what else ''}{what}")
    return k % size


def _component(t: Context, x: VectorValue | LValue, key: TracedValue, node: ast.AST) -> TracedValue:
    """Component of a vector, row of a matrix; by an index of the run: a place with a run-time leaf, or a choice."""
    ty = x.type
    assert isinstance(ty, Homogeneous)
    stride = ty.cols if isinstance(ty, Matrix) else 1
    inner: Type = vector(ty.cols, ty.dtype) if isinstance(ty, Matrix) else ty.dtype
    count = ty.rows if isinstance(ty, Matrix) else len(ty.leaves)
    k = whole(key)
    if k is not None:
        return component_of(t, x, inner, _position(t, k, count, node) * stride)
    if not (isinstance(key, Value) and isinstance(key.type, Scalar) and key.type.is_int):
        raise t.error(
            node,
            f"a component index is an integer, not {describe(key)}",
            "write int(...)" if type_of(key, t.real) else "",
        )
    if isinstance(x, LValue):
        key = t.b.emit("in_bounds", _from_end(t, key, count), count)
        offset = t.b.emit("mul", key, stride) if stride > 1 else key
        if x.offset is not None:
            return LValue(x.array, x.index, inner, x.first, t.b.emit("add", x.offset, offset), x.extent)
        return LValue(x.array, x.index, inner, x.first, offset, len(ty.leaves))
    rows = [component_of(t, x, inner, r * stride) for r in range(count)]
    return _choose_item(t, tuple(rows), key, node)


def _from_end(t: Context, key: Value, count: int) -> Value:
    return t.from_end(key, lambda: t.b.const(count, int32))


def _choose_item(t: Context, items: Positional, key: Value, node: ast.AST) -> TracedValue:
    """items[key] with an index of the run: a chain of choices; outside of -n .. n - 1 the last item."""
    kinds = {type_of(i, t.real) for i in items}
    ty = kinds.pop()
    if kinds or not isinstance(ty, (Scalar, Homogeneous)):
        raise t.error(node, "an index of the run into a tuple needs items of one type")
    rows = [t.fit(i, ty) for i in items]
    columns = [[row] if isinstance(row, Value) else list(row.leaves) for row in rows]
    key = t.b.emit("in_bounds", _from_end(t, key, len(items)), len(items))
    out = columns[-1]
    for k in range(len(rows) - 2, -1, -1):
        chosen = t.b.emit("eq", key, k)
        out = [t.b.emit("select", chosen, v, w) for v, w in zip(columns[k], out, strict=True)]
    return t.compose(ty, iter(out))


def with_component(
    t: Context, x: TracedValue, key: tuple[str, TracedValue], value: TracedValue, node: ast.AST
) -> TracedValue:
    """A copy of a local vector, matrix or struct with one component changed."""
    how, what = key
    if isinstance(x, StructValue) and how == "attribute":
        if what not in x.values:
            get_attribute(t, x, what, node)
        return StructValue(x.type, {**x.values, what: fit_field(t, x.type, what, value, node)})
    if not isinstance(x, VectorValue):
        raise t.error(node, f"a component of {describe(x)} cannot be assigned to")
    if how == "attribute":
        found = x.type.named_part(what)
        if found is None:
            get_attribute(t, x, what, node)
        assert found is not None
        return _with_leaves(t, x, found[0], found[1], value, node)
    return _with_item(t, x, what, value, node)


def _with_leaves(t: Context, x: VectorValue, ty: Type, first: int, value: TracedValue, node: ast.AST) -> VectorValue:
    new = t.fit_or_error(t.load(value), ty, f"a component of {x.type}", node)
    leaves = [new] if isinstance(new, Value) else list(new.leaves)
    return VectorValue(x.type, (*x.leaves[:first], *leaves, *x.leaves[first + len(leaves) :]))


def _with_item(t: Context, x: VectorValue, keys: Positional, value: TracedValue, node: ast.AST) -> VectorValue:
    if _has_slice(keys):
        places, shape = _positions(t, x.type, keys, node)
        for at, part in zip(places, _flat_value(t, x.type, shape, value, node), strict=True):
            x = _with_item(t, x, at, part, node)
        return x
    key, rest = keys[0], keys[1:]
    if rest:  # m[i, j] = ...: row i with its component j replaced
        row = subscript(t, x, (key,), node)
        if not isinstance(row, VectorValue):
            raise t.error(node, f"{x.type} has one index")
        return _with_item(t, x, (key,), _with_item(t, row, rest, value, node), node)
    old = _component(t, x, key, node)
    ty = type_of(old)
    assert ty is not None
    stride = x.type.cols if isinstance(x.type, Matrix) else 1
    count = len(x.leaves) // stride
    k = whole(key)
    if k is not None:
        return _with_leaves(t, x, ty, _position(t, k, count, node) * stride, value, node)
    new = t.fit_or_error(t.load(value), ty, f"a component of {x.type}", node)
    parts = [new] if isinstance(new, Value) else list(new.leaves)
    leaves = []
    key = t.b.emit("in_bounds", _from_end(t, key, count), count)
    for r in range(count):
        here = t.b.emit("eq", key, r)
        leaves += [t.b.emit("select", here, parts[c], x.leaves[r * stride + c]) for c in range(stride)]
    return VectorValue(x.type, tuple(leaves))


def _has_slice(keys: Positional) -> bool:
    """Whether one of the indices is a slice."""
    return any(isinstance(key, slice) for key in keys)


def _positions(
    t: Context, ty: Homogeneous, keys: Positional, node: ast.AST
) -> tuple[list[Positional], tuple[int, ...]]:
    """The indices of the components that are meant, in order, and the shape that they have together."""
    if len(keys) > len(ty.shape):
        raise t.error(node, f"{ty} has {len(ty.shape)} ind{'ex' if len(ty.shape) == 1 else 'ices'}, got {len(keys)}")
    found: list[Positional] = [()]
    shape = []
    for key, extent in zip((*keys, slice(None))[: len(ty.shape)], ty.shape, strict=True):
        at: list[TracedValue] = [key]
        if isinstance(key, slice):
            bounds = [None if part is None else whole(part) for part in (key.start, key.stop, key.step)]
            if any(
                b is None and given is not None
                for b, given in zip(bounds, (key.start, key.stop, key.step), strict=True)
            ):
                raise t.error(node, f"a slice of {ty} takes constants", "write a loop over the components")
            at = list(range(*slice(*bounds).indices(extent)))
            shape.append(len(at))
        found = [(*place, k) for place in found for k in at]
    return found, (0, 0) if len(shape) == 2 and 0 in shape else tuple(shape)


def _flat_value(
    t: Context, ty: Homogeneous, shape: tuple[int, ...], value: TracedValue, node: ast.AST
) -> list[TracedValue]:
    """The numbers that go into a slice of this shape: those of a vector, matrix or tuple, or one for all."""
    count = math.prod(shape)
    value = t.load(value)
    if isinstance(value, VectorValue):
        given = value.type.shape
        if given != shape or (len(shape) == 2) != isinstance(value.type, Matrix):
            raise t.error(node, f"a slice of {ty} of shape {shape} cannot be set to {describe(value)}")
        return list(value.leaves)
    if isinstance(value, tuple) and len(value) == count and len(shape) == 1:
        return list(value)
    if isinstance(value, tuple) or not (is_number(value) or hasattr(value, "type")):
        raise t.error(node, f"a slice of {ty} of shape {shape} cannot be set to {describe(value)}")
    return [value] * count
