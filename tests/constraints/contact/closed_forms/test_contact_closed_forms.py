"""Rolling, spin, grooves, falling rods and moving walls beside closed forms: values, and derivatives by what they take.

Others: `tests/tools/closed_forms/contacts.py`, which writes the table of docs/physics.md, and `impacts/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
R = 0.1
By = Mapping[str, np.ndarray]
IDENTITY = (0.0, 0.0, 0.0, 1.0)


def compared(
    exact: Callable[..., float], at: dict[str, float], value: float, found: dict[str, float], rel: float, slope: float
) -> None:
    """A value and its derivatives by name."""
    assert value == pytest.approx(exact(**at), rel=rel)
    for name, derivative in found.items():
        d = 1e-6 * max(abs(at[name]), 0.1)
        less, more = (exact(**{**at, name: at[name] + s * d}) for s in (-1, 1))
        assert derivative == pytest.approx((more - less) / (2 * d), rel=slope, abs=slope), name


def thrown(at: dict[str, float], height: float, down: float, kind: str = "sphere") -> sim.Model:
    """A ball or a capsule of 1 kg over a floor, with the coefficients that `at` has."""
    made = sim.ModelBuilder(gravity=(down * np.sin(at.get("slope", 0.0)), -down * np.cos(at.get("slope", 0.0)), 0))
    cfg = {"mu": at["mu"], "restitution": at.get("e", 0.0)}
    body = made.add_body(
        sim.transformd((0, R + height, 0), IDENTITY), label="b", velocity=(at.get("v", 0.0), at.get("fall", 0.0), 0),
        spin=(0, 0, at.get("spin", 0.0)),
    )  # fmt: skip
    size = {"radius": R} if kind == "sphere" else {"radius": R, "half_height": 0.15}
    getattr(made, f"add_shape_{kind}")(body, None, **size, cfg=Config(mass=1.0, **cfg), label="h")
    made.add_ground_plane(cfg=Config(**cfg), label="f")
    return made.finalize(dtype=sim.float64, requires_grad=True)


def of(by: By) -> dict[str, float]:
    found = {"v": by["b.velocity"][0, 0], "fall": by["b.velocity"][0, 1], "spin": by["b.spin"][0, 2]}
    found |= {"mu": by["b.h.mu"][0] + by["f.mu"][0], "e": by["b.h.restitution"][0] + by["f.restitution"][0]}
    return found


@pytest.mark.parametrize("spin", [35.0, 8.0])
def test_a_ball_with_backspin_comes_to_roll(spin: float) -> None:
    """Friction stops the slip u = v + R w after 2 |u| / (7 mu g); with much spin it goes back."""
    at, seconds, rate = {"v": 2.0, "spin": spin, "mu": 0.3}, 0.7, 240

    def exact(v: float, spin: float, mu: float) -> float:
        slips = 2 / 7 * (v + R * spin) / (mu * G)
        assert slips < seconds
        return v * slips - 0.5 * mu * G * slips**2 + (v - mu * G * slips) * (seconds - slips)

    end, by = gradients(thrown(at, 0.0, G), round(seconds * rate), 1 / rate, coordinate("body_q", 0, 0))
    found = {name: of(by)[name] for name in at}
    compared(exact, at, end.body_q.numpy()[0, 0], found, 1e-2, 1e-2)


@pytest.mark.parametrize(
    "at",
    [
        pytest.param({"v": 2.0, "fall": -3.1, "spin": 25.0, "mu": 0.2, "e": 0.7}, id="slips"),
        pytest.param({"v": 2.0, "fall": -3.1, "spin": 15.0, "mu": 0.2, "e": 0.7}, id="grips"),
        pytest.param({"v": 0.5, "fall": -3.1, "spin": -35.0, "mu": 0.1, "e": 0.02}, id="topspin, all but plastic"),
    ],
)
@pytest.mark.parametrize("place", [0, 5])
def test_a_ball_bounces_with_spin(at: dict[str, float], place: int) -> None:
    """Friction is mu times the normal impulse, or what stops the slip: 2/7 of that."""

    def exact(v: float, fall: float, spin: float, mu: float, e: float) -> float:
        slip = v + R * spin
        rubbed = -np.sign(slip) * min(-mu * (1 + e) * fall, 2 / 7 * abs(slip))
        return float(v + rubbed if place == 0 else spin + 2.5 * rubbed / R)

    end, by = gradients(thrown(at, 0.3, 0.0), 18, 1 / 60, coordinate("body_qd", 0, place))
    compared(exact, at, end.body_qd.numpy()[0, place], of(by), 1e-9, 1e-6)


@pytest.mark.parametrize("part", [1.1, 0.9])
def test_a_capsule_on_a_slope_rolls_or_slips(part: float) -> None:
    """It rolls from mu = k / (1 + k) tan on, of I = k m R^2."""
    pieces = np.array([0.3 * R**2, 4 / 3 * R**3])  # of its volume, over pi
    k = float(pieces @ [0.5, 0.4] / pieces.sum())
    at = {"slope": 0.5, "mu": part * k / (1 + k) * np.tan(0.5)}

    def exact(slope: float, mu: float) -> float:
        rolls = mu > k / (1 + k) * np.tan(slope)
        return float(0.3 * G * (np.sin(slope) / (1 + k) if rolls else np.sin(slope) - mu * np.cos(slope)))

    end, by = gradients(thrown(at, 0.0, G, "capsule"), 36, 1 / 120, coordinate("body_qd", 0, 0))
    steeper = by["gravity"][0] @ [G * np.cos(0.5), G * np.sin(0.5), 0.0]
    found = {"slope": steeper, "mu": of(by)["mu"]}
    compared(exact, at, end.body_qd.numpy()[0, 0], found, 1e-3, 1e-2)


@pytest.mark.parametrize("part", [1.6, 0.5])
def test_a_ball_in_a_groove(part: float) -> None:
    """On two planes it turns about a line nearer to its centre, R cos(phi) away, and each presses more."""
    phi, slope = 0.7, 0.6
    k = 0.4 / np.cos(phi) ** 2
    at = {"slope": slope, "mu": part * k / (1 + k) * np.tan(slope) * np.cos(phi)}

    def exact(slope: float, mu: float) -> float:
        rolls = mu > k / (1 + k) * np.tan(slope) * np.cos(phi)
        held = np.sin(slope) - mu * np.cos(slope) / np.cos(phi)
        return float(0.3 * G * (np.sin(slope) / (1 + k) if rolls else held))

    made = sim.ModelBuilder(gravity=(0, -G * np.cos(slope), G * np.sin(slope)))
    body, cfg = made.add_body(sim.transformd((0, R / np.cos(phi), 0), IDENTITY), label="b"), Config(mu=at["mu"])
    made.add_shape_sphere(body, None, R, cfg=Config(mass=1.0, mu=at["mu"]), label="h")
    for side, name in ((1, "f"), (-1, "k")):
        made.add_ground_plane(normal=(side * np.sin(phi), np.cos(phi), 0), cfg=cfg, label=name)
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, 72, 1 / 240, coordinate("body_qd", 0, 2), iterations=4)
    steeper = by["gravity"][0] @ [0.0, G * np.sin(slope), G * np.cos(slope)]
    found = {"slope": steeper, "mu": by["b.h.mu"][0] + by["f.mu"][0] + by["k.mu"][0]}
    compared(exact, at, end.body_qd.numpy()[0, 2], found, 1e-3, 1e-2)


def test_a_ladder_leaves_the_wall() -> None:
    """Smooth, at two thirds of the height that its upper end began at, and goes on at a constant speed."""
    length, at = 1.0, {"lean": 1.2}

    def exact(lean: float) -> float:
        sine = 2 / 3 * np.sin(lean)
        return float(0.5 * length * sine * np.sqrt(3 * G / length * (np.sin(lean) - sine)))

    made, (c, s) = sim.ModelBuilder(gravity=(0, -G, 0)), (0.5 * np.cos(1.2), 0.5 * np.sin(1.2))
    pose = sim.transformd((c, s, 0), (0, 0, -np.sin(0.6), np.cos(0.6)))
    body = made.add_body(pose, mass=1.0, inertia=(1e-3, 1 / 12, 1 / 12), label="b")
    for x, normal, name in ((0.5, [0, 1, 0], "floor"), (-0.5, [1, 0, 0], "wall")):
        place = [[made.point_of(body, (x, 0, 0))]]
        made.add_constraints(
            "contact_plane", place, 0.0, label=name, point=[0, 0, 0], normal=normal, thickness=0.0, friction=0.0
        )
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, 180, 1 / 240, coordinate("body_qd", 0, 0))
    found = {"lean": by["b.position"][0] @ [-s, c, 0.0] - by["b.rotation"][0, 2]}
    compared(exact, at, end.body_qd.numpy()[0, 0], found, 4e-3, 4e-2)


def test_a_ball_between_a_wall_and_one_that_comes_nearer() -> None:
    """It takes 2 u more from each hit of what comes at u, times (1 + e) / 2; exact at any step."""
    at, seconds = {"u": 0.2, "v": 2.3, "e": 0.9}, 1.0

    def exact(u: float, v: float, e: float) -> float:
        x, t = 0.3, 0.0
        while True:
            left = (0.9 - u * t - x) / (v + u) if v > 0 else (x - 0.1) / -v
            if t + left > seconds:
                return x + v * (seconds - t)
            x, t, v = x + v * left, t + left, -u - e * (v + u) if v > 0 else -e * v

    made = sim.ModelBuilder(gravity=(0, 0, 0))
    wall, ball = made.add_particle((1.1, 0, 0)), made.add_particle((0.3, 0, 0), (at["v"], 0, 0))
    comes = [{"move": (-2 * at["u"], 0, 0), "start": 0.0, "end": 2.0, "ease": "linear"}]
    made.add_attachment([wall], comes, label="w")
    surface = {"friction": 0.0, "restitution": at["e"]}
    made.add_constraints("contact_points", [[ball, wall]], 0.0, label="meet", radius=0.1, other_radius=0.1, **surface)
    made.add_constraints(
        "contact_plane", [[ball]], 0.0, label="f", point=[0, 0, 0], normal=[1, 0, 0], thickness=0.1, **surface
    )
    end, by = gradients(
        made.finalize(dtype=sim.float64, requires_grad=True), 120, 1 / 120, coordinate("particle_q", ball, 0)
    )
    found = {"u": -2 * by["w.motion.0.move"][0, 0], "v": by["particles.velocity"][ball, 0]}
    found["e"] = by["meet.restitution"][0] + by["f.restitution"][0]
    compared(exact, at, end.particle_q.numpy()[ball, 0], found, 1e-9, 1e-6)


@pytest.mark.parametrize(("inertia", "mu"), [(0.01, 0.5), (0.03, 0.8)])
def test_a_pole_slides_on_its_foot(inertia: float, mu: float) -> None:
    """Its mass is at its top, a metre high, and it leans ahead: friction lifts the foot by twice of what presses it.
    Where sweeps found one after the other, derivatives grew from step to step, to -8e2 and -2e13 at 1920 Hz."""
    seconds, rate, at = 0.05, 480, {"lean": 1.3, "v": 4.0, "mu": mu}

    def exact(lean: float, v: float, mu: float) -> float:
        def rate_of(_: float, y: np.ndarray) -> np.ndarray:
            c, s = np.cos(y[0]), np.sin(y[0])
            pushes = np.array([[1, -s, mu], [0, c, -1], [0, inertia, c + s * mu]])  # foot, spin, normal force
            a = np.linalg.solve(pushes, [c * y[2] ** 2, -G + s * y[2] ** 2, 0])
            return np.array([y[2], a[0], a[1]])

        return float(solve_ivp(rate_of, (0, seconds), [lean, v, 0], rtol=1e-9, atol=1e-11).y[2, -1])

    made, lean = sim.ModelBuilder(gravity=(0, -G, 0)), at["lean"]
    pose = sim.transformd((np.cos(lean), np.sin(lean), 0), (0, 0, np.sin(lean / 2), np.cos(lean / 2)))
    inertias = (1e-3, inertia, inertia)
    pole = made.add_body(pose, mass=1.0, inertia=inertias, velocity=(at["v"], 0, 0), label="b")
    made.add_constraints(
        "contact_plane", [[made.point_of(pole, (-1, 0, 0))]], 0.0, label="f", point=[0, 0, 0], normal=[0, 1, 0],
        thickness=0.0, friction=mu,
    )  # fmt: skip
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("body_qd", 0, 5))
    assert end.body_qd.numpy()[0, 5] == pytest.approx(exact(**at), rel=1e-2)
    more, less = (exact(**{**at, "mu": mu + d}) for d in (1e-5, -1e-5))
    assert by["f.friction"][0] == pytest.approx((more - less) / 2e-5, rel=3e-2)
