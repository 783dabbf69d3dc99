"""What a backward starts from where `.grad` already holds something: docs/decisions/17-seeds.md."""

import numpy as np
import pytest
from tools.tapes.gradients import array
from tools.tapes.kernels import square, square_in_place, total, zeros

import sim

f64 = sim.float64
X = np.array([1.1, 0.7, 1.3])


def squared(x: sim.array) -> sim.Tape:
    with sim.Tape() as tape:
        sim.launch(square_in_place, x.size, outputs=[x])
    return tape


def summed(x: sim.array) -> tuple[sim.Tape, sim.array]:
    out = zeros(1)
    with sim.Tape() as tape:
        sim.launch(square_in_place, x.size, outputs=[x])
        sim.launch(total, x.size, [x], [out])
    return tape, out


@pytest.mark.parametrize("weights", ["its own gradient", "a copy", "host data", "without"])
def test_an_earlier_tape_takes_what_a_later_one_has_left(weights):
    """x -> x^2 -> x^4 on two tapes, in one array."""
    x = array(X)
    earlier, (later, out) = squared(x), summed(x)
    later.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 2 * X**2)
    given = {
        "its own gradient": {x: x.grad},
        "a copy": {x: sim.clone(x.grad)},
        "host data": {x: x.grad.numpy().copy()},
        "without": None,
    }
    earlier.backward(grads=given[weights])
    np.testing.assert_allclose(x.grad.numpy(), 4 * X**3)


def test_three_tapes_in_a_chain_again_and_again():
    x = array(X)
    for _ in range(3):
        x.assign(X)
        tapes = [squared(x), squared(x)]
        last, out = summed(x)
        last.backward(out)
        for tape in reversed(tapes):
            tape.backward(grads={x: x.grad.numpy().copy()})
        np.testing.assert_allclose(x.grad.numpy(), 8 * X**7)
        x.grad.zero_()


def test_a_loss_of_an_earlier_tape_does_not_mix_with_what_a_later_one_left():
    x, own = array(X), zeros(1)
    with sim.Tape() as earlier:
        sim.launch(square_in_place, 3, outputs=[x])
        sim.launch(total, 3, [x], [own])
    later, out = summed(x)
    later.backward(out)
    left = x.grad.numpy().copy()
    with pytest.raises(sim.GradientError, match="what a later tape has left.*\n.*or name it"):
        earlier.backward(own)
    np.testing.assert_array_equal(x.grad.numpy(), left)
    earlier.backward(grads={x: x.grad, own: [1.0]})
    np.testing.assert_allclose(x.grad.numpy(), 4 * X**3 + 2 * X)
    later.zero()
    earlier.zero()
    earlier.backward(own)
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)


def test_a_sum_of_gradients_from_before_and_after_a_tape_is_no_seed():
    x, own = array(X), zeros(1)
    with sim.Tape() as earlier:
        sim.launch(square_in_place, 3, outputs=[x])
        sim.launch(total, 3, [x], [own])
    later, out = summed(x)
    earlier.backward(own)
    later.backward(out)  # adds a gradient by x after the first tape to one by x before it
    for arguments in ({}, {"loss": own}, {"grads": {x: np.ones(3)}}):
        with pytest.raises(sim.GradientError, match="before and after this tape"):
            earlier.backward(**arguments)


def test_independent_tapes_add_up_in_any_order():
    x = array(X)
    tapes = []
    for _ in range(3):
        y, out = zeros(3), zeros(1)
        with sim.Tape() as tape:
            sim.launch(square, 3, [x], [y])
            sim.launch(total, 3, [y], [out])
        tapes.append((tape, out))
    for times, k in enumerate([2, 0, 1, 1, 0, 2], start=1):
        tapes[k][0].backward(tapes[k][1])
        np.testing.assert_allclose(x.grad.numpy(), 2 * times * X)


