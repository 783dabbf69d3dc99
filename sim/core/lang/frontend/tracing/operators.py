"""Arithmetic, comparison and logic on traced values."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.function import Function
from sim.core.lang.frontend.traced import (
    Positional,
    StructValue,
    TracedValue,
    VectorValue,
    constant,
    describe,
    is_number,
    is_traced,
    kind_of,
)
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.ir.core import Value
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import Scalar, Type, bool_, float32, float64, int32, public_name

OPERATORS: dict[tuple[str, str, str], Function] = {}
"""Products that the library defines: ("mul", kind, kind) -> function; kinds as `traced.kind_of` names them.

`*` and `@` both look here: ("mul", "matrix", "vector"), ("mul", "quat", "quat"), ("mul", "transform", "transform"), ...
"""

BINARY: dict[type, tuple[str, str]] = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.Div: ("div", "/"),
    ast.Mod: ("mod", "%"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Pow: ("pow", "**"),
    ast.MatMult: ("matmul", "@"),
    ast.LShift: ("shl", "<<"),
    ast.RShift: ("shr", ">>"),
    ast.BitAnd: ("and", "&"),
    ast.BitOr: ("or", "|"),
    ast.BitXor: ("xor", "^"),
}
COMPARISONS: dict[type, tuple[str, str]] = {
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
}
_PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "pow": operator.pow,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_OF_BITS = ("and", "or", "xor", "shl", "shr")
_MAX_POWER = 16


def binary(t: Context, op: str, sign: str, a: TracedValue, b: TracedValue, node: ast.AST) -> TracedValue:
    """`a op b` by the rules of the language: no implicit promotion, weak numbers take the other's type."""
    if is_number(a) and is_number(b):
        return _static(t, op, sign, a, b, node)
    ka, kb = kind_of(a), kind_of(b)
    if ka == kb == "scalar" and op != "matmul":
        return _scalars(t, op, sign, a, b, node)
    if isinstance(a, VectorValue) or isinstance(b, VectorValue):
        return _composites(t, op, sign, a, b, ka, kb, node)
    if isinstance(a, StructValue) or isinstance(b, StructValue):
        own = t.frame.function.scope.find(op)  # as in Warp: `def add(a: Complex, b: Complex)` where it is used
        t.captures.name(t.frame.function, op, own)
        if isinstance(own, Function):
            return call_function(t, own, (a, b), {}, node)
    if isinstance(a, str) and isinstance(b, str) and op == "add":
        return a + b
    if isinstance(a, tuple) and isinstance(b, tuple) and op == "add":
        return a + b
    if (
        (tuple in (type(a), type(b)) or str in (type(a), type(b)))
        and not is_traced(a)
        and not is_traced(b)
        and op in _PYTHON
    ):
        try:
            return _PYTHON[op](a, b)
        except TypeError:
            pass
    raise _not_defined(t, sign, a, b, node)


def _not_defined(t: Context, sign: str, a: TracedValue, b: TracedValue, node: ast.AST) -> KernelError:
    ty = next((public_name(x.type) for x in (a, b) if isinstance(x, VectorValue)), "sim.vector")
    hint = f"write {ty}(...) around the tuple" if isinstance(a, tuple) or isinstance(b, tuple) else ""
    return t.error(node, f"{sign} is not defined for {describe(a)} and {describe(b)}", hint)


def _static(t: Context, op: str, sign: str, a: TracedValue, b: TracedValue, node: ast.AST) -> TracedValue:
    """Of two numbers that are known now."""
    if op == "div" and b == 0 and float in (type(a), type(b)):
        with np.errstate(all="ignore"):  # infinite or a NaN, as at run time
            return float(np.float64(a) / np.float64(b))
    if op in ("div", "mod", "floordiv") and b == 0:
        raise t.error(node, f"{a!r} {sign} {b!r}: division by zero")
    if op == "div":
        if isinstance(a, int) and isinstance(b, int):
            if a % b:  # typed, so that `x * (1 / 2)` is an error, not zero
                return t.b.emit("div", t.as_value(a, int32, node), t.as_value(b, int32, node))
            return a // b
        return a / b
    if op == "mod":
        return a - b * int(a / b) if isinstance(a, int) and isinstance(b, int) else math.fmod(a, b)
    try:
        return _PYTHON[op](a, b)
    except (TypeError, ValueError, OverflowError, KeyError) as problem:
        raise t.error(node, f"{a!r} {sign} {b!r}: {problem}") from None


def _scalars(t: Context, op: str, sign: str, a: TracedValue, b: TracedValue, node: ast.AST) -> TracedValue:
    if op == "pow":
        return power(t, a, b, node)
    x, y = pair(t, sign, a, b, node)
    if op == "floordiv":
        return _floor_divide(t, x, y)
    _check_kind(t, op, sign, x, node)
    return t.b.emit(op, x, y)


