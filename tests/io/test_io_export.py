"""Runs in other formats: glTF against a structural checker, npz, csv, mp4; the pages that `simopt view` opens."""

import json
import webbrowser

import numpy as np
import pytest
from tools.files.gltf_checker import Glb
from tools.scenes.problems import ROPE, SHEET, write_scene, write_target

import sim.io.video
from sim.cli import main
from sim.io import Recording, Shape, load_recording
from sim.io.gltf import glb, plane_axes, sphere_mesh, turn_to_y
from sim.io.moving import Frames
from sim.io.scenery import Body, Scenery, body, find_run, load_run, read_scenery
from sim.io.video import _parts

TRIANGLES = np.array([[0, 1, 2], [1, 3, 2]])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sheet")
    write_target(folder, SHEET, overrides={"objects.sheet.cloth.material.distance.compliance": 0.02})
    assert (
        main(
            [
                "run",
                str(write_scene(folder, SHEET)),
                "--out",
                str(folder / "runs" / "sheet" / "one"),
                "--iterations",
                "1",
            ]
        )
        == 0
    )
    return folder / "runs" / "sheet" / "one"


def moving(frames=5, seed=0):
    """A square of two triangles, a line of two links, two loose points; 9 particles."""
    x = np.random.default_rng(seed).normal(size=(1, 9, 3)) + 0.1 * np.arange(frames)[:, None, None]
    bodies = [
        body("square", np.arange(4), TRIANGLES),
        body("line", np.arange(4, 7), segments=np.array([[0, 1], [1, 2]])),
        body("dust", np.arange(7, 9)),
    ]
    return bodies, Frames(x + np.sin(np.arange(frames))[:, None, None] * x[:, :, ::-1], 0.1 * (1 + np.arange(frames)))


# ------------------------------------------------------------------------------------------------ glTF
def test_glb_plays_what_was_simulated():
    bodies, take = moving()
    shapes = {
        "main": [
            Shape("sphere", (1, 2, 3), radius=0.5, name="ball"),
            Shape("plane", (0, -1, 0), normal=(0.0, 2.0, 0.0)),
        ]
    }
    file = Glb(glb(Scenery("scene", bodies, (0, 1, 0), shapes), "main", take))
    for thing in bodies:
        for k in range(5):
            np.testing.assert_allclose(
                file.places(thing.name, take.time[k]), take.positions[k, thing.points[:, 0]], atol=2e-6
            )
        middle = 0.5 * (take.positions[1] + take.positions[2])[thing.points[:, 0]]
        np.testing.assert_allclose(file.places(thing.name, 0.25), middle, atol=2e-6)
    ball = file.places("ball", 0)
    np.testing.assert_allclose(np.linalg.norm(ball - [1, 2, 3], axis=1), 0.5, atol=1e-6)
    np.testing.assert_allclose(file.places("plane", 0)[:, 1], -1, atol=1e-6)
    modes = {
        node["name"]: file.list("meshes")[node["mesh"]]["primitives"][0]["mode"]
        for node in file.list("nodes")
        if "mesh" in node
    }
    assert modes == {"square": 4, "line": 1, "dust": 0, "ball": 4, "plane": 4}
    assert len(file.list("animations")) == 1 and file.list("animations")[0]["name"] == "main"


def test_glb_of_a_single_frame_has_no_animation():
    bodies, take = moving(frames=1)
    file = Glb(glb(Scenery("still", bodies), "main", take))
    assert not file.list("animations") and not any("targets" in p for m in file.list("meshes") for p in m["primitives"])


def test_glb_leaves_out_points_that_no_triangle_uses():
    """Of a solid only its skin travels."""
    bodies = [body("solid", np.arange(9), np.array([[2, 4, 8]]))]
    _, take = moving()
    file = Glb(glb(Scenery("s", bodies), "main", take))
    np.testing.assert_allclose(file.places("solid", 0.3), take.positions[2, [2, 4, 8]], atol=2e-6)


def test_bodies_may_be_carried():
    carried = Body(
        "skin",
        np.array([[0, 1], [2, 3], [4, 5]], np.int32),
        np.array([[0.5, 0.5], [1.5, -0.5], [1, 0]]),
        np.array([[0, 1, 2]]),
    )
    _, take = moving()
    file = Glb(glb(Scenery("s", [carried]), "main", take))
    x = take.positions[3]
    expected = [0.5 * x[0] + 0.5 * x[1], 1.5 * x[2] - 0.5 * x[3], x[4]]
    np.testing.assert_allclose(file.places("skin", 0.4), expected, atol=2e-6)


