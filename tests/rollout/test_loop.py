"""The loop around a minimiser that follows a script: what is the best, when it ends, what is forgotten, what a resume
goes on from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sim.core.optim.minimizer import Step
from sim.identify.search.loop import WORTHWHILE, Stop, optimize


class Script:
    """A minimiser that visits these points, evaluating `tries` first; its gradient norms are `norms`."""

    def __init__(
        self, points: Sequence[float], tries: dict[int, Sequence[float]] | None = None, norms: Sequence[float] = ()
    ) -> None:
        self.points, self.tries, self.norms, self.at = list(points), tries or {}, list(norms), 0
        self.x, self.value, self.gradient = np.zeros(1), 0.0, np.zeros(1)

    def begin(self, function, x0, bounds=None):
        self.x = np.array(x0, dtype=np.float64)
        self.value, self.gradient = function(self.x)

    def step(self, function):
        if self.at == len(self.points):
            return Step(0.0, 0, "line_search")
        self.at += 1
        for x in self.tries.get(self.at, ()):
            function(np.array([x]))
        before, self.x = self.x, np.array([self.points[self.at - 1]])
        self.value, self.gradient = function(self.x)
        return Step(float(abs(self.x - before)[0]), 1)

    def stationarity(self):
        return self.norms[self.at] if self.norms else 1.0

    def state_dict(self):
        return {"at": self.at, "x": self.x.copy()}

    def load_state_dict(self, state):
        self.at, self.x = int(state["at"]), np.array(state["x"])


class Losses:
    """The loss at x is x; counts the points that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(self, x):
        self.asked.append(float(x[0]))
        return float(x[0]), np.ones(1)


def search(points, start=10.0, iterations=50, function=None, tries=None, norms=(), **more):
    return optimize(
        function or Losses(),
        np.array([start]),
        None,
        Script(points, tries, norms),
        iterations=iterations,
        objective="plain",
        **more,
    )


QUIET = Stop(gradient=None)


def test_the_first_of_equally_good_points_is_the_best():
    found = search([5.0, 3.0, 4.0, 3.0, 7.0], stop=QUIET)
    assert (found.loss, found.x[0], found.best_iteration, found.iterations, found.stopped_because) == (
        3.0,
        3.0,
        2,
        5,
        "line_search",
    )
    found = search([12.0, 10.0], stop=QUIET)
    assert (found.loss, found.best_iteration, found.initial_loss) == (10.0, 0, 10.0)


def test_only_the_present_point_is_remembered_between_iterations():
    """What is known must not depend on where a run was resumed: a point of an earlier iteration is asked for again."""
    losses = Losses()
    found = search(
        [5.0, 3.0, 5.0, 5.0], function=losses, tries={1: [5.0, 7.0], 2: [5.0, 7.0, 7.0], 4: [3.0]}, stop=QUIET
    )
    assert losses.asked == [10.0, 5.0, 7.0, 7.0, 3.0, 5.0, 3.0] and found.evaluations == 7
    states = []
    search([5.0, 3.0, 5.0, 5.0], tries={1: [5.0, 7.0], 2: [5.0, 7.0, 7.0], 4: [3.0]}, stop=QUIET, save=states.append)
    for state in states[:-1]:
        again = Losses()
        two = search(
            [5.0, 3.0, 5.0, 5.0],
            function=again,
            tries={1: [5.0, 7.0], 2: [5.0, 7.0, 7.0], 4: [3.0]},
            stop=QUIET,
            resume_state=state,
        )
        assert losses.asked[int(state["evaluations"]) :] == again.asked and two.evaluations == 7
        assert (two.loss, two.best_iteration, two.iterations) == (found.loss, found.best_iteration, found.iterations)


# Improvements that are worthwhile, or not, against the last worthwhile one.
SLOW = 10.0 * (1 - WORTHWHILE * np.array([0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8, 2.9, 3.0, 3.1]))


