"""What residuals look like over time, how many count, and which of two models they prefer."""

import math

import numpy as np
import pytest

from sim.identify.assess.criteria import criteria, fit_of
from sim.identify.assess.whiteness import integrated_time, whiteness
from sim.identify.losses.residuals import Residuals

FPS = 50.0


def residuals(values):
    count, markers = values.shape[:2]
    weight, none = np.full((count, markers), 1.0 / (count * markers)), np.full((count, markers), -1)
    return Residuals("match", "take", values, weight, np.arange(count), none, "tips", 1e-3)


def noise(frames, markers, seed):
    return np.random.default_rng(seed).normal(size=(frames, markers, 3))


def test_noise_is_white_nearly_always():
    found = [whiteness(residuals(noise(120, 4, seed)), FPS) for seed in range(60)]
    assert sum(w.verdict == "like noise" for w in found) >= 56
    assert np.mean([w.effective / w.numbers for w in found]) > 0.85


@pytest.mark.parametrize("memory", [0.5, 0.9])
def test_effective_numbers_of_an_autoregression(memory):
    """x_k = a x_{k-1} + noise has an integrated time of (1 + a) / (1 - a)."""
    e = noise(4000, 3, 5)
    x = np.zeros_like(e)
    for k in range(1, len(e)):
        x[k] = memory * x[k - 1] + e[k]
    w = whiteness(residuals(x), FPS)
    assert abs(w.next_frame - memory) < 0.03
    assert abs(w.frames / ((1 + memory) / (1 - memory)) - 1) < 0.15
    assert w.verdict.endswith("of no one frequency") and w.effective == w.numbers / w.frames


def test_what_is_left_is_named():
    t = np.arange(200)[:, None, None] / FPS
    quiet = 0.3 * noise(200, 2, 7)
    ring = whiteness(residuals(quiet + 2 * np.sin(2 * math.pi * 7.5 * t)), FPS)
    assert "they vibrate at 7.5 Hz" in ring.verdict and ring.share > 0.8
    drift = whiteness(residuals(quiet + (t - 2.0)), FPS)
    assert "they drift" in drift.verdict
    shifted = whiteness(residuals(quiet + 1.0), FPS)
    assert "something is displaced" in shifted.verdict
    steps = whiteness(residuals(np.diff(noise(201, 2, 9), axis=0)), FPS)
    assert "they alternate" in steps.verdict and steps.frames == 1.0


def test_what_was_not_seen_does_not_count():
    values = noise(100, 2, 3)
    part = residuals(values)
    part.weight[40:60] = 0.0
    assert whiteness(part, FPS).numbers == 3 * 2 * 80
    assert whiteness(residuals(noise(3, 2, 1)), FPS) is None
    assert whiteness(residuals(np.zeros((50, 2, 3))), FPS) is None


def test_integrated_time_of_noise_is_one():
    assert integrated_time(np.array([1.0, -0.2, 0.1, 0.0])) == 1.0


NOISE = {"typical": 1e-3}


def result(square, sought, frames=2.0, numbers=400, name="take"):
    over_time = {"numbers": numbers, "effective": numbers / frames}
    left = {"tips": {"in_noise": math.sqrt(square), "numbers": numbers, "over_time": over_time, "noise": NOISE}}
    return {
        "parameters": {f"p{k}": {"final": 1.0} for k in range(sought)},
        "experiments": {name: {"use": "fit", "residuals": left}, "other": {"use": "predict", "residuals": left}},
    }


def test_criteria_are_those_of_the_papers():
    simple, rich = fit_of(result(1.2, 2)), fit_of(result(1.0, 4))
    a, b = criteria([simple, rich])
    n = 200.0
    expected = [n * math.log(s) + 2 * k + 2 * k * (k + 1) / (n - k - 1) for s, k in ((1.2, 3), (1.0, 5))]
    assert b["aicc"] == 0.0 and math.isclose(a["aicc"], expected[0] - expected[1], rel_tol=1e-12)
    bic = [n * math.log(s) + k * math.log(n) for s, k in ((1.2, 3), (1.0, 5))]
    assert math.isclose(a["bic"] - b["bic"], bic[0] - bic[1], rel_tol=1e-12)


def test_a_parameter_that_gains_nothing_is_not_worth_it():
    simple, rich = criteria([fit_of(result(1.0, 2)), fit_of(result(0.9999, 3))])
    assert simple["aicc"] == 0.0 and 1.5 < rich["aicc"] < 2.2


def test_fits_to_other_observations_are_not_compared():
    assert criteria([fit_of(result(1.0, 2)), fit_of(result(1.0, 2, numbers=300))])[0]["aicc"] is None
    assert criteria([fit_of(result(1.0, 2)), fit_of(result(1.0, 2, name="b"))])[1]["bic"] is None
    assert fit_of({"parameters": {}, "experiments": {"take": {"use": "fit"}}}) is None