def test_normals_are_those_of_the_frame():
    bodies, take = moving()
    file = Glb(glb(Scenery("s", bodies[:1]), "main", take))
    (primitive,) = file.list("meshes")[0]["primitives"]
    x = take.positions[2, :4]
    flat = [np.cross(x[b] - x[a], x[c] - x[a]) for a, b, c in TRIANGLES]
    expected = np.array([flat[0], flat[0] + flat[1], flat[0] + flat[1], flat[1]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = file.read(primitive["attributes"]["NORMAL"]) + file.read(primitive["targets"][1]["NORMAL"])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("up", [(0, 1, 0), (0, 0, 1), (1, 0, 0), (0, -1, 0), (0.6, 0, -0.8)])
def test_up_becomes_y(up):
    x, y, z, w = turn_to_y(np.array(up, float))
    q, v = np.array([x, y, z]), np.array(up, float)
    turned = v + 2 * np.cross(q, np.cross(q, v) + w * v)
    np.testing.assert_allclose(turned, [0, 1, 0], atol=1e-12)
    assert np.linalg.norm([x, y, z, w]) == pytest.approx(1)


def test_sphere_mesh_is_closed_and_looks_outward():
    x, triangles = sphere_mesh(16)
    corner = x[triangles]
    volume = np.einsum("td,td->t", corner[:, 0], np.cross(corner[:, 1], corner[:, 2])) / 6
    assert (volume > 0).all() and volume.sum() == pytest.approx(4 / 3 * np.pi, rel=0.02)


def test_frames_after_a_breakdown_are_left_out():
    x = np.ones((5, 2, 3))
    x[3, 1, 2] = np.nan
    time, poses = np.arange(5.0), np.ones((5, 1, 7))
    assert Frames(x, time).finite_frames == 3 and Frames(x[:3], time[:3]).finite_frames == 3
    poses[2, 0, 6] = np.nan
    assert Frames(x, time, poses).finite_frames == 2


# ------------------------------------------------------------------------------------------------ the folder of a run
def test_scenery_survives_its_file():
    bodies, take = moving()
    shapes = {"a": [Shape("sphere", (1, 2, 3), radius=0.5, name="ball")], "b": []}
    before = Scenery(
        "s",
        bodies,
        (0, 0, 1),
        shapes,
        {"m": body("m", np.array([1, 3]))},
        {"a": {"m": Recording(take.positions, take.time)}},
    )
    after = read_scenery(before.arrays())
    assert after.name == "s" and after.up == (0, 0, 1) and [b.name for b in after.bodies] == ["square", "line", "dust"]
    assert after.shapes["a"][0].radius == 0.5 and after.shapes["b"] == []
    np.testing.assert_array_equal(after.bodies[0].triangles, TRIANGLES)
    np.testing.assert_array_equal(after.markers["m"].at(take.positions), take.positions[:, [1, 3]])
    np.testing.assert_array_equal(after.targets["a"]["m"].positions, take.positions)


def test_run_is_read_back(run):
    shown = load_run(run)
    (sheet,) = shown.scenery.bodies
    assert (sheet.name, len(sheet.points), len(sheet.triangles)) == ("sheet", 16, 18)
    assert shown.scenery.shapes["one"][0].kind == "sphere" and shown.scenery.up == (0, 1, 0)
    take = shown.take("one")
    assert take.times == pytest.approx([0.05, 0.1, 0.15, 0.2]) and [layer.name for layer in take.layers] == [
        "sheet",
        "target corners",
    ]
    with np.load(run / "trajectory.npz") as file:
        np.testing.assert_array_equal(take.layers[0].positions, file["one"])
    assert np.isfinite(take.layers[1].positions).all()


def test_newest_run_is_found(run, tmp_path):
    assert find_run(run) == find_run(run.parent) == find_run(run.parent.parent) == run
    for name, said in (("nothing", "no run folder"), (".", "no finished run")):
        with pytest.raises(sim.io.RunFolderError, match=said):
            find_run(tmp_path / name)
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(sim.io.RunFolderError, match="has no geometry.npz"):
        load_run(tmp_path)
    for name in ("geometry.npz", "trajectory.npz"):
        (tmp_path / name).write_bytes(b"nonsense")
    with pytest.raises(sim.io.RunFolderError, match="cannot be read"):
        load_run(tmp_path)


# ------------------------------------------------------------------------------------------------ the command
def test_export_glb(run, tmp_path, capsys):
    assert main(["export", str(run), "--to", "glb", "--out", str(tmp_path / "a" / "sheet.glb"), "--every", "2"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "a" / "sheet.glb")
    file = Glb((tmp_path / "a" / "sheet.glb").read_bytes())
    with np.load(run / "trajectory.npz") as recorded:
        np.testing.assert_allclose(file.places("sheet", 0.15), recorded["one"][2], atol=2e-6)


def test_export_npz_and_csv(run, tmp_path, capsys):
    assert main(["export", str(run), "--to", "npz", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(tmp_path / "sheet.npz")]
    with np.load(tmp_path / "sheet.npz") as whole, np.load(run / "trajectory.npz") as recorded:
        np.testing.assert_array_equal(whole["one"], recorded["one"])
        np.testing.assert_array_equal(whole["one_time"], recorded["one_time"])
        assert whole["one.corners"].shape == (4, 4, 3) and whole["sheet.triangles"].shape == (18, 3)
        followed = whole["one.corners"]
    assert main(["export", str(run), "--to", "csv", "--out", str(tmp_path)]) == 0
    back = load_recording(tmp_path / "sheet.one.corners.csv")
    np.testing.assert_array_equal(back.positions, followed)
    recording = load_recording(tmp_path / "sheet.npz", "one.corners")  # a `rate` would put its first frame at t = 0
    assert recording.marker_count == 4 and recording.time[0] == pytest.approx(1 / 20)


def test_export_of_all_particles_where_nothing_is_observed(tmp_path, capsys):
    assert main(["run", str(write_scene(tmp_path, ROPE)), "--out", str(tmp_path / "run")]) == 0
    for kind in ("csv", "glb"):
        assert main(["export", str(tmp_path / "run"), "--to", kind]) == 0
    assert load_recording(tmp_path / "run" / "rope.main.points.csv").positions.shape == (4, 4, 3)
    file = Glb((tmp_path / "run" / "rope.main.glb").read_bytes())
    assert file.list("meshes")[0]["primitives"][0]["mode"] == 1 and file.places("rope", 0).shape == (4, 3)


def test_view(run, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    assert main(["view", str(run.parent.parent)]) == 0
    assert opened == [(run / "report.html").as_uri()] and capsys.readouterr().out.strip() == str(run / "report.html")
    assert main(["view", str(run), "--no-browser", "--json"]) == 0
    assert (
        json.loads(capsys.readouterr().out) == {"page": str(run / "report.html"), "opened": False} and len(opened) == 1
    )
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert main(["view", str(run)]) == 0
    assert "no browser was found" in capsys.readouterr().out


def test_view_makes_a_page_where_there_is_no_report(tmp_path, capsys):
    scene = write_scene(tmp_path, ROPE + "output: {report: false}\n")
    assert main(["run", str(scene), "--out", str(tmp_path / "run")]) == 0
    assert main(["view", str(tmp_path / "run"), "--no-browser"]) == 0
    page = (tmp_path / "run" / "player.html").read_text()
    assert "<canvas" in page and '"name":"rope"' in page.replace(" ", "")


@pytest.mark.parametrize("arguments, said", [
    (["view", "nowhere"], "no run folder"),
    (["export", "RUN", "--to", "glb", "--experiment", "tow"], "no experiment `tow`"),
    (["export", "RUN", "--to", "mp4", "--size", "101x80"], "have to be even"),
    (["export", "RUN", "--to", "csv", "--out", "RUN/result.json/x"], "cannot write into"),
])  # fmt: skip
def test_bad_input(run, capsys, arguments, said):
    before = sorted(path.name for path in run.iterdir())
    assert main([word.replace("RUN", str(run)) for word in arguments]) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in run.iterdir()) == before


# ------------------------------------------------------------------------------------------------ films
def test_without_pyav_the_error_says_what_to_install(run, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    assert main(["export", str(run), "--to", "mp4", "--out", str(tmp_path)]) == 2
    assert "pip install 'simopt-xpbd[video]'" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_film(run, tmp_path):
    av = pytest.importorskip("av")
    assert main(["export", str(run), "--to", "mp4", "--out", str(tmp_path / "film.mp4"), "--size", "160x120"]) == 0
    with av.open(str(tmp_path / "film.mp4")) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height, float(stream.average_rate)) == (160, 120, 20)
        frames = [frame.to_ndarray(format="rgb24").astype(int) for frame in film.decode(video=0)]
    assert len(frames) == 4 and [path.name for path in tmp_path.iterdir()] == ["film.mp4"]
    blue = frames[-1][..., 2] - frames[-1][..., 0] > 40
    assert 0.01 < blue.mean() < 0.7  # the sheet is blue, the ground and the ball are grey
    assert np.abs(frames[0] - frames[-1]).max() > 60  # and it moves


def test_pictures_of_all_kinds_of_bodies(tmp_path):
    bodies, take = moving()
    shown = sim.io.Shown(tmp_path, Scenery("s", bodies, (0, 0, 1)), {"main": take})
    pictures = list(sim.io.video.pictures(shown, "main", take, (80, 60)))
    assert len(pictures) == 5 and all(p.shape == (60, 80, 3) and p.dtype == np.uint8 and p.std() > 5 for p in pictures)


def test_rods_have_the_length_and_the_thickness_of_their_links():
    line = body("line", np.arange(2), segments=np.array([[0, 1]]))
    x = np.array([[1.0, 2, 3], [1, 2, 7]])
    (points, triangles), _ = _parts(line, x, 0.25)
    np.testing.assert_allclose(np.linalg.norm(points[:, :2] - [1, 2], axis=1), 0.25, atol=1e-12)
    assert sorted(set(points[:, 2].round(12))) == [3, 7] and triangles.max() == len(points) - 1
    one, other = plane_axes(np.array([0, 0, 1.0]))
    np.testing.assert_allclose(np.cross(one, other), [0, 0, 1], atol=1e-12)
