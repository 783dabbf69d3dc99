"""The loop: answers, log, best-so-far, early stop, back-off, interruption, and resuming to the bit."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from sim.core.optim import LBFGS, SGD, Adam, Descent, GaussNewton
from sim.identify.search.loop import Approach, NonFinite, Stop, optimize
from sim.identify.search.objectives import ObjectiveError, make_objective

TIME = np.linspace(0.02, 1.2, 60)
TRUTH = np.log(np.array([0.01, 2.0]))
NOISE = 1e-3


def trajectory(x):
    """Positions (60,) of a hanging mass, compliance exp(x0), damping exp(x1); derivatives by x (60, 2)."""
    c, k = np.exp(x)
    sag, rate = 9.81 * c, 1 / np.sqrt(c)
    decay, phase = np.exp(-k * TIME), rate * TIME
    q = sag * (1 - decay * np.cos(phase))
    by_c = q - sag * decay * np.sin(phase) * 0.5 * phase
    by_k = sag * k * TIME * decay * np.cos(phase)
    return q, np.stack([by_c, by_k], axis=1)


class Fit:
    """Mean square of residuals over the noise, as scenes have it; counts its evaluations."""

    def __init__(self, noise=0.0, dtype=np.float64):
        rng = np.random.default_rng(5)
        self.target = trajectory(TRUTH)[0] + noise * rng.normal(size=TIME.size)
        self.points = []
        self.dtype = dtype

    def __call__(self, x):
        self.points.append(x.tobytes())
        q, by_x = trajectory(x)
        residual = ((q - self.target) / NOISE).astype(self.dtype)
        gradient = 2 * (by_x / NOISE).astype(self.dtype).T @ residual / self.dtype(residual.size)
        return float(np.mean(residual**2)), gradient


START = TRUTH + np.array([0.5, 1.5])
BOUNDS = (np.log([1e-4, 1e-2]), np.log([10.0, 100.0]))


def of_residuals(x):
    """J' J and -J' r of the fit without noise; without the factor that the loss has."""
    q, by_x = trajectory(x)
    return by_x.T @ by_x, -by_x.T @ (q - trajectory(TRUTH)[0])


METHODS = [
    lambda: LBFGS(max_step=4.0),
    lambda: GaussNewton(of_residuals, max_step=4.0),
    lambda: Descent(Adam, lr=0.1),
    lambda: Descent(SGD, lr=0.01, momentum=0.5),
]


def test_the_test_problem_has_right_gradients():
    fit = Fit()
    differences = [(fit(START + 1e-6 * e)[0] - fit(START - 1e-6 * e)[0]) / 2e-6 for e in np.eye(2)]
    assert np.allclose(fit(START)[1], differences, rtol=1e-7)


@pytest.mark.parametrize("objective", ["log", "plain"])
def test_lbfgs_finds_the_truth_to_many_digits_in_few_evaluations(objective):
    fit = Fit()
    result = optimize(fit, START, BOUNDS, objective=objective)
    assert np.allclose(result.x, TRUTH, atol=1e-6)
    assert result.loss < 1e-8 and result.initial_loss == Fit()(START)[0]
    assert result.evaluations == len(fit.points) < 30
    assert result.stopped_because in ("gradient", "line_search", "loss")


def test_loss_with_a_floor_of_noise():
    fit = Fit(NOISE)
    result = optimize(fit, START, BOUNDS)
    assert 0.6 < result.loss < 1.1 and np.allclose(result.x, TRUTH, atol=0.05)
    assert np.max(np.abs(result.gradient)) < 1e-4 * result.initial_loss


def test_single_precision_loss_ends_without_waste():
    fit = Fit(NOISE, np.float32)
    result = optimize(fit, START, BOUNDS, LBFGS(max_step=4.0, noise=1e-6))
    assert np.allclose(result.x, TRUTH, atol=0.05) and result.evaluations < 40


def test_adam_finds_the_truth():
    result = optimize(Fit(), START, BOUNDS, Descent(Adam, lr=0.1), iterations=300)
    assert np.allclose(result.x, TRUTH, atol=1e-2)
    assert result.loss == Fit()(result.x)[0] < 1e-2 * result.initial_loss


def test_log_entries_are_plain_and_complete():
    entries = []
    result = optimize(
        Fit(), START, BOUNDS, log=entries.append, iterations=8, describe=lambda x: {"parameters": {"c": x[0]}}
    )
    assert [e["iteration"] for e in entries] == list(range(len(entries))) and len(entries) == result.iterations + 1
    assert set(entries[0]) == {"iteration", "loss", "gradient_norm", "step", "evaluations", "wall_s", "parameters"}
    assert entries[0]["loss"] == result.initial_loss and entries[0]["evaluations"] == 1 and entries[0]["step"] == 0.0
    assert entries[-1]["loss"] == result.loss and entries[-1]["evaluations"] <= result.evaluations
    assert all(e["step"] > 0 for e in entries[1:])
    assert json.loads(json.dumps(entries)) == entries


def test_best_so_far_is_kept_when_the_search_wanders_off():
    """A rate far too high swings over the minimum; the result is the best visited point, not the last."""
    entries = []
    result = optimize(Fit(), TRUTH + 0.01, BOUNDS, Descent(Adam, lr=1.0), iterations=6, log=entries.append)
    losses = [e["loss"] for e in entries]
    assert result.loss == min(losses) < losses[-1]
    assert result.best_iteration == int(np.argmin(losses))
    assert Fit()(result.x)[0] == result.loss


@pytest.mark.parametrize(
    ("stop", "why"),
    [
        (Stop(loss=0.5), "loss"),
        (Stop(gradient=0.5), "gradient"),
        (Stop(gradient=None, patience=3), "patience"),
    ],
)
def test_early_stop(stop, why):
    entries = []
    function = Fit(NOISE) if why == "patience" else Fit()
    method = Descent(Adam, lr=0.1) if why == "patience" else None
    result = optimize(function, START, BOUNDS, method, stop=stop, iterations=1000, log=entries.append)
    assert result.stopped_because == why and 0 < result.iterations < 1000
    losses = [e["loss"] for e in entries]
    if why == "loss":
        assert losses[-1] <= 0.5 < losses[-2]
    elif why == "gradient":
        assert entries[-1]["gradient_norm"] <= 0.5 < entries[-2]["gradient_norm"]
    else:
        assert min(losses) > min(losses[:-3]) * (1 - 1.1e-4)


def test_zero_iterations_evaluate_the_start_only():
    result = optimize(Fit(), START, BOUNDS, iterations=0)
    assert (result.iterations, result.evaluations, result.stopped_because) == (0, 1, "iterations")
    assert np.array_equal(result.x, START)


def test_perfect_start():
    result = optimize(Fit(), TRUTH, BOUNDS)
    assert (result.loss, result.iterations, result.stopped_because) == (0.0, 0, "loss")


def through_file(state):
    """A saved state as it comes back from a run folder."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        return dict(saved)


