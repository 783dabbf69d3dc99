"""The numerical error of identified values: what it says before the truth is asked."""

import json
import math
import re
import warnings

import numpy as np
import pytest
from tools.scenes.problems import write_scene, write_target

import sim
from sim.cli import main
from sim.identify.losses.jacobian import linearise
from sim.identify.numerics import estimate_shifts, numerical_error
from sim.identify.numerics.finer import more_iterations, shorter_steps
from sim.identify.numerics.numerical_error import NumericalError, Shift, share_text
from sim.identify.problem import NotRefined
from sim.solvers import NumericsWarning

DRAPE = """\
format: 1
name: drape
world: {gravity: [0, 0, -9.81]}
time: {duration: 0.2, fps: 20, substeps: 50}
objects:
  sheet:
    cloth:
      grid: {size: [1, 1], cells: [8, 8]}
      density: 0.2
      material:
        distance: {compliance: 0.02, damping: 5 ms}
        shear: {compliance: 0.02, damping: 5 ms}
        bend: {compliance: 10, damping: 5 ms}
attachments:
  edge: {on: sheet, where: {y: [0.87, null]}}
markers:
  spots: {on: sheet, where: {near: [[0, 0, 0], [1, 0, 0], [0.5, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0], [1, 0.5, 0]]}}
experiments:
  one: {target: {file: target.npz, key: spots, noise: 0.1 mm}}
parameters:
  bend: {of: objects.sheet.cloth.material.bend.compliance, transform: log, bounds: [1e-2, 1e3]}
loss:
  - {match: spots}
"""
"""A cantilevered sheet that falls by its weight, known up to how it bends."""

SPOTS = [[0, 0], [0.5, 0], [1, 0], [0, 0.5], [0.5, 0.5], [1, 0.5]]
TRUTH = 10.0


def drape(folder, **twin):
    """The sheet, to be identified from a twin with other numerics."""
    write_target(folder, DRAPE, key="spots", noise=1e-4, overrides=[f"{k}={v}" for k, v in twin.items()])
    return sim.load_scene(write_scene(folder, DRAPE)).build()


def found_and_error(problem):
    x = problem.optimize().search.x
    return float(problem.physical(x)["bend"]), estimate_shifts(problem, linearise(problem, x))


@pytest.mark.parametrize(
    ("cause", "twin"),
    [
        ("step", {"time.substeps": 200}),
        ("iterations", {"solver.xpbd.iterations": 8}),
        ("mesh", {"objects.sheet.cloth.grid.cells": [16, 16], "time.substeps": 800}),
    ],
    ids=["step", "iterations", "mesh"],
)
def test_a_value_found_from_a_finer_twin_is_off_by_what_is_told(tmp_path, cause, twin):
    problem = drape(tmp_path, **twin)
    found, error = found_and_error(problem)
    off = math.log(TRUTH / found)
    told = math.log(1.0 + float(error.relative(cause, "bend")))
    if cause == "mesh":  # the twin is of half the edge length, not of none, and of short steps
        told = told / error.shifts[cause].whole + math.log(1.0 + float(error.relative("step", "bend")))
    assert abs(off) > 0.01
    assert 0.5 < told / off < 2.0
    assert abs(TRUTH - found) < float(error.errors["bend"])
    assert error.missing == {}
    assert 1 <= error.shifts[cause].evaluations <= 4
    assert error.shifts[cause].compared > 1.0  # the data would tell the difference
    assert any("`bend`" in note and cause in note for note in error.notes(problem))


def test_the_linear_shift_is_the_step_that_the_finer_problem_takes(tmp_path):
    problem = drape(tmp_path)
    x = problem.start
    error = estimate_shifts(problem, linearise(problem, x), causes=["step"])
    finer = shorter_steps(problem)
    matrix, descent = finer.gauss_newton(x)
    _, own = problem.gauss_newton(x)
    step = np.linalg.solve(matrix, descent - own)
    raw = np.log(1 + float(error.shifts["step"].by_refining["bend"]) / TRUTH)
    assert raw == pytest.approx(float(step[0]), rel=0.1)
    assert error.shifts["step"].whole == 2
    whole = np.log(1 + float(error.shifts["step"].errors["bend"]) / TRUTH)
    assert whole == pytest.approx(2 * raw, rel=1e-6)


