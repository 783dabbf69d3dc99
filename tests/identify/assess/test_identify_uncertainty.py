"""Standard errors: against closed forms of linear problems, against many noisy repetitions, and what is not
identifiable."""

import json
import math
import re

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.identification import FLIGHT, NOISE, flight, known, write_flight
from tools.scenes.problems import SHEET, write_scene, write_target

import sim
from sim.cli import main
from sim.identify.assess.estimate import estimate
from sim.identify.assess.misfit import misfits
from sim.identify.assess.uncertainty import MOST, _kept, assess
from sim.identify.data.experiments import Target
from sim.identify.losses.jacobian import linearise
from sim.identify.losses.terms import Match, Prior, Reach


def best_of(problem, iterations=30):
    return problem.optimize(iterations).search.x


# ------------------------------------------------------------------------------------------------ residuals
@pytest.mark.parametrize("loss", [
    "{match: corners}",
    "{match: corners, norm: {huber: 0.4}}",
    "{match: corners, at: last}",
    "{match: corners, at: [0.1, 0.2], weight: 3}",
    "{match: corners, compare: displacement}",
    "{match: corners, compare: velocity}",
    "{reach: {marker: corners, point: [1, 2, 3], scale: 0.5}, weight: 2}",
    "{match: corners}\n  - {prior: stretch, value: 0.01, factor: 10, weight: 0.7}",
])  # fmt: skip
def test_losses_of_the_residuals_add_up_to_the_loss(tmp_path, loss):
    write_target(tmp_path, SHEET, noise=0.003)
    text = SHEET.replace("{match: corners}", loss).replace(
        "experiments:", "experiments:\n  two: {target: {file: target.npz, key: corners}}"
    )
    problem = sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)
    parts = problem.residuals(problem.start, problem.simulate())
    assert sum(part.loss for part in parts) == pytest.approx(problem.value(problem.start), rel=1e-12)


@pytest.mark.parametrize(
    "loss",
    [
        "{match: corners}",
        "{match: corners, norm: {huber: 0.4}}",
        "{match: corners, compare: displacement}",
        "{match: corners}\n  - {prior: stretch, value: 0.01, factor: 10}",
    ],
)
def test_descent_is_half_the_negative_gradient(tmp_path, loss):
    write_target(tmp_path, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    problem = sim.load_scene(write_scene(tmp_path, SHEET.replace("{match: corners}", loss))).build(dtype=sim.float64)
    found = linearise(problem, problem.start)
    assert found.descent == pytest.approx(-0.5 * problem.value_and_grad(problem.start)[1], rel=1e-3)


# ------------------------------------------------------------------------------------------------ closed forms
def test_velocity_of_a_free_flight(tmp_path):
    problem = flight(tmp_path)
    found = known(problem, best_of(problem))
    times = problem.experiments[0].schedule.times
    expected = NOISE / math.sqrt(2 * np.sum(times**2))  # two balls
    assert found.by_noise["v"] == pytest.approx(np.full(3, expected), rel=1e-6)
    assert found.by_residuals["v"] == pytest.approx(np.full(3, expected), rel=0.4)
    assert found.correlation == pytest.approx(np.eye(3), abs=1e-9)
    assert found.scatter == pytest.approx(1.0, abs=0.3) and found.rollouts == 3
    # Normalised by 60 - 3: the sum of squares that three fitted numbers leave.
    left = sum(
        np.sum(part.values**2) for part in problem.residuals(best_of(problem), problem.simulate(best_of(problem)))
    )
    assert found.scatter == pytest.approx(math.sqrt(left / 57), rel=1e-6)


@pytest.mark.parametrize("compare", ["position", "displacement", "velocity"])
def test_shared_noise_of_displacements_and_steps(tmp_path, compare):
    """Velocity and gravity of the flight, against the covariance of weighted least squares written out in matrices."""
    text = FLIGHT.replace("{match: balls}", f"{{match: balls, compare: {compare}}}").replace(
        "  v: {of: objects.balls.velocity}", "  v: {of: objects.balls.velocity}\n  g: {of: world.gravity}"
    )
    problem = flight(tmp_path, text)
    found = known(problem, best_of(problem))
    schedule = problem.experiments[0].schedule
    t = schedule.times
    design = np.stack([t, t * t / 2], axis=1)
    rows = np.eye(10)
    if compare == "displacement":
        rows = rows[1:] - rows[0]
    if compare == "velocity":
        rows = rows[1:] - rows[:-1]
    seen = np.kron(np.ones((2, 1)), rows @ design)  # two balls
    errors = NOISE**2 * np.kron(np.eye(2), rows @ rows.T)
    inverse = np.linalg.inv(seen.T @ seen)
    covariance = inverse @ seen.T @ errors @ seen @ inverse
    assert found.by_noise["v"] == pytest.approx(np.full(3, math.sqrt(covariance[0, 0])), rel=1e-5)
    assert found.by_noise["g"] == pytest.approx(np.full(3, math.sqrt(covariance[1, 1])), rel=1e-5)
    wanted = covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])
    assert found.correlation[0, 3] == pytest.approx(wanted, rel=1e-5)
    assert found.scatter == pytest.approx(1.0, abs=0.3)
    if compare == "position":
        assert wanted < -0.95 and any("`v.x` and `g.x` can hardly be told apart" in note for note in found.notes)