def without_time(entries):
    return [{k: v for k, v in e.items() if k != "wall_s"} for e in entries]


@pytest.mark.parametrize("objective", ["log", "plain"])
@pytest.mark.parametrize("make", METHODS)
@pytest.mark.parametrize("pause", [0, 1, 10])
def test_twenty_are_ten_and_ten_to_the_bit(make, objective, pause):
    whole, parts, log_whole, log_parts, states = Fit(NOISE), Fit(NOISE), [], [], []
    quiet = Stop(gradient=None)
    one = optimize(whole, START, BOUNDS, make(), iterations=20, objective=objective, stop=quiet, log=log_whole.append)
    optimize(
        parts,
        START,
        BOUNDS,
        make(),
        iterations=pause,
        objective=objective,
        stop=quiet,
        log=log_parts.append,
        save=states.append,
    )
    two = optimize(
        parts,
        START,
        BOUNDS,
        make(),
        iterations=20,
        objective=objective,
        stop=quiet,
        log=log_parts.append,
        resume_state=through_file(states[-1]),
    )
    assert whole.points == parts.points
    assert without_time(log_whole) == without_time(log_parts)
    assert one.x.tobytes() == two.x.tobytes() and one.loss == two.loss and one.best_iteration == two.best_iteration
    assert one.gradient.tobytes() == two.gradient.tobytes() and one.evaluations == two.evaluations
    assert one.initial_loss == two.initial_loss and one.stopped_because == two.stopped_because


