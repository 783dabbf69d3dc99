"""THE table: one row per primitive of the language.

Everything else (dot, cross, quaternions, svd, ...) is written in the language itself, in `library/`.  A row's `vjp` is
written in IR operations, so a derivative can be differentiated again; `ZERO` says that the derivative is zero, and a
missing one is an error that names the op when it is differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.ir.core import OPS, ZERO, OpDef, Value, emit


def _op(
    name: str,
    arity: int,
    accepts: str,
    doc: str,
    numpy: Callable[..., Any],
    vjp: Any,
    llvm: tuple[str, ...],
    cuda: str,
    domain: tuple[float, float] = (-2.0, 2.0),
    result: str = "same",
) -> None:
    OPS[name] = OpDef(name, arity, accepts, result, doc, numpy, vjp, llvm, cuda, domain)


def select(cond: Value, a: Any, b: Any) -> Value:
    return emit("select", cond, a, b)


def guarded(ct: Value, singular: Value, part: Any) -> Value:
    """`part`, a cotangent, but 0 where `ct` is 0 and the derivative is infinite because `singular` is 0.

    What nobody asks for must not spoil the sum with 0 * inf.  A zero `ct` alone changes nothing: it has a derivative.
    """
    return select(emit("and", emit("eq", ct, 0.0), emit("eq", singular, 0.0)), 0.0, part)


def _trunc_div(a: Any, b: Any) -> Any:
    """C division: floats divide, integers truncate; an integer divided by zero gives 0 (the language defines it)."""
    if np.asarray(a).dtype.kind == "f":
        return np.divide(a, b)
    safe = np.where(b == 0, 1, b)
    q = np.floor_divide(a, safe)
    q = q + ((q < 0) & (q * safe != a)).astype(q.dtype)
    return np.where(b == 0, np.zeros_like(q), q).astype(np.asarray(a).dtype)[()]


def _c_mod(a: Any, b: Any) -> Any:
    """C remainder: the sign of the dividend; an integer remainder by zero is 0 (the language defines it)."""
    if np.asarray(a).dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, 0, a - _trunc_div(a, b) * b).astype(np.asarray(a).dtype)[()]


def _shift(how: Callable[..., Any]) -> Callable[..., Any]:
    """The count is taken modulo the width, as the hardware does."""
    return lambda a, b: how(a, b & np.asarray(b).dtype.type(8 * np.asarray(b).dtype.itemsize - 1))


# ---- arithmetic
_op("add", 2, "fiu", "a + b", np.add, lambda ct, y, a, b: (ct, ct), ("instr", "fadd", "add", "add"), "({0} + {1})")
_op(
    "sub", 2, "fiu", "a - b", np.subtract, lambda ct, y, a, b: (ct, -ct), ("instr", "fsub", "sub", "sub"), "({0} - {1})"
)
_op(
    "mul",
    2,
    "fiu",
    "a b",
    np.multiply,
    lambda ct, y, a, b: (ct * b, ct * a),
    ("instr", "fmul", "mul", "mul"),
    "({0} * {1})",
)
_op(
    "div",
    2,
    "fiu",
    "a / b; integers truncate towards zero",
    _trunc_div,
    lambda ct, y, a, b: (guarded(ct, b, q := ct / b), guarded(ct, b, -(q * y))),
    ("special",),
    "({0} / {1})",
    (0.5, 3.0),
)
_op(
    "mod",
    2,
    "fiu",
    "remainder with the sign of a, as in C",
    _c_mod,
    lambda ct, y, a, b: (ct, -(ct * emit("trunc", a / b))),
    ("special",),
    "fmod{f}({0}, {1})",
    (0.5, 3.0),
)
_op("neg", 1, "fi", "-a", np.negative, lambda ct, y, a: (-ct,), ("special",), "(-{0})")
_op(
    "abs",
    1,
    "fi",
    "|a|; derivative 0 at 0",
    np.abs,
    lambda ct, y, a: (select(emit("gt", a, 0), ct, select(emit("lt", a, 0), -ct, 0.0)),),
    ("special",),
    "fabs{f}({0})",
)
_op(
    "min",
    2,
    "fiu",
    "the smaller one; of equal ones the first gets the derivative; a NaN is passed over",
    np.fmin,
    lambda ct, y, a, b: (select((c := emit("or", emit("le", a, b), emit("ne", b, b))), ct, 0.0), select(c, 0.0, ct)),
    ("special",),
    "fmin{f}({0}, {1})",
)
_op(
    "max",
    2,
    "fiu",
    "the larger one; of equal ones the first gets the derivative; a NaN is passed over",
    np.fmax,
    lambda ct, y, a, b: (select((c := emit("or", emit("ge", a, b), emit("ne", b, b))), ct, 0.0), select(c, 0.0, ct)),
    ("special",),
    "fmax{f}({0}, {1})",
)

# ---- powers, exponentials
_op(
    "sqrt",
    1,
    "f",
    "square root",
    np.sqrt,
    lambda ct, y, a: (guarded(ct, y, ct * (0.5 / y)),),
    ("intrinsic", "sqrt"),
    "sqrt{f}({0})",
    (0.1, 4.0),
)
_op(
    "cbrt",
    1,
    "f",
    "cube root",
    np.cbrt,
    lambda ct, y, a: (guarded(ct, y, ct / (3.0 * y * y)),),
    ("libm", "cbrt"),
    "cbrt{f}({0})",
    (0.1, 4.0),
)
_op("exp", 1, "f", "e^a", np.exp, lambda ct, y, a: (ct * y,), ("intrinsic", "exp"), "exp{f}({0})")
_op(
    "log",
    1,
    "f",
    "natural logarithm",
    np.log,
    lambda ct, y, a: (guarded(ct, a, ct / a),),
    ("intrinsic", "log"),
    "log{f}({0})",
    (0.1, 4.0),
)
_op(
    "log2",
    1,
    "f",
    "logarithm to base 2",
    np.log2,
    lambda ct, y, a: (guarded(ct, a, ct / (a * math.log(2.0))),),
    ("intrinsic", "log2"),
    "log2{f}({0})",
    (0.1, 4.0),
)
_op(
    "log10",
    1,
    "f",
    "logarithm to base 10",
    np.log10,
    lambda ct, y, a: (guarded(ct, a, ct / (a * math.log(10.0))),),
    ("intrinsic", "log10"),
    "log10{f}({0})",
    (0.1, 4.0),
)
_op(
    "pow",
    2,
    "f",
    "a^b; derivative by b is 0 where a <= 0",
    np.power,
    lambda ct, y, a, b: (
        select(emit("eq", b, 0.0), 0.0, guarded(ct, a, ct * (b * emit("pow", a, b - 1.0)))),
        select(emit("gt", a, 0.0), ct * (y * emit("log", select(emit("gt", a, 0.0), a, 1.0))), 0.0),
    ),
    ("intrinsic", "pow"),
    "pow{f}({0}, {1})",
    (0.3, 2.0),
)

# ---- trigonometry
_op("sin", 1, "f", "sine", np.sin, lambda ct, y, a: (ct * emit("cos", a),), ("intrinsic", "sin"), "sin{f}({0})")
_op("cos", 1, "f", "cosine", np.cos, lambda ct, y, a: (-(ct * emit("sin", a)),), ("intrinsic", "cos"), "cos{f}({0})")
_op(
    "tan",
    1,
    "f",
    "tangent",
    np.tan,
    lambda ct, y, a: (ct * (1.0 + y * y),),
    ("libm", "tan"),
    "tan{f}({0})",
    (-1.2, 1.2),
)
_op(
    "asin_unclamped",
    1,
    "f",
    "arc sine on [-1, 1]; the library's asin clamps first",
    np.arcsin,
    lambda ct, y, a: (ct / emit("sqrt", (1.0 - a) * (1.0 + a)),),
    ("libm", "asin"),
    "asin{f}({0})",
    (-0.9, 0.9),
)
_op(
    "acos_unclamped",
    1,
    "f",
    "arc cosine on [-1, 1]; the library's acos clamps first",
    np.arccos,
    lambda ct, y, a: (-(ct / emit("sqrt", (1.0 - a) * (1.0 + a))),),
    ("libm", "acos"),
    "acos{f}({0})",
    (-0.9, 0.9),
)
_op("atan", 1, "f", "arc tangent", np.arctan, lambda ct, y, a: (ct / (1.0 + a * a),), ("libm", "atan"), "atan{f}({0})")
_op(
    "atan2",
    2,
    "f",
    "angle of the point (b, a): atan2(y, x); derivative 0 at the origin",
    np.arctan2,
    lambda ct, y, a, b: ((d := select(emit("eq", r := a * a + b * b, 0.0), 0.0, ct / r)) * b, -(d * a)),
    ("libm", "atan2"),
    "atan2{f}({0}, {1})",
    (0.3, 2.0),
)
_op(
    "sinh",
    1,
    "f",
    "hyperbolic sine",
    np.sinh,
    lambda ct, y, a: (ct * emit("cosh", a),),
    ("libm", "sinh"),
    "sinh{f}({0})",
)
_op(
    "cosh",
    1,
    "f",
    "hyperbolic cosine",
    np.cosh,
    lambda ct, y, a: (ct * emit("sinh", a),),
    ("libm", "cosh"),
    "cosh{f}({0})",
)
_op(
    "tanh",
    1,
    "f",
    "hyperbolic tangent",
    np.tanh,
    lambda ct, y, a: (ct * (1.0 - y * y),),
    ("libm", "tanh"),
    "tanh{f}({0})",
)

# ---- rounding: the derivative is zero
_op(
    "floor", 1, "f", "largest integer not above a", np.floor, ZERO, ("intrinsic", "floor"), "floor{f}({0})", (-3.0, 3.0)
)
_op("ceil", 1, "f", "smallest integer not below a", np.ceil, ZERO, ("intrinsic", "ceil"), "ceil{f}({0})", (-3.0, 3.0))
_op("trunc", 1, "f", "towards zero", np.trunc, ZERO, ("intrinsic", "trunc"), "trunc{f}({0})", (-3.0, 3.0))
_op("rint", 1, "f", "to the nearest, halves to even", np.rint, ZERO, ("intrinsic", "rint"), "rint{f}({0})", (-3.0, 3.0))
_op(
    "copysign",
    2,
    "f",
    "magnitude of a with the sign of b",
    np.copysign,
    lambda ct, y, a, b: (ct * (emit("copysign", 1.0, a) * emit("copysign", 1.0, b)), None),
    ("intrinsic", "copysign"),
    "copysign{f}({0}, {1})",
)

# ---- comparison: false where an operand is a NaN, except ne
_op("lt", 2, "fiu", "a < b", np.less, ZERO, ("special",), "({0} < {1})", result="bool")
_op("le", 2, "fiu", "a <= b", np.less_equal, ZERO, ("special",), "({0} <= {1})", result="bool")
_op("gt", 2, "fiu", "a > b", np.greater, ZERO, ("special",), "({0} > {1})", result="bool")
_op("ge", 2, "fiu", "a >= b", np.greater_equal, ZERO, ("special",), "({0} >= {1})", result="bool")
_op("eq", 2, "fiub", "a == b", np.equal, ZERO, ("special",), "({0} == {1})", result="bool")
_op("ne", 2, "fiub", "a != b", np.not_equal, ZERO, ("special",), "({0} != {1})", result="bool")

# ---- bits and truth
_op("and", 2, "iub", "bitwise or logical and", np.bitwise_and, ZERO, ("instr", "", "and", "and"), "({0} & {1})")
_op("or", 2, "iub", "bitwise or logical or", np.bitwise_or, ZERO, ("instr", "", "or", "or"), "({0} | {1})")
_op(
    "xor", 2, "iub", "bitwise or logical exclusive or", np.bitwise_xor, ZERO, ("instr", "", "xor", "xor"), "({0} ^ {1})"
)
_op("not", 1, "iub", "bitwise complement or logical not", np.invert, ZERO, ("special",), "(~{0})")
_op("shl", 2, "iu", "shift left", _shift(np.left_shift), ZERO, ("instr", "", "shl", "shl"), "({0} << {1})")
_op(
    "shr",
    2,
    "iu",
    "shift right, arithmetic for signed integers",
    _shift(np.right_shift),
    ZERO,
    ("instr", "", "ashr", "lshr"),
    "({0} >> {1})",
)

# ---- indices
_op(
    "in_bounds",
    2,
    "iu",
    "the index a itself, which has to be one of 0 .. b - 1: reported where accesses are checked",
    lambda a, b: a,
    ZERO,
    ("special",),
    "{0}",
    (0.0, 3.0),
)

# ---- choice and conversion
_op(
    "select",
    3,
    "fiub",
    "b if a else c",
    lambda c, a, b: np.asarray(np.where(c, a, b))[()],
    lambda ct, y, c, a, b: (None, select(c, ct, 0.0), select(c, 0.0, ct)),
    ("special",),
    "({0} ? {1} : {2})",
)


def _cast_vjp(ct: Value, y: Value, a: Value) -> tuple[Value | None]:
    both = getattr(a.type, "is_float", False) and getattr(y.type, "is_float", False)
    return (emit("cast", ct, type=a.type) if both else None,)


_op(
    "cast",
    1,
    "fiub",
    "conversion; floats to integers truncate",
    lambda a: a,
    _cast_vjp,
    ("special",),
    "({t})({0})",
    result="free",
)
