"""What users do around a tape: between recording and backward, with several tapes, in training loops."""

import numpy as np
import pytest
from tools.tapes.gradients import array

import sim as wp

f64 = wp.float64
START = np.array([1.0, 2.0, 3.0])


def zeros(n: int) -> wp.array:
    return wp.zeros(n, dtype=f64, requires_grad=True)


@wp.kernel
def square(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def cube_in_place(x: wp.array(dtype=f64)):
    i = wp.tid()
    x[i] = x[i] * x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=f64), out: wp.array(dtype=f64)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i])


def recorded(x: wp.array, y: wp.array, out: wp.array, tape: wp.Tape | None = None) -> wp.Tape:
    """sum(x^4)"""
    tape = tape or wp.Tape()
    with tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(square, dim=3, inputs=[y], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[out])
    return tape


def write_with_numpy(x: wp.array) -> None:
    x.numpy()[:] = 7.0


def write_with_asarray(x: wp.array) -> None:
    np.asarray(x)[1] = 7.0


OTHERS = {
    "fill": lambda x: x.fill_(7.0),
    "zero": lambda x: x.zero_(),
    "assign": lambda x: x.assign(START * 2.0),
    "kernel": lambda x: wp.launch(cube_in_place, dim=3, inputs=[x]),
    "numpy": write_with_numpy,
    "asarray": write_with_asarray,
}


@pytest.mark.parametrize("how", OTHERS)
def test_writes_between_recording_and_backward(how):
    x, y, out = array(START), zeros(3), zeros(1)
    tape = recorded(x, y, out)
    OTHERS[how](x)
    OTHERS[how](y)
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 4.0 * START**3, rtol=1e-14)


def test_a_tape_that_refuses_overwrites_gives_read_only_views():
    x, y, out = array(START), zeros(3), zeros(1)
    with wp.Tape(on_overwrite="error") as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[out])
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[:] = 7.0
    y.numpy()[:] = 7.0  # nothing needs y
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * START)


def test_steps_of_gradient_descent_through_numpy():
    x, y = array(START), zeros(3)
    expected = START.copy()
    for _ in range(4):
        out = zeros(1)
        tape = recorded(x, y, out)
        tape.backward(out)
        x.numpy()[:] -= 0.01 * x.grad.numpy()
        expected -= 0.01 * 4.0 * expected**3
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-13)
        tape.zero()


def test_one_tape_reset_in_every_iteration():
    x, y, out, tape = array(START), zeros(3), zeros(1), wp.Tape()
    for _ in range(3):
        out.zero_()
        recorded(x, y, out, tape).backward(out)
        np.testing.assert_allclose(x.grad.numpy(), 4.0 * x.numpy() ** 3, rtol=1e-13)
        x.assign(x.numpy() * 0.5)
        tape.reset()


def test_a_second_forward_before_the_first_backward():
    x, y, first, second = array(START), zeros(3), zeros(1), zeros(1)
    one = recorded(x, y, first)
    two = recorded(x, y, second)
    one.backward(first)
    np.testing.assert_allclose(x.grad.numpy(), 4.0 * START**3, rtol=1e-14)
    two.backward(second)
    np.testing.assert_allclose(x.grad.numpy(), 8.0 * START**3, rtol=1e-14)


def test_a_tape_that_goes_on_after_a_pause():
    x, y, out, tape = array(START), zeros(3), zeros(1), wp.Tape()
    with tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
    assert float(y.numpy()[2]) == 9.0
    with tape:
        wp.launch(cube_in_place, dim=3, inputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[out])
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 6.0 * START**5, rtol=1e-14)


def test_two_tapes_in_a_chain():
    x, y, z, out = array(START), zeros(3), zeros(3), zeros(1)
    with wp.Tape() as head:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
    with wp.Tape() as tail:
        wp.launch(square, dim=3, inputs=[y], outputs=[z])
        wp.launch(total, dim=3, inputs=[z], outputs=[out])
    tail.backward(out)
    weights = wp.clone(y.grad)
    y.grad.zero_()
    head.backward(grads={y: weights})
    np.testing.assert_allclose(x.grad.numpy(), 4.0 * START**3, rtol=1e-14)


def test_adjoint_launches_with_arrays_of_ones_own():
    x, y = array(START, gradient=False), array([0.0] * 3, gradient=False)
    gx, gy = array([0.0] * 3, gradient=False), array([1.0, 10.0, 100.0], gradient=False)
    wp.launch(square, dim=3, inputs=[x], outputs=[y], adj_inputs=[gx], adj_outputs=[gy], adjoint=True)
    np.testing.assert_allclose(gx.numpy(), [2.0, 40.0, 600.0])


def test_recorded_launches_alternate_and_follow_the_data():
    x, y = array(START), zeros(3)
    forward = wp.launch(square, dim=3, inputs=[x], outputs=[y], record_cmd=True)
    backward = wp.launch(square, dim=3, inputs=[x], outputs=[y], adjoint=True, record_cmd=True)
    for _ in range(3):
        forward.launch()
        y.grad.fill_(1.0)
        x.grad.zero_()
        backward.launch()
        np.testing.assert_allclose(x.grad.numpy(), 2.0 * x.numpy())
        x.assign(x.numpy() * 0.5)
    other = array([5.0] * 3)
    backward.set_param_by_name("x", other)
    y.grad.fill_(1.0)
    backward.launch()
    np.testing.assert_allclose(other.grad.numpy(), 10.0)
