"""Impacts on what rests, slides or rolls: other contacts press and rub as before them, and then as after them.

At any phase of the step; with these forces taken for the whole step, derivatives by where things come from were zero,
or of the wrong sign, at any step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
PHASES = (0.0, 0.37, 0.81)
FLOOR = {"point": [0, 0, 0], "normal": [0, 1, 0]}
WALL = {"point": [0, 0, 0], "normal": [-1, 0, 0], "friction": 0.0}


def slopes(exact: Callable[..., float], at: dict[str, float], names: tuple[str, ...]) -> list[float]:
    """Derivatives by some of the numbers that a closed form takes."""
    return [(exact(**{**at, n: at[n] + 1e-6}) - exact(**{**at, n: at[n] - 1e-6})) / 2e-6 for n in names]


@pytest.mark.parametrize("phase", PHASES)
def test_what_slides_hits_a_wall(phase: float) -> None:
    """It comes slower than it was, and slides back: v = -e v_1 + mu g (T - t_1), v_1^2 = v^2 + 2 mu g x."""
    steps, rate = 42, 120
    at = {"x": -0.403 - phase * 1.5 / rate, "v": 2.0, "mu": 0.3, "e": 0.8}

    def exact(x: float, v: float, mu: float, e: float) -> float:
        hit = np.sqrt(v * v + 2 * mu * G * x)
        return float(-e * hit + mu * G * (steps / rate - (v - hit) / (mu * G)))

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    p = [[made.add_particle((at["x"], 0, 0), (at["v"], 0, 0), 1.0)]]
    made.add_constraints("contact_plane", p, 0.0, label="floor", thickness=0.0, friction=at["mu"], **FLOOR)
    made.add_constraints("contact_plane", p, 0.0, label="wall", thickness=0.0, restitution=at["e"], **WALL)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, steps, 1 / rate, coordinate("particle_qd", 0, 0))
    assert end.particle_qd.numpy()[0, 0] == pytest.approx(exact(**at), rel=4e-3)
    found = by["particles.position"][0, 0], by["particles.velocity"][0, 0], by["floor.friction"][0]
    assert [*found, by["wall.restitution"][0]] == pytest.approx(slopes(exact, at, ("x", "v", "mu", "e")), rel=2e-2)


@pytest.mark.parametrize(("phase", "steps"), [(0.0, 54), (0.37, 72), (0.81, 54)])
def test_what_rolls_hits_a_wall(phase: float, steps: int) -> None:
    """Without friction there the ball goes on turning, and that brakes it: v = -e v_0 + mu g (T - t_1) as long as it
    slides, and -e v_0 + 2/7 (1 + e) v_0 when it rolls again."""
    rate, R = 120, 0.1
    at = {"x": -0.503 - phase * 1.7 / rate, "v": 1.7, "mu": 0.3, "e": 0.7}

    def exact(x: float, v: float, mu: float, e: float) -> float:
        return float(-e * v + min(mu * G * (steps / rate + (x + R) / v), 2 / 7 * (1 + e) * v))

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    pose, spin = sim.transformd((at["x"], R, 0), (0, 0, 0, 1)), (0, 0, -at["v"] / R)
    body = made.add_body(pose, mass=1.0, inertia=0.4 * R * R, label="ball", velocity=(at["v"], 0, 0), spin=spin)
    p = [[made.point_of(body)]]
    made.add_constraints("contact_plane", p, 0.0, label="floor", thickness=R, friction=at["mu"], **FLOOR)
    made.add_constraints("contact_plane", p, 0.0, label="wall", thickness=R, restitution=at["e"], **WALL)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, steps, 1 / rate, coordinate("body_qd", 0, 0))
    assert end.body_qd.numpy()[0, 0] == pytest.approx(exact(**at), rel=3e-3)
    found = [by["ball.position"][0, 0], by["ball.velocity"][0, 0] - by["ball.spin"][0, 2] / R]
    found += [by["floor.friction"][0], by["wall.restitution"][0]]
    assert found == pytest.approx(slopes(exact, at, ("x", "v", "mu", "e")), rel=5e-3, abs=5e-3)


def rocked(half: tuple[float, float], tilt: float, seconds: float) -> float:
    """The spin of a block, half as wide and as high as `half`, that is let go on one edge and has changed to the other.

    G. W. Housner, "The Behavior of Inverted Pendulum Structures During Earthquakes", 1963: it keeps 1 - 3/2 sin^2 of
    the angle between its diagonal and its height.
    """
    (b, h), size = half, float(np.hypot(*half))
    lean = np.arctan2(b, h)

    def fall(t: float, y: np.ndarray) -> list[float]:
        return [y[1], -0.75 * G / size * np.sin(lean - y[0])]

    def down(t: float, y: np.ndarray) -> float:
        return float(y[0])

    down.terminal = True
    first = solve_ivp(fall, (0, 5), [tilt, 0], events=down, rtol=1e-11, atol=1e-13)
    kept = -first.y[1, -1] * (1 - 1.5 * np.sin(lean) ** 2)
    second = solve_ivp(fall, (0, seconds - first.t[-1]), [0, kept], rtol=1e-11, atol=1e-13)
    return float(second.y[1, -1])


def test_a_block_rocks() -> None:
    """The edge that it turns about carries it until the other one hits, and no longer: its spin by its tilt was off by
    three times that, with the wrong sign."""
    b, h, tilt, rate, steps = 0.1, 0.3, 0.15, 480, 148
    made, cfg = sim.ModelBuilder(gravity=(0, -G, 0)), Config(mass=1.0, mu=2.0, restitution=0.0)
    turn = np.array([[np.cos(tilt), np.sin(tilt)], [-np.sin(tilt), np.cos(tilt)]])
    pose = sim.transformd((*(turn @ [-b, h]), 0.0), (0, 0, -np.sin(tilt / 2), np.cos(tilt / 2)))
    made.add_shape_box(made.add_body(pose, label="block"), None, b, h, 0.2, cfg=cfg, label="hull")
    made.add_ground_plane(cfg=cfg)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, steps, 1 / rate, coordinate("body_qd", 0, 5))
    assert end.body_qd.numpy()[0, 5] == pytest.approx(rocked((b, h), tilt, steps / rate), rel=2e-2)
    swung = turn @ [h, b]  # of the middle, by the tilt about the edge
    found = by["block.position"][0, :2] @ swung - by["block.rotation"][0, 2]
    wanted = (rocked((b, h), tilt + 1e-5, steps / rate) - rocked((b, h), tilt - 1e-5, steps / rate)) / 2e-5
    assert found == pytest.approx(wanted, rel=0.15)
