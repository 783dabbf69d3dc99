"""`sim.autograd`: jvp, hvp, Jacobians and gradcheck of kernels, functions and rollouts."""

from __future__ import annotations

import numpy as np
import pytest
from tools.constraints.samples import SEED
from tools.physics.models import swung_sheet

import sim
from sim.core.runtime.derivatives.autograd import (
    Forward,
    GradcheckError,
    gradcheck,
    gradcheck_tape,
    hvp,
    jacobian,
    jacobian_fd,
    jvp,
)
from sim.core.runtime.devices.graph import capture

f64 = sim.float64


@sim.kernel
def march(x: sim.array(dtype=sim.vec3d), a: sim.array(dtype=f64), y: sim.array(dtype=f64)):
    i = sim.tid()
    s = f64(0.0)
    for _ in range(i + 3):
        s = s + sim.sin(s * a[0]) + sim.length(x[i])
        x[i] = x[i] * (a[0] + 1.0)
    y[i] = s


@sim.kernel
def squares(y: sim.array(dtype=f64), loss: sim.array(dtype=f64)):
    i = sim.tid()
    sim.atomic_add(loss, 0, y[i] * y[i])


def loss_of(x: sim.array, a: sim.array) -> sim.array:
    q = sim.clone(x)
    y, loss = sim.zeros(2, dtype=f64, requires_grad=True), sim.zeros(1, dtype=f64, requires_grad=True)
    sim.launch(march, 2, [q, a], [y])
    sim.launch(squares, 2, [y], [loss])
    return loss


X, DX = np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]]), np.array([[0.3, -0.2, 0.5], [0.7, 0.1, 0.2]])


def inputs(h: float = 0.0) -> list[sim.array]:
    return [
        sim.array(X + h * DX, dtype=sim.vec3d, requires_grad=True),
        sim.array([0.1 + 0.3 * h], dtype=f64, requires_grad=True),
    ]


def gradients(h: float) -> list[np.ndarray]:
    arrays = inputs(h)
    with sim.Tape() as tape:
        loss = loss_of(*arrays)
    tape.backward(loss)
    return [a.grad.numpy().copy() for a in arrays]


def difference(h: float = 1e-5) -> list[np.ndarray]:
    return [
        (8 * (p - m) - (pp - mm)) / (12 * h)
        for pp, p, m, mm in zip(*map(gradients, (2 * h, h, -h, -2 * h)), strict=True)
    ]


# ------------------------------------------------------------------------------------------ jvp and hvp
def test_jvp_of_a_function_and_of_a_kernel():
    arrays = inputs()
    (loss,), (move,) = jvp(loss_of, arrays, [DX, [0.3]])
    wanted = sum(float((g * v).sum()) for g, v in zip(gradients(0.0), (DX, 0.3), strict=True))
    assert move.item() == pytest.approx(wanted, rel=1e-12)
    assert move.shape == loss.shape
    y = sim.zeros(2, dtype=f64)
    outputs, moves = jvp(march, arrays, [sim.array(DX, dtype=sim.vec3d), None], dim=2, outputs=[y])
    assert outputs == [y] and moves[0].numpy().any()


def test_hvp_is_the_difference_of_gradients_and_leaves_gradients_alone():
    arrays = inputs()
    arrays[0].grad.fill_(7.0)
    products = hvp(loss_of, arrays, [DX, [0.3]])
    for product, wanted in zip(products, difference(), strict=True):
        np.testing.assert_allclose(product.numpy(), wanted, rtol=1e-8)
    assert (arrays[0].grad.numpy() == 7.0).all() and (arrays[1].grad.numpy() == 0.0).all()
    # twice gives the same; without a tangent nothing moves
    np.testing.assert_array_equal(hvp(loss_of, arrays, [DX, [0.3]])[0].numpy(), products[0].numpy())
    assert not hvp(loss_of, arrays, [None, None])[0].numpy().any()


