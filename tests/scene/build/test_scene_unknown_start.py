"""Initial states as unknowns: where an object begins, how it is turned and how fast it goes, in every take its own."""

import numpy as np
import pytest

import sim
from sim.geometry import quaternion_about, quaternion_inverse, quaternion_product
from sim.io import Recording, write_recording
from sim.scene import load_scene
from sim.schema.errors import SceneError

THROWN = """
format: 2
name: thrown
time: {duration: 0.3, fps: 50, substeps: 4}
solver: {xpbd: {iterations: 5}}
objects:
  thing:
    KIND
    position: [0.1, 0.3, 0]
    rotation: {axis: [0, 0, 1], angle: 0.3}
    PLACED
markers:
  seen: {on: thing, MARKERS}
experiments: EXPERIMENTS
parameters: PARAMETERS
loss: LOSS
optimize: {gauss_newton: {iterations: 30}, stop: {gradient: 1e-8}}
"""
KINDS = {
    "cloth": (
        "cloth: {grid: {size: [0.3, 0.2], cells: [3, 2]}, density: 0.3, material: {distance: {compliance: 1e-3}}}",
        "farthest: 4",
    ),
    "body": (
        "body: {mass: 1, inertia: [0.01, 0.02, 0.015]}",
        "at: [[0.1, 0.3, 0], [0.2, 0.3, 0], [0.1, 0.45, 0.1]]",
    ),
}
TAKES = {
    "one": {"position": (0.12, 0.28, 0.03), "turn": (0.1, -0.2, 0.1), "velocity": (1, 2, -0.5), "spin": (0.2, 0.5, -1)},
    "two": {
        "position": (0.05, 0.33, -0.02),
        "turn": (-0.2, 0.1, 0.2),
        "velocity": (-1, 1, 0.3),
        "spin": (-0.5, 0.3, 0.4),
    },
}
SOUGHT = "{" + ", ".join(f"{key}: {{of: objects.thing.{key}, per: experiment}}" for key in TAKES["one"]) + "}"


def written(folder, kind, placed="", experiments="{main: {}}", parameters="{}"):
    made, markers = KINDS[kind]
    text = THROWN.replace("KIND", made).replace("MARKERS", markers).replace("PLACED", placed)
    text = text.replace("EXPERIMENTS", experiments).replace("PARAMETERS", parameters)
    (folder / "scene.yaml").write_text(text.replace("LOSS", "[{match: seen}]" if "target" in experiments else "[]"))
    return load_scene(folder / "scene.yaml")


def recorded(folder, kind):
    """A recording of every take."""
    for name, take in TAKES.items():
        problem = written(folder, kind).build()
        for key, value in take.items():
            problem.model[f"thing.{'rotation' if key == 'turn' else key}"].assign([value])
        seen = problem.markers["seen"].at(problem.simulate()["main"].positions)
        write_recording(folder / f"{name}.npz", seen=Recording(seen, problem.experiments[0].schedule.times))
    files = (f"{name}: {{target: {{file: {name}.npz, key: seen, noise: 1 mm}}}}" for name in TAKES)
    return "{" + ", ".join(files) + "}"


