"""Gauss-Newton with damping: answers in few steps, bounds, objectives that are not the sum of squares itself,
break-downs."""

import numpy as np
import pytest

from sim.core.optim import LBFGS, GaussNewton
from sim.core.optim.minimizer import projected_gradient_norm


class Squares:
    """Residuals r(x), J(x), seen through an increasing function of their sum of squares; counts."""

    def __init__(self, residuals, outer=lambda s: (s, 1.0)):
        self.residuals, self.outer, self.points, self.models = residuals, outer, [], 0

    def __call__(self, x):
        self.points.append(x.copy())
        r, j = self.residuals(x)
        value, slope = self.outer(float(r @ r))
        return value, slope * 2.0 * j.T @ r

    def model(self, x):
        self.models += 1
        r, j = self.residuals(x)
        return j.T @ j, -j.T @ r


def rosenbrock(x):
    r = np.array([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])
    return r, np.array([[-20.0 * x[0], 10.0], [-1.0, 0.0]])


def decays(x):
    """Two exponentials seen at 40 times, with residuals that do not vanish."""
    t = np.linspace(0, 3, 40)
    y = 1.3 * np.exp(-0.7 * t) + 0.4 * np.exp(-3.0 * t) + 0.02 * np.cos(9 * t)
    a, k, b, m = x
    r = a * np.exp(-k * t) + b * np.exp(-m * t) - y
    return r, np.stack([np.exp(-k * t), -a * t * np.exp(-k * t), np.exp(-m * t), -b * t * np.exp(-m * t)], axis=1)


def minimise(function, start, bounds=None, steps=60, tolerance=1e-9, **options):
    method = GaussNewton(function.model, **options)
    method.begin(function, np.array(start, float), bounds)
    for _ in range(steps):
        before = method.value
        if method.stationarity() <= tolerance or method.step(function).stopped:
            break
        assert method.value <= before + 1e-12
    return method


def test_linear_residuals_need_a_few_steps():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 6)), rng.normal(size=20)
    function = Squares(lambda x: (a @ x - b, a))
    method = minimise(function, np.zeros(6), tolerance=1e-10)
    np.testing.assert_allclose(method.x, np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-9)
    assert len(function.points) <= 6


@pytest.mark.parametrize(
    "outer",
    [lambda s: (s, 1.0), lambda s: (np.log(s + 0.1), 1 / (s + 0.1)), lambda s: (1e6 * s, 1e6)],
    ids=["plain", "log", "scaled"],
)
def test_rosenbrock_through_other_objectives(outer):
    function = Squares(rosenbrock, outer)
    method = minimise(function, [-1.2, 1.0])
    np.testing.assert_allclose(method.x, [1, 1], atol=1e-6)
    assert len(function.points) < 40


def test_residuals_that_stay():
    function, other = Squares(decays), Squares(decays)
    start = [1.0, 1.0, 0.3, 2.0]
    method = minimise(function, start, tolerance=1e-8)
    reference = LBFGS().minimize(other, start, iterations=500, gradient_tolerance=1e-8)
    assert method.value == pytest.approx(reference.value, rel=1e-9)
    assert len(function.points) < 0.5 * len(other.points)


@pytest.mark.parametrize("seed", range(12))
def test_bounded_linear_problem_against_the_conditions_of_an_optimum(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(12, 5)), 3 * rng.normal(size=12)
    function = Squares(lambda x: (a @ x - b, a))
    bounds = (np.full(5, -0.3), np.full(5, 0.4))
    method = minimise(function, rng.uniform(-0.3, 0.4, 5), bounds, tolerance=1e-9)
    assert projected_gradient_norm(method.x, method.gradient, *bounds) < 1e-5
    assert all((x >= bounds[0]).all() and (x <= bounds[1]).all() for x in function.points)


def test_starts_on_a_bound_and_leaves_it():
    method = minimise(Squares(rosenbrock), [-1.0, 1.0], ([-1.0, -5.0], [5.0, 1.0]))
    np.testing.assert_allclose(method.x, [1, 1], atol=1e-6)


def test_max_step():
    function = Squares(rosenbrock)
    minimise(function, [-1.2, 1.0], max_step=0.1, steps=200)
    lengths = np.abs(np.diff(function.points, axis=0)).max(axis=1)
    assert lengths[0] <= 0.1 + 1e-12 and np.all(
        lengths[1:] <= 2 * lengths.cumsum()[:-1] + 1e-12
    )  # it grows with what it has gone
    np.testing.assert_allclose(function.points[-1], [1, 1], atol=1e-6)


