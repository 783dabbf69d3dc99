"""Things on moving belts, in bowls, and round bars, beside closed forms: values, and derivatives by what they take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim
from sim.core.lang.library.vector import length

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R = 0.1


def near(found: float, exact: Callable[..., float], at: dict[str, float], name: str, rel: float) -> None:
    """A derivative beside the difference of the closed form."""
    d = 1e-6 * max(abs(at[name]), 0.1)
    more, less = (exact(**{**at, name: at[name] + s * d}) for s in (1, -1))
    assert found == pytest.approx((more - less) / (2 * d), rel=rel, abs=1e-9), name


def belt(at: dict[str, float], ball: bool, above: float = 0.0, e: float = 0.0) -> sim.Model:
    """A particle or a ball that is put or dropped on a box that moves at u."""
    made, cfg = sim.ModelBuilder(gravity=(0, -G, 0)), {"mu": at["mu"], "restitution": e}
    way = [{"move": (10 * at["u"], 0, 0), "start": 0.0, "end": 10.0, "ease": "linear"}]
    moved = made.add_body(sim.transformd((0, -0.1, 0), IDENTITY), held=True, label="belt", motion=way)
    made.add_shape_box(moved, None, 3, 0.1, 0.5, cfg=Config(**cfg), label="h")
    if ball:
        body = made.add_body(sim.transformd((0, R + above, 0), IDENTITY), label="b")
        made.add_shape_sphere(body, None, R, cfg=Config(mass=1.0, **cfg), label="s")
    else:
        made.add_particle((0, above, 0))
    return made.finalize(dtype=sim.float64, requires_grad=True)


def carried(at: dict[str, float], ball: bool, seconds: float, rate: int, **how: float) -> tuple[float, dict]:
    seed = coordinate("body_q", 1, 0) if ball else coordinate("particle_q", 0, 0)
    end, by = gradients(belt(at, ball, **how), round(seconds * rate), 1 / rate, seed)
    mu = by["belt.h.mu"] + (by["b.s.mu"] if ball else 0.0)
    place = end.body_q.numpy()[1, 0] if ball else end.particle_q.numpy()[0, 0]
    return place, {"mu": mu[0], "u": 10 * by["belt.motion.0.move"][0, 0]}


@pytest.mark.parametrize("ball", [False, True])
def test_what_is_put_on_a_belt_comes_along(ball: bool) -> None:
    """At u after u / (mu g); a ball rolls on it at 2/7 u, from 2/7 of that time on."""
    at, seconds, rate = {"mu": 0.3, "u": 1.2}, 0.7, 480
    part = 2 / 7 if ball else 1.0

    def exact(mu: float, u: float) -> float:
        t = part * u / (mu * G)
        return 0.5 * mu * G * t * t + part * u * (seconds - t)

    x, found = carried(at, ball, seconds, rate)
    assert x == pytest.approx(exact(**at), rel=5e-3)
    for name, value in found.items():
        near(value, exact, at, name, 2e-2)


@pytest.mark.parametrize("at", [{"mu": 0.1, "u": 1.5}, {"mu": 0.4, "u": 1.0}], ids=["slips", "grips"])
def test_a_ball_dropped_on_a_belt(at: dict[str, float]) -> None:
    height, e, seconds, rate = 0.3, 0.6, 0.45, 480

    def exact(mu: float, u: float) -> float:
        t = np.sqrt(2 * height / G)
        return float(min(mu * (1 + e) * G * t, 2 / 7 * u) * (seconds - t))

    x, found = carried(at, True, seconds, rate, above=height, e=e)
    assert x == pytest.approx(exact(**at), rel=1e-2)
    for name, value in found.items():
        near(value, exact, at, name, 1e-2)


@sim.func
def bowl(p, scale):
    """The inside of a ball."""
    return scale[0] - length(p)


def test_a_particle_in_a_rough_bowl() -> None:
    """It swings, and is pressed by its weight and by its way round; back and forth."""
    start, mu, seconds, rate = 1.0, 0.1, 1.2, 1920

    def exact(start: float, mu: float) -> float:
        angle, spin, h = start, 0.0, 1e-4  # by Runge and Kutta, to each turn
        side = -1.0

        def rate_of(y: np.ndarray) -> np.ndarray:
            return np.array([y[1], -G * np.sin(y[0]) - mu * (G * np.cos(y[0]) + y[1] ** 2) * side])

        y, t = np.array([angle, spin]), 0.0
        while t < seconds - 1e-12:
            step = min(h, seconds - t)
            a = rate_of(y)
            b = rate_of(y + 0.5 * step * a)
            c = rate_of(y + 0.5 * step * b)
            ahead = y + step / 6 * (a + 2 * b + 2 * c + rate_of(y + step * c))
            if ahead[1] * side < 0.0:  # to where it turns, by the acceleration
                step = -y[1] / a[1]
                y, side = np.array([y[0] + 0.5 * step * y[1], 0.0]), -side
            else:
                y = ahead
            t += step
        return float(np.sin(y[0]))

    made = sim.ModelBuilder(gravity=(0, -G, 0))
    made.add_particle((np.sin(start), -np.cos(start), 0))
    made.add_shape_sdf(-1, None, bowl, scale=1.0, cfg=Config(mu=mu), label="s")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("particle_q", 0, 0))
    at = {"start": start, "mu": mu}
    assert end.particle_q.numpy()[0, 0] == pytest.approx(exact(**at), rel=5e-3)
    along = by["particles.position"][0] @ [np.cos(start), np.sin(start), 0]
    for name, value in {"start": along, "mu": by["s.mu"][0]}.items():
        d = 1e-3  # longer than steps of its closed form
        more, less = (exact(**{**at, name: at[name] + s * d}) for s in (1, -1))
        assert value == pytest.approx((more - less) / (2 * d), rel=1e-2), name


BAR, LINKS = 0.2, 40


def pulled_over(mu: float, heavy: float, seconds: float, mass: float) -> float:
    """How far a weight of 1 kg is pulled up by one of `heavy` over a bar, by a rope of so much mass at each point.

    Along the rope T' = mu (T + w R sin - rho v^2) + w R cos + rho R a, w = rho g (Euler and Eytelwein's with weight).
    """
    rho, x, v, h, parts = mass * (LINKS - 1) / (np.pi * BAR + 0.6), 0.0, 0.0, seconds / 100, 100
    phi = (np.arange(parts) + 0.5) * np.pi / parts
    grown = np.exp(mu * (np.pi - phi)) * np.pi / parts * rho * BAR
    for _ in range(100):
        pressed, own = grown @ (mu * (G * np.sin(phi) - v * v / BAR)), grown @ (G * np.cos(phi))
        up, down, whole = 1 + rho * (0.3 - x), heavy + rho * (0.3 + x), np.exp(mu * np.pi)
        a = (down * G - up * G * whole - pressed - own) / (down + up * whole + grown.sum())
        x, v = x + h * v + 0.5 * h * h * a, v + h * a
    return x


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_a_rope_over_a_rough_bar() -> None:
    at, seconds, rate, mass = {"mu": 0.2, "heavy": 3.0}, 0.2, 1920, 0.02

    def exact(mu: float, heavy: float) -> float:
        return pulled_over(mu, heavy, seconds, mass)

    reach = np.linspace(-1, 1, LINKS + 1) * (0.5 * np.pi * BAR + 0.3)
    round_it = np.clip(reach / BAR, -np.pi / 2, np.pi / 2)
    hanging = np.abs(reach) - BAR * np.abs(round_it)
    places = np.stack([BAR * np.sin(round_it), BAR * np.cos(round_it) - hanging, 0 * reach], axis=1)
    masses = np.full(LINKS + 1, mass)
    masses[0], masses[-1] = 1.0, at["heavy"]
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    made.add_particles(places, masses, label="rope")
    ends = np.arange(LINKS)
    made.add_constraints("distance", np.stack([ends, ends + 1], axis=1), 0.0, label="links")
    made.add_shape_cylinder(-1, sim.transformd((0, 0, 0), IDENTITY), BAR, 0.5, cfg=Config(mu=at["mu"]), label="c")
    model = made.finalize(dtype=sim.float64, requires_grad=True)
    weight = coordinate("particle_q", LINKS, 1)
    end, by = gradients(model, round(seconds * rate), 1 / rate, weight, iterations=4, direct=["links"])
    assert -0.3 - end.particle_q.numpy()[LINKS, 1] == pytest.approx(exact(**at), rel=4e-2)
    near(-by["c.mu"][0], exact, at, "mu", 4e-2)
    near(-by["rope.mass"][LINKS], exact, at, "heavy", 4e-2)


def pulled_on_a_belt(at: dict[str, float]) -> sim.Model:
    """A particle on a box that moves at u, on a spring to a place that does not."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    way = [{"move": (10 * at["u"], 0, 0), "start": 0.0, "end": 10.0, "ease": "linear"}]
    moved = made.add_body(sim.transformd((0, -0.1, 0), IDENTITY), held=True, label="belt", motion=way)
    made.add_shape_box(moved, None, 3, 0.1, 0.5, cfg=Config(mu=at["mu"]), label="h")
    made.add_particles([[0, 0, 0]], at["mass"], vel=(at["u"], 0, 0), label="p")
    made.add_particles([[-1, 0, 0]], 1.0, label="q")
    made.add_attachment([1], label="pin")
    made.add_spring(1, 0, 1 / at["k"], 0.0, 1.0, label="spring")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("rate", [120, 480])
