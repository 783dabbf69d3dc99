"""Types called inside of a kernel: casts and constructors of vectors, matrices, quaternions, transforms and structs."""

from __future__ import annotations

import ast

from sim.core.lang.errors import UnknownAttribute, did_you_mean
from sim.core.lang.frontend.traced import (
    ArrayRef,
    Keywords,
    Mismatch,
    Positional,
    StructValue,
    TracedValue,
    VectorValue,
    describe,
    is_number,
)
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
    Vector,
    bool_,
    float32,
    quaternion,
    vector,
)


def construct(t: Context, ty: Type, args: Positional, kwargs: Keywords, node: ast.AST) -> TracedValue:
    """`ty(*args, **kwargs)`."""
    args = tuple(t.load(a) for a in args)
    kwargs = {k: t.load(v) for k, v in kwargs.items()}
    if isinstance(ty, Struct):
        return _struct(t, ty, args, kwargs, node)
    if isinstance(ty, Transformation):
        return _transformation(t, ty, args, kwargs, node)
    if isinstance(ty, Matrix) and kwargs.get("shape") == ty.shape:  # as in Warp, it may be said once more
        del kwargs["shape"]
    args, kwargs = _parts_in_order(ty, args, kwargs)
    if kwargs:
        raise t.error(node, f"{ty}(...) takes no argument '{next(iter(kwargs))}'")
    if isinstance(ty, Scalar):
        if len(args) > 1:
            raise t.error(node, f"{ty}(...) takes one number, got {len(args)}")
        return cast(t, args[0], ty, node) if args else t.b.const(0, ty)
    if isinstance(ty, Homogeneous):
        return _homogeneous(t, _spatial(ty, args), args, node)
    raise t.error(node, f"{ty} cannot be made inside of a kernel", "pass arrays as arguments")


def _parts_in_order(ty: Type, args: Positional, kwargs: Keywords) -> tuple[Positional, Keywords]:
    """What is given by the names that Warp has for parts of a value, behind what is not."""
    spatial = isinstance(ty, Vector) and ty.length == 6
    for way in _PARTS_OF_QUATERNIONS if isinstance(ty, Quaternion) else _PARTS_OF_SPATIAL if spatial else ():
        if kwargs and set(kwargs) == set(way[len(args) :]):
            return (*args, *(kwargs[key] for key in way[len(args) :])), {}
    return args, kwargs


_PARTS_OF_QUATERNIONS = ("ijk", "real"), ("x", "y", "z", "w"), ("quat",)
_PARTS_OF_SPATIAL = ("w", "v"), ("wx", "wy", "wz", "vx", "vy", "vz")


def cast(t: Context, x: TracedValue, ty: Scalar, node: ast.AST) -> Value:
    """A scalar converted: floats to integers truncate, anything to bool compares with zero."""
    if is_number(x):
        if ty is bool_:
            return t.b.const(bool(x), ty)
        if ty.is_float:
            return t.b.const(float(x), ty)
        number = int(x)
        if isinstance(x, int):  # wraps, as a conversion of a typed integer does
            number &= (1 << ty.bits) - 1
            number -= (ty.kind == "i" and number >> (ty.bits - 1)) << ty.bits
        return t.as_value(number, ty, node)
    if isinstance(x, str) and ty.is_float and x.lower().lstrip("+-") in ("inf", "infinity", "nan"):
        return t.b.const(float(x), ty)
    if not isinstance(x, Value):
        raise t.error(node, f"{ty}(...) converts numbers, got {describe(x)}")
    if ty is bool_ and x.type is not bool_:
        return t.b.emit("ne", x, t.b.const(0, x.type))
    return t.b.emit("cast", x, type=ty)


def _homogeneous(t: Context, ty: Homogeneous, args: Positional, node: ast.AST) -> VectorValue:
    count = len(ty.leaves)
    if not args:
        return VectorValue(ty, tuple(t.b.const(0, leaf.scalar) for leaf in ty.leaves))
    if (
        len(args) == 1
        and isinstance(args[0], VectorValue)
        and args[0].type.shape == ty.shape
        and type(args[0].type) is type(ty)
    ):
        return VectorValue(ty, tuple(cast(t, v, ty.dtype, node) for v in args[0].leaves))
    if isinstance(ty, Matrix) and count > 1 and any(isinstance(a, VectorValue) for a in args):
        raise t.error(
            node,
            f"{ty}(...) takes {count} numbers row by row, or one for all, got {_listed(args)}",
            "write sim.matrix_from_rows(...) or sim.matrix_from_cols(...) for vectors",
        )
    flat = [v for a in args for v in _scalars_of(a)]
    if len(flat) == 1 and count > 1 and not isinstance(ty, Quaternion):
        flat = flat * count
    if len(flat) != count:
        given = "" if all(isinstance(a, Value) or is_number(a) for a in args) else f", of {_listed(args)}"
        raise t.error(node, f"{ty}(...) takes {count} components, got {len(flat)}{given}")
    return VectorValue(ty, tuple(_component(t, ty, k, v, node) for k, v in enumerate(flat)))


