"""Loads on arms: where they start, their weight and moment, their inertia, their gradients, what they refuse."""

import numpy as np
import pytest
from tools.physics.solids import DENSITY, YOUNG
from tools.physics.steps import central, momentum, take_steps

import sim


def bar(arm=(0.0, 0.0, 0.02), mass=0.02, *, held=True, gravity=(-9.81, 0.0, 0.0), cells=(2, 2, 3), **more):
    """A bar along z whose end face carries a load; returns the builder and the bar."""
    options = {"young": YOUNG, "damping": 5e-4, **more.pop("material", {})}
    builder = sim.ModelBuilder(gravity=gravity)
    size = 0.03 / np.array(cells[:2]), 0.06 / cells[2]
    group = builder.add_soft_grid(
        dim_x=cells[0], dim_y=cells[1], dim_z=cells[2], cell_x=size[0][0], cell_y=size[0][1], cell_z=size[1],
        density=DENSITY, material={"stvk": {"poisson": 0.3, **options}}, **more,
    )  # fmt: skip
    if held:
        builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    face = group.choose({"z": [0.0599, None]})
    if arm is None:
        builder.add_load(face, mass, "weight")
    else:
        builder.add_load(face, mass, "weight", arm=arm)
    return builder, group, face


def test_it_starts_where_its_carriers_hold_it():
    """Place and velocity of a rigid body that turns; of four points of 9, whose middle is that of all."""
    spin, vel = np.array([3.0, 5.0, -2.0]), np.array([0.1, 0.2, 0.3])
    builder, group, face = bar((0.01, -0.02, 0.03), held=False, gravity=(0, 0, 0), spin=spin, vel=vel)
    model = builder.finalize(dtype=sim.float64)
    q, v = model.particle_q.numpy(), model.particle_qd.numpy()
    np.testing.assert_allclose(q[-1], group.positions[face].mean(axis=0) + [0.01, -0.02, 0.03], atol=1e-15)
    centre = np.average(q[:-1], axis=0, weights=model.particle_mass.numpy()[:-1])
    np.testing.assert_allclose(v[-1], vel + np.cross(spin, q[-1] - centre), atol=1e-13)
    assert model.groups["weight"].kind == "load" and model.particle_mass.numpy()[-1] == pytest.approx(0.02, rel=1e-4)
    # turning and swinging on, momentum stays
    after = take_steps(sim.SolverXPBD(model), model.state(), 200, 1e-4)
    for now, before in zip(momentum(after), momentum(model.state()), strict=True):
        np.testing.assert_allclose(now, before, rtol=0, atol=2e-3 * np.abs(before).max())


def settled(model, group, force=None):
    """Displacement of the points of the bar after a while, under additional forces (particles, 3)."""
    state = model.state()
    if force is not None:
        state.particle_f.assign(force)
    q = sim.rollout(sim.SolverXPBD(model, start="elastic"), state, 2400, 4e-4, frame_every=2400).particle_q
    return q.numpy()[-1, : group.count] - group.positions


def test_its_moment_bends_the_bar():
    """Small strains are linear: with the arm the bar bends as under the same load at its face and a couple of forces
    m g arm at the corners."""
    found, couple = {}, None
    for arm in (0.0, 0.1):
        builder, group, face = bar((0.0, 0.0, arm), 2e-3, gravity=(-0.05, 0.0, 0.0), material={"damping": 2e-3})
        model = builder.finalize(dtype=sim.float64)
        found[arm] = settled(model, group)
        if arm == 0.0:
            force = np.zeros((model.particle_count, 3))
            across = group.positions[face] - [0.015, 0.015, 0.06]
            corners = np.abs(across[:, :2]).min(axis=1) > 0.01
            force[face[corners], 2] = 2e-3 * 0.05 * 0.1 / 0.06 * np.sign(across[corners, 0])
            couple = settled(model, group, force)
    size = np.abs(found[0.1] - found[0.0]).max()
    assert size > 0.05 * np.abs(found[0.0]).max()
    np.testing.assert_allclose(couple, found[0.1], rtol=0, atol=0.01 * size)


