"""`sim.utils` against NumPy, its gradients, and the same in a captured graph."""

import numpy as np
import pytest
from sim.utils import (
    UtilityError,
    array_cast,
    array_inner,
    array_scan,
    array_sum,
    radix_sort_pairs,
    runlength_encode,
    segmented_sort_pairs,
)

import sim

rng = np.random.default_rng(5)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_sums_along_an_axis(axis):
    x, y = rng.normal(size=(2, 3, 4, 5))
    a, b = sim.array(x), sim.array(y)
    np.testing.assert_allclose(array_sum(a, axis=axis).numpy(), x.sum(axis=axis, keepdims=True), rtol=1e-14)
    np.testing.assert_allclose(array_inner(a, b, axis=axis).numpy(), (x * y).sum(axis=axis, keepdims=True), rtol=1e-13)
    part = np.take(x, range(2), axis=axis).sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(array_sum(a, value_count=2, axis=axis).numpy(), part, rtol=1e-14)
    turned = array_sum(a.transpose(), axis=axis)
    np.testing.assert_allclose(turned.numpy(), x.T.sum(axis=axis, keepdims=True), rtol=1e-14)


def test_sums_of_everything():
    x = rng.normal(size=(6, 3))
    a = sim.array(x, dtype=sim.vec3d)
    np.testing.assert_allclose(np.array(array_sum(a)), x.sum(axis=0), rtol=1e-14)
    assert array_inner(a, a) == pytest.approx((x * x).sum(), rel=1e-14)
    assert type(array_sum(sim.array(x))) is np.float64  # Warp's programs go on with it in NumPy
    assert array_sum(sim.array(x)[:, 1]) == pytest.approx(x[:, 1].sum(), rel=1e-13)
    assert array_sum(sim.array(x).transpose(), value_count=4) == pytest.approx(x.T.ravel()[:4].sum(), rel=1e-13)
    empty = sim.zeros(0, dtype=sim.vec2)
    assert array_inner(empty, empty) == 0.0
    assert array_sum(sim.zeros((0, 3)), axis=0).shape == (1, 3)
    out = sim.zeros(1, dtype=sim.float64)
    assert array_sum(sim.array(x), out=out) is out and out.numpy()[0] == pytest.approx(x.sum(), rel=1e-13)


def test_gradients_of_sums():
    x, w = rng.normal(size=(3, 4)), rng.normal(size=(3, 1))
    a, b = sim.array(x, requires_grad=True), sim.array(x + 1.0, requires_grad=True)
    with sim.Tape() as tape:
        products = array_inner(a, b, axis=1)
        sums = array_sum(a, axis=1)
    tape.backward(grads={products: w, sums: w})
    np.testing.assert_allclose(a.grad.numpy(), w * (x + 1.0) + w, rtol=1e-14)
    np.testing.assert_allclose(b.grad.numpy(), w * x, rtol=1e-14)


def test_casts():
    x = rng.normal(size=(4, 3))
    for target in (sim.zeros(4, dtype=sim.vec3), sim.zeros((4, 3))):
        array_cast(sim.array(x, dtype=sim.vec3d), target)
        np.testing.assert_array_equal(target.numpy(), x.astype(np.float32))
    grid = sim.zeros((4, 3), dtype=int)
    array_cast(sim.array(10 * x), grid)
    np.testing.assert_array_equal(grid.numpy(), np.trunc(10 * x))
    some = sim.zeros(4)
    array_cast(sim.array(x[:, 0]), some, count=2)
    np.testing.assert_array_equal(some.numpy(), [*x[:2, 0].astype(np.float32), 0.0, 0.0])


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.float32, np.int64, np.uint64, np.float64])
def test_pairs_are_sorted_stably(kind):
    keys = (100 * rng.normal(size=50)).astype(kind)
    keys[20:30] = keys[0]
    a, b = sim.array(np.append(keys, keys[:1])), sim.array(np.arange(51.0))
    radix_sort_pairs(a, b, 50)
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(a.numpy()[:50], keys[order])
    np.testing.assert_array_equal(b.numpy(), [*order, 50])


def test_only_some_bits_count():
    keys = np.array([8, 1, 10, 3, 4, -5], np.int64)
    a, b = sim.array(keys), sim.array(np.arange(6))
    radix_sort_pairs(a, b, 6, begin_bit=1, end_bit=3)
    np.testing.assert_array_equal(b.numpy(), np.argsort((keys >> 1) & 3, kind="stable"))


def test_segments_are_sorted_apart():
    keys = rng.integers(-9, 9, size=12).astype(np.int32)
    a, b = sim.array(keys), sim.array(np.arange(12, dtype=np.int32))
    segmented_sort_pairs(a, b, 12, sim.array([0, 5], dtype=int), sim.array([4, 12], dtype=int))
    order = np.r_[np.argsort(keys[:4], kind="stable"), 4, 5 + np.argsort(keys[5:], kind="stable")]
    np.testing.assert_array_equal(b.numpy(), order)
    np.testing.assert_array_equal(a.numpy(), keys[order])
    segmented_sort_pairs(b, a, 12, sim.array([0, 12], dtype=int))
    np.testing.assert_array_equal(a.numpy(), keys)


