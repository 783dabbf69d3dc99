"""What touches two surfaces, one after the other or both at once, and what rolls on curved ground, beside closed forms:
values, and derivatives by coefficients, masses, places and sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tools.physics.contact_worlds import G, coordinate, gradients

import sim
from sim.core.lang.library.vector import length

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R = 0.1


def compared(
    exact: Callable[..., float], at: Mapping[str, float], value: float, found: Mapping[str, float], rel: float
) -> None:
    """A value, and its derivatives by name beside differences of the closed form."""
    assert value == pytest.approx(exact(**at), rel=rel)
    for name, derivative in found.items():
        d = 1e-6 * max(abs(at[name]), 0.1)
        more, less = (exact(**{**at, name: at[name] + s * d}) for s in (1, -1))
        assert derivative == pytest.approx((more - less) / (2 * d), rel=2 * rel), name


def two_tables(made: sim.ModelBuilder, at: Mapping[str, float]) -> None:
    """Boxes of the world side by side, of two frictions."""
    for side, name in ((-1, "left"), (1, "right")):
        place = sim.transformd((at["edge"] + 2 * side, -0.1, 0), IDENTITY)
        made.add_shape_box(-1, place, 2, 0.1, 0.5, cfg=Config(mu=at[name]), label=name)


def by_table(by: Mapping[str, np.ndarray]) -> dict[str, float]:
    mu = {name: by[f"{name}.mu"][0] for name in ("left", "right")}
    return mu | {"edge": by["left.at"][0, 0] + by["right.at"][0, 0]}


def test_a_particle_slides_from_one_table_to_another() -> None:
    """Its friction changes within the step in which it passes the edge."""
    at, seconds, rate = {"v": 2.0, "left": 0.2, "right": 0.5, "edge": 0.3}, 0.45, 480

    def exact(v: float, left: float, right: float, edge: float) -> float:
        then = np.sqrt(v * v - 2 * left * G * edge)
        t = seconds - (v - then) / (left * G)
        return float(edge + then * t - 0.5 * right * G * t * t)

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    made.add_particle((0, 0, 0), (at["v"], 0, 0))
    two_tables(made, at)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("particle_q", 0, 0))
    found = by_table(by) | {"v": by["particles.velocity"][0, 0]}
    compared(exact, at, end.particle_q.numpy()[0, 0], found, 5e-3)


def test_a_ball_slides_from_one_table_to_another_and_rolls() -> None:
    at, seconds, rate = {"v": 3.0, "left": 0.1, "right": 0.25, "edge": 0.5}, 0.6, 480

    def exact(v: float, left: float, right: float, edge: float) -> float:
        then = np.sqrt(v * v - 2 * left * G * edge)
        t = (v - then) / (left * G)
        slips = 2 / 7 * (then - 2.5 * left * G * t) / (right * G)
        assert t + slips < seconds
        return float(
            edge + then * slips - 0.5 * right * G * slips**2 + (then - right * G * slips) * (seconds - t - slips)
        )

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    ball = made.add_body(sim.transformd((0, R, 0), IDENTITY), label="b", velocity=(at["v"], 0, 0))
    made.add_shape_sphere(ball, None, R, cfg=Config(mass=1.0), label="s")
    two_tables(made, at)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("body_q", 0, 0))
    found = by_table(by) | {"v": by["b.velocity"][0, 0]}
    compared(exact, at, end.body_q.numpy()[0, 0], found, 5e-3)


def test_a_rough_ladder_slides_down_a_rough_wall() -> None:
    """Its foot and its upper end slip at once, and each presses the other."""
    half, seconds, rate, at = 0.5, 0.35, 480, {"lean": 0.9, "mu": 0.15, "inertia": 1 / 12}

    def exact(lean: float, mu: float, inertia: float) -> float:
        def rates(_: float, y: np.ndarray) -> list[float]:
            c, s = half * np.cos(y[0]), half * np.sin(y[0])
            pushes = [[-s, mu, -1], [c, -1, -mu], [-inertia, s * mu - c, c * mu + s]]  # of lean'', floor, wall
            turn, floor, wall = np.linalg.solve(pushes, [c * y[1] ** 2, s * y[1] ** 2 - G, 0.0])
            assert floor > 0 and wall > 0
            return [y[1], turn]

        return -float(solve_ivp(rates, (0, seconds), [lean, 0.0], rtol=1e-9, atol=1e-11).y[1, -1])

    made, (c, s) = sim.ModelBuilder(gravity=(0, -G, 0)), (half * np.cos(at["lean"]), half * np.sin(at["lean"]))
    pose = sim.transformd((c, s, 0), (0, 0, -np.sin(at["lean"] / 2), np.cos(at["lean"] / 2)))
    body = made.add_body(pose, mass=1.0, inertia=(1e-3, at["inertia"], at["inertia"]), label="b")
    for x, normal, name in ((half, [0, 1, 0], "floor"), (-half, [1, 0, 0], "wall")):
        made.add_constraints(
            "contact_plane", [[made.point_of(body, (x, 0, 0))]], 0.0, label=name, point=[0, 0, 0], normal=normal,
            thickness=0.0, friction=at["mu"],
        )  # fmt: skip
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("body_qd", 0, 5))
    found = {"mu": by["floor.friction"][0] + by["wall.friction"][0], "inertia": by["b.inertia"][0, 2]}
    found["lean"] = by["b.position"][0] @ [-s, c, 0.0] - by["b.rotation"][0, 2]
    compared(exact, at, end.body_qd.numpy()[0, 5], found, 5e-3)


def test_a_slab_runs_on_rolling_balls() -> None:
    """Down a slope: balls go half as fast and turn between it and the ground, m (1 + 2/5) / 4 of each goes with it."""
    at, seconds, rate, half = {"slab": 2.0, "balls": 1.0, "pull": 1.5}, 0.4, 480, 0.02

    def exact(slab: float, balls: float, pull: float) -> float:
        return 0.5 * pull * (slab + balls / 2) / (slab + 0.35 * balls) * seconds**2

    made = sim.ModelBuilder(gravity=(at["pull"], -G, 0))
    masses = {"a": 0.25, "b": 0.25, "c": 0.5}
    for (name, part), (x, z) in zip(masses.items(), ((-0.2, -0.1), (-0.2, 0.1), (0.2, 0.0)), strict=True):
        ball = made.add_body(sim.transformd((x, R, z), IDENTITY), label=name)
        made.add_shape_sphere(ball, None, R, cfg=Config(mass=part * at["balls"], mu=0.8), label="s")
    slab = made.add_body(sim.transformd((0, 2 * R + half, 0), IDENTITY), label="slab")
    made.add_shape_box(slab, None, 0.5, half, 0.3, cfg=Config(mass=at["slab"], mu=0.8), label="h")
    made.add_ground_plane(cfg=Config(mu=0.8), label="f")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("body_q", 3, 0), iterations=2)
    found = {"slab": by["slab.h.mass"][0], "pull": by["gravity"][0, 0]}
    found["balls"] = sum(part * by[f"{name}.s.mass"][0] for name, part in masses.items())
    compared(exact, at, end.body_q.numpy()[3, 0], found, 1e-2)


@sim.func
def bowl(p, scale):
    """The inside of a ball."""
    return scale[0] - length(p)


def test_a_ball_rolls_in_a_bowl() -> None:
    """As a pendulum of (radius - r) 7/5, without slipping; by both radii and by where it begins."""
    at, seconds, rate = {"r": R, "radius": 0.6, "start": 0.5}, 0.9, 960

    def exact(r: float, radius: float, start: float) -> float:
        def rates(_: float, y: np.ndarray) -> list[float]:
            return [y[1], -5 * G / (7 * (radius - r)) * np.sin(y[0])]

        return float(
            (radius - r) * np.sin(solve_ivp(rates, (0, seconds), [start, 0.0], rtol=1e-10, atol=1e-12).y[0, -1])
        )

    made, reach = sim.ModelBuilder(gravity=(0, -G, 0)), at["radius"] - R
    out, along = (np.array([np.sin(at["start"] + a), -np.cos(at["start"] + a), 0.0]) for a in (0.0, np.pi / 2))
    ball = made.add_body(sim.transformd(reach * out, IDENTITY), label="b")
    made.add_shape_sphere(ball, None, R, cfg=Config(mass=1.0, mu=0.9), label="s")
    made.add_shape_sdf(-1, None, bowl, scale=at["radius"], cfg=Config(mu=0.9), label="bowl")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("body_q", 0, 0))
    moved = by["b.position"][0]
    found = {"r": by["b.s.radius"][0] - moved @ out, "radius": by["bowl.scale"][0, 0] + moved @ out}
    found["start"] = reach * (moved @ along)
    compared(exact, at, end.body_q.numpy()[0, 0], found, 1e-2)


def test_a_particle_leaves_a_ball() -> None:
    """Smooth, where its weight no longer holds it down: at a height of (2 + v^2 / (g radius)) / 3 of its own."""
    at, seconds, rate = {"radius": 0.5, "v": 0.6}, 0.5, 1920

    def exact(radius: float, v: float) -> float:
        c = (2 + v * v / (G * radius)) / 3
        angles = np.linspace(0, np.arccos(c), 20001)
        took = np.trapezoid(radius / np.sqrt(v * v + 2 * G * radius * (1 - np.cos(angles))), angles)
        return float(radius * np.sqrt(1 - c * c) + np.sqrt(G * radius * c) * c * (seconds - took))

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    made.add_particle((0, at["radius"], 0), (at["v"], 0, 0))
    made.add_shape_sphere((0, 0, 0), at["radius"], label="ball")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("particle_q", 0, 0))
    bigger = by["ball.radius"][0] + by["particles.position"][0, 1]
    compared(exact, at, end.particle_q.numpy()[0, 0], {"v": by["particles.velocity"][0, 0]}, 5e-3)
    more, less = (exact(at["radius"] + d, at["v"]) for d in (1e-5, -1e-5))
    assert bigger == pytest.approx((more - less) / 2e-5, abs=3e-3)  # of terms of .55 that cancel
