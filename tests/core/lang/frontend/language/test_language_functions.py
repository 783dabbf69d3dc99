"""Functions of the language, by the reference interpreter: arguments, generic types, recursion, what is evaluated, and
derivatives in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from tools.programs.interpreted import call, cross, dot, length, run, tid, vec2, vec3d, where

from sim.core.backends.interp import evaluate
from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.core import walk
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import (
    array_type,
    float32,
    float64,
)


# ---- functions
def test_functions_with_defaults_keywords_several_results_and_functions_as_arguments() -> None:
    @func
    def affine(x, slope=2.0, *, offset: float = 1.0):
        return slope * x + offset

    @func
    def minmax(a, b):
        if a < b:
            return a, b
        return b, a

    @func
    def twice(f, x):
        return f(f(x))

    def f(x: float, y: float):
        low, high = minmax(affine(x, offset=0.0), affine(slope=y, x=x))
        return low, high, twice(affine, x)

    assert call(f, [float32, float32], 3.0, 5.0) == (6.0, 16.0, 15.0)


def test_functions_are_generic_over_types_and_sizes() -> None:
    @func
    def norm1(v):
        s = abs(v[0])
        for k in range(1, len(v)):
            s += abs(v[k])
        return s

    def f(a: vec2, b: vec3d):
        return norm1(a), norm1(b)

    got = call(f, [vec2, vec3d], 1.0, -2.0, -1.0, 2.0, -3.0)
    assert got == (3.0, 6.0) and [v.dtype for v in got] == [np.float32, np.float64]


def test_static_recursion_ends() -> None:
    @func
    def power(x, n):
        if n == 0:
            return 1.0
        return x * power(x, n - 1)

    def f(x: float):
        return power(x, 4)

    assert call(f, [float64], 3.0, real=float64) == (81.0,)


def test_where_and_the_ternary_evaluate_one_side() -> None:
    def k(x: array_type(float), out: array_type(float)):
        i = tid()
        out[i] = where(i < len(x), x[i], -1.0) + (x[i] if i < len(x) else -10.0)
        if i < len(x) and x[i] > 1.0:
            out[i] += 100.0

    x, out = np.array([1.0, 2.0], np.float32), np.zeros(4, np.float32)
    run(k, 4, x, out)  # bounds are checked: an access outside would read 0
    np.testing.assert_array_equal(out, [2, 104, -11, -11])


def test_functions_with_a_closed_form_derivative_stay_calls() -> None:
    @func
    def square(v, k):
        return dot(v, v) * k, v

    @square.vjp
    def square_vjp(v, k, s, same, ct, ct_same):
        return v * (2.0 * ct * k) + ct_same, ct * dot(v, v)

    def f(v: vec3d):
        s, w = square(v, 0.5)
        return s + w.x

    traced = verify(trace_function(f, [vec3d]))
    (op,) = [op for op in walk(traced.body) if op.name == "call"]
    assert [v.type for v in op.operands] == [float64] * 4  # the weak 0.5 goes with the doubles
    assert evaluate(traced, 1.0, 2.0, 3.0) == (8.0,)
    adjoint = verify(op.attrs["vjp"]())
    assert len(adjoint.params) == 4 + 4 + 4
    np.testing.assert_allclose(
        evaluate(adjoint, 1.0, 2.0, 3.0, 0.5, 7.0, 1.0, 2.0, 3.0, 10.0, 1.0, 2.0, 3.0), [11, 22, 33, 140]
    )
    assert op.attrs["vjp"]() is op.attrs["vjp"]()


def test_a_derivative_of_the_wrong_shape_is_an_error() -> None:
    @func
    def f(a, b):
        return a * b

    @f.vjp
    def f_vjp(a, b, y, ct):
        return ct * b

    def g(x: float):
        return f(x, x)

    (op,) = [op for op in walk(trace_function(g, [float32]).body) if op.name == "call"]
    with pytest.raises(KernelError, match="the derivative `f_vjp` of `f` returns float32"):
        op.attrs["vjp"]()


def test_tuples_of_points_as_an_argument() -> None:
    def area(x, rest: float):
        return 0.5 * length(cross(x[1] - x[0], x[2] - x[0])) - rest

    traced = trace_function(area, [(vec3d,) * 3, float64], float64)
    assert [p.name for p in traced.params][:4] == ["x.0.0", "x.0.1", "x.0.2", "x.1.0"] and traced.params[
        -1
    ].name == "rest"
    assert evaluate(traced, *[0, 0, 0, 2, 0, 0, 0, 3, 0], 1.0) == (2.0,)