def test_patience_counts_from_the_last_worthwhile_improvement():
    """Small steps add up: against the mark, not against the iteration before."""
    found = search(SLOW, stop=Stop(gradient=None, patience=3))
    assert (found.stopped_because, found.iterations) == ("patience", 9)
    assert search(SLOW, stop=Stop(gradient=None, patience=2)).iterations == 2
    assert search([10.0] * 5, stop=Stop(gradient=None, patience=4)).iterations == 4
    assert search([20.0, 5.0, 20.0, 20.0], stop=Stop(gradient=None, patience=2)).iterations == 4


def test_what_is_worthwhile_of_a_negative_loss():
    little = -10.0 * (1 + WORTHWHILE * np.array([0.4, 0.8]))
    assert search([*little, -20.0], start=-10.0, stop=Stop(gradient=None, patience=2)).iterations == 2
    assert search([-10.1, *little, -20.0], start=-10.0, stop=Stop(gradient=None, patience=2)).iterations == 3


@pytest.mark.parametrize("pause", range(9))
def test_patience_goes_on_where_it_was_when_a_run_is_resumed(pause):
    states = []
    search(SLOW, iterations=pause, stop=Stop(gradient=None, patience=3), save=states.append)
    found = search(SLOW, stop=Stop(gradient=None, patience=3), resume_state=states[-1])
    assert (found.stopped_because, found.iterations, found.initial_loss) == ("patience", 9, 10.0)


def test_reasons_to_end_in_their_order():
    assert search([5.0, 1.0, 0.5], stop=Stop(loss=1.0)).stopped_because == "loss"
    assert search([5.0, 1.0, 0.5], stop=Stop(loss=1.0)).iterations == 2
    assert search([5.0, 1.0], norms=[1.0, 0.5, 0.1], stop=Stop(gradient=0.5)).iterations == 1
    assert search([5.0, 1.0], norms=[0.5, 0.5, 0.1], stop=Stop(gradient=0.5)).stopped_because == "gradient"
    found = search([5.0], norms=[1.0, 0.1], stop=Stop(loss=5.0, gradient=0.5, patience=1), iterations=1)
    assert found.stopped_because == "loss"
    found = search([20.0], norms=[1.0, 0.1], stop=Stop(loss=5.0, gradient=0.5, patience=1), iterations=1)
    assert found.stopped_because == "gradient"
    found = search([20.0], stop=Stop(loss=5.0, gradient=0.5, patience=1), iterations=1)
    assert found.stopped_because == "patience"
    assert search([5.0, 4.0, 3.0], iterations=2, stop=QUIET).stopped_because == "iterations"


def test_a_resumed_run_that_has_nothing_left_to_do():
    states = []
    one = search([5.0, 4.0, 3.0], iterations=2, stop=QUIET, save=states.append)
    again = Losses()
    two = search([5.0, 4.0, 3.0], iterations=2, function=again, stop=QUIET, resume_state=states[-1])
    assert (
        not again.asked
        and (two.loss, two.iterations, two.evaluations) == (one.loss, 2, one.evaluations)
        and two.wall_s >= states[-1]["wall_s"]
    )


def test_an_interruption_leaves_the_last_complete_iteration():
    losses, saved = Losses(), []
    found = search(
        [5.0, 4.0, 3.0], function=losses, stop=QUIET, save=saved.append, should_stop=lambda: len(losses.asked) == 3
    )
    assert (found.stopped_because, found.iterations, found.loss) == ("interrupted", 2, 4.0)
    assert [int(s["iteration"]) for s in saved] == [0, 1, 2, 2] and saved[-1] is saved[-2] and found.state is saved[-1]


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"returned a gradient \(2,\) for x of shape \(1,\)"):
        search([1.0], function=lambda x: (1.0, np.ones(2)))


def test_log_lines_come_before_what_is_saved():
    order = []
    search([5.0, 4.0], stop=QUIET,
           log=lambda entry: order.append(("log", entry["iteration"], entry["step"], entry["loss"])),
           save=lambda state: order.append(("save", int(state["iteration"]))))  # fmt: skip
    assert order == [
        ("log", 0, 0.0, 10.0),
        ("save", 0),
        ("log", 1, 5.0, 5.0),
        ("save", 1),
        ("log", 2, 1.0, 4.0),
        ("save", 2),
    ]