def pair(t: Context, sign: str, a: TracedValue, b: TracedValue, node: ast.AST) -> tuple[Value, Value]:
    """Two scalars of one type; the type of a typed one rules over a weak one."""
    if isinstance(a, Value) and isinstance(b, Value):
        if a.type is not b.type:
            raise t.error(
                node, f"{sign} of {a.type} and {b.type}: there is no implicit conversion", _conversion(t, a, b)
            )
        return a, b
    ty = a.type if isinstance(a, Value) else b.type if isinstance(b, Value) else None
    if isinstance(ty, Scalar) and ty.is_int:
        for x in (a, b):
            if isinstance(x, float):
                raise t.error(
                    node,
                    f"{sign} of {ty} and the number {x!r}: there is no implicit conversion",
                    "write float(...) around the integer",
                )
    return t.as_value(a, ty, node), t.as_value(b, ty, node)


def _conversion(t: Context, a: Value, b: Value) -> str:
    floats = [v.type for v in (a, b) if isinstance(v.type, Scalar) and v.type.is_float]
    wide = floats[0] if len(floats) == 1 else max((a.type, b.type), key=lambda k: getattr(k, "bits", 0))
    which = "left" if b.type is wide else "right"
    return f"convert the {which} side: write {t.spelled(wide)}(...)"


def _check_kind(t: Context, op: str, sign: str, x: Value, node: ast.AST) -> None:
    ty = x.type
    if isinstance(ty, Scalar) and ty.kind not in OPS[op].accepts:
        what = {"f": "floats", "i": "integers", "u": "unsigned integers", "b": "bools"}
        takes = ", ".join(what[k] for k in OPS[op].accepts if k in what)
        hint = "write `and`, `or`, `not` for logic, int(...) for numbers" if ty is bool_ else ""
        raise t.error(node, f"{sign} is not defined for {ty}; it takes {takes}", hint)


def _floor_divide(t: Context, a: Value, b: Value) -> Value:
    ty = a.type
    assert isinstance(ty, Scalar)
    quotient = t.b.emit("div", a, b)
    if ty.is_float:
        return t.b.emit("floor", quotient)
    if ty.kind == "u" or not t.may_be_negative(a, b):
        return quotient
    rest = t.b.emit("sub", a, t.b.emit("mul", quotient, b))
    zero = t.b.const(0, ty)
    differ = t.b.emit("ne", t.b.emit("lt", rest, zero), t.b.emit("lt", b, zero))
    inexact = t.b.emit("and", t.b.emit("ne", rest, zero), t.b.emit("ne", b, zero))
    down = t.b.emit("sub", quotient, t.b.const(1, ty))
    return t.b.emit("select", t.b.emit("and", inexact, differ), down, quotient)


def power(t: Context, a: TracedValue, b: TracedValue, node: ast.AST) -> TracedValue:
    """a ** b; small whole exponents that are known now by multiplication (exact, and differentiable at 0)."""
    exponent = constant(b) if is_number(b) else None
    if is_number(a) and exponent is not None:
        return _static(t, "pow", "**", a, b, node)
    if exponent is not None and float(exponent).is_integer() and abs(exponent) <= _MAX_POWER and isinstance(a, Value):
        if not isinstance(a.type, Scalar) or a.type is bool_:
            raise t.error(node, f"** is not defined for {a.type}")
        if exponent >= 0 or a.type.is_float:
            product = _repeated(t, a, abs(int(exponent)))
            return product if exponent >= 0 else t.b.emit("div", t.b.const(1, a.type), product)
    x, y = pair(t, "**", a, b, node)
    if not (isinstance(x.type, Scalar) and x.type.is_float):
        raise t.error(
            node, f"** of {x.type} takes a constant exponent from 0 to {_MAX_POWER}", "write float(...) ** float(...)"
        )
    return t.b.emit("pow", x, y)


def _repeated(t: Context, a: Value, n: int) -> Value:
    out: Value | None = None
    square = a
    while n:
        if n & 1:
            out = square if out is None else t.b.emit("mul", out, square)
        n >>= 1
        if n:
            square = t.b.emit("mul", square, square)
    return out if out is not None else t.b.const(1, a.type)


