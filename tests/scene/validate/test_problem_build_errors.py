"""Bad scenes that only building finds: each a problem with its place and what to do, all of one scene at once."""

import re

import numpy as np
import pytest
from tools.scenes.problems import SHEET, sheet, write_scene, write_target

import sim
from sim.io import Recording, write_recording

MESH = SHEET.replace("grid: {size: [1, 1], cells: [3, 3]}", "mesh: {file: mesh.obj}")
GRID = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\n"
GOOD_MESH = GRID + "f 1 2 3\nf 2 4 3\n"

# edit of the sheet's text (old, new), what the message says, and the path that it names
ROWS = {
    "empty choice": (("y: [0.999, null]", "y: [7, null]"), "where chooses none of 16 points", "attachments.top.where"),
    "index beyond": (("y: [0.999, null]", "indices: [16]"), "no point 16", "attachments.top.where"),
    "too many markers": (
        ("farthest: 4", "farthest: 13"),
        "cannot spread 13 points over 12",
        "markers.corners.farthest",
    ),
    "attached twice": (
        ("attachments:", "attachments:\n  again: {on: sheet, where: {indices: [15]}}"),
        "point 15 is attached twice",
        "attachments.top",
    ),
    "nothing free": (("y: [0.999, null]", "all: true"), "Leave some points free|No point is free|nothing is free", ""),
    "starts inside": (
        ("center: [0.36, 0.17, 0.01]", "center: [0.33, 0.33, 0.05]"),
        "points of `sheet` start inside the shape `ball`",
        "shapes.ball",
    ),
    "name used twice": (("  ball:", "  sheet:"), "the name `sheet` is taken by `objects.sheet`", "shapes.sheet"),
    "no frame": (("duration: 0.2", "duration: 0.01"), "less than one frame", "time.duration"),
    "load of nothing": (
        ("markers:", "loads: {w: {on: sheet, where: {x: [3, 4]}, mass: 1}}\nmarkers:"),
        "where chooses none of 16 points",
        "loads.w.where",
    ),
    "load with the name of an object": (
        ("markers:", "loads: {sheet: {on: sheet, where: {all: true}, mass: 1}}\nmarkers:"),
        "the name `sheet` is taken by `objects.sheet`",
        "loads.sheet",
    ),
    "semi_implicit": (
        ("objects:", "solver: {semi_implicit: {}}\nobjects:"),
        "has compliance 0, which no force can hold",
        "solver.semi_implicit",
    ),
    "too few markers": (
        ("farthest: 4", "at: [[0, 0, 0]]"),
        "has 4 markers, the scene compares 1",
        "experiments.one.target",
    ),
    "regions that leave elements out": (
        ("compliance: 33.333333333333336}", "compliance: {regions: {left: 1}}}\n    regions: {left: {x: [0, 0.4]}}"),
        "6 of 21 elements lie in no region|half of its points",
        "objects.sheet.cloth.material.bend.compliance.regions",
    ),
    "regions that share points": (
        (
            "compliance: 33.333333333333336}",
            "compliance: {regions: {a: 1, b: 2}}}\n    regions: {a: {x: [0, 0.4]}, b: {x: [0.3, 1]}}",
        ),
        "4 points lie in `a` and in `b`: 1, 5, 9",
        "objects.sheet.cloth.material.bend.compliance.regions",
    ),
    "a region of no element": (
        (
            "compliance: 33.333333333333336}",
            "compliance: {regions: {a: 1, b: 2}}}\n    regions: {a: {x: [0.1, 1]}, b: {x: [null, 0], y: [0, 0]}}",
        ),
        "in no region|no element lies in the region `b`",
        "objects.sheet.cloth.material.bend.compliance.regions",
    ),
    "a region of no point": (
        ("compliance: 33.333333333333336}", "compliance: {regions: {a: 1}}}\n    regions: {a: {x: [3, 4]}}"),
        "where chooses none of 16 points",
        "objects.sheet.regions.a",
    ),
    "no value file": (
        ("compliance: 33.333333333333336", "compliance: {file: none.npy}"),
        "cannot read `none.npy`",
        "objects.sheet.cloth.material.bend.compliance.file",
    ),
    "value file is a text": (
        ("compliance: 33.333333333333336", "compliance: {file: scene.yaml}"),
        "cannot read `scene.yaml`",
        "objects.sheet.cloth.material.bend.compliance.file",
    ),
    "loss of a module that nobody imported": (
        ("{match: corners}", "{custom: my.module:loss}"),
        "`my.module` is not imported, and a scene imports nothing.*--import my.module",
        "loss.0.custom",
    ),
    "span without a frame": (
        ("{match: corners}", "{match: corners, at: [0.06, 0.08]}"),
        "no frame lies between",
        "loss.0.at",
    ),
    "terms that count for nothing": (
        ("{match: corners}", "{match: corners, weight: 0}"),
        "every term has weight 0, so that nothing is sought",
        "loss",
    ),
    "a displacement with one frame": (
        ("{match: corners}", "{match: corners, compare: displacement, at: last}"),
        "a displacement takes two frames in which a marker is seen",
        "loss.0.at",
    ),
    "to be reached after the end": (
        ("{match: corners}", "{reach: {marker: corners, point: [0, 0, 0], at: 3, scale: 1}}"),
        "3 s are after the end of `one`, 0.2 s",
        "loss.0.reach.at",
    ),
    "slow after the end": (
        ("{match: corners}", "{slow: {marker: corners, at: 0.3, scale: 1}}"),
        "0.3 s are after the end of `one`",
        "loss.0.slow.at",
    ),
    "damping that is not there": (
        ("distance.compliance, transform: log, bounds: [1e-4, 10]", "bend.damping, bounds: [0, 1]"),
        "has no value for",
        "parameters.stretch",
    ),
    "set what cannot be set": (
        ("noise: 10 mm}}", "noise: 10 mm}, set: {attachments.top.motion.0.frequency: 3}}"),
        "not yet built",
        "experiments.one.set.attachments.top.motion.0.frequency",
    ),
    "no recording": (("target.npz", "targets.npz"), "targets.npz", "experiments.one.target"),
    "no such key": (("key: corners", "key: corner"), "corner", "experiments.one.target"),
    "too short": (
        ("duration: 0.2", "duration: 0.5"),
        "the recording ends at 0.2 s, the experiment needs 0.5 s",
        "experiments.one.target",
    ),
    "other marker count": (
        ("farthest: 4", "farthest: 5"),
        "has 4 markers, the scene compares 5",
        "experiments.one.target",
    ),
    "column beyond": (
        ("key: corners", "key: corners, markers: {corners: [0, 1, 2, 9]}"),
        "no marker column 9",
        "experiments.one.target",
    ),
    "start beyond": (("key: corners", "key: corners, start: frame 70"), "70", "experiments.one.target"),
    "mesh missing": (
        ("grid: {size: [1, 1], cells: [3, 3]}", "mesh: {file: meshes.obj}"),
        "does not exist",
        "objects.sheet.cloth",
    ),
}