def test_a_prior_alone_leaves_its_width(tmp_path):
    text = FLIGHT.replace(
        "  v: {of: objects.balls.velocity}", "  m: {of: objects.balls.particles.mass, transform: log}"
    )
    text += "  - {prior: m, value: 2, factor: 3, weight: 5}\n"
    problem = flight(tmp_path, text)
    found = known(problem, np.log([2.0]))
    assert found.errors["m"] == pytest.approx(2 * math.log(3), rel=1e-6)  # the flight does not depend on the mass
    assert any("`m` is poorly known: its standard error is a factor of 3" in note for note in found.notes)


def test_prior_and_data_weigh_as_in_the_loss(tmp_path):
    """d/dv of  w (v - a)^2 + p (v - b)^2 : the estimate is their weighted mean, and so is its error."""
    text = FLIGHT + "  - {prior: v, value: 0.5, sd: 0.004, weight: 4}\n"
    problem = flight(tmp_path, text)
    found = known(problem, best_of(problem))
    t2 = 2 * np.sum(problem.experiments[0].schedule.times ** 2)
    data, prior = t2 / (60 * NOISE**2), 4 / 3 / 0.004**2  # half the second derivatives of the loss
    own = NOISE / math.sqrt(t2)
    expected = math.hypot(data * own, prior * 0.004) / (data + prior)
    assert found.by_noise["v"] == pytest.approx(np.full(3, expected), rel=1e-6)


# ------------------------------------------------------------------------------------------------ repetitions
def test_errors_are_those_of_many_noisy_repetitions(tmp_path):
    sheet = SHEET.replace("farthest: 4", "farthest: 8")  # four say little of the bending
    write_target(tmp_path, sheet)
    text = sheet.replace(
        "bounds: [1e-4, 10]}",
        "bounds: [1e-4, 10]}\n"
        "  bend: {of: objects.sheet.cloth.material.bend.compliance, transform: log, bounds: [1, 1e5]}",
    )
    problem = sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)
    (experiment,), rng = problem.experiments, np.random.default_rng(3)
    exact = experiment.targets["corners"].positions
    found, stated = [], []
    for _ in range(40):
        noisy = Target(exact + 0.01 * rng.normal(size=exact.shape), 0.01)
        experiment.targets["corners"] = noisy
        x = problem.start
        for _ in range(5):  # Gauss-Newton
            line = linearise(problem, x)
            x = x + np.linalg.solve(line.matrix, line.descent)
        found.append(x)
        assert np.abs(problem.value_and_grad(x)[1]).max() < 1e-3  # differences are one-sided
        errors = assess(problem, linearise(problem, x))
        stated.append([errors.by_noise[name] / problem.physical(x)[name] for name in ("stretch", "bend")])
    actual = np.std(found, axis=0)
    assert np.mean(stated, axis=0) == pytest.approx(actual, rel=0.3)  # 40 repetitions know it to 11 %
    assert actual.max() < 0.5


