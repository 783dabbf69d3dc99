"""Every library function against NumPy, and its first and second derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tools.library.cases import ALL, FUNCTIONS, IDS, sample
from tools.library.rows import REAL, ROWS, Row
from tools.library.traced import Traced, assert_derivatives, calling

from sim.core.lang import types as t
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.ir.inline import inline
from sim.core.lang.library import LIBRARY
from sim.core.lang.library.transform import (
    transform_identity,
    transform_point,
)

WITHOUT_ROW = {  # tested on their own
    "transform_identity", "transform_set_translation", "transform_set_rotation",
    "bit_count", "intersect_tri_tri", "lower_bound",
    "dense_chol", "dense_gemm", "dense_solve", "dense_subs",
}  # fmt: skip


def test_every_function_has_a_row_and_a_docstring() -> None:
    assert set(ROWS) | WITHOUT_ROW == set(LIBRARY)
    assert all(NAMES[name] is f for name, f in LIBRARY.items())
    assert all(f.__doc__ for f in LIBRARY.values())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "row"), ALL, ids=IDS)
def test_values(name: str, row: Row, dtype: Any) -> None:
    traced = Traced(FUNCTIONS[name], [k.of(REAL[dtype]) for k in row.kinds], REAL[dtype])
    for seed in range(8):
        args = sample(row, dtype, seed)
        results = traced.call(args)
        assert all(r.dtype in (dtype, np.bool_, np.uint32) for r in results)
        if row.check:
            row.check(args, results)
        else:
            assert row.reference is not None
            expected = row.reference(*(np.float64(a) if not isinstance(a, int) else a for a in args))
            for r, e in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
                np.testing.assert_allclose(
                    r, e, rtol=3e-5 if dtype is np.float32 else 1e-12, atol=3e-6 if dtype is np.float32 else 1e-13
                )


@pytest.mark.parametrize(("name", "row"), ALL, ids=IDS)
def test_derivatives(name: str, row: Row) -> None:
    if not row.smooth:
        pytest.skip("derivative of a constrained argument: tested on its own")
    for seed in range(2):
        assert_derivatives(
            FUNCTIONS[name], [k.of(REAL[np.float64]) for k in row.kinds], sample(row, np.float64, seed + 100), seed=seed
        )


@func
def placed(p):
    """transform_identity leaves a point where it is, to the bit."""
    return transform_point(transform_identity(dtype=type(p[0])), p)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_identity_transformation(dtype: Any) -> None:
    p = np.array([0.1, -2.0, 3.0], dtype)
    assert (Traced(placed, [t.vector(3, REAL[dtype])]).call([p])[0] == p).all()


def test_not_a_number_and_infinity() -> None:
    def ask(name: str, *args: Any) -> Any:
        return Traced(LIBRARY[name], [t.float64] * len(args)).call(list(args))[0]

    for x in (np.nan, np.inf, -np.inf, 1.0, 0.0):
        assert (ask("isnan", x), ask("isinf", x), ask("isfinite", x)) == (np.isnan(x), np.isinf(x), np.isfinite(x))
    for name in ("acos", "asin", "round", "frac", "degrees"):
        assert np.isnan(ask(name, np.nan))
    nan = np.nan  # as in min and max: a NaN is passed over
    for args, result in (
        ((nan, 0, 1), 0),
        ((0.5, nan, 1), 0.5),
        ((-2, -1, nan), -1),
        ((2, nan, 1), 1),
        ((nan, 1, 0), 0),
    ):
        assert ask("clamp", *map(float, args)) == result
    assert [ask("clamp", x, 1.0, -1.0) for x in (-2.0, 0.0, 2.0)] == [-1.0] * 3  # the upper bound rules
    assert [ask("round", x) for x in (0.5, -0.5, 2.5, 0.49999999999999994, 1e17, -3.0)] == [1, -1, 3, 0, 1e17, -3]
    assert [ask("acos", 2.0), ask("asin", -2.0)] == [0.0, -np.pi / 2]
    assert not Traced(LIBRARY["isnan"], [t.int32]).call([3])[0] and Traced(LIBRARY["isfinite"], [t.int32]).call([3])[0]


@pytest.mark.parametrize("name", ["length", "normalize", "dot", "cross", "quat_rotate", "inverse", "acos", "clamp"])
def test_hot_functions_have_no_branches(name: str) -> None:
    """Kernels that call them vectorise: values and derivatives are straight-line code."""
    row = ROWS[name]
    traced = trace_function(calling(LIBRARY[name], len(row.kinds)), [k.of(t.float32) for k in row.kinds])
    assert not any(op.regions for op in inline(vjp(traced)).body.ops)
