"""What slides or rolls off an edge, or over the seam of two boxes: when it does is known within the step.

Taken by whole steps it is lost: d y / d v of what had slid off a table was 0, at any step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
R, WAY, SECONDS = 0.05, 0.5, 0.5


def near(found: float, exact: Callable[..., float], at: dict[str, float], name: str, rel: float) -> None:
    """A derivative beside the difference of the closed form."""
    d = 1e-6
    more, less = (exact(**{**at, name: at[name] + s * d}) for s in (1, -1))
    assert found == pytest.approx((more - less) / (2 * d), rel=rel), (name, at)


def made_of(mu: list[float]) -> sim.ModelBuilder:
    """Boxes of the world beside each other, the first up to x = 0, their upper faces at y = 0."""
    made = sim.ModelBuilder(gravity=(0, -G, 0))
    for k, friction in enumerate(mu):
        at = sim.transformd((2.0 * k - 1.0, -0.1, 0), IDENTITY)
        made.add_shape_box(-1, at, 1.0, 0.1, 1.0, cfg=Config(mu=friction), label="fg"[k])
    return made


def crossing(v: float, mu: float) -> float:
    """When what slides with v comes to x = 0."""
    return float((v - np.sqrt(v * v - 2 * mu * G * WAY)) / (mu * G))


@pytest.mark.parametrize("thickness", [0.0, 0.01])
@pytest.mark.parametrize("rate", [120, 480])
def test_off_the_edge_of_a_table(rate: int, thickness: float) -> None:
    """It falls from there on."""

    def exact(v: float, mu: float) -> float:
        return -0.5 * G * (SECONDS - crossing(v, mu)) ** 2

    for v in np.linspace(2.0, 2.05, 6):
        at = {"v": float(v), "mu": 0.2}
        made = made_of([at["mu"]])
        made.add_particles([[-WAY, thickness, 0]], 1.0, vel=(at["v"], 0, 0), thickness=thickness, label="p")
        model = made.finalize(dtype=sim.float64, requires_grad=True)
        end, by = gradients(model, round(SECONDS * rate), 1 / rate, coordinate("particle_q", 0, 1))
        assert end.particle_q.numpy()[0, 1] - thickness == pytest.approx(exact(**at), abs=1.0 / rate)
        near(by["p.velocity"][0, 0], exact, at, "v", 4.0 / rate)
        near(by["f.mu"][0], exact, at, "mu", 8.0 / rate)


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_a_ball_rolls_off_a_table(mu: float) -> None:
    """Fast enough to leave the edge at once.  Slow falls of the last step may be seen to touch it: of 24 phases one."""
    rate, off = 240, []
    for v in np.linspace(2.0, 2.03, 7):
        made = made_of([mu])
        spin = -v / R if mu else 0.0
        ball = made.add_body(sim.transformd((-WAY, R, 0), IDENTITY), velocity=(v, 0, 0), spin=(0, 0, spin), label="b")
        made.add_shape_sphere(ball, None, R, cfg=Config(mass=1.0, mu=mu), label="s")
        model = made.finalize(dtype=sim.float64, requires_grad=True)
        end, by = gradients(model, round(SECONDS * rate), 1 / rate, coordinate("body_q", 0, 1))
        falls = SECONDS - WAY / v
        assert end.body_q.numpy()[0, 1] == pytest.approx(R - 0.5 * G * falls**2, abs=1.5 / rate)
        found = by["b.velocity"][0, 0] - (by["b.spin"][0, 2] / R if mu else 0.0)
        off.append(abs(found / (-G * falls * WAY / v**2) - 1.0))
    assert np.median(off) < 0.02, off


@pytest.mark.parametrize(("rate", "iterations"), [(120, 1), (480, 1), (240, 2), (240, 4)])
def test_from_one_friction_to_another(rate: int, iterations: int) -> None:
    """And nothing stops it at the seam: at 120 Hz a particle was, at most phases of the step."""

    def exact(v: float, before: float, behind: float) -> float:
        t = crossing(v, before)
        return v - before * G * t - behind * G * (SECONDS - t)

    for v in np.linspace(2.0, 2.05, 6):
        at = {"v": float(v), "before": 0.1, "behind": 0.3}
        made = made_of([at["before"], at["behind"]])
        made.add_particle((-WAY, 0, 0), (at["v"], 0, 0))
        model = made.finalize(dtype=sim.float64, requires_grad=True)
        seed = coordinate("particle_qd", 0, 0)
        end, by = gradients(model, round(SECONDS * rate), 1 / rate, seed, iterations=iterations)
        assert end.particle_qd.numpy()[0, 0] == pytest.approx(exact(**at), rel=0.3 / rate)
        found = {"v": by["particles.velocity"][0, 0], "before": by["f.mu"][0], "behind": by["g.mu"][0]}
        for name, value in found.items():
            near(value, exact, at, name, 1.0 / rate)


def test_a_box_slides_over_a_seam() -> None:
    """At 3 of 40 phases it hit the side of the second box, with all of its speed."""
    for v in np.linspace(2.0, 2.05, 40):
        made = made_of([0.1, 0.1])
        box = made.add_body(sim.transformd((-WAY, 0.03, 0), IDENTITY), velocity=(v, 0, 0), label="b")
        made.add_shape_box(box, None, 0.05, 0.03, 0.05, cfg=Config(mass=1.0, mu=0.1), label="s")
        model = made.finalize(dtype=sim.float64)
        end = sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 120).final
        assert end.body_qd.numpy()[0, 0] == pytest.approx(v - 0.1 * G * SECONDS, abs=1e-3), v
