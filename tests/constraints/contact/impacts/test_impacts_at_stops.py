"""Impacts on what is at the limit of a joint: the limit pushes back at once, and lets go of what comes away from it."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
IDENTITY = (0.0, 0.0, 0.0, 1.0)
SPEED, BALL, PLATE = 2.0, 0.5, 1.0


def ball_from_the_left(
    builder: sim.ModelBuilder, y: float, phase: float, cfg: dict[str, float], mass: float = BALL
) -> int:
    place = sim.transformd((-0.5 + phase * SPEED / 120, y, 0.0), IDENTITY)
    ball = builder.add_body(place, velocity=(SPEED, 0, 0), label="ball")
    builder.add_shape_sphere(ball, None, 0.1, cfg=Config(mass=mass, **cfg), label="hull")
    return ball


def door(e: float, phase: float = 0.0, at: float = 0.7, mass: float = BALL) -> sim.Model:
    """It hangs on its hinge at the lower limit; the ball comes from the side to which it cannot open."""
    builder, cfg = sim.ModelBuilder(gravity=(0, 0, 0)), {"mu": 0.0, "restitution": e}
    leaf = builder.add_body(sim.transformd((0, 0.5, 0), IDENTITY), label="door")
    builder.add_shape_box(leaf, None, 0.05, 0.5, 0.3, cfg=Config(mass=PLATE, **cfg), label="hull")
    hinge = {"child_xform": sim.transformd((0, -0.5, 0), IDENTITY), "axis": (0, 0, 1), "label": "hinge"}
    builder.add_joint_revolute(-1, leaf, limit_lower=0.0, limit_upper=1.0, **hinge)
    ball_from_the_left(builder, at, phase, cfg, mass)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def plate(e: float, phase: float, upper: float) -> sim.Model:
    """On a slider, as far from its upper limit as that is above 0."""
    builder, cfg = sim.ModelBuilder(gravity=(0, 0, 0)), {"mu": 0.0, "restitution": e}
    slide = builder.add_body(sim.transformd((0, 0, 0), IDENTITY), label="plate")
    builder.add_shape_box(slide, None, 0.1, 0.3, 0.3, cfg=Config(mass=PLATE, **cfg), label="hull")
    builder.add_joint_prismatic(-1, slide, axis=(1, 0, 0), limit_lower=-1.0, limit_upper=upper, label="slider")
    ball_from_the_left(builder, 0.0, phase, cfg)
    return builder.finalize(dtype=sim.float64, requires_grad=True)


def end_of(model: sim.Model, steps: int = 60) -> sim.State:
    return sim.rollout(sim.SolverXPBD(model), model.state(), steps, 1 / 120).final


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("phase", [0.0, 0.4])
def test_a_door_at_its_stop_is_a_wall(e: float, phase: float) -> None:
    """Without the limit in the impact the ball came back with a half of its speed at e = 1, and with a quarter of it
    at e = 0."""
    qd = end_of(door(e, phase)).body_qd.numpy()
    assert qd[1, 0] == pytest.approx(-e * SPEED, abs=3e-3)
    assert qd[0, 5] == pytest.approx(0.0, abs=3e-3)


def test_nothing_is_read_of_what_is_not_kept() -> None:
    """Where nothing has two contacts, what impacts part is not kept; extrapolation read it, beyond the end."""
    model = door(0.4)
    unchecked = end_of(model).body_qd.numpy()
    sim.set_check_bounds(True)
    try:
        assert (end_of(model).body_qd.numpy() == unchecked).all()
    finally:
        sim.set_check_bounds(False)


def test_a_door_opens_where_its_limit_lets_it() -> None:
    """The ball comes from the other side: one impulse across the door, and one at its hinge."""
    model = door(0.6)
    state = model.state()
    q, qd = state.body_q.numpy(), state.body_qd.numpy()
    q[1, 0], qd[1, 0] = 0.5, -SPEED
    state.body_q.assign(q), state.body_qd.assign(qd)
    end = sim.rollout(sim.SolverXPBD(model), state, 40, 1 / 120).final.body_qd.numpy()
    inertia = 1 / model.body_inv_inertia.numpy()[0, 2, 2] + PLATE * 0.5**2
    pressed = (1 + 0.6) * SPEED / (0.7**2 / inertia + 1 / BALL)
    assert end[0, 5] == pytest.approx(0.7 * pressed / inertia, rel=1e-3)
    assert end[1, 0] == pytest.approx(pressed / BALL - SPEED, rel=1e-3)


def test_a_door_that_presses_on_its_stop_is_let_go() -> None:
    """It leans on the stop as a ball, 500 times as heavy, opens it: a limit never pulls."""
    mass = 500.0
    model = door(0.6, mass=mass)
    state = model.state()
    q, qd = state.body_q.numpy(), state.body_qd.numpy()
    q[1, 0], qd[1, 0] = 0.5, -SPEED
    state.body_q.assign(q), state.body_qd.assign(qd)
    force = model.state().body_f.numpy()
    force[0, 5] = -0.05  # [N m] towards the stop, little beside the impact
    state.body_f.assign(force)
    solver, steps = sim.SolverXPBD(model), 0
    while state.body_qd.numpy()[1, 0] < -SPEED + 1e-9 and steps < 60:
        state = sim.rollout(solver, state, 1, 1 / 120).final
        state.body_f.assign(force)
        steps += 1
    end = state.body_qd.numpy()
    inertia = 1 / model.body_inv_inertia.numpy()[0, 2, 2] + PLATE * 0.5**2
    pressed = (1 + 0.6) * SPEED / (0.7**2 / inertia + 1 / mass)
    assert end[0, 5] == pytest.approx(0.7 * pressed / inertia, rel=5e-3)
    assert end[1, 0] == pytest.approx(pressed / mass - SPEED, rel=5e-3)


@pytest.mark.parametrize("phase", [0.0, 0.4])
def test_the_derivatives_of_a_rebound_at_a_stop(phase: float) -> None:
    """v+ = -e v: by e, the sum of both surfaces' halves, and by v; where the ball is by where it came from, too.

    What sweeps leave of an impact depends on when in the step it was: that is a hundredth or two."""
    e = 0.5
    _, by = gradients(door(e, phase), 60, 1 / 120, coordinate("body_qd", 1, 0))
    assert by["door.hull.restitution"][0] + by["ball.hull.restitution"][0] == pytest.approx(-SPEED, rel=3e-2)
    assert by["ball.velocity"][0, 0] == pytest.approx(-e, rel=3e-2)
    _, by = gradients(door(e, phase), 60, 1 / 120, coordinate("body_q", 1, 0))
    assert by["ball.position"][0, 0] == pytest.approx(-e, rel=3e-2)


@pytest.mark.parametrize("e", [0.0, 0.7])
def test_a_plate_reaches_its_stop_and_stays_there(e: float) -> None:
    """The ball pushes it; at the limit, which does not give back, it rests, and the ball goes on as it was pushed."""
    model = plate(e, 0.3, 0.25)
    end = end_of(model, 100)
    pressed = (1 + e) * SPEED / (1 / PLATE + 1 / BALL)
    q, qd = end.body_q.numpy(), end.body_qd.numpy()
    assert q[0, 0] == pytest.approx(0.25, abs=1e-4)
    assert qd[0, 0] == pytest.approx(0.0, abs=1e-6)
    expected = SPEED - pressed / BALL
    if e == 0.0:  # they come together, and stop together
        expected = 0.0
    assert qd[1, 0] == pytest.approx(expected, abs=2e-3)


def test_a_ball_hits_a_weight_on_a_taut_rope() -> None:
    """The rope is a limit of a distance: along it the weight cannot move, across it it can."""
    builder, cfg, tilt = sim.ModelBuilder(gravity=(0, 0, 0)), {"mu": 0.0, "restitution": 0.8}, 0.6
    weight = builder.add_body(sim.transformd((0, 0, 0), IDENTITY), label="weight")
    builder.add_shape_sphere(weight, None, 0.1, cfg=Config(mass=PLATE, **cfg), label="hull")
    nail = sim.transformd((-np.cos(tilt), -np.sin(tilt), 0.0), IDENTITY)
    builder.add_joint_distance(-1, weight, nail, None, min_distance=-1.0, max_distance=1.0, label="rope")
    ball_from_the_left(builder, 0.0, 0.2, cfg)
    model = builder.finalize(dtype=sim.float64)
    end = end_of(model, 48).body_qd.numpy()
    pressed = (1 + 0.8) * SPEED / (np.sin(tilt) ** 2 / PLATE + 1 / BALL)
    assert end[1, 0] == pytest.approx(SPEED - pressed / BALL, rel=2e-3)


def on_a_cart(speed: float) -> np.ndarray:
    """A door of two leaves on a cart, the first of which has come to its stop: velocities against the cart."""
    builder, going = sim.ModelBuilder(gravity=(0, 0, 0)), np.array([0.0, 0.0, speed])
    drive = [{"move": tuple(going), "end": 1.0, "ease": "linear"}]
    parent = builder.add_body(held=True, motion=drive, label="cart")
    for k in range(2):
        spin, middle = 0.02 * np.array([0, 0, 1.5 + k]), np.array([0.05, 0.5 + k, 0])
        velocity = np.array([(-0.015, -0.055)[k], 0, 0]) + going
        leaf = builder.add_body([*middle, 0, 0, 0, 1], label=f"leaf{k}", velocity=tuple(velocity), spin=tuple(spin))
        builder.add_shape_box(leaf, None, 0.05, 0.5, 0.3, cfg=Config(mass=PLATE, mu=0.2, restitution=0.3), label="hull")
        frames = builder.joint_frames(parent, leaf, [0, float(k), 0])
        stop = {"limit_lower": -1.0, "limit_upper": 4e-4 + 0.9 * k}
        builder.add_joint_revolute(parent, leaf, *frames, axis=(0, 0, 1), label=f"hinge{k}", **stop)
        parent = leaf
    rider = builder.add_body([2, 0, 0, 0, 0, 0, 1], label="rider", velocity=tuple(going))
    builder.add_shape_sphere(rider, None, 0.1, cfg=Config(mass=BALL, mu=0.2, restitution=0.3), label="hull")
    model = builder.finalize(dtype=sim.float64)
    final = sim.rollout(sim.SolverXPBD(model), model.state(), 6, 1 / 120).final
    rates = final.body_qd.numpy()[1:3].copy()
    rates[:, :3] -= going
    return rates


def test_stops_are_reached_alike_on_what_moves() -> None:
    """What counts as an impact went by a thousandth of speeds against the world: on a cart of 30 m/s by 3 cm/s."""
    still = on_a_cart(0.0)
    assert np.abs(still[0]).max() < 1e-3 < np.abs(still[1]).max()
    np.testing.assert_allclose(on_a_cart(30.0), still, atol=1e-9)