def test_coloured_residuals(tmp_path):
    """Errors that last over frames: the account by noise is far too small, that by residuals is right on average."""
    text = FLIGHT.replace("duration: 0.5", "duration: 5")
    write_flight(tmp_path, frames=100)
    (tmp_path / "flight.yaml").write_text(text)
    problem = sim.load_scene(tmp_path / "flight.yaml").build(dtype=sim.float64)
    (experiment,), rng = problem.experiments, np.random.default_rng(1)
    times = experiment.schedule.times
    rest = np.array([[0, 0, 0], [1, 0, 0]])
    found, by_noise, by_residuals, notes = [], [], [], []
    for _ in range(60):
        errors = np.zeros((100, 2, 3))
        white = NOISE * math.sqrt(1 - 0.9**2) * rng.normal(size=errors.shape)
        errors[0] = NOISE * rng.normal(size=(2, 3))
        for k in range(1, 100):
            errors[k] = 0.9 * errors[k - 1] + white[k]
        seen = times[:, None, None] * np.array([0.5, 0.0, -0.5]) + errors
        experiment.targets["balls"] = Target(rest + seen, NOISE)
        x = np.einsum("f,fma->a", times, seen) / (2 * np.sum(times**2)) / problem.space.transforms["v"].scale
        errors = assess(problem, linearise(problem, x))
        found.append(problem.physical(x)["v"])
        by_noise.append(errors.by_noise["v"][0])
        by_residuals.append(np.mean(errors.by_residuals["v"] ** 2))
        notes.append(any("alike from frame to frame" in note for note in errors.notes))
    actual = math.sqrt(np.mean(np.var(found, axis=0)))
    assert actual > 3 * np.mean(by_noise)
    assert math.sqrt(np.mean(by_residuals)) == pytest.approx(actual, rel=0.3)
    assert np.mean(notes) > 0.9


def test_what_clipping_keeps_of_the_noise():
    z = np.random.default_rng(0).normal(size=2_000_000)
    for huber in (0.3, 1.0, 3.0):
        assert _kept(huber) == pytest.approx(np.mean(np.clip(z, -huber, huber) ** 2), rel=5e-3)
    assert _kept(math.inf) == 1.0


# ------------------------------------------------------------------------------------------------ not identifiable
def test_a_parameter_without_effect(tmp_path):
    text = FLIGHT.replace(
        "  v: {of: objects.balls.velocity}",
        "  v: {of: objects.balls.velocity}\n  m: {of: objects.balls.particles.mass, transform: log}",
    )
    problem = flight(tmp_path, text)
    found = known(problem, best_of(problem))
    assert np.isinf(found.errors["m"]) and np.isnan(found.correlation[3]).all()
    assert np.isfinite(found.errors["v"]).all() and np.isfinite(found.correlation[:3, :3]).all()
    assert found.unseen.tolist() == [False, False, False, True] and found.notes == ()  # see `notes`


def test_only_a_sum_is_known(tmp_path):
    text = FLIGHT.replace("  v: {of: objects.balls.velocity}", "  a: {of: objects.balls.velocity}")
    text = text.replace("[0.1, 0.2, 0.3]\n", "[0.1, 0.2, 0.3]\n    position: [0, 0, 0]\n")
    text = text.replace("loss:", "  b: {of: objects.balls.position}\nloss:").replace(
        "{match: balls}", "{match: balls, at: last}"
    )
    problem = flight(tmp_path, text)  # one frame: start and velocity cannot be told apart
    found = known(problem, problem.start)
    assert np.isinf(found.errors["a"]).all() and np.isinf(found.errors["b"]).all()
    told = [name for note in found.notes for name in re.findall("`(.*?)`", note.split(":")[0])]
    assert sorted(told) == [f"{name}.{axis}" for name in "ab" for axis in "xyz"]
    assert all("not identifiable" in note for note in found.notes)


def test_on_a_bound(tmp_path):
    text = FLIGHT.replace("{of: objects.balls.velocity}", "{of: objects.balls.velocity, bounds: [-1, 0.3]}")
    problem = flight(tmp_path, text)
    x = best_of(problem)
    found = known(problem, x)
    assert problem.physical(x)["v"][0] == 0.3  # the truth is 0.5
    assert np.isnan(found.errors["v"][0]) and np.isfinite(found.errors["v"][1:]).all()


