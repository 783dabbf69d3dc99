"""Types called inside of a kernel: casts and constructors of vectors, matrices, quaternions, transforms and structs."""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.errors import did_you_mean
from sim.core.lang.frontend.traced import ArrayRef, Fields, Mismatch, Parts, describe, is_number
from sim.core.lang.frontend.tracing.context import Context
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
    bool_,
    quaternion,
    vector,
)


def construct(t: Context, kind: Type, args: tuple, kwargs: dict[str, Any], node: ast.AST) -> Any:
    """`kind(*args, **kwargs)`."""
    args = tuple(t.load(a) for a in args)
    kwargs = {k: t.load(v) for k, v in kwargs.items()}
    if isinstance(kind, Struct):
        return _struct(t, kind, args, kwargs, node)
    if isinstance(kind, Transformation):
        return _transformation(t, kind, args, kwargs, node)
    if kwargs:
        raise t.error(node, f"{kind}(...) takes no argument '{next(iter(kwargs))}'")
    if isinstance(kind, Scalar):
        if len(args) > 1:
            raise t.error(node, f"{kind}(...) takes one number, got {len(args)}")
        return cast(t, args[0], kind, node) if args else t.b.const(0, kind)
    if isinstance(kind, Homogeneous):
        return _homogeneous(t, kind, args, node)
    raise t.error(node, f"{kind} cannot be made inside of a kernel", "pass arrays as arguments")


def cast(t: Context, x: Any, kind: Scalar, node: ast.AST) -> Value:
    """A scalar converted: floats to integers truncate, anything to bool compares with zero."""
    if is_number(x):
        if kind is bool_:
            return t.b.const(bool(x), kind)
        if kind.is_float:
            return t.b.const(float(x), kind)
        number = int(x)
        if isinstance(x, int) and kind.kind == "u":
            number &= (1 << kind.bits) - 1  # wraps, as a conversion of a typed integer does
        return t.as_value(number, kind, node)
    if isinstance(x, str) and kind.is_float and x.lower().lstrip("+-") in ("inf", "infinity", "nan"):
        return t.b.const(float(x), kind)
    if not isinstance(x, Value):
        raise t.error(node, f"{kind}(...) converts numbers, got {describe(x)}")
    if kind is bool_ and x.type is not bool_:
        return t.b.emit("ne", x, t.b.const(0, x.type))
    return t.b.emit("cast", x, type=kind)


def _homogeneous(t: Context, kind: Homogeneous, args: tuple, node: ast.AST) -> Parts:
    count = len(kind.leaves)
    if not args:
        return t.zero(kind)
    if (
        len(args) == 1
        and isinstance(args[0], Parts)
        and len(args[0].leaves) == count
        and type(args[0].type) is type(kind)
    ):
        return Parts(kind, tuple(cast(t, v, kind.dtype, node) for v in args[0].leaves))
    if isinstance(kind, Matrix) and count > 1 and any(isinstance(a, Parts) for a in args):
        raise t.error(
            node,
            f"{kind}(...) takes {count} numbers row by row, or one for all",
            "write sim.matrix_from_rows(...) or sim.matrix_from_cols(...) for vectors",
        )
    flat = [v for a in args for v in _scalars_of(a)]
    if len(flat) == 1 and count > 1 and not isinstance(kind, Quaternion):
        flat = flat * count
    if len(flat) != count:
        raise t.error(node, f"{kind}(...) takes {count} components, got {len(flat)}")
    return Parts(kind, tuple(_component(t, kind, k, v, node) for k, v in enumerate(flat)))


def _scalars_of(x: Any) -> list[Any]:
    if isinstance(x, Parts):
        return list(x.leaves)
    if isinstance(x, tuple):
        return [v for part in x for v in _scalars_of(part)]
    return [x]


def _component(t: Context, kind: Homogeneous, k: int, x: Any, node: ast.AST) -> Value:
    if isinstance(x, ArrayRef):
        raise t.error(node, f"component {k} of {kind}(...) is {describe(x)}", "index the array")
    try:
        return t.typed(x, kind.dtype)
    except Mismatch as problem:
        raise t.error(
            node, f"component {k} of {kind}(...): {problem.args[0]}", f"write {t.spelled(kind.dtype)}(...) to convert"
        ) from None


def _transformation(t: Context, kind: Transformation, args: tuple, kwargs: dict[str, Any], node: ast.AST) -> Parts:
    """`transform(p, q)`, `transform()` (the identity), seven numbers, another transform."""
    for key in kwargs:
        if key not in ("p", "q"):
            raise t.error(node, f"{kind}(...) takes no argument '{key}'", "its parts are p (vec3) and q (quat)")
    if not args and kwargs:
        args = (kwargs.get("p", t.zero(vector(3, kind.dtype))), kwargs.get("q", identity_quaternion(t, kind.dtype)))
    elif not args:
        args = (t.zero(vector(3, kind.dtype)), identity_quaternion(t, kind.dtype))
    elif len(args) == 1 and "q" in kwargs:
        args = (args[0], kwargs["q"])
    if len(args) == 2 and [len(_scalars_of(a)) for a in args] != [3, 4]:
        raise t.error(node, f"{kind}(p, q) takes a vec3 and a quat, got {describe(args[0])} and {describe(args[1])}")
    return _homogeneous(t, kind, args, node)


def identity_quaternion(t: Context, dtype: Scalar) -> Parts:
    return Parts(quaternion(dtype), tuple(t.b.const(v, dtype) for v in (0, 0, 0, 1)))


def _struct(t: Context, kind: Struct, args: tuple, kwargs: dict[str, Any], node: ast.AST) -> Fields:
    if args:
        raise t.error(node, f"{kind}(...) takes its fields by name: {', '.join(kind.fields)}")
    out = dict(t.zero(kind).values)
    for key, value in kwargs.items():
        if key not in kind.fields:
            raise t.error(
                node,
                f"struct {kind} has no field '{key}'{did_you_mean(key, kind.fields)}",
                f"it has {', '.join(kind.fields)}",
            )
        out[key] = fit_field(t, kind, key, value, node)
    return Fields(kind, out)


def fit_field(t: Context, kind: Struct, key: str, value: Any, node: ast.AST) -> Any:
    """A value for a field of a struct, which has to have the field's type."""
    field = kind.fields[key]
    try:
        if value is None and isinstance(field, ArrayType):
            return None
        return t.fit(t.load(value), field)
    except Mismatch as problem:
        hint = str(problem.args[1]) if len(problem.args) > 1 else ""
        raise t.error(node, f"field '{key}' of {kind}: {problem.args[0]}", hint) from None
