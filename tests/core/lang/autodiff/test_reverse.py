"""The reverse sweep over memory, branches and loops of kernels, by the interpreter: loads, stores, parts of elements,
calls."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tools.adjoints.differences import Fault, check, gradients, numbers, tbr_of, traced
from tools.library.traced import calling

import sim
from sim.core.backends.interp import evaluate
from sim.core.lang.autodiff import checkpoints
from sim.core.lang.autodiff.kernel_adjoint import kernel_adjoint
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.errors import GradientError
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value, emit, walk
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import bool_, float32, float64, int32, matrix, numpy_dtype

f64, vec3, mat2 = sim.float64, sim.vec3d, sim.mat22d


# ------------------------------------------------------------------------------------------------ elements and their
# parts
@sim.kernel
def parts_of_vectors(x: sim.array[vec3], y: sim.array[vec3], m: sim.array[mat2]):
    i = sim.tid()
    v = x[i]
    y[i][1] = v[0] * v[2]
    y[i] += vec3(v[1], 2.0 * v[1], v[2]) * m[i][1, 0]
    m[i] = m[i] * v[0]


def test_components():
    made = check(parts_of_vectors, [2], [numbers(2, 3), numbers(2, 3), numbers(2, 2, 2)], {"x", "y", "m"})
    assert made.live_in == (0, 2)


@sim.kernel
def one_component(x: sim.array[vec3], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i][1] * 3.0


def test_only_the_leaves_that_were_loaded_are_touched():
    made = check(one_component, [2], [numbers(2, 3), numbers(2)], {"x", "y"})
    assert [op.attrs["leaves"] for op in walk(made.func.body) if op.name == "accum"] == [(1,)]


@sim.kernel
def run_time_components(x: sim.array[vec3], at: sim.array[int], y: sim.array[vec3]):
    i = sim.tid()
    k = at[i]
    y[i][k] = x[i][k] * x[i][(k + 1) % 3]
    y[i][(k + 1) % 3] += x[i][k] * 2.0
    sim.atomic_add(y, i, x[i] * 0.5)


@pytest.mark.parametrize("at", [[0, 1], [2, 2]])
def test_run_time_components(at):
    check(run_time_components, [2], [numbers(2, 3), np.array(at, np.int32), numbers(2, 3)], {"x", "y"})


@sim.struct
class Mixed:
    count: int
    value: f64
    pair: sim.vec2d


@sim.kernel
def structs(p: sim.array[Mixed], y: sim.array[f64]):
    i = sim.tid()
    q = p[i]
    q.value = q.value * q.pair[0] * f64(q.count)
    q.count = q.count + 1
    p[i] = q
    y[i] = q.pair[1] * q.value


@sim.kernel
def fields(p: sim.array[Mixed], y: sim.array[f64]):
    i = sim.tid()
    p[i].count = 7
    p[i].pair = p[i].pair * y[i]


@pytest.mark.parametrize(("kernel", "value", "pair"), [
    (structs, lambda s, p, q, y: 3 * q[:, 0] * (s + y * q[:, 1]),
     lambda s, p, q, y: np.stack([3 * p * (s + y * q[:, 1]) + 1, 3 * p * q[:, 0] * y + 2], 1)),
    (fields, lambda s, p, q, y: s, lambda s, p, q, y: y[:, None] * np.array([1.0, 2.0])),
], ids=["structs", "fields"])  # fmt: skip
def test_integers_beside_floats_are_passed_over(kernel, value, pair):
    func = traced(kernel)
    p, seeds, y = (
        np.zeros(2, numpy_dtype(func.params[0].type.dtype)),
        np.zeros(2, numpy_dtype(func.params[0].type.dtype)),
        numbers(2),
    )
    p["count"], p["value"], p["pair"] = 3, numbers(2), numbers(2, 2)
    seeds["value"], seeds["pair"] = [1.5, 2.5], [1.0, 2.0]
    found, _ = gradients(func, [2], [p, y], {"p": seeds, "y": np.zeros(2) if kernel is fields else y})
    np.testing.assert_allclose(found["p"]["value"], value(seeds["value"], p["value"], p["pair"], y))
    np.testing.assert_allclose(found["p"]["pair"], pair(seeds["value"], p["value"], p["pair"], y))


@sim.kernel
def overwritten(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * 2.0
    y[i] = x[i] * 3.0


def test_a_store_takes_the_gradient_and_leaves_none():
    found, _ = gradients(
        traced(overwritten), [2], [numbers(2), numbers(2)], {"x": np.ones(2), "y": np.array([1.0, 10.0])}
    )
    assert found["x"].tolist() == [4.0, 31.0] and found["y"].tolist() == [0.0, 0.0]


@sim.kernel
def accumulated(x: sim.array[f64], y: sim.array[f64], at: sim.array[int]):
    i = sim.tid()
    y[at[i]] += x[i] * x[i]
    sim.atomic_add(y, 0, x[i])
    sim.atomic_add(at, 1, 1)


def test_a_sum_takes_the_gradient_and_leaves_it():
    args = [np.array([0.5, 2.0]), numbers(2), np.array([1, 0], np.int32)]
    found, _ = gradients(traced(accumulated), [2], args, {"x": np.zeros(2), "y": np.array([1.0, 10.0])})
    assert found["x"].tolist() == [11.0, 5.0] and found["y"].tolist() == [1.0, 10.0]


@sim.kernel
def half_active(x: sim.array[f64], c: sim.array[f64], y: sim.array[f64], t: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * c[i] + c[i] * c[i]
    t[i] = x[i] * c[i]
    t[i] += x[i]


def test_arrays_without_gradient_are_only_read():
    made = check(half_active, [2], [numbers(2), numbers(2), numbers(2), numbers(2)], {"x", "y"})
    assert made.live_in == (1,) and made.active == (0, 2)
    check(half_active, [2], [numbers(2), numbers(2), numbers(2), numbers(2)], {"c", "y"})


# ------------------------------------------------------------------------------------------------ branches and loops
@sim.kernel
def branches(x: sim.array[f64], flag: sim.array[int], y: sim.array[f64]):
    i = sim.tid()
    a, b = x[i], x[(i + 1) % 3]
    c = a * b
    if flag[i] > 0:
        if flag[i] > 1:
            c = c * a + b * b
            y[i] = c * b
        else:
            c = b * 3.0
    else:
        y[i] = a * b * b
    y[i] += c * c


@sim.kernel
def loops(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a, w = x[i, 0], x[i, 1]
    for j in range(n):
        s = a
        for k in range(j):
            s = s * w + x[i, 2] * f64(k)
        a = sim.sin(s) * x[i, 2] + w
        y[i] += a * s
    y[i] += a


@sim.kernel
def downwards(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a = f64(1.0)
    for j in range(n - 1, -1, -1):
        a = a * x[i, j % 3] + f64(j) * x[i, 0] * a
    y[i] = a


@sim.kernel
def while_loops(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a, k = x[i, 0], 0
    while k < n and a < 50.0:
        b = a
        while b < 2.0:
            b = b * 1.5 + x[i, 1]
            a += b * b * 0.1
        a = a * x[i, 2] + b
        k += 1
    y[i] = a * f64(k)


@sim.kernel
def nothing_carried(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    for j in range(n):
        if j % 2 == 0:
            y[i] += x[i, j % 3] * x[i, j % 3]


@sim.kernel
def last_value(x: sim.array2d[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    a = x[i, 2]
    for j in range(n):
        a = x[i, j % 3] * x[i, 0]
    y[i] = a * a


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("kernel", [last_value, loops, downwards, while_loops, nothing_carried], ids=lambda k: k.name)
def test_loops(kernel, n):
    check(kernel, [2], [numbers(2, 3), numbers(2), n], {"x", "y"}, tolerance=1e-6)


FEW = [
    (kernel, n)
    for kernel in (loops, downwards, while_loops)
    for n in ((2, 3, 5, 9) if kernel is loops else (2, 3, 5, 9, 17, 23))
]


@pytest.mark.parametrize("slots", [2, 4])
@pytest.mark.parametrize(("kernel", "n"), FEW, ids=[f"{kernel.name}-{n}" for kernel, n in FEW])
def test_loops_with_few_checkpoints_give_the_same_bits(kernel, n, slots, monkeypatch):
    """Below slots^2 trips, at them and beyond: what is restored is what was there."""
    func, args, seeds = (
        traced(kernel),
        [numbers(2, 3), numbers(2), n],
        {"x": np.zeros((2, 3)), "y": np.array([1.0, 2.0])},
    )
    wanted, _ = gradients(func, [2], args, seeds)
    monkeypatch.setattr(checkpoints, "SLOTS", slots)
    found, made = gradients(func, [2], args, seeds)
    assert max(op.attrs["slots"] for op in walk(made.func.body) if op.name == "tape") == slots
    for name in seeds:
        np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize("flags", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_branches(flags):
    check(branches, [3], [numbers(3), np.array(flags, np.int32), numbers(3)], {"x", "y"})


@sim.kernel
def loop_without_gradient(x: sim.array[f64], y: sim.array[f64], n: int):
    i = sim.tid()
    k = 0
    for j in range(n):
        k = (k + j) % 5
    flag = 1
    if k > 2:
        flag = 3
    y[i] = x[i] * f64(k) * f64(flag)


def test_regions_without_a_gradient_are_not_gone_back_through():
    made = check(loop_without_gradient, [2], [numbers(2), numbers(2), 4], {"x", "y"})
    assert [op.name for op in walk(made.func.body) if op.regions] == ["for"]
    assert not any(op.name == "tape" for op in walk(made.func.body)), "nothing of its trips is needed"


# ------------------------------------------------------------------------------------------------ functions
def function(kinds, fill, name="f") -> Func:
    block = Block([Value(kind, f"p{k}") for k, kind in enumerate(kinds)])
    with Builder(block) as b:
        block.yields = list(fill(b, *block.params))
    return Func(name, block)


def test_a_vjp_takes_cotangents_of_floats_and_gives_those_that_are_asked_for():
    def fill(b, x, n, y, z):
        return [x * y, n + 1, emit("cast", x * 3.0, type=float32), x + z]

    f = function([float64, int32, float64, float64], fill)
    derivative = vjp(f)
    assert [p.type for p in derivative.params] == [
        float64,
        int32,
        float64,
        float64,
        float64,
        float32,
        float64,
    ] and derivative.name == "f_vjp"
    assert evaluate(derivative, 2.0, 4, 5.0, 6.0, 1.0, 10.0, 100.0) == (135.0, 2.0, 100.0)
    assert evaluate(vjp(f, [2]), 2.0, 4, 5.0, 6.0, 1.0, 10.0, 100.0) == (2.0,)
    assert evaluate(vjp(f, [3, 0]), 2.0, 4, 5.0, 6.0, 1.0, 10.0, 100.0) == (
        135.0,
        100.0,
    ), "in the order of the parameters"
    assert evaluate(vjp(function([float64, float64], lambda b, x, y: [x])), 1.0, 2.0, 5.0) == (5.0, 0.0)
    assert len(f.params) == 4 and [v.type for v in f.body.yields] == [
        float64,
        int32,
        float32,
        float64,
    ], "the function is not changed"


def test_a_value_that_is_used_often_gets_the_sum():
    f = function([float64], lambda b, x: [x * x + x, x, x])
    assert evaluate(vjp(f), 3.0, 1.0, 10.0, 100.0) == (117.0,)


def test_an_operand_without_a_cotangent_keeps_what_it_has_from_elsewhere():
    f = function([float64, float64], lambda b, x, y: [emit("copysign", x, y) * y])
    assert evaluate(vjp(f), 3.0, -2.0, 1.0) == (2.0, -3.0)
    f = function([float64, float64], lambda b, x, y: [y * emit("copysign", x, y)])
    assert evaluate(vjp(f), 3.0, -2.0, 1.0) == (2.0, -3.0)


def test_a_dead_carried_value_is_not_recorded():
    def fill(b, x, n):
        return b.for_(n, [x, x], lambda k, a, dead: [a * 2.0, emit("sin", dead)])[:1]

    derivative = vjp(function([float64, int32], fill))
    assert not any(op.name in ("tape", "sin", "cos") for op in walk(derivative.body)) and evaluate(
        derivative, 0.5, 3, 1.0
    ) == (8.0,)


def test_an_operation_without_a_derivative_is_named(monkeypatch):
    monkeypatch.setitem(OPS, "sinh", dataclasses.replace(OPS["sinh"], vjp=None))
    f = function([float64], lambda b, x: [emit("sinh", x)])
    with pytest.raises(
        GradientError, match="'sinh' has no derivative(.|\n)*keep it off the path from the parameters to the loss"
    ):
        vjp(f)
    assert evaluate(vjp(function([float64], lambda b, x: [emit("sinh", b.const(1.0, float64)) * x])), 3.0, 1.0) == (
        np.sinh(1.0),
    )


def test_a_second_derivative_through_checkpoints_is_refused_and_others_are_not():
    def turns(b, x, n, body):
        return b.for_(n, [x], lambda k, a: [body(a)])

    sine = vjp(function([float64, int32], lambda b, x, n: turns(b, x, n, lambda a: emit("sin", a))))
    with pytest.raises(
        GradientError, match="second reverse derivative goes through a loop(.|\n)*a constant trip count up to 16"
    ):
        vjp(sine)
    double = vjp(function([float64, int32], lambda b, x, n: turns(b, x, n, lambda a: a * 2.0)))
    assert evaluate(vjp(double), 0.5, 3, 1.0, 1.0) == (0.0, 8.0)

    def counts(b, x, n):
        (k,) = b.for_(n, [b.const(0, int32)], lambda k, a: [a + 2])
        (y,) = b.for_(k, [x], lambda j, a: [a * emit("cast", j + 1, type=float64)])
        return [y]

    assert evaluate(vjp(vjp(function([float64, int32], counts))), 0.5, 2, 1.0, 1.0) == (0.0, 24.0)


def test_the_sides_of_a_branch_get_their_own_cotangents():
    def fill(b, x, y, c):
        p, q = b.if_(c, lambda: [x * y, x], lambda: [y, x * 3.0])
        return [p * q]

    derivative = vjp(function([float64, float64, bool_], fill))
    assert evaluate(derivative, 2.0, 5.0, True, 1.0) == (20.0, 4.0) and evaluate(derivative, 2.0, 5.0, False, 1.0) == (
        15.0,
        6.0,
    )


def test_a_loop_passes_the_cotangent_of_what_it_does_not_change():
    def fill(b, x, y, n):
        return b.for_(n, [x, y], lambda k, a, same: [a * same, same])

    assert evaluate(vjp(function([float64, float64, int32], fill)), 2.0, 3.0, 2, 1.0, 10.0) == (9.0, 22.0)


def test_a_carried_value_that_nobody_uses_behind_the_loop_starts_without_a_cotangent():
    def fill(b, x, y, n):
        return b.for_(n, [x, y], lambda k, a, c: [c * 2.0, a + c])[:1]

    assert evaluate(vjp(function([float64, float64, int32], fill)), 2.0, 3.0, 3, 1.0) == (2.0, 6.0), "2 a + 6 c"


@pytest.mark.parametrize("reverse", [False, True])
def test_the_counter_of_a_loop_runs_as_it_did(reverse):
    """a -> a (k + x), whichever way k runs: the derivative is that of the product (x + 0) (x + 1) (x + 2)."""

    def fill(b, x, n):
        return b.for_(
            n,
            [b.const(1.0, float64)],
            lambda k, a: [a * (x + emit("cast", k, type=float64)) + emit("cast", k, type=float64)],
            reverse,
        )

    def value(x):
        a = 1.0
        for k in (2, 1, 0) if reverse else (0, 1, 2):
            a = a * (x + k) + k
        return a

    x, h = 0.7, 1e-6
    found = evaluate(inline(vjp(function([float64, int32], fill))), x, 3, 1.0)
    assert found == pytest.approx([(value(x + h) - value(x - h)) / (2 * h)], rel=1e-8)


@sim.kernel
def factors(m: sim.array[sim.mat33d], y: sim.array[sim.mat33d], s: sim.array[vec3]):
    i = sim.tid()
    u, sigma, v = sim.svd3(m[i])
    y[i] = u
    s[i] = sigma


@sim.kernel
def singular_values(m: sim.array[sim.mat33d], s: sim.array[vec3]):
    i = sim.tid()
    u, sigma, v = sim.svd3(m[i])
    s[i] = sigma


def test_a_derivative_that_may_lack_a_part_is_refused_where_values_coincide_and_both_parts_are_asked_for():
    func = traced(factors, source=True)
    of_vectors, of_values, none = np.ones((1, 3, 3)), np.ones((1, 3)), np.zeros((1, 3))
    apart, equal = np.diag([3.0, 2.0, 1.0])[None], np.eye(3)[None]
    for m, vectors, values in (
        (apart, of_vectors, of_values),
        (equal, of_vectors, none),
        (equal, 0 * of_vectors, of_values),
    ):
        found, _ = gradients(func, [1], [m, of_vectors, of_values], {"m": 0 * m, "y": vectors, "s": values})
        assert np.isfinite(found["m"]).all()
    with pytest.raises(Fault):
        gradients(func, [1], [equal, of_vectors, of_values], {"m": 0 * equal, "y": of_vectors, "s": of_values})


def test_values_alone_lack_nothing():
    made = kernel_adjoint(tbr_of(traced(singular_values, source=True), {"m", "s"}))
    assert not any(op.name == "assert" for op in walk(made.func.body))
    found, _ = gradients(
        traced(singular_values, source=True),
        [1],
        [np.eye(3)[None], np.ones((1, 3))],
        {"m": np.zeros((1, 3, 3)), "s": np.ones((1, 3))},
    )
    np.testing.assert_allclose(found["m"][0], np.eye(3), atol=1e-12)


@sim.func
def put_together(m: sim.mat33d):
    u, sigma, v = sim.svd3(m)
    return u * sim.diag(sigma) * sim.transpose(v)


def test_a_function_of_vectors_and_values_together_is_right_where_values_coincide():
    """They are moved apart: the matrix put together again is the matrix, at equal values too."""
    traced_function = trace_function(calling(put_together, 1), [matrix((3, 3), float64)], real=float64)
    ct = np.random.default_rng(3).normal(size=(3, 3))
    for m in (np.diag([3.0, 2.0, 1.0]), np.eye(3), np.diag([2.0, 2.0, 1.0])):
        found = np.reshape(evaluate(inline(vjp(traced_function)), *m.ravel(), *ct.ravel()), (3, 3))
        np.testing.assert_allclose(found, ct, atol=1e-6)


def test_what_an_adjoint_does_to_memory_has_the_place_of_what_the_kernel_does_there():
    """So that an index outside of an array is told with its line."""
    func = traced(branches)
    made = kernel_adjoint(tbr_of(func, {"x", "y"}))
    lines = {name: {op.span.line for op in walk(func.body) if op.name == name} for name in ("load", "store", "accum")}
    for op in walk(made.func.body):
        if op.operands and op.operands[0].name == "adj_x":
            assert op.span.line in lines["load"]
        elif op.operands and op.operands[0].name == "adj_y":
            assert op.span.line in lines["store"] | lines["accum"]
