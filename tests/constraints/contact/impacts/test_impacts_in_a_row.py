"""Impacts that follow each other within a step: each gives back what it is to, and has its own time."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
RATE, R, IDENTITY = 120, 0.1, (0.0, 0.0, 0.0, 1.0)
PHASES = (0.0, 0.4, 0.8)


def balls(places: list[float], speeds: list[float], masses: list[float], e: float, axis: int = 0) -> sim.Model:
    """In a row along an axis, above a floor if that is y."""
    builder, along = sim.ModelBuilder(gravity=(0, 0, 0)), np.eye(3)[axis]
    cfg = {"mu": 0.0, "restitution": e}
    if axis == 1:
        builder.add_ground_plane(cfg=Config(**cfg))
    for k, (x, v, mass) in enumerate(zip(places, speeds, masses, strict=True)):
        body = builder.add_body(sim.transformd(tuple(x * along), IDENTITY), label=f"b{k}", velocity=tuple(v * along))
        builder.add_shape_sphere(body, None, R, cfg=Config(mass=mass, **cfg), label="hull")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("e", [1.0, 0.9])
@pytest.mark.parametrize("gap", [0.02, 0.003, 0.0005])
@pytest.mark.parametrize("phase", PHASES)
def test_newtons_cradle(phase: float, gap: float, e: float) -> None:
    """A ball of 1 m/s meets four; it comes 8 mm in a step, past up to three of the gaps."""
    begin, v, T = -0.2 - phase / RATE, 1.0, 0.5
    model = balls([begin, *(k * (2 * R + gap) for k in range(1, 5))], [v, 0, 0, 0, 0], [1.0] * 5, e)
    end, by = gradients(model, round(T * RATE), 1 / RATE, coordinate("body_q", 4, 0))
    passed_on = (1 + e) / 2
    t, speed = (gap - begin) / v, v * passed_on
    for _ in range(3):
        t, speed = t + gap / speed, speed * passed_on
    assert end.body_q.numpy()[4, 0] == pytest.approx(4 * (2 * R + gap) + speed * (T - t), abs=1e-9)
    assert end.body_qd.numpy()[:, 0].sum() == pytest.approx(v, abs=1e-12)
    assert end.body_qd.numpy()[4, 0] == pytest.approx(speed, abs=1e-9)
    assert by["b0.position"][0, 0] == pytest.approx(speed / v, abs=1e-8)
    assert by["b0.velocity"][0, 0] == pytest.approx(speed * T / v, abs=1e-8)


@pytest.mark.parametrize("gap", [0.02, 0.004])
@pytest.mark.parametrize("phase", PHASES)
def test_a_light_ball_on_a_heavy_one_is_thrown_up(phase: float, gap: float) -> None:
    """Both fall at 3 m/s, the lower one bounces and meets the other: (1 + e)^2 m / (m + m') - 1 times as fast."""
    v, heavy, light, e = 3.0, 1.0, 0.3, 0.8
    low = R + 0.3 + phase * v / RATE
    model = balls([low, low + 2 * R + gap], [-v, -v], [heavy, light], e, axis=1)
    end, by = gradients(model, 36, 1 / RATE, coordinate("body_qd", 1, 1))
    up = (1 + e) ** 2 * heavy / (heavy + light) - 1
    assert end.body_qd.numpy()[1, 1] == pytest.approx(up * v, abs=1e-9)
    assert end.body_qd.numpy()[0, 1] == pytest.approx(e * v - (1 + e) ** 2 * v * light / (heavy + light), abs=1e-9)
    assert -by["b0.velocity"][0, 1] - by["b1.velocity"][0, 1] == pytest.approx(up, abs=1e-8)
