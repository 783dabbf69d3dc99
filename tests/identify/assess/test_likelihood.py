"""Profile likelihoods: of linear residuals they are the standard errors; what is flat, open or bounded is told."""

import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sim.core.lang.types import float64
from sim.identify.assess.likelihood import profile_likelihood
from sim.identify.assess.uncertainty import assess
from sim.identify.losses.jacobian import linearise
from sim.identify.losses.residuals import Residuals
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import ParameterSpace, make_transform

NOISE = 0.1


class Fitted:
    """A problem without a simulation: residuals are a function of the values of parameters."""

    def __init__(self, function, starts, transforms=None, bounds=None):
        self.function, names = function, list(starts)
        self.sought = [
            Parameter(
                name, np.asarray(start, float), (),
                make_transform((transforms or {}).get(name, "none"), np.asarray(start, float),
                               (bounds or {}).get(name, (None, None)), None),
            )
            for name, start in starts.items()
        ]  # fmt: skip
        self.space = ParameterSpace({p.name: p.transform for p in self.sought}, {p.name: p.start for p in self.sought})
        self.model = SimpleNamespace(dtype=float64)
        self.experiments = self.fitted = [SimpleNamespace(name="take")]
        self.names = names

    @property
    def bounds(self):
        return self.space.bounds()

    def remembering(self):
        return nullcontext()

    def reaches(self, i, experiment):
        return True

    def simulate(self, x, experiments=None):
        return {"take": self.function({k: float(v) for k, v in self.space.unpack(np.asarray(x)).items()})}

    def residuals(self, x, simulations):
        values = simulations["take"].reshape(-1, 1, 1) / NOISE
        count = len(values)
        weight, none = np.full((count, 1), 1.0 / count), np.full((count, 1), -1)
        return [Residuals("match", "take", values, weight, np.arange(count), none, "tips", NOISE)]


def known(problem, x):
    return assess(problem, linearise(problem, x))


def minimum(problem):
    x = problem.space.start
    for _ in range(50):
        there = linearise(problem, x)
        x = np.clip(x + np.linalg.pinv(there.matrix) @ there.descent, *problem.bounds)
    return x


def test_of_linear_residuals_it_is_the_standard_error():
    rng = np.random.default_rng(11)
    J, noise = rng.normal(size=(200, 3)), NOISE * rng.normal(size=200)
    problem = Fitted(lambda p: J @ [p["a"] - 1.0, p["b"] + 2.0, p["c"]] + noise, {"a": 0.9, "b": -1.5, "c": 0.1})
    x = minimum(problem)
    errors = known(problem, x)
    found = profile_likelihood(problem, x, errors)
    assert list(found) == ["a", "b", "c"]
    for name, p in found.items():
        assert p.verdict == "closed"
        value, reach = float(problem.space.unpack(x)[name]), math.sqrt(3.8415) * float(errors.errors[name])
        np.testing.assert_allclose(p.interval, (value - reach, value + reach), rtol=0.01 * reach / abs(value))
        np.testing.assert_allclose(p.wald, (value - reach, value + reach), rtol=1e-6)
        expected = ((p.values - value) / float(errors.errors[name])) ** 2
        np.testing.assert_allclose(p.deviances, expected, atol=0.01 * p.quantile)


def test_errors_by_a_wider_stretch_are_not_counted_twice():
    """A profile goes there itself: how far it gets does not depend on what the standard errors were held against."""
    J, noise = np.random.default_rng(11).normal(size=(200, 2)), NOISE * np.random.default_rng(12).normal(size=200)
    problem = Fitted(lambda p: J @ [p["a"], p["b"]] + noise, {"a": 0.9, "b": -1.5})
    x = minimum(problem)
    errors = known(problem, x)
    wider = replace(errors, deviations=3.0 * errors.deviations, widened=3.0 * errors.widened)
    found, again = (profile_likelihood(problem, x, each, ["a"])["a"] for each in (errors, wider))
    np.testing.assert_allclose(again.interval, found.interval, rtol=1e-3)
    np.testing.assert_allclose(np.ptp(again.wald), 3.0 * np.ptp(found.wald), rtol=1e-9)


