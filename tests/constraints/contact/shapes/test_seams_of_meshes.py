"""What slides and rolls over a flat surface of many triangles does not notice where one ends: as on a box.

An edge that it has not come to yet, or has left, was taken for what it would hit, or a corner that it would leave.
"""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R, HALF = 0.1, np.array([1.5, 0.1, 0.5])


def cut_box(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A box, each face cut into n x n cells of two triangles."""
    places: dict[tuple[float, ...], int] = {}
    faces: list[list[int]] = []
    grid = np.linspace(-1, 1, n + 1)
    for axis in range(3):
        for side in (-1, 1):

            def at(i: int, j: int, axis: int = axis, side: int = side) -> int:
                p = np.zeros(3)
                p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3] = side, grid[i], grid[j]
                return places.setdefault(tuple(np.round(p * HALF, 9)), len(places))

            for i in range(n):
                for j in range(n):
                    a, b, c, d = at(i, j), at(i + 1, j), at(i + 1, j + 1), at(i, j + 1)
                    faces += [[a, b, c][::side], [a, c, d][::side]]
    return np.array(list(places)), np.array(faces)


def floor(cells: int, cfg: sim.ModelBuilder.ShapeConfig) -> sim.ModelBuilder:
    made, at = sim.ModelBuilder(gravity=(0, -G, 0)), sim.transformd((0.11, -0.1, 0.013), IDENTITY)
    if cells:
        vertices, indices = cut_box(cells)
        made.add_shape_mesh(-1, at, vertices=vertices, indices=indices, cfg=cfg, label="floor")
    else:
        made.add_shape_box(-1, at, *HALF, cfg=cfg, label="floor")
    return made


@pytest.mark.parametrize("rate", [120, 480])
@pytest.mark.parametrize("mu", [0.0, 0.15])
def test_a_particle_slides_over_it(mu: float, rate: int) -> None:
    """Without friction it was turned aside by a fifth of its speed."""
    made, v, seconds = floor(12, Config(mu=mu, restitution=0.8)), 1.7, 0.8
    made.add_particle((-1, 0, 0), (v, 0, 0), 1.0)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("particle_q", 0, 0))
    x, _, z = end.particle_q.numpy()[0]
    assert x == pytest.approx(-1 + v * seconds - 0.5 * mu * G * seconds**2, abs=mu * G * seconds / rate + 1e-9)
    assert z == pytest.approx(0, abs=1e-9)
    assert by["particles.velocity"][0, ::2] == pytest.approx([seconds, 0], abs=1e-6)
    assert by["floor.mu"][0] == pytest.approx(-0.5 * G * seconds**2, rel=2e-2)


@pytest.mark.parametrize("rate", [120, 480])
def test_a_ball_rolls_over_it(rate: int) -> None:
    """And does not hop: edges that it was to come to threw it up, where it may rebound."""
    cfg, v = Config(mu=0.3, restitution=0.8, mass=1.0), 1.7
    made = floor(5, cfg)
    body = made.add_body(
        sim.transformd((-1, R, 0), IDENTITY), label="b", velocity=(v, 0, 0.1), spin=(0.1 / R, 0, -v / R)
    )
    made.add_shape_sphere(body, None, R, cfg=cfg, label="s")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, rate, 1 / rate, coordinate("body_q", 0, 0))
    assert end.body_qd.numpy()[0, :3] == pytest.approx([v, 0, 0.1], abs=1e-9)
    rolling = by["b.velocity"][0, 0] - by["b.spin"][0, 2] / R
    assert rolling == pytest.approx(1.0, rel=2 / rate)


def test_a_box_slides_over_it_as_over_a_box() -> None:
    """A corner that came to an edge within a rounding of where it would be without forces was thrown to one side."""
    ends = []
    for cells in (0, 5):
        made = floor(cells, Config(mu=0.15))
        body = made.add_body(sim.transformd((-1, R, 0), IDENTITY), label="b", velocity=(1.7, 0, 0))
        made.add_shape_box(body, None, 0.15, R, 0.1, cfg=Config(mass=1.0, mu=0.15), label="s")
        model = made.finalize(dtype=sim.float64)
        ends.append(sim.rollout(sim.SolverXPBD(model), model.state(), steps=96, dt=1 / 120).final)
    box, mesh = (np.concatenate([end.body_q.numpy()[0], end.body_qd.numpy()[0]]) for end in ends)
    assert mesh == pytest.approx(box, abs=1e-3)
