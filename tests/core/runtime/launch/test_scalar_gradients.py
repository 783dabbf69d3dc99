"""Scalar arguments, and fields of struct arguments, that carry a gradient: an array of one element where a value is
declared."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.core.runtime.derivatives.autograd import gradcheck, jvp

f64 = sim.float64


@sim.struct
class Material:
    stiffness: f64
    axis: sim.vec3d
    count: int


@sim.struct
class Body:
    material: Material
    mass: f64
    x: sim.array(dtype=f64)


@sim.kernel
def scale(x: sim.array(dtype=f64), k: f64, n: int, y: sim.array(dtype=f64)):
    i = sim.tid()
    s = x[i]
    for _ in range(n):
        s = sim.sin(s) * k
    k = k * 2.0
    y[i] = s + k


@sim.kernel
def weigh(body: Body, y: sim.array(dtype=f64)):
    i = sim.tid()
    m = body.material
    y[i] = body.x[i] * m.stiffness * sim.length(m.axis) / body.mass + f64(m.count)


def weighted(loss_of, *arrays: sim.array) -> list[np.ndarray]:
    with sim.Tape() as tape:
        y = loss_of()
    tape.backward(grads={y: sim.array(np.arange(1.0, 4.0), dtype=f64)})
    return [a.grad.numpy().copy() for a in arrays]


X = np.array([0.3, 0.8, -0.5])


def test_a_scalar_argument_has_the_gradient_of_differences():
    x, k = sim.array(X, dtype=f64, requires_grad=True), sim.array([0.7], dtype=f64, requires_grad=True)

    def run(value: object) -> sim.array:
        y = sim.zeros(3, dtype=f64, requires_grad=True)
        sim.launch(scale, 3, [x, value, 4], [y])
        return y

    (found,) = weighted(lambda: run(k), k)
    h = 1e-6
    high, low = (run(0.7 + e).numpy() @ np.arange(1.0, 4.0) for e in (h, -h))
    assert found.item() == pytest.approx((high - low) / (2 * h), rel=1e-8)
    np.testing.assert_array_equal(run(k).numpy(), run(0.7).numpy())
    assert gradcheck(scale, 3, [x, k, 4], [sim.zeros(3, dtype=f64)])
    (_,), (move,) = jvp(scale, [x, k, 4], [None, [1.0], None], dim=3, outputs=[sim.zeros(3, dtype=f64)])
    assert move.numpy() @ np.arange(1.0, 4.0) == pytest.approx(found.item(), rel=1e-12)


def test_it_is_read_when_the_kernel_runs_and_may_have_any_shape_of_one_element():
    x, n = sim.array(X, dtype=f64), sim.array([2], dtype=int)
    k = sim.array([[0.7]], dtype=f64)
    y, want = sim.zeros(3, dtype=f64), sim.zeros(3, dtype=f64)
    for value, count in ((0.7, 2), (1.5, 4)):
        k.fill_(value)
        n.fill_(count)
        sim.launch(scale, 3, [x, k, n], [y])
        sim.launch(scale, 3, [x, value, count], [want])
        np.testing.assert_array_equal(y.numpy(), want.numpy())


def test_fields_of_a_struct():
    x = sim.array(X, dtype=f64, requires_grad=True)
    arrays = [
        sim.array(v, dtype=t, requires_grad=True)
        for v, t in (([2.0], f64), ([[1.0, 2.0, 2.0]], sim.vec3d), ([0.5], f64))
    ]

    def run(values: list) -> sim.array:
        body = Body(x=x, mass=values[2])
        body.material = Material(stiffness=values[0], axis=values[1], count=3)
        y = sim.zeros(3, dtype=f64, requires_grad=True)
        sim.launch(weigh, 3, [body], [y])
        return y

    found = weighted(lambda: run(arrays), *arrays)
    s = X @ np.arange(1.0, 4.0)
    np.testing.assert_allclose(found[0], s * 3.0 / 0.5)
    np.testing.assert_allclose(found[1], [s * 2.0 / 0.5 * np.array([1.0, 2.0, 2.0]) / 3.0])
    np.testing.assert_allclose(found[2], -s * 6.0 / 0.25)
    plain = run([2.0, sim.vec3d(1.0, 2.0, 2.0), 0.5])
    np.testing.assert_array_equal(run(arrays).numpy(), plain.numpy())
    mixed = run([2.0, arrays[1], 0.5])
    np.testing.assert_array_equal(mixed.numpy(), plain.numpy())


def test_recorded_and_adjoint_launches():
    x, y = (sim.array(v, dtype=f64, requires_grad=True) for v in (X, np.zeros(3)))
    k = sim.array([0.7], dtype=f64, requires_grad=True)
    command = sim.launch(scale, 3, [x, k, 4], [y], record_cmd=True)
    command.launch()
    first = y.numpy().copy()
    command.set_param_by_name("k", sim.array([0.9], dtype=f64))
    command.launch()
    assert not np.array_equal(first, y.numpy())
    y.grad.fill_(1.0)
    adjoint = sim.zeros(1, dtype=f64)
    sim.launch(scale, 3, [x, k, 4], [y], adj_inputs=[None, adjoint, None], adj_outputs=[y.grad], adjoint=True)
    (found,) = weighted(lambda: _launched(x, k), k)
    assert adjoint.item() != 0.0 and np.isfinite(found).all()


def _launched(x: sim.array, k: sim.array) -> sim.array:
    y = sim.zeros(3, dtype=f64, requires_grad=True)
    sim.launch(scale, 3, [x, k, 4], [y])
    return y


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.array([1.0, 2.0]), "shape \\(2,\\) of float64"),
        (np.array([1.0], np.float32), "of float32; expected a value of type float64"),
    ],
)
def test_other_arrays_are_refused(value, words):
    with pytest.raises(sim.LaunchError, match=words):
        sim.launch(scale, 3, [sim.array(X, dtype=f64), sim.array(value), 4], [sim.zeros(3, dtype=f64)])
    body = Body(x=sim.array(X, dtype=f64), mass=sim.array(value))
    with pytest.raises(sim.LaunchError, match=f"field 'mass'.*{words}"):
        sim.launch(weigh, 3, [body], [sim.zeros(3, dtype=f64)])
    # also after a launch that was right, with the same types
    sim.launch(scale, 3, [sim.array(X, dtype=f64), sim.array([1.0], dtype=f64), 4], [sim.zeros(3, dtype=f64)])
    with pytest.raises(sim.LaunchError, match=words):
        sim.launch(scale, 3, [sim.array(X, dtype=f64), sim.array(value), 4], [sim.zeros(3, dtype=f64)])
