"""What rolls on a body that moves freely beside closed forms: it comes to roll, and rolls on, at any step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R, MASS = 0.05, 1.3


def on_a_cart(kind: str, at: dict[str, float]) -> sim.Model:
    """A ball or the like that is put on a plank of mass M, which slides on its floor without friction."""
    made, surface = sim.ModelBuilder(gravity=(0, -G, 0)), {"mu": at["mu"]}
    plank = made.add_body(sim.transformd((0, 0.05, 0), IDENTITY), label="plank")
    made.add_shape_box(plank, None, 1.0, 0.05, 0.3, cfg=Config(mass=at["M"], **surface), label="h")
    feet = [[made.point_of(plank, (x, -0.05, z))] for x in (-1, 1) for z in (-0.3, 0.3)]
    made.add_constraints(
        "contact_plane", feet, 0.0, label="floor", point=[0, 0, 0], normal=[0, 1, 0], thickness=0.0, friction=0.0
    )
    body = made.add_body(sim.transformd((-0.4, 0.1 + R, 0), IDENTITY), velocity=(at["v"], 0, 0), label="b")
    cfg = Config(mass=MASS, **surface)
    if kind == "ball":
        made.add_shape_sphere(body, None, R, cfg=cfg, label="s")
    elif kind == "capsule":
        made.add_shape_capsule(body, None, R, 0.1, cfg=cfg, label="s")
    else:
        made.add_shape_cylinder(body, None, R, 0.1, cfg=cfg, label="s")
    return made.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize(("kind", "within"), [("ball", 5e-4), ("capsule", 5e-4), ("cylinder", 3e-2)])
def test_it_rolls_on_on_a_cart(kind: str, within: float) -> None:
    """At 120 Hz, after .9 s.  With arms that counted from where both had come together it lost a fifth of its speed."""
    at = {"v": 1.2, "mu": 0.4, "M": 2.1}
    model = on_a_cart(kind, at)
    share = model.body_inertia.numpy()[1][2, 2] / (MASS * R * R)
    rolls = at["v"] - at["v"] / (1 + 1 / share + MASS / at["M"])
    end = sim.rollout(sim.SolverXPBD(model), model.state(), steps=108, dt=1 / 120).final
    assert end.body_qd.numpy()[1, 0] == pytest.approx(rolls, rel=within)


def test_derivatives_of_what_comes_to_roll_on_a_cart() -> None:
    """The slip of a ball ends after v / (mu g (7/2 + m / M)).  d x / d M of the cart was a tenth off, at 480 Hz."""
    at, seconds, rate = {"v": 1.2, "mu": 0.2, "M": 2.1}, 0.5, 480

    def exact(v: float, mu: float, M: float) -> float:
        ends, a = v / (mu * G * (3.5 + MASS / M)), mu * G * MASS / M
        return float(a * ends * (seconds - 0.5 * ends))

    end, by = gradients(on_a_cart("ball", at), round(seconds * rate), 1 / rate, coordinate("body_q", 0, 0))
    assert end.body_q.numpy()[0, 0] == pytest.approx(exact(**at), rel=5e-3)
    found = {"v": by["b.velocity"][0, 0], "mu": by["plank.h.mu"][0] + by["b.s.mu"][0], "M": by["plank.h.mass"][0]}
    for name, derivative in found.items():
        less, more = (exact(**{**at, name: at[name] + d}) for d in (-1e-6, 1e-6))
        assert derivative == pytest.approx((more - less) / 2e-6, rel=1e-2), name


def rolled_off(m: float, M: float, r: float, big: float, start: float, seconds: float) -> tuple[float, float]:
    """The spins of a free ball on a smooth floor, and of one that rolls down it from an angle: where the lower one is,
    the angle, and how far the lower one has turned, by Lagrange's equations."""
    reach, own, other = r + big, 0.4 * m * r**2, 0.4 * M * big**2

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        s, c = np.sin(y[1]), np.cos(y[1])
        inertia = np.array([[M + m, m * reach * c, 0.0],
                            [m * reach * c, (m + own / r**2) * reach**2, -own * reach * big / r**2],
                            [0.0, -own * reach * big / r**2, other + own * (big / r) ** 2]])  # fmt: skip
        pull = np.array([m * reach * s * y[4] ** 2, m * G * reach * s, 0.0])
        return np.concatenate([y[3:], np.linalg.solve(inertia, pull)])

    y = solve_ivp(rate, (0, seconds), [0, start, 0, 0, 0, 0], rtol=1e-10, atol=1e-12).y[:, -1]
    return float(y[5]), float((reach * y[4] - big * y[5]) / r)


@pytest.mark.parametrize("at", [(1.3, 0.9, 0.05, 0.12), (0.4, 2.0, 0.1, 0.05)], ids=["heavy", "light"])
def test_a_ball_rolls_off_a_free_one(at: tuple[float, float, float, float]) -> None:
    """At 120 Hz.  Where their place goes is said by radii; by masses spins were 6 to 23 % off."""
    (m, M, r, big), start, seconds = at, 0.25, 0.2
    made, reach = sim.ModelBuilder(gravity=(0, -G, 0)), r + big
    low = made.add_body(sim.transformd((0, big, 0), IDENTITY), label="low")
    made.add_shape_sphere(low, None, big, cfg=Config(mass=M, mu=3.0), label="s")
    place = (reach * np.sin(start), big + reach * np.cos(start), 0)
    high = made.add_body(sim.transformd(place, IDENTITY), label="high")
    made.add_shape_sphere(high, None, r, cfg=Config(mass=m, mu=3.0), label="s")
    made.add_constraints(
        "contact_plane", [[made.point_of(low)]], 0.0, label="floor", point=[0, 0, 0], normal=[0, 1, 0], thickness=big,
        friction=0.0,
    )  # fmt: skip
    model = made.finalize(dtype=sim.float64)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), steps=round(seconds * 120), dt=1 / 120).final
    assert -end.body_qd.numpy()[:, 5] == pytest.approx(rolled_off(*at, start, seconds), rel=2e-2)
