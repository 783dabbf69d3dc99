"""What kernels show: `print` and `printf` in Warp's formats, and the comparisons that print where they fail."""

from __future__ import annotations

import ast
import re

from sim.core.lang.frontend.traced import (
    Keywords,
    Positional,
    StructValue,
    TracedValue,
    VectorValue,
    describe,
    flatten,
    is_number,
    kind_of,
)
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.operators import binary, compare, elementwise
from sim.core.lang.frontend.tracing.registry import builtin, takes
from sim.core.lang.ir.core import Op, Value
from sim.core.lang.types import Matrix, Scalar, Type

MOST_VALUES = 32
"""Values after the format of a `printf`, as in Warp."""


@builtin("print", host=print)
def _print(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> None:
    """print(x) shows a value of the run as Warp does (floats with six digits);
    print(a, "text", b) several in a line, with all digits."""
    takes(t, node, "print", args, kwargs, 0, 1000)
    values: list[Value] = []
    texts = [_alone(t, args[0], values)] if len(args) == 1 else [_template(t, a, values) for a in args]
    _show(t, " ".join(texts) + "\n", values)


def _show(t: Context, text: str, values: list[Value]) -> None:
    t.b.append(Op("print", values, [], {"format": text}))


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _template(t: Context, x: TracedValue, values: list[Value]) -> str:
    """What `str.format` makes of x, whose leaves go to `values`: all digits, vectors and tuples in brackets."""
    if isinstance(x, str):
        return _literal(x)
    if isinstance(x, tuple):
        return "(" + ", ".join(_template(t, v, values) for v in x) + ")"
    if is_number(x):
        return str(x)
    if isinstance(x, StructValue):
        return f"{x.type}(" + ", ".join(f"{k}={_template(t, v, values)}" for k, v in x.values.items()) + ")"
    if isinstance(x, (Value, VectorValue)):
        found = flatten(x)
        values.extend(found)
        return "{}" if isinstance(x, Value) else "[" + ", ".join("{}" for _ in found) + "]"
    return _literal(describe(x))


def _alone(t: Context, x: TracedValue, values: list[Value]) -> str:
    """`_template` in Warp's format: floats as %g; vectors and matrices by rows, without brackets."""
    if isinstance(x, float):
        return f"{x:g}"
    if not isinstance(x, (Value, VectorValue)):
        return _template(t, x, values)
    found = flatten(x)
    values.extend(found)
    fields = [_field(v.type) for v in found]
    if isinstance(x, Value):
        return fields[0]
    if kind_of(x) == "transform":
        return f"({' '.join(fields[:3])}) ({' '.join(fields[3:])})"
    width = x.type.cols if isinstance(x.type, Matrix) else len(fields)
    rows = [" ".join(fields[k : k + width]) for k in range(0, len(fields), width)]
    return rows[0] if kind_of(x) == "quat" else " \n".join(rows) + " "


def _field(ty: Type) -> str:
    return "{:g}" if isinstance(ty, Scalar) and ty.is_float else "{}"


_CONVERSION = re.compile(r"%([-+ 0#]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)?([diufFgGeExXosc%])")


@builtin("printf")
def _printf(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> None:
    """printf("x = %f\\n", x): output with the formats of C."""
    takes(t, node, "printf", args, kwargs, 1, 1000)
    if not isinstance(args[0], str):
        raise t.error(node, "printf takes a format string first")
    if len(args) - 1 > MOST_VALUES:
        most = f"the maximum number of variadic arguments that can be passed to `printf` is {MOST_VALUES}"
        raise t.error(node, f"printf of {len(args) - 1} values", most)
    given = list(args[1:])
    values: list[Value] = []
    pieces = _CONVERSION.split(args[0])
    text, used = "", 0
    for k in range(0, len(pieces), 3):
        text += _literal(pieces[k])
        if k + 2 >= len(pieces):
            break
        flags, letter = pieces[k + 1], pieces[k + 2]
        if letter == "%":
            text += "%"
            continue
        used += 1
        if used > len(given):
            continue
        x = given[used - 1]
        if letter == "s" and isinstance(x, str):
            text += _literal(x)
            continue
        value = t.as_value(x, None, node)
        values.append(value)
        text += _conversion(t, flags, letter, value, node)
    if used != len(given):
        raise t.error(node, f"the format takes {used} value{'s' if used != 1 else ''}, got {len(given)}")
    _show(t, text, values)


def _conversion(t: Context, flags: str, letter: str, value: Value, node: ast.AST) -> str:
    """A conversion of C as a field of `str.format`."""
    if letter == "s":
        return "{}"
    if letter in "dixXoc" and isinstance(value.type, Scalar) and value.type.is_float:
        raise t.error(node, f"printf: %{letter} takes an integer, got {value.type}", "write %f, %g or %e, or int(...)")
    # C aligns right unless told otherwise, and knows no other flag that str.format spells differently
    return "{:" + flags.replace("-", "<") + ("d" if letter in "diu" else letter) + "}"


# ---- comparisons that print where they fail
def _fails(t: Context, bad: TracedValue, text: str, values: list[Value]) -> None:
    """Print `text` where `bad` holds."""
    if bad is True:
        _show(t, text, values)
    elif bad is not False:
        t.b.if_(bad, lambda: _shown(t, text, values), list)


def _shown(t: Context, text: str, values: list[Value]) -> list[Value]:
    _show(t, text, values)
    return []


def _comparison(name: str, op: ast.cmpop, doc: str) -> None:
    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> None:
        actual, expected = _arguments(t, node, name, args, kwargs, 2)
        values: list[Value] = []
        text = f"Error, {name}() failed:\n\t Expected: {_alone(t, expected, values)}\n"
        text += f"\t Actual: {_alone(t, actual, values)}\n"
        equal = compare(t, ast.Eq(), actual, expected, node)
        _fails(t, t.logical_not(equal) if isinstance(op, ast.NotEq) else equal, text, values)

    handler.__doc__ = doc
    builtin(name)(handler)


def _arguments(
    t: Context, node: ast.AST, name: str, args: Positional, kwargs: Keywords, count: int
) -> tuple[TracedValue, ...]:
    """Arguments of an `expect_...`, which Warp calls a, b, tolerance."""
    names = ("a", "b", "tolerance")[:count]
    found = dict(zip(names, args, strict=False))
    found.update({k: kwargs.pop(k) for k in tuple(kwargs) if k in names})
    takes(t, node, name, args, kwargs, 0, count)
    if "a" not in found or "b" not in found:
        raise t.error(node, f"{name} takes {' and '.join(names[:2])}, got {len(found)} of them")
    return tuple(found.get(k) for k in names)


_comparison("expect_eq", ast.NotEq(), "expect_eq(a, b): prints an error, and goes on, where a is not b.")
_comparison("expect_neq", ast.Eq(), "expect_neq(a, b): prints an error, and goes on, where a is b.")


@builtin("expect_near")
def _expect_near(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> None:
    """expect_near(a, b, tolerance=1e-6): prints an error, and goes on, where components are further apart."""
    actual, expected, tolerance = _arguments(t, node, "expect_near", args, kwargs, 3)
    if tolerance is None:
        tolerance = 1.0e-6
    difference = elementwise(t, "abs", (binary(t, "sub", "-", actual, expected, node),), node)
    how = "Absolute difference"
    if isinstance(difference, VectorValue):
        largest, *others = difference.leaves
        for v in others:
            largest = t.b.emit("max", largest, v)
        difference, how = largest, "Max absolute difference"
    values: list[Value] = []
    shown = {"Expected": expected, "Actual": actual, how: difference}
    text = f"Error, expect_near() failed with tolerance {_alone(t, tolerance, values)}\n"
    text += "".join(f"    {what}: {_alone(t, x, values)}\n" for what, x in shown.items())
    _fails(t, compare(t, ast.Gt(), difference, tolerance, node), text, values)