def problems_of(folder, text):
    with pytest.raises(sim.SceneError) as caught:
        sim.load_scene(write_scene(folder, text)).build()
    return caught.value


@pytest.mark.parametrize("name", ROWS)
def test_bad_scene(tmp_path, name):
    (old, new), message, path = ROWS[name]
    assert old in SHEET
    write_target(tmp_path, SHEET)
    error = problems_of(tmp_path, SHEET.replace(old, new, 1))
    assert len(error.problems) == 1, str(error)
    problem = error.problems[0]
    assert re.search(message, problem.what + problem.hint), str(error)
    assert not path or problem.path == path
    assert problem.mark.line > 1 and str(tmp_path / "scene.yaml") in str(error)
    assert problem.hint, f"what to do instead? {error}"


@pytest.mark.parametrize("content, message", [
    ("", "empty|no triangles|holds no"),
    ("this is no mesh", "no triangles|holds no|no vertices"),
    (GRID, "no triangles|no faces|holds no"),
    (GOOD_MESH + "v 5 5 5\n", "1 loose points"),
    (GOOD_MESH + "v 5 0 0\nv 6 0 0\nv 5 1 0\nf 5 6 7\n", "2 pieces"),
    (GOOD_MESH + "v 2 0 0\nf 1 2 5\n", "no area"),
    (GOOD_MESH + "f 1 3 2\n", "repeat an earlier one"),
])  # fmt: skip
def test_bad_mesh(tmp_path, content, message):
    write_target(tmp_path, SHEET)
    (tmp_path / "mesh.obj").write_text(content)
    error = problems_of(tmp_path, MESH)
    problem = next(p for p in error.problems if p.path.startswith("objects.sheet.cloth"))
    assert re.search(message, problem.what), str(error)
    assert problem.hint