def test_a_scale_that_is_off_by_thousands_costs_a_few_steps():
    """With steps of a fixed length the way would take 5000 of them."""
    function = Squares(lambda x: (np.array([x[0] - 50.0]), np.ones((1, 1))))
    method = minimise(function, [0.0], max_step=0.01)
    assert method.x[0] == pytest.approx(50.0, abs=1e-6) and len(function.points) < 25


def test_singular_curvature():
    """Only the sum matters: any point of the line is an answer, and none of the components runs away."""
    function = Squares(lambda x: (np.array([x.sum() - 2.0]), np.ones((1, 3))))
    method = minimise(function, [0.0, 0.0, 0.0])
    assert method.x.sum() == pytest.approx(2, abs=1e-8) and np.abs(method.x).max() < 2
    flat = Squares(lambda x: (np.array([x[0] - 2.0]), np.array([[1.0, 0.0]])))
    method = minimise(flat, [0.0, 7.0])
    np.testing.assert_allclose(method.x, [2, 7], atol=1e-8)


def test_backs_off_from_regions_without_values():
    def broken(x):
        if x[0] > 1.5:
            raise FloatingPointError("beyond")
        return rosenbrock(x)

    function = Squares(broken)
    method = minimise(function, [-1.2, 1.0], damping=1e-9)
    np.testing.assert_allclose(method.x, [1, 1], atol=1e-6)


def test_gives_up_where_all_around_is_broken():
    start = np.array([0.3, 0.4])

    def only_here(x):
        r, j = rosenbrock(x)
        return (r, j) if (x == start).all() else (np.full(2, np.nan), j)

    function = Squares(only_here)
    method = GaussNewton(function.model)
    method.begin(function, start)
    assert method.step(function).stopped == "non_finite" and (method.x == start).all()

    def no_model(x):
        raise FloatingPointError("no")

    method = GaussNewton(no_model)
    method.begin(function, start)
    assert method.step(function).stopped == "non_finite"


def test_wrong_direction_of_the_model_ends_as_line_search():
    function = Squares(rosenbrock)
    method = GaussNewton(lambda x: (np.eye(2), rosenbrock(x)[0]))
    method.begin(lambda x: (function(x)[0], -function(x)[1]), np.array([0.3, 0.4]))  # uphill
    assert method.step(lambda x: (function(x)[0], -function(x)[1])).stopped == "line_search"


def test_wrong_arguments():
    with pytest.raises(ValueError, match="both must be positive"):
        GaussNewton(lambda x: (x, x), damping=0)


def test_ends_where_it_only_creeps():
    """Along a valley that the residuals hardly tell: three steps that gain next to nothing, and it is over."""
    function = Squares(lambda x: (np.array([x[0] * x[1] - 1.0, 1e-3 * np.cos(3 * x[1]), 1.0]),
                                  np.array([[x[1], x[0]], [0.0, -3e-3 * np.sin(3 * x[1])], [0.0, 0.0]])))  # fmt: skip
    method = GaussNewton(function.model, max_step=0.02, noise=1e-7)
    method.begin(function, np.array([2.0, 0.8]), None)
    taken = []
    while not (step := method.step(function)).stopped:
        taken.append(step.length)
        assert len(taken) < 100
    assert step == type(step)(0.0, 0, "line_search") and taken[-1] > 0.0
    again = GaussNewton(function.model, max_step=0.02, noise=1e-7)
    again.load_state_dict(method.state_dict())
    assert again.step(function).stopped == "line_search"


def test_a_step_that_fails_at_its_longest_is_followed_by_one_of_half_its_length():
    """Where residuals hardly tell x1, hardly any damping holds it: the longest step stays as long for many trials."""

    def residuals(x):
        return np.array([x[0] - 1.0, 1e-3 * x[1] + 30.0 * max(x[1] - 0.2, 0.0) ** 2 - 1e-2])

    def slopes(x):
        return np.array([[1.0, 0.0], [0.0, 1e-3 + 60.0 * max(x[1] - 0.2, 0.0)]])

    function = Squares(lambda x: (residuals(x), slopes(x)))
    tried = []

    def watched(x):
        tried.append(x.copy())
        return function(x)

    method = GaussNewton(function.model, max_step=4.0)
    method.begin(watched, np.array([0.9, 0.0]), None)
    assert method.step(watched).stopped is None
    lengths = [np.max(np.abs(x - tried[0])) for x in tried[1:]]
    assert len(lengths) > 2 and np.isclose(lengths[0], 4.0)
    assert lengths[1] <= 2.0 and len(lengths) <= 8 and method.value < function(tried[0])[0]
