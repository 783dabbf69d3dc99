"""Scenes with solids: lattices and meshes, loads, carried markers, measures, experiments that differ in their load."""

import numpy as np
import pytest
from tools.physics.solids import BOX, sphere, write_tetgen
from tools.scenes.problems import write_scene

import sim
from sim.cli import main
from sim.identify.assess.gradcheck import check_gradient
from sim.identify.run import run_problem
from sim.io import Recording, write_recording

BAR = """\
format: 1
name: bar
world: {gravity: [-9.81, 0, 0]}
time: {duration: 0.3, fps: 100, substeps: 20}
solver: {xpbd: {start: elastic}}
objects:
  bar:
    soft:
      lattice: {origin: [1 cm, 0, 2 cm], size: [3 cm, 3 cm, 9 cm], cells: [1, 1, 3]}
      density: 1070 kg/m^3
      material:
        stvk: {young: 1e5, poisson: 0.4, damping: 2 ms}
attachments:
  clamp: {on: bar, where: {z: [null, 2 cm]}}
loads:
  weight: {on: bar, where: {x: [null, 1.01 cm], z: [10.9 cm, null]}, mass: 0}
markers:
  tip: {on: bar, at: [[2.5 cm, 1.5 cm, 11.3 cm], [0.5 cm, 1 cm, 10 cm]]}
measures:
  drop: {of: tip, along: gravity, kind: settled, last: 0.1}
  ring: {of: tip, along: gravity, kind: frequency}
  decay: {of: tip, along: gravity, kind: damping_ratio}
experiments:
  free: {target: {file: target.npz, key: free, noise: 0.1 mm}}
  again: {target: {file: target.npz, key: free, noise: 0.1 mm}}
  loaded:
    use: predict
    target: {file: target.npz, key: loaded, noise: 0.1 mm}
    set: {loads.weight.mass: 20 g, time.duration: 0.5}
parameters:
  young: {of: objects.bar.soft.material.stvk.young, transform: log, bounds: [1e4, 1e6], start: 1.6e5}
  damping: {of: objects.bar.soft.material.stvk.damping, transform: log, bounds: [10 us, 20 ms]}
loss:
  - {match: tip, compare: displacement}
  - {prior: damping, value: 2 ms, factor: 10, weight: 0.01}
optimize:
  lbfgs: {iterations: 12}
  rollout: {checkpointed: {every: 20}}
expect:
  parameters.young: {value: 1e5, within: 2 %}
  experiments.loaded.drop: {measured: true, within: 2 %}
  experiments.loaded.ring: {measured: true, within: 2 %}
  experiments.free.decay: {measured: true, within: 20 %}
"""