def test_a_belt_takes_along_what_a_spring_holds_until_it_slips(rate: int) -> None:
    """It goes with the belt until k x = mu m g, and swings from there.  And neighbours go alike: what lies on a box was
    taken to pass a corner of it, now and then, by the sign of a rounding error, and values jumped."""
    at, seconds = {"u": 0.5, "mu": 0.3, "k": 40.0, "mass": 1.0}, 0.35

    def exact(u: float, mu: float, k: float, mass: float) -> float:
        slips, omega = mu * mass * G / k, np.sqrt(k / mass)
        return float(slips + u / omega * np.sin(omega * (seconds - slips / u)))

    model = pulled_on_a_belt(at)
    end, by = gradients(model, round(seconds * rate), 1 / rate, coordinate("particle_q", 0, 0))
    x = end.particle_q.numpy()[0, 0]
    assert x == pytest.approx(exact(**at), rel=3 / rate)
    found = {"mu": by["belt.h.mu"][0], "u": 10 * by["belt.motion.0.move"][0, 0] + by["p.velocity"][0, 0]}
    found |= {"mass": by["p.mass"][0], "k": -by["spring.compliance"][0] / at["k"] ** 2}
    for name, value in found.items():
        near(value, exact, at, name, 9 / rate)
    for k in range(-4, 5):
        other = pulled_on_a_belt(at | {"mass": 1.0 + k * 1e-6})
        last = sim.rollout(sim.SolverXPBD(other), other.state(), steps=round(seconds * rate), dt=1 / rate).final
        assert last.particle_q.numpy()[0, 0] == pytest.approx(x + k * 1e-6 * found["mass"], abs=1e-10)
