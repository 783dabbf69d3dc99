"""Noise that a fit finds with its parameters: the profiled likelihood, its gradient, and what is made of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from tools.scenes.problems import HANGING_ROPE

from sim.identify.assess.criteria import criteria, fit_of
from sim.identify.assess.folds import cross_validate
from sim.identify.assess.likelihood import least_loss
from sim.identify.assess.misfit import misfits, noise_notes
from sim.identify.losses.noise import LEAST, with_noise_found
from sim.identify.losses.residuals import Residuals
from sim.scene import load_scene
from sim.schema.errors import SceneError

ROPE = (
    """
format: 2
name: rope
world: {gravity: [0, -9.81, 0]}
time: {duration: 1.2, fps: 25, substeps: 20}
solver: {xpbd: {}}
"""
    + HANGING_ROPE
    + """experiments:
  a: {target: &take {file: takes.npz, key: a, rate: 25 Hz, start: frame 0, noise: estimated,
                     markers: {upper: [0, 1], lower: [2, 3]}}}
  b: {target: {<<: *take, key: b}}
  c: {target: {<<: *take, key: c}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-5, 1]}
loss:
  - {match: upper}
  - {match: lower}
"""
)
TRUE = 0.03
SIGMAS = np.array([[0.5e-3], [0.5e-3], [4e-3], [4e-3]])


def made(folder, text=ROPE, sigmas=SIGMAS, compliances=(TRUE, TRUE, TRUE), seed=1):
    """The problem with recordings of ropes with these compliances and noise."""
    rng = np.random.default_rng(seed)
    path = folder / "scene.yaml"
    path.write_text(ROPE)
    np.savez(folder / "takes.npz", **{name: rng.normal(size=(31, 4, 3)) for name in "abc"})
    problem, takes = load_scene(path).build(), {}
    for name, compliance in zip("abc", compliances, strict=True):
        x = problem.space.pack({"compliance": np.array(compliance)})
        s = problem.simulate(x, problem.experiments[:1])["a"]
        sets = [problem.markers[m] for m in ("upper", "lower")]
        exact = np.concatenate([np.concatenate([m.at(s.start)[None], m.at(s.positions)]) for m in sets], axis=1)
        takes[name] = exact + sigmas * rng.normal(size=exact.shape)
    np.savez(folder / "takes.npz", **takes)
    path.write_text(text)
    return load_scene(path).build()


def residuals(values, huber=math.inf):
    shape = values.shape[:2]
    weight = np.full(shape, 1.0 / values.size)
    return Residuals("t", "e", values, weight, np.arange(shape[0]), np.full(shape, -1), "m", 1.0, huber)


@pytest.mark.parametrize("huber", [math.inf, 1.5])
def test_what_is_found_is_the_least_of_the_likelihood(huber):
    r = residuals(np.random.default_rng(0).standard_t(4, size=(40, 3, 3)), huber)
    inside = math.erf(huber / math.sqrt(2))

    def cost(log_sigma):
        return replace(r, values=r.values / math.exp(log_sigma)).loss + 2 * inside * log_sigma

    least = minimize_scalar(cost, bounds=(-3, 3), method="bounded", options={"xatol": 1e-10})
    found = with_noise_found(r, "all")
    assert np.allclose(np.log(found.noise), least.x, atol=1e-6)
    assert found.loss == pytest.approx(least.fun, rel=1e-12)


@pytest.mark.parametrize("by, sigmas", [
    ("all", np.full((3, 3), 0.7)), ("axes", np.tile([0.2, 1.0, 5.0], (3, 1))),
    ("markers", np.tile([[0.2], [1.0], [5.0]], 3)),
])  # fmt: skip
def test_groups_find_their_own(by, sigmas):
    values = np.random.default_rng(1).normal(size=(2000, 3, 3)) * sigmas
    found = with_noise_found(residuals(values), by)
    assert np.allclose(found.noise, sigmas, rtol=4 / math.sqrt(2 * 6000))
    assert np.allclose(found.values * found.noise, values)


def test_outliers_count_less_where_the_loss_is_robust():
    rng = np.random.default_rng(2)
    values = np.where(rng.random((4000, 1, 1)) < 0.05, 20.0, 1.0) * rng.normal(size=(4000, 1, 3))
    assert with_noise_found(residuals(values), "all").noise.max() > 4
    assert 1.0 < with_noise_found(residuals(values, 1.5), "all").noise.max() < 2


def test_markers_that_are_not_seen_and_fits_without_a_misfit():
    r = residuals(np.random.default_rng(3).normal(size=(50, 2, 3)))
    r.weight[:, 1] = 0.0
    assert np.all(with_noise_found(r, "markers").noise[1] == 1.0)
    perfect = with_noise_found(replace(r, values=np.zeros(r.values.shape)), "all")
    assert np.allclose(perfect.noise, LEAST) and math.isfinite(perfect.loss)


def test_both_noises_are_found_and_the_parameter_is_that_of_known_noise(tmp_path):
    problem = made(tmp_path)
    x = least_loss(problem, problem.start)
    found = misfits(problem, problem.simulate(x))
    for m in found:
        true = 0.5e-3 if m.markers == "upper" else 4e-3
        (value,), (error,) = m.estimated.value, m.estimated.standard_error
        assert abs(value - true) < 3 * error < 0.5 * true
    takes = {(m.experiment, m.markers): m.deviations for m in found}
    known = replace(problem, experiments=[
        replace(e, targets={
            n: replace(t, noise=takes[e.name, n], estimated="") for n, t in e.targets.items()
        }) for e in problem.experiments
    ])  # fmt: skip
    assert least_loss(known, problem.start) == pytest.approx(x, abs=1e-5)
    assert sum(part.loss for part in problem.residuals(x, problem.simulate(x))) == pytest.approx(problem.value(x))
    assert "the noise of `upper` is estimated: 0." in noise_notes(found)[0]


@pytest.mark.parametrize("noise, more", [
    ("estimated", ""), ("{estimated: markers, guess: 3 mm}", ""),
    ("{estimated: axes}", ", align: {time: true, frame: true}"), ("estimated", ", align: {time: true, frame: true}"),
])  # fmt: skip
def test_the_gradient_is_that_of_differences(tmp_path, noise, more):
    problem = made(tmp_path, ROPE.replace("noise: estimated", f"noise: {noise}{more}"))
    x, h = problem.start, 1e-4
    _, gradient = problem.value_and_grad(x)
    assert gradient == pytest.approx((problem.value(x + h) - problem.value(x - h)) / (2 * h), rel=1e-6)


def test_a_search_ends_where_the_gradient_does(tmp_path):
    problem = made(tmp_path)
    found = problem.optimize()
    assert problem.method.objective == "likelihood" and found.loss < found.initial_loss
    assert found.parameters["compliance"] == pytest.approx(TRUE, rel=0.005)


def test_takes_of_another_material_are_still_told(tmp_path):
    problem = made(tmp_path, compliances=(TRUE, TRUE, 1.3 * TRUE))
    found = cross_validate(problem, least_loss(problem, problem.start))
    assert found.predicted > 3 and "carries over" not in found.verdict
    assert "of `upper` is" in found.verdict and "times as large in `c` as in" in found.verdict
    assert not cross_validate(made(tmp_path), least_loss(problem, problem.start)).notes


def test_criteria_count_the_noises():
    def result(noise, in_noise=None):
        left = {"in_noise": in_noise, "numbers": 400, "noise": noise}
        return {"parameters": {"p": {"final": 1.0}}, "experiments": {"a": {"use": "fit", "residuals": {"m": left}}}}

    one = fit_of(result({"typical": 1e-3, "estimated": "all", "value": [1e-3]}))
    three = fit_of(result({"typical": 0.9e-3, "estimated": "axes", "value": [1e-3, 0.9e-3, 0.81e-3]}))
    stated = fit_of(result({"typical": 2e-3}, 0.5))
    rows = criteria([one, three, stated])
    n = 400
    expected = [n * 2 * math.log(s) + 2 * k + 2 * k * (k + 1) / (n - k - 1) for s, k in ((1e-3, 2), (0.9e-3, 4))]
    assert rows[0]["aicc"] - rows[1]["aicc"] == pytest.approx(expected[0] - expected[1])
    assert rows[2]["aicc"] == pytest.approx(rows[0]["aicc"])
    assert criteria([one, fit_of(result({}, 1.0))])[0]["aicc"] is None


def test_too_few_numbers_are_an_error(tmp_path):
    with pytest.raises(SceneError) as error:
        made(tmp_path, ROPE.replace("{match: lower}", "{match: lower, at: last}"))
    assert "the noise of `lower` in `a` would be estimated from 6 numbers" in str(error.value)
    assert "it takes 30: a longer take, or a `noise` that is known" in str(error.value)
    with pytest.raises(SceneError, match="optimize.horizon.0"):  # four frames of two markers
        made(tmp_path, ROPE.replace("loss:", "optimize: {horizon: [0.16 s, all]}\nloss:"))
    with pytest.raises(SceneError, match="expected `all` or `axes` or `markers`, got `frames`"):
        made(tmp_path, ROPE.replace("noise: estimated", "noise: {estimated: frames}"))