def test_a_finer_mesh_keeps_markers_at_their_material_places(tmp_path):
    problem = drape(tmp_path)
    finer = problem.finer_mesh()
    for model, markers in ((problem.model, problem.markers), (finer.model, finer.markers)):
        places = markers["spots"].at(model.particle_q.numpy())
        np.testing.assert_allclose(places[:, :2], SPOTS, atol=1e-12)
    assert finer.model.particle_count == 17 * 17
    assert finer.model.particle_mass.numpy().sum() == pytest.approx(problem.model.particle_mass.numpy().sum())


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"edge: {on: sheet,": "edge: {compliance: 1e-3, on: sheet,"}, "`attachments.edge.compliance` is that of each"),
        ({"y: [0.87, null]": "indices: [70, 71, 72]"}, "chooses points by their number"),
        ({"transform: log": "per: element, transform: log"}, "`bend` has a value for each element"),
    ],
)
def test_what_belongs_to_one_element_has_no_finer_mesh(tmp_path, edit, why):
    write_target(tmp_path, DRAPE, key="spots")
    problem = sim.load_scene(write_scene(tmp_path, DRAPE, **edit)).build()
    with pytest.raises(NotRefined, match=why):
        problem.finer_mesh()


def test_a_public_function_warns(tmp_path):
    problem = drape(tmp_path)
    with pytest.warns(NumericsWarning, match="`bend`: the numerics moves"):
        error = numerical_error(problem, problem.start, causes=["iterations"])
    assert set(error.shifts) == {"iterations"} and "mesh not estimated" in repr(error)
    assert more_iterations(problem).solver.iterations == 2


@pytest.mark.parametrize(
    ("errors", "told"), [({"bend": 0.001}, 1), ({"bend": 0.01}, 0), ({"bend": np.inf}, 0), (None, 0)]
)
def test_a_numerical_error_however_small_is_told_where_the_noise_is_smaller(tmp_path, errors, told):
    """A bouncing ball had e = .7807 for .78 with .00013 by the noise, and no word on .08 % by the step."""
    error = NumericalError({"bend": TRUTH}, {"step": Shift("step", {"bend": 0.005}, {"bend": 0.0025}, 2.0, 1.0)}, {})
    notes = error.notes(drape(tmp_path), errors)
    assert len(notes) == told and all("`bend`" in note and "more than its standard error" in note for note in notes)


def test_parameters_with_one_remedy_share_a_note(tmp_path):
    edit = {
        "parameters:": "parameters:\n  shear: {of: objects.sheet.cloth.material.shear.compliance, transform: log}",
    }
    write_target(tmp_path, DRAPE, key="spots")
    problem = sim.load_scene(write_scene(tmp_path, DRAPE, **edit)).build()
    moved = {"shear": 0.001, "bend": 1.0}
    error = NumericalError({"shear": 0.02, "bend": TRUTH}, {"step": Shift("step", moved, moved, 2.0, 1.0)}, {})
    [note] = error.notes(problem)
    assert note.startswith("`shear` (step +5 %, iterations not estimated, mesh not estimated), `bend` (step +10 %, ")


