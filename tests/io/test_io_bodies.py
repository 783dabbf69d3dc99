"""Rigid bodies in players, films, exports and run folders: everything that shows a motion shows the same one."""

import csv
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tools.files.gltf_checker import Glb

import sim
import sim.io.video
from sim.files import Archive, read_bytes
from sim.geometry import rotation_from_quaternion
from sim.identify.data.experiments import Experiment, TimeGrid
from sim.identify.problem import Description, Problem
from sim.identify.report.rigid import body_labels, joint_marks, rigid_bodies
from sim.identify.report.takes import scenery, takes
from sim.identify.run import run_problem
from sim.io import COLORS, Frames, Layer, Rigid, Scenery, Shown, Take, body, export_run, load_run, rigid_layer
from sim.io.gltf import glb
from sim.io.moving import read_frames, write_frames
from sim.io.player import player_data
from sim.io.scenery import read_scenery
from sim.model.visuals import BoxForm

BOX = BoxForm((0.1, 0.2, 0.3)).surface()


def turning(frames=6, seed=0):
    """Two boxes and a link between them, a third on the world; three particles that move."""
    random = np.random.default_rng(seed)
    points, triangles = BOX
    boxes = Rigid(
        "boxes",
        np.repeat([0, 1, -1], 24).astype(np.int32),
        np.concatenate([points, 0.5 * points + 1, points - 1]),
        np.concatenate([triangles, triangles + 24, triangles + 48]),
        np.array([[0, 24], [0, 3]]),
    )
    time = 0.1 * np.arange(1, frames + 1)
    poses = np.zeros((frames, 2, 7))
    poses[..., :3] = random.normal(size=(1, 2, 3)) + time[:, None, None]
    angle = 3.0 * time[:, None] + np.array([0.0, 2.0])  # beyond half a turn
    axis = random.normal(size=(2, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    poses[..., 3:6], poses[..., 6] = np.sin(angle / 2)[..., None] * axis, np.cos(angle / 2)
    poses[frames // 2 :: 2] *= np.array([1.0, 1, 1, -1, -1, -1, -1])  # the same rotations
    return boxes, Frames(random.normal(size=(1, 3, 3)) + time[:, None, None], time, poses)


def expected(rigid, poses):
    """Places (n, 3) by rotation matrices."""
    out = []
    for owner, x in zip(rigid.bodies, rigid.points, strict=True):
        p = poses[owner] if owner >= 0 else np.array([0.0, 0, 0, 0, 0, 0, 1])
        out.append(p[:3] + rotation_from_quaternion(p[3:]) @ x)
    return np.array(out)


def between(poses, k, share):
    """Poses between frames k and k + 1."""
    a, b = poses[k], poses[k + 1]
    sign = np.where((a[:, 3:] * b[:, 3:]).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
    turn = (1 - share) * a[:, 3:] + share * sign * b[:, 3:]
    straight = (1 - share) * a[:, :3] + share * b[:, :3]
    return np.concatenate([straight, turn / np.linalg.norm(turn, axis=1, keepdims=True)], axis=1)


def test_places_of_rigid_bodies():
    boxes, take = turning()
    for k in (0, 3):
        np.testing.assert_allclose(boxes.over(take)[k], expected(boxes, take.body_q[k]), atol=1e-12)


@pytest.mark.parametrize("arrays, said", [
    ((np.zeros((2, 0, 3)), [1.0, 2.0]), "2 times for 2 frames"),
    ((np.zeros((2, 0, 3)), [1.0, 2.0], np.zeros((3, 1, 7))), "bodies"),
    ((np.zeros((2, 1, 3)), [1.0, 1.0]), "do not increase"),
    ((np.zeros((2, 1, 3)), [1.0, 2.0], np.zeros((2, 1, 6))), "expected"),
])  # fmt: skip
def test_frames_are_checked(arrays, said):
    with pytest.raises(ValueError, match=said):
        Frames(*arrays)


# ------------------------------------------------------------------------------------------------ glTF
def test_glb_moves_nodes():
    boxes, take = turning()
    marks = Rigid("joints", np.zeros(24, np.int32), 0.1 * BOX[0], BOX[1])
    file = Glb(glb(Scenery("s", [body("dust", np.arange(3))], rigid=[boxes], joints=marks), "main", take))
    used = np.unique(boxes.triangles)
    for time, poses in [(0.3, take.body_q[2]), (0.35, between(take.body_q, 2, 0.5)), (0.0, take.body_q[0])]:
        x = expected(boxes, poses)[used]
        for name, owner in (("boxes.0", 0), ("boxes.1", 1), ("boxes.-1", -1)):
            np.testing.assert_allclose(file.places(name, time), x[boxes.bodies[used] == owner], atol=3e-6)
    np.testing.assert_allclose(file.places("boxes.links", 0.3), expected(boxes, take.body_q[2])[[0, 24]], atol=3e-6)
    np.testing.assert_allclose(file.places("dust", 0.3), take.positions[2], atol=3e-6)
    np.testing.assert_allclose(file.places("joints", 0.3), expected(marks, take.body_q[2]), atol=3e-6)
    names = [file.list("nodes")[c["target"]["node"]]["name"] for c in file.list("animations")[0]["channels"]]
    assert sorted(names) == sorted(["dust", "boxes.links", *2 * ["boxes.0", "boxes.1", "joints"]])
    still = Glb(glb(Scenery("s", [], rigid=[boxes]), "main", take.first(1)))
    assert not still.list("animations")
    np.testing.assert_allclose(
        still.places("boxes.0", 0), expected(boxes, take.body_q[0])[used][boxes.bodies[used] == 0], atol=3e-6
    )


# ------------------------------------------------------------------------------------------------ the player
def test_player_gets_what_is_rigid_once():
    boxes, take = turning(frames=40)
    layer = rigid_layer("boxes", boxes, np.concatenate([take.body_q[:, :1], take.body_q], axis=1))
    assert layer.frame_count == 40 and layer.poses.shape == (40, 2, 7)  # the body that carries nothing is left out
    (data,) = player_data([Take("t", [layer], times=take.time)])[0]["layers"]
    assert (data["frames"], data["bodies"], data["points"], data["static"]) == (40, 2, 72, False)
    assert len(data["positions"]) + len(data["poses"]) < 6000
    broken = take.body_q.copy()
    broken[7, 1, 4] = np.nan
    (cut,) = player_data([Take("t", [rigid_layer("boxes", boxes, broken)], times=take.time)])[0]["layers"]
    assert cut["frames"] == 7
    thinned = player_data([Take("t", [layer], times=take.time)], max_bytes=1500)[0]
    assert thinned["stride"] > 1 and thinned["frames"] == -(-40 // thinned["stride"])


@pytest.mark.parametrize("change, said", [
    ({"trail": True}, "no trail"),
    ({"poses": np.zeros((2, 1, 6))}, "poses have the shape"),
    ({"owners": np.full(24, 1)}, "owners"),
    ({"owners": np.zeros(3, int)}, "owners"),
])  # fmt: skip
def test_rigid_layers_are_checked(change, said):
    with pytest.raises(ValueError, match=said):
        Layer("l", BOX[0][None], BOX[1], **{"poses": np.zeros((2, 1, 7)), "owners": np.zeros(24, int), **change})


def test_player_draws_them_where_they_are(tmp_path):
    """The page's own script, run by node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    boxes, take = turning()
    data = player_data([Take("t", [rigid_layer("boxes", boxes, take.body_q)], times=take.time)])[0]["layers"][0]
    script = (
        (Path(sim.io.__file__).parent / "assets" / "drawing.js").read_text()
        + f"""
        const layer = new LayerGeometry(new Proxy({{}}, {{ get: () => () => ({{}}) }}), {json.dumps(data)});
        const at = (frame) => (layer.show(frame), Array.from(layer.position));
        console.log(JSON.stringify([at(0), at(2), at(2.25), at(5), layer.show(5.5)]));"""
    )
    (tmp_path / "run.js").write_text(script)
    out = subprocess.run([node, tmp_path / "run.js"], capture_output=True, text=True, check=True).stdout
    *found, beyond = json.loads(out)
    assert beyond is False
    poses = [take.body_q[0], take.body_q[2], between(take.body_q, 2, 0.25), take.body_q[5]]
    for places, there in zip(found, poses, strict=True):
        np.testing.assert_allclose(np.reshape(places, (-1, 3)), expected(boxes, there), atol=1e-4)


# ------------------------------------------------------------------------------------------------ files
def shown(folder):
    """A run of `turning`, as its files hold it."""
    boxes, take = turning()
    joints = Rigid("joints", np.zeros(24, np.int32), 1.1 * BOX[0], BOX[1])
    dust = body("dust", np.arange(3))
    before = Scenery("s", [dust], rigid=[boxes], joints=joints, labels=["left", "right"])
    write_frames(folder / "trajectory.npz", {"main": take})
    takes = read_frames(Archive(read_bytes(folder / "trajectory.npz")))
    return Shown(folder, read_scenery(before.arrays()), takes), boxes, take


def test_files_keep_them(tmp_path):
    run, boxes, take = shown(tmp_path)
    np.testing.assert_array_equal(run.takes["main"].body_q, take.body_q)
    (rigid,) = run.scenery.rigid
    for key in ("bodies", "points", "triangles", "segments"):
        np.testing.assert_array_equal(getattr(rigid, key), getattr(boxes, key))
    layers = run.take("main").layers
    assert [layer.name for layer in layers] == ["dust", "boxes", "joints"] and layers[2].color == COLORS["joint"]
    assert run.scenery.labels == ["left", "right"]


def test_exports(tmp_path):
    run, boxes, take = shown(tmp_path)
    (npz,) = export_run(run, "npz", tmp_path / "a.npz", every=2)
    with np.load(npz) as file:
        np.testing.assert_array_equal(file["main_body_q"], take.body_q[::2])
        assert file["bodies"].tolist() == ["left", "right"] and file["boxes.points"].shape == (72, 3)
    points, poses = export_run(run, "csv", tmp_path)
    assert (points.name, poses.name) == ("s.main.points.csv", "s.main.bodies.csv")
    header, *rows = csv.reader(poses.open())
    assert header[:8] == ["time", *(f"left.{key}" for key in ("x", "y", "z", "qx", "qy", "qz", "qw"))]
    numbers = np.array(rows, dtype=float)
    np.testing.assert_array_equal(numbers[:, 0], take.time)
    np.testing.assert_array_equal(numbers[:, 1:].reshape(-1, 2, 7), take.body_q)
    assert Glb(export_run(run, "glb", tmp_path / "a.glb")[0].read_bytes()).places("joints", 0.1).shape == (24, 3)


def test_films_show_them(tmp_path):
    run, boxes, _ = shown(tmp_path)
    picture = next(iter(sim.io.video.pictures(run, "main", run.takes["main"].first(1), (80, 60)))).astype(int)
    assert (picture[..., 2] - picture[..., 0] > 40).mean() > 0.003  # boxes are blue
    assert (picture[..., 0] - picture[..., 2] > 40).mean() > 0.003  # and the mark of the joint is not


# ------------------------------------------------------------------------------------------------ of models
def linked(worlds=1):
    """An arm on a hinge, a ball at its end, a load on a line, and a rod."""
    builder = sim.ModelBuilder()
    arm = builder.add_body((0.5, 0, 0), 1.0, (0.01, 0.1, 0.1), label="arm", com=(0.1, 0, 0))
    hand = builder.add_body((1.1, 0, 0), 0.5, (0.02, 0.02, 0.02), label="hand")
    load = builder.add_body((2, 0, 0), 0.0, label="load")
    builder.add_visual_sphere(hand, (0, 0, 0.1), 0.2)
    builder.add_visual_box(-1, (0, -1, 0), 1, 0.1, 1)
    quarter = (0, -np.sqrt(0.5), 0, np.sqrt(0.5))  # x to z
    hinge = [builder.point_of(-1, (0, 0, 0.3), quarter), builder.point_of(arm, (-0.5, 0, 0.3), quarter)]
    builder.add_constraints("revolute", [hinge], 0.0, label="hinge")
    wrist = [builder.point_of(arm, (0.6, 0, 0)), builder.point_of(hand)]
    builder.add_constraints("ball", [wrist], 0.0, label="wrist")
    line = [builder.point_of(hand, (0, 0, 0.1)), builder.point_of(load)]
    builder.add_constraints("distance", [line], 0.0, label="line")
    builder.add_rod(
        [[0, 1, 0], [0.2, 1, 0], [0.2, 1, 0.3]], radius=0.01, density=1e3, young=1e6, poisson=0.3, label="wire"
    )
    builder.add_sites(hand, [[0, 0, 0.3], [0, 0, 0.4]], label="tip", edges=[[0, 1]])
    return (builder if worlds == 1 else builder.replicate(worlds)).finalize(dtype=sim.float64)


def test_models_say_what_their_bodies_look_like():
    model = linked()
    rigid = {r.name: r for r in rigid_bodies(model)}
    assert list(rigid) == ["arm", "hand", "load", "wire", "world"]
    assert body_labels(model) == ["arm", "hand", "load", "wire.0", "wire.1"]
    q = model.body_q.numpy()

    def box(name):
        x = rigid[name].at(q)
        return np.concatenate([x.min(axis=0), x.max(axis=0)])

    middle = 0.5 * (box("arm")[:3] + box("arm")[3:])
    np.testing.assert_allclose(middle, [0.6, 0, 0], atol=1e-12)  # about its centre of mass
    np.testing.assert_allclose(box("hand"), [0.9, -0.2, -0.1, 1.3, 0.2, 0.3], atol=1e-9)
    np.testing.assert_allclose(box("world"), [-1, -1.1, -1, 1, -0.9, 1], atol=1e-12)
    np.testing.assert_allclose(box("wire"), [-0.01, 0.99, -0.01, 0.21, 1.01, 0.31], atol=1e-3)
    assert box("load")[3] - box("load")[0] > 0.1  # without a mass it has some size


def test_models_say_where_their_joints_are():
    model = linked()
    marks = joint_marks(model, rigid_bodies(model))
    x, bodies = marks.at(model.body_q.numpy()), marks.bodies
    (c, d), (a, b) = sorted(marks.segments.tolist(), key=lambda ends: tuple(bodies[ends]))
    assert (bodies[a], bodies[b]) == (1, 2)
    assert (bodies[c], bodies[d]) == (0, 0)  # the hinge is beside its arm: a line to the centre of mass
    np.testing.assert_allclose(x[c], [0, 0, 0.3], atol=1e-9)
    np.testing.assert_allclose(x[[a, b]], [[1.1, 0, 0.1], [2, 0, 0]], atol=1e-9)
    of = {k: x[np.unique(marks.triangles)][bodies[np.unique(marks.triangles)] == k] for k in (0, 1)}
    hinge, wrist = of[0], of[1]
    np.testing.assert_allclose(0.5 * (hinge.min(0) + hinge.max(0)), [0, 0, 0.3], atol=1e-9)
    assert np.ptp(hinge, axis=0)[2] == pytest.approx(3 * np.ptp(hinge, axis=0)[0])  # its axis is along z
    np.testing.assert_allclose(0.5 * (wrist.min(0) + wrist.max(0)), [1.1, 0, 0], atol=1e-9)
    assert len(model.spring_indices.numpy()) == 0  # bodies are no particles
    plain = sim.ModelBuilder()
    plain.add_particle((0, 0, 0))
    plain = plain.finalize()
    assert rigid_bodies(plain) == [] and joint_marks(plain, []) is None


def test_all_worlds_are_drawn():
    model = linked(worlds=2)
    rigid = rigid_bodies(model)
    assert sorted(np.unique(np.concatenate([r.bodies for r in rigid])).tolist()) == list(range(-1, 10))
    marks = joint_marks(model, rigid)
    assert len(marks.segments) == 4 and np.unique(marks.bodies).tolist() == [0, 1, 2, 3, 4, 5]
    assert body_labels(model)[:4] == ["arm.0", "arm.1", "hand.0", "hand.1"]


def test_pictures_have_the_values_of_their_experiment():
    builder = sim.ModelBuilder()
    builder.add_body((0, 1, 0), 2.0, (0.3, 0.2, 0.1), label="box")
    model, grid = builder.finalize(dtype=sim.float64), TimeGrid(2, 20.0, 4)
    shifted = {"box.com": np.array([[0.5, 0, 0]]), "box.mass": np.array([8.0])}
    problem = Problem(model, sim.SolverXPBD(model), [Experiment("a", grid), Experiment("b", grid, settings=shifted)])
    made = problem.simulate()
    first, second = (take.layers[0].positions[0] for take in takes(problem, made, None))
    np.testing.assert_allclose(
        second, 0.5 * first + [0.5, 0, 0], atol=1e-12
    )  # the same inertia with four times the mass
    assert model["box.mass"].numpy().tolist() == [2.0]


def test_a_run_of_bodies(tmp_path):
    """From the model to its folder, its report and its exports."""
    builder = sim.ModelBuilder(gravity=(0.0, -10.0, 0.0))
    builder.add_body((0, 1, 0), 2.0, (0.3, 0.2, 0.1), label="box", velocity=(1, 0, 0), spin=(0, 0, 2))
    builder.add_sites(0, [[0.1, 0, 0]], label="corner")
    model = builder.finalize(dtype=sim.float64)
    experiment = Experiment("main", TimeGrid(10, 20.0, 4))
    problem = Problem(model, sim.SolverXPBD(model), [experiment], description=Description(name="toss", causes=()))
    made = problem.simulate()["main"]
    assert repr(made) == "Simulation(main: 10 frames of 1 points and 1 bodies, up to t=0.5 s)"
    np.testing.assert_allclose(made.body_q[-1, 0, 0], 0.5, atol=1e-9)
    (take,) = takes(problem, {"main": made}, {"main": made})
    names = ["before", "after", "sites"]
    assert [layer.name for layer in take.layers] == names and take.layers[0].opacity < 1
    assert not take.layers[2].visible  # the box is drawn, its sites are there for those who want to see them
    assert all(layer.frame_count == 11 for layer in take.layers)
    outcome = run_problem(problem, tmp_path / "run")
    assert outcome.status == 0
    run = load_run(outcome.folder)
    np.testing.assert_array_equal(run.takes["main"].body_q, made.body_q)
    assert [r.name for r in run.scenery.rigid] == ["box"] and scenery(problem).joints is None
    site = run.takes["main"].positions[-1, 0]
    np.testing.assert_allclose(
        site, Rigid("", np.array([0]), np.array([[0.1, 0, 0]])).at(made.body_q[-1])[0], atol=1e-12
    )
    page = (outcome.folder / "report.html").read_text()
    assert '"poses"' in page and "bodies" in page
    trajectory = outcome.folder / "trajectory.npz"
    whole = trajectory.read_bytes()
    write_frames(trajectory, {"main": Frames(made.positions, made.times)})
    with pytest.raises(sim.io.RunFolderError, match="cannot be read"):  # there is a body, but not where it is
        load_run(outcome.folder)
    trajectory.write_bytes(whole)
    paths = [path for kind in ("glb", "npz", "csv") for path in export_run(run, kind)]
    assert [p.name for p in paths] == ["toss.main.glb", "toss.npz", "toss.main.points.csv", "toss.main.bodies.csv"]
    file = Glb(paths[0].read_bytes())
    np.testing.assert_allclose(file.places("box", 0.5), run.scenery.rigid[0].at(made.body_q[-1]), atol=3e-6)
