"""Scenes that name recordings of other programs: markers by name, unit and axes by the same rules."""

import json

import numpy as np
import pytest
from tools.files import foreign_recordings as foreign
from tools.scenes.problems import write_scene

import sim
from sim.cli import main
from sim.schema.errors import SceneError

SCENE = """\
format: 2
name: dots
time: {duration: 0.08, fps: 50, substeps: 1}
world: {gravity: [GRAVITY]}
objects:
  ball: {body: {mass: 0.1, inertia: [1e-5, 1e-5, 1e-5], sites: {a: [0, 0, 0], b: [0, 0.1, 0]}}}
markers:
  dots: {on: ball, where: {all: true}}
experiments:
  seen:
    target: {file: FILE, markers: {dots: [NAMES]}, noise: 1 m, MORE}
"""
MORE = "up: z"


def scene_of(folder, name="motive.csv", more=MORE, names="base, tip", gravity="0, -9.81, 0"):
    (folder / name).write_text(foreign.TEXTS[name]())
    text = SCENE.replace("FILE", name).replace("MORE", more).replace("NAMES", names).replace("GRAVITY", gravity)
    return sim.load_scene(write_scene(folder, text))


@pytest.mark.parametrize("name, more", [
    ("motive.csv", "up: z"),
    ("take.trc", "axes: [x, z, -y]"),
    ("anipose.csv", "up: z, unit: mm, rate: 50 Hz"),
])  # fmt: skip
def test_a_file_of_another_program_is_named_directly(tmp_path, name, more):
    (experiment,) = scene_of(tmp_path, name, more).build().experiments
    x, y, z = np.moveaxis(1e-3 * foreign.MM[1:5, ::-1], 2, 0)
    np.testing.assert_allclose(experiment.targets["dots"].positions, np.stack([x, z, -y], axis=2), atol=1e-12)


def test_up_is_against_gravity_wherever_that_points(tmp_path):
    (experiment,) = scene_of(tmp_path, gravity="0, 0, -9.81").build().experiments  # ours is z up too
    np.testing.assert_allclose(experiment.targets["dots"].positions, 1e-3 * foreign.MM[1:5, ::-1], atol=1e-12)


@pytest.mark.parametrize("options, what", [
    ({"more": "start: 0"}, "which of its axes points up"),
    ({"more": "up: z, axes: [x, y, z]"}, "axes.*up"),
    ({"more": "up: north"}, "expected .x. or .y."),
    ({"names": "base, elbow"}, "there is no marker `elbow`"),
    ({"name": "anipose.csv"}, "no rate"),
    ({"name": "anipose.csv", "more": "up: z, rate: 50 Hz"}, "names no unit"),
    ({"gravity": "1, 1, 0"}, "gravity points along none of our axes"),
])  # fmt: skip
def test_what_is_not_named_is_asked_for_at_its_place(tmp_path, options, what):
    with pytest.raises(SceneError, match=what) as caught:
        scene_of(tmp_path, **options).build()
    (problem,) = caught.value.problems
    assert problem.path.startswith("experiments.seen.target") and problem.mark.line == 11


def test_check_says_how_a_file_was_read(tmp_path, capsys):
    scene_of(tmp_path)
    assert main(["check", str(tmp_path / "scene.yaml"), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["recordings"].values()
    assert "Motive" in told and "the file says Millimeters" in told and "x, z, -y (as told)" in told
