"""Impacts whose direction or arms change in a step: values and derivatives of the motion, at any phase of the step."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
RATE, R = 120, 0.1
IDENTITY = (0.0, 0.0, 0.0, 1.0)
PHASES = (0.0, 0.37, 0.81)


def two_balls(phase: float, off: float, speed: float, spin: float, mu: float, e: float) -> sim.Model:
    """One of 1 kg flies at one of 2 kg, `off` its centre, and begins so much of a step nearer."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    cfg = {"mu": mu, "restitution": e}
    for name, place, v, w, mass in (
        ("a", (-0.4 + phase * speed / RATE, off, 0), speed, spin, 1.0), ("b", (0, 0, 0), 0.0, 0.0, 2.0)
    ):  # fmt: skip
        body = builder.add_body(sim.transformd(place, IDENTITY), label=name, velocity=(v, 0, 0), spin=(0, 0, w))
        builder.add_shape_sphere(body, None, R, cfg=Config(mass=mass, **cfg), label="hull")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def parted(off: float, speed: float, spin: float, mu: float, e: float) -> np.ndarray:
    """The velocity across its way of the first, and the spins of both: impulses along the line of centres, and across
    it as much as stops the slip, at most mu times that."""
    n = np.array([np.sqrt(4 * R * R - off * off), -off]) / (2 * R)
    t = np.array([-n[1], n[0]])
    pressed = (1 + e) * speed * n[0] / 1.5
    slip = speed * t[0] + spin * R
    rubbed = np.sign(slip) * min(mu * pressed, abs(slip) / 1.5 / 3.5)
    return np.array([-pressed * n[1] - rubbed * t[1], spin - 2.5 * rubbed / R, -1.25 * rubbed / R])


PLACES = (("body_qd", 0, 1), ("body_qd", 0, 5), ("body_qd", 1, 5))
BALLS = {"off": 0.08, "speed": 2.0}


@pytest.mark.parametrize(
    ("spin", "mu", "e"),
    [
        pytest.param(0.0, 0.0, 0.0, id="plastic"),
        pytest.param(0.0, 0.0, 0.7, id="smooth"),
        pytest.param(60.0, 0.1, 0.5, id="slips"),
        pytest.param(0.0, 0.8, 0.5, id="sticks"),
    ],
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_ball_hits_another_off_its_centre(phase: float, spin: float, mu: float, e: float) -> None:
    at = {**BALLS, "spin": spin, "mu": mu, "e": e}
    for number, place in enumerate(PLACES if mu else PLACES[:1]):
        end, by = gradients(two_balls(phase, **at), 48, 1 / RATE, coordinate(*place))
        want = parted(**at)[number]
        assert end.body_qd.numpy()[place[1:]] == pytest.approx(want, rel=3e-4)
        found = {"off": by["a.position"][0, 1], "speed": by["a.velocity"][0, 0], "spin": by["a.spin"][0, 2]}
        found["mu"] = by["a.hull.mu"][0] + by["b.hull.mu"][0]
        found["e"] = by["a.hull.restitution"][0] + by["b.hull.restitution"][0]
        for name, value in found.items():
            if at[name] == 0.0 and name in ("mu", "e"):
                continue  # one-sided there
            less, more = (parted(**{**at, name: at[name] + d})[number] for d in (-1e-6, 1e-6))
            assert value == pytest.approx((more - less) / 2e-6, rel=2e-2, abs=1e-3), (place, name)


def rod(phase: float, tilt: float, speed: float, e: float) -> sim.Model:
    """A rod of 1 kg and 1 m that falls without turning."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    half = 0.25 * np.pi - 0.5 * tilt  # from y to its axis, about z
    turn = sim.quatd(0.0, 0.0, -np.sin(half), np.cos(half)) * sim.quatd(-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    height = 0.5 * np.sin(tilt) + 0.02 + 0.2 - phase * speed / RATE
    body = builder.add_body(
        sim.transformd((0.0, height, 0.0), turn), mass=1.0, inertia=(1 / 12, 1 / 12, 1e-3), label="rod",
        velocity=(0, -speed, 0),
    )  # fmt: skip
    builder.add_shape_capsule(body, None, 0.02, 0.5, cfg=Config(density=0.0, mu=0.0, restitution=e), label="hull")
    builder.add_ground_plane(cfg=Config(mu=0.0, restitution=e))
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def fallen(tilt: float, speed: float, e: float) -> float:
    """Its velocity upward after its end has hit."""
    arm = 0.5 * np.cos(tilt)
    return (1 + e) * speed / (1 + 12 * arm * arm) - speed


@pytest.mark.parametrize("phase", PHASES)
def test_a_rod_falls_on_its_end(phase: float) -> None:
    at = {"tilt": 0.5, "speed": 1.5, "e": 0.6}
    end, by = gradients(rod(phase, **at), 30, 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx(fallen(**at), abs=1e-9)
    for name, value in {"tilt": by["rod.rotation"][0, 2], "speed": -by["rod.velocity"][0, 1]}.items():
        less, more = ({**at, name: at[name] + d} for d in (-1e-6, 1e-6))
        assert value == pytest.approx((fallen(**more) - fallen(**less)) / 2e-6, abs=1e-7), name