def test_a_level_is_chosen_and_a_name():
    J = np.random.default_rng(12).normal(size=(100, 2))
    problem = Fitted(lambda p: J @ [p["a"], p["b"]], {"a": 0.3, "b": 0.2})
    x = minimum(problem)
    narrow, wide = (profile_likelihood(problem, x, known(problem, x), ["a"], level)["a"] for level in (0.68, 0.99))
    ratio = np.ptp(wide.interval) / np.ptp(narrow.interval)
    assert abs(ratio - math.sqrt(6.6349 / 0.9889)) < 0.02 * ratio
    with pytest.raises(ValueError, match="level=0.5; expected one of"):
        profile_likelihood(problem, x, known(problem, x), level=0.5)
    with pytest.raises(ValueError, match="no parameter is called 'd'"):
        profile_likelihood(problem, x, known(problem, x), ["d"])


def test_what_only_a_product_tells_is_flat():
    t = np.linspace(0.1, 1.0, 60)
    noise = NOISE * np.random.default_rng(13).normal(size=60)
    problem = Fitted(lambda p: p["a"] * p["b"] * t - 2.0 * t + noise, {"a": 1.0, "b": 2.0}, {"a": "log", "b": "log"})
    x = minimum(problem)
    found = profile_likelihood(problem, x, known(problem, x))
    assert {p.verdict for p in found.values()} == {"flat"}
    assert found["a"].interval == (0.0, math.inf)


def test_a_rate_that_is_too_fast_to_see_is_open_above():
    """exp(-k t) is 0 at all samples but the first, for any large k."""
    t = np.linspace(0.0, 10.0, 60)
    noise = NOISE * np.random.default_rng(14).normal(size=60)
    problem = Fitted(lambda p: np.exp(-p["k"] * t) - np.exp(-40.0 * t) + noise, {"k": 3.0}, {"k": "log"})
    x = problem.space.pack({"k": np.array(3.0)})
    for _ in range(30):
        there = linearise(problem, x)
        x = x + np.clip(there.descent / max(float(there.matrix[0, 0]), 1e-6), -0.3, 0.3)
        x = np.minimum(x, problem.space.pack({"k": np.array(20.0)}))
    p = profile_likelihood(problem, x, known(problem, x))["k"]
    assert p.verdict == "open above" and math.isinf(p.interval[1]) and 0.5 < p.interval[0] < 20.0
    assert math.isfinite(p.wald[0])


def test_a_bound_that_ends_an_interval_is_said_to():
    J = np.random.default_rng(15).normal(size=(100, 1))
    noise = NOISE * np.random.default_rng(16).normal(size=100)
    problem = Fitted(lambda p: J[:, 0] * (p["a"] - 0.01) + noise, {"a": 0.5}, bounds={"a": (0.0, 1.0)})
    x = minimum(problem)
    p = profile_likelihood(problem, x, known(problem, x))["a"]
    assert p.verdict == "bounded below" and p.interval[0] == 0.0 and 0.01 < p.interval[1] < 0.1


def test_it_is_not_centred_where_the_loss_is_no_parabola():
    t = np.linspace(0.0, 1.0, 40)
    noise = NOISE * np.random.default_rng(17).normal(size=40)
    problem = Fitted(lambda p: p["a"] * (1 - np.exp(-p["k"] * t)) - (1 - np.exp(-t)) + noise, {"a": 1.0, "k": 1.0},
                     {"a": "log", "k": "log"})  # fmt: skip
    x = minimum(problem)
    p = profile_likelihood(problem, x, known(problem, x))["k"]
    value = float(problem.space.unpack(x)["k"])
    assert p.interval[0] < value < p.interval[1]
    # The others were at their best everywhere: no scan over a finds less.
    for u, deviance, coordinates in zip(p.values, p.deviances, p.coordinates, strict=True):
        best = min(
            sum(r.loss for r in problem.residuals(y, problem.simulate(y)))
            for y in ([a, problem.space.pack({"a": np.array(1.0), "k": np.array(u)})[1]]
                      for a in coordinates[0] + np.linspace(-0.3, 0.3, 61))
        )  # fmt: skip
        here = sum(r.loss for r in problem.residuals(coordinates, problem.simulate(coordinates)))
        assert here <= best * (1 + 1e-6) and deviance >= 0.0
