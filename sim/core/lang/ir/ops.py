"""The rows of the primitives in the op table (`table.py`), one for each.

Everything else (dot, cross, quaternions, svd, ...) is written in the language itself, in `library/`.  A row is all
that a primitive takes: its meaning, its derivative, how LLVM and CUDA spell it, what passes may do with it, and
whether it is a function of the language (columns: `OpDef`).  A row's `vjp` is written in IR operations, so a
derivative can be differentiated again; `ZERO` says that the derivative is zero, and a missing one is an error that
names the op when it is differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.ir.core import Value, emit
from sim.core.lang.ir.lower_bounds import not_negative
from sim.core.lang.ir.table import OPS, ZERO, Instruction, Intrinsic, Libm, OpDef, Special, define
from sim.core.lang.types import bool_, float16

__all__ = ["OPS", "define_op", "guarded", "select"]


def select(cond: Value, a: Any, b: Any) -> Value:
    return emit("select", cond, a, b)


def guarded(ct: Value, singular: Value, part: Any) -> Value:
    """`part`, a cotangent, but 0 where `ct` is 0 and the derivative is infinite because `singular` is 0.

    What nobody asks for must not spoil the sum with 0 * inf.  A zero `ct` alone changes nothing: it has a derivative.
    """
    test = emit("and", emit("eq", ct, 0.0), emit("eq", singular, 0.0))
    if test.op is not None and test.op.name == "and":  # and no constant
        test.op.attrs["guard"] = True
    return select(test, 0.0, part)


def by(ct: Value, b: Value) -> Value:
    """A cotangent divided by b, which often divides others too: all are multiplied by one reciprocal.

    Not in halves, whose reciprocals soon are out of range.
    """
    return ct / b if b.type is float16 else ct * (1.0 / b)


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


def _of_python(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python's numbers, for NumPy's scalars and arrays of them, in their precision."""
    each = np.frompyfunc(function, 1, 1)
    return lambda a: np.asarray(each(np.asarray(a, np.float64))).astype(np.asarray(a).dtype)[()]


_erf, _erfc = _of_python(math.erf), _of_python(math.erfc)


def _bits_set(a: Any) -> Any:
    x = np.asarray(a)
    return np.bitwise_count(x.view(f"u{x.itemsize}")).astype(x.dtype)[()]


def _sign_bits(*operands: Any) -> Any:
    """In the type of the operands, of which one of eight bits is full."""
    bits = np.packbits(np.stack([np.asarray(a) < 0 for a in operands]), axis=0, bitorder="little")[0]
    return bits.astype(np.asarray(operands[0]).dtype)[()]


# ------------------------------------------------------------------------------------------------ helpers of rows
def define_op(
    name: str,
    arity: int,
    accepts: str,
    doc: str,
    numpy: Callable[..., Any],
    vjp: Any,
    llvm: Instruction | Intrinsic | Libm | Special,
    *cuda: str,
    result: str = "same",
    **more: Any,
) -> None:
    """Add a row to the table."""
    define(OpDef(name, arity, accepts, result, doc, numpy, vjp, llvm, cuda, **more))


def _intrinsic(*names: str) -> Intrinsic:
    return Intrinsic(names)


def _always(*constants: Any) -> bool:
    return True


def _undone(name: str) -> Callable[[Value], Value | None]:
    """Done twice it is the operand."""
    return lambda a: a.op.operands[0] if a.op is not None and a.op.name == name else None


def _and(a: Value, b: Value) -> Value | None:
    if a.type is not bool_:
        return None
    return b if a.const is True else a if b.const is True or a.const is False else None


def _or(a: Value, b: Value) -> Value | None:
    if a.type is not bool_:
        return None
    return b if a.const is False else a if b.const is False or a.const is True else None


def _chosen(c: Value, a: Value, b: Value) -> Value | None:
    return a if c.const is True or a is b else b if c.const is False else None


def _cast_vjp(ct: Value, y: Value, a: Value) -> tuple[Value | None]:
    both = getattr(a.type, "is_float", False) and getattr(y.type, "is_float", False)
    return (emit("cast", ct, type=a.type) if both else None,)


# ------------------------------------------------------------------------------------------------ rows
# name, operands, kinds, doc, meaning | derivative | LLVM, CUDA | traits
# fmt: off
_op = define_op

# ---- arithmetic
_op("add", 2, "fiu", "a + b", np.add,
    lambda ct, y, a, b: (ct, ct),
    Instruction("fadd", "add", "add"), "({0} + {1})", "({t})(({u}){0} + ({u}){1})",
    linear=True, builtin=False, folds=_always,
    simplify=lambda a, b: b if a.const == 0 else a if b.const == 0 else None)
