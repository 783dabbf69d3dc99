"""`motion: {follow: ...}`: bodies and attached points go as markers were recorded, at another rate than the steps."""

import numpy as np
import pytest
from tools.scenes.problems import write_scene

import sim
from sim.io import Recording, write_recording
from sim.schema.errors import SceneError

SCENE = """\
format: 2
name: led
time: {duration: 0.4, fps: 40, substeps: 3}
objects:
  hand:
    position: [0.3, 0.1, 0]
    body:
      mass: 0
      sites: {a: [0.02, 0, 0], b: [0, 0.03, 0.01], c: [-0.01, -0.02, 0]}
      motion: {follow: {file: hand.csv, unit: mm, axes: [x, z, -y], markers: [a, b, c], start: 0.5}}
  ball: {body: {mass: 0.1, inertia: [1e-5, 1e-5, 1e-5]}, position: [0.3, -0.1, 0]}
markers:
  dots: {on: hand, where: {all: true}}
"""
OFFSETS = np.array([[0.02, 0, 0], [0, 0.03, 0.01], [-0.01, -0.02, 0]])
ORIGIN = np.array([0.3, 0.1, 0.0])


def place(t: np.ndarray) -> np.ndarray:
    """(n, 3, 3) [m]: of the three sites, after a move and a turn about a fixed axis."""
    angle, axis = 1.2 * np.sin(5 * t), np.array([2.0, -1.0, 2.0]) / 3
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    turn = np.eye(3) + np.sin(angle)[:, None, None] * cross + (1 - np.cos(angle))[:, None, None] * (cross @ cross)
    moved = np.stack([0.1 * np.sin(6 * t), 0.05 * t, 0.2 * t**2], axis=1)
    return ORIGIN + moved[:, None] + np.einsum("tij,mj->tmi", turn, OFFSETS)


def record(folder, rate: float, labels=("a", "b", "c"), gaps=()) -> None:
    """In millimetres, z up, with a clock that is half a second ahead."""
    times = np.arange(round(0.5 * rate) + 1) / rate
    seen = place(times)
    seen[list(gaps), 1] = np.nan
    x, y, z = np.moveaxis(seen, 2, 0)
    recording = Recording(1e3 * np.stack([x, -z, y], axis=2), times + 0.5, labels)
    write_recording(folder / "hand.csv", take=recording)


def sites(folder, rate: float, scene: str = SCENE, **more) -> tuple[np.ndarray, np.ndarray]:
    record(folder, rate, **more)
    problem = sim.load_scene(write_scene(folder, scene)).build()
    e = problem.experiments[0]
    found = problem.simulate([])[e.name].positions
    return problem.markers["dots"].at(found), place(e.schedule.times)


def test_a_hand_goes_as_recorded(tmp_path):
    """At the samples exactly; between them to fourth order of their distance."""
    found, wanted = sites(tmp_path, 40.0)
    assert np.abs(found - wanted).max() < 1e-12  # frame k is sample k + 1
    off = [np.abs(np.subtract(*sites(tmp_path, rate))).max() for rate in (35.0, 70.0, 140.0)]
    assert off[0] < 2e-4 and off[1] < off[0] / 11 and off[2] < off[1] / 11, off


def test_gaps_are_refused_unless_they_are_bridged(tmp_path):
    with pytest.raises(SceneError, match="1 of 18 frames miss a marker, the longest gap lasts 0.05 s"):
        sites(tmp_path, 40.0, gaps=(3,))
    with pytest.raises(SceneError, match="2 of 18 frames miss a marker, the longest gap lasts 0.075 s"):
        sites(tmp_path, 40.0, SCENE.replace("start: 0.5", "start: 0.5, bridge: 60 ms"), gaps=(3, 4))
    found, wanted = sites(tmp_path, 40.0, SCENE.replace("start: 0.5", "start: 0.5, bridge: 60 ms"), gaps=(3,))
    off = np.abs(found - wanted).max(axis=(1, 2))
    assert off[[0, 1, 3, 4, 15]].max() < 1e-12 < off[2] < 1e-3
    sites(tmp_path, 40.0, gaps=(19, 20))  # behind the end