def test_gradients_move_with_sorted_values():
    keys, values = sim.array([3, 1, 2]), sim.array([1.0, 2.0, 3.0], requires_grad=True)
    copied, squares = sim.zeros(3, requires_grad=True), sim.zeros(1, requires_grad=True)
    with sim.Tape() as tape:
        sim.copy(copied, values)
        radix_sort_pairs(keys, copied, 3)
        array_sum(copied[:2], out=squares)
    tape.backward(squares)
    np.testing.assert_array_equal(values.grad.numpy(), [0.0, 1.0, 1.0])


def test_a_graph_sorts_what_is_there():
    keys, values = sim.zeros(8, dtype=int), sim.zeros(8, dtype=int)
    with sim.ScopedCapture() as capture:
        radix_sort_pairs(keys, values, 8)
    for _ in range(3):
        host = rng.integers(0, 5, size=8).astype(np.int32)
        keys.assign(host)
        values.assign(np.arange(8, dtype=np.int32))
        sim.capture_launch(capture.graph)
        np.testing.assert_array_equal(values.numpy(), np.argsort(host, kind="stable"))


def test_runs():
    host = np.repeat(rng.integers(0, 3, size=30), rng.integers(1, 4, size=30)).astype(np.int32)
    breaks = np.r_[0, np.flatnonzero(np.diff(host)) + 1, len(host)]
    values, lengths = sim.zeros(len(host), dtype=int), sim.zeros(len(host), dtype=int)
    count = runlength_encode(sim.array(host), values, lengths)
    assert count == len(breaks) - 1
    np.testing.assert_array_equal(values.numpy()[:count], host[breaks[:-1]])
    np.testing.assert_array_equal(lengths.numpy()[:count], np.diff(breaks))
    number = sim.zeros(1, dtype=int)
    assert runlength_encode(sim.array(host), values, lengths, run_count=number, value_count=0) is number
    assert number.numpy()[0] == 0


@pytest.mark.parametrize("inclusive", [True, False])
def test_scans(inclusive):
    x = rng.normal(size=(7, 2))
    a, out = sim.array(x, dtype=sim.vec2d), sim.zeros(7, dtype=sim.vec2d)
    array_scan(a, out, inclusive)
    expected = np.cumsum(x, axis=0)
    np.testing.assert_allclose(out.numpy(), expected if inclusive else expected - x, atol=1e-14)


def test_what_does_not_fit_is_refused():
    a, ints = sim.zeros(4), sim.zeros(4, dtype=int)
    starts = sim.array([0, 2], dtype=int)
    for call, words in (
        (lambda: array_sum(a, out=ints[:1]), "elements of int32, the out array should have type float32"),
        (lambda: array_sum(a, out=a), r"should have shape \(1,\)"),
        (lambda: array_sum(a, value_count=9), "9 of 4"),
        (lambda: array_inner(a, ints), r"data types do not match \(float32 vs int32\)"),
        (lambda: array_sum(sim.zeros(4, dtype=bool)), "array_sum: elements of bool; expected numbers"),
        (lambda: array_scan(*[sim.zeros(4, dtype=bool)] * 2), "array_scan: elements of bool; expected numbers"),
        (lambda: array_inner(*[sim.zeros(4, dtype=sim.mat22)] * 2), "elements of mat22<float32>; expected numbers"),
        (lambda: array_scan(a, ints), r"data types do not match \(float32 vs int32\)"),
        (lambda: array_cast(a, sim.zeros(3)), r"Cast count \(4\) exceeds the input size \(4\) or output size \(3\)"),
        (lambda: radix_sort_pairs(a, ints, 5), "at least count=5"),
        (
            lambda: radix_sort_pairs(a, ints, 3, begin_bit=4, end_bit=2),
            r"Invalid radix sort bit range \[4, 2\) for 32-bit keys",
        ),
        (lambda: segmented_sort_pairs(a, ints, 4, starts, starts[:1]), r"must have the same size \(2 vs 1\)"),
        (lambda: segmented_sort_pairs(a, ints, -1, starts), "non-negative"),
        (lambda: segmented_sort_pairs(a, ints, 1, starts), "range at index 0"),
        (lambda: runlength_encode(ints, a, ints), r"data types do not match \(int32 vs float32\)"),
        (lambda: runlength_encode(ints, ints, a), "run_lengths array must be of type int32"),
    ):
        with pytest.raises((UtilityError, ValueError), match=words):
            call()
    with pytest.raises(IndexError, match="axis 1 is out of bounds"):
        array_sum(a, axis=1)
    with pytest.raises(TypeError, match="must be an integer"):
        segmented_sort_pairs(a, ints, True, starts)
    assert issubclass(UtilityError, RuntimeError)
