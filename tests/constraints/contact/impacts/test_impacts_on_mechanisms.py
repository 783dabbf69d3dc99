"""Impacts on what joints hold: these answer at once (E. J. Routh, "Dynamics of a System of Rigid Bodies", 1905)."""

from __future__ import annotations

import numpy as np
import pytest
from tools.bodies.models import momenta
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY, ROOT = (0.0, 0.0, 0.0, 1.0), float(np.sqrt(0.5))
PHASES = (0.0, 0.37, 0.81)
ROD, BALL, WIDE, THICK = 2.0, 0.7, 0.05, 0.02
LONG = 1.0


def hinged_rod(rate: int, phase: float, at: tuple[float, float], spin: float, e: float) -> sim.Model:
    """A rod that swings about the origin to a ball at rest, and begins so much of a step nearer."""
    builder, angle = sim.ModelBuilder(gravity=(0, 0, 0)), -0.3 + phase * spin / rate
    side, down = np.sin(angle), -np.cos(angle)
    turn, inertia = (0.0, 0.0, np.sin(angle / 2), np.cos(angle / 2)), ROD * LONG**2 / 12
    rod = builder.add_body(
        sim.transformd((LONG / 2 * side, LONG / 2 * down, 0.0), turn), mass=ROD, inertia=(inertia, 1e-3, inertia),
        label="rod", spin=(0, 0, spin), velocity=(-spin * LONG / 2 * down, spin * LONG / 2 * side, 0),
    )  # fmt: skip
    along = sim.transformd((0.0, 0.0, 0.0), (ROOT, 0.0, 0.0, ROOT))
    cfg = {"mu": 0.0, "restitution": e}
    builder.add_shape_capsule(rod, along, THICK, LONG / 2, cfg=Config(density=0.0, **cfg), label="hull")
    top = sim.transformd((0.0, LONG / 2, 0.0), IDENTITY)
    builder.add_joint_revolute(-1, rod, child_xform=top, axis=(0, 0, 1), label="hinge")
    ball = builder.add_body(sim.transformd((at[0], -at[1], 0.0), IDENTITY), label="ball")
    builder.add_shape_sphere(ball, None, WIDE, cfg=Config(mass=BALL, **cfg), label="hull")
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def hit(x: float, y: float, spin: float, e: float) -> np.ndarray:
    """The spin of the rod, and the velocity of the ball: one impulse across the rod, and one at its hinge."""
    gap, reach = WIDE + THICK, x * x + y * y
    s = np.sqrt(reach - gap * gap)
    u = np.linalg.solve([[s, -gap], [gap, s]], [x, -y])
    inertia = ROD * LONG**2 / 3
    pressed = (1 + e) * spin * s / (s * s / inertia + 1 / BALL)
    return np.array([spin - pressed * s / inertia, -u[1] * pressed / BALL, u[0] * pressed / BALL])


@pytest.mark.parametrize("phase", PHASES)
def test_a_hinged_rod_hits_a_ball(phase: float) -> None:
    """Without the hinge in the impact the spin was off by 4 %, its derivative by where the ball is by a third."""
    at = {"x": 0.17, "y": 0.8, "spin": 2.0, "e": 0.6}
    for number, place in enumerate((("body_qd", 0, 5), ("body_qd", 1, 0), ("body_qd", 1, 1))):
        model = hinged_rod(480, phase, (at["x"], at["y"]), at["spin"], at["e"])
        end, by = gradients(model, 130, 1 / 480, coordinate(*place))
        assert end.body_qd.numpy()[place[1:]] == pytest.approx(hit(**at)[number], rel=1e-4)
        found = {"x": by["ball.position"][0, 0], "y": -by["ball.position"][0, 1]}
        found["e"] = by["rod.hull.restitution"][0] + by["ball.hull.restitution"][0]
        for name, value in found.items():
            less, more = (hit(**{**at, name: at[name] + d})[number] for d in (-1e-6, 1e-6))
            assert value == pytest.approx((more - less) / 2e-6, rel=2e-2, abs=1e-2), (place, name)