CLAMP = """\
format: 2
name: clamp
time: {duration: 0.3, fps: 100, substeps: 3}
objects:
  sheet:
    cloth:
      grid: {size: [0.2, 0.2], cells: [4, 4]}
      density: 0.2 kg/m^2
      material: {distance: {compliance: 1e-5}, bend: {compliance: 1000}}
attachments:
  clamp:
    on: sheet
    where: {y: [0.14, 1]}
    motion: MOTION
markers:
  held: {on: sheet, where: {y: [0.14, 1]}}
  free: {on: sheet, farthest: 5}
solver: {xpbd: {iterations: 4}}
"""


def clamped(folder, motion: str) -> dict[str, np.ndarray]:
    """Markers -> places from t = 0 on."""
    problem = sim.load_scene(write_scene(folder, CLAMP.replace("MOTION", motion))).build()
    (found,) = problem.simulate([]).values()
    times = np.concatenate([[0.0], found.times])
    out = {n: np.concatenate([m.at(found.start)[None], m.at(found.positions)]) for n, m in problem.markers.items()}
    write_recording(folder / "run.npz", held=Recording(out["held"], times))
    return out


def test_a_clamp_replayed_from_a_run_s_own_recording_gives_the_other_markers(tmp_path):
    """Three steps for each frame that was recorded: what lies between is the spline's."""
    first = clamped(tmp_path, "{swing: [0, 0.06, 0.02], frequency: 2.5 Hz}")
    again = clamped(tmp_path, "{follow: {file: run.npz, key: held}}")
    assert np.ptp(first["free"], axis=0).max() > 0.05
    assert np.abs(again["held"] - first["held"]).max() < 1e-12 and np.abs(again["free"] - first["free"]).max() < 1e-6
    one = clamped(tmp_path, "[{follow: {file: run.npz, markers: ['3']}}, {move: [0, 0, 0.1], end: 1}]")
    assert np.abs(one["held"] - first["held"])[-1].max() > 0.02  # motions are added up
    with pytest.raises(SceneError, match="the recording ends at 0.3 s, the simulation at 0.5 s"):
        write_scene(tmp_path, CLAMP.replace("MOTION", "{follow: {file: run.npz}}"))
        sim.load_scene(tmp_path / "scene.yaml", ["time.duration=0.5"]).build()


def test_points_are_let_go(tmp_path):
    """A clamp that lets go after 0.1 s: all of the sheet falls from then on."""
    soft = "{swing: [0, 0.06, 0.02], frequency: 2.5 Hz}\n    compliance: 1e-7 m/N"
    held, let_go = clamped(tmp_path, soft), clamped(tmp_path, f"{soft}\n    release: 0.1 s")
    np.testing.assert_array_equal(held["held"][:11], let_go["held"][:11])
    fallen = (held["held"] - let_go["held"])[-1, :, 1]
    assert 0.1 < fallen.min() and fallen.max() < 0.5 * 9.81 * 0.2**2 + 0.2
    with pytest.raises(SceneError, match="compliance 0, cannot be let go.*\n.*\n.*\n.*compliance: 1e-7"):
        clamped(tmp_path, "{swing: [0, 1, 0], frequency: 1}\n    release: 0.1 s")


def test_attached_points_turn_with_markers(tmp_path):
    """Those of the clamp are where the hand takes them, and the gradient by their offset turns with it."""
    record(tmp_path, 40.0)
    motion = "{follow: {file: hand.csv, unit: mm, axes: [x, z, -y], start: 0.5}}"
    found = clamped(tmp_path, motion)["held"]
    turn = place(np.array([0.3])) - place(np.array([0.3])).mean(axis=1, keepdims=True)
    start = place(np.array([0.0])) - place(np.array([0.0])).mean(axis=1, keepdims=True)
    u, _, vt = np.linalg.svd(turn[0].T @ start[0])
    rotation = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt
    middle = place(np.array([0.0, 0.3])).mean(axis=1)
    assert np.linalg.norm(rotation - np.eye(3)) > 1.0
    np.testing.assert_allclose(found[-1], (found[0] - middle[0]) @ rotation.T + middle[1], atol=1e-7)


