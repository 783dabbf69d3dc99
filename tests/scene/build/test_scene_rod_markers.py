"""Markers on a rod: some of them are nodes, others lie between, and their order is that of the scene."""

import numpy as np

from sim.scene import load_scene

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