def bob(angle: float, speed: float, e: float) -> sim.Model:
    """On a rod of 1 m about the origin; the wall is at 60 degrees to its way as it hits, where it hangs."""
    builder, tilt = sim.ModelBuilder(gravity=(0, 0, 0)), 0.5
    pivot = builder.add_particle([0, 0, 0], [0, 0, 0], 0.0)
    place, way = [np.sin(angle), -np.cos(angle), 0], speed * np.array([np.cos(angle), np.sin(angle), 0])
    builder.add_constraints("distance", [[pivot, builder.add_particle(place, way, 1.0)]], 0.0, label="rod")
    wall = {"point": [0, -1, 0], "normal": [-np.cos(tilt), -np.sin(tilt), 0], "thickness": 0.0}
    builder.add_constraints("contact_plane", [[1]], 0.0, label="wall", friction=0.0, restitution=e, **wall)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_a_bob_on_a_rod_meets_a_wall_aslant(e: float) -> None:
    """It comes back along its circle with e of its speed, whatever the angle of the wall."""
    model = bob(-0.3, 1.0, e)
    end = sim.rollout(sim.SolverXPBD(model), model.state(), 240, 1 / 480).final
    x, v = end.particle_q.numpy()[1], end.particle_qd.numpy()[1]
    assert np.cross(x, v)[2] == pytest.approx(-e, abs=3e-3)
    assert np.linalg.norm(x) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("angle", [-0.3, -0.3021, -0.3033])
def test_the_derivatives_do_not_depend_on_the_phase_of_the_step(angle: float) -> None:
    """Where it is half a second after it began, by restitution and speed, and from one angle to the next."""

    def exact(angle: float, speed: float = 1.0, e: float = 0.5) -> float:
        return float(np.sin(-e * speed * (0.5 + angle / speed)))

    def place(angle: float) -> float:
        model = bob(angle, 1.0, 0.5)
        return float(sim.rollout(sim.SolverXPBD(model), model.state(), 60, 1 / 120).final.particle_q.numpy()[1, 0])

    _, by = gradients(bob(angle, 1.0, 0.5), 60, 1 / 120, coordinate("particle_q", 1, 0))
    d = 1e-6
    by_speed = by["particles.velocity"][1, :2] @ [np.cos(angle), np.sin(angle)]
    assert by_speed == pytest.approx((exact(angle, 1 + d) - exact(angle, 1 - d)) / (2 * d), rel=0.03)
    by_e = (exact(angle, e=0.5 + d) - exact(angle, e=0.5 - d)) / (2 * d)
    assert by["wall.restitution"][0] == pytest.approx(by_e, rel=0.03)
    by_angle = (exact(angle + d) - exact(angle - d)) / (2 * d)
    assert (place(angle + d) - place(angle - d)) / (2 * d) == pytest.approx(by_angle, rel=0.03)


def test_balls_fall_on_a_chain_and_keep_its_energy() -> None:
    """At e = 1, without friction: three hinged bars, and two balls that spin; a fifth of it was lost."""
    builder, cfg = sim.ModelBuilder(gravity=(0, 0, 0)), {"mu": 0.0, "restitution": 1.0}
    for i in range(3):
        bar = builder.add_body(sim.transformd((0.4 * i, 0.0, 0.0), IDENTITY), label=f"bar{i}")
        builder.add_shape_box(bar, None, 0.18, 0.04, 0.05, cfg=Config(mass=1.0, **cfg))
        if i:
            ends = [sim.transformd((x, 0.0, 0.0), IDENTITY) for x in (0.2, -0.2)]
            builder.add_joint_revolute(bar - 1, bar, *ends, axis=(0, 0, 1), label=f"hinge{i}")
    for x, y in ((0.3, 0.4), (0.7, 0.7)):
        ball = builder.add_body(sim.transformd((x, y, 0.0), IDENTITY), velocity=(0.2, -3, 0), spin=(0, 0, 9))
        builder.add_shape_sphere(ball, None, 0.08, cfg=Config(mass=0.7, **cfg))
    model = builder.finalize(dtype=sim.float64)
    state = model.state()

    def totals(state: sim.State) -> tuple[np.ndarray, float]:
        """Momentum and kinetic energy; all turns about z."""
        qd, mass, inertia = state.body_qd.numpy(), 1 / model.body_inv_mass.numpy(), model.body_inertia.numpy()[:, 2, 2]
        return mass @ qd[:, :3], 0.5 * float(mass @ (qd[:, :3] ** 2).sum(1) + inertia @ qd[:, 5] ** 2)

    (p, energy), end = totals(state), sim.rollout(sim.SolverXPBD(model), state, 200, 1 / 480).final
    p_end, energy_end = totals(end)
    assert p_end == pytest.approx(p, abs=1e-12)
    assert energy_end == pytest.approx(energy, rel=3e-3)


LINK, LINKS = 0.4, 3