@pytest.mark.parametrize("how", ["fill", "numpy", "copy", "launch"])
def test_what_the_user_wrote_is_no_seed_beside_a_loss(how):
    """In memory that the tape writes it could be one: an error.  Elsewhere it makes no difference: the gradient is
    added."""
    x, z = array(X), array(X)
    out = zeros(1)
    with sim.Tape() as tape:
        sim.launch(square_in_place, 3, outputs=[x])
        sim.launch(total, 3, [x], [out])
        sim.launch(total, 3, [z], [out])
    threes = sim.array(np.full(3, 3.0), dtype=f64)

    def write(a: sim.array) -> None:
        if how == "fill":
            a.fill_(3.0)
        elif how == "numpy":
            a.numpy()[:] = 3.0
        elif how == "copy":
            sim.copy(a, threes)
        else:
            sim.launch(total, 3, [sim.ones(3, dtype=f64)], [a[:1]])
            sim.launch(total, 3, [sim.ones(3, dtype=f64)], [a[1:2]])
            sim.launch(total, 3, [sim.ones(3, dtype=f64)], [a[2:]])

    write(z.grad)
    tape.backward(out)
    np.testing.assert_allclose(z.grad.numpy(), 4.0)
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)
    tape.zero()
    write(x.grad)
    for arguments in ({"loss": out}, {"grads": {out: [1.0]}}, {"grads": {x: np.ones(3)}}):
        with pytest.raises(sim.GradientError, match="was written there"):
            tape.backward(**arguments)
    np.testing.assert_array_equal(x.grad.numpy(), 3.0)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X)
    for clear in (
        lambda: x.grad.zero_(),
        lambda: x.grad.assign(np.zeros(3)),
        tape.zero,
        lambda: x.grad.numpy().fill(0.0),
    ):
        x.grad.fill_(2.0)
        clear()
        tape.zero()
        tape.backward(out)
        np.testing.assert_allclose(x.grad.numpy(), 2 * X)


def test_the_gradient_of_the_loss_itself_is_replaced():
    """Warp's way to write it twice."""
    x = array(X)
    tape, out = summed(x)
    out.grad.fill_(1.0)
    tape.backward(out)
    np.testing.assert_allclose(x.grad.numpy(), 2 * X)


def test_a_gradient_that_holds_zeros_is_nothing_to_start_from_unless_somebody_wrote_them():
    x = array(X)
    tape = squared(x)
    assert not x.grad.numpy().any()  # made by this look at it
    with pytest.raises(sim.GradientError, match="nothing to start from"):
        tape.backward()
    x.grad.fill_(0.0)
    tape.backward()
    assert not x.grad.numpy().any()
    x.grad.fill_(1.0)
    tape.zero()
    with pytest.raises(sim.GradientError, match="nothing to start from"):
        tape.backward()


def test_seeds_through_numpy_again_in_every_iteration():
    x, y, z = array(X), zeros(3), zeros(3)
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y])
        sim.launch(square, 3, [x], [z])
    for times in range(1, 4):
        y.grad.numpy()[:] = 1.0
        z.grad.fill_(2.0)
        tape.backward()
        np.testing.assert_allclose(x.grad.numpy(), times * 6 * X)


def test_a_gradient_array_that_is_exchanged_counts_as_written():
    x, y = array(X), zeros(3)
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y])
    y.grad = sim.array(np.full(3, 2.0), dtype=f64)
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)
    x.grad = None
    x.grad = total_grad = sim.array(np.ones(3), dtype=f64)
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(total_grad.numpy(), 2 * X + 1)


def test_views_as_loss():
    for view in (lambda y: y[1:2], lambda y: y.reshape((3, 1))[1], lambda y: y[::2][:1], lambda y: y.flatten()[2:]):
        x, y = array(X), zeros(3)
        with sim.Tape() as tape:
            sim.launch(square, 3, [x], [y])
        loss = view(y)
        tape.backward(loss)
        chosen = np.isclose(y.numpy(), loss.numpy().ravel()[0])
        np.testing.assert_allclose(x.grad.numpy(), 2 * X * chosen)
    with pytest.raises(sim.GradientError, match="neither written nor read"):
        p = zeros(4)
        with sim.Tape() as tape:
            sim.launch(square, 3, [array(X)], [p[:3]])
        tape.backward(p[3:])


def test_a_tape_that_is_used_again():
    x, y, tape = array(X), zeros(3), sim.Tape()
    for k in range(1, 4):
        with tape:
            sim.launch(square, 3, [x], [y])
        tape.backward(grads={y: np.full(3, float(k))})
        np.testing.assert_allclose(x.grad.numpy(), 2 * k * X)
        tape.reset()
    with tape:
        sim.launch(square, 3, [x], [y])
        sim.launch(square_in_place, 3, outputs=[y])
    tape.backward(grads={y: np.ones(3)})
    with tape:
        sim.launch(square_in_place, 3, outputs=[y])
    tape.zero()
    tape.backward(grads={y: np.ones(3)})
    np.testing.assert_allclose(x.grad.numpy(), 8 * X**7)


def test_backward_inside_of_nested_captures():
    x, y = array(X), zeros(3)
    with sim.Tape() as tape:
        sim.launch(square, 3, [x], [y])
    w = sim.ones(3, dtype=f64)
    with sim.capture() as outer:
        y.grad.zero_()
        with sim.capture() as inner:
            tape.backward(grads={y: w})
        inner.replay()
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)
    tape.zero()
    w.fill_(2.0)
    inner.replay()
    np.testing.assert_allclose(x.grad.numpy(), 4 * X)
    outer.replay()
    np.testing.assert_allclose(x.grad.numpy(), 8 * X)  # what an inner graph notes is not noted by the outer one again
