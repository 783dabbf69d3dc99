"""Constructors of values whose type the call chooses: small vectors, matrices and arrays of a thread."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import prod

from sim.core.lang import types
from sim.core.lang.frontend import local_arrays
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Keywords,
    PointerArray,
    Positional,
    TracedValue,
    VectorValue,
    describe,
    flatten,
    is_number,
    type_of,
    whole,
)
from sim.core.lang.frontend.tracing.construct import construct, identity_quaternion
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import builtin, takes
from sim.core.lang.ir.core import Value
from sim.core.lang.types import (
    INTEGERS,
    Leaf,
    Matrix,
    Scalar,
    Struct,
    array_type,
    as_scalar,
    as_type,
    bool_,
    int32,
    int64,
    leaves_of,
    size_of,
    uint64,
)


def _dtype(t: Context, kwargs: Keywords, parts: Sequence[TracedValue], node: ast.AST) -> Scalar:
    given = kwargs.pop("dtype", None)
    if given is float:
        return t.real
    if given is not None:
        try:
            return as_scalar(given)
        except TypeError as problem:
            raise t.error(node, f"dtype: {problem}") from None
    if parts and all(isinstance(x, bool) for x in parts):
        return bool_
    return next((v.type for x in parts for v in flatten(x)), t.real)  # type: ignore[return-value]


def _asks_for_a_type(t: Context, args: Positional, kwargs: Keywords, count: int, node: ast.AST) -> Scalar | None:
    """The scalar type, if the call is that of a type by position: its last of `count` arguments is one."""
    last = args[-1] if len(args) == count and not kwargs else None
    return (
        _dtype(t, {"dtype": last}, [], node)
        if last is float or last is int or last is bool or isinstance(last, Scalar)
        else None
    )


@builtin("vector", host=types.vector)
def vector(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """vector(a, b, c) or vector(a, length=3, dtype=float): a vector value, of zeros without components;
    vector(3, float) is its type."""
    scalar = _asks_for_a_type(t, args, kwargs, 2, node)
    if scalar is not None and whole(args[0]):
        return types.vector(whole(args[0]) or 0, scalar)
    dtype = _dtype(t, kwargs, args, node)
    length = whole(kwargs.pop("length", sum(len(leaves_of(type_of(a, t.real) or int32)) for a in args)))
    if not length:
        hint = "the `length` argument must be specified when zero-initializing a vector"
        raise t.error(node, "vector(...) has no components, and no constant length", hint)
    return construct(t, types.vector(length, dtype), args, kwargs, node)


@builtin("matrix", host=types.matrix)
def matrix(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """matrix(numbers row by row, shape=(2, 3), dtype=float): a matrix value, of zeros without numbers;
    matrix((2, 3), float) is its type."""
    scalar = _asks_for_a_type(t, args, kwargs, 2, node)
    shape = args[0] if scalar is not None else kwargs.pop("shape", None)
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(whole(s) for s in shape)):
        hint = "write shape=(rows, columns): the `shape` argument must be specified when initializing a matrix by value"
        raise t.error(node, "matrix(...) has no shape of two constants", hint)
    extents = (whole(shape[0]) or 0, whole(shape[1]) or 0)
    if scalar is not None:
        return types.matrix(extents, scalar)
    dtype = _dtype(t, kwargs, args, node)
    return construct(t, types.matrix(extents, dtype), args, kwargs, node)


@builtin("quaternion", host=types.quaternion)
def quaternion(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """quaternion(x, y, z, w) or quaternion(v, w); without numbers zero; quaternion(float) is its type."""
    scalar = _asks_for_a_type(t, args, kwargs, 1, node)
    if scalar is not None:
        return types.quaternion(scalar)
    parts = (*args, *(value for key, value in kwargs.items() if key != "dtype"))
    return construct(t, types.quaternion(_dtype(t, kwargs, parts, node)), args, kwargs, node)


@builtin("transformation", host=types.transformation)
def transformation(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """transformation(p, q): translation and rotation; without arguments zeros, see
    `transform_identity`;
    transformation(float) is its type."""
    scalar = _asks_for_a_type(t, args, kwargs, 1, node)
    if scalar is not None:
        return types.transformation(scalar)
    parts = (*args, *kwargs.values())
    return construct(t, types.transformation(_dtype(t, kwargs, parts, node)), args, kwargs, node)


@builtin("zeros")
def zeros(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """In a kernel: zeros(shape=(4, 2), dtype=float), a small array of the thread, of up to four constant extents.
    A function that gets it works on it, `b = a` copies it."""
    shape = kwargs.pop("shape", args[0] if args else None)
    dtype = kwargs.pop("dtype", args[1] if len(args) > 1 else t.real)
    takes(t, node, "zeros", args[2:], kwargs, 0)
    given = shape if isinstance(shape, tuple) else (shape,)
    extents = tuple(n for n in map(whole, given) if n)
    if len(extents) < len(given) or not 1 <= len(extents) <= 4 or min(extents) < 0:
        raise t.error(
            node,
            "zeros(shape=..., dtype=...) in a kernel takes one to four constant extents",
            "pass other arrays as arguments of the kernel:"
            " the `shape` argument must be specified as a constant when zero-initializing an array",
        )
    try:
        ty = t.real if dtype is float else as_type(dtype)
        leaves = leaves_of(ty)
    except TypeError as problem:
        raise t.error(node, f"dtype: {problem}") from None
    if isinstance(ty, Struct) and ty.has_arrays:
        raise t.error(node, f"an array of {ty}, which has array fields, cannot be made in a kernel")
    if prod(extents) * len(leaves) > local_arrays.LIMIT:
        raise t.error(
            node,
            f"an array made in a kernel has at most {local_arrays.LIMIT} numbers",
            "pass a larger one as an argument, with a row for each thread",
        )
    content = [t.b.const(0, leaf.scalar) for leaf in leaves] * prod(extents)
    return t.local_array(ty, extents, tuple(content))


@builtin("array")
def array(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """In a kernel: array(ptr=address, shape=(n, 3), dtype=float), the memory at an address, packed.
    `a.ptr` is the address of an array.  A tape does not record such a kernel."""
    ptr, shape, dtype = (kwargs.pop(key, None) for key in ("ptr", "shape", "dtype"))
    takes(t, node, "array", args, kwargs, 0)
    extents = shape if isinstance(shape, tuple) else (shape,)
    if ptr is None or dtype is None or shape is None or not 1 <= len(extents) <= 4:
        raise t.error(
            node, "array(...) in a kernel takes ptr, shape (one to four extents) and dtype", "pass arrays as arguments"
        )
    try:
        ty = t.real if dtype is float else as_type(dtype)
        size = size_of(ty)
        leaves_of(ty)
    except (TypeError, AttributeError) as problem:
        raise t.error(node, f"dtype: {problem}") from None
    address = t.b.emit("cast", t.as_value(ptr, uint64 if isinstance(ptr, int) else None, node), type=uint64)
    numbers = tuple(t.b.emit("cast", t.as_value(n, None, node), type=int32) for n in extents)
    strides = [t.b.const(size, int64)]
    for n in reversed(numbers[1:]):
        strides.append(t.b.emit("mul", strides[-1], t.b.emit("cast", n, type=int64)))
    return ArrayRef(PointerArray(address, array_type(ty, len(numbers)), numbers, tuple(reversed(strides))))


@builtin("cast")
def cast(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """cast(x, dtype): the bytes of a number, vector or struct as a value of another type that is not larger; no
    conversion of numbers, and no gradient goes through it."""
    names = ("a", "dtype")[len(args) :]
    args = (*args, *(kwargs.pop(key) for key in names if key in kwargs))
    takes(t, node, "cast", args, kwargs, 2)
    x, source = args[0], type_of(args[0], t.real)
    if is_number(x):
        x = t.as_value(x, source, node)
    try:
        ty = t.real if args[1] is float else as_type(args[1])
        given, wanted = leaves_of(source), leaves_of(ty)  # type: ignore[arg-type]
    except (TypeError, AttributeError):
        raise t.error(node, f"cast takes a value and a type, got {describe(args[0])} and {describe(args[1])}") from None
    if any(leaf.scalar is bool_ for leaf in (*given, *wanted)):
        raise t.error(node, "cast takes no bools: not every byte is one", "write sim.int8(x) or sim.bool(x) to convert")
    content = [(leaf.offset, leaf.scalar.size, v) for leaf, v in zip(given, flatten(x), strict=True)]
    return t.compose(ty, iter([_from_bytes(t, content, leaf, node) for leaf in wanted]))


def _from_bytes(t: Context, content: Sequence[tuple[int, int, Value]], leaf: Leaf, node: ast.AST) -> Value:
    """The number that lies at the place of a leaf in bytes (little endian) which hold these values: offset, size."""
    low, size = leaf.offset, leaf.scalar.size
    parts = [(at, n, v) for at, n, v in content if at < low + size and low < at + n]
    if sum(min(at + n, low + size) - max(at, low) for at, n, _ in parts) < size:
        raise t.error(node, f"cast: bytes {low} to {low + size - 1} of the result are not in the value")
    if [(at, n) for at, n, _ in parts] == [(low, size)]:
        return t.b.emit("reinterpret", parts[0][2], type=leaf.scalar)
    word = t.b.const(0, uint64)
    for at, n, v in parts:
        bits = t.b.emit("cast", t.b.emit("reinterpret", v, type=_UNSIGNED[n]), type=uint64)
        shift = t.b.const(8 * abs(at - low), uint64)
        word = t.b.emit("or", word, t.b.emit("shl" if at > low else "shr", bits, shift))
    return t.b.emit("reinterpret", t.b.emit("cast", word, type=_UNSIGNED[size]), type=leaf.scalar)


_UNSIGNED = {kind.size: kind for kind in INTEGERS if kind.kind == "u"}


@builtin("identity")
def identity(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """identity(n, dtype=float): the n x n unit matrix."""
    n = whole(kwargs.pop("n", args[0] if args else None))
    if len(args) > 1:
        kwargs["dtype"] = args[1]
    dtype = _dtype(t, kwargs, [], node)
    takes(t, node, "identity", (), kwargs, 0)
    if not n:
        raise t.error(node, "identity(n) takes a constant size")
    ty: Matrix = types.matrix((n, n), dtype)
    return VectorValue(ty, tuple(t.b.const(float(i == j), dtype) for i in range(n) for j in range(n)))


@builtin("quat_identity")
def quat_identity(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> TracedValue:
    """quat_identity(dtype=float): the quaternion (0, 0, 0, 1)."""
    dtype = _dtype(t, {"dtype": args[0]} if args else kwargs, [], node)
    return identity_quaternion(t, dtype)
