"""The table: one row is all that a primitive takes, and every operation has one."""

from __future__ import annotations

import numpy as np
import pytest
from tools.backends.kernels import BACKENDS, kernel, launch

from sim.core.backends.cuda.text import CudaText
from sim.core.backends.interp import evaluate
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.ir import ops
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Op, Value, emit
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS, ROWS, STRUCTURAL, Intrinsic, Libm
from sim.core.lang.types import array_type, bool_, float64, int32


@pytest.fixture
def new_rows():
    """Two primitives that the language does not have."""
    ops.define_op(
        "hypot", 2, "f", "length of (a, b)", np.hypot,
        lambda ct, y, a, b: (ops.guarded(ct, y, ct * (a / y)), ops.guarded(ct, y, ct * (b / y))),
        Libm("hypot"), "hypot{f}({0}, {1})", singular=True, expensive=True,
    )  # fmt: skip
    ops.define_op(
        "fma", 3, "f", "a b + c, rounded once", lambda a, b, c: a * b + c,
        lambda ct, y, a, b, c: (ct * b, ct * a, ct),
        Intrinsic(("fma",)), "fma{f}({0}, {1}, {2})",
    )  # fmt: skip
    yield
    for name in ("hypot", "fma"):
        del OPS[name], ROWS[name]


ARGUMENTS = {"hypot": (0.75, -1.0), "fma": (0.5, 3.0, -0.25)}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_row_is_all_that_a_primitive_takes(new_rows, name):
    args, row = ARGUMENTS[name], OPS[name]

    def fill(b, y, *operands):
        b.store(y, [b.tid(0)], [0], [emit(name, *[b.load(x, [b.tid(0)], [0])[0] for x in operands])])

    func = kernel([array_type(float64)] * (len(args) + 1), fill)
    for backend in BACKENDS:
        columns = [np.zeros(1), *map(np.atleast_1d, args)]
        launch(backend, func, [1], columns)
        assert columns[0][0] == row.numpy(*args)
    assert row.cuda[0].split("{")[0] in CudaText(func).kernel()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_its_derivative_is_that_of_its_meaning(new_rows, name):
    args, meaning, step = ARGUMENTS[name], OPS[name].numpy, 1e-6
    block = Block([Value(float64) for _ in args])
    with Builder(block):
        block.yields = [emit(name, *block.params)]
    found = evaluate(inline(vjp(Func(name, block))), *args, 1.0)
    for k, slope in enumerate(found):
        above, below = ([a + s * (j == k) for j, a in enumerate(args)] for s in (step, -step))
        assert slope == pytest.approx((meaning(*above) - meaning(*below)) / (2 * step), rel=1e-6)


def test_no_operation_has_two_rows_and_every_one_says_what_it_is():
    assert not set(OPS) & set(STRUCTURAL) and ROWS == {**STRUCTURAL, **OPS}
    assert all(row.form for row in STRUCTURAL.values())


def test_traits_fit_together():
    for name, row in ROWS.items():
        assert row.effect or not row.writes, name
        assert not (row.free and (row.effect or row.memory)), name
        assert row.loop == (name in ("for", "while"))


def test_a_linear_row_has_cotangents_that_look_at_no_operand():
    """But at conditions."""
    for row in OPS.values():
        if row.linear:
            block = Block([Value(float64), Value(float64), *map(Value, row.operand_types(float64))])
            with Builder(block):
                row.vjp(*block.params)
            looked_at = {v for op in block.ops for v in op.operands}
            assert not looked_at & {v for v in block.params[1:] if v.type is not bool_}, row.name


def test_what_a_loop_carries():
    n, x = Value(int32), Value(float64)
    for op, first in ((Op("for", [n, x], [], {}, [Block([n, x])]), 1), (Op("while", [x], [], {}, [Block([x])] * 2), 0)):
        assert (op.first_carried, op.carried_init, op.carried_params) == (first, [x], [x])
