"""Lists of numbers as parameters, whole or by entry: the targets of a drive; motions of a body in a scene."""

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import write_scene

import sim
from sim.identify.parameters.parameters import Binding
from sim.scene import SceneError

ARM = """
format: 2
time: {duration: 0.1, fps: 20 Hz, substeps: 2}
objects:
  hand: {body: {mass: 0, motion: [{turn: [0, 0, 90 deg], end: 1 s}, {swing: [0, 1 cm, 0], frequency: 2 Hz}]}}
  arm: {body: {mass: 1 kg, inertia: [0.001, 0.1, 0.1]}, position: [0.5, 0, 0]}
joints:
  wrist:
    revolute: {axis: [0, 0, 1]}
    parent: hand
    child: arm
    at: [0, 0, 0]
    drive: {stiffness: 1, keys: {times: [0, 1, 2], values: [0, 10 deg, 20 deg]}}
markers:
  tip: {on: arm, at: [[1, 0, 0]]}
loss:
  - {reach: {marker: tip, point: [1, 0, 0], at: last, scale: 1 mm}}
parameters:
  targets: {of: joints.wrist.drive.keys.values, bounds: [-90 deg, 90 deg]}
  turn: {of: objects.hand.body.motion.0.turn}
"""


def arm(tmp_path, text=ARM):
    return sim.load_scene(write_scene(tmp_path, text)).build(dtype=sim.float64)


def test_the_whole_list(tmp_path):
    problem = arm(tmp_path)
    assert problem.space.shapes == {"targets": (3,), "turn": (3,)}
    start = problem.physical(problem.start)
    np.testing.assert_allclose(start["targets"], np.deg2rad([0, 10, 20]))
    np.testing.assert_allclose(start["turn"], [0, 0, np.pi / 2])
    again = sim.load_scene(write_scene(tmp_path, problem.description.resolved)).build()
    assert again.description.resolved == problem.description.resolved


def test_an_entry(tmp_path):
    problem = arm(tmp_path, ARM.replace("keys.values,", "keys.values.1,"))
    start = problem.physical(problem.start)
    assert np.shape(start["targets"]) == () and float(start["targets"]) == pytest.approx(np.deg2rad(10))
    binding = Binding("wrist.target_keys", 2.0, np.arange(3) == 1)
    np.testing.assert_array_equal(binding.scatter(np.array(7.0), np.ones(3)), [1, 14, 1])
    assert float(binding.pull_back(np.array([1.0, 2.0, 3.0]), ())) == 4.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("end: 1 s", "start: 2 s, end: 1 s", "the turn ends at 1 s and starts at 2 s"),
        ("mass: 0,", "mass: 1, inertia: [1, 1, 1],", "motion of a body that is free"),
        ("frequency: 2 Hz", "end: 2", "frequency"),
        ("keys.values,", "keys.values.3,", "keys.values.3"),
    ],
)
def test_what_is_refused(tmp_path, old, new, said):
    with pytest.raises(SceneError, match=said):
        arm(tmp_path, ARM.replace(old, new))


def test_the_mesh_of_a_scene_with_bodies_is_refined():
    """The estimate of its error leaves constraints on bodies out."""
    problem = sim.load_scene(ROOT / "scenes" / "wave.yaml").build(dtype=sim.float64)
    finer = problem.finer_mesh()
    assert finer.model.particle_count > 3 * problem.model.particle_count
