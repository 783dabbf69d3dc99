"""Where a run of rigid bodies breaks down: the message names body, step and constraint."""

import numpy as np
import pytest
from tools.bodies.models import pendulum

import sim


def test_a_turn_of_pi_in_one_step_is_named():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_body((0, 0, 0), mass=1.0, inertia=0.1, label="slow", spin=(0, 0, 1))
    builder.add_body((0, 0, 0), mass=1.0, inertia=0.1, label="wheel", spin=(0, 0, 320))
    model = builder.finalize(dtype=sim.float64)
    with pytest.raises(
        sim.NonFiniteState, match=r"in step 1 of 3 .*at body 1 \('wheel'\), which turns by pi or more .* 320 rad/s"
    ):
        sim.rollout(sim.SolverXPBD(model), model.state(), 3, 0.01)
    sim.rollout(sim.SolverXPBD(model), model.state(), 3, 0.009)


def test_a_joint_that_is_turned_by_more_than_a_right_angle_is_named():
    """The direction of the start pushes the wrong way there: no number, instead of a step in any direction."""
    model = pendulum(spin=(0, 0, 170.0), velocity=(0, 170.0, 0)).finalize(dtype=sim.float64)
    with pytest.raises(
        sim.NonFiniteState,
        match=r"at body 0 \('bob'\), moved by the constraint 'ball@wa' on the world and body 0 \('bob'\) \('hinge'\);"
        r" rigid joints hold in steps that turn them by less than 90 degrees",
    ):
        sim.rollout(sim.SolverXPBD(model), model.state(), 2, 0.01)


def test_a_force_that_is_no_number_is_found_at_its_body():
    model = pendulum().finalize(dtype=sim.float64)
    state = model.state()
    state.body_f.assign(np.array([[np.inf, 0, 0, 0, 0, 0]]))
    with pytest.raises(sim.NonFiniteState, match=r"at body 0 \('bob'\), as predicted"):
        sim.rollout(sim.SolverXPBD(model), state, 2, 0.01)


def test_directions_of_the_start_are_refused_where_there_are_none():
    builder = sim.ModelBuilder()
    builder.add_particles([[0, 0, 0]], mass=1.0)
    model = builder.finalize()
    for other in ({"order": "jacobi"}, {"integrator": "bdf2"}):
        with pytest.raises(sim.SolverError, match="direction='start' with (order='jacobi'|integrator='bdf2')"):
            sim.SolverXPBD(model, direction="start", **other)


def test_a_prescribed_turn_of_pi_in_one_step_is_named():
    builder = sim.ModelBuilder()
    builder.add_body(mass=0.0, label="hand", motion=[{"turn": (0, 0, 400.0), "end": 1.0, "ease": "linear"}])
    builder.add_body(mass=1.0, inertia=0.1)
    model = builder.finalize()
    with pytest.raises(
        sim.NonFiniteState, match=r"in step 1 .*at body 0 \('hand'\), which turns by pi .* as its motion"
    ):
        sim.rollout(sim.SolverXPBD(model), model.state(), 2, 0.01)


@pytest.mark.parametrize("given", [(0.1, -0.1, 0.1, 0, 0, 0), (0.1, 0.1, 0.1, 0.2, 0, 0), (-0.1, -0.1, -0.1, 0, 0, 0)])
def test_an_inertia_that_became_none_is_named(given):
    builder = sim.ModelBuilder()
    builder.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1, 0, 0, 0), label="box")
    model = builder.finalize(dtype=sim.float64)
    model["box.inertia"].assign(np.array([given]))
    with pytest.raises(sim.NonFiniteState, match=r"at body 0 \('box'\), whose inertia is not positive definite"):
        sim.rollout(sim.SolverXPBD(model), model.state(), 2, 0.01)