def test_second_derivative_of_a_weighted_backward():
    """The weights of backward may have a tangent too: <J^T w> moves by J^T dw."""
    x, y = sim.array([0.5], dtype=f64, requires_grad=True), sim.zeros(1, dtype=f64, requires_grad=True)
    w = sim.array([2.0], dtype=f64)
    with Forward({x: [1.0], w: [10.0]}) as forward:
        with sim.Tape() as tape:
            sim.launch(squares, 1, [x], [y])
        tape.backward(grads={y: w})
    assert x.grad.item() == 2.0
    assert forward.tangent(x.grad).item() == pytest.approx(2.0 * 2.0 + 10.0 * 2 * 0.5)


def test_refusals():
    arrays = inputs()
    with pytest.raises(sim.GradientError, match="2 inputs"):
        jvp(loss_of, arrays, [DX])
    with pytest.raises(sim.GradientError, match="requires a gradient"):
        hvp(lambda x: x, [sim.zeros(1, dtype=f64)], [[1.0]])
    with pytest.raises(sim.GradientError, match="has shape"):
        jvp(loss_of, arrays, [DX[:1], None])
    with pytest.raises(sim.GradientError, match="has no derivative"):
        Forward({sim.zeros(3, dtype=int): [1, 2, 3]})
    with Forward({}), pytest.raises(sim.GradientError, match="already open"), Forward({}):
        pass
    with capture() as graph:
        sim.launch(squares, 1, [arrays[1]], [sim.zeros(1, dtype=f64)])
    with Forward({arrays[1]: [1.0]}), pytest.raises(sim.GradientError, match="captured outside"):
        graph.replay()
    x, y = sim.array([0.5], dtype=f64, requires_grad=True), sim.zeros(1, dtype=f64, requires_grad=True)
    with Forward({x: [1.0]}):
        with sim.Tape() as tape:
            sim.launch(squares, 1, [x], [y])
        tape.backward(y)
        with pytest.raises(sim.GradientError, match="second backward"):
            tape.backward(y)
        tape.zero()
        tape.backward(y)


def test_graphs_captured_in_forward_mode_carry_tangents_that_appear_later():
    a, b = sim.array([0.5], dtype=f64), sim.zeros(1, dtype=f64)
    with Forward({}) as forward:
        with capture() as graph:
            b.zero_()
            sim.launch(squares, 1, [a], [b])
        forward.set_tangent(a, [3.0])
        graph.replay()
        assert forward.tangent(b).item() == 3.0


# ------------------------------------------------------------------------------------------ rollouts
@sim.kernel
def spread(q: sim.array(dtype=sim.vec3d), loss: sim.array(dtype=f64)):
    i = sim.tid()
    sim.atomic_add(loss, 0, sim.dot(q[i], q[i]))


@pytest.mark.parametrize(
    ("order", "iterations"), [("colored", 1), pytest.param("colored", 2, marks=pytest.mark.slow), ("jacobi", 2)]
)
def test_forward_and_second_order_through_a_rollout(order, iterations):
    """XPBD with attachments, motions, damping and contacts: J v is <gradient, v>, H v is the difference of
    gradients."""
    solver = swung_sheet(order, iterations)
    model, rng = solver.model, np.random.default_rng(SEED)
    paths = {"sheet.distance.compliance": 0.02, "soft.motion.0.move": 1.0, "gravity": 1.0, "sheet.velocity": 1.0}
    chosen = [model[p] for p in paths]
    start = [a.numpy().copy() for a in chosen]
    along = [rng.normal(size=s.shape) * scale for s, scale in zip(start, paths.values(), strict=True)]

    def loss(*_: sim.array, strategy: object = None) -> sim.array:
        final = sim.rollout(solver, model.state(), 40, 1 / 300, strategy=strategy).final
        out = sim.zeros(1, dtype=f64, requires_grad=True)
        sim.launch(spread, model.particle_count, [final.particle_q], [out])
        return out

    def gradient(h: float) -> list[np.ndarray]:
        for a, s, v in zip(chosen, start, along, strict=True):
            a.assign(s + h * v)
        with sim.Tape() as tape:
            out = loss()
        tape.backward(out)
        found = [a.grad.numpy().copy() for a in chosen]
        tape.zero()
        return found

    at = gradient(0.0)
    wanted = sum(float((g * v).sum()) for g, v in zip(at, along, strict=True))
    _, (slope,) = jvp(loss, chosen, along)
    assert slope.item() == pytest.approx(wanted, rel=1e-10)
    products = hvp(loss, chosen, along)
    again = hvp(lambda *a: loss(*a, strategy=sim.Checkpointed(every=7)), chosen, along)
    h = 1e-5
    differences = [(p - m) / (2 * h) for p, m in zip(gradient(h), gradient(-h), strict=True)]
    for path, product, same, difference in zip(paths, products, again, differences, strict=True):
        np.testing.assert_array_equal(same.numpy(), product.numpy())
        assert np.abs(product.numpy() - difference).max() <= 1e-6 * np.abs(difference).max(), path


