"""What is infinite where it is not used does not spoil the gradient: guards written after the division, root or
logarithm."""

import numpy as np
import pytest
from tools.tapes.gradients import array, assert_gradient

import sim as wp
from sim.core.backends.interp import evaluate
from sim.core.lang.autodiff.reverse import vjp
from sim.core.lang.frontend.tracer import trace_function
from sim.core.lang.ir.core import walk
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.sinking import sink
from sim.core.lang.ir.verifier import verify
from sim.core.lang.library.vector import dot
from sim.core.lang.types import float64

f64 = wp.float64


def zeros(n: int, dtype: object = f64) -> wp.array:
    return wp.zeros(n, dtype=dtype, requires_grad=True)


@wp.kernel
def total(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i] * x[i] + f64(i + 1) * x[i])


def run(kernel: wp.Kernel, *arrays: wp.array, count: int) -> wp.array:
    y, out = zeros(count), zeros(1)
    wp.launch(kernel, dim=count, inputs=list(arrays), outputs=[y])
    wp.launch(total, dim=count, inputs=[y], outputs=[out])
    return out


@wp.kernel
def return_before_use(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64)):
    i = wp.tid()
    d = x[i] - x[0]
    size = wp.sqrt(wp.dot(d, d))
    if size < 0.01:
        return
    n = d / size
    depth = f64(1.5) - size
    if depth > 0.0:
        y[i] = (n[0] + f64(2.0) * n[1]) * wp.pow(depth, f64(1.5))


@wp.kernel
def inverse_before_test(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64)):
    i = wp.tid()
    r2 = wp.dot(x[i], x[i])
    inverse = f64(1.0) / wp.sqrt(r2)
    n = x[i] * inverse
    e = f64(0.0)
    if r2 > 0.01:
        e = n[0] * n[1] + inverse
    y[i] = e + x[i][0]


@wp.kernel
def softplus(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64)):
    i = wp.tid()
    e = wp.exp(x[i][0] * 1000.0)
    s = wp.log(f64(1.0) + e) / 1000.0
    y[i] = wp.where(x[i][0] > 0.5, x[i][0], s)


@wp.kernel
def bounded_below(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64)):
    i = wp.tid()
    size = wp.max(wp.sqrt(wp.dot(x[i], x[i])), f64(0.1))
    steep = wp.min(f64(1.0) / wp.dot(x[i], x[i]), f64(5.0))
    y[i] = x[i][0] / size + steep + wp.clamp(wp.log(x[i][1] * x[i][1]), f64(-2.0), f64(2.0))


@wp.kernel
def vector_chosen(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64)):
    i = wp.tid()
    v = x[i] / x[i][1]
    w = wp.vec3d()
    if x[i][1] > 0.1:
        w = v
    y[i] = wp.dot(w, w) + x[i][0]


@wp.kernel
def in_loops(x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64)):
    i = wp.tid()
    s = f64(0.0)
    for j in range(x.shape[0]):
        d = x[i][1] - x[j][1]
        a = wp.abs(d)
        root, sign = wp.sqrt(a), d / a
        if i == j:
            continue
        if a > 5.0:
            break
        s += root * sign * x[j][2]
    y[i] = s


POINTS = [[0.0, 0.0, 0.0], [1.0, 0.2, 0.3], [0.0, 3.0, 0.5], [0.9, -0.4, 0.1]]


@pytest.mark.parametrize(
    "kernel",
    [return_before_use, inverse_before_test, softplus, bounded_below, vector_chosen, in_loops],
    ids=lambda k: k.name,
)
def test_guards_after_the_fact(kernel):
    assert_gradient(lambda x: run(kernel, x, count=len(POINTS)), array(POINTS, wp.vec3d), tolerance=1e-6)


@wp.func
def guarded(x, y):
    size = wp.sqrt(x * x + y * y)
    n = x / size
    if size > 0.5:
        return n * y + size
    return x * y


