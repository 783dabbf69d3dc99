"""Takes left out: of one material they are met as well as fitted ones; of two they are not."""

import numpy as np
import pytest

from sim.cli.command import main
from sim.identify.assess.folds import cross_validate
from sim.identify.assess.likelihood import least_loss
from sim.scene import load_scene

SPRING = """
format: 2
name: weights
world: {gravity: [0, -9.81, 0]}
time: {duration: 0.4, fps: 25, substeps: 20}
solver: {xpbd: {}}
objects:
  rope:
    chain: {from: [0, 0, 0], to: [0, -0.5, 0], points: 3, mass: 200 g,
            material: {distance: {compliance: 0.02, damping: 50 ms}}}
attachments:
  top: {on: rope, where: {y: [-0.001, null]}}
markers:
  links: {on: rope, where: {y: [null, -0.1]}}
experiments:
  a: {target: &take {file: takes.npz, key: a, rate: 25 Hz, start: frame 0, noise: 2 mm}}
  b: {target: {<<: *take, key: b}}
  c: {target: {<<: *take, key: c}}
parameters:
  compliance: {of: objects.rope.chain.material.distance.compliance, transform: log, bounds: [1e-5, 1]}
loss:
  - {match: links}
optimize: {gauss_newton: {iterations: 6}}
"""


def scene(folder, compliances):
    """Takes of ropes with these compliances."""
    path = folder / "weights.yaml"
    path.write_text(SPRING)
    rng = np.random.default_rng(5)
    np.savez(folder / "takes.npz", **{name: rng.normal(size=(11, 2, 3)) for name in "abc"})
    problem = load_scene(path).build()
    links, made = problem.markers["links"], {}
    for name, compliance in zip("abc", compliances, strict=True):
        s = problem.simulate(problem.space.pack({"compliance": np.array(compliance)}), problem.experiments[:1])["a"]
        path_of = np.concatenate([links.at(s.start)[None], links.at(s.positions)])
        made[name] = path_of + rng.normal(scale=2e-3, size=path_of.shape)
    np.savez(folder / "takes.npz", **made)
    return path


def test_takes_of_one_material_predict_each_other(tmp_path):
    problem = load_scene(scene(tmp_path, (0.03, 0.03, 0.03))).build()
    found = cross_validate(problem, least_loss(problem, problem.start))
    assert [fold.take for fold in found.folds] == ["a", "b", "c"]
    assert 0.85 < found.fitted < 1.15 and found.predicted < 1.1 * found.fitted
    assert found.verdict.endswith("what is found carries over")
    assert all(abs(fold.parameters["compliance"] / 0.03 - 1) < 0.02 for fold in found.folds)


def test_takes_of_two_materials_do_not(tmp_path, capsys):
    path = scene(tmp_path, (0.03, 0.03, 0.05))
    assert main(["run", str(path), "--out", str(tmp_path / "run"), "--folds", "takes", "--no-numerics"]) == 0
    shown = capsys.readouterr().out
    assert "left out" in shown and "belongs to the takes" in shown
    assert (tmp_path / "run" / "folds.json").exists()


def test_what_cannot_be_left_out_is_refused(tmp_path):
    path = scene(tmp_path, (0.03, 0.03, 0.03))
    text = path.read_text()
    path.write_text(
        text.replace("  b: {target", "  b: {use: predict, target").replace("  c: {t", "  c: {use: predict, t")
    )
    problem = load_scene(path).build()
    with pytest.raises(ValueError, match=r"1 fitted experiment\(s\) with a recording: leaving one out takes two"):
        cross_validate(problem, problem.start)
    path.write_text(text.replace("transform: log, bounds", "per: experiment, transform: log, bounds"))
    problem = load_scene(path).build()
    with pytest.raises(ValueError, match="compliance: one value for each experiment"):
        cross_validate(problem, problem.start)


def test_one_take_is_refused_before_the_search(tmp_path, capsys):
    path = scene(tmp_path, (0.03, 0.03, 0.03))
    text = path.read_text().replace("  b: {target", "  b: {use: predict, target")
    path.write_text(text.replace("  c: {t", "  c: {use: predict, t"))
    assert main(["run", str(path), "--out", str(tmp_path / "run"), "--folds", "takes"]) == 2
    assert "leaving one out takes two" in capsys.readouterr().err and not (tmp_path / "run").exists()
