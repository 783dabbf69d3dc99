"""SolverNewton in scenes: as the solver, as the reference of a run, and beside XPBD on those that are shipped."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tools.places import ROOT

import sim
from sim.cli import main
from sim.scene import load_scene

CHAIN = """
format: 1
time: {duration: 0.5, fps: 10, substeps: 5}
objects:
  rope:
    chain: {from: [0, 0, 0], to: [0.5, -0.5, 0], points: 6, mass: 300 g, material: {distance: {compliance: 1e-3}}}
attachments: {top: {on: rope, where: {y: [-0.01, null]}}}
markers: {end: {on: rope, where: {y: [null, -0.45]}}}
measures: {low: {of: end, along: gravity, kind: settled, last: 0.2}}
"""


@pytest.fixture
def scene(tmp_path):
    path = tmp_path / "rope.yaml"
    path.write_text(CHAIN)
    return path


def test_a_scene_names_the_solver(scene):
    problem = load_scene(scene, {"solver": {"newton": {"tolerance": 1e-6, "iterations": 9}}}).build()
    assert repr(problem.solver).startswith("SolverNewton(tolerance=1e-06, iterations=9, ")
    with pytest.raises(sim.SceneError, match="works in float64"):
        load_scene(scene, {"solver": {"newton": {}}}).build(dtype=sim.float32)


@pytest.mark.parametrize("named", [False, True])
def test_a_run_compares_its_result_with_the_reference(scene, tmp_path, named, capsys):
    if named:
        scene.write_text(CHAIN + "reference: {newton: {tolerance: 1e-7}}\n")
    out = tmp_path / "run"
    assert main(["run", str(scene), "--out", str(out), "--quiet", *([] if named else ["--reference"])]) == 0
    result = json.loads((out / "result.json").read_text())
    row = result["reference"]["experiments"]["main"]
    own = load_scene(scene, {"solver": {"newton": {}}}).build()
    problem = load_scene(scene).build()
    simulated = [p.simulate()["main"] for p in (own, problem)]
    apart = np.linalg.norm(simulated[0].positions - simulated[1].positions, axis=-1).max()
    assert row["moved"] == pytest.approx(apart, rel=1e-6)
    low = row["measures"]["low"]
    assert low["found"] == pytest.approx(problem.measure(simulated[1])["low"]["simulated"])
    assert low["reference"] == pytest.approx(problem.measure(simulated[0])["low"]["simulated"], rel=1e-6)
    assert any("that much belongs to the numerics" in note for note in result["notes"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "substeps", "seconds"), [("chain", 50, 0.2), ("throw", 80, 0.02), ("beam", 50, 0.01), ("cloth", 160, 0.01)]
)
def test_both_solvers_agree_at_the_steps_that_xpbd_is_meant_for(name, substeps, seconds):
    problem = load_scene(ROOT / "scenes" / f"{name}.yaml", {"time.substeps": substeps}).build()
    dt = problem.experiments[0].schedule.dt
    ends = [
        sim.rollout(solver, problem.model.state(), round(seconds / dt), dt).final.particle_q.numpy()
        for solver in (problem.solver, sim.SolverNewton(problem.model))
    ]
    assert np.abs(ends[0] - ends[1]).max() < 1e-3 * np.ptp(ends[1], axis=0).max()


def test_scipy_is_imported_by_those_who_solve():
    code = "import sys, sim, sim.scene; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
