"""Contacts in other units: what is thirty times as large moves as it does, lengths by lengths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import sim

RATE = 240


def thrown(size: float, mass: float, time: float, seed: int) -> np.ndarray:
    """Where a box is that was thrown onto a floor, over its size.  size, mass, time: of the units."""
    random = np.random.default_rng(seed)
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81 * size / time**2))
    config = sim.ModelBuilder.ShapeConfig(mu=0.4, restitution=0.3, density=500.0 * mass / size**3)
    builder.add_ground_plane(normal=(0, 0, 1), cfg=config)
    pose = sim.transformd((0, 0, 0.15 * size), tuple(Rotation.random(random_state=seed).as_quat()))
    speed, spin = random.uniform(-1, 1, 3) * size / time, random.uniform(-5, 5, 3) / time
    body = builder.add_body(pose, velocity=tuple(speed), spin=tuple(spin))
    builder.add_shape_box(body, None, 0.05 * size, 0.04 * size, 0.06 * size, cfg=config)
    model = builder.finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model, 2), model.state(), RATE // 2, time / RATE).final
    return end.body_q.numpy()[0, :3] / size


@pytest.mark.parametrize("seed", [2, 5, 11])
def test_what_is_thrown_is_so_in_all_units(seed: int) -> None:
    want = thrown(1.0, 1.0, 1.0, seed)
    assert np.abs(want[:2]).max() > 0.05
    for units in (
        (30.0, 1.0, 1.0),
        (1e-3, 1.0, 1.0),
        (1.0, 1e4, 1.0),
        (1.0, 1e-4, 1.0),
        (1.0, 1.0, 50.0),
        (1.0, 1.0, 1e-3),
    ):
        np.testing.assert_allclose(thrown(*units, seed), want, atol=1e-11, err_msg=f"units of {units}")
