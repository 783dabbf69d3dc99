"""`start: equilibrium`: scenes that begin at rest under their loads, gradients through that, and those that cannot."""

import numpy as np
import pytest

import sim
from sim.io import Recording, write_recording
from sim.scene import load_scene
from sim.schema.errors import SceneError

HANGING = """
format: 2
name: hanging
time: {duration: 0.1, fps: 50, substeps: 4}
start: equilibrium
solver: {xpbd: {iterations: 20}}
objects:
  sheet:
    cloth:
      grid: {size: [0.3, 0.2], cells: [3, 2]}
      density: 0.3
      material:
        membrane_stvk: {young: 5 kPa, poisson: 0.3, thickness: 1 mm, damping: 5 ms}
        bend: {compliance: 500}
attachments:
  hand: {on: sheet, where: {y: [0.199, null]}, turn: [0.1, 0, 0.2], motion: {swing: [0, 0, 50 mm], frequency: 4 Hz}}
markers:
  seen: {on: sheet, where: {y: [null, 0.15]}}
experiments:
  still: {target: {file: take.npz, key: seen, noise: 1 mm}}
parameters:
  young: {of: objects.sheet.cloth.material.membrane_stvk.young, transform: log, bounds: [1e3, 1e5]}
  turn: {of: attachments.hand.turn.0}
loss:
  - {match: seen}
"""


def hanging(folder, text=HANGING):
    if not (folder / "take.npz").exists():
        (folder / "scene.yaml").write_text(HANGING)
        made = load_scene(folder / "scene.yaml").without("experiments", "parameters", "loss").build()
        seen = made.markers["seen"].at(made.simulate()["main"].positions)
        write_recording(folder / "take.npz", seen=Recording(seen, made.experiments[0].schedule.times))
    (folder / "scene.yaml").write_text(text)
    return load_scene(folder / "scene.yaml")


def test_it_begins_at_rest_and_stays_there_until_something_moves(tmp_path):
    held = HANGING.replace(", motion: {swing: [0, 0, 50 mm], frequency: 4 Hz}", "").replace(
        "substeps: 4", "substeps: 20"
    )
    problem = hanging(tmp_path, held).build()
    made = problem.simulate()["still"]
    sunk = made.start - problem.model.particle_q.numpy()
    assert sunk[:, 1].min() < -0.005
    moved = np.abs(made.positions - made.start).max()
    assert moved < 0.02 * np.abs(sunk).max()  # what 20 sweeps leave undone


@pytest.mark.parametrize("memory", ["damping: 5 ms", "branches: [{stiffness: 0.5, time: 30 ms}]"])
def test_the_gradient_goes_through_it(tmp_path, memory):
    problem = hanging(tmp_path, HANGING.replace("damping: 5 ms", memory)).build()
    x = problem.start + np.array([0.3, -0.05])
    value, gradient = problem.value_and_grad(x)
    assert value > 1.0
    for k, h in enumerate((1e-4, 1e-3)):
        near, far = (problem.value(x + t * np.eye(2)[k]) - problem.value(x - t * np.eye(2)[k]) for t in (h, 2 * h))
        assert abs(gradient[k] / ((8 * near - far) / (12 * h)) - 1) < 1e-7


def test_the_truth_is_found_from_a_sheet_at_rest(tmp_path):
    text = HANGING.replace("young: 5 kPa", "young: 8 kPa")
    found = hanging(tmp_path, text).build().optimize()
    assert abs(found.parameters["young"] / 5e3 - 1) < 1e-3 and found.loss < 1e-6


def test_an_experiment_may_begin_otherwise(tmp_path):
    text = HANGING.replace("still: {", "given: {start: given, use: predict}\n  still: {")
    problem = hanging(tmp_path, text).build()
    made = problem.simulate()
    free = problem.model.particle_inv_mass.numpy() > 0
    np.testing.assert_array_equal(made["given"].start[free], problem.model.particle_q.numpy()[free])
    assert np.abs(made["still"].start - made["given"].start).max() > 1e-3


@pytest.mark.parametrize("change, words", [
    ({"attachments:": "  rope: {chain: {from: [0, 0, 0], to: [0, 1, 0], points: 3, mass: 1}}\nattachments:"},
     r"start: .*nothing holds `rope`"),
    ({"damping: 5 ms}": "branches: [{stiffness: 0.2, yield: 0.01}]}"}, r"start: .*branches that yield"),
    ({"loss:": "shapes:\n  floor: {plane: {point: [0, -1, 0], normal: [0, 1, 0]}, friction: 0.3}\nloss:"},
     r"start: .*friction"),
])  # fmt: skip
def test_what_has_no_rest_is_told_at_its_place(tmp_path, change, words):
    text = HANGING
    for old, new in change.items():
        assert old in text
        text = text.replace(old, new)
    scene = hanging(tmp_path, text)
    with pytest.raises(SceneError, match=words):
        scene.build(dtype=sim.float64)


def test_a_mistyped_start_is_told_at_its_place(tmp_path):
    with pytest.raises(SceneError, match="equilibriun") as error:
        hanging(tmp_path, HANGING.replace("start: equilibrium", "start: equilibriun"))
    assert [p.path for p in error.value.problems] == ["start"]


def test_a_parameter_of_nothing_is_told_at_its_place(tmp_path):
    with pytest.raises(SceneError, match="nothing is named that is sought") as error:
        hanging(tmp_path, HANGING.replace("{of: attachments.hand.turn.0}", "{of: {}}"))
    assert [p.path for p in error.value.problems] == ["parameters.turn.of"]
