"""`position` of bodies and rods, as a material value: where they are, as scenes state it."""

import numpy as np

import sim

SCENE = """
format: 2
time: {duration: 0.1, fps: 10, substeps: 1}
objects:
  box: {body: {mass: 1, inertia: [1, 1, 1]}, position: [0.3, -0.1, 0]}
  wire:
    rod: {points: [[0, 0, 0], [1, 0, 0]], segments: 2, radius: 1 mm, density: 7800, young: 2e11}
    position: [0, 0.5, 0]
"""


def test_position_is_where_it_is(tmp_path):
    (tmp_path / "scene.yaml").write_text(SCENE)
    model = sim.load_scene(tmp_path / "scene.yaml").build().model
    want = np.array([[0.3, -0.1, 0], [0.25, 0.5, 0], [0.75, 0.5, 0]])
    np.testing.assert_allclose(model.state().body_q.numpy()[:, :3], want, atol=1e-12)
    for name, place in (("box", [0.3, -0.1, 0]), ("wire", [0, 0.5, 0])):
        np.testing.assert_array_equal(model[f"{name}.position"].numpy()[0], place)
        model[f"{name}.position"].assign(np.array([place]) + [[0, 1.0, 0]])
    np.testing.assert_allclose(model.state().body_q.numpy()[:, :3], want + [0, 1, 0], atol=1e-12)