@pytest.mark.parametrize("make", METHODS)
@pytest.mark.parametrize("kind", ["should_stop", "ctrl-c"])
def test_interruption_anywhere_loses_at_most_one_iteration(make, kind):
    """Stopped before each evaluation in turn and resumed: always the log of the run that nobody interrupted."""
    reference, entries = Fit(NOISE), []
    optimize(reference, START, BOUNDS, make(), iterations=6, log=entries.append)
    for at in range(1, len(reference.points)):
        fit, log, states = Fit(NOISE), [], []

        def function(x, fit=fit, at=at):
            if kind == "ctrl-c" and len(fit.points) == at:
                raise KeyboardInterrupt
            return fit(x)

        stopped = optimize(
            function,
            START,
            BOUNDS,
            make(),
            iterations=6,
            log=log.append,
            save=states.append,
            should_stop=lambda fit=fit, at=at: kind == "should_stop" and len(fit.points) == at,
        )
        assert stopped.stopped_because == "interrupted" and len(fit.points) == at
        assert int(states[-1]["iteration"]) == log[-1]["iteration"] == stopped.iterations
        assert stopped.loss == min(e["loss"] for e in log)
        optimize(fit, START, BOUNDS, make(), iterations=6, log=log.append, resume_state=through_file(states[-1]))
        # Evaluations of the unfinished iteration are made again and are not counted twice.
        assert without_time(log) == without_time(entries)


class About(Fit):
    """As `Fit`, with gradients that are a tenth off and may break down; notes its points in another's list."""

    def __init__(self, exact, broken_from=None):
        super().__init__(NOISE)
        self.points, self.broken_from, self.calls = exact.points, broken_from, 0

    def __call__(self, x):
        loss, gradient = super().__call__(x)
        self.calls += 1
        broken = self.broken_from is not None and self.calls >= self.broken_from
        return loss, gradient * (np.nan if broken else np.array([1.1, 0.9]))

    def approach(self):
        return Approach(self, GaussNewton(of_residuals, max_step=4.0))


def test_an_approach_is_left_for_the_exact_gradient_before_the_end():
    fit = Fit(NOISE)
    about = About(fit)
    alone = optimize(Fit(NOISE), START, BOUNDS, METHODS[1](), iterations=30)
    found = optimize(fit, START, BOUNDS, METHODS[1](), iterations=30, approach=about.approach())
    assert 2 <= about.calls and len(fit.points) - about.calls < alone.evaluations
    assert np.allclose(found.x, alone.x, rtol=0, atol=1e-6) and np.isclose(found.loss, alone.loss, rtol=1e-9)
    assert np.array_equal(found.gradient, Fit(NOISE)(found.x)[1])  # the exact one, not the approach's


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_a_search_that_ends_within_its_approach_tells_the_exact_gradient(iterations):
    fit = Fit(NOISE)
    found = optimize(fit, START, BOUNDS, METHODS[1](), iterations=iterations, approach=About(fit).approach())
    assert found.stopped_because == "iterations" and found.iterations == iterations
    assert np.array_equal(found.gradient, Fit(NOISE)(found.x)[1])


@pytest.mark.parametrize("broken_from", [1, 2, 3])
def test_where_an_approach_breaks_down_the_exact_gradient_takes_over(broken_from):
    fit = Fit(NOISE)
    alone = optimize(Fit(NOISE), START, BOUNDS, METHODS[1](), iterations=30)
    found = optimize(fit, START, BOUNDS, METHODS[1](), iterations=30, approach=About(fit, broken_from).approach())
    assert np.isclose(found.loss, alone.loss, rtol=1e-9)


@pytest.mark.parametrize("loss_stands", [True, False])
@pytest.mark.parametrize("iterations", [2, 30])
def test_a_search_whose_exact_gradient_breaks_down_where_its_approach_led_is_broken(loss_stands, iterations):
    fit = Fit(NOISE)

    def broken(x):
        if not loss_stands:
            raise FloatingPointError("no way back")
        return fit(x)[0], np.array([0.0, np.nan])

    with pytest.raises(NonFinite, match="where gradients by differences led") as caught:
        optimize(broken, START, BOUNDS, METHODS[1](), iterations=iterations, approach=About(fit).approach())
    found = caught.value.result
    assert found.loss == fit(found.x)[0] < 0.5 * found.initial_loss and np.isnan(found.gradient).any()


