"""L-BFGS: exact answers, bounds, few evaluations, noise, breakdowns, and resuming to the bit."""

from __future__ import annotations

import io

import numpy as np
import pytest

from sim.core.optim import LBFGS
from sim.core.optim.line_search import CURVATURE, DECREASE, Trial, wolfe_search


class Counted:
    """A function that counts its evaluations and remembers where they were."""

    def __init__(self, function):
        self.function = function
        self.points = []

    def __call__(self, x):
        self.points.append(x.copy())
        return self.function(x)


def rosenbrock(x):
    a, b = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = np.zeros_like(x)
    gradient[:-1] = -400 * x[:-1] * a - 2 * b
    gradient[1:] += 200 * a
    return float(np.sum(100 * a**2 + b**2)), gradient


def quadratic(n, condition, seed=0):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    matrix = q @ np.diag(np.logspace(0, np.log10(condition), n)) @ q.T
    center = 3 * rng.normal(size=n)
    return (lambda x: (0.5 * float((x - center) @ matrix @ (x - center)), matrix @ (x - center))), matrix, center


def box_minimum(matrix, center, lower, upper):
    """The bounded minimum of a quadratic by exact coordinate minimisation: slow, simple, independent."""
    x = np.clip(center, lower, upper)
    for _ in range(20000):
        before = x.copy()
        for i in range(x.size):
            rest = matrix[i] @ (x - center) - matrix[i, i] * (x[i] - center[i])
            x[i] = np.clip(center[i] - rest / matrix[i, i], lower, upper)
        if np.max(np.abs(x - before)) < 1e-14:
            break
    return x


@pytest.mark.parametrize(("n", "most"), [(2, 60), (10, 110)])
def test_rosenbrock(n, most):
    start = np.where(np.arange(n) % 2 == 0, -1.2, 1.0)
    function = Counted(rosenbrock)
    result = LBFGS().minimize(function, start, iterations=500, gradient_tolerance=1e-8)
    assert result.stopped_because == "gradient"
    assert np.allclose(result.x, 1.0, atol=1e-7)
    assert result.evaluations == len(function.points) <= most


def test_the_start_is_left_alone_and_first_step_is_limited():
    start = np.array([-1.2, 1.0])
    function = Counted(rosenbrock)
    LBFGS(first_step=0.5).minimize(function, start, iterations=3)
    assert np.array_equal(start, [-1.2, 1.0])
    assert np.max(np.abs(function.points[1] - start)) == pytest.approx(0.5)


def test_max_step_limits_every_accepted_step():
    lengths, points = [], [np.array([40.0, -30.0])]

    def callback(search):
        lengths.append(np.max(np.abs(search.x - points[-1])))
        points.append(search.x)

    function, _, center = quadratic(2, 10)
    result = LBFGS(max_step=2.0).minimize(function, points[0], callback=callback)
    assert np.allclose(result.x, center, atol=1e-7)
    assert max(lengths) <= 2.0 + 1e-12 and len(lengths) > 15


@pytest.mark.parametrize("seed", range(5))
def test_quadratic_with_bounds(seed):
    function, matrix, center = quadratic(12, 300, seed)
    result = LBFGS().minimize(function, np.zeros(12), (-1.0, 1.5), iterations=400, gradient_tolerance=1e-9)
    expected = box_minimum(matrix, center, -1.0, 1.5)
    on_bound = (expected == -1.0) | (expected == 1.5)
    assert 0 < on_bound.sum() < 12
    assert np.allclose(result.x, expected, atol=1e-7)
    assert np.array_equal(result.x[on_bound], expected[on_bound])  # on the bound, not near it
    assert result.evaluations < 60


def test_never_evaluates_outside_the_bounds():
    lower, upper = np.array([-1.5, -0.5]), np.array([0.7, 2.0])
    function = Counted(rosenbrock)
    result = LBFGS().minimize(function, [-1.2, 1.0], (lower, upper), iterations=200)
    assert all((p >= lower).all() and (p <= upper).all() for p in function.points)
    assert result.x[0] == 0.7 and result.x[1] == pytest.approx(0.49, abs=1e-8)


