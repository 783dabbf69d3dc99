"""Rods in scenes: their markers, of which some are nodes and others lie between, and how they begin to move."""

import numpy as np
import pytest

from sim.scene import load_scene
from sim.schema.errors import SceneError

SCENE = """
format: 2
name: rod
time: {duration: 0.1, fps: 10, substeps: 1}
solver: {xpbd: {direct: [rope]}}
objects:
  rope:
    rod: {points: [[0, 0, 0], [1, 0, 0]], segments: 4, radius: 4 mm, density: 1000, young: 1e7, clamp: {start: world}}
markers:
  dots: {on: rope, at: [[0.6, 0, 0], [1, 0, 0], [0.1, 0, 0], [0, 0, 0], [1, 0, 0]]}
"""


def test_markers_keep_their_order_beside_nodes(tmp_path):
    (tmp_path / "rod.yaml").write_text(SCENE)
    problem = load_scene(tmp_path / "rod.yaml").build()
    dots = problem.markers["dots"]
    group = problem.model.groups["rope"]
    np.testing.assert_allclose(group.positions[np.ravel(dots.points) - group.start, 0], [0.6, 1, 0.1, 0, 1], atol=1e-12)


def test_a_rod_begins_with_its_velocity(tmp_path):
    """All of it: it flies as a point does, and its velocity is the value that may be sought."""
    thrown = SCENE.replace(", clamp: {start: world}}", "}\n    velocity: [1, 2, 3]")
    (tmp_path / "rod.yaml").write_text(thrown)
    problem = load_scene(tmp_path / "rod.yaml").build()
    np.testing.assert_array_equal(problem.model["rope.velocity"].numpy(), [[1, 2, 3]])
    flown = problem.simulate()["main"].positions[-1] - problem.start_positions(problem.experiments[0])
    np.testing.assert_allclose(flown, np.tile([0.1, 0.2 - 9.81 * 0.1**2 / 2, 0.3], (len(flown), 1)), atol=1e-6)


def test_the_spin_of_a_rod_is_refused(tmp_path):
    """Each segment would turn about its own middle."""
    (tmp_path / "rod.yaml").write_text(SCENE.replace("start: world}}", "start: world}}\n    spin: [0, 1, 0]"))
    with pytest.raises(SceneError, match="`spin` of a rod, whose segments would each turn by themselves"):
        load_scene(tmp_path / "rod.yaml").build()


def test_a_radius_in_another_unit_is_refused(tmp_path):
    (tmp_path / "rod.yaml").write_text(SCENE.replace("radius: 4 mm", "radius: 4"))
    with pytest.raises(SceneError, match="radius = 4 m is more than the whole rod measures, 1 m"):
        load_scene(tmp_path / "rod.yaml").build()