def test_its_inertia_is_that_of_a_mass_on_an_arm():
    """A stiff bar that hangs from two points swings as the compound pendulum of its particles and the load."""
    builder, group, _ = bar((0.0, 0.0, 0.05), 0.05, held=False, gravity=(0, 0, 9.81), material={"young": 5e6})
    builder.add_attachment(group.choose({"x": [0.0149, 0.0151], "z": [None, 1e-9]}))
    builder.add_load(group.choose({"x": [0.0149, 0.0151], "z": [None, 1e-9]}), 0.0)
    model = builder.finalize(dtype=sim.float64)
    state, m = model.state(), model.particle_mass.numpy()
    r = state.particle_q.numpy()[:, [0, 2]] - [0.015, 0.0]
    tilt = 0.05
    q = state.particle_q.numpy().copy()
    q[:, 0] = 0.015 + np.cos(tilt) * r[:, 0] + np.sin(tilt) * r[:, 1]
    q[:, 2] = np.cos(tilt) * r[:, 1] - np.sin(tilt) * r[:, 0]
    state.particle_q.assign(q)
    period = 2 * np.pi * np.sqrt(m @ (r**2).sum(axis=1) / (9.81 * (m @ r[:, 1])))
    h, angles = 2e-4, []
    take_steps(
        sim.SolverXPBD(model), state, round(1.5 * period / h), h,
        each=lambda s: angles.append(s.particle_q.numpy()[-1, 0] - 0.015),
    )  # fmt: skip
    passes = np.flatnonzero(np.diff(np.sign(angles)))
    assert (passes[2] - passes[0]) * h == pytest.approx(period, rel=0.01)


def test_an_arm_without_a_load_changes_nothing():
    found = []
    for arm in ((0.0, 0.0, 0.05), None):
        builder, group, _ = bar(arm, 0.0)
        model = builder.finalize(dtype=sim.float64)
        found.append(take_steps(sim.SolverXPBD(model, start="elastic"), model.state(), 200, 2e-4).particle_q.numpy())
    drop = np.abs(found[1] - group.positions).max()
    np.testing.assert_allclose(found[0][: group.count], found[1], rtol=0, atol=1e-5 * drop)


@pytest.mark.parametrize("value", ["arm", "mass"])
@pytest.mark.parametrize("start", ["zero", "elastic"])
def test_gradients(value, start):
    builder, group, face = bar((0.0, 0.004, 0.02), cells=(1, 1, 1))
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver, path = sim.SolverXPBD(model, start=start), model[f"weight.{value}"]
    at = path.numpy().copy()
    weights = np.random.default_rng(4).normal(size=(model.particle_count, 3))

    def end():
        return sim.rollout(solver, model.state(), 30, 1e-3, frame_every=30).particle_q

    def loss(p):
        path.assign(p.reshape(at.shape))
        return float((end().numpy()[-1] * weights).sum())

    with sim.Tape() as tape:
        q = end()
    seed = sim.array(weights[None], dtype=sim.vec3d)
    tape.backward(grads={q: seed})
    got = path.grad.numpy().ravel()
    for k, direction in enumerate(np.eye(at.size)):
        want = central(loss, at.ravel(), direction * (1e-3 if value == "mass" else 1e-2), 1e-2) * (
            1e3 if value == "mass" else 1e2
        )
        assert got[k] == pytest.approx(want, rel=1e-6, abs=1e-9 * np.abs(got).max())


def test_every_world_has_an_arm_of_its_own():
    builder, group, face = bar((0.0, 0.0, 0.02), 0.01)
    model = builder.replicate(2).finalize(dtype=sim.float64)
    model["weight.arm"].assign(np.array([[0.0, 0.0, 0.01], [0.0, 0.01, 0.03]]))
    model["weight.mass"].assign(np.array([0.0, 0.02]))
    q = model.state().particle_q.numpy()
    middle = group.positions[face].mean(axis=0)
    np.testing.assert_allclose(q[model.groups["weight"].points] - middle, [[0, 0, 0.01], [0, 0.01, 0.03]], atol=1e-15)
    after = take_steps(sim.SolverXPBD(model, start="elastic"), model.state(), 100, 2e-4).particle_q.numpy()
    one, other = (after[model.groups["weight"].of_world(w)][0, 0] for w in range(2))
    assert other < one  # the loaded one has dropped further


def test_what_it_refuses():
    builder, group, face = bar(None)
    for points, what in ((face[:3], "3 carry no arm"), (face[:3].tolist() + [0], "")):
        if what:
            with pytest.raises(sim.ModelError, match=what):
                builder.add_load(points, 0.01, arm=(0, 0, 0.01))
    line = builder.add_chain((0, 0, 0), (1, 0, 0), 5, 1.0)
    with pytest.raises(sim.ModelError, match="on one line"):
        builder.add_load(line, 0.01, arm=(0, 0, 0.01))
    with pytest.raises(sim.ModelError, match="there is none"):
        builder.add_load(line, 0.01, compliance=1e-3)
    with pytest.raises(sim.ModelError, match="arm"):
        builder.add_load(face, 0.01, arm=(0, 0))
    count = builder.particle_count
    builder.add_load(face, 0.01, arm=(0, 0, 0.01))
    assert builder.particle_count == count + 1