def _composites(
    t: Context, op: str, sign: str, a: TracedValue, b: TracedValue, ka: str, kb: str, node: ast.AST
) -> TracedValue:
    hook = OPERATORS.get(("mul" if op == "matmul" else op, ka, kb))
    if hook is not None:
        return call_function(t, hook, (a, b), {}, node)
    if isinstance(a, VectorValue) and isinstance(b, VectorValue):
        if op in ("add", "sub", *_OF_BITS) or (op == "mod" and ka == kb == "vector"):
            if a.type is not b.type:
                raise t.error(node, f"{sign} of {a.type} and {b.type}: the types differ")
            for x in a.leaves[:1]:
                _check_kind(t, op, sign, x, node)
            return VectorValue(a.type, tuple(t.b.emit(op, x, y) for x, y in zip(a.leaves, b.leaves, strict=True)))
        if ka == kb == "vector":
            hint = (
                "write sim.dot(a, b) for the inner product, sim.cw_mul(a, b) component by component"
                if op in ("mul", "matmul")
                else ("write sim.cw_div(a, b) component by component" if op == "div" else "")
            )
            raise t.error(node, f"{sign} is not defined for {a.type} and {b.type}", hint)
    elif (
        op in ("mul", "div", "mod")
        and (ka == "scalar" or kb == "scalar")
        and (isinstance(a, VectorValue) or op != "mod")
    ):
        parts, scalar = (a, b) if isinstance(a, VectorValue) else (b, a)
        assert isinstance(parts, VectorValue)
        if isinstance(scalar, Value) and scalar.type is not parts.type.dtype:
            raise t.error(
                node,
                f"{sign} of {describe(a)} and {describe(b)}: there is no implicit conversion",
                f"convert the scalar to {parts.type.dtype}",
            )
        s = t.as_value(scalar, parts.type.dtype, node)
        return VectorValue(
            parts.type, tuple(t.b.emit(op, x, s) if parts is a else t.b.emit(op, s, x) for x in parts.leaves)
        )
    raise _not_defined(t, sign, a, b, node)


def unary(t: Context, op: ast.unaryop, x: TracedValue, node: ast.AST) -> TracedValue:
    if isinstance(op, ast.Not):
        return t.logical_not(t.logical(x, node))
    if is_number(x):
        return -x if isinstance(op, ast.USub) else +x if isinstance(op, ast.UAdd) else ~x
    if isinstance(x, VectorValue) and isinstance(op, (ast.USub, ast.UAdd, ast.Invert)):
        return VectorValue(x.type, tuple(unary(t, op, v, node) for v in x.leaves))
    if isinstance(x, Value) and isinstance(x.type, Scalar):
        if isinstance(op, ast.UAdd):
            return x
        if isinstance(op, ast.USub) and x.type is not bool_:
            return t.b.emit("sub", t.b.const(0, x.type), x) if x.type.kind == "u" else t.b.emit("neg", x)
        if isinstance(op, ast.Invert) and not x.type.is_float:
            return t.b.emit("not", x)
    sign = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(op)]
    raise t.error(node, f"unary {sign} is not defined for {describe(x)}")


def compare(t: Context, op: ast.cmpop, a: TracedValue, b: TracedValue, node: ast.AST) -> TracedValue:
    """One comparison: a Python bool if both sides are known, else a bool `Value`."""
    if isinstance(op, (ast.Is, ast.IsNot)):
        if b is not None and a is not None and not (isinstance(a, bool) or isinstance(b, bool)):
            raise t.error(node, "`is` compares with None only", "write ==")
        return (a is b) == isinstance(op, ast.Is)
    if isinstance(op, (ast.In, ast.NotIn)):
        if is_traced(a) or not isinstance(b, (tuple, str, dict, set, frozenset)):
            raise t.error(
                node,
                "`in` is decided while compiling: it takes a constant and a tuple of constants",
                "compare one by one: `i == 1 or i == 2`",
            )
        return (a in b) == isinstance(op, ast.In)
    name, sign = COMPARISONS[type(op)]
    if isinstance(a, VectorValue) and isinstance(b, VectorValue) and name in ("eq", "ne"):
        return _compare_parts(t, name, sign, a, b, node)
    if kind_of(a) == kind_of(b) == "scalar" and (isinstance(a, Value) or isinstance(b, Value)):
        x, y = pair(t, sign, *_of_one_type(t, a, b), node)
        _check_kind(t, name, sign, x, node)
        return t.b.emit(name, x, y)
    if is_traced(a) or is_traced(b):
        if name in ("eq", "ne") and (a is None or b is None):
            return name == "ne"
        raise t.error(node, f"{sign} is not defined for {describe(a)} and {describe(b)}")
    if is_number(a) and is_number(b) and isinstance(a, bool) != isinstance(b, bool):  # as of values of the run
        what = f"{sign} of {describe(a)} and {describe(b)}: there is no implicit conversion"
        raise t.error(node, what, "compare with True or False, or write int(...)")
    try:
        return bool(_PYTHON[name](a, b))
    except TypeError as problem:
        raise t.error(node, str(problem)) from None