@pytest.mark.parametrize("kind", KINDS)
def test_placement_and_velocity_of_every_take_are_found(tmp_path, kind):
    problem = written(tmp_path, kind, experiments=recorded(tmp_path, kind), parameters=SOUGHT).build()
    assert problem.start.size == 24
    found = problem.optimize()
    assert found.loss < 1e-12
    for key in TAKES["one"]:
        np.testing.assert_allclose(found.parameters[key], [take[key] for take in TAKES.values()], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_the_start_are_those_of_differences(tmp_path, kind):
    problem = written(tmp_path, kind, experiments=recorded(tmp_path, kind), parameters=SOUGHT).build()
    rng = np.random.default_rng(3)
    x = problem.start + 0.1 * rng.normal(size=24)
    along, h = rng.normal(size=24), 1e-4
    _, gradient = problem.value_and_grad(x)
    near, far = (problem.value(x + t * along) - problem.value(x - t * along) for t in (h, 2 * h))
    assert abs(gradient @ along / ((8 * near - far) / (12 * h)) - 1) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_is_one_about_the_origin_of_the_object(tmp_path, kind):
    turn = np.array([0.2, -0.4, 0.1])
    plain, turned = (written(tmp_path, kind, placed).build() for placed in ("", f"turn: {turn.tolist()}"))
    if kind == "body":
        axis = quaternion_about(turn, float(np.linalg.norm(turn)))
        own = plain.model.body_q.numpy()[0]
        want = quaternion_product(axis, own[3:])
        further = quaternion_product(turned.model.body_q.numpy()[0, 3:], quaternion_inverse(want))
        np.testing.assert_allclose(further[:3], 0.0, atol=1e-12)
        return
    origin = np.array([0.1, 0.3, 0.0])
    axis, angle = turn / np.linalg.norm(turn), np.linalg.norm(turn)
    x = plain.model.particle_q.numpy() - origin
    want = x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + np.outer(x @ axis, axis) * (1 - np.cos(angle))
    np.testing.assert_allclose(turned.model.particle_q.numpy(), origin + want, atol=1e-12)


def test_an_experiment_may_set_the_rotation_of_cloth_too(tmp_path):
    scene = written(
        tmp_path, "cloth", experiments="{main: {set: {objects.thing.rotation: {axis: [0, 1, 0], angle: 1}}}}"
    )
    made = scene.build()
    other = written(tmp_path, "cloth")
    other.data["objects"]["thing"]["rotation"] = {"axis": [0.0, 1.0, 0.0], "angle": 1.0}
    start = other.build().model.particle_q.numpy()
    np.testing.assert_allclose(made.simulate()["main"].start, start, atol=1e-12)


def test_what_cannot_be_turned_is_refused(tmp_path):
    scene = written(tmp_path, "cloth", "turn: [0.1, 0, 0]",
                    "{main: {set: {objects.thing.rotation: {axis: [0, 1, 0], angle: 1}}}}")  # fmt: skip
    with pytest.raises(SceneError, match="has a `turn` besides"):
        scene.build()
    rod = "rod: {points: [[0, 0, 0], [0.5, 0, 0]], segments: 3, radius: 4 mm, density: 1300, young: 1e7, poisson: 0.4}"
    KINDS["rod"] = (rod, "at: [[0.1, 0.3, 0]]")
    try:
        with pytest.raises(SceneError, match="segments would each turn"):
            written(tmp_path, "rod", "turn: [0.1, 0, 0]").build()
        with pytest.raises(sim.model.ModelError, match="cannot be turned as one"):
            builder = sim.ModelBuilder()
            rod = builder.add_rod([(0, 0, 0), (1, 0, 0)], radius=0.01, density=1e3, young=1e6, poisson=0.4)
            builder.set_rotation(rod, (1, 0, 0))
    finally:
        del KINDS["rod"]


TWISTED = """
format: 2
time: {duration: 0.5, fps: 20, substeps: 5}
solver: {xpbd: {direct: [wire]}}
objects:
  wire:
    rod: {points: [[0, 0, 0], [0, -0.5, 0]], segments: 2, radius: 1 mm, density: 8000, young: 2e9, poisson: 0.35,
          clamp: {start: world, end: disc}}
  disc:
    body: {mass: 0.25, inertia: [2.1e-4, 4e-4, 2.1e-4]}
    position: [0, -0.5, 0]
    turn: TURN
experiments: {main: SET}
"""


def test_a_rod_is_twisted_by_the_turn_of_what_it_is_clamped_to(tmp_path):
    # whoever gives the turn, the scene or an experiment: a clamp is at rest as the objects are placed
    ends = []
    for turn, own in (("[0, 0.6, 0]", "{}"), ("[0, 0, 0]", "{set: {objects.disc.turn: [0, 0.6, 0]}}")):
        (tmp_path / "scene.yaml").write_text(TWISTED.replace("TURN", turn).replace("SET", own))
        poses = load_scene(tmp_path / "scene.yaml").build().simulate()["main"].poses_from_start
        ends.append(2 * np.arctan2(poses[-1, 0, 4], poses[-1, 0, 6]))
    # k / I = G J / (L I), G = 2e9 / 2.7: a quarter of a period takes 0.65 s
    swing = 0.6 * np.cos(0.5 * np.sqrt(2e9 / 2.7 * np.pi / 2 * 1e-12 / 0.5 / 4e-4))
    np.testing.assert_allclose(ends, swing, atol=0.01)
