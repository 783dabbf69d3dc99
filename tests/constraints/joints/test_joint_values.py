"""Compliances of joints that lengths and angles have each of their own."""

from __future__ import annotations

import numpy as np
import pytest

import sim

SPIN = (0.05, 0.05, 0.05)


def test_lengths_and_angles_give_way_each_by_their_compliance():
    """A weld under a force and a torque, in long steps to rest: displaced by alpha f, turned by beta tau."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body(mass=1.0, inertia=(5.0, 5.0, 5.0), label="box")
    builder.add_joint_fixed(-1, 0, label="weld", linear_compliance=1e-3, angular_compliance=0.05)
    model = builder.finalize(dtype=sim.float64)
    state = model.state()
    state.body_f.assign(np.array([[20.0, 0, 0, 0, 0, 2.0]]))
    pose = sim.rollout(sim.SolverXPBD(model), state, 40, 1.0).final.body_q.numpy()[0]
    assert pose[0] == pytest.approx(0.02, rel=1e-9)
    assert 2 * np.arctan2(pose[5], pose[6]) == pytest.approx(0.1, rel=1e-9)


def test_compliances_of_rows_have_gradients():
    builder = sim.ModelBuilder()
    builder.add_body(mass=1.0, inertia=SPIN)
    builder.add_joint_prismatic(-1, 0, label="rail", linear_compliance=1e-3, angular_compliance=0.05)
    model = builder.replicate(2).finalize(dtype=sim.float64, requires_grad=True)
    model["rail.linear_compliance"].assign(np.array([1e-3, 2e-3]))
    model["rail.angular_compliance"].assign(np.array([0.05, 0.05]))
    with sim.Tape() as tape:
        model.refresh()
    alpha = model.constraint_sets["prismatic@wa"].compliance
    assert alpha.numpy().tolist() == [[x, x, 0.05, 0.05, 0.05] for x in (1e-3, 2e-3)]
    tape.backward(grads={alpha: sim.array(np.arange(10.0).reshape(2, 5), dtype=alpha.dtype)})
    assert model["rail.linear_compliance"].grad.numpy().tolist() == [1.0, 11.0]
    assert model["rail.angular_compliance"].grad.numpy().sum() == 9.0 + 24.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"compliance": 1e-3, "linear_compliance": 1e-3}, "compliance = 0.001 of all rows, and linear_compliance"),
        ({"angular_compliance": -1.0}, "angular_compliance = -1 is not zero or positive"),
        ({"angular_compliance": 1e-3, "damping": 0.1}, "rows without compliance"),
    ],
)
def test_compliances_that_are_none(given, said):
    builder = sim.ModelBuilder()
    body = builder.add_body(mass=1.0, inertia=SPIN)
    with pytest.raises(sim.ModelError, match=said):
        builder.add_joint_fixed(-1, body, **given)


def test_joint_errors_are_those_of_the_rigid_rows():
    builder = sim.ModelBuilder()
    builder.add_body(mass=1.0, inertia=SPIN)
    builder.add_joint_fixed(-1, 0, label="weld", angular_compliance=0.05)
    model = builder.finalize(dtype=sim.float64)
    state = model.state()
    state.body_q.assign(np.array([[0.001, 0, 0, 0, 0, np.sin(0.2), np.cos(0.2)]]))
    found = sim.joint_errors(sim.SolverXPBD(model), state)
    assert (found.max_distance, found.max_angle) == pytest.approx((0.001, 0.0))


def test_rows_that_give_way_are_not_redundant():
    builder = sim.ModelBuilder()
    a, b = builder.add_body(mass=1.0, inertia=SPIN), builder.add_body((1, 0, 0), mass=1.0, inertia=SPIN)
    builder.add_joint_ball(a, b, *builder.joint_frames(a, b, (0.5, 0, 0)), label="ball")
    weld = builder.joint_frames(a, b, (0.5, 0, 0))
    with pytest.raises(sim.ModelError, match=r"3 of their 9 rows"):
        builder.add_joint_fixed(a, b, *weld, label="weld")
    builder.add_joint_fixed(a, b, *weld, linear_compliance=1e-4, label="weld")
