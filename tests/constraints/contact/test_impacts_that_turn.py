"""Impacts whose direction or arms change in a step: values and derivatives of the motion, at any phase of the step."""

from __future__ import annotations

import numpy as np
import pytest
from contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
RATE, R = 120, 0.1
IDENTITY = (0.0, 0.0, 0.0, 1.0)
PHASES = (0.0, 0.37, 0.81)


def two_balls(phase: float, off: float, speed: float, e: float) -> sim.Model:
    """One of 1 kg flies at one of 2 kg, `off` its centre, and begins so much of a step nearer."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    for name, place, v, mass in (("a", (-0.4 + phase * speed / RATE, off, 0), speed, 1.0), ("b", (0, 0, 0), 0.0, 2.0)):
        body = builder.add_body(sim.transformd(place, IDENTITY), label=name, velocity=(v, 0, 0))
        builder.add_shape_sphere(body, None, R, cfg=Config(mass=mass, mu=0.0, restitution=e), label="hull")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def across(off: float, speed: float, e: float) -> float:
    """The velocity of the first across its way: an impulse along the line of centres at the impact."""
    along, side = np.sqrt(4 * R * R - off * off) / (2 * R), -off / (2 * R)
    return -(1 + e) * speed * along / 1.5 * side


@pytest.mark.parametrize("e", [0.0, 0.7])
@pytest.mark.parametrize("phase", PHASES)
def test_a_ball_hits_another_off_its_centre(phase: float, e: float) -> None:
    at = {"off": 0.08, "speed": 2.0, "e": e}
    end, by = gradients(two_balls(phase, **at), 48, 1 / RATE, coordinate("body_qd", 0, 1))
    assert end.body_qd.numpy()[0, 1] == pytest.approx(across(**at), rel=2e-4)
    found = {"off": by["a.position"][0, 1], "speed": by["a.velocity"][0, 0]}
    found["e"] = by["a.hull.restitution"][0] + by["b.hull.restitution"][0]
    for name, value in found.items():
        if name == "e" and e == 0.0:
            continue  # one-sided there
        less, more = ({**at, name: at[name] + d} for d in (-1e-6, 1e-6))
        assert value == pytest.approx((across(**more) - across(**less)) / 2e-6, rel=6e-3), name


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