def test_an_approach_is_interrupted_and_resumed_like_the_rest():
    def run(fit, **kwargs):
        return optimize(fit, START, BOUNDS, METHODS[1](), iterations=12, approach=About(fit).approach(), **kwargs)

    reference, entries = Fit(NOISE), []
    whole = run(reference, log=entries.append)
    for at in range(1, len(reference.points)):
        fit, log, states = Fit(NOISE), [], []
        stopped = run(fit, log=log.append, save=states.append, should_stop=lambda fit=fit, at=at: len(fit.points) == at)
        assert stopped.stopped_because == "interrupted" and len(fit.points) == at
        again = run(fit, log=log.append, resume_state=through_file(states[-1]))
        assert without_time(log) == without_time(entries)
        assert again.x.tobytes() == whole.x.tobytes() and again.gradient.tobytes() == whole.gradient.tobytes()


def test_interrupted_before_the_first_evaluation():
    saved = []
    result = optimize(Fit(), START, BOUNDS, should_stop=lambda: True, save=saved.append)
    assert result.stopped_because == "interrupted" and np.isnan(result.loss) and not saved and not result.state


def test_resume_of_another_run_is_refused():
    states = []
    optimize(Fit(), START, BOUNDS, iterations=2, save=states.append)
    with pytest.raises(ValueError, match="method is LBFGS, this run's is Descent"):
        optimize(Fit(), START, BOUNDS, Descent(Adam), resume_state=states[-1])
    with pytest.raises(ValueError, match="objective is log, this run's is plain"):
        optimize(Fit(), START, BOUNDS, objective="plain", resume_state=states[-1])
    with pytest.raises(ValueError, match="2 coordinates, this run has 3"):
        optimize(Fit(), np.zeros(3), resume_state=states[-1])


@pytest.mark.parametrize("make", METHODS)
def test_backs_off_where_the_simulation_breaks_down(make):
    """Values a little below the truth make the simulation explode; every method runs into that wall."""
    fit, broken = Fit(), 0

    def function(x):
        nonlocal broken
        if np.any(x < TRUTH - 1e-3):
            broken += 1
            raise FloatingPointError("step 12: link 3 is not finite")
        return fit(x)

    result = optimize(function, START, BOUNDS, make(), iterations=200)
    assert np.allclose(result.x, TRUTH, atol=0.1) and broken > 0


@pytest.mark.parametrize("make", METHODS)
def test_gives_up_with_the_cause_and_the_best_point(make):
    fit, states = Fit(), []

    def function(x):
        if len(fit.points) >= 4:
            raise FloatingPointError("step 12: link 3 is not finite")
        return fit(x)

    with pytest.raises(NonFinite, match=r"step 12: link 3 is not finite.*best loss so far") as caught:
        optimize(function, START, BOUNDS, make(), iterations=200, save=states.append)
    assert caught.value.result.loss == states[-1]["best_loss"] and caught.value.result.stopped_because == "non_finite"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: (np.nan, x), "the loss is nan at the start"),
        (lambda x: (1.0, np.array([np.inf, 1.0])), "the gradient is .*inf.* at the start"),
    ],
)
def test_non_finite_start(function, words):
    with pytest.raises(NonFinite, match=words):
        optimize(function, START, BOUNDS)


def test_objectives():
    assert make_objective("plain", -4.0)(2.0, np.ones(1)) == (0.5, np.array([0.25]))
    log = make_objective("log", 100.0)
    eps = 1e-6
    for loss in (0.0, 1e-3, 1.0, 50.0):
        slope = (log(loss + 2 * eps, np.ones(1))[0] - log(loss, np.ones(1))[0]) / (2 * eps)
        assert log(loss + eps, np.array([3.0]))[1][0] == pytest.approx(3.0 * slope, rel=1e-6)
    assert np.isnan(log(np.nan, np.ones(1))[0])
    with pytest.raises(ObjectiveError, match="the loss is -1 and has no logarithm: use `optimize: {objective: plain}`"):
        log(-1.0, np.ones(1))
    with pytest.raises(ObjectiveError, match="use `optimize: {objective: plain}`"):
        make_objective("log", -1.0)
    with pytest.raises(ValueError, match="did you mean 'log'"):
        make_objective("logg", 1.0)
