"""Attachments that hold points beside where they are at rest: where these begin, what is measured, gradients."""

import numpy as np
import pytest
from tools.physics.solids import DENSITY, YOUNG
from tools.physics.steps import central, take_steps

import sim

TURN, OFFSET = np.array([0.02, -0.3, 0.1]), np.array([0.01, 0.002, -0.003])


def rotation(v):
    """Of a rotation vector, by Rodrigues' formula."""
    angle = np.linalg.norm(v)
    n = v / angle
    k = np.array([[0, -n[2], n[1]], [n[2], 0, -n[0]], [-n[1], n[0], 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def bar(requires_grad=False, worlds=1, **held):
    builder = sim.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    group = builder.add_soft_grid(
        (0.1, 0.2, 0.3), dim_x=1, dim_y=1, dim_z=3, cell_x=0.02, cell_y=0.02, cell_z=0.02, density=DENSITY,
        material={"stvk": {"young": YOUNG, "poisson": 0.3, "damping": 2e-3}},
    )  # fmt: skip
    clamp = group.choose({"z": [None, 0.3001]})
    builder.add_attachment(clamp, label="clamp", **held)
    return builder.replicate(worlds).finalize(dtype=sim.float64, requires_grad=requires_grad), group, clamp


def held_at(group, clamp):
    middle = group.positions[clamp].mean(axis=0)
    return middle + (group.positions[clamp] - middle) @ rotation(TURN).T + OFFSET


@pytest.mark.parametrize("compliance", [0.0, 1e-4])
def test_where_points_begin_and_stay(compliance):
    """Given at once or written later, it is the same; the rest shape is that before, so that all of it follows."""
    model, group, clamp = bar(offset=OFFSET, turn=TURN, compliance=compliance)
    later, _, _ = bar(offset=(0, 0, 0), compliance=compliance)
    later["clamp.offset"].assign(OFFSET[None])
    later["clamp.turn"].assign(TURN[None])
    want = group.positions.copy()
    want[clamp] = held_at(group, clamp)
    for each in (model, later):
        np.testing.assert_allclose(each.state().particle_q.numpy(), want, atol=1e-15)
    assert "clamp.offset" not in bar()[0].materials
    after = take_steps(sim.SolverXPBD(model), model.state(), 1500, 5e-4)
    middle = group.positions[clamp].mean(axis=0)
    rigid = middle + (group.positions - middle) @ rotation(TURN).T + OFFSET
    np.testing.assert_allclose(after.particle_q.numpy(), rigid, atol=2e-4)


def test_every_world_is_held_in_its_own_way():
    model, group, clamp = bar(worlds=2, offset=(0, 0, 0))
    model["clamp.offset"].assign(np.stack([np.zeros(3), OFFSET]))
    model["clamp.turn"].assign(np.stack([np.zeros(3), TURN]))
    q = model.state().particle_q.numpy().reshape(2, -1, 3)
    np.testing.assert_allclose(q[0], group.positions, atol=1e-15)
    np.testing.assert_allclose(q[1, clamp], held_at(group, clamp), atol=1e-15)


@pytest.mark.parametrize("value", ["offset", "turn"])
def test_gradients(value):
    model, group, _ = bar(requires_grad=True, offset=(0, 0, 0))
    solver, path = sim.SolverXPBD(model, start="elastic"), model[f"clamp.{value}"]
    weights = np.random.default_rng(4).normal(size=(1, model.particle_count, 3))

    def end():
        return sim.rollout(solver, model.state(), 20, 5e-4, frame_every=20).particle_q

    def loss(p):
        path.assign(p[None])
        return float((end().numpy() * weights).sum())

    for at in (np.zeros(3), 0.1 * TURN):  # no turn at all is no special case
        path.assign(at[None])
        path.grad.zero_()
        with sim.Tape() as tape:
            q = end()
        tape.backward(grads={q: sim.array(weights, dtype=sim.vec3d)})
        got = path.grad.numpy()[0].copy()
        for k, direction in enumerate(np.eye(3)):
            assert got[k] == pytest.approx(central(loss, at, direction, 1e-6), rel=1e-5, abs=1e-7 * np.abs(got).max())
