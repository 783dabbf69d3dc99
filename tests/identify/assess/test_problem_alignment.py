"""Recordings in another unit, with other axes, or of something that is elsewhere: said before a search, and only
then."""

import numpy as np
import pytest
from tools.places import ROOT
from tools.scenes.problems import SHEET, write_scene

import sim
from sim.cli import main
from sim.io import Recording, write_recording


def notes(tmp_path, change, text=SHEET, still=6, overrides=()):
    """The warnings of SHEET about its recording, which is its start, changed."""
    path = write_scene(tmp_path, text)
    without = sim.load_scene(path, overrides=overrides).without("experiments", "parameters", "loss")
    problem = without.build(dtype=sim.float64)
    here = problem.markers["corners"].at(problem.model.particle_q.numpy().astype(float))
    frames = np.stack([change(here + 1e-3 * k) for k in range(still)])
    write_recording(tmp_path / "target.npz", corners=Recording(frames, np.arange(still) * 0.05))
    return on_recordings(sim.load_scene(path, overrides=overrides))


BALL = """\
format: 2
time: {duration: 0.3, fps: 20, substeps: 50}
objects: {ball: {position: [0, HEIGHT, 0], body: {shapes: {b: {sphere: {radius: 30 mm}, density: 500}}}}}
markers: {ball: {on: ball, where: {all: true}}}
experiments: {take: {target: {file: take.csv, noise: 1 mm}}}
parameters: {v: {of: objects.ball.velocity.0}}
loss: [{match: ball}]
"""


def on_recordings(scene):
    """The ball of SHEET is narrower than its triangles, which is another warning."""
    told = scene.build(dtype=sim.float64).description.notes
    return tuple(note for note in told if "fits between points" not in note)


@pytest.mark.parametrize("factor, unit", [(1000, "mm"), (100, "cm"), (10, "dm"), (1e-3, "km"), (1e6, "um")])
def test_a_unit_is_suggested(tmp_path, factor, unit):
    (note,) = notes(tmp_path, lambda x: factor * x)
    assert f"is the unit of the file {unit} (`unit: {unit}`)?" in note and "experiments.one.target" in note


def test_the_unit_is_that_of_the_file_and_not_a_factor_on_it(tmp_path):
    (note,) = notes(tmp_path, lambda x: x, text=SHEET.replace("noise: 10 mm", "noise: 10 mm, unit: mm"))
    assert "is the unit of the file m (`unit: m`)?" in note


def test_axes_are_those_of_the_file_and_not_on_top_of_what_is_written(tmp_path):
    (note,) = notes(tmp_path, lambda x: x, text=SHEET.replace("noise: 10 mm", "noise: 10 mm, axes: [y, -x, z]"))
    assert "with `axes: [x, y, z]` it would lie as they do" in note


def test_something_elsewhere(tmp_path):
    (note,) = notes(tmp_path, lambda x: x + [999, 0, 0])
    assert (
        "first frame is 999 m away from the markers `corners` (median)" in note
        and "unit, the axes, or the start" in note
    )


@pytest.mark.parametrize(
    "axes, turn", [("[x, z, -y]", lambda x: x[:, [0, 2, 1]] * [1, -1, 1]), ("[z, x, y]", lambda x: x[:, [1, 2, 0]])]
)
def test_axes_are_suggested_that_bring_it_back(tmp_path, axes, turn):
    recorded = []

    def change(x):
        recorded.append(x)
        return turn(x)

    (note,) = notes(tmp_path, change)
    assert f"with `axes: {axes}` it would lie as they do" in note, note
    fixed = SHEET.replace("noise: 10 mm", f"noise: 10 mm, axes: {axes}")
    assert on_recordings(sim.load_scene(write_scene(tmp_path, fixed))) == ()


@pytest.mark.parametrize("change", [
    lambda x: x, lambda x: x + [0.8, -0.5, 0.9], lambda x: 1.6 * x, lambda x: 0.5 * x,
    lambda x: x[:, [1, 0, 2]] * [-1, 1, 1] * 0.3 + x * 0.7,
    lambda x: np.where(np.arange(len(x))[:, None] < 2, np.nan, x),
    lambda x: x + np.random.default_rng(0).normal(0, 0.2, x.shape),
], ids=["same", "offset", "larger", "smaller", "sheared", "half seen", "noisy"])  # fmt: skip
def test_what_is_no_reason_to_worry(tmp_path, change):
    assert not [note for note in notes(tmp_path, change) if "first frame" in note]


def test_displacements_do_not_mind_where_they_happen(tmp_path):
    text = SHEET.replace("{match: corners}", "{match: corners, compare: displacement}")
    assert notes(tmp_path, lambda x: x + [999, 0, 0], text=text) == ()
    (note,) = notes(tmp_path, lambda x: 1000 * x, text=text)
    assert "unit: mm" in note


def test_a_position_that_is_sought_may_be_anywhere(tmp_path):
    text = SHEET.replace(
        "stretch: {of: objects.sheet.cloth.material.distance.compliance, transform: log, bounds: [1e-4, 10]}",
        "place: {of: objects.sheet.position}",
    )
    assert notes(tmp_path, lambda x: x + [999, 0, 0], text=text) == ()


@pytest.mark.parametrize(("height", "told"), [(0.53, False), (5.3, True)])
def test_a_single_point_is_held_against_what_its_recording_spans(tmp_path, height, told):
    """A lone body has no size of its own in its marker: a slip of the decimal point was not told."""
    fall = np.array([0.53 - 0.5 * 9.81 * (k / 20) ** 2 for k in range(7)])
    take = sim.io.Recording(np.stack([0 * fall, fall, 0 * fall], -1)[:, None], np.arange(7) / 20)
    sim.io.write_recording(tmp_path / "take.csv", ball=take)
    (tmp_path / "scene.yaml").write_text(BALL.replace("HEIGHT", str(height)))
    found = sim.load_scene(tmp_path / "scene.yaml").build().description.notes
    off = "4.77 m away from the markers `ball` (median), and the recording spans 0.429 m: is it the unit, the axes,"
    wanted = [off] * told
    assert [words for note in found for words in wanted if words in note] == wanted and bool(found) == told


@pytest.mark.parametrize("name", ["chain", "cloth", "beam", "throw", "cable", "wave"])
def test_scenes_as_shipped(name):
    notes = sim.load_scene(ROOT / "scenes" / f"{name}.yaml").build(dtype=sim.float64).description.notes
    assert not [note for note in notes if "first frame" in note]


def test_check_and_run_show_it(tmp_path, capsys):
    notes(tmp_path, lambda x: 1000 * x)
    assert main(["check", str(tmp_path / "scene.yaml")]) == 0
    assert "warning: experiments.one.target: the recording's first frame is" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "scene.yaml"), "--out", str(tmp_path / "run"), "--iterations", "1"]) == 0
    assert "note: experiments.one.target: the recording's first frame is" in capsys.readouterr().out