def test_recordings_that_cannot_be_used(tmp_path):
    times = np.array([0.05, 0.1, 0.15, 0.2])
    for content, message in [
        ({"corners": np.zeros((4, 4))}, "shape"),
        ({"corners": np.full((4, 4, 3), np.nan), "corners_time": times}, "NaN"),
        ({"corners": np.zeros((4, 4, 3)), "corners_time": times[::-1]}, "time of frame 1"),
        ({"corners": np.array([[[None] * 3] * 4] * 4, dtype=object)}, "pickle|objects"),
    ]:
        np.savez(tmp_path / "target.npz", **content)
        error = problems_of(tmp_path, SHEET)
        assert re.search(message, str(error)), str(error)
        assert error.problems[0].path == "experiments.one.target"
    (tmp_path / "target.npz").write_bytes(b"PK broken")
    assert problems_of(tmp_path, SHEET).problems[0].path == "experiments.one.target"


def test_all_problems_of_a_scene_at_once(tmp_path):
    write_target(tmp_path, SHEET)
    text = SHEET.replace("y: [0.999, null]", "y: [7, null]").replace("farthest: 4", "farthest: 99")
    text = text.replace("{match: corners}", "{custom: a:b}").replace("target.npz", "nothing.npz")
    error = problems_of(tmp_path, text)
    paths = [p.path for p in error.problems]
    assert paths == [
        "attachments.top.where",
        "markers.corners.farthest",
        "experiments.one.target",
        "loss.0.custom",
    ], paths
    for old, new, path in [
        ("fps: 20", "fsp: 20", "time.fsp"),
        ("density: 0.2", "density: 2 mm", "objects.sheet.cloth.density"),
        ("radius: 0.15", "radios: 0.15", "shapes.ball.sphere.radios"),
        ("y: [7, null]", "w: 1", "attachments.top.where.w"),
        ("farthest: 99", "farthest: few", "markers.corners.farthest"),
    ]:
        found = {p.path for p in problems_of(tmp_path, text.replace(old, new)).problems}
        assert path in found and "experiments.one.target" in found, found
        assert ("attachments.top.where" in found) == (
            path not in ("objects.sheet.cloth.density", "attachments.top.where.w")
        ), found


def test_a_missing_mesh_and_a_mistyped_key_are_told_together(tmp_path):
    write_target(tmp_path, SHEET)
    text = MESH.replace("mesh.obj", "nowhere.obj").replace("iterations: 4", "itertions: 4")
    assert [p.path for p in problems_of(tmp_path, text).problems] == ["objects.sheet.cloth", "optimize.lbfgs.itertions"]
    other = SHEET.replace("markers:", "markers:\n  others: {on: sheet, farthest: few}").replace(
        "key: corners", "key: corner"
    )
    assert [p.path for p in problems_of(tmp_path, other).problems] == [
        "markers.others.farthest",
        "experiments.one.target",
    ]


def test_columns_must_be_named_with_several_markers(tmp_path):
    text = SHEET.replace("markers:", "markers:\n  others: {on: sheet, farthest: 2}")
    write_target(tmp_path, SHEET)
    assert "which columns are which" in str(problems_of(tmp_path, text))
    text = text.replace("key: corners", "key: corners, markers: {others: [0, 1]}")
    assert "has no markers `corners`" in str(problems_of(tmp_path, text))
    text = text.replace("{others: [0, 1]}", "{others: [0, 1], corners: [0, 1, 2, 3]}")
    problem = sim.load_scene(write_scene(tmp_path, text)).build()
    assert problem.experiments[0].targets["others"].positions.shape == (4, 2, 3)


def test_a_recording_that_cannot_be_read_is_one_problem(tmp_path):
    """It was said, too, that the markers of the other columns have no recording."""
    write_recording(tmp_path / "target.npz", corners=Recording(np.zeros((6, 4, 3)), np.arange(6) * 0.05))
    text = SHEET.replace("  corners: {", "  top: {on: sheet, where: {y: [0.9, null]}}\n  corners: {")
    text = text.replace("key: corners,", "key: corners, markers: {top: [0, 1, 2, 3], corners: [0, 1, 2, 9]},")
    (problem,) = problems_of(tmp_path, text).problems
    assert "no marker column 9" in problem.what