def test_far_from_the_optimum_and_noise_that_is_stated_wrongly(tmp_path):
    problem = flight(tmp_path)
    start = known(problem, problem.start)
    assert start.away > 2 and start.scatter > 3  # see `notes`
    wide = flight(tmp_path, FLIGHT.replace("noise: 20 mm", "noise: 200 mm"))
    assert any("residuals are only 0." in note for note in known(wide, best_of(wide)).notes)


def test_why_there_are_none(tmp_path):
    problem = flight(tmp_path)
    at = problem.simulate()
    problem.terms = [Reach("r", markers="balls", point=(0.0, 0.0, 0.0)), Prior("p", parameter="v", value=0.0, sd=1.0)]
    assert "no term of the loss compares" in estimate(problem, problem.start, at)
    problem.terms = [Match("m", markers="balls")]
    assert f"up to {MOST} numbers" in estimate(problem, np.zeros(MOST + 1), at)


# ------------------------------------------------------------------------------------------------ measures, misfits
def test_errors_and_slopes_of_other_numbers(tmp_path):
    problem = flight(tmp_path)
    x = best_of(problem)
    numbers = lambda s: {"end": s["main"].positions[-1, :, 0].mean()}  # noqa: E731
    found = estimate(problem, x, problem.simulate(x), numbers)
    error, slopes = found.measures["end"]
    assert slopes["v"] == pytest.approx([0.5, 0, 0], abs=1e-6)  # 0.5 s of flight
    assert error == pytest.approx(0.5 * found.errors["v"][0], rel=1e-6)


def test_misfit_by_marker_and_frame(tmp_path):
    problem = flight(tmp_path)
    x = best_of(problem)
    target = problem.experiments[0].targets["balls"]
    target.positions[3, 1] = np.nan
    (found,) = misfits(problem, problem.simulate(x))
    distance = np.linalg.norm(problem.simulate(x)["main"].positions - target.positions, axis=2)
    assert found.by_marker == pytest.approx(np.sqrt(np.nanmean(distance**2, axis=0)), rel=1e-9)
    assert found.by_frame == pytest.approx(np.sqrt(np.nanmean(distance**2, axis=1)), rel=1e-9)
    assert found.rms == pytest.approx(math.sqrt(np.nanmean(distance**2)), rel=1e-9)
    assert found.in_noise == pytest.approx(1.0, abs=0.3)


# ------------------------------------------------------------------------------------------------ runs
def test_a_run_states_them(tmp_path, capsys):
    write_flight(tmp_path)
    (tmp_path / "flight.yaml").write_text(
        FLIGHT.replace("loss:", "  m: {of: objects.balls.particles.mass, transform: log}\nloss:")
    )
    assert main(["run", str(tmp_path / "flight.yaml"), "--out", str(tmp_path / "run")]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    errors = result["parameters"]["v"]
    assert errors["standard_error"] == pytest.approx(
        np.maximum(errors["standard_error_by"]["noise"], errors["standard_error_by"]["residuals"])
    )
    assert result["uncertainty"]["names"] == ["v.x", "v.y", "v.z", "m"]
    assert result["parameters"]["m"]["standard_error"] is None  # infinite
    assert (
        "not identifiable" in result["parameters"]["m"]["note"]
        or "does not depend" in result["parameters"]["m"]["note"]
    )
    residuals = result["experiments"]["main"]["residuals"]["balls"]
    assert residuals["in_noise"] == pytest.approx(1, abs=0.3) and len(residuals["by_marker"]) == 2
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Correlation of the errors" in page and "not identifiable" in page and "<h2>Residuals</h2>" in page
    shown = capsys.readouterr().out
    assert "standard error" in shown and "not identifiable" in shown


def test_cloth_is_known_as_well_as_it_was_designed_to_be():
    problem = sim.load_scene(ROOT / "scenes" / "cloth.yaml").build(dtype=sim.float64)
    x = np.log([19935.0, 2976.7])
    found = known(problem, x)
    assert found.errors["young"] / 2e4 == pytest.approx(0.00053, rel=0.5)  # contacts that come and go scatter it
    assert found.errors["bend"] / 3e3 == pytest.approx(0.00048, rel=0.3)
    assert found.notes == () and found.scatter == pytest.approx(1.032, abs=0.003)