def test_a_run_tells_it_and_may_leave_it(tmp_path, capsys):
    write_target(tmp_path, DRAPE, key="spots", noise=1e-4, overrides=["time.substeps=200"])
    path = write_scene(tmp_path, DRAPE)
    assert main(["run", str(path), "--out", str(tmp_path / "told")]) == 0
    printed = capsys.readouterr().out
    assert (
        "numerics: how far a value would move" in printed
        and "(noise), numerics: step +" in printed
        and "it is a value of this discretisation" in printed
    )
    result = json.loads((tmp_path / "told" / "result.json").read_text())
    assert set(result["parameters"]["bend"]["numerical_error"]) == {"step", "iterations", "mesh"}
    assert result["numerics"]["step"]["whole"] == 2
    page = (tmp_path / "told" / "report.html").read_text()
    assert "Numerical error" in page and re.search(r"1/\(N m\), numerics [-+][\d.]+ %", page)  # in the head, too
    assert main(["run", str(path), "--out", str(tmp_path / "left"), "--no-numerics", "--quiet"]) == 0
    assert "numerics:" not in capsys.readouterr().out
    assert json.loads((tmp_path / "left" / "result.json").read_text())["numerics"] is None


def test_the_table_of_convergence(tmp_path, capsys):
    write_target(tmp_path, DRAPE, key="spots")
    path = write_scene(tmp_path, DRAPE)
    assert main(["check", str(path), "--converge", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)["convergence"]
    assert [(level["cause"], level["label"]) for level in table["levels"]] == [
        ("", "as it is"), ("step", "h / 2"), ("step", "h / 4"), ("iterations", "x 2"), ("iterations", "x 4"),
        ("mesh", "2 n"),
    ]  # fmt: skip
    base, half, quarter = table["levels"][:3]
    assert base["loss"] == pytest.approx(0.0, abs=1e-12) and 0 < half["loss"] < quarter["loss"]
    assert 0.02 < half["shifts"]["bend"] / TRUTH < quarter["shifts"]["bend"] / TRUTH < 0.2
    assert 0.8 < table["order"] < 1.5
    assert main(["check", str(path), "--converge"]) == 0
    shown = capsys.readouterr().out
    assert "observed order of the step: 1." in shown and "left undone by a step" in shown


def test_nothing_is_said_where_nothing_moves(tmp_path):
    """A chain at rest after enough iterations has the compliance that it was given, whatever the step."""
    from tools.places import ROOT

    problem = sim.load_scene(ROOT / "scenes" / "chain.yaml").build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = numerical_error(problem, problem.space.pack({"compliance": 0.01}))
    assert float(error.errors["compliance"]) < 1e-6
    assert error.missing["mesh"].startswith("chains, loose points and rigid bodies have no mesh")


def test_a_value_on_its_bound_has_none(tmp_path):
    """Zero would say that it does not depend on the numerics."""
    drape(tmp_path)
    problem = sim.load_scene(
        tmp_path / "scene.yaml", {"parameters.bend.bounds": [12.0, 1e3], "parameters.bend.start": 20.0}
    ).build()
    low = problem.bounds[0]
    error = estimate_shifts(problem, linearise(problem, low), causes=["step"])
    assert error.line("bend") == "not estimated on a bound" and not error.notes(problem)
    assert "step" in estimate_shifts(problem, linearise(problem, low + 0.01), causes=["step"]).line("bend")


def told_with(iterations: float) -> NumericalError:
    shifts = {
        cause: Shift(cause, {"bend": np.array(share)}, {"bend": np.array(share)}, 2.0, 1.0)
        for cause, share in (("step", 0.1), ("iterations", iterations))
    }
    return NumericalError({"bend": np.array(1.0)}, shifts, {})


def test_more_iterations_are_advised_where_they_help(tmp_path):
    problem = drape(tmp_path)
    (some,), (none,) = (told_with(share).notes(problem) for share in (0.05, 1e-6))
    assert "more iterations or shorter steps" in some
    assert "take shorter steps" in none and "iterations" not in none.partition("take")[2]


@pytest.mark.parametrize(("share", "text"), [(-2e-15, "0 %"), (0.0, "0 %"), (-0.0019, "-0.19 %"), (1.5, "times 2.5")])
def test_relative_changes_in_words(share, text):
    """What rounding alone makes is none."""
    assert share_text(share) == text