# ------------------------------------------------------------------------------------------ Jacobians, gradcheck
def test_jacobians_by_reverse_mode_and_by_differences():
    x, a = inputs()
    y = sim.zeros(2, dtype=f64)
    exact, close = jacobian(march, 2, [x, a], [y]), jacobian_fd(march, 2, [x, a], [y], eps=1e-6)
    assert set(exact) == {(0, 0), (1, 0), (0, -2), (1, -2)}  # x is overwritten: output -2
    assert exact[0, 0].shape == (2, 6) and exact[1, -2].shape == (6, 1)
    for key in exact:
        np.testing.assert_allclose(close[key], exact[key], atol=1e-7)
    np.testing.assert_array_equal(x.numpy(), X)
    part = jacobian_fd(march, 2, [x, a], [y], max_inputs_per_var=2)
    assert part[0, 0].shape == (2, 6) and np.isnan(part[0, 0][:, 2:]).all()
    np.testing.assert_allclose(jacobian(loss_of, inputs=[x, a])[0, 0].ravel(), gradients(0.0)[0].ravel(), rtol=1e-12)


def test_gradcheck_confirms_what_is_right():
    x, a = inputs()
    report = gradcheck(march, 2, [x, a], [sim.zeros(2, dtype=f64)])
    assert report and {row.name[0] for row in report.rows} == {"x", "a"}
    assert gradcheck(loss_of, inputs=[x, a])
    with sim.Tape() as tape:
        loss_of(x, a)
    assert [row.name for row in gradcheck(tape).rows] == ["march: x", "march: a", "squares: y"]
    assert [row.name for row in gradcheck_tape(tape, blacklist_kernels=[march]).rows] == ["squares: y"]
    np.testing.assert_array_equal(x.numpy(), X)


@sim.func
def wrong(x: f64):
    return x * x


@wrong.vjp
def _wrong_vjp(x, result, ct):
    return 3.0 * x * ct


@sim.kernel
def uses_wrong(x: sim.array(dtype=f64), c: sim.array(dtype=f64), y: sim.array(dtype=f64)):
    i = sim.tid()
    y[i] = x[i] * c[0]
    if i == 3:
        y[i] = wrong(x[i])


def test_gradcheck_names_what_is_off():
    x, c, y = sim.array(np.arange(6) + 0.5, dtype=f64), sim.array([2.0], dtype=f64), sim.zeros(6, dtype=f64)
    with pytest.raises(GradcheckError, match=r"x #1.*off, most at \[3\]"):
        gradcheck(uses_wrong, 6, [x, c], [y])
    report = gradcheck(uses_wrong, 6, [x, c], [y], raise_exception=False)
    assert not report and [row.ok for row in report.rows] == [False, False, True, True]


@sim.kernel
def single(x: sim.array(dtype=sim.vec3), y: sim.array(dtype=float)):
    i = sim.tid()
    s = 0.0
    for j in range(4):
        s += sim.sin(sim.dot(x[i], x[i + j])) * sim.exp(-s * s)
    y[i] = s


def test_gradcheck_in_single_precision():
    rng = np.random.default_rng(0)
    x = sim.array(rng.normal(size=(24, 3)), dtype=sim.vec3)
    assert gradcheck(single, 20, [x], [sim.zeros(20)], show_summary=True)


def test_nothing_to_differentiate_by_is_an_error():
    with pytest.raises(sim.GradientError, match="nothing to differentiate"):
        gradcheck(lambda n: n, inputs=[3])
    with pytest.raises(sim.GradientError, match="needs dim="):
        gradcheck(march, inputs=inputs())
    with pytest.raises(sim.GradientError, match="returned NoneType"):
        gradcheck(lambda a: None, inputs=inputs()[1:])