def write_target(folder, text):
    """What the bar does with the values in the scene: 0.5 s of both experiments, frame 0 included."""
    text = text[: text.index("experiments:")] + "experiments:\n  free: {}\n  loaded: {set: {loads.weight.mass: 20 g}}\n"
    problem = sim.load_scene(write_scene(folder, text.replace("duration: 0.3", "duration: 0.5"))).build(
        dtype=sim.float64
    )
    found = problem.simulate()
    tip = problem.markers["tip"]
    takes = {}
    for name, s in found.items():
        places = np.concatenate([tip.at(s.start)[None], tip.at(s.positions)])
        takes[name] = Recording(places, np.concatenate([[0.0], s.times]))
    write_recording(folder / "target.npz", **takes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bar")
    write_target(path, BAR)
    return path


def built(folder, text=BAR):
    return sim.load_scene(write_scene(folder, text)).build(dtype=sim.float64)


def test_gradients_of_a_scene_of_solids(folder):
    extra = """  density: {of: objects.bar.soft.density, bounds: [500, 2000]}
  poisson: {of: objects.bar.soft.material.stvk.poisson, bounds: [0.1, 0.49]}
  weight: {of: loads.weight.mass, bounds: [0, 1]}
loss:"""
    text = BAR.replace("loss:", extra).replace("loads.weight.mass: 20 g, ", "").replace("mass: 0}", "mass: 5 g}")
    text = text[: text.index("expect:")].replace("duration: 0.3", "duration: 0.05")
    problem = built(folder, text)
    assert problem.parameters == ["young", "damping", "density", "poisson", "weight"]
    for row in check_gradient(problem):
        assert row.ok, row


def test_the_arm_of_a_load_is_identified(folder):
    """The same drop and ring follow from many pairs of mass and arm; one place of the arm is sought, two are given."""
    text = BAR.replace("x: [null, 1.01 cm], z: [10.9", "z: [10.9")
    text = text.replace("mass: 0}", "mass: 5 g, arm: [0, 1 mm, 2 cm]}")
    extra = "  arm: {of: loads.weight.arm.2, start: 1 cm, bounds: [0, 1]}\nloss:"
    text = text.replace("loss:", extra).replace("loads.weight.mass: 20 g, ", "")
    problem = built(folder, text[: text.index("expect:")].replace("duration: 0.3", "duration: 0.05"))
    assert problem.parameters == ["young", "damping", "arm"]
    assert problem.model["weight.arm"].numpy().tolist() == [[0.0, 0.001, 0.02]]
    rows = {row.parameter: row for row in check_gradient(problem)}
    assert rows["arm"].ok and rows["arm"].gradient != 0.0, rows["arm"]


def test_how_every_take_was_held_is_identified(folder):
    """`per: experiment`: one turn of the clamp for each take, that of a predicted one as it is set."""
    text = BAR.replace("z: [null, 2 cm]}}", "z: [null, 2 cm]}, turn: [0, 0, 0]}").replace(
        "loads.weight.mass: 20 g,", "attachments.clamp.turn: [0, 2 deg, 0],"
    )
    extra = "  held: {of: attachments.clamp.turn.1, per: experiment, scale: 1 deg}\nloss:"
    text = text.replace("loss:", extra)
    problem = built(folder, text[: text.index("expect:")].replace("duration: 0.3", "duration: 0.05"))
    np.testing.assert_allclose(problem.physical()["held"], [0.0, 0.0, np.radians(2.0)])
    rows = [row for row in check_gradient(problem) if row.parameter.startswith("held")]
    assert len(rows) == 1 and rows[0].ok and rows[0].gradient != 0.0, rows
    found = problem.simulate()
    assert not np.array_equal(found["loaded"].start, found["free"].start)


def test_identification_and_prediction(folder, tmp_path):
    problem = built(folder)
    outcome = run_problem(problem, tmp_path / "run")
    assert outcome.status == 0, outcome.result["expect"]
    loaded = outcome.result["experiments"]["loaded"]
    assert loaded["use"] == "predict"
    assert loaded["drop"]["measured"] == pytest.approx(loaded["drop"]["simulated"], rel=0.02)
    assert abs(loaded["ring"]["error"]) < 0.02
    assert outcome.result["experiments"]["free"]["drop"]["measured"] < 0.7 * loaded["drop"]["measured"]
    assert "as measured, within 2 %" in outcome.result["expect"][1]["want"]
    assert (tmp_path / "run" / "report.html").read_text().count("drop") > 1


def test_experiments_that_differ_in_their_target_alone_share_a_rollout(folder):
    problem = built(folder)
    assert [len(g) for g in problem._evaluator.groups(problem.experiments)] == [2, 1]


def test_carried_markers_start_where_the_scene_says(folder):
    problem = built(folder)
    tip = problem.markers["tip"]
    places = tip.at(problem.model.particle_q.numpy())
    np.testing.assert_allclose(places, [[0.025, 0.015, 0.113], [0.005, 0.01, 0.1]], atol=1e-12)
    assert tip.points.shape == tip.weights.shape == (2, 4)


def test_a_wrong_measure_is_not_met(folder, tmp_path):
    text = BAR.replace("start: 1.6e5", "start: 2e5").replace("lbfgs: {iterations: 12}", "lbfgs: {iterations: 1}")
    text = text.replace("duration: 0.3", "duration: 0.05")
    problem = built(folder, text)
    outcome = run_problem(problem, tmp_path / "run")
    assert outcome.status == 1


# ------------------------------------------------------------------------------------------ meshes
def mesh_scene(mesh):
    text = BAR[: BAR.index("attachments:")]
    a, b = text.index("      lattice:"), text.index("      density:")
    return text[:a] + f"      mesh: {mesh}\n" + text[b:]


def test_tetrahedra_from_files(tmp_path):
    write_tetgen(tmp_path, BOX.mesh.positions, BOX.mesh.tets[:, [1, 0, 2, 3]], 1)
    problem = built(tmp_path, mesh_scene("{file: body.node, unit: mm, axes: [z, x, y]}"))
    group = problem.model.groups["bar"]
    np.testing.assert_allclose(group.positions, BOX.mesh.positions[:, [2, 0, 1]] * 1e-3)
    assert "120 of 120 tetrahedra were numbered inside out" in problem.description.notes[0]
    assert problem.model.particle_mass.numpy().sum() == pytest.approx(1070 * 0.2 * 0.6 * 1.2 * 1e-9)


def test_a_closed_surface_is_filled(tmp_path):
    x, triangles = sphere(2)
    lines = [f"v {a} {b} {c}" for a, b, c in x] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in triangles]
    (tmp_path / "ball.obj").write_text("\n".join(lines))
    problem = built(tmp_path, mesh_scene("{file: ball.obj, tetrahedralize: {lattice: 10}}"))
    group = problem.model.groups["bar"]
    assert problem.model.particle_mass.numpy().sum() == pytest.approx(1070 * 4 / 3 * np.pi / 8, rel=0.12)
    np.testing.assert_allclose(group.surface.embedding.at(group.positions), x, atol=1e-12)
    with pytest.raises(sim.SceneError, match="Add `tetrahedralize"):
        built(tmp_path, mesh_scene("{file: ball.obj}"))
    (tmp_path / "open.obj").write_text("\n".join(lines[:-1]))
    with pytest.raises(sim.SceneError, match="not closed"):
        built(tmp_path, mesh_scene("{file: open.obj, tetrahedralize: {lattice: 10}}"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("poisson: 0.4", "poisson: 0.5", r"poisson.*\(-1, 0.5\)|poisson.*below 0.5|0.5"),
        ("poisson: 0.4, ", "", "poisson"),
        ("young: 1e5", "young: 3 mm", "length"),
        ("stvk: {young: 1e5, poisson: 0.4, damping: 2 ms}", "stvk: {compliance: 1}", "compliance"),
        ("stvk: {young: 1e5, poisson: 0.4, damping: 2 ms}", "bend: {compliance: 1}", "bend"),
        ("z: [10.9 cm, null]}, mass", "z: [50 cm, null]}, mass", "chooses none"),
        ("kind: frequency}", "kind: frequency, last: 1}", "last"),
    ],
)
def test_bad_scenes_of_solids(folder, old, new, message):
    assert old in BAR
    with pytest.raises(sim.SceneError, match=message):
        built(folder, BAR.replace(old, new, 1))