_op("sub", 2, "fiu", "a - b", np.subtract,
    lambda ct, y, a, b: (ct, -ct),
    Instruction("fsub", "sub", "sub"), "({0} - {1})", "({t})(({u}){0} - ({u}){1})",
    linear=True, builtin=False, folds=_always, simplify=lambda a, b: a if b.const == 0 else None)
_op("mul", 2, "fiu", "a b", np.multiply,
    lambda ct, y, a, b: (ct * b, ct * a),
    Instruction("fmul", "mul", "mul"), "({0} * {1})", "({t})(({u}){0} * ({u}){1})",
    builtin=False, folds=_always, simplify=lambda a, b: b if a.const == 1 else a if b.const == 1 else None)
_op("div", 2, "fiu", "a / b; integers truncate towards zero", _trunc_div,
    lambda ct, y, a, b: (guarded(ct, b, q := by(ct, b)), guarded(ct, b, -(q * y))),
    Special(), "({0} / {1})", "sim_div({0}, {1})", domain=(0.5, 3.0),
    singular=True, expensive=True, builtin=False, folds=lambda a, b: isinstance(a, float) and b != 0,
    simplify=lambda a, b: a if b.const == 1 else None)
_op("mod", 2, "fiu", "remainder with the sign of a, as in C", _c_mod,
    lambda ct, y, a, b: (ct, -(ct * emit("trunc", a / b))),
    Special(), "fmod{f}({0}, {1})", "sim_mod({0}, {1})", domain=(0.5, 3.0),
    singular=True, expensive=True, builtin=False)
_op("neg", 1, "fi", "-a", np.negative,
    lambda ct, y, a: (-ct,),
    Instruction("fneg {t} {0}", "sub {t} {zero}, {0}", ""), "(-{0})", "({t})(0 - ({u}){0})",
    linear=True, builtin=False, folds=_always, simplify=_undone("neg"))
_op("abs", 1, "fi", "|a|; derivative 0 at 0", np.abs,
    lambda ct, y, a: (select(emit("gt", a, 0), ct, select(emit("lt", a, 0), -ct, 0.0)),),
    Special(), "fabs{f}({0})", "sim_abs({0})")
_op("min", 2, "fiu", "the smaller one; of equal ones the first gets the derivative; a NaN is passed over", np.fmin,
    lambda ct, y, a, b: (select((c := emit("or", emit("le", a, b), emit("ne", b, b))), ct, 0.0), select(c, 0.0, ct)),
    _intrinsic("minnum", "smin", "umin"), "sim_min({0}, {1})", choice=True, builtin=False, folds=_always)
_op("max", 2, "fiu", "the larger one; of equal ones the first gets the derivative; a NaN is passed over", np.fmax,
    lambda ct, y, a, b: (select((c := emit("or", emit("ge", a, b), emit("ne", b, b))), ct, 0.0), select(c, 0.0, ct)),
    _intrinsic("maxnum", "smax", "umax"), "sim_max({0}, {1})", choice=True, builtin=False, folds=_always)

# ---- powers, exponentials
_op("sqrt", 1, "f", "square root", np.sqrt,
    lambda ct, y, a: (guarded(ct, y, ct * (0.5 / y)),),
    _intrinsic("sqrt"), "sqrt{f}({0})", domain=(0.1, 4.0), singular=True, expensive=True)
_op("cbrt", 1, "f", "cube root", np.cbrt,
    lambda ct, y, a: (guarded(ct, y, ct / (3.0 * y * y)),),
    Libm("cbrt"), "cbrt{f}({0})", domain=(0.1, 4.0), singular=True, expensive=True)
_op("exp", 1, "f", "e^a", np.exp,
    lambda ct, y, a: (ct * y,),
    _intrinsic("exp"), "exp{f}({0})", singular=True, expensive=True)
_op("log", 1, "f", "natural logarithm", np.log,
    lambda ct, y, a: (guarded(ct, a, ct / a),),
    _intrinsic("log"), "log{f}({0})", domain=(0.1, 4.0), singular=True, expensive=True)
_op("log2", 1, "f", "logarithm to base 2", np.log2,
    lambda ct, y, a: (guarded(ct, a, ct / (a * math.log(2.0))),),
    _intrinsic("log2"), "log2{f}({0})", domain=(0.1, 4.0), singular=True, expensive=True)
_op("log10", 1, "f", "logarithm to base 10", np.log10,
    lambda ct, y, a: (guarded(ct, a, ct / (a * math.log(10.0))),),
    _intrinsic("log10"), "log10{f}({0})", domain=(0.1, 4.0), singular=True, expensive=True)
