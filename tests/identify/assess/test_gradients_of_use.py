"""Gradients that are right and of no use: chaos and contacts are told in the report, by gradcheck and to the API."""

import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from tools.scenes.problems import write_scene

import sim
from sim.cli import main
from sim.identify.assess.gradcheck import ROUGH, SURE, TOLERANCE, check_gradient

PENDULUM = """\
format: 1
name: pendulum
about: A triple pendulum from nearly upright; where is its end?
time: {duration: 6, fps: 20, substeps: 20}
objects:
  rope: {chain: {from: [0, 0, 0], to: [0.6, 0.8, 0], points: 4, mass: 0.1, material: {distance: {compliance: 1e-6}}}}
attachments:
  hold: {on: rope, where: {x: [null, 0]}}
markers:
  end: {on: rope, where: {x: [0.59, null]}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-7, 1e-4]}
loss:
  - {reach: {marker: end, point: [0.5, -0.5, 0], at: last, scale: 10 mm}}
optimize: {lbfgs: {iterations: 1}, rollout: {checkpointed: {every: 40}}}
"""

BOUNCE = """\
format: 1
name: bounce
about: A rod of two points falls on a floor that gives way for a few steps.
time: {duration: 0.4, fps: 10, substeps: 20}
objects:
  rod: {chain: {from: [0, 0.3, 0], to: [0.1, 0.3, 0], points: 2, mass: 0.1, material: {distance: {compliance: 1e-5}}},
        velocity: [0, -1, 0]}
shapes:
  floor: {plane: {normal: [0, 1, 0], point: [0, 0, 0]}, compliance: 1e-2}
markers:
  end: {on: rod, where: {all: true}}
parameters:
  velocity: {of: objects.rod.velocity, bounds: [-10, 10]}
loss:
  - {reach: {marker: end, point: [0, 1, 0], at: last, scale: 100 mm}}
"""


HEAVY = """\
format: 1
name: heavy
time: {duration: 0.2, fps: 10, substeps: 20}
objects:
  stones: {particles: {positions: [[0, 1, 0]], mass: 0.1}, velocity: [1, 2, 0.3]}
markers:
  all: {on: stones, where: {all: true}}
parameters:
  mass: {of: objects.stones.particles.mass, bounds: [0.01, 1]}
  velocity: {of: objects.stones.velocity, bounds: [-10, 10]}
loss:
  - {reach: {marker: all, point: [7, 1, 2], at: last, scale: 1 mm}}
"""


def test_what_nothing_depends_on_is_zero_and_not_off(tmp_path, capsys):
    """How heavy a stone is does not tell where it falls: what rounding makes of the two zeros is no error."""
    scene = str(write_scene(tmp_path, HEAVY))
    assert main(["gradcheck", scene, "--json"]) == 0
    mass, velocity = json.loads(capsys.readouterr().out)["rows"]
    assert mass["vanishes"] and mass["ok"] and not mass["rough"]
    assert velocity["ok"] and not velocity["vanishes"] and velocity["error"] < 1e-6


def test_chaos_is_told_once_to_the_api(tmp_path):
    problem = sim.load_scene(write_scene(tmp_path, PENDULUM)).build(dtype=sim.float64)
    with pytest.warns(sim.ChaoticGradientWarning, match="experiment `main`: .* up to .* s") as heard:
        found = [problem.evaluate(problem.start + k) for k in (0.0, 0.01)]
    assert len(heard) == 1 and heard[0].filename == __file__
    growth = found[0].growth["main"]
    assert not growth.useful and 0.5 < growth.horizon < 6.0


def test_chaos_stands_in_the_report(tmp_path):
    """A note with the horizon, numbers in result.json, a chart; with a horizon that short, none of them."""
    scene, out = write_scene(tmp_path, PENDULUM), tmp_path / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("error", sim.ChaoticGradientWarning)
        main(["run", str(scene), "--out", str(out)])
        result = json.loads((out / "result.json").read_text())
        row = result["gradient_growth"]["main"]
        assert any("chaotic" in note and "experiment `main`" in note for note in result["notes"])
        assert not row["useful"] and len(row["times"]) == len(row["gains"]) <= 100
        assert "growth of the gradient" in (out / "report.html").read_text()
        main(
            ["run", str(scene), "--out", str(tmp_path / "short"), "--set", f"time.duration={0.5 * row['horizon']:.2f}"]
        )
    result = json.loads((tmp_path / "short" / "result.json").read_text())
    assert result["gradient_growth"]["main"]["useful"] and not any("chaotic" in note for note in result["notes"])
    assert "growth of the gradient" not in (tmp_path / "short" / "report.html").read_text()


def test_gradcheck_tells_chaos(tmp_path, capsys):
    main(["gradcheck", str(write_scene(tmp_path, PENDULUM))])
    said = " ".join(capsys.readouterr().out.split())
    assert "chaotic" in said and "it is of use" in said and "scatters by" in said


def test_scatter_of_a_contact(tmp_path):
    """A contact of few steps: every derivative is right, and those nearby are others.  Short steps see it through."""
    found = {}
    for substeps in (22, 300):  # of lengths alike one in two is rough
        text = BOUNCE.replace("substeps: 20", f"substeps: {substeps}")
        problem = sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)
        found[substeps] = check_gradient(problem, seed=2)[0]
    print(found)
    assert all(row.ok for row in found.values())
    assert found[22].rough and found[22].scatter > ROUGH > 100 * found[300].scatter


class Noisy:
    """A problem in what `check_gradient` asks of one: a loss whose last digits are noise, and its gradient times 1 +
    `wrong`."""

    start = np.array([0.7])
    space = SimpleNamespace(slices={"x": slice(0, 1)})

    def __init__(self, noise: float, wrong: float) -> None:
        self.noise, self.wrong, self.rng = noise, wrong, np.random.default_rng(3)

    def value(self, x: np.ndarray) -> float:
        return float(5.0 + np.sin(x[0]) + self.noise * self.rng.normal())

    def evaluate(self, x: np.ndarray) -> SimpleNamespace:
        return SimpleNamespace(gradient=np.cos(x) * (1.0 + self.wrong))

    def contacts(self, x: np.ndarray) -> list:
        return []


@pytest.mark.parametrize("noise", [1e-12, 1e-9, 1e-7])
def test_a_difference_is_trusted_as_far_as_noise_lets_it(noise):
    (right,) = check_gradient(Noisy(noise, 0.0))
    assert right.ok and not right.vanishes
    assert 0.3 * noise < right.rounding * right.step / SURE < 3.0 * noise
    assert (right.resolution > TOLERANCE) == (noise > 1e-10)
    (off,) = check_gradient(Noisy(noise, 2.0 * (TOLERANCE + right.resolution)))
    assert not off.ok
