"""Programs as users write them, where the language was stricter, or less exact, than it had to be."""

from typing import Any

import numpy as np
import pytest
from tools.library.rows import ROWS
from tools.library.traced import Traced
from tools.tapes.gradients import array, assert_gradient

import sim as wp
from sim.core.lang.types import float32, float64, leaves_of

f64 = wp.float64
REALS = [(name, row) for name, row in ROWS.items() if not name.startswith(("rand", "sample"))]


@pytest.mark.parametrize("kind,other", [(float64, float32), (float32, float64)], ids=["float64", "float32"])
@pytest.mark.parametrize("name,row", REALS, ids=[name for name, _ in REALS])
def test_library_functions_keep_the_precision_of_their_arguments(name, row, kind, other):
    """In a kernel `float` is float32; a library function called with float64 must neither mind nor round."""
    rng = np.random.default_rng(0)
    kinds = [k.of(kind) for k in row.kinds]
    here, there = (Traced(getattr(wp, name), kinds, real=real) for real in (kind, other))
    assert here.result == there.result
    floats = {
        leaf.scalar
        for part in (there.result if isinstance(there.result, tuple) else (there.result,))
        for leaf in leaves_of(part)
    }
    assert other not in floats
    args = [k.sample(rng) for k in row.kinds]
    eps = np.finfo(kind.np).eps
    for a, b in zip(here.call(args), there.call(args), strict=True):
        np.testing.assert_allclose(a, b, rtol=64 * eps, atol=64 * eps)


@wp.kernel
def scaled(a: Any, x: wp.array(dtype=Any), y: wp.array(dtype=Any)):
    i = wp.tid()
    y[i] = y[i] + x[i] * a


def test_a_float64_of_the_host_stays_one():
    x, y = wp.ones(3, dtype=f64), wp.zeros(3, dtype=f64)
    wp.launch(scaled, dim=3, inputs=[f64(0.1), x, y])
    np.testing.assert_array_equal(y.numpy(), 0.1)
    assert wp.sqrt(f64(2.0)) == np.sqrt(2.0), "and so it does in functions called on the host"


@wp.func
def bisect(low: f64, high: f64, value: f64):
    while True:
        middle = f64(0.5) * (low + high)
        if high - low < 1e-3:
            return middle * value
        if middle * middle * middle > value:
            high = middle
            continue
        low = middle


@wp.kernel
def bisected(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, bisect(-x[i] * f64(0.1), x[i] + f64(1.0), x[i]))


def test_an_endless_loop_ends_in_a_return():
    def program(x: wp.array) -> wp.array:
        out = wp.zeros(1, dtype=f64, requires_grad=True)
        wp.launch(bisected, dim=x.size, inputs=[x], outputs=[out])
        return out

    assert_gradient(program, array([0.33, 1.27, 2.1]), tolerance=1e-6)


@wp.func
def may_fall_through(x: f64):
    while True:
        if x > 3.0:
            return x
        if x > 2.0:
            break
        x = x * 2.0


@wp.kernel
def falls_through(x: wp.array(dtype=f64)):
    x[wp.tid()] = may_fall_through(x[0])


def test_an_endless_loop_with_a_break_may_not_return():
    with pytest.raises(wp.KernelError, match="does not return a value on every path"):
        wp.launch(falls_through, dim=1, inputs=[wp.ones(1, dtype=f64)])


@wp.kernel
def makes_an_array(x: wp.array(dtype=f64)):
    a = wp.ones(shape=3, dtype=f64)
    x[0] = a[0]


@wp.kernel
def makes_a_small_one(x: wp.array(dtype=f64)):
    a = wp.zeros(shape=3, dtype=f64)
    b = a
    b[1] = 2.0
    x[0] = a[1] + b[1] * f64(len(a))


def test_local_arrays_are_values():
    x = wp.ones(1, dtype=f64)
    wp.launch(makes_a_small_one, dim=1, inputs=[x])
    assert x.list() == [6.0]
    with pytest.raises(wp.KernelError, match="`sim.ones` makes an array.*\n.*\n.*\n.*write sim.zeros"):
        wp.launch(makes_an_array, dim=1, inputs=[x])


@wp.func
def size_of_it(x: f64):
    return wp.abs(x)


@wp.func
def size_of_it(x: wp.vec3d):  # noqa: F811 an overload
    return wp.length(x)


@wp.func
def size_of_it(x: wp.vec3d, scale: f64):  # noqa: F811 an overload
    return wp.length(x) * scale


@wp.kernel
def sizes(x: wp.array(dtype=wp.vec3d), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, size_of_it(x[i]) * size_of_it(x[i][0]) + size_of_it(x[i], f64(2.0)) * size_of_it(2.5))


@wp.kernel
def size_of_a_pair(x: wp.array(dtype=wp.vec2d)):
    x[0] = x[0] * size_of_it(x[0])


def test_overloads_of_a_function():
    def program(x: wp.array) -> wp.array:
        out = wp.zeros(1, dtype=f64, requires_grad=True)
        wp.launch(sizes, dim=x.size, inputs=[x], outputs=[out])
        return out

    x = array([[1.0, 2.0, 2.0], [-2.0, 3.0, 6.0]], wp.vec3d)
    assert program(x).item() == pytest.approx(3.0 * 1.0 + 2.0 * 3.0 * 2.5 + 7.0 * 2.0 + 2.0 * 7.0 * 2.5)
    assert_gradient(program, x, tolerance=1e-6)
    with pytest.raises(wp.KernelError, match=r"no definition of `size_of_it` takes \(vec2<float64>\)"):
        wp.launch(size_of_a_pair, dim=1, inputs=[wp.zeros(1, dtype=wp.vec2d)])


def test_a_function_defined_again_is_replaced():
    @wp.func
    def factor(x: f64):
        return x * f64(2.0)

    @wp.func
    def factor(x: f64):  # noqa: F811 as in a notebook
        return x * f64(3.0)

    @wp.kernel
    def apply(x: wp.array(dtype=f64)):
        x[0] = factor(x[0])

    x = wp.ones(1, dtype=f64)
    wp.launch(apply, dim=1, inputs=[x])
    assert x.item() == 3.0 and factor.earlier is None


@wp.kernel
def optional_argument(x: wp.array(dtype=wp.float64), flags: wp.array(dtype=int), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i]
    if flags:
        y[i] = x[i] * f64(flags[i])
    if not flags:
        y[i] += 10.0


def test_an_array_is_true_unless_none_was_passed():
    x, y = wp.array([1.0, 2.0], dtype=wp.float64), wp.zeros(2, dtype=wp.float64)
    wp.launch(optional_argument, 2, inputs=[x, None, y])
    assert y.list() == [11.0, 12.0]
    wp.launch(optional_argument, 2, inputs=[x, wp.array([3, 4], dtype=int), y])
    assert y.list() == [3.0, 8.0]