_op("pow", 2, "f", "a^b; derivative by b is 0 where a <= 0", np.power,
    lambda ct, y, a, b: (
        select(emit("eq", b, 0.0), 0.0, guarded(ct, a, ct * (b * emit("pow", a, b - 1.0)))),
        select(emit("gt", a, 0.0), ct * (y * emit("log", select(emit("gt", a, 0.0), a, 1.0))), 0.0)),
    _intrinsic("pow"), "pow{f}({0}, {1})", domain=(0.3, 2.0), singular=True, expensive=True, builtin=False)

# ---- trigonometry
_op("sin", 1, "f", "sine", np.sin,
    lambda ct, y, a: (ct * emit("cos", a),), _intrinsic("sin"), "sin{f}({0})", expensive=True)
_op("cos", 1, "f", "cosine", np.cos,
    lambda ct, y, a: (-(ct * emit("sin", a)),), _intrinsic("cos"), "cos{f}({0})", expensive=True)
_op("tan", 1, "f", "tangent", np.tan,
    lambda ct, y, a: (ct * (1.0 + y * y),),
    Libm("tan"), "tan{f}({0})", domain=(-1.2, 1.2), singular=True, expensive=True)
_op("asin_unclamped", 1, "f", "arc sine on [-1, 1]; the library's asin clamps first", np.arcsin,
    lambda ct, y, a: (ct / emit("sqrt", (1.0 - a) * (1.0 + a)),),
    Libm("asin"), "asin{f}({0})", domain=(-0.9, 0.9), singular=True, expensive=True)
_op("acos_unclamped", 1, "f", "arc cosine on [-1, 1]; the library's acos clamps first", np.arccos,
    lambda ct, y, a: (-(ct / emit("sqrt", (1.0 - a) * (1.0 + a))),),
    Libm("acos"), "acos{f}({0})", domain=(-0.9, 0.9), singular=True, expensive=True)
_op("atan", 1, "f", "arc tangent", np.arctan,
    lambda ct, y, a: (ct / (1.0 + a * a),), Libm("atan"), "atan{f}({0})", expensive=True)
_op("atan2", 2, "f", "angle of the point (b, a): atan2(y, x); derivative 0 at the origin", np.arctan2,
    lambda ct, y, a, b: ((d := select(emit("eq", r := a * a + b * b, 0.0), 0.0, ct / r)) * b, -(d * a)),
    Libm("atan2"), "atan2{f}({0}, {1})", domain=(0.3, 2.0), singular=True, expensive=True)
_op("sinh", 1, "f", "hyperbolic sine", np.sinh,
    lambda ct, y, a: (ct * emit("cosh", a),), Libm("sinh"), "sinh{f}({0})", singular=True, expensive=True)
_op("cosh", 1, "f", "hyperbolic cosine", np.cosh,
    lambda ct, y, a: (ct * emit("sinh", a),), Libm("cosh"), "cosh{f}({0})", singular=True, expensive=True)
_op("tanh", 1, "f", "hyperbolic tangent", np.tanh,
    lambda ct, y, a: (ct * (1.0 - y * y),), Libm("tanh"), "tanh{f}({0})", expensive=True)

# ---- error functions
_op("erf", 1, "f", "error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to a", _erf,
    lambda ct, y, a: (ct * (emit("exp", -(a * a)) * (2.0 / math.sqrt(math.pi))),),
    Libm("erf"), "erf{f}({0})", singular=True, expensive=True)
_op("erfc", 1, "f", "1 - erf(a), without cancellation", _erfc,
    lambda ct, y, a: (-(ct * (emit("exp", -(a * a)) * (2.0 / math.sqrt(math.pi)))),),
    Libm("erfc"), "erfc{f}({0})", singular=True, expensive=True)

# ---- rounding: the derivative is zero
_op("floor", 1, "f", "largest integer not above a", np.floor,
    ZERO, _intrinsic("floor"), "floor{f}({0})", domain=(-3.0, 3.0))
_op("ceil", 1, "f", "smallest integer not below a", np.ceil,
    ZERO, _intrinsic("ceil"), "ceil{f}({0})", domain=(-3.0, 3.0))
_op("trunc", 1, "f", "towards zero", np.trunc,
    ZERO, _intrinsic("trunc"), "trunc{f}({0})", domain=(-3.0, 3.0))
_op("rint", 1, "f", "to the nearest, halves to even", np.rint,
    ZERO, _intrinsic("rint"), "rint{f}({0})", domain=(-3.0, 3.0))
_op("stop_gradient", 1, "f", "a, taken for a constant by derivatives", np.positive,
    ZERO, Instruction("bitcast {t} {0} to {t}", "", ""), "({0})")
_op("copysign", 2, "f", "magnitude of a with the sign of b", np.copysign,
    lambda ct, y, a, b: (ct * (emit("copysign", 1.0, a) * emit("copysign", 1.0, b)), None),
    _intrinsic("copysign"), "copysign{f}({0}, {1})")

