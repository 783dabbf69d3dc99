"""What the reference solver would find: told from one simulation with it, by the derivatives of the other."""

import json
import math

import pytest
from tools.scenes.problems import write_scene, write_target

from sim.cli import main

SHEET = """\
format: 2
name: sheet
world: {gravity: [0, 0, -9.81]}
time: {duration: 0.2, fps: 20, substeps: 4}
objects:
  sheet:
    cloth:
      grid: {size: [1, 1], cells: [6, 6]}
      density: 0.2
      material:
        distance: {compliance: 1e-3, damping: 5 ms}
        shear: {compliance: 1e-2, damping: 5 ms}
        bend: {compliance: 10, damping: 5 ms}
attachments:
  edge: {on: sheet, where: {y: [0.82, null]}}
markers:
  spots: {on: sheet, where: {all: true}}
experiments:
  one: {target: {file: target.npz, key: spots, noise: 0.1 mm}}
parameters:
  bend: {of: objects.sheet.cloth.material.bend.compliance, transform: log, bounds: [1e-2, 1e4]}
loss:
  - {match: spots}
"""
"""A stiff sheet that one sweep a step does not hold: XPBD finds another bending compliance than the converged steps."""


@pytest.fixture
def folder(tmp_path):
    write_target(tmp_path, SHEET, key="spots", noise=1e-4, overrides=["solver.newton.tolerance=1e-8"])
    return tmp_path


def run(folder, *options):
    out = folder / "run"
    assert main(["run", str(write_scene(folder, SHEET)), "--out", str(out), "--no-numerics", *options]) == 0
    return json.loads((out / "result.json").read_text())


def test_the_shift_to_the_reference_is_told(folder, capsys):
    """The twin was made by the reference, so that what it would find is the truth."""
    result = run(folder, "--reference")
    row = result["reference"]["parameters"]["bend"]
    off, told = math.log(10.0 / row["found"]), math.log(row["reference"] / row["found"])
    assert off > 0.15 and 0.9 < told / off < 1.1
    assert row["found"] == result["parameters"]["bend"]["final"]
    assert result["reference"]["unconverged"] == 0.0
    assert "`bend` would be" in result["parameters"]["bend"]["note"]
    assert "with the reference solver newton" in capsys.readouterr().out
    assert "reference: " in (folder / "run" / "report.html").read_text()


def test_a_twin_of_the_reference_is_identified_with_it(folder):
    """Within .1 %, where XPBD is off by much more; and the reference of the reference moves nothing."""
    result = run(folder, "--quiet", "--set", "solver.newton.tolerance=1e-8", "--reference")
    row = result["reference"]["parameters"]["bend"]
    assert row["found"] == pytest.approx(10.0, rel=1e-3)
    assert row["reference"] == pytest.approx(row["found"], rel=1e-6)
