"""Graphs in graphs, and decisions that a replay takes anew."""

import numpy as np
import pytest

import sim


@sim.kernel
def halve(x: sim.array[float], left: sim.array[int]):
    """One step of a search; counts down."""
    x[0] = 0.5 * x[0]
    left[0] = left[0] - 1


@sim.kernel
def grow(x: sim.array[float]):
    x[0] = x[0] + 1.0


def run_while(x, left):
    sim.capture_while(left, lambda: sim.launch(halve, 1, [x, left]))


@pytest.mark.parametrize("captured_with", [0, 1, 3])
def test_a_loop_in_a_graph_runs_as_often_as_its_counter_says(captured_with):
    """Also where the body did not run at all when it was captured."""
    x, left = sim.array([64.0]), sim.array([captured_with])
    with sim.capture() as graph:
        run_while(x, left)
    assert x.list() == [64.0 * 0.5**captured_with] and left.list() == [0]
    for count in (5, 0, 2):
        x.assign([64.0])
        left.assign([count])
        graph.replay()
        assert x.list() == [64.0 * 0.5**count] and left.list() == [0]


def test_a_choice_is_made_at_every_replay():
    x, left, choice = sim.array([8.0]), sim.array([0]), sim.array([True])
    with sim.capture() as other:
        sim.launch(halve, 1, [x, left])
    x.assign([8.0])
    with sim.capture() as graph:
        sim.capture_if(choice, lambda: sim.launch(grow, 1, [x]), other)
        sim.launch(grow, 1, [x])
    assert x.list() == [10.0]
    for chosen, want in ((False, 6.0), (True, 8.0), (False, 5.0)):
        choice.assign([chosen])
        graph.replay()
        assert x.list() == [want]
    with sim.capture() as nothing:
        sim.capture_if(choice, None, None)
    nothing.replay()
    assert x.list() == [5.0]


def test_outside_of_a_graph_they_are_python_and_recorded():
    x, left = sim.array([64.0], requires_grad=True), sim.array([3])
    with sim.Tape() as tape:
        run_while(x, left)
        sim.capture_if(left, lambda: sim.launch(grow, 1, [x]))
    assert x.list() == [8.0]
    tape.backward(grads={x: np.ones(1)})
    assert x.grad.list() == [0.125]
    with (
        sim.Tape(),
        sim.capture(),
        pytest.raises(sim.GradientError, match="a conditional in a capture under an open tape"),
    ):
        run_while(x, left)


def test_a_replay_inside_of_a_capture_belongs_to_it():
    x, left = sim.array([1.0]), sim.array([0])
    with sim.capture() as inner:
        sim.launch(grow, 1, [x])
    with sim.capture() as outer:
        inner.replay()
        sim.launch(halve, 1, [x, left])
    assert x.list() == [1.5]
    outer.replay()
    assert x.list() == [1.25]


def step_down(x, left):
    sim.launch(halve, 1, [x, left])


def test_functions_get_the_arguments_that_are_named():
    """As in Warp; a captured graph beside a function has its own, and is given none."""
    x, left = sim.array([64.0]), sim.array([2])
    sim.capture_while(left, step_down, x=x, left=left)
    assert x.list() == [16.0] and left.list() == [0]
    with sim.capture() as other:
        sim.launch(grow, 1, [x])
    left.assign([3])
    with sim.capture() as graph:
        sim.capture_while(left, step_down, x=x, left=left)
        sim.capture_if(left, step_down, other, x=x, left=left)
    assert x.list() == [17.0 / 8.0 + 1.0] and left.list() == [0]
    left.assign([1])
    graph.replay()
    assert x.list() == [25.0 / 16.0 + 1.0] and left.list() == [0]
    sim.capture_if(left, on_false=lambda y: sim.launch(grow, 1, [y]), stream=sim.Stream(), y=x)
    assert x.list() == [25.0 / 16.0 + 2.0]
    with pytest.raises(TypeError, match="step_down"):
        sim.capture_if(left, on_false=step_down, x=x)


def test_conditions_that_are_none():
    for condition, said in ((3, "a int"), (sim.zeros(2, dtype=int), r"shape \(2,\)"), (sim.zeros(1), "float32")):
        with pytest.raises(TypeError, match=said):
            sim.capture_if(condition, lambda: None)