@pytest.mark.parametrize("change, what", [
    (("markers: [a, b, c]", "markers: [a, b]"), "two markers tell no rotation"),
    (("start: 0.5", "start: frame 3"), "not all markers are seen at t = 0"),
    (("axes: [x, z, -y]", "axes: [x, z, y]"), "mirror image"),
    (("motion: {follow: ", "motion: {swing: [1, 0, 0], follow: "), "exclude each other|one of"),
    (("mass: 0\n", "mass: 1\n      inertia: [1, 1, 1]\n"), "moves by itself|held"),
])  # fmt: skip
def test_what_cannot_be_followed(tmp_path, change, what):
    record(tmp_path, 40.0, gaps=(3,) if "frame 3" in change[1] else ())
    with pytest.raises(SceneError, match=what):
        sim.load_scene(write_scene(tmp_path, SCENE.replace(*change))).build()


PULLED = """\
format: 2
name: pulled
time: {duration: 0.2, fps: 50, substeps: 4}
world: {gravity: [0, 0, 0]}
objects:
  rope: {chain: {from: [0, 0, 0], to: [1, 0, 0], points: 3, mass: 3 kg, material: {distance: {compliance: 1e-2}}}}
loads:
  pull: {on: rope, where: {all: true}, force: {file: force.csv, FORCE}}
"""


def test_a_recorded_force_pulls(tmp_path):
    """3 N/s on 3 kg, in kilonewtons and with z up in the file: all points move by t^3 / 6, as Euler's method has it."""
    times = np.array([-0.1, 0.1, 0.3])
    rows = [f"{t},0,0,{3e-3 * t},1,1,1" for t in times]
    (tmp_path / "force.csv").write_text("\n".join(["time,hand.x,hand.y,hand.z,foot.x,foot.y,foot.z", *rows]))

    def pulled(force):
        problem = sim.load_scene(write_scene(tmp_path, PULLED.replace("FORCE", force))).build()
        return next(iter(problem.simulate([]).values())).positions

    found, n, dt = pulled("unit: kN, up: z, markers: [hand]"), 4 * np.arange(1, 11), 0.005
    np.testing.assert_allclose(found[:, :, 1], np.tile((dt**3 * n * (n + 1) * (n + 2) / 6)[:, None], 3), rtol=1e-9)
    with pytest.raises(SceneError, match="the file has 2 forces: hand, foot"):
        pulled("up: z")
    with pytest.raises(SceneError, match="not a unit of a force"):
        pulled("unit: mm")


HAND = """\
  hand:
    position: [0.3, 0.4, 0]
    body: {held: true, mass: 1, inertia: [1, 1, 1], sites: {a: [0.1, 0, 0], b: [0, 0, 0.1]}, motion: BODY}
attachments:
"""
LED = CLAMP.replace("attachments:\n", HAND).replace("markers:\n", "markers:\n  sites: {on: hand, where: {all: true}}\n")
LATE = "{follow: {file: hand.csv, unit: mm, axes: [x, z, -y], start: 0.55, delay: 15 ms, frame: [0.2, -0.1, 0.3]}}"


def test_a_delay_begins_later_in_the_recording_and_a_frame_turns_its_axes(tmp_path):
    """As the motion of a rigid body since its new begin, seen with turned axes."""
    record(tmp_path, 200.0)
    again = LATE.replace("start: 0.55, delay: 15 ms", "start: 0.565, delay: 0").replace(", frame: [0.2, -0.1, 0.3]", "")
    found, later = (clamped(tmp_path, motion)["held"] for motion in (LATE.partition(", frame")[0] + "}}", again))
    np.testing.assert_allclose(found, later, atol=1e-6)
    t = np.array([0.065, 0.165])
    x = place(t)
    arms = x - x.mean(axis=1, keepdims=True)
    u, _, vt = np.linalg.svd(arms[1].T @ arms[0])
    rotation, shift = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt, x[1].mean(axis=0)
    begin = clamped(tmp_path, LATE)["held"]
    axis = np.array([0.2, -0.1, 0.3])
    size = np.linalg.norm(axis)
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]]) / size
    frame = np.eye(3) + np.sin(size) * k + (1 - np.cos(size)) * (k @ k)
    middle = begin[0].mean(axis=0)
    local = (begin[0] - middle) @ frame + middle  # in the recording's axes, about what it moves
    moved = (local - x[0].mean(axis=0)) @ rotation.T + shift
    np.testing.assert_allclose(begin[10], (moved - middle) @ frame.T + middle, atol=1e-5)