def _spatial(ty: Homogeneous, args: Positional) -> Homogeneous:
    """The type of `spatial_vector(w, v)`: its two parts say the precision, as the name does not."""
    parts = {a.type if isinstance(a, VectorValue) else None for a in args}
    part = parts.pop() if ty is vector(6, float32) and len(args) == 2 and len(parts) == 1 else None
    return vector(6, part.dtype) if isinstance(part, Vector) and part.dtype.is_float else ty


def _listed(args: Positional) -> str:
    return " and ".join(map(describe, args))


def _scalars_of(x: TracedValue) -> list[TracedValue]:
    if isinstance(x, VectorValue):
        return list(x.leaves)
    if isinstance(x, tuple):
        return [v for part in x for v in _scalars_of(part)]
    return [x]


def _component(t: Context, ty: Homogeneous, k: int, x: TracedValue, node: ast.AST) -> Value:
    if isinstance(x, ArrayRef):
        raise t.error(node, f"component {k} of {ty}(...) is {describe(x)}", "index the array")
    try:
        return t.typed(x, ty.dtype)
    except Mismatch as problem:
        what = f"component {k} of {ty}(...): {problem.args[0]}"
        if isinstance(x, Value):
            what = f"component {k} of {ty}(...) is expected to be of the type {ty.dtype}, got {x.type}"
        raise t.error(node, what, f"write {t.spelled(ty.dtype)}(...) to convert") from None


def _transformation(t: Context, ty: Transformation, args: Positional, kwargs: Keywords, node: ast.AST) -> VectorValue:
    """`transform(p, q)`, `transform()` (zeros, on the host the identity), seven numbers, another transform."""
    for key in kwargs:
        if key not in ("p", "q"):
            raise t.error(node, f"{ty}(...) takes no argument '{key}'", "its parts are p (vec3) and q (quat)")
    if not args and kwargs:
        args = (kwargs.get("p", t.zero(vector(3, ty.dtype))), kwargs.get("q", identity_quaternion(t, ty.dtype)))
    elif len(args) == 1 and "q" in kwargs:
        args = (args[0], kwargs["q"])
    if len(args) == 2 and [len(_scalars_of(a)) for a in args] != [3, 4]:
        raise t.error(node, f"{ty}(p, q) takes a vec3 and a quat, got {describe(args[0])} and {describe(args[1])}")
    return _homogeneous(t, ty, args, node)


def identity_quaternion(t: Context, dtype: Scalar) -> VectorValue:
    return VectorValue(quaternion(dtype), tuple(t.b.const(v, dtype) for v in (0, 0, 0, 1)))


def _struct(t: Context, ty: Struct, args: Positional, kwargs: Keywords, node: ast.AST) -> StructValue:
    if len(args) > len(ty.fields):
        raise t.error(node, f"{ty}(...) takes {len(ty.fields)} fields, got {len(args)}: {', '.join(ty.fields)}")
    given = dict(zip(ty.fields, args, strict=False))
    for key in kwargs:
        if key in given:
            raise t.error(node, f"{ty}(...) got '{key}' twice")
    out = dict(t.zero(ty).values)
    for key, value in {**given, **kwargs}.items():
        if key not in ty.fields:
            raise t.error(
                node,
                f"struct {ty} has no field '{key}'{did_you_mean(key, ty.fields)}",
                f"it has {', '.join(ty.fields)}",
                UnknownAttribute,
            )
        out[key] = fit_field(t, ty, key, value, node)
    return StructValue(ty, out)


def fit_field(t: Context, ty: Struct, key: str, value: TracedValue, node: ast.AST) -> TracedValue:
    """A value for a field of a struct, which has to have the field's type."""
    field = ty.fields[key]
    try:
        if value is None and isinstance(field, ArrayType):
            return None
        return t.fit(t.load(value), field)
    except Mismatch as problem:
        hint = str(problem.args[1]) if len(problem.args) > 1 else ""
        raise t.error(node, f"field '{key}' of {ty}: {problem.args[0]}", hint) from None
