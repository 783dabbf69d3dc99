"""Transforms: there and back, chain rule, bounds, shapes, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from sim.identify.parameters.transforms import LogitTransform, LogTransform, ParameterSpace, Transform, make_transform

CASES = [
    ("none", 0.3, (None, None), None),
    ("none", -2e5, (-1e6, 3e5), None),
    ("none", np.array([0.1, -0.2, 0.4]), (-1.0, np.array([1.0, 2.0, 3.0])), 0.5),
    ("log", 0.3, (1e-4, 10.0), None),
    ("log", 1e5, (None, None), 2.0),
    ("log", np.array([[1e-3, 2.0], [30.0, 4e4]]), (None, 1e6), None),
    ("logit", 0.45, (0.0, 0.5), None),
    ("logit", np.array([1e-3, 29.0]), (0.0, 30.0), 3.0),
]


@pytest.mark.parametrize(("kind", "start", "bounds", "scale"), CASES)
def test_there_and_back(kind, start, bounds, scale):
    transform = make_transform(kind, start, bounds, scale)
    assert np.allclose(transform.to_physical(transform.to_coordinates(start)), start, rtol=1e-13)


@pytest.mark.parametrize(("kind", "start", "bounds", "scale"), CASES)
def test_gradients_follow_the_chain_rule(kind, start, bounds, scale):
    transform = make_transform(kind, start, bounds, scale)
    u, eps = transform.to_coordinates(start), 1e-6

    def loss(p):
        return np.sin(p / np.max(np.abs(start)))

    slope = np.cos(np.asarray(start) / np.max(np.abs(start))) / np.max(np.abs(start))
    differences = (loss(transform.to_physical(u + eps)) - loss(transform.to_physical(u - eps))) / (2 * eps)
    assert np.allclose(transform.pull_back(u, slope), differences, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("kind", "start", "bounds", "scale"), CASES)
def test_no_coordinate_leaves_the_bounds(kind, start, bounds, scale):
    transform = make_transform(kind, start, bounds, scale)
    low, high = transform.coordinate_bounds()
    rng = np.random.default_rng(0)
    for _ in range(50):
        u = np.clip(rng.normal(scale=20, size=np.shape(start)), low, high)
        p = transform.to_physical(u)
        assert np.all(p >= transform.lower) and np.all(p <= transform.upper)
    if np.all(np.isfinite(low)):
        assert np.allclose(transform.to_physical(low), transform.lower, rtol=1e-13)


def test_known_values():
    assert make_transform("log", 1.0).to_coordinates(np.e**2) == pytest.approx(2.0)
    assert make_transform("log", 1.0, scale=2.0).to_coordinates(np.e**2) == pytest.approx(1.0)
    assert make_transform("logit", 1.0, (0.0, 4.0)).to_coordinates(3.0) == pytest.approx(np.log(3.0))
    assert make_transform("none", 1e5).to_coordinates(2e5) == pytest.approx(2.0)  # scaled by the start
    assert make_transform("none", 0.0, (-3.0, 5.0)).to_coordinates(4.0) == pytest.approx(0.5)  # by the range
    assert make_transform("none", 0.0).to_coordinates(4.0) == pytest.approx(4.0)


def test_logit_is_stable_far_out():
    transform = LogitTransform(0.0, 1.0)
    p = transform.to_physical(np.array([-800.0, 800.0]))
    assert np.array_equal(p, [0.0, 1.0])
    assert np.array_equal(transform.pull_back(np.array([-800.0, 800.0]), np.ones(2)), [0.0, 0.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: make_transform("logg", 1.0), "did you mean 'log'"),
        (lambda: make_transform("square", 1.0), "none, log, logit"),
        (lambda: make_transform("log", 1.0, (0.0, 2.0)), "needs positive bounds"),
        (lambda: make_transform("log", 1.0, (-1.0, None)), "needs positive bounds"),
        (lambda: make_transform("logit", 1.0, (0.0, None)), "needs both bounds"),
        (lambda: make_transform("none", 1.0, (2.0, 2.0)), "must be below"),
        (lambda: make_transform("none", 1.0, scale=0.0), "scale 0: it must be positive"),
        (lambda: LogTransform(1.0, 2.0).check(3.0, "bend"), r"bend = 3 is outside its bounds \[1, 2\]"),
        (lambda: LogTransform().check(-3.0, "bend"), "bend = -3: transform log needs a positive start"),
        (lambda: LogitTransform(0.0, 0.5).check(0.5, "poisson"), "is on one of its bounds"),
        (lambda: Transform().check(np.nan, "x"), "must be finite"),
    ],
)
def test_refusals(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def space():
    return ParameterSpace(
        {"young": LogTransform(1e4, 1e7), "velocity": Transform(scale=0.5), "poisson": LogitTransform(0.0, 0.5)},
        {"young": 1e5, "velocity": np.array([1.0, -2.0, 0.0]), "poisson": 0.3},
    )


def test_space_packs_named_parameters():
    s = space()
    assert s.size == 5 and s.start.shape == (5,)
    assert s.start[0] == pytest.approx(np.log(1e5)) and np.allclose(s.start[1:4], [2.0, -4.0, 0.0])
    values = s.unpack(s.start)
    assert values["young"].shape == () and values["velocity"].shape == (3,)
    assert np.allclose(values["velocity"], [1.0, -2.0, 0.0]) and values["poisson"] == pytest.approx(0.3)
    lower, upper = s.bounds()
    assert np.allclose(lower[0], np.log(1e4)) and np.allclose(upper[0], np.log(1e7))
    assert np.all(np.isinf(lower[1:])) and np.all(np.isinf(upper[1:]))


def test_space_pulls_gradients_back():
    s = space()

    def loss(v):
        return float(np.log(v["young"]) ** 2 + np.sum(v["velocity"] ** 3) + v["poisson"] ** 2)

    v = s.unpack(s.start)
    gradient = s.pull_back(
        s.start,
        {"young": 2 * np.log(v["young"]) / v["young"], "velocity": 3 * v["velocity"] ** 2, "poisson": 2 * v["poisson"]},
    )
    differences = [(loss(s.unpack(s.start + 1e-6 * e)) - loss(s.unpack(s.start - 1e-6 * e))) / 2e-6 for e in np.eye(5)]
    assert np.allclose(gradient, differences, rtol=1e-7, atol=1e-8)
    with pytest.raises(ValueError, match=r"gradient of velocity has shape \(\)"):
        s.pull_back(s.start, {"young": 1.0, "velocity": 1.0, "poisson": 1.0})


def test_a_start_on_its_bound_is_inside_the_coordinate_bounds():
    for value in (1e-4, 0.1, 7.3, 1e5):
        s = ParameterSpace({"c": LogTransform(value, 1e6)}, {"c": value})
        lower, upper = s.bounds()
        assert np.all(s.start >= lower) and np.all(s.start <= upper)


def test_random_starts():
    s = ParameterSpace(
        {"c": LogTransform(1e-4, 1e4), "nu": LogitTransform(0.0, 0.5)}, {"c": np.array([1.0, 2.0]), "nu": 0.3}
    )
    starts = s.starts(400, seed=7)
    assert np.array_equal(starts[0], s.start) and len(starts) == 400
    assert all(np.array_equal(a, b) for a, b in zip(starts, s.starts(400, seed=7), strict=True))
    c = np.array([s.unpack(x)["c"] for x in starts[1:]])
    assert 0.4 < np.mean(c < 1.0) < 0.6  # log-uniform: half of them below the geometric middle
    nu = np.array([s.unpack(x)["nu"] for x in starts[1:]])
    assert 0.4 < np.mean(nu < 0.25) < 0.6 and nu.min() > 0 and nu.max() < 0.5
    with pytest.raises(ValueError, match="need both bounds"):
        ParameterSpace({"c": LogTransform()}, {"c": 1.0}).starts(2)
