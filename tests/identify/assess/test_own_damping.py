"""The integrator's own damping beside an identified one: it is what a coarse step leaves out of the value."""

import json

import numpy as np
import pytest
from tools.scenes.problems import write_scene, write_target

import sim
from sim.cli import main
from sim.identify.numerics import own_damping

TAU, HERTZ = 4e-3, 8.0
SPRING = f"""\
format: 2
name: spring
world: {{gravity: [0, 0, 0]}}
time: {{duration: 1.0, fps: 200, substeps: 5}}
objects:
  spring:
    velocity: [0.5, 0, 0]
    chain:
      from: [0, 0, 0]
      to: [1, 0, 0]
      points: 2
      mass: 0.2
      material: {{distance: {{compliance: {1.0 / (0.1 * (2 * np.pi * HERTZ) ** 2)}, damping: {TAU}}}}}
attachments:
  wall: {{on: spring, where: {{x: [null, 0]}}}}
markers:
  tip: {{on: spring, where: {{x: [0.5, null]}}}}
experiments:
  one: {{target: {{file: target.npz, key: tip, noise: 0.1 mm}}}}
parameters:
  tau: {{of: objects.spring.chain.material.distance.damping, transform: log, bounds: [1e-4, 1e-1], start: 5 ms}}
  soft: {{of: objects.spring.chain.material.distance.compliance, transform: log, bounds: [1e-5, 1]}}
loss:
  - {{match: tip}}
"""
"""A mass on a spring, let go at 8 Hz with a damping ratio of 0.1."""


TRUTH = TAU + 1.0 / 200 / 150
"""With what the twin's own steps add."""


def twin(folder, **solver):
    """The scene, to be identified from steps thirty times as short."""
    write_target(folder, SPRING, key="tip", noise=1e-4, overrides=["time.substeps=150"])
    scene = SPRING + (f"solver: {{xpbd: {json.dumps(solver)}}}\n" if solver else "")
    return write_scene(folder, scene)


def test_a_damping_is_found_too_small_by_the_integrators_own(tmp_path):
    problem = sim.load_scene(twin(tmp_path)).build()
    found = problem.optimize()
    own = own_damping(problem, problem.simulate(found.search.x))
    assert own.frequency == pytest.approx(HERTZ, rel=0.03)
    assert own.time == pytest.approx(1e-3, rel=2e-3)
    assert own.ratio == pytest.approx(np.pi * HERTZ * 1e-3, rel=0.03)
    assert found.parameters["tau"] + own.time == pytest.approx(TRUTH, rel=0.02)


def test_bdf2_leaves_the_value(tmp_path):
    problem = sim.load_scene(twin(tmp_path, integrator="bdf2", iterations=2)).build()
    found = problem.optimize()
    own = own_damping(problem, problem.simulate(found.search.x))
    assert own.time == pytest.approx(0.5e-3 * (2 * np.pi * HERTZ * 1e-3) ** 2, rel=0.06)
    assert found.parameters["tau"] == pytest.approx(TRUTH, rel=0.01)


def test_a_run_prints_it_beside_the_damping_alone(tmp_path, capsys):
    path = twin(tmp_path)
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--no-numerics"]) == 0
    printed = capsys.readouterr().out
    assert "numerics: integrator's own damping 0.999 ms (" in printed, printed
    rows = json.loads((tmp_path / "out" / "result.json").read_text())["parameters"]
    assert rows["tau"]["own_damping"]["experiment"] == "one" and "own_damping" not in rows["soft"]
    assert "integrator&#x27;s own damping" in (tmp_path / "out" / "report.html").read_text()


def test_without_a_swing_it_is_told_for_slow_motions(tmp_path):
    """A point that hardly turns round has no frequency."""
    problem = sim.load_scene(twin(tmp_path), overrides=["time.duration=0.1"]).build()
    own = own_damping(problem, problem.simulate())
    assert np.isnan(own.frequency) and np.isnan(own.ratio) and own.time == pytest.approx(1e-3)
