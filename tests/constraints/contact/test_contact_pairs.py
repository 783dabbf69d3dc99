"""Contacts between movers: collisions of balls, and derivatives of mixtures against differences."""

from __future__ import annotations

import numpy as np
import pytest
from tools.physics.contact_worlds import coordinate, gradients

import sim


def balls(places: list[float], speeds: list[float], restitution: float, friction: float, worlds: int = 1) -> sim.Model:
    """Two balls of 10 cm, of which the first spins."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    for k, (x, v) in enumerate(zip(places, speeds, strict=True)):
        made.add_body(
            [x, 0.03 * k, 0], mass=1.0 + 0.5 * k, inertia=4e-3 * (1 + k), label=f"ball{k}",
            velocity=(v, 0, 0), spin=(0, 0, 20.0 * (1 - k)),
        )  # fmt: skip
    ends = [made.point_of(0, [0, 0, 0]), made.point_of(1, [0, 0, 0])]
    made.add_constraints("contact_points", [ends], 0.0, label="hit", radius=0.1, other_radius=0.1,
                         friction=friction, restitution=restitution)  # fmt: skip
    return made.replicate(worlds).finalize(dtype=sim.float64, requires_grad=True)


def momenta(state: sim.State, model: sim.Model) -> np.ndarray:
    """Linear and angular momentum (6,) of bodies with round inertia."""
    q, qd = state.body_q.numpy(), state.body_qd.numpy()
    m, inertia = model.body_mass.numpy(), model.body_inertia.numpy()[:, 0, 0]
    p = m[:, None] * qd[:, :3]
    return np.concatenate([p.sum(axis=0), (np.cross(q[:, :3], p) + inertia[:, None] * qd[:, 3:]).sum(axis=0)])


def test_two_balls_exchange_their_motion() -> None:
    """Of equal masses: 1.2 m after a second, derivatives 1, 0 by places and 1, 0 by speeds."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    for k, (x, v) in enumerate(((0.0, 1.0), (0.52, 0.0))):
        made.add_body([x, 0, 0], mass=1.0, inertia=4e-3, label=f"ball{k}", velocity=(v, 0, 0))
    ends = [made.point_of(0, [0, 0, 0]), made.point_of(1, [0, 0, 0])]
    made.add_constraints("contact_points", [ends], 0.0, label="hit", radius=0.1, other_radius=0.1, restitution=1.0)
    end, of = gradients(made.finalize(dtype=sim.float64, requires_grad=True), 240, 1 / 240, coordinate("body_q", 1, 0))
    assert end.body_q.numpy()[1, 0] == pytest.approx(1.2, abs=1e-9)
    found = [of[f"ball{k}.{key}"][0, 0] for key in ("position", "velocity") for k in (0, 1)]
    np.testing.assert_allclose(found, [1, 0, 1, 0], atol=1e-3)


def test_what_rubs_keeps_its_momenta() -> None:
    """An oblique collision of balls of which one spins, at any rate: to rounding."""
    model = balls([0.0, 0.3], [1.0, -0.5], 0.6, 0.4)
    begin = model.state()
    for hertz in (240, 960):
        end = sim.rollout(sim.SolverXPBD(model, iterations=2), begin, hertz // 4, 1 / hertz).final
        assert np.abs(end.body_qd.numpy()[1, 3:]).max() > 0.5  # it was set spinning
        np.testing.assert_allclose(momenta(end, model), momenta(begin, model), atol=1e-12)


def test_derivatives_of_a_collision_against_differences() -> None:
    model = balls([0.0, 0.3], [1.0, -0.5], 0.6, 0.4)
    _, of = gradients(model, 40, 1 / 240, coordinate("body_q", 1, 1))
    for path, found in of.items():
        if path in ("gravity", "hit.compliance"):  # neither has two sides at 0
            continue
        value = model.materials[path].numpy().copy()
        k = int(np.argmax(np.abs(found)))
        sides = []
        for sign in (1.0, -1.0):
            moved = value.copy()
            moved.flat[k] += sign * 1e-6
            model.materials[path].assign(moved)
            sides.append(sim.rollout(sim.SolverXPBD(model), model.state(), 40, 1 / 240).final.body_q.numpy()[1, 1])
        model.materials[path].assign(value)
        assert found.flat[k] == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-5, abs=1e-8), path


def test_threads_checkpoints_and_worlds_change_no_bit() -> None:
    """Of a gradient through collisions with friction."""
    before, results = sim.get_num_threads(), []
    ways = [(sim.StoreAll(), 1, 1), (sim.Checkpointed(every=7), 1, 1), (sim.StoreAll(), 2, 1), (sim.StoreAll(), 1, 2)]
    try:
        for strategy, threads, worlds in ways:
            sim.set_num_threads(threads)
            model = balls([0.0, 0.3], [1.0, -0.5], 0.6, 0.4, worlds)
            solver = sim.SolverXPBD(model, iterations=2)
            with sim.Tape() as tape:
                found = sim.rollout(solver, model.state(), steps=40, dt=1 / 240, strategy=strategy).final
            weight = np.zeros((2 * worlds, 7))
            weight[worlds:, 1] = 1.0  # of the second ball, in every world
            tape.backward(grads={found.body_q: sim.array(weight, dtype=found.body_q.dtype)})
            values = {path: a.grad.numpy() for path, a in model.materials.items() if path != "gravity"}
            results.append([found.body_q.numpy()[::worlds], *(value[:1].copy() for value in values.values())])
    finally:
        sim.set_num_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
