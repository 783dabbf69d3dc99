"""Joints of a small compliance answer impacts as rigid ones do: there is no jump from none to next to none."""

from __future__ import annotations

import pytest
from tools.physics.contact_worlds import G, coordinate, gradients

import sim

Config = sim.ModelBuilder.ShapeConfig
STEPS, RATE = 60, 240
COMPLIANCES = ("root.linear_compliance", "root.limit_compliance")


def struck_arm(**compliances: float) -> sim.Model:
    """A club hangs on a hinge with stops, near the floor; a ball flies against it."""
    builder, cfg = sim.ModelBuilder(gravity=(0, -G, 0)), Config(density=500.0, mu=0.3, restitution=0.5)
    builder.add_shape_plane((0, 1, 0, 0), cfg=cfg)
    arm = builder.add_body([0, 0.5, 0, 0, 0, 0, 1], label="arm", spin=(0, 0, -1.0))
    builder.add_shape_sphere(arm, (0, -0.2, 0), 0.05, cfg=cfg)
    frames = builder.joint_frames(-1, arm, (0, 0.75, 0))
    hinge = {"axis": (0, 0, 1), "label": "root", "linear_compliance": 0.0, "angular_compliance": 0.0}
    builder.add_joint_revolute(-1, arm, *frames, limit_lower=-0.05, limit_upper=0.1, **hinge)
    ball = builder.add_body([-0.5, 0.3, 0, 0, 0, 0, 1], label="ball", velocity=(3.0, 1.0, 0))
    builder.add_shape_sphere(ball, None, 0.06, cfg=cfg)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    for name, value in compliances.items():
        model[name].fill_(value)
    return model


def height(model: sim.Model, solver: sim.SolverXPBD | None = None) -> float:
    solver = solver or sim.SolverXPBD(model, iterations=4)
    return float(sim.rollout(solver, model.state(), STEPS, 1 / RATE).final.body_q.numpy()[1, 1])


@pytest.mark.parametrize("name", COMPLIANCES)
@pytest.mark.parametrize("at", [0.0, 1e-6])
def test_derivatives_by_a_compliance(name: str, at: float) -> None:
    """From 0 on it was moved by centimetres, as a joint that gives way by a micrometre took no part in the impact."""
    model = struck_arm(**{name: at})
    _, by = gradients(model, STEPS, 1 / RATE, coordinate("body_q", 1, 1), iterations=4)
    slope = by[name][0]
    ends = [height(struck_arm(**{name: at + d})) for d in (0.0, 1e-10)]
    assert abs(slope) > 100.0  # [1/N]: it does change
    assert (ends[1] - ends[0]) / 1e-10 == pytest.approx(slope, rel=1e-4)


def test_a_solver_that_has_seen_another_compliance_steps_alike() -> None:
    """What took part in impacts was chosen as a solver was made, by what was rigid then."""
    model = struck_arm()
    solver = sim.SolverXPBD(model, iterations=4)
    height(model, solver)
    for name in COMPLIANCES:
        model[name].fill_(1e-5)
    assert height(model, solver) == height(struck_arm(**dict.fromkeys(COMPLIANCES, 1e-5)))