# ---- comparison: false where an operand is a NaN, except ne
_COMPARISON: dict[str, Any] = {"result": "bool", "builtin": False, "folds": _always}
_op("lt", 2, "fiu", "a < b", np.less,
    ZERO, Instruction("fcmp olt", "icmp slt", "icmp ult"), "({0} < {1})", **_COMPARISON)
_op("le", 2, "fiu", "a <= b", np.less_equal,
    ZERO, Instruction("fcmp ole", "icmp sle", "icmp ule"), "({0} <= {1})", **_COMPARISON)
_op("gt", 2, "fiu", "a > b", np.greater,
    ZERO, Instruction("fcmp ogt", "icmp sgt", "icmp ugt"), "({0} > {1})", **_COMPARISON)
_op("ge", 2, "fiu", "a >= b", np.greater_equal,
    ZERO, Instruction("fcmp oge", "icmp sge", "icmp uge"), "({0} >= {1})", **_COMPARISON)
_op("eq", 2, "fiub", "a == b", np.equal,
    ZERO, Instruction("fcmp oeq", "icmp eq", "icmp eq"), "({0} == {1})", **_COMPARISON)
_op("ne", 2, "fiub", "a != b", np.not_equal,
    ZERO, Instruction("fcmp une", "icmp ne", "icmp ne"), "({0} != {1})", **_COMPARISON)

# ---- bits and truth
_op("and", 2, "iub", "bitwise or logical and", np.bitwise_and,
    ZERO, Instruction("", "and", "and"), "{low}({0} & {1})", builtin=False, folds=_always, simplify=_and)
_op("or", 2, "iub", "bitwise or logical or", np.bitwise_or,
    ZERO, Instruction("", "or", "or"), "{low}({0} | {1})", builtin=False, folds=_always, simplify=_or)
_op("xor", 2, "iub", "bitwise or logical exclusive or", np.bitwise_xor,
    ZERO, Instruction("", "xor", "xor"), "{low}({0} ^ {1})", builtin=False)
_op("not", 1, "iub", "bitwise complement or logical not", np.invert,
    ZERO, Instruction("", "xor {t} {0}, {ones}", "xor {t} {0}, {ones}"), "", "({t})~{0}", "!{0}",
    builtin=False, folds=_always, simplify=_undone("not"))
_op("bits_set", 1, "iu", "how many bits are set, in the type of a", _bits_set,
    ZERO, Intrinsic(("ctpop",)), "", "({t})__popcll((unsigned long long)({u}){0} & (~0ULL >> (63 - {last})))")
_op("sign_bits", 8, "i", "bit k is set where operand k is negative: eight comparisons as one number", _sign_bits,
    ZERO, Special(), "",
    "({t})(" + " | ".join(f"(({{{k}}} < 0) << {k})" for k in range(8)) + ")")
_op("shl", 2, "iu", "shift left", _shift(np.left_shift),
    ZERO, Special(), "", "({t})(({u}){0} << ({1} & {last}))", builtin=False)
_op("shr", 2, "iu", "shift right, arithmetic for signed integers", _shift(np.right_shift),
    ZERO, Special(), "", "({t})({0} >> ({1} & {last}))", builtin=False)

# ---- indices
_op("from_end", 2, "iu", "the index a; a negative one counts from the end of b elements: a + b",
    lambda a, b: np.where(a < 0, a + b, a).astype(np.asarray(a).dtype)[()],
    ZERO, Special(), "({0} < 0 ? {low}({0} + {1}) : {0})", domain=(-3.0, 3.0), builtin=False, folds=_always,
    simplify=lambda a, n: a if not_negative(a) else None)
_op("in_bounds", 2, "iu", "the index a itself, which has to be one of 0 .. b - 1: reported where accesses are checked",
    lambda a, b: a,
    ZERO, Special(), "{0}", domain=(0.0, 3.0), builtin=False,
    simplify=lambda a, n: a if None not in (a.const, n.const) and 0 <= a.const < n.const else None)

# ---- choice and conversion
_op("select", 3, "fiub", "b if a else c", lambda c, a, b: np.asarray(np.where(c, a, b))[()],
    lambda ct, y, c, a, b: (None, select(c, ct, 0.0), select(c, 0.0, ct)),
    Instruction(*["select {b} {0}, {t} {1}, {t} {2}"] * 3), "({0} ? {1} : {2})",
    linear=True, choice=True, builtin=False, folds=_always, simplify=_chosen)
_op("cast", 1, "fiub", "conversion; floats to integers truncate", lambda a: a,
    _cast_vjp, Special(), "({t})({0})", result="free", linear=True, builtin=False, folds=_always)
_op("reinterpret", 1, "fiu", "the bits of a as a number of another type of the same size", lambda a: a,
    ZERO, Special(), "({t})({0})", result="free", builtin=False)