def _of_one_type(t: Context, a: TracedValue, b: TracedValue) -> tuple[TracedValue, TracedValue]:
    """Both sides of a comparison, as C compares them, the narrower one converted to the type of the other: an integer
    to a float, a number to one with more bits.  Not what C gets wrong: a signed one that would become unsigned."""
    if isinstance(a, float) or isinstance(b, float):  # a constant, of no type as yet
        return _beside_a_float(t, a), _beside_a_float(t, b)
    if isinstance(a, Value) and isinstance(b, Value) and isinstance(a.type, Scalar) and isinstance(b.type, Scalar):
        if a.type is not b.type:
            if _widens(a.type, b.type):
                return t.b.emit("cast", a, type=b.type), b
            if _widens(b.type, a.type):
                return a, t.b.emit("cast", b, type=a.type)
    return a, b


def _beside_a_float(t: Context, x: TracedValue) -> TracedValue:
    """An integer as a float that has all of its values, or nearly, of 64 bits; anything else as it is."""
    if isinstance(x, Value) and isinstance(x.type, Scalar) and x.type.is_int:
        return t.b.emit("cast", x, type=float32 if x.type.bits <= 16 else float64)
    return x


def _widens(narrow: Scalar, wide: Scalar) -> bool:
    if narrow is bool_ or wide is bool_:
        return False
    if narrow.is_float or wide.is_float:
        return wide.is_float and (not narrow.is_float or narrow.bits < wide.bits)
    return narrow.bits < wide.bits and (wide.kind == "i" or narrow.kind == "u")


def _compare_parts(t: Context, name: str, sign: str, a: VectorValue, b: VectorValue, node: ast.AST) -> TracedValue:
    if a.type is not b.type:
        raise t.error(node, f"{sign} of {a.type} and {b.type}: the types differ")
    out: Value | None = None
    for x, y in zip(a.leaves, b.leaves, strict=True):
        each = t.b.emit(name, x, y)
        out = each if out is None else t.b.emit("and" if name == "eq" else "or", out, each)
    return name == "eq" if out is None else out  # of no components


def elementwise(t: Context, name: str, args: Positional, node: ast.AST) -> TracedValue:
    """A primitive of the op table: on scalars, on composites by component (scalars are spread), on numbers now."""
    row = OPS[name]
    if len(args) != row.arity:
        raise t.error(
            node, f"{name} takes {row.arity} argument{'s' if row.arity > 1 else ''}, got {len(args)}", row.doc
        )
    shapes = [a for a in args if isinstance(a, VectorValue)]
    if shapes:
        if any(s.type is not shapes[0].type for s in shapes):
            raise t.error(node, f"{name} of {' and '.join(describe(a) for a in args)}: the types differ")
        columns = [a.leaves if isinstance(a, VectorValue) else (a,) * len(shapes[0].leaves) for a in args]
        leaves = tuple(_primitive(t, name, group, node) for group in zip(*columns, strict=True))
        if row.result == "bool":
            raise t.error(node, f"{name} of {shapes[0].type}: compare with == or component by component")
        return VectorValue(shapes[0].type, leaves)
    if all(is_number(a) for a in args):
        return _known(t, name, args)
    return _primitive(t, name, args, node)


def _known(t: Context, name: str, args: Positional) -> TracedValue:
    whole = all(isinstance(a, int) for a in args) and "i" in OPS[name].accepts
    if whole and OPS[name].accepts == "iu":  # the width matters: that of an integer without a type
        args = tuple(np.int32(a) if -(2**31) <= a < 2**31 else a for a in args)
    with np.errstate(all="ignore"):  # log(-1) is a NaN, as at run time
        out = OPS[name].numpy(*(args if whole else [np.float64(a) for a in args]))
    return bool(out) if OPS[name].result == "bool" else int(out) if whole else float(out)


def _primitive(t: Context, name: str, args: Positional, node: ast.AST) -> Value:
    row = OPS[name]
    kinds = [a.type for a in args if isinstance(a, Value)]
    for other in kinds:
        if other is not kinds[0]:
            raise t.error(
                node, f"{name} of {kinds[0]} and {other}: there is no implicit conversion", "convert one of them"
            )
    ty: Type | None = kinds[0] if kinds else None
    if ty is None and "i" not in row.accepts and "b" not in row.accepts:
        ty = t.real
    for a in args:
        if not (isinstance(a, Value) or is_number(a)):
            raise t.error(node, f"{name} takes numbers, got {describe(a)}")
    values = tuple(t.as_value(a, ty, node) for a in args)
    first = values[0].type
    if isinstance(first, Scalar) and first.kind not in row.accepts:
        if row.accepts == "f":
            raise t.error(node, f"{name} takes floats, not {first}", f"write {name}(float(...))")
        if first.kind == "u" and name == "abs":
            return values[0]
        raise t.error(node, f"{name} is not defined for {first}")
    return t.b.emit(name, *values)
