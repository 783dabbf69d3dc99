"""`body.follow`: a held body goes as markers on it were recorded, at another rate than the steps."""

import numpy as np
import pytest
from problem_scenes import write_scene

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
      follow: {file: hand.csv, unit: mm, axes: [x, z, -y], markers: [a, b, c], start: 0.5}
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


def sites(folder, rate: float, **more) -> tuple[np.ndarray, np.ndarray]:
    record(folder, rate, **more)
    problem = sim.load_scene(write_scene(folder, SCENE)).build()
    e = problem.experiments[0]
    found = problem.simulate([])[e.name].positions
    return problem.markers["dots"].at(found), place(e.schedule.times)


def test_a_hand_goes_as_recorded(tmp_path):
    """At the samples exactly; between them to second order of their distance."""
    found, wanted = sites(tmp_path, 40.0, gaps=(3,))
    off = np.abs(found - wanted).max(axis=(1, 2))
    assert off[[0, 1, 3, 4, 15]].max() < 1e-7 < off[2] < 1e-3  # frame k is sample k + 1; the fourth has a gap
    found, wanted = sites(tmp_path, 55.0)
    rough = np.abs(found - wanted).max()
    found, wanted = sites(tmp_path, 110.0)
    assert rough < 1e-3 and np.abs(found - wanted).max() < 0.5 * rough


@pytest.mark.parametrize("change, what", [
    (("markers: [a, b, c]", "markers: [a, b]"), "two markers tell no rotation"),
    (("start: 0.5", "start: frame 3"), "not all markers are seen at t = 0"),
    (("axes: [x, z, -y]", "axes: [x, z, y]"), "mirror image"),
    (("mass: 0\n", "mass: 1\n      inertia: [1, 1, 1]\n"), "moves by itself|held"),
])  # fmt: skip
def test_what_cannot_be_followed(tmp_path, change, what):
    record(tmp_path, 40.0, gaps=(3,))
    with pytest.raises(SceneError, match=what):
        sim.load_scene(write_scene(tmp_path, SCENE.replace(*change))).build()
