"""Light links that are pulled taut: how fast they swing, and the advice on steps that are too long for that."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import sim
from sim.solvers.mechanisms.growth import sweep_growth
from sim.solvers.mechanisms.swing import fastest_swing

G = 9.81


def hanging(links, ball=0.0):
    """Slender links of 1 m and 1 kg together that hang at rest on ball joints, perhaps a ball at their end."""
    builder, length = sim.ModelBuilder(gravity=(0, -G, 0)), 1.0 / links
    across = (length / links) * length / 12
    names = [
        builder.add_body((0, -(k + 0.5) * length, 0), 1.0 / links, (across, 1e-2 * across, across), label=f"link{k}")
        for k in range(links)
    ]
    if ball:
        names.append(builder.add_body((0, -1, 0), ball, (1.0, 1.0, 1.0), label="ball"))
    for k, (a, b) in enumerate(zip([-1, *names], names, strict=False)):
        builder.add_joint_ball(a, b, *builder.joint_frames(a, b, (0, -k * length, 0)), label=f"joint{k}")
    return builder.finalize(dtype=sim.float64)


def test_hanging_rods_swing_at_their_frequencies():
    """R3: the faster one of two rods of 1 kg and 1 m, 7.188671 rad/s; of one, sqrt(3 g / (2 l))."""
    for links, omega in ((2, 7.188671 * np.sqrt(2.0)), (1, np.sqrt(1.5 * G))):
        model, dt = hanging(links), 1 / 600
        solver = sim.SolverXPBD(model, direct=list(model.joints))
        found = fastest_swing(solver, sim.rollout(solver, model.state(), 2, dt).final, dt)
        assert found.angle == pytest.approx(omega * dt, rel=1e-6)
        assert found.advice(dt) == ""


def test_steps_that_are_too_long_for_it_are_told_of():
    model = hanging(4, 100.0)
    solver = sim.SolverXPBD(model, direct=list(model.joints))
    with pytest.warns(
        sim.NumericsWarning, match=r"'joint1' pulls 'link1' with 988 N.* swings by 5.9 rad.* 12 times as many"
    ):
        sim.rollout(solver, model.state(), 2, 1 / 60)
    ended = sim.SolverXPBD(model, direct=list(model.joints), direction="end")
    assert fastest_swing(ended, sim.rollout(ended, model.state(), 2, 1 / 60).final, 1 / 60) is None


def test_a_run_that_breaks_down_says_from_where_on():
    model = hanging(4, 100.0)
    state = model.state()
    state.body_qd.assign(np.eye(5, 6) * 3.0)
    with pytest.raises(
        sim.NonFiniteState, match=r"in step \d+ .*; from step \d on 'joint\d' pulls 'link\d' .* substeps"
    ):
        sim.rollout(sim.SolverXPBD(model, direct=list(model.joints)), state, 200, 1 / 60)


# ------------------------------------------------------------------------------------------ joints that meet
def star(arms, hub, dtype=sim.float64):
    """Arms of 1 kg around a body, on ball joints, that fly freely."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    middle = builder.add_body(mass=hub, inertia=(0.02 * hub,) * 3, label="hub", spin=(0.3, 0.5, 1.0))
    for k in range(arms):
        along = np.array([np.cos(2 * np.pi * k / arms), np.sin(2 * np.pi * k / arms), 0.3])
        arm = builder.add_body(tuple(0.4 * along), 1.0, (0.01, 0.02, 0.02), spin=(0.3 * k, 0.1, 0.2))
        builder.add_joint_ball(middle, arm, *builder.joint_frames(middle, arm, 0.2 * along))
    return builder.finalize(dtype=dtype)


@pytest.mark.parametrize(("arms", "hub", "iterations", "grows"), [
    (3, 0.1, 1, False), (4, 0.1, 1, True), (4, 0.1, 2, False),
    (6, 0.3, 1, True), (6, 0.3, 3, False), (6, 0.03, 3, True),
])  # fmt: skip
def test_sweeps_over_joints_that_meet_grow_as_is_said(arms, hub, iterations, grows):
    model = star(arms, hub)
    growth, where = sweep_growth(sim.SolverXPBD(model, iterations=iterations))
    assert (growth > 0.0, where) == ((True, "hub") if grows else (False, ""))
    assert sweep_growth(sim.SolverXPBD(model, direct=list(model.joints), iterations=iterations)) == (0.0, "")


def test_joints_whose_sweeps_gain_energy_are_told_of_before_a_run():
    model = star(6, 0.3)
    with pytest.warns(sim.NumericsWarning, match="meet at 'hub' may gain 11 % in every step .* take 2, or"):
        sim.rollout(sim.SolverXPBD(model), model.state(), 1, 1 / 240)


# ------------------------------------------------------------------------------------------ links that whirl
def whirling(spin, floor=True, friction=0.0, gradient=False):
    """Two bars on a hinge that fall turning about it, above a floor.  friction [N m] of the hinge."""
    builder = sim.ModelBuilder(gravity=(0, -G, 0))
    bars = [
        builder.add_body((0.2 * k, 1, 0), 1.0, (0.01, 0.01, 0.01), label=f"bar{k}", spin=(0, 0, spin * (2 * k - 1)))
        for k in range(2)
    ]
    frames = builder.joint_frames(*bars, (0.1, 1, 0))
    builder.add_joint_revolute(*bars, *frames, (0, 0, 1), label="hinge", friction=friction)
    if floor:
        cfg = sim.ModelBuilder.ShapeConfig(density=0.0, restitution=0.9)
        for bar in bars:
            builder.add_shape_sphere(bar, None, 0.05, cfg=cfg)
        builder.add_ground_plane(0.0)
    return builder.finalize(dtype=sim.float64, requires_grad=gradient)


def test_links_that_turn_far_in_a_step_and_may_be_hit_are_told_of():
    model, free = whirling(120.0), whirling(120.0, floor=False)
    said = r"'bar\d' turns by 0.2\d rad in a step of 0.00208 s.* take 2 times as many substeps"
    with pytest.warns(sim.NumericsWarning, match=said):
        sim.rollout(sim.SolverXPBD(model), model.state(), 2, 1 / 480)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.rollout(sim.SolverXPBD(model), model.state(), 2, 1 / 960)  # short enough
        sim.rollout(sim.SolverXPBD(free), free.state(), 2, 1 / 480)  # nothing hits it


@pytest.mark.parametrize("strategy", [None, sim.StoreAll(), sim.Checkpointed(every=4)])
def test_of_all_steps_the_one_that_turned_furthest_is_told_of(strategy):
    """The hinge has stopped them long before the end."""
    model = whirling(120.0, friction=40.0, gradient=strategy is not None)
    said = r"'bar\d' turns by 0.2\d rad in a step of 0.00208 s"
    with pytest.warns(sim.NumericsWarning, match=said), sim.Tape() if strategy is not None else nullcontext():
        end = sim.rollout(sim.SolverXPBD(model), model.state(), 40, 1 / 480, strategy=strategy).final
    assert np.abs(end.body_qd.numpy()[:, 3:]).max() < 1.0
