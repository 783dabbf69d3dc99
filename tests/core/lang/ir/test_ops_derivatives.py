"""Every row of the op table: its derivative is that of the calculus book, and where there is none, what the row
promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.core.backends.interp import evaluate
from sim.core.backends.llvm.writer import SPECIAL as LLVM_RULES
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.ir import ops
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value, emit
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS, ZERO, Instruction, Intrinsic, Libm
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import bool_, float32, float64, int32, int64

NAN, INF = math.nan, math.inf


def applied(name: str, arity: int) -> Func:
    """The function that applies one primitive to its parameters."""
    block = Block([Value(bool_ if name == "select" and k == 0 else float64, f"p{k}") for k in range(arity)])
    with Builder(block):
        block.yields = [emit(name, *block.params)]
    return verify(Func(name, block))


def partials(name: str, args: tuple, ct: float = 1.0) -> list[float]:
    """Cotangents of the floating operands."""
    with np.errstate(all="ignore"):
        return [float(v) for v in evaluate(inline(vjp(applied(name, len(args)))), *args, ct)]


# The partial derivatives, and generic points in every region where they differ.
CALCULUS = {
    "add": (lambda a, b: (1, 1), [(0.3, -1.2)]),
    "sub": (lambda a, b: (1, -1), [(0.3, -1.2)]),
    "mul": (lambda a, b: (b, a), [(0.3, -1.2)]),
    "div": (lambda a, b: (1 / b, -a / b**2), [(0.3, -1.2), (2.0, 0.5)]),
    "mod": (lambda a, b: (1, -int(a / b)), [(7.5, 2.0), (-7.5, 2.0), (7.5, -2.0), (0.5, 2.0), (7.9, 1.0)]),
    "neg": (lambda a: (-1,), [(0.3,)]),
    "abs": (lambda a: (math.copysign(1, a),), [(0.3,), (-0.3,)]),
    "min": (lambda a, b: (a < b, b < a), [(0.3, 1.2), (1.2, 0.3)]),
    "max": (lambda a, b: (a > b, b > a), [(0.3, 1.2), (1.2, 0.3)]),
    "sqrt": (lambda a: (0.5 * a**-0.5,), [(4.0,), (0.3,)]),
    "cbrt": (lambda a: (a ** (-2 / 3) / 3,), [(8.0,), (0.3,)]),
    "exp": (lambda a: (math.exp(a),), [(0.7,)]),
    "log": (lambda a: (1 / a,), [(0.7,)]),
    "log2": (lambda a: (1 / (a * math.log(2)),), [(0.7,)]),
    "log10": (lambda a: (1 / (a * math.log(10)),), [(0.7,)]),
    "pow": (lambda a, b: (b * a ** (b - 1), a**b * math.log(a)), [(0.7, 2.3), (3.0, -1.5), (0.4, 0.3)]),
    "sin": (lambda a: (math.cos(a),), [(0.7,)]),
    "cos": (lambda a: (-math.sin(a),), [(0.7,)]),
    "tan": (lambda a: (1 / math.cos(a) ** 2,), [(0.7,)]),
    "asin_unclamped": (lambda a: (1 / math.sqrt(1 - a * a),), [(0.6,), (-0.8,)]),
    "acos_unclamped": (lambda a: (-1 / math.sqrt(1 - a * a),), [(0.6,), (-0.8,)]),
    "atan": (lambda a: (1 / (1 + a * a),), [(0.7,)]),
    "atan2": (
        lambda a, b: (b / (a * a + b * b), -a / (a * a + b * b)),
        [(0.7, 1.2), (-0.7, -0.2), (0.5, 0.0), (0.0, 0.5)],
    ),
    "sinh": (lambda a: (math.cosh(a),), [(0.7,)]),
    "cosh": (lambda a: (math.sinh(a),), [(0.7,)]),
    "tanh": (lambda a: (1 / math.cosh(a) ** 2,), [(0.7,)]),
    "erf": (lambda a: (2 / math.sqrt(math.pi) * math.exp(-a * a),), [(0.7,), (-1.3,)]),
    "erfc": (lambda a: (-2 / math.sqrt(math.pi) * math.exp(-a * a),), [(0.7,), (-1.3,)]),
    "copysign": (
        lambda a, b: (math.copysign(1, a) * math.copysign(1, b), 0),
        [(0.3, 2.0), (0.3, -2.0), (-0.3, 2.0), (-0.3, -2.0)],
    ),
    "select": (lambda c, a, b: (c, 1 - c), [(True, 0.3, 1.2), (False, 0.3, 1.2)]),
}
CASES = [(name, point) for name, (_, points) in CALCULUS.items() for point in points]
case = pytest.mark.parametrize(("name", "point"), CASES, ids=[f"{n}{p}" for n, p in CASES])


def test_every_row_with_a_derivative_has_its_closed_form_here() -> None:
    assert {name for name, row in OPS.items() if row.vjp is not ZERO} == {*CALCULUS, "cast"}


@case
def test_partial_derivatives(name: str, point: tuple) -> None:
    np.testing.assert_allclose(partials(name, point, 1.7), 1.7 * np.array(CALCULUS[name][0](*point), float), rtol=1e-13)


@case
def test_a_cotangent_of_zero_still_has_a_derivative(name: str, point: tuple) -> None:
    """What guards against 0 * inf must not cut the second derivative off: d(cotangents) / d(ct) are the partial
    derivatives."""
    wanted = np.array(CALCULUS[name][0](*point), float)
    weights = np.linspace(0.6, 1.3, len(wanted))
    twice = evaluate(inline(vjp(vjp(applied(name, len(point))))), *point, 0.0, *weights)
    assert twice[-1] == pytest.approx(weights @ wanted, rel=1e-13)


# What a row promises where the derivative jumps, is infinite, or does not exist.
SPECIAL = [
    ("abs", (0.0,), [0.0]),
    ("abs", (-0.0,), [0.0]),
    ("min", (0.5, 0.5), [1.0, 0.0]),
    ("max", (0.5, 0.5), [1.0, 0.0]),
    ("min", (NAN, 0.5), [0.0, 1.0]),
    ("min", (0.5, NAN), [1.0, 0.0]),
    ("max", (NAN, 0.5), [0.0, 1.0]),
    ("max", (0.5, NAN), [1.0, 0.0]),
    ("sqrt", (0.0,), [INF]),
    ("cbrt", (0.0,), [INF]),
    ("log", (0.0,), [INF]),
    ("log2", (0.0,), [INF]),
    ("log10", (0.0,), [INF]),
    ("div", (1.0, 0.0), [INF, -INF]),
    ("atan2", (0.0, 0.0), [0.0, 0.0]),
    ("pow", (0.0, 2.0), [0.0, 0.0]),
    ("pow", (0.0, 1.0), [1.0, 0.0]),
    ("pow", (0.0, 0.5), [INF, 0.0]),
    ("pow", (0.0, 0.0), [0.0, 0.0]),
    ("pow", (3.0, 0.0), [0.0, math.log(3.0)]),
    ("pow", (-2.0, 3.0), [12.0, 0.0]),
    ("pow", (1.0, 5.0), [5.0, 0.0]),
    ("copysign", (-0.0, 1.0), [-1.0, 0.0]),
    ("copysign", (2.0, -0.0), [-1.0, 0.0]),
    ("mod", (6.0, 2.0), [1.0, -3.0]),
    ("mod", (-1.9, 2.0), [1.0, 0.0]),
]


@pytest.mark.parametrize(("name", "point", "wanted"), SPECIAL, ids=[f"{n}{p}" for n, p, _ in SPECIAL])
def test_special_points(name: str, point: tuple, wanted: list[float]) -> None:
    np.testing.assert_allclose(partials(name, point), wanted, rtol=1e-15)


@pytest.mark.parametrize(("name", "point"), [(n, p) for n, p, wanted in SPECIAL if INF in wanted])
def test_what_nobody_asks_for_is_zero_where_the_derivative_is_infinite(name: str, point: tuple) -> None:
    assert not any(partials(name, point, 0.0))


def test_a_cast_between_floats_gives_the_cotangent_back_in_the_type_of_its_operand() -> None:
    for source, target in ((float32, float64), (float64, float32)):
        block = Block([Value(source)])
        with Builder(block):
            block.yields = [emit("cast", block.params[0], type=target)]
        derivative = vjp(Func("cast", block))
        assert [v.type for v in derivative.body.yields] == [source] and [p.type for p in derivative.params] == [
            source,
            target,
        ]
        assert evaluate(derivative, 0.3, 0.75) == (0.75,)


@pytest.mark.parametrize(("source", "target"), [(int32, float64), (float64, int32), (bool_, float32), (int32, int64)])
def test_a_cast_from_or_to_an_integer_has_no_derivative(source, target) -> None:
    block = Block([Value(source), Value(target), Value(target)])
    with Builder(block):
        assert OPS["cast"].vjp(block.params[1], block.params[2], block.params[0]) == (None,)
        assert not block.ops


def test_integers_divide_as_in_c() -> None:
    """Towards zero; the remainder has the sign of the dividend; by zero both are 0."""
    pairs = [(a, b) for a in (-7, -6, -1, 0, 1, 6, 7) for b in (-3, -2, 0, 2, 3)]
    a, b = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    quotients = [int(x / y) if y else 0 for x, y in pairs]
    with np.errstate(all="raise"):
        quotient, remainder = OPS["div"].numpy(a, b), OPS["mod"].numpy(a, b)
    assert quotient.tolist() == quotients and quotient.dtype == np.int32
    assert (
        remainder.tolist() == [x - q * y if y else 0 for (x, y), q in zip(pairs, quotients, strict=True)]
        and remainder.dtype == np.int32
    )
    assert isinstance(OPS["div"].numpy(np.int32(7), np.int32(2)), np.int32) and isinstance(
        OPS["mod"].numpy(np.int32(7), np.int32(2)), np.int32
    )


def test_shifts_count_modulo_the_width() -> None:
    one = np.array([1, 1, 1, 1], np.int32)
    assert OPS["shl"].numpy(one, np.array([0, 31, 32, 37], np.int32)).tolist() == [1, -(2**31), 1, 32]
    assert OPS["shr"].numpy(np.array([-8, -8, 8], np.int32), np.array([1, 33, 2], np.int32)).tolist() == [-4, -4, 2]
    assert OPS["shl"].numpy(np.array([1], np.uint8), np.array([9], np.uint8)).tolist() == [2]


@pytest.mark.parametrize("row", OPS.values(), ids=OPS)
def test_each_row_says_how_every_back_end_does_it(row) -> None:
    assert row.doc and (
        isinstance(row.llvm, Instruction | Intrinsic | Libm) or row.name in {*LLVM_RULES, "cast", "reinterpret"}
    )
    used = 1 if row.name == "in_bounds" else row.arity  # whose bound only a checked access looks at
    assert all([k for k in range(9) if f"{{{k}}}" in text] == list(range(used)) for text in row.cuda if text)
    assert (row.result == "bool") == (row.name in ("lt", "le", "gt", "ge", "eq", "ne"))
    assert set(row.accepts) <= set("fiub") and callable(row.numpy) and row.domain[0] < row.domain[1]


def test_an_index_is_itself() -> None:
    """Where it has to lie is looked at by back ends that check accesses."""
    block = Block([Value(int32), Value(int32)])
    with Builder(block):
        block.yields = [emit("in_bounds", *block.params)]
    assert [evaluate(verify(Func("index", block)), at, 3) for at in (0, 2)] == [(0,), (2,)]
    assert OPS["in_bounds"].numpy(np.int32(2), np.int32(3)) == 2


def test_a_choice_takes_the_first_value_where_the_condition_holds() -> None:
    block = Block([Value(bool_), Value(float64), Value(float64)])
    with Builder(block):
        block.yields = [ops.select(*block.params)]
    assert [evaluate(Func("choice", block), c, 1.0, 2.0) for c in (True, False)] == [(1.0,), (2.0,)]
