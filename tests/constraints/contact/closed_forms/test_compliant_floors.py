"""What falls on a rough floor that gives way: a spring, whatever its friction, which gives back what it took.

Velocities were found as of a hard floor, which takes all of it: it gave way more slowly the shorter steps were, and
derivatives by the compliance went to zero with them.
"""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
DROP, GIVES, SPEED, MU, SECONDS = 0.05, 1e-3, 3.0, 0.2, 0.3
R = 0.05


def floor(kind: str, rough: bool, gives: float = GIVES, bounce: float | None = None) -> sim.Model:
    """A particle or a ball of 1 kg above it."""
    made, cfg = sim.ModelBuilder(gravity=(0, -G, 0)), Config(mu=MU if rough else None, restitution=bounce)
    if kind == "particle":
        made.add_particles([[0, DROP, 0]], 1.0, vel=(SPEED, 0, 0), label="b")
    else:
        body = made.add_body(sim.transformd((0, DROP + R, 0), (0, 0, 0, 1)), label="b", velocity=(SPEED, 0, 0))
        made.add_shape_sphere(body, None, R, cfg=Config(mass=1.0, mu=cfg.mu), label="s")
    made.add_ground_plane(cfg=cfg, compliance=gives, label="f")
    return made.finalize(dtype=sim.float64, requires_grad=True)


def height(drop: float, gives: float) -> float:
    """While the floor pushes, from t_0 on: it swings about -g c with 1 / sqrt(c), beginning at 0 with -g t_0; and
    flies from where it lets go."""
    omega, begins = 1 / np.sqrt(gives), np.sqrt(2 * drop / G)
    sag, speed = G * gives, G * begins
    lets_go = (2 * np.pi - 2 * np.arctan2(speed, omega * sag)) / omega  # symmetric about the deepest place
    left = SECONDS - begins - lets_go
    assert left > 0.0
    return float(speed * left - 0.5 * G * left**2)


@pytest.mark.parametrize("kind", ["particle", "ball"])
def test_a_rough_floor_gives_back_what_it_took(kind: str) -> None:
    """As without friction, to rounding; towards the closed form as steps get shorter; and friction takes mu times
    what the floor gives in all: x = v T - mu (y - h + g T^2 / 2), while it slips."""
    name, off = ("particle_q", 0.0) if kind == "particle" else ("body_q", R)
    misses = []
    for rate in (960, 3840):
        found = {}
        for rough in (False, True):
            end, by = gradients(floor(kind, rough), round(SECONDS * rate), 1 / rate, coordinate(name, 0, 1))
            found[rough] = [getattr(end, name).numpy()[0, 1] - off, by["f.compliance"][0], by["b.position"][0, 1]]
        np.testing.assert_allclose(found[True], found[False], rtol=1e-9)
        y, by_gives, by_drop = found[True]
        d = 1e-6
        slopes = [
            (height(DROP, GIVES * (1 + d)) - height(DROP, GIVES * (1 - d))) / (2 * d * GIVES),
            (height(DROP + d, GIVES) - height(DROP - d, GIVES)) / (2 * d),
        ]
        misses.append([y - height(DROP, GIVES), by_gives - slopes[0], by_drop - slopes[1]])
        end, by = gradients(floor(kind, True), round(SECONDS * rate), 1 / rate, coordinate(name, 0, 0))
        given = y - DROP + 0.5 * G * SECONDS**2
        assert getattr(end, name).numpy()[0, 0] == pytest.approx(SPEED * SECONDS - MU * given, abs=4 / rate * MU)
        assert by["f.mu"][0] + by.get("b.s.mu", np.zeros(1))[0] == pytest.approx(-given, abs=4 / rate)
    assert np.abs(misses[1][0]) < min(2e-3, 0.4 * np.abs(misses[0][0]))
    assert np.abs(misses[1][1]) < 3.0 and np.abs(misses[1][2]) < 0.02


def test_a_spring_has_no_restitution() -> None:
    with pytest.raises(sim.ModelError, match="'f' have a compliance beside a restitution"):
        floor("ball", True, bounce=0.5)
    floor("ball", True, bounce=0.0)
    floor("ball", True, gives=0.0, bounce=0.5)


@pytest.mark.parametrize("case", ["slides", "bounces"])
@pytest.mark.parametrize("at", [0.0, 2e-6, 2e-5])
def test_from_hard_to_soft_nothing_jumps(case: str, at: float) -> None:
    """From 0 to 1e-12 m/N a box that slides was moved by .2 mm, and one that falls had no rebound: the gradient at 0
    was that of neither.  At 2e-5 the floor gives way by a third of what a step can tell."""

    def world(gives: float) -> sim.Model:
        cfg = Config(density=500.0, mu=0.3, restitution=0.5 if case == "bounces" else None)
        made = sim.ModelBuilder(gravity=(0, -G, 0))
        made.add_ground_plane(cfg=cfg, label="f")
        height = 0.15 if case == "bounces" else 0.05
        body = made.add_body([0, height, 0, 0, 0, 0, 1], label="b", velocity=(1.0, 0, 0.2))
        made.add_shape_box(body, None, 0.05, 0.05, 0.05, cfg=cfg, label="s")
        model = made.finalize(dtype=sim.float64, requires_grad=True)
        model["f.compliance"].fill_(gives)
        return model

    _, by = gradients(world(at), 60, 1 / 240, coordinate("body_q", 0, 0), iterations=4)
    d = 1e-10
    ends = [
        sim.rollout(sim.SolverXPBD(made := world(at + k * d), iterations=4), made.state(), 60, 1 / 240).final
        for k in (0, 1)
    ]
    slope = (ends[1].body_q.numpy()[0, 0] - ends[0].body_q.numpy()[0, 0]) / d
    assert slope == pytest.approx(by["f.compliance"][0], rel=1e-3)
