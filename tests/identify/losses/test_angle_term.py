"""`angle`: values, whole turns, gradients and residuals of the term, and what is said about wrong scenes."""

import numpy as np
import pytest

import sim
from sim.identify.data.angles import AngleTarget, read_angles, sample_angles
from sim.identify.losses.terms.angle import Angle
from sim.identify.search.horizon import Horizon
from sim.io import RecordingError

SCENE = """
format: 2
time: {duration: 0.2, fps: 100, substeps: 1}
world: {gravity: [0, 0, 0]}
objects:
  stick:
    body: {mass: 1, inertia: [1, 1, 1], sites: {a: [0, 0, 0], b: [0.3, 0.1, 0.2]}}
    position: [1, 2, 3]
    spin: [0, 0, 40]
  other: {body: {mass: 1, inertia: [1, 1, 1], sites: {a: [0, 0, 0], b: [0.1, -0.3, 0.1]}}, spin: [0, 0, -20]}
markers:
  stick: {on: stick, where: {all: true}}
  other: {on: other, where: {all: true}}
experiments:
  take: {angles: {file: angles.csv, noise: 0.1 rad}}
parameters:
  spin: {of: objects.stick.spin.2, scale: 1}
loss:
  - {angle: {marker: stick, about: [0, 0, 2], from: FROM}}
"""


def problem(folder, zero="[1, 0, 0]", scene=SCENE, angles=None):
    times = np.arange(21) / 100
    angles = 0.05 + 40 * times if angles is None else angles
    rows = [f"{t},{'' if np.isnan(a) else a}" for t, a in zip(times, angles, strict=True)]
    (folder / "angles.csv").write_text("\n".join(["time,stick", *rows]))
    (folder / "scene.yaml").write_text(scene.replace("FROM", zero))
    return sim.load_scene(folder / "scene.yaml").build()


def test_whole_turns(tmp_path):
    """A stick that turns by more than a turn: the loss is that of the difference, which is constant."""
    made = problem(tmp_path)
    begins = np.arctan2(0.1, 0.3)
    assert made.value(made.start) == pytest.approx(((begins - 0.05) / 0.1) ** 2, rel=1e-9)
    parts = made.residuals(made.start, made.simulate())
    assert parts[0].values.shape == (20, 1, 1)
    assert sum(p.loss for p in parts) == pytest.approx(made.value(made.start), rel=1e-12)


@pytest.mark.parametrize("zero, relative", [("[1, 0, 0]", 0.0), ("other", -20.0)])
def test_gradient(zero, relative, tmp_path):
    """By the spin, against the closed form: both lines turn about the axis alone.  Frames that were not seen are out,
    and turns of a file that does not count them are counted."""
    angles = np.mod(0.05 + (38 - relative) * np.arange(21) / 100 + np.pi, 2 * np.pi) - np.pi
    angles[[1, 2, 7]] = np.nan
    made = problem(tmp_path, zero, angles=angles)
    times = np.delete(np.arange(21) / 100, [0, 1, 2, 7])
    begins = np.arctan2(0.1, 0.3) - (np.arctan2(-0.3, 0.1) if relative else 0.0)
    error = begins - 0.05 + 2 * times
    error -= 2 * np.pi * np.round(error[0] / (2 * np.pi))
    loss, gradient = made.value_and_grad(made.start)
    assert loss == pytest.approx(np.mean((error / 0.1) ** 2), rel=1e-6)
    np.testing.assert_allclose(gradient, np.mean(2 * error * times) / 0.01, rtol=1e-6)
    assert sum(p.loss for p in made.residuals(made.start, made.simulate())) == pytest.approx(loss, rel=1e-12)


def test_first_part(tmp_path):
    """On a horizon, the first part of the recording counts."""
    made = problem(tmp_path, angles=0.05 + 30 * np.arange(21) / 100)
    part, e = made.up_to(Horizon(0.5)), made.experiments[0]
    assert isinstance(made.terms[0], Angle) and made.terms[0].predicts(e)
    error = np.arctan2(0.1, 0.3) - 0.05 + 10 * np.arange(1, 21) / 100
    for p, frames in ((part, 10), (made, 20)):
        assert p.value(p.start) == pytest.approx(np.mean((error[:frames] / 0.1) ** 2), rel=1e-9)


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("about: [0, 0, 2]", "about: [1, 0, 0]", "direction from which the angle counts"),
        ("angles: {file: angles.csv, noise: 0.1 rad}", "use: fit", "no recording of angles"),
        ("noise: 0.1 rad", "noise: 0.1 rad, columns: {other: stick}", "has no angle `stick`"),
        ("noise: 0.1 rad", "noise: 0.1 rad, columns: {stick: stik}", "did you mean `stick`"),
        ("b: [0.3, 0.1, 0.2]", "b: [0.3, 0.1, 0.2], c: [0, 0, 1]", "3 markers; a line is between two"),
        ("duration: 0.2", "duration: 0.5", "ends at 0.2 s"),
    ],
)
def test_wrong_scenes(old, new, words, tmp_path):
    assert old in SCENE
    with pytest.raises(sim.SceneError, match=words):
        problem(tmp_path, scene=SCENE.replace(old, new))


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "missing"),
        ("t,a\n0,1", "header is `t, a`"),
        ("time,a\n0,1\n0,2", "line 3: the time"),
        ("time,a\n0,1,3", "line 2: 3 cells"),
        ("time,a\n0,x", "line 2: `x` is not a number"),
    ],
)
def test_wrong_files(text, words, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(RecordingError, match=words):
        read_angles(tmp_path / "a.csv", 1.0)


def test_samples():
    """Between rows by interpolation, beside a gap nothing."""
    times, angles = np.arange(4.0), {"a": np.array([0.0, 1.0, np.nan, 3.0])}
    found = sample_angles(times, angles, "a", np.array([0.5, 1.0, 1.5, 3.0]), 0.1)
    assert isinstance(found, AngleTarget) and found.start == 0.0
    np.testing.assert_array_equal(found.values, [0.5, 1.0, np.nan, 3.0])