def chain_and_ball(mass: float, e: float, phase: float, dtype: object = sim.float64) -> sim.Model:
    """Three hinged bars along x, hung up at the origin, and a ball that falls on the last."""
    builder, cfg = sim.ModelBuilder(gravity=(0, 0, 0)), {"mu": 0.0, "restitution": e}
    for i in range(LINKS):
        bar = builder.add_body(sim.transformd((LINK * (i + 0.5), 0.0, 0.0), IDENTITY), label=f"bar{i}")
        builder.add_shape_box(bar, None, 0.45 * LINK, 0.02, 0.05, cfg=Config(mass=1.0, **cfg), label="hull")
        ends = [sim.transformd((LINK / 2 if i else 0.0, 0, 0), IDENTITY), sim.transformd((-LINK / 2, 0, 0), IDENTITY)]
        builder.add_joint_revolute(bar - 1 if i else -1, bar, *ends, axis=(0, 0, 1), label=f"hinge{i}")
    place = sim.transformd((LINK * 2.7, 0.2 + phase * 2.0 / 480, 0.0), IDENTITY)
    ball = builder.add_body(place, velocity=(0, -2.0, 0), label="ball")
    builder.add_shape_sphere(ball, None, 0.05, cfg=Config(mass=mass, **cfg), label="hull")
    return builder.finalize(dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("mass", [1.0, 500.0])
@pytest.mark.parametrize("phase", [0.0, 0.6])
def test_a_ball_hits_a_chain_whatever_it_weighs(mass: float, phase: float) -> None:
    """The spins after it, by the mass matrix of the chain in the angles of its bars: M (w+ - w-) = J p."""
    e, x = 0.5, np.array([LINK, LINK, 0.7 * LINK])
    model = chain_and_ball(mass, e, phase)
    inertia = model.body_inertia.numpy()[0, 2, 2]
    M = np.zeros((LINKS, LINKS))
    for bar in range(LINKS):
        row = np.where(np.arange(LINKS) < bar, LINK, np.where(np.arange(LINKS) == bar, LINK / 2, 0.0))
        M += np.outer(row, row)
    M += inertia * np.eye(LINKS)
    give = x @ np.linalg.solve(M, x)
    pressed = (1 + e) * 2.0 / (give + 1 / mass)
    end, by = gradients(model, 40, 1 / 480, coordinate("body_qd", LINKS, 1))
    at_impact = sim.rollout(sim.SolverXPBD(model), model.state(), 32, 1 / 480).final.body_qd.numpy()
    assert at_impact[:LINKS, 5] == pytest.approx(-np.linalg.solve(M, x) * pressed, rel=1e-2)
    assert end.body_qd.numpy()[LINKS, 1] == pytest.approx(pressed / mass - 2.0, rel=1e-3)
    more = by["bar2.hull.restitution"][0] + by["ball.hull.restitution"][0]
    assert more == pytest.approx(2.0 / (give + 1 / mass) / mass, rel=1e-2)


@pytest.mark.parametrize("hit_by", [None, 480, 1920])
def test_linkages_keep_their_momentum(hit_by: int | None) -> None:
    """Free ones; the angular one to first order in the step where something hits them (decision 29)."""
    rate, builder = hit_by or 480, sim.ModelBuilder(gravity=(0, 0, 0))
    cfg = {"mu": 0.3, "restitution": 0.5}
    for k, spin in enumerate([(0.3, 0.8, 0.3), (-1.3, 0.9, 0.4)]):
        bar = builder.add_body(sim.transformd((0.5 * k, 0, 0), IDENTITY), velocity=(0.1 * k, 0.3, 0.2), spin=spin)
        builder.add_shape_box(bar, None, 0.2, 0.04, 0.1, cfg=Config(mass=1.0 + 3 * k, **cfg))
    ends = (sim.transformd((side, 0, 0), IDENTITY) for side in (0.25, -0.25))
    builder.add_joint_ball(0, 1, *ends, label="joint")
    if hit_by:
        place = sim.transformd((0.1, 0.3, 0.02), IDENTITY)
        thrown = builder.add_body(place, velocity=(0, -3, 0), spin=(3, 2, 1))
        builder.add_shape_box(thrown, None, 0.08, 0.06, 0.05, cfg=Config(mass=1.0, **cfg))
    model = builder.finalize(dtype=sim.float64)
    begun = end = model.state()
    for _ in range(10):
        end = sim.rollout(sim.SolverXPBD(model), end, rate // 20, 1 / rate).final
        (was, turned), (now, turning) = momenta(begun), momenta(end)
        np.testing.assert_allclose(now, was, rtol=0, atol=1e-12)
        np.testing.assert_allclose(turning, turned, rtol=0, atol=0.1 / rate if hit_by else 1e-12)
    if hit_by:
        assert abs(end.body_qd.numpy()[2, 1] + 3) > 1
