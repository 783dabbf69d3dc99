"""What is rubbed where it is hit off its centre, and what is hit at several places: exact at any phase of the step."""

from __future__ import annotations

import numpy as np
import pytest
from contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
MASS, HALF, RATE = 1.3, (0.15, 0.1, 0.2), 480


def rod(at: dict[str, float], height: float) -> sim.Model:
    """A rod of 1 m whose lower end is so high falls on a plane, leaning."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    lean, half = 0.5, np.array([np.sin(0.5), np.cos(0.5), 0.0]) / 2
    pose = sim.transformd((half[0], height + half[1], 0), (0, 0, -np.sin(lean / 2), np.cos(lean / 2)))
    body = made.add_body(
        pose, mass=MASS, inertia=(MASS / 12, 1e-3, MASS / 12), velocity=(at["v"], at["fall"], 0), label="b"
    )
    made.add_constraints(
        "contact_plane", [[made.point_of(body, (0, -0.5, 0))]], 0.0, label="f", point=[0, 0, 0], normal=[0, 1, 0],
        thickness=0.0, friction=at["mu"], restitution=at["e"],
    )  # fmt: skip
    return made.finalize(dtype=sim.float64, requires_grad=True)


def rebounded(v: float, fall: float, mu: float, e: float) -> float:
    """Its velocity upward: K P = the changes of the end's velocity, along and across the plane."""
    arm = -np.array([np.sin(0.5), np.cos(0.5)]) / 2
    turning = 12 / MASS
    K = np.eye(2) / MASS + turning * np.array([[arm[1] ** 2, -arm[0] * arm[1]], [-arm[0] * arm[1], arm[0] ** 2]])
    sticks = np.linalg.solve(K, [-v, -(1 + e) * fall])
    if abs(sticks[0]) <= mu * sticks[1]:
        return float(fall + sticks[1] / MASS)
    side = np.sign(sticks[0])
    return float(fall - (1 + e) * fall / (K[1, 1] + side * mu * K[1, 0]) / MASS)


@pytest.mark.parametrize("phase", [0.1, 0.6])
@pytest.mark.parametrize("mu", [0.1, 0.9])
def test_a_rod_falls_on_its_end_and_is_rubbed(mu: float, phase: float) -> None:
    """With friction after the normal force, one sweep, its speed was off by 4 to 20 % of that of the fall, and had the
    derivative -1.6 by it, -6.5 at four times the rate."""
    at = {"v": 0.8, "fall": -2.1, "mu": mu, "e": 0.6}
    end, by = gradients(rod(at, 0.1 - 2.1 * phase / RATE), 60, 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx(rebounded(**at), rel=1e-9)
    found = {"v": by["b.velocity"][0, 0], "fall": by["b.velocity"][0, 1], "mu": by["f.friction"][0]}
    found["e"] = by["f.restitution"][0]
    for name, derivative in found.items():
        less, more = (rebounded(**{**at, name: at[name] + d}) for d in (-1e-6, 1e-6))
        assert derivative == pytest.approx((more - less) / 2e-6, rel=1e-5, abs=1e-6), name


def box(height: float, v: float, mu: float, e: float | None) -> sim.Model:
    """Lies level so high above a floor."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    body = made.add_body(sim.transformd((0, HALF[1] + height, 0), (0, 0, 0, 1)), velocity=(v, 0, 0), label="b")
    made.add_shape_box(body, None, *HALF, cfg=Config(mass=MASS, mu=mu, restitution=e), label="h")
    made.add_ground_plane(cfg=Config(mu=mu, restitution=e), label="f")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("phase", [0.1, 0.6])
def test_a_box_falls_on_its_face(phase: float) -> None:
    """On four corners at once.  With two sweeps over velocities the derivative by its height was -49 of 6; eight left
    0.6 %, and 2.5 % at four times the rate."""
    time, e, mu = 0.4, 0.6, 0.2
    height = 0.35 + 2.6 * phase / RATE
    hit = np.sqrt(2 * height / G)
    end, by = gradients(box(height, 3.0, mu, e), round(time * RATE), 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx((1 + e) * G * hit - G * time, rel=2e-3)
    assert by["b.position"][0, 1] == pytest.approx((1 + e) / hit, rel=1e-3)
    assert by["b.h.restitution"][0] + by["f.restitution"][0] == pytest.approx(G * hit, rel=1e-3)
    assert end.body_qd.numpy()[0, 0] == pytest.approx(3.0 - mu * (1 + e) * G * hit, rel=1e-4)


def test_a_box_that_falls_and_slides_on_keeps_no_memory_of_its_height() -> None:
    """mu (g t + g (T - t)) is taken from its speed whenever it lands; it was .05 by its height, and .13 at four times
    the rate."""
    end, by = gradients(box(0.35, 3.0, 0.2, None), 192, 1 / RATE, coordinate("body_qd", 0, 0))
    assert end.body_qd.numpy()[0, 0] == pytest.approx(3.0 - 0.2 * G * 0.4, rel=1e-5)
    assert abs(by["b.position"][0, 1]) < 2e-3
    assert by["b.h.mu"][0] + by["f.mu"][0] == pytest.approx(-G * 0.4, rel=1e-4)
