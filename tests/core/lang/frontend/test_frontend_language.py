"""Types, memory, functions and builtins of the language, run by the reference interpreter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.backends.base import argument_block
from sim.core.backends.interp import InterpBackend, evaluate
from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.errors import KernelError
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.source import signature
from sim.core.lang.frontend.tracer import trace_function, trace_kernel
from sim.core.lang.frontend.tracing.registry import NAMES
from sim.core.lang.ir.core import walk
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import (
    array_type,
    bool_,
    float32,
    float64,
    int8,
    int32,
    int64,
    matrix,
    named_types,
    quaternion,
    struct,
    uint8,
    uint32,
    vector,
)

N = named_types()
vec2, vec3, vec4, mat22, mat33, quat, transform = (N[k] for k in "vec2 vec3 vec4 mat22 mat33 quat transform".split())
vec3d, mat33d = N["vec3d"], N["mat33d"]
tid, atomic_add, atomic_sub, atomic_min, atomic_max, atomic_exch, where, static, rolled, printf = (
    NAMES[k] for k in "tid atomic_add atomic_sub atomic_min atomic_max atomic_exch where static rolled printf".split()
)
dot, cross, cw_mul, length = (NAMES[k] for k in "dot cross cw_mul length".split())


def run(kernel, dims, *args, types=None, order=None):
    """Traces a kernel for its annotations, runs it on NumPy arrays, in place."""
    kinds = types or [p.type for p in signature(kernel)]
    traced = verify(trace_kernel(kernel, kinds))
    dims = dims if isinstance(dims, tuple) else (dims,)
    block = argument_block(traced, dims, args)
    InterpBackend().compile(traced, check=True).run(block.ctypes.data, 0, int(np.prod(dims)))
    return traced


def call(function, kinds, *args, real=float32):
    return evaluate(verify(trace_function(function, kinds, real)), *args)


# ---- memory
def test_components_of_array_elements_in_every_form() -> None:
    def k(x: array_type(vec3), m: array_type(mat33), n: array_type(int)):
        i = tid()
        j = n[i]
        x[i].y = 5.0
        x[i][0] += 2.0
        x[i].z -= 1.0
        x[i][j] *= 3.0
        m[i][1, 2] = x[i].x
        m[i][j][0] = 7.0
        m[i][0] = x[i]
        m[i][2, j] += 10.0
        n[i] += 1
        n[i] *= 4

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    m, n = np.zeros((2, 3, 3), np.float32), np.array([2, 1], np.int32)
    want_x, want_m = x.copy(), m.copy()
    for i in range(2):
        want_x[i, 1] = 5.0
        want_x[i, 0] += 2.0
        want_x[i, 2] -= 1.0
        want_x[i, n[i]] *= 3.0
        want_m[i, 1, 2] = want_x[i, 0]
        want_m[i, n[i], 0] = 7.0
        want_m[i, 0] = want_x[i]
        want_m[i, 2, n[i]] += 10.0
    want_n = (n + 1) * 4
    run(k, 2, x, m, n)
    np.testing.assert_array_equal(x, want_x)
    np.testing.assert_array_equal(m, want_m)
    np.testing.assert_array_equal(n, want_n)


def test_components_of_local_values_in_every_form() -> None:
    def f(j: int, a: float):
        v = vec3(1.0, 2.0, 3.0)
        v[0] += a
        v.y = 10.0
        v[j] *= 2.0
        v[-1] -= 0.5
        m = mat33()
        m[0, 1] = a
        m[1] = v
        m[2][0] += 4.0
        m[j, j] += 100.0
        m[j][0] -= 1.0
        t = transform(v, quat(0.0, 0.0, 0.0, 1.0))
        t.p.x = -1.0
        t.q = quat(vec3(1.0, 2.0, 3.0), 4.0)
        w = m[j]
        return v, m, t, w[j], t.p.y, t.q.w

    for j in range(3):
        v = np.array([1.0, 2.0, 3.0])
        v[0] += 0.25
        v[1] = 10.0
        v[j] *= 2.0
        v[-1] -= 0.5
        m = np.zeros((3, 3))
        m[0, 1] = 0.25
        m[1] = v
        m[2, 0] += 4.0
        m[j, j] += 100.0
        m[j, 0] -= 1.0
        want = [*v, *m.ravel(), -1.0, v[1], v[2], 1.0, 2.0, 3.0, 4.0, m[j, j], v[1], 4.0]
        np.testing.assert_allclose(call(f, [int32, float32], j, 0.25), want)


def test_loading_one_component_loads_one_scalar() -> None:
    def k(x: array_type(vec3), y: array_type(float)):
        y[tid()] = x[tid()].y

    loads = [op for op in walk(trace_kernel(k, [array_type(vec3), array_type(float32)]).body) if op.name == "load"]
    assert [op.attrs["leaves"] for op in loads] == [(1,)]


@struct
class Inner:
    p: vec3
    tag: int8


@struct
class Particle:
    mass: float
    inner: Inner
    m: mat22


@struct
class Arguments:
    scale: float
    x: array_type(Particle)
    offset: vec3
    grid: array_type(float, 2)


def test_structs_in_arrays_in_arguments_and_as_locals() -> None:
    def k(s: Arguments, out: array_type(float)):
        i = tid()
        p = s.x[i]
        p.inner.p.y = p.mass * s.scale
        p.m[0, 1] = 3.0
        s.x[i] = p
        s.x[i].inner.tag += int8(2)
        s.x[i].inner.p += s.offset
        fresh = Particle(mass=2.0, inner=Inner(p=vec3(1.0)))
        fresh.inner.p[2] = 9.0
        out[i] = fresh.mass + fresh.inner.p.z + fresh.inner.p.x + fresh.m[1, 1] + s.grid[i, 1] + float(s.x.shape[0])

    x = np.zeros(2, Particle.np)
    x["mass"], x["inner"]["p"], x["inner"]["tag"] = [1.0, 2.0], [[1, 2, 3], [4, 5, 6]], [1, -1]
    out, grid = np.zeros(2, np.float32), np.arange(4, dtype=np.float32).reshape(2, 2)
    traced = run(k, 2, 10.0, x, 1.0, 2.0, 3.0, grid, out)
    assert traced.attrs["signature"] == [("s", Arguments, 0, 6), ("out", array_type(float32), 6, 1)]
    assert [p.name for p in traced.params] == [
        "s.scale",
        "s.x",
        "s.offset.0",
        "s.offset.1",
        "s.offset.2",
        "s.grid",
        "out",
    ]
    np.testing.assert_array_equal(x["inner"]["p"], [[2, 12, 6], [5, 22, 9]])
    np.testing.assert_array_equal(x["inner"]["tag"], [3, 1])
    np.testing.assert_array_equal(x["m"][:, 0, 1], [3, 3])
    np.testing.assert_array_equal(out, [2 + 9 + 1 + 0 + 1 + 2, 2 + 9 + 1 + 0 + 3 + 2])


def test_rows_of_arrays_are_views() -> None:
    @func
    def total(row):
        s = row.dtype(0.0)
        for k in range(len(row)):
            s += row[k]
        return s

    def k(a: array_type(float, 3), out: array_type(float, 2)):
        i, j = tid()
        page = a[i]
        out[i, j] = total(page[j]) + float(page.shape[1] * 100 + a.ndim + page.ndim) + float(a.size)

    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    out = np.zeros((2, 3), np.float32)
    traced = run(k, (2, 3), a, out)
    assert traced.dims == 2
    np.testing.assert_array_equal(out, a.sum(axis=2) + 400 + 5 + 24)


def test_atomics_accumulate_or_give_the_old_value() -> None:
    def k(x: array_type(float), v: array_type(vec3), n: array_type(int, 2), old: array_type(float)):
        i = tid()
        atomic_add(x, 0, 1.5)
        atomic_sub(x, 1, 2.0)
        atomic_min(x, 2, float(i) - 2.0)
        atomic_max(x, 3, float(i))
        atomic_add(v, 0, vec3(1.0, 2.0, 3.0))
        before = atomic_add(n, 0, 1, 10)
        old[i] = float(before) + atomic_exch(x, 4, float(i))
        x[5] -= 1.0
        v[1] -= vec3(1.0)

    x, v, n, old = (
        np.zeros(6, np.float32),
        np.zeros((2, 3), np.float32),
        np.zeros((1, 2), np.int32),
        np.zeros(4, np.float32),
    )
    traced = run(k, 4, x, v, n, old)
    np.testing.assert_array_equal(x, [6, -8, -2, 3, 3, -4])
    np.testing.assert_array_equal(v, [[4, 8, 12], [-4, -4, -4]])
    np.testing.assert_array_equal(n, [[0, 40]])
    np.testing.assert_array_equal(old, [0 + 0, 10 + 0, 20 + 1, 30 + 2])
    names = [op.name for op in walk(traced.body)]
    assert names.count("accum") == 5 and names.count("atomic") == 4


def test_tid_in_several_dimensions() -> None:
    def k(out: array_type(int, 3)):
        i, j, m = tid()
        out[i, j, m] = tid() * 1000 + i * 100 + j * 10 + m

    out = np.zeros((2, 3, 4), np.int32)
    run(k, (2, 3, 4), out)
    i, j, m = np.indices(out.shape)
    np.testing.assert_array_equal(out, i * 1100 + j * 10 + m)  # one index is the first


# ---- numbers
def test_weak_numbers_take_the_type_of_what_they_meet() -> None:
    def f(x):
        y = 2 * x + 1
        return y * 0.5 - 3

    assert call(f, [float64], 0.1)[0] == (2 * 0.1 + 1) * 0.5 - 3
    assert call(f, [float64], 0.1)[0].dtype == np.float64
    assert call(f, [float32], 0.1)[0].dtype == np.float32


def test_real_is_what_float_means() -> None:
    def f(x: float):
        return float(1) / 3.0 * x, float(int(x)), 0.1

    assert [v.dtype for v in call(f, [float64], 2.0, real=float64)] == [np.float64] * 3
    assert call(f, [float64], 2.0, real=float64) == (2.0 / 3.0, 2.0, 0.1)
    assert signature(f, float64)[0].type is float64 and signature(f)[0].type is float32


LIMIT = np.uint32(4000000000)
HALF = np.float64(0.5)


def test_captured_numbers_are_constants() -> None:
    scale, offset = 3, vec3(1.0, 2.0, 3.0)
    table = [1.0, 10.0, 100.0]

    def f(x: float, i: int):
        return x * scale * HALF + offset.y + table[2] + table[i], uint32(i) + LIMIT, math.pi * x

    got = call(f, [float32, int32], 2.0, 1)
    assert got[:2] == (3.0 + 2.0 + 100.0 + 10.0, np.uint32(4000000001)) and got[2] == np.float32(
        np.float32(math.pi) * 2
    )


def test_casts() -> None:
    def f(x: float, i: int):
        return int(x), float(i), bool(i), int64(i) * 4000000000, uint8(i), uint8(-1), float64(x), int(2.7), bool(x)

    got = call(f, [float32, int32], -2.75, 300)
    assert got == (-2, 300.0, True, 300 * 4000000000, 44, 255, -2.75, 2, True)
    assert got[6].dtype == np.float64 and got[3].dtype == np.int64


def test_integer_arithmetic_is_that_of_c_except_floor_division() -> None:
    def f(a: int, b: int):
        return a / b, a % b, a // b, abs(a), -a, a >> 1, a << 2

    for a in (-7, 7, 6):
        for b in (-2, 2, 3):
            got = call(f, [int32, int32], a, b)
            assert got == (int(a / b), int(math.fmod(a, b)), a // b, abs(a), -a, a >> 1, a << 2)
    assert call(f, [int32, int32], -5, 0)[:3] == (0, 0, 0)


def test_static_sees_constants_of_the_kernel_only() -> None:
    sizes = {"a": 2, "b": 3}

    def f(x: float):
        total = 0.0
        for key in ("a", "b"):
            for _ in range(static(sizes[key] ** 2)):
                total += x
        return total, float("inf"), static([k * 2 for k in sizes.values()])[1]

    assert call(f, [float32], 0.5) == (6.5, math.inf, 6)


def test_an_atomic_whose_value_comes_from_a_function_still_accumulates() -> None:
    @func
    def noisy(x):
        print(x)
        return x

    def k(x: array_type(float)):
        atomic_add(x, 0, noisy(1.0))

    names = [op.name for op in walk(trace_kernel(k, [array_type(float32)]).body)]
    assert "accum" in names and "atomic" not in names


def test_math_and_python_functions() -> None:
    def f(x: float, v: vec3):
        low = min(x, 2.0, v.x)
        high = max(v)
        return (
            math.sqrt(x) + math.sin(0.5),
            low,
            high,
            abs(-v),
            min(v, vec3(1.0)),
            sum(v),
            max(3, 4) * x,
            pow(x, 2),
            round(x),
        )

    x, v = 2.5, [3.0, -1.0, 0.5]
    got = call(f, [float32, vec3], x, *v)
    want = [math.sqrt(x) + math.sin(0.5), 2.0, 3.0, 3.0, 1.0, 0.5, 1.0, -1.0, 0.5, 2.5, 10.0, 6.25, 3.0]
    np.testing.assert_allclose(got, want, rtol=1e-6)


# ---- composites
def test_vector_arithmetic_and_comparison() -> None:
    def f(a: vec3, b: vec3):
        return a + b - 2.0 * a, -a / 2.0, a * 3, a == b, a != b, a == a

    a, b = np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, -3.0])
    got = call(f, [vec3, vec3], *a, *b)
    np.testing.assert_allclose(got[:9], [*(b - a), *(-a / 2), *(a * 3)])
    assert got[9:] == (False, True, True)


def test_products_of_matrices_and_quaternions_come_from_the_library() -> None:
    def f(m: mat33d, v: vec3d):
        return m @ v, m * v, v * m, m @ m, m + 2.0 * m

    m, v = np.random.default_rng(0).normal(size=(3, 3)), np.array([1.0, -2.0, 0.5])
    got = call(f, [mat33d, vec3d], *m.ravel(), *v)
    np.testing.assert_allclose(got, [*(m @ v), *(m @ v), *(v @ m), *(m @ m).ravel(), *(3 * m).ravel()], rtol=1e-12)


def test_constructors() -> None:
    six = vector(6, float64)

    def f(x: float, v: vec2, d: vec3d):
        a = vec4(v, x, 1.0)
        b = vec3(d)
        c = six(d, d)
        e = matrix((2, 3), float32)(1.0, 2.0, 3.0, 4.0, 5.0, x)
        g = type(v)(7.0)
        return a, b, c, e, g, vec2(), quaternion(float32)(1.0, 2.0, 3.0, x), mat22(x), transform(p=vec3(x))

    got = call(f, [float32, vec2, vec3d], 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
    want = [
        1,
        2,
        0.5,
        1,
        3,
        4,
        5,
        3,
        4,
        5,
        3,
        4,
        5,
        1,
        2,
        3,
        4,
        5,
        0.5,
        7,
        7,
        0,
        0,
        1,
        2,
        3,
        0.5,
        *[0.5] * 4,
        *[0.5] * 3,
        0,
        0,
        0,
        1,
    ]
    np.testing.assert_array_equal(got, want)


def test_constructors_whose_type_the_call_chooses() -> None:
    def f(x: float, d: float64):
        v = sim.vector(x, 2.0, 3.0)
        return (
            v,
            sim.vector(length=2, dtype=float64),
            sim.matrix(1.0, 2.0, 3.0, d, shape=(2, 2)),
            sim.identity(2, dtype=float),
        )

    func_ = trace_function(f, [float32, float64])
    assert func_.attrs["result"] == (vec3, vector(2, float64), matrix((2, 2), float64), mat22)
    np.testing.assert_array_equal(evaluate(func_, 0.5, 4.0), [0.5, 2, 3, 0, 0, 1, 2, 3, 4, 1, 0, 0, 1])

    def rotations(x: float, d: float64):
        q = sim.quaternion(d, 0.0, 0.0, 1.0)
        return q, sim.quaternion(dtype=float), sim.transformation(sim.vector(d, 0.0, 0.0), q)

    func_ = trace_function(rotations, [float32, float64])
    assert func_.attrs["result"] == (quaternion(float64), quaternion(float32), sim.transformation(float64))
    np.testing.assert_array_equal(evaluate(func_, 0.5, 4.0), [4, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 4, 0, 0, 1])

    def types(x: float, d: float64):
        return (
            sim.vector(2, float64)(d, 0.5),
            sim.matrix((1, 2), float)(x, x),
            sim.quaternion(float64)(d, d, d, d),
            sim.transformation(float)(),
        )

    func_ = trace_function(types, [float32, float64])
    assert func_.attrs["result"] == (
        vector(2, float64),
        matrix((1, 2), float32),
        quaternion(float64),
        sim.transformation(float32),
    )
    np.testing.assert_array_equal(evaluate(func_, 0.5, 4.0), [4, 0.5, 0.5, 0.5, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0])


def test_loops_over_vectors_tuples_and_matrix_rows() -> None:
    def f(v: vec3, m: mat22):
        s = 0.0
        for x in v:
            s += x
        for k, row in enumerate(m):
            s += row[0] * float(k + 1)
        for a, b in zip(v, (1.0, 10.0, 100.0)):  # noqa: B905
            s += a * b
        for k in static(range(20)):
            s += k
        return s

    assert call(f, [vec3, mat22], 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)[0] == 6 + 4 + 12 + 321 + 190


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


# ---- output, places
def test_print_and_printf(capsys) -> None:
    def k(x: array_type(float)):
        print("x =", x[0], vec2(1.0, 2.0), 7, "{}")
        printf("%d: %5.2f %s%%\n", 3, x[0], True)

    run(k, 1, np.array([2.5], np.float32))
    assert capsys.readouterr().out == "x = 2.5 [1.0, 2.0] 7 {}\n3:  2.50 True%\n"


def test_assert_carries_its_message() -> None:
    def k(x: array_type(float)):
        assert x[0] > 0.0, "positive"
        assert 1 < 2
        assert x[0] < 5.0

    ops = [op for op in walk(trace_kernel(k, [array_type(float32)]).body) if op.name == "assert"]
    assert [op.attrs["message"] for op in ops] == ["positive", "x[0] < 5.0"]
    assert [op.span.text.strip() for op in ops] == ['assert x[0] > 0.0, "positive"', "assert x[0] < 5.0"]


def test_operations_of_library_functions_belong_to_the_users_line() -> None:
    def f(v: vec3):
        a = v * 2.0
        # fmt: off
        return dot(
            a, v)
        # fmt: on

    spans = {op.span.text.strip() for op in walk(trace_function(f, [vec3]).body) if op.name != "const"}
    assert spans == {"a = v * 2.0", "return dot("}


def test_signature_reads_annotations_and_defaults() -> None:
    def f(a: float, b: array_type(None, 2), c, d: int = 3):
        pass

    found = signature(f)
    assert [p.name for p in found] == list("abcd") and [p.required for p in found] == [True, True, True, False]
    assert found[1].type.dtype is Any and found[2].type is None and found[3].default == 3


def test_rolled_keeps_a_loop() -> None:
    def f(x: float):
        for _ in rolled(range(3)):
            x = x * 2.0
        return x

    traced = trace_function(f, [float32])
    assert [op.name for op in walk(traced.body)].count("for") == 1
    assert evaluate(traced, 1.0) == (8.0,)


def test_conditions_of_bools_and_ints() -> None:
    def f(flag: bool, n: int):
        a = 1 if flag else 2
        b = 10 if n else 20
        return a + b, not flag, flag == (n > 0)

    assert call(f, [bool_, int32], True, 0) == (21, False, False)
    assert call(f, [bool_, int32], False, 3) == (12, True, False)