def test_solids_are_not_for_cloth(tmp_path):
    text = BAR[: BAR.index("attachments:")]
    a, b = text.index("    soft:"), text.index("      material:")
    text = text[:a] + "    cloth:\n      grid: {size: [1, 1], cells: [2, 2]}\n      density: 1\n" + text[b:]
    with pytest.raises(sim.SceneError, match="`stvk` does not act on a `cloth`"):
        built(tmp_path, text)


# ------------------------------------------------------------------------------------------ steps that are too long
def test_check_warns_of_long_steps(folder, capsys):
    notes = built(folder).description.notes
    assert not [n for n in notes if "steps of" in n]
    soft = built(folder, BAR.replace("start: elastic", "start: zero")).description.notes
    assert any("too soft by about" in n and "`start: elastic`" in n for n in soft)
    stiff = built(
        folder,
        BAR.replace("young: 1e5", "young: 1e7").replace("bounds: [1e4, 1e6], start: 1.6e5", "bounds: [1e4, 1e8]"),
    )
    assert any("use more substeps" in n for n in stiff.description.notes)
    write_scene(folder, BAR.replace("start: elastic", "start: zero"))
    assert main(["check", str(folder / "scene.yaml")]) == 0
    assert "too soft by about" in capsys.readouterr().out


def test_the_warning_tells_the_truth(folder):
    """What it says of the published start, against a run with steps eight times as short."""

    def drop(substeps, start):
        text = BAR.replace("substeps: 20", f"substeps: {substeps}").replace("start: elastic", f"start: {start}")
        text = text[: text.index("parameters:")].replace("duration: 0.3", "duration: 0.5")
        problem = built(folder, text)
        return problem, problem.measure(problem.simulate()["free"])["drop"]["simulated"]

    problem, got = drop(20, "zero")
    said = float(next(n for n in problem.description.notes if "too soft" in n).split("about ")[1].split(" %")[0]) / 100
    _, true = drop(40, "elastic")
    assert 0.5 < said / (got / true - 1) < 2.0


def test_the_second_solver_in_a_scene(folder):
    text = BAR[: BAR.index("parameters:")].replace("substeps: 20", "substeps: 100")
    one = built(folder, text)
    other = built(folder, text.replace("{xpbd: {start: elastic}}", "{semi_implicit: {}}"))
    assert isinstance(other.solver, sim.SolverSemiImplicit)
    a, b = (p.measure(p.simulate()["loaded"]) for p in (one, other))
    assert a["drop"]["simulated"] == pytest.approx(b["drop"]["simulated"], rel=0.01)
    assert a["ring"]["simulated"] == pytest.approx(b["ring"]["simulated"], rel=0.01)
