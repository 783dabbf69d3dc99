"""Branches and air in scenes: from their keys to values of the model, and to parameters that are sought."""

import numpy as np
import pytest

from sim.identify.assess.gradcheck import check_gradient
from sim.scene import SceneError, load_scene
from sim.scene.build.problem import build_problem

SCENE = """
format: 1
world: {gravity: [0, -30, 0], wind: [0, 2 km/h, 0], air_density: 1.1 kg/m^3}
time: {duration: 40 ms, fps: 100, substeps: 2}
objects:
  block:
    soft:
      lattice: {size: [1, 1, 1], cells: [1, 1, 1]}
      density: 100
      material:
        deviatoric:
          young: 10 kPa
          poisson: 0.4
          branches:
          - {stiffness: 0.5, time: 30 ms}
          - {stiffness: 0.2, yield: 0.01}
          - {stiffness: 0.1, time: 0.2 s}
        cell_volume: {young: 10 kPa, poisson: 0.4}
    air: {normal: 1.2, tangential: 0.02}
attachments:
  base: {on: block, where: {y: [null, 0]}}
markers:
  top: {on: block, where: {y: [1, null], x: [null, 0]}}
parameters:
  slow: {of: objects.block.soft.material.deviatoric.branches.2.time, transform: log}
  slip: {of: objects.block.soft.material.deviatoric.branches.1.yield}
  gust: {of: world.wind.1}
  rough: {of: objects.block.air.tangential}
loss:
- {reach: {marker: top, point: [0, 1, 0], scale: 1 cm}}
"""


def problem(folder, *edits):
    text = SCENE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (folder / "scene.yaml").write_text(text, encoding="utf-8")
    return build_problem(load_scene(folder / "scene.yaml"))


NO_PARAMETERS = (SCENE[SCENE.index("parameters:") :], "")


def test_values_of_the_model(tmp_path):
    model = problem(tmp_path, NO_PARAMETERS).model
    branches = "block.deviatoric.branches"
    found = [model[f"{branches}.{key}"].numpy()[0] for key in ("0.stiffness", "0.time", "1.yield", "2.time")]
    np.testing.assert_allclose(found, [0.5, 0.03, 0.01, 0.2])
    np.testing.assert_allclose(model["wind"].numpy(), [[0, 2 / 3.6, 0]])
    np.testing.assert_allclose(model["air_density"].numpy(), [1.1])
    np.testing.assert_allclose(model.tri_air_normal.numpy(), 1.2)
    np.testing.assert_allclose(model.tri_air_tangential.numpy(), 0.02)
    assert set(model.constraint_sets) == {"deviatoric_relaxing_yielding_relaxing", "cell_volume"}


@pytest.mark.parametrize(
    ("old", "new", "path", "fragment"),
    [
        ("yield: 0.01}", "yield: 0.01, time: 1 s}", "branches.1.time", "exclude each other"),
        ("yield: 0.01}", "}", "branches.1", "one of `time`, `yield`"),
        ("{stiffness: 0.2, yield", "{yield", "branches.1", "missing key `stiffness`"),
        ("time: 0.2 s}", "time: 0 s}", "branches.2.time", "positive"),
        ("{normal: 1.2, ", "{", "objects.block.air", "missing key `normal`"),
        ("wind: [0, 2 km/h, 0]", "wind: [0, 2 kg, 0]", "world.wind", "velocity"),
    ],
)
def test_what_is_wrong(tmp_path, old, new, path, fragment):
    with pytest.raises(SceneError) as caught:
        problem(tmp_path, NO_PARAMETERS, (old, new))
    assert path in str(caught.value) and fragment in str(caught.value)


def test_air_needs_faces(tmp_path):
    body = SCENE[SCENE.index("    soft:") : SCENE.index("    air")]
    with pytest.raises(SceneError, match="no triangles for the air"):
        problem(tmp_path, NO_PARAMETERS, (body, "    particles: {positions: [[0, 0, 0]], mass: 1}\n"))


def test_a_wind_that_nothing_feels_is_said(tmp_path):
    heard = problem(tmp_path, NO_PARAMETERS, ("    air: {normal: 1.2, tangential: 0.02}\n", "")).description.notes
    assert any("no object feels it" in text for text in heard)


def test_gradients_of_what_is_sought(tmp_path):
    rows = check_gradient(problem(tmp_path))
    assert [row.parameter for row in rows] == ["slow", "slip", "gust", "rough"]
    for row in rows:
        assert row.difference != 0.0 and row.error < 1e-4, row
