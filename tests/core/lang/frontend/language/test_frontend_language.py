"""Numbers, vectors and other composites, conditions, output, by the reference interpreter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tools.programs.interpreted import (
    atomic_add,
    call,
    dot,
    mat22,
    mat33d,
    printf,
    rolled,
    run,
    static,
    transform,
    vec2,
    vec3,
    vec3d,
    vec4,
)

import sim
from sim.core.backends.interp import evaluate
from sim.core.lang import library  # noqa: F401 registers operators and functions
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.source import signature
from sim.core.lang.frontend.tracer import trace_function, trace_kernel
from sim.core.lang.ir.core import walk
from sim.core.lang.types import (
    array_type,
    bool_,
    float32,
    float64,
    int32,
    int64,
    matrix,
    quaternion,
    uint8,
    uint32,
    vector,
)


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