def test_starts_on_a_bound_and_leaves_it():
    function, _, center = quadratic(3, 10)
    lower = center - np.array([1.0, 2.0, 0.0])
    result = LBFGS().minimize(function, lower, (lower, None))
    assert np.allclose(result.x, center, atol=1e-7)


def test_stationary_start_costs_one_evaluation():
    function = Counted(quadratic(3, 10)[0])
    center = quadratic(3, 10)[2]
    result = LBFGS().minimize(function, center)
    assert (result.stopped_because, result.iterations) == ("gradient", 0)
    assert result.evaluations == len(function.points) == 1


def test_ill_conditioned():
    function, _, center = quadratic(6, 1e6)
    result = LBFGS().minimize(function, np.zeros(6), iterations=300, gradient_tolerance=1e-7)
    assert result.stopped_because == "gradient"
    assert np.allclose(result.x, center, atol=1e-6) and result.evaluations < 150


def test_badly_scaled_gradient_is_no_wall():
    """Few evaluations whatever the unit of the loss."""
    function, _, center = quadratic(2, 4)
    for factor, most in ((1e8, 15), (1.0, 12), (1e-3, 25)):
        result = LBFGS().minimize(
            lambda x, k=factor: tuple(k * part for part in function(x)), np.zeros(2), gradient_tolerance=1e-9 * factor
        )
        assert np.allclose(result.x, center, atol=1e-6), factor
        assert result.evaluations <= most, (factor, result.evaluations)


def test_value_never_rises():
    values = []
    LBFGS().minimize(rosenbrock, np.full(6, -1.0), callback=lambda search: values.append(search.value))
    assert len(values) > 10 and all(b <= a for a, b in zip(values, values[1:], strict=False))


def test_noise_floor_stops_the_search_and_costs_little():
    """Noise of 1e-6, as a single-precision rollout has it: near the floor it says so and stops."""
    rng = np.random.default_rng(0)
    function, _, center = quadratic(3, 30)

    def noisy(x):
        value, gradient = function(x)
        return 1 + value + 1e-6 * rng.uniform(-1, 1), gradient + 1e-4 * rng.uniform(-1, 1, 3)

    result = LBFGS(noise=1e-6).minimize(noisy, np.zeros(3), iterations=200, gradient_tolerance=0.0)
    assert result.stopped_because == "line_search"
    assert np.max(np.abs(result.x - center)) < 5e-3
    assert result.evaluations < 60


@pytest.mark.parametrize("how", ["nan value", "inf value", "nan gradient", "raises"])
def test_backs_off_from_regions_without_values(how):
    """A log barrier: nothing is defined for x <= 0, and the first steps go there."""
    broken = 0

    def function(x):
        nonlocal broken
        if np.any(x <= 0):
            broken += 1
            if how == "raises":
                raise FloatingPointError("step 3 blew up")
            value = {"nan value": np.nan, "inf value": np.inf, "nan gradient": -1e3}[how]
            return value, np.full(2, np.nan if how == "nan gradient" else 0.0)
        return float(np.sum(10 * x - np.log(x))), 10 - 1 / x

    result = LBFGS(first_step=3.0).minimize(function, [0.9, 2.0], iterations=100)
    assert np.allclose(result.x, 0.1, atol=1e-6)
    assert 0 < broken < result.evaluations < 40


def test_non_finite_everywhere_else():
    start = np.array([1.0, 2.0])
    result = LBFGS().minimize(lambda x: (1.0 if np.array_equal(x, start) else np.nan, np.ones(2)), start)
    assert result.stopped_because == "non_finite"
    assert np.array_equal(result.x, start) and result.evaluations < 30


def test_non_finite_start_raises():
    with pytest.raises(FloatingPointError, match="at the start"):
        LBFGS().minimize(lambda x: (np.nan, x), [1.0])


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r"x0\[1\] = 5.0 is outside its bounds \[0.0, 1.0\]"):
        LBFGS().minimize(rosenbrock, [0.5, 5.0], (0.0, 1.0))
    with pytest.raises(
        ValueError, match="not a list of pairs as in SciPy"
    ):  # of two numbers it would pass for (lower, upper)
        LBFGS().minimize(rosenbrock, [-1.2, 1.0], [(-2.0, 0.5), (-1.0, 3.0)])
    with pytest.raises(ValueError, match=r"bounds\[0\]: lower 2.0"):
        LBFGS().minimize(rosenbrock, [0.5, 5.0], (2.0, 1.0))
    with pytest.raises(ValueError, match="gradient of shape"):
        LBFGS().minimize(lambda x: (1.0, np.ones(3)), [1.0, 2.0])
    with pytest.raises(ValueError, match="memory"):
        LBFGS(memory=0)


