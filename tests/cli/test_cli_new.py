"""`simopt new`: scenes to begin with, alone and around the markers of a recording."""

import json
import re

import numpy as np
import pytest

from sim.cli import main
from sim.cli.begin.layout import LAYOUTS, MADE_UP, Marks, lay_beam, lay_cloth, lay_rope
from sim.io import Recording, export_run, load_recording, load_run, write_recording
from sim.scene import load_scene

RATE = 60.0
SLOW = pytest.mark.slow


def take(folder, points, name="take.csv", moves=0.02):
    """A take in metres: markers that rest for 0.2 s, then swing, all but the first; with a little noise."""
    points = np.asarray(points, float)
    t = np.arange(60) / RATE
    x = np.repeat(points[None], len(t), axis=0)
    x[:, 1:, 0] += moves * np.where(t > 0.2, 1 - np.cos(9 * (t - 0.2)), 0)[:, None]
    x += 1e-4 * np.random.default_rng(0).normal(size=x.shape)
    return write_recording(folder / name, take=Recording(x, t, tuple(f"dot {k}" for k in range(len(points)))))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_new_scene_is_sound(kind, tmp_path, capsys):
    scene = tmp_path / f"{kind}.yaml"
    assert main(["new", kind, "-o", str(scene)]) == 0
    assert f"simopt run {scene}" in capsys.readouterr().out
    assert main(["check", str(scene), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


@pytest.mark.parametrize(
    "kind", ["cloth", "rope", "body", *(pytest.param(kind, marks=SLOW) for kind in ("beam", "solid"))]
)
def test_a_new_scene_runs(kind, tmp_path):
    scene = tmp_path / f"{kind}.yaml"
    assert main(["new", kind, "-o", str(scene)]) == 0
    assert main(["run", str(scene), "--set", "time.duration=0.05", "--out", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_scene_around_a_recording_is_sound(kind, tmp_path, capsys):
    points = MADE_UP[kind].at + [0.3, 0.5, -0.2]
    take(tmp_path, points)
    assert main(["new", kind, "--from", str(tmp_path / "take.csv")]) == 0
    capsys.readouterr()
    assert main(["check", str(tmp_path / f"{kind}.yaml"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"] and facts["points"]["seen (markers)"] == len(points)
    assert [w for w in facts["warnings"] if "marker" in w] == []
    problem = load_scene(tmp_path / f"{kind}.yaml").build()
    (group,) = problem.model.groups.values()
    begun = problem.markers["seen"].at(group.positions)
    np.testing.assert_allclose(begun, points, atol=1e-3)  # the last frame before motion stands out of the noise


def test_it_says_what_the_recording_does_not(tmp_path, capsys):
    lines = [
        "time,a_x (mm),a_y (mm),a_z (mm),b_x (mm),b_y (mm),b_z (mm)",
        "0,0,0,900,300,0,900",
        "0.01,0,0,901,300,5,903",
    ]
    (tmp_path / "take.csv").write_text("\n".join(lines) + "\n")
    assert main(["new", "rope", "--from", str(tmp_path / "take.csv")]) == 2
    said = capsys.readouterr().err
    assert "--up z" in said and "simopt import" not in said and not (tmp_path / "rope.yaml").exists()
    assert main(["new", "rope", "--from", str(tmp_path / "take.csv"), "--up", "z"]) == 0
    text = (tmp_path / "rope.yaml").read_text()
    assert "up: z" in text and "{seen: [a, b]}" in text and "unit" not in text.split("target:")[1]


def test_what_is_in_the_way_or_no_such_object_is_an_error(tmp_path, capsys):
    (tmp_path / "cloth.yaml").write_text("mine")
    take(tmp_path, MADE_UP["rope"].at)
    line = ["new", "cloth", "--from", str(tmp_path / "take.csv")]
    for words, said in (
        (line, "left alone"),
        ([*line, "-o", str(tmp_path / "x.yaml")], "not on a line"),
        (["new", "rope", *line[2:], "-o", str(tmp_path / "below" / "x.yaml")], "beside the recording"),
        (["new", "cloth", "--up", "z", "-o", str(tmp_path / "x.yaml")], "name one by --from"),
        ([*line, "--markers", "dot 9", "-o", str(tmp_path / "x.yaml")], "no marker"),
    ):
        assert main(words) == 2, words
        assert said in capsys.readouterr().err, words
    assert (tmp_path / "cloth.yaml").read_text() == "mine" and not (tmp_path / "x.yaml").exists()


def test_markers_that_the_first_frame_misses_are_left_out_and_told(tmp_path, capsys):
    path = take(tmp_path, MADE_UP["rope"].at)
    seen = load_recording(path)
    x = seen.positions.copy()
    x[::2, 3] = x[1::2, 4] = np.nan  # never both
    write_recording(path, take=Recording(x, seen.time, seen.labels))
    assert main(["new", "rope", "--from", str(path)]) == 0
    assert "without dot 3" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "rope.yaml")]) == 0


def test_what_is_held_and_moves_is_told(tmp_path, capsys):
    take(tmp_path, MADE_UP["cloth"].at[::-1], moves=0.1)
    assert main(["new", "cloth", "--from", str(tmp_path / "take.csv")]) == 0
    assert "give it a `motion`" in capsys.readouterr().out


def test_a_sheet_that_lies_and_one_that_hangs_askew():
    flat = np.array([[0, 0, 0], [0.4, 0, 0], [0.4, 0, 0.2], [0, 0, 0.2]], float)
    lying = lay_cloth(Marks.still(flat + [0, 1, 0]))
    assert "near" in lying.values["where"] and lying.away < 1e-12
    turn = np.array([[0.6, 0, 0.8], [0, 1, 0], [-0.8, 0, 0.6]])
    hanging = lay_cloth(Marks.still(flat[:, [0, 2, 1]] @ turn.T))
    assert "y:" in hanging.values["where"] and "0.9273" in hanging.values["rotation"]
    np.testing.assert_allclose(hanging.on, flat[:, [0, 2, 1]] @ turn.T, atol=1e-12)


def test_the_end_that_moves_less_is_held():
    line = np.array([[0.2, 0, 0], [0, 0, 0], [0.1, 0, 0]])
    marks = Marks(line, np.array([0.0, 0.3, 0.1]), 0.0)
    assert lay_rope(marks).held == 0 and lay_rope(marks).values["points"].startswith("[0.2, 0, 0]")
    beam = lay_beam(marks)
    assert beam.held == 0 and beam.values["where"].startswith("{x: [0.2") and beam.values["where"].endswith("null]}")
    slanted = lay_beam(Marks.still([[0, 0, 0], [0.1, 0.1, 0], [0.2, 0.2, 0]]))
    assert slanted.values["where"].count("[") == 10


def test_a_ball_is_identified_from_a_take_of_rounded_times(tmp_path, capsys):
    """One marker of a ball that bounces, e = .8, at 120 Hz with times of 0.1 ms: .0083, .0167, .0250, ..."""
    t = np.arange(120) / 120
    first = np.sqrt(2 * 0.4 / 9.81)
    since, speed = t - first, 0.8 * 9.81 * first
    y = np.where(since < 0, 0.4 - 0.5 * 9.81 * t**2, np.abs(speed * since - 0.5 * 9.81 * since**2))
    seen = t < first + 2 * speed / 9.81 - 0.02  # until it comes back
    x = np.stack([0 * y, y + 0.03, 0 * y], axis=1)[seen] + 5e-4 * np.random.default_rng(0).normal(size=(seen.sum(), 3))
    rows = [f"{round(s, 4)},{a:.5f},{b:.5f},{c:.5f}" for s, (a, b, c) in zip(t[seen], x, strict=True)]
    (tmp_path / "ball.csv").write_text("\n".join(["time,ball.x,ball.y,ball.z", *rows]))
    assert main(["new", "body", "--from", str(tmp_path / "ball.csv"), "-o", str(tmp_path / "ball.yaml")]) == 0
    text = (tmp_path / "ball.yaml").read_text()
    assert "fps: 120," in text and "sphere: {radius: 0.03}" in text and "align" not in text
    run = ["run", str(tmp_path / "ball.yaml"), "--out", str(tmp_path / "run")]
    floor = ["--set", "shapes.floor.plane.point.1=0"]
    assert main([*run, *floor]) == 0
    found = json.loads((tmp_path / "run" / "result.json").read_text())["parameters"]["restitution"]
    assert abs(found["final"] - 0.8) < 3 * found["standard_error"] < 0.03
    assert re.search(r"speed 3 numbers \+- up to 0\.\d+ m/s \(noise\)", capsys.readouterr().out)


@pytest.mark.slow
def test_a_beam_is_identified_from_a_take_alone(tmp_path):
    """What the made-up beam does with another modulus is found by the scene that is written around it."""
    truth = tmp_path / "truth.yaml"
    assert main(["new", "beam", "-o", str(truth)]) == 0
    run = ["run", str(truth), "--set", "objects.beam.soft.material.stvk.young=3e5", "--out", str(tmp_path / "run")]
    assert main(run) == 0
    (file,) = export_run(load_run(tmp_path / "run"), "csv", tmp_path / "motion.csv")
    moved = load_recording(file)
    x = np.concatenate([np.repeat(MADE_UP["beam"].at[None], 12, axis=0), moved.positions])
    write_recording(tmp_path / "take.csv", take=Recording(x, np.arange(len(x)) / RATE, ("a", "b", "c")))
    assert main(["new", "beam", "--from", str(tmp_path / "take.csv")]) == 0
    found = ["run", str(tmp_path / "beam.yaml"), "--no-numerics", "--out", str(tmp_path / "found")]
    assert main(found) == 0
    result = json.loads((tmp_path / "found" / "result.json").read_text())
    assert abs(result["parameters"]["young"]["final"] / 3e5 - 1) < 0.02