def test_what_else_is_used_stays_where_it_is():
    func = trace_function(guarded, [float64, float64], real=float64)
    before = [op.name for op in func.body.ops]
    values = {r for op in walk(func.body) for r in op.results} | set(func.params)
    verify(sink(func, values))
    after = [op.name for op in func.body.ops]
    assert "div" in before and "div" not in after, "the division moved into the branch"
    assert "sqrt" in after, "the root is in the condition, too"
    assert any(op.name == "sqrt" for op in walk(func.body.ops[-1].regions[0])), (
        "and its copy is what the branch differentiates"
    )


def test_second_derivatives_at_a_zero_cotangent():
    """A cotangent of zero has a derivative: d/dct of the gradient of x / |x| . y is not zero where ct is."""
    twice = inline(vjp(vjp(trace_function(guarded, [float64, float64], real=float64))))
    x, y, ct = 0.6, 0.8, 0.0
    seeds = (1.0, 0.0)  # the derivative of the gradient by x
    by_ct = evaluate(twice, *map(np.float64, (x, y, ct, *seeds)))[-1]
    exact = y * (y * y) / 1.0**3 + x / 1.0
    assert by_ct == pytest.approx(exact, rel=1e-12)


def test_derivatives_stay_branch_free():
    """The guards of derivatives against 0 * inf are no choices of the program: sinking leaves them alone."""
    first = vjp(trace_function(quotient_of_roots, [float64, float64], real=float64))
    values = {r for op in walk(first.body) for r in op.results} | set(first.params)
    assert any(op.name == "select" for op in walk(first.body))
    sink(first, values)
    assert not any(op.name == "if" for op in walk(first.body))


@wp.func
def quotient_of_roots(x, y):
    return wp.sqrt(x) / wp.sqrt(y)


def test_dot_is_not_risky():
    func = trace_function(dot, [wp.vec3d, wp.vec3d], real=float64)
    names = [op.name for op in walk(func.body)]
    sink(func, set(func.params))
    assert [op.name for op in walk(func.body)] == names


@wp.kernel
def diagnostics(
    x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=f64), speed: wp.array(dtype=f64), mask: wp.array(dtype=f64)
):
    """What is computed beside the result, or masked out, is singular for the first point and asked for by nobody."""
    i = wp.tid()
    r2 = wp.dot(x[i], x[i])
    speed[i] = (
        wp.sqrt(r2)
        + wp.log(r2)
        + f64(1.0) / r2
        + wp.cbrt(r2)
        + wp.pow(r2, f64(0.25))
        + wp.log2(r2) * wp.atan2(x[i][0], x[i][1])
    )
    y[i] = x[i][0] * x[i][1] + mask[i] * wp.sqrt(r2) + mask[i] * wp.pow(r2, f64(0.3))


def test_what_nobody_asks_for_may_be_singular():
    def program(x: wp.array) -> wp.array:
        y, out, mask = zeros(4), zeros(1), wp.array([0.0, 1.0, 1.0, 1.0], dtype=f64)
        wp.launch(diagnostics, dim=4, inputs=[x], outputs=[y, zeros(4), mask])
        wp.launch(total, dim=4, inputs=[y], outputs=[out])
        return out

    assert_gradient(program, array(POINTS, wp.vec3d), tolerance=1e-6)


@wp.func
def root(x):
    return wp.sqrt(x)


@wp.func
def ratio(x, y):
    return y / x


@pytest.mark.parametrize(
    "function,args,by_ct", [(root, (4.0,), 0.25), (ratio, (4.0, 3.0), -3.0 / 16.0)], ids=["root", "ratio"]
)
def test_a_zero_cotangent_keeps_its_derivative(function, args, by_ct):
    twice = inline(vjp(vjp(trace_function(function, [float64] * len(args), real=float64))))
    seeds = [1.0] + [0.0] * (len(args) - 1)
    assert evaluate(twice, *map(np.float64, (*args, 0.0, *seeds)))[-1] == pytest.approx(by_ct, rel=1e-14)


@wp.func
def angle_of(y, x):
    return wp.atan2(y, x)


def test_the_angle_of_the_origin():
    angle = inline(vjp(trace_function(angle_of, [float64, float64], real=float64)))
    assert list(evaluate(angle, np.float64(0.0), np.float64(0.0), np.float64(1.0))) == [0.0, 0.0]
