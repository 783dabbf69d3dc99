"""What would be misread or silently wrong in an identification is refused, with what to do."""

import numpy as np
import pytest
from tools.scenes.problems import SHEET, sheet, write_scene, write_target

import sim
from sim.cli import main
from sim.identify.problem import Problem
from sim.identify.search.objectives import ObjectiveError
from sim.scene import SceneError

TRUE = {"objects.sheet.cloth.material.distance.compliance": 0.02}


def test_a_scale_of_a_logarithm_has_no_unit(tmp_path):
    write_target(tmp_path, SHEET)
    with pytest.raises(SceneError, match=r"`0.01 m/N` is a compliance, expected a number"):
        sim.load_scene(write_scene(tmp_path, SHEET.replace("transform: log,", "transform: log, scale: 0.01 m/N,")))
    plain = SHEET.replace("transform: log,", "scale: 10 mm/N,")
    assert sheet(tmp_path, plain).sought[0].transform.scale == pytest.approx(0.01)


def test_a_recording_that_changed_is_not_gone_on_with(tmp_path, capsys):
    write_target(tmp_path, SHEET, overrides=TRUE)
    scene, out = str(write_scene(tmp_path, SHEET)), str(tmp_path / "run")
    assert main(["run", scene, "--out", out, "--iterations", "1"]) == 0
    assert main(["run", scene, "--out", str(tmp_path / "other"), "--iterations", "1"]) == 0
    write_target(tmp_path, SHEET, overrides=TRUE, noise=1e-3)
    capsys.readouterr()
    assert main(["run", scene, "--resume", out]) == 2
    said = capsys.readouterr().err
    assert "is a run of another scene" in said and "+contents of meshes and recordings: " in said
    write_target(tmp_path, SHEET, overrides=TRUE)
    assert main(["run", scene, "--resume", out]) == 0


def test_python_and_the_command_have_one_precision(tmp_path, monkeypatch):
    write_target(tmp_path, SHEET)
    scene = write_scene(tmp_path, SHEET)
    built = []
    prepare = Problem.__post_init__
    monkeypatch.setattr(Problem, "__post_init__", lambda problem: (prepare(problem), built.append(problem.model.dtype)))
    assert main(["check", str(scene)]) == 0
    assert built == [sim.load_scene(scene).build().model.dtype] * 2 == [sim.float64] * 2
    assert sim.load_scene(scene).build(dtype=sim.float32).model.dtype is sim.float32


def test_a_loss_below_zero_has_no_logarithm(tmp_path):
    """The search would stay above zero, where the minimum is not."""
    write_target(tmp_path, SHEET, overrides=TRUE)
    problem = sim.load_scene(write_scene(tmp_path, SHEET)).build()
    shift = problem.value(np.log([0.02])) + 0.01
    evaluate = problem.value_and_grad

    def below(x):
        loss, gradient = evaluate(x)
        return loss - shift, gradient

    with pytest.raises(ObjectiveError, match="use `optimize: {objective: plain}`"):
        sim.identify.search.loop.optimize(below, problem.start, problem.bounds)