PARAMETERS = """
parameters:
  late: {of: attachments.clamp.motion.0.follow.delay, bounds: [-40 ms, 40 ms], scale: 10 ms}
  axes: {of: attachments.clamp.motion.0.follow.frame, scale: 0.1}
  late_hand: {of: objects.hand.body.motion.0.follow.delay, bounds: [-40 ms, 40 ms], scale: 10 ms}
  axes_hand: {of: objects.hand.body.motion.0.follow.frame, scale: 0.1}
experiments:
  take: {target: {file: take.npz, markers: {free: [0, 1, 2, 3, 4], sites: [5, 6]}}}
loss: [{match: free}, {match: sites}]
"""
UNKNOWN = "{follow: {file: hand.csv, unit: mm, axes: [x, z, -y], start: 0.55}}"


def led_late(tmp_path):
    """Takes of a clamp and a body that go as recorded, of which neither clock nor axes are known: what is sought."""
    record(tmp_path, 200.0)
    write_scene(tmp_path, LED.replace("MOTION", LATE).replace("BODY", LATE))
    truth = sim.load_scene(tmp_path / "scene.yaml").build()
    (made,) = truth.simulate([]).values()
    seen = np.concatenate([truth.markers[name].at(made.positions) for name in ("free", "sites")], axis=1)
    write_recording(tmp_path / "take.npz", take=Recording(seen, made.times))
    write_scene(tmp_path, LED.replace("MOTION", UNKNOWN).replace("BODY", UNKNOWN) + PARAMETERS)
    return sim.load_scene(tmp_path / "scene.yaml").build()


def test_gradients_by_clock_and_axes_of_a_recording(tmp_path):
    problem = led_late(tmp_path)
    x, along, h = problem.start + 0.05, np.random.default_rng(0).normal(size=8), 1e-3
    near, far = (problem.value(x + t * along) - problem.value(x - t * along) for t in (h, 2 * h))
    assert abs(problem.value_and_grad(x)[1] @ along / ((8 * near - far) / (12 * h)) - 1) < 1e-6


@pytest.mark.slow
def test_clock_and_axes_of_a_recorded_hand_are_found(tmp_path):
    found = led_late(tmp_path).optimize()
    for name in ("", "_hand"):
        assert abs(found.parameters[f"late{name}"] - 0.015) < 1e-5
        np.testing.assert_allclose(found.parameters[f"axes{name}"], [0.2, -0.1, 0.3], atol=1e-3)


@pytest.mark.parametrize("bounds, what", [
    ("", "nothing says how far"), ("bounds: [-80 ms, 0], ", "begins at -0.05 s, and a delay may begin it at -0.08 s"),
    ("bounds: [0, 300 ms], ", "the recording ends at"),
])  # fmt: skip
def test_a_delay_needs_a_recording_that_reaches_as_far(tmp_path, bounds, what):
    record(tmp_path, 200.0)
    write_recording(tmp_path / "take.npz", take=Recording(np.zeros((60, 7, 3)), np.arange(60) / 100))
    scene = LED.replace("MOTION", UNKNOWN).replace("BODY", UNKNOWN) + PARAMETERS
    write_scene(tmp_path, scene.replace("bounds: [-40 ms, 40 ms], ", bounds))
    with pytest.raises(SceneError, match=what):
        sim.load_scene(tmp_path / "scene.yaml").build()


THROWN = """\
format: 2
name: turned
time: {duration: 0.2, fps: 50, substeps: 20}
world: {gravity: [0, 0, 0]}
objects:
  wheel: {position: [1, 0, 0], body: {mass: 2, inertia: [0.1, 0.1, 0.1], sites: {a: [0.1, 0, 0]}}}
loads:
  motor: {on: wheel, torque: {file: torque.csv, unit: kN m, up: z}}
  pull: {on: wheel, force: {file: force.csv, up: z}, at: [1, 0.2, 0]}
"""