def test_an_exception_in_a_step_changes_nothing():
    search = LBFGS()
    search.begin(rosenbrock, [-1.2, 1.0])
    for _ in range(5):
        search.step(rosenbrock)
    before = search.state_dict()

    def failing(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.step(failing)
    after = search.state_dict()
    assert all(np.array_equal(before[key], after[key]) for key in before)


@pytest.mark.parametrize("bounds", [None, (-1.0, 0.9)])
@pytest.mark.parametrize("pause", [0, 1, 10])
def test_resumed_run_is_the_same_to_the_bit(bounds, pause):
    start = np.random.default_rng(3).uniform(-0.9, 0.8, 7)
    whole = Counted(rosenbrock)
    search = LBFGS(memory=5)
    search.begin(whole, start, bounds)
    for _ in range(20):
        search.step(whole)

    parts = Counted(rosenbrock)
    first = LBFGS(memory=5)
    first.begin(parts, start, bounds)
    for _ in range(pause):
        first.step(parts)
    file = io.BytesIO()
    np.savez(file, **first.state_dict())
    file.seek(0)
    second = LBFGS(memory=5)
    with np.load(file, allow_pickle=False) as saved:
        second.load_state_dict(dict(saved))
    for _ in range(20 - pause):
        second.step(parts)
    assert [p.tobytes() for p in whole.points] == [p.tobytes() for p in parts.points]
    assert search.x.tobytes() == second.x.tobytes() and search.value == second.value


@pytest.mark.parametrize("first", [1e-3, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("shape", ["cos", "quartic", "kink"])
def test_line_search_meets_the_strong_wolfe_conditions(first, shape):
    functions = {
        "cos": (lambda a: -np.sin(a) + 0.05 * a**2, lambda a: -np.cos(a) + 0.1 * a),
        "quartic": (lambda a: (a - 2) ** 4 - a, lambda a: 4 * (a - 2) ** 3 - 1),
        "kink": (
            lambda a: np.sqrt((a - 1.3) ** 2 + 1e-4) - 0.1 * a,
            lambda a: (a - 1.3) / np.sqrt((a - 1.3) ** 2 + 1e-4) - 0.1,
        ),
    }
    value, slope = functions[shape]
    start = Trial(0.0, value(0.0), slope(0.0))
    found = wolfe_search(lambda a: Trial(a, value(a), slope(a)), start, first, np.inf, 1e-15, trials=40, refinements=40)
    assert found.trial.value <= start.value + DECREASE * found.trial.a * start.slope
    assert abs(found.trial.slope) <= CURVATURE * abs(start.slope)


def test_against_scipy():
    """The same answers as the reference implementation of the method, with at most half as many evaluations more."""
    optimize = pytest.importorskip("scipy.optimize")
    ours = theirs = 0
    rng = np.random.default_rng(0)
    for seed in range(12):
        n = int(rng.integers(1, 12))
        if seed % 2:
            n = 2 + seed % 2  # from four on, Rosenbrock's function has several minima
            function, start, bounds = rosenbrock, rng.uniform(-1, 0.8, n), (-1.0, 0.9)
        else:
            function, start, bounds = quadratic(n, 100, seed)[0], rng.uniform(-1, 1, n), (-1.0, 2.0)
        counted = Counted(function)
        reference = optimize.minimize(
            counted,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[bounds] * n,
            options={"maxiter": 1000, "gtol": 1e-6, "ftol": 0, "maxcor": 10},
        )
        result = LBFGS().minimize(function, start, bounds, iterations=1000, gradient_tolerance=1e-6)
        assert result.value == pytest.approx(reference.fun, rel=1e-9, abs=1e-9)
        assert np.allclose(result.x, reference.x, atol=1e-4)
        ours, theirs = ours + result.evaluations, theirs + len(counted.points)
    assert ours < 1.5 * theirs
