"""Impacts along directions in which joints let hardly anything move: what they hold seems light, and is heavy."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
E, SPEED, RATE = 0.5, 2.0, 120


def thrown(builder: sim.ModelBuilder, x: float, y: float, mass: float, direction: float) -> None:
    ball = builder.add_body(sim.transformd((x, y, 0), IDENTITY), velocity=(direction * SPEED, 0, 0), label="ball")
    builder.add_shape_sphere(ball, None, 0.1, cfg=Config(mass=mass, mu=0.0, restitution=E))


def door(held: str, mass: float, phase: float) -> sim.Model:
    """Of 1 kg: at the limit of its hinge, hit where it cannot open; or along it, towards its hinge or what it is fixed
    to.  The ball comes so much and a part of a step before it."""
    builder, cfg, way = (
        sim.ModelBuilder(gravity=(0, 0, 0)),
        Config(mass=1.0, mu=0.0, restitution=E),
        SPEED * phase / RATE,
    )
    at_limit = held == "limit"
    leaf = builder.add_body(sim.transformd((0, 0.5, 0) if at_limit else (0.5, 0, 0), IDENTITY), label="door")
    halves = (0.05, 0.5, 0.3) if at_limit else (0.5, 0.05, 0.3)
    builder.add_shape_box(leaf, None, *halves, cfg=cfg)
    hinge = {"child_xform": sim.transformd((0, -0.5, 0) if at_limit else (-0.5, 0, 0), IDENTITY), "label": "hinge"}
    if at_limit:
        builder.add_joint_revolute(-1, leaf, axis=(0, 0, 1), limit_lower=0.0, limit_upper=1.0, **hinge)
    elif held == "fixed":
        builder.add_joint_fixed(-1, leaf, **hinge)
    else:
        builder.add_joint_revolute(-1, leaf, axis=(0, 0, 1), **hinge)
    thrown(builder, *((-0.3 - way, 0.7) if at_limit else (1.25 + way, 0.0)), mass, 1.0 if at_limit else -1.0)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("held", ["limit", "hinge", "fixed"])
@pytest.mark.parametrize("mass", [5.0, 50.0])
@pytest.mark.parametrize("phase", [0.1, 0.8])
def test_what_hits_a_door_that_cannot_give_way_comes_back(held: str, mass: float, phase: float) -> None:
    """v+ = -e v-, and so its derivatives are -e, by where it began too.  At a limit, five times as heavy, it had .35 of
    that speed once, and derivatives by where it began fifty times too large."""
    model, toward = door(held, mass, phase), 1.0 if held == "limit" else -1.0
    end, by = gradients(model, 40, 1 / RATE, coordinate("body_qd", 1, 0))
    assert end.body_qd.numpy()[1, 0] == pytest.approx(-E * SPEED * toward, rel=1e-4)
    assert np.abs(end.body_qd.numpy()[0]).max() < 1e-3
    assert by["ball.velocity"][0, 0] == pytest.approx(-E, rel=1e-3)
    _, by = gradients(model, 40, 1 / RATE, coordinate("body_q", 1, 0))
    assert by["ball.position"][0, 0] == pytest.approx(-E, rel=5e-3)


LONG, FOOT = 0.4, 0.05
LEGS = {
    "two": ((0.2, 20.0), (0.05, -0.05)),
    "three": ((0.05, 0.5, 50.0), (0.02, -0.01, 0.0)),
    "six": ((0.1,) * 5 + (10.0,), (0.1, -0.1, 0.1, 0.0, 0.1, -0.1)),
    "eight": ((1.0,) * 8, (0.05,) * 8),
}
"""The masses and angles of links, from the foot up."""


def leg(masses: tuple[float, ...], angles: tuple[float, ...], height: float) -> sim.Model:
    """Falls with 1 m/s on a ball without mass at its lower end."""
    builder, low, last = sim.ModelBuilder(gravity=(0, 0, 0)), np.array([0.0, FOOT + height]), -1
    lower, upper = (sim.transformd((0, side * LONG / 2, 0), IDENTITY) for side in (-1, 1))
    for k, (mass, angle) in enumerate(zip(masses, angles, strict=True)):
        along, inertia = np.array([np.sin(angle), np.cos(angle)]), mass * LONG**2 / 12
        place = sim.transformd((*(low + LONG / 2 * along), 0.0), (0, 0, -np.sin(angle / 2), np.cos(angle / 2)))
        link = builder.add_body(place, mass=mass, inertia=(inertia, 1e-3 * mass, inertia), velocity=(0, -1, 0))
        if k:
            builder.add_joint_revolute(last, link, upper, lower, axis=(0, 0, 1), label=f"joint{k}")
        else:
            builder.add_shape_sphere(link, lower, FOOT, cfg=Config(density=0.0, mu=0.0, restitution=E))
        last, low = link, low + LONG * along
    builder.add_ground_plane(0.0)
    return builder.finalize(dtype=sim.float64)


def struck(masses: tuple[float, ...], angles: tuple[float, ...]) -> np.ndarray:
    """(links, 3): velocities and spins after it, of one impulse at the foot and those of all joints."""
    links = len(masses)
    W = np.diag([w for mass in masses for w in (1 / mass, 1 / mass, 12 / (mass * LONG**2))])
    arms = LONG / 2 * np.stack([np.sin(angles), np.cos(angles)], axis=1)
    contact, J = np.zeros(3 * links), np.zeros((2 * links - 2, 3 * links))
    contact[1], contact[2] = 1.0, -arms[0, 0]
    for k in range(links - 1):
        rows = J[2 * k : 2 * k + 2]
        rows[:, 3 * k : 3 * k + 2], rows[:, 3 * k + 3 : 3 * k + 5] = np.eye(2), -np.eye(2)
        rows[:, 3 * k + 2], rows[:, 3 * k + 5] = (-arms[k, 1], arms[k, 0]), (-arms[k + 1, 1], arms[k + 1, 0])
    v, moved = np.tile([0.0, -1.0, 0.0], links), W @ contact
    moved -= W @ J.T @ np.linalg.solve(J @ W @ J.T, J @ moved)
    return (v + (1 + E) * moved / (contact @ moved)).reshape(links, 3)


@pytest.mark.parametrize("name", LEGS)
@pytest.mark.parametrize("phase", [0.2, 0.8])
def test_a_stretched_leg_falls_on_a_light_foot(name: str, phase: float) -> None:
    """The light foot bears the leg: with 380 times what it is by itself the leg of three fell on at .74 m/s once."""
    masses, angles = LEGS[name]
    model = leg(masses, angles, (5 + phase) / 480)
    found = sim.rollout(sim.SolverXPBD(model), model.state(), 6, 1 / 480).final.body_qd.numpy()[:, [0, 1, 5]]
    exact = struck(masses, angles)
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-3 * np.abs(exact).max())


def test_a_leg_falls_on_all_corners_of_its_sole() -> None:
    """A hundred times as heavy as its foot, which comes back with it, and does not turn."""
    builder, height, mass = sim.ModelBuilder(gravity=(0, 0, 0)), 5.3 / 480, 20.0
    foot = builder.add_body((0, 0.03 + height, 0), mass=0.2, inertia=(8e-4,) * 3, velocity=(0, -1, 0), label="foot")
    builder.add_shape_box(foot, None, 0.1, 0.03, 0.06, cfg=Config(density=0.0, mu=0.0, restitution=E))
    inertia = (mass * LONG**2 / 12, 1e-3 * mass, mass * LONG**2 / 12)
    shank = builder.add_body((0, 0.26 + height, 0), mass=mass, inertia=inertia, velocity=(0, -1, 0), label="shank")
    ends = (sim.transformd((0, y, 0), IDENTITY) for y in (0.03, -0.2))
    builder.add_joint_revolute(foot, shank, *ends, axis=(0, 0, 1), label="ankle")
    builder.add_ground_plane(0.0, cfg=Config(mu=0.0, restitution=E))
    model = builder.finalize(dtype=sim.float64)
    qd = sim.rollout(sim.SolverXPBD(model), model.state(), 6, 1 / 480).final.body_qd.numpy()
    np.testing.assert_allclose(qd[:, 1], E, rtol=0, atol=5e-3)
    np.testing.assert_allclose(qd[:, 5], 0.0, rtol=0, atol=0.02)