def ramps(folder):
    """Of 0.6 N m/s about, and of 3 N/s along, the axis that points up."""
    for name, rate in (("torque", 6e-4), ("force", 3.0)):
        rows = [f"{t},0,0,{rate * t}" for t in (-0.1, 0.1, 0.3)]
        (folder / f"{name}.csv").write_text("\n".join(["time,hand.x,hand.y,hand.z", *rows]))


def test_recorded_torques_and_forces_act_on_a_body(tmp_path):
    """About y by 0.3 t^2 N m s; along y by 1.5 t^2 N s, through a point at its side, which turns nothing there."""
    ramps(tmp_path)
    problem = sim.load_scene(write_scene(tmp_path, THROWN)).build()
    (e,) = problem.experiments
    state = problem.model.state()
    end = sim.rollout(problem.solver, state, e.schedule.steps, e.schedule.dt).final
    velocity, t = end.body_qd.numpy()[0], 0.2
    np.testing.assert_allclose(velocity[:3], [0, 1.5 * t**2 / 2, 0], atol=1e-12)
    np.testing.assert_allclose(velocity[3:], [0, 0.3 * t**2 / 0.1, 0], atol=1e-12)
    aside = sim.load_scene(write_scene(tmp_path, THROWN.replace("[1, 0.2, 0]", "[1.2, 0, 0]"))).build()
    turned = sim.rollout(aside.solver, aside.model.state(), 2, 1e-3).final.body_qd.numpy()[0]
    np.testing.assert_allclose(turned[5], 0.2 * 1.5 * 2e-3**2 / 0.1, rtol=1e-6)


def test_gradients_go_through_where_a_recorded_force_acts():
    builder, times = sim.ModelBuilder(gravity=(0, 0, -1)), np.array([0.0, 0.03, 0.2])
    rng = np.random.default_rng(5)
    for k in range(2):
        wheel = builder.add_body((k, 0, 0), 2.0, (0.1, 0.2, 0.15), (0.02, 0.01, 0.0), f"wheel_{k}", spin=(1, 2, 0.5))
        series = times, rng.normal(size=(3, 3))
        builder.add_body_force(wheel, force=series, torque=series if k else None, at=(0.1, -0.2, 0.3))
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver, weights = sim.SolverXPBD(model), rng.normal(size=(2, 6))
    sought = [f"wheel_{k}.{key}" for k in range(2) for key in ("rotation", "com", "mass", "inertia")]

    def final():
        return sim.rollout(solver, model.state(), 20, 5e-3).final.body_qd

    with sim.Tape() as tape:
        end = final()
    tape.backward(grads={end: weights})
    for path in sought:
        value, found = model[path].numpy().copy(), model[path].grad.numpy().copy()
        along = rng.normal(size=value.shape) * max(0.1, np.abs(value).max())
        ends = []
        for step in (1e-3, -1e-3, 2e-3, -2e-3):
            model[path].assign(value + step * along)
            ends.append(float((weights * final().numpy()).sum()))
        model[path].assign(value)
        difference = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-3
        assert float((found * along).sum()) == pytest.approx(difference, rel=1e-7), path


@pytest.mark.parametrize("change, what", [
    (("{on: wheel, torque", "{on: wheel, mass: 1, torque"), "a mass that is added to a body"),
    (("{on: wheel, torque", "{on: wheel, where: {x: [0, 1]}, torque"), "has no points"),
    (("{on: wheel, torque: {file: torque.csv, unit: kN m, up: z}}", "{on: wheel}"), "nothing acts on the body"),
    (("unit: kN m", "unit: kN"), "not a unit of"),
    (("loads:", "  rope: {chain: {from: [0, 0, 0], to: [1, 0, 0], points: 3, mass: 1}}\nloads:\n"
      "  turn: {on: rope, torque: {file: torque.csv, up: z}}"), "`torque` is for a body"),
])  # fmt: skip
def test_loads_of_bodies_that_make_no_sense(tmp_path, change, what):
    ramps(tmp_path)
    with pytest.raises(SceneError, match=what):
        sim.load_scene(write_scene(tmp_path, THROWN.replace(*change))).build()
