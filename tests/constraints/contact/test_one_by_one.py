"""Few contacts are taken one by one, in one launch, where no gradient is asked for: as colour by colour, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import sim

Config = sim.ModelBuilder.ShapeConfig
STEPS, RATE = 60, 480


def heap(gradient: bool, bounces: float) -> sim.Model:
    """Boxes that fall onto each other and the floor, aslant."""
    builder, random = sim.ModelBuilder(gravity=(0, -9.81, 0)), np.random.default_rng(5)
    config = Config(density=500.0, mu=0.4, restitution=bounces)
    builder.add_ground_plane(0.0, cfg=config)
    for k in range(3):
        aslant = sim.quat_from_axis_angle(sim.vec3(1.0, 0.2, 0.4), float(random.uniform(0.0, 0.3)))
        place = [0.02 * random.normal(), 0.16 + 0.11 * k, 0.02 * random.normal()]
        body = builder.add_body(sim.transform(place, aslant), label=f"b{k}", velocity=(0.0, -1.0, 0.1))
        builder.add_shape_box(body, None, 0.05, 0.04, 0.06, cfg=config)
    return builder.finalize(dtype=sim.float64, requires_grad=gradient)


@pytest.mark.parametrize("bounces", [0.0, 0.5])
def test_one_by_one_is_colour_by_colour_to_the_bit(bounces: float) -> None:
    ends = []
    for gradient in (False, True):
        model = heap(gradient, bounces)
        ends.append(sim.rollout(sim.SolverXPBD(model, iterations=3), model.state(), STEPS, 1 / RATE).final)
    one, other = ends
    assert np.any(one.body_q.numpy()[:, 1] < 0.1)
    assert np.array_equal(one.body_q.numpy(), other.body_q.numpy())
    assert np.array_equal(one.body_qd.numpy(), other.body_qd.numpy())


def test_a_set_takes_one_launch_for_a_sweep() -> None:
    model = heap(False, 0.0)
    solver, state, after = sim.SolverXPBD(model, iterations=2), model.state(), model.state()
    with sim.profile() as p:
        solver.step(state, after, None, None, 1 / RATE)
    swept = [row for row in p.rows() if row["kernel"].startswith("project_contact")]
    assert swept
    assert all(row["calls"] == solver.iterations for row in swept)
