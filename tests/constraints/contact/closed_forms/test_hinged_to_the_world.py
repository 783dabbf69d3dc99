"""What is hinged to the world meets all shapes of the world: joined bodies do not collide, but the world is none."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import CORNERS, FACES, G, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R, LENGTH = 0.1, 1.0


def pendulum(start: float, e: float, wall: str) -> sim.Model:
    """A ball on a rod, let go beside a wall that it touches where it hangs."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    pose = sim.transformd((LENGTH * np.sin(start), -LENGTH * np.cos(start), 0), IDENTITY)
    ball, cfg = made.add_body(pose, label="b"), Config(mu=0.0, restitution=e)
    made.add_shape_sphere(ball, None, R, cfg=Config(mass=1.0, mu=0.0, restitution=e), label="s")
    hinge = sim.transformd((-LENGTH * np.sin(start), LENGTH * np.cos(start), 0), IDENTITY)
    made.add_joint_revolute(-1, ball, child_xform=hinge, axis=(0, 0, 1), label="j")
    at = sim.transformd((-R - 0.2, -LENGTH, 0), IDENTITY)
    if wall == "box":
        made.add_shape_box(-1, at, 0.2, 0.2, 0.2, cfg=cfg, label="w")
    else:
        made.add_shape_mesh(-1, at, vertices=0.2 * CORNERS, indices=FACES, cfg=cfg, label="w")
    return made.finalize(dtype=sim.float64, requires_grad=True)


def test_its_constraints_are_there() -> None:
    for wall, names in {"box": {"contact_box@wa"}, "mesh": {"contact_mesh@wa"}}.items():
        assert names <= set(pendulum(0.3, 0.6, wall).constraint_sets), wall


def test_a_pendulum_hits_a_box_of_the_world() -> None:
    """It comes back with e times its speed, at the middle of its swing; small swings."""
    start, e, rate, seconds = 0.05, 0.6, 480, 1.0
    omega = np.sqrt(G * LENGTH / (LENGTH**2 + 0.4 * R**2))

    def angle(state: sim.State) -> tuple[sim.array, np.ndarray]:
        z, w = state.body_q.numpy()[0, 5:]
        return state.body_q, np.array([[0, 0, 0, 0, 0, 2 * w, -2 * z]])

    end, by = gradients(pendulum(start, e, "box"), rate, 1 / rate, angle)
    z, w = end.body_q.numpy()[0, 5:]
    swing = -start * np.cos(omega * seconds)  # before the impact; then it is e of that, on the side it came from
    assert np.pi / 2 < omega * seconds < 3 * np.pi / 2
    assert start + 2 * np.arctan2(z, w) == pytest.approx(e * swing, rel=2e-2)
    assert by["b.s.restitution"][0] + by["w.restitution"][0] == pytest.approx(swing, rel=2e-2)