def test_a_speed_takes_two_frames(tmp_path):
    text = SHEET.replace("duration: 0.2", "duration: 0.05")
    text = text.replace("{match: corners}", "{slow: {marker: corners, scale: 1}}")
    write_recording(tmp_path / "target.npz", corners=Recording(np.zeros((6, 4, 3)), np.arange(6) * 0.05))
    (problem,) = problems_of(tmp_path, text).problems
    assert "a velocity takes two frames, and `one` has one" in problem.what and problem.path == "loss.0.slow"


def test_files_stay_in_the_folder(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    write_recording(tmp_path / "target.npz", corners=Recording(np.zeros((2, 4, 3)), np.array([0.0, 1.0])))
    with pytest.raises(sim.SceneError, match="leaves the folder"):
        sim.load_scene(write_scene(inner, SHEET.replace("target.npz", "../target.npz"))).build()
    (inner / "target.npz").symlink_to(tmp_path / "target.npz")
    with pytest.raises(sim.SceneError, match="leaves the folder"):
        sim.load_scene(write_scene(inner, SHEET)).build()
    problem = sim.load_scene(write_scene(inner, SHEET), allow_outside=True).build()
    assert problem.parameters == ["stretch"]


def test_shallow_contact_at_the_start_is_a_warning(tmp_path):
    write_target(tmp_path, SHEET)
    text = SHEET.replace("density: 0.2", "density: 0.2\n      thickness: 0.03")
    problem = sim.load_scene(write_scene(tmp_path, text)).build()
    assert any("start inside the shape `ball`" in note for note in problem.description.notes)


def test_a_duration_between_two_frames_is_said_aloud(tmp_path):
    text = SHEET.replace("noise: 10 mm}}", "noise: 10 mm}, set: {time.duration: 0.18}}")
    problem = sheet(tmp_path, text)
    assert problem.experiments[0].schedule.frames == 3
    assert any(
        "0.18 s are 3.6 frames at 20 Hz; the last whole one, at 0.15 s" in note for note in problem.description.notes
    )


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ((("farthest: 4", "at: [[0, 0, 0], [100, 0, 0]]"),), r"markers.corners.at.1: it lies 99 m beside `sheet`"),
        ((("frequency: 2 Hz}", "frequency: 2 Hz}\n      - {move: [0, 1, 0], start: 3, end: 4}"),),
         r"attachments.top.motion.1.start: 3 s are after the end of every experiment"),
        ((("    motion:", "    compliance: 1e-7\n    release: 9\n    motion:"),),
         r"attachments.top.release: 9 s are after"),
        ((("        distance: {compliance: 0.05, damping: 5 ms}\n", ""), ("material:\n", "material: {}\n"),
          ("        bend: {compliance: 33.333333333333336}\n", "")), r"objects.sheet.cloth: nothing holds its points"),
    ],
)  # fmt: skip
def test_what_is_meant_otherwise_is_told(tmp_path, edits, told):
    text = SHEET[: SHEET.index("experiments:")]
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    notes = sim.load_scene(write_scene(tmp_path, text)).build().description.notes
    assert any(re.match(told, note) for note in notes), notes


def test_a_mean_over_more_than_the_experiment_is_a_problem(tmp_path):
    measures = "measures: {drop: {of: corners, kind: settled, last: 3 s}}\n"
    write_recording(tmp_path / "target.npz", corners=Recording(np.zeros((6, 4, 3)), np.arange(6) * 0.05))
    (problem,) = problems_of(tmp_path, SHEET + measures).problems
    assert problem.path == "measures.drop.last" and "longer than every experiment" in problem.what


def test_a_measure_along_no_gravity_is_a_problem(tmp_path):
    write_target(tmp_path, SHEET)
    measures = "world: {gravity: [0, 0, 0]}\nmeasures:\n  sag: {of: corners, kind: settled, last: 0.1}\n"
    (problem,) = problems_of(tmp_path, SHEET + measures).problems
    assert problem.path == "measures.sag.along" and "no gravity" in problem.what


def test_a_rotation_needs_three_markers_or_an_axis(tmp_path):
    write_target(tmp_path, SHEET)
    more = "measures:\n  turn: {of: pair, kind: rotation, last: 0.1}\n"
    text = SHEET.replace("\nmarkers:\n", "\nmarkers:\n  pair: {on: sheet, farthest: 2}\n").replace(
        "key: corners", "key: corners, markers: {corners: [0, 1, 2, 3]}"
    )
    (problem,) = problems_of(tmp_path, text + more).problems
    assert problem.path == "measures.turn" and "2 marker(s) tell no rotation" in problem.what
    assert "`about`" in problem.hint
