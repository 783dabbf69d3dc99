"""What a tape keeps where graphs are captured and replayed; found by `tools.workflow.fuzz`."""

import numpy as np
import pytest
from tools.tapes.gradients import array

import sim

f64 = sim.float64


@sim.kernel
def squares(x: sim.array[f64], loss: sim.array[f64]):
    sim.atomic_add(loss, 0, x[sim.tid()] * x[sim.tid()])


@sim.kernel
def double(x: sim.array[f64]):
    i = sim.tid()
    x[i] = 2.0 * x[i]


@sim.kernel
def scaled_square(x: sim.array[f64], y: sim.array[f64]):
    i = sim.tid()
    y[i] = x[i] * x[i] + 0.5 * y[i]


def recorded(x: sim.array) -> tuple[sim.Tape, sim.array]:
    loss = array([0.0])
    with sim.Tape() as tape:
        sim.launch(squares, x.size, [x], [loss])
    return tape, loss


@pytest.mark.parametrize("write", ["launch", "copy", "fill"])
def test_what_was_recorded_before_a_capture_is_saved_once(write):
    """Not again by each replay, which finds what the replay before has left."""
    x, other = array([1.0, 2.0]), array([5.0, 6.0])
    tape, loss = recorded(x)
    with sim.capture() as graph:
        {"launch": lambda: sim.launch(double, 2, [x]), "copy": lambda: x.assign(other), "fill": lambda: x.fill_(3.0)}[
            write
        ]()
    for _ in range(3):
        graph.replay()
        tape.backward(loss)
        np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
        tape.zero()


def test_a_capture_that_holds_a_tape_saves_again_at_each_replay():
    """Both in one graph: the gradient is that of the values of each replay."""
    x = array([1.0, 2.0])
    loss, tape = array([0.0]), sim.Tape()
    with sim.capture() as graph:
        with tape:
            sim.launch(squares, 2, [x], [loss])
            sim.launch(double, 2, [x])
        tape.backward(loss)
        tape.zero()
        tape.backward(loss)
    for k in range(3):
        if k:
            graph.replay()
        np.testing.assert_array_equal(x.grad.numpy(), 2.0**k * np.array([2.0, 4.0]))


def test_a_backward_outside_of_the_graph_is_right_or_an_error():
    """Forward in a graph, and a replay: what the tape has saved outside is of the run before."""
    x, y, loss, tape = array([1.0, 2.0]), array([1.0, 1.0]), array([0.0]), sim.Tape()
    with sim.capture() as graph:
        with tape:
            sim.launch(scaled_square, 2, [x], [y])
            sim.launch(squares, 2, [y], [loss])
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), 4.0 * np.array([1.5, 4.5]) * [1.0, 2.0])
    tape.zero()
    graph.replay()
    with pytest.raises(sim.GradientError, match="replayed"):
        tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), 0.0)


def test_a_refused_backward_makes_nothing_part_of_the_tape():
    """The rest of a vector, of which the tape knows a slice, keeps what the user has written to its gradient."""
    p, x = array(np.arange(6.0)), array([1.0, 2.0])
    with sim.Tape() as tape:
        p[0:2].assign(x)
    p.grad.assign(np.ones(6))
    with pytest.raises(sim.GradientError, match="gradient of an array"):
        tape.backward(grads={p: np.full(6, 3.0)})
    tape.zero()
    np.testing.assert_array_equal(p.grad.numpy(), [0, 0, 1, 1, 1, 1])


def test_a_detached_copy_is_made_again_by_a_replay():
    x = array([1.0, 2.0])
    with sim.capture() as graph:
        y = sim.clone(x, requires_grad=False)
    sim.launch(double, 2, [x])
    graph.replay()
    np.testing.assert_array_equal(y.numpy(), [2.0, 4.0])


@pytest.mark.parametrize("wanted", [True, False])
def test_requires_grad_changed_after_a_capture_is_an_error_of_the_replay(wanted):
    """The graph goes back to the arrays that had a gradient when it was captured."""
    x, loss, tape = array([1.0, 2.0], gradient=not wanted), array([0.0]), sim.Tape()
    other = array([1.0, 1.0])
    with sim.capture() as graph:
        with tape:
            sim.launch(scaled_square, 2, [x], [other])
            sim.launch(squares, 2, [other], [loss])
        tape.backward(loss)
    graph.replay()
    x.requires_grad = wanted
    with pytest.raises(sim.GradientError, match="capture it again"):
        graph.replay()
