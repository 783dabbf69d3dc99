"""Pairs of surfaces keep the linear momentum; the angular one but for what friction does at a thickness."""

from __future__ import annotations

import numpy as np
import pytest

import sim

THICKNESS, DT = 4e-3, 1e-3
LYING = np.array([-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])


def swept(friction: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each closed pair, in a step of two sheets of which one slides onto the other: places, impulses (n, 4, 3)."""
    made = sim.ModelBuilder(gravity=(0, 0, 0))
    for k, name in enumerate(("low", "high")):
        turn = 0.3 * k
        s, c = np.sin(turn / 2), np.cos(turn / 2)
        rot = np.array([c * LYING[0], s * LYING[3], -s * LYING[0], c * LYING[3]])
        made.add_cloth_grid(
            (0.013 * k, 0.0042 * k, 0.017 * k), dim_x=3, dim_y=3, cell_x=0.05, cell_y=0.05, rot=rot, density=0.2,
            label=name, vel=(0.3 * k, -0.5 * k, 0.1 * k), material={"distance": {"compliance": 1e6}},
        )  # fmt: skip
    made.add_self_contact(["low", "high"], friction=friction, thickness=THICKNESS, capacity=4000)
    model = made.finalize(dtype=sim.float64)
    solver, before, after = sim.SolverXPBD(model), model.state(), model.state()
    rng = np.random.default_rng(0)
    before.particle_q.assign(before.particle_q.numpy() + 1e-4 * rng.normal(size=(model.particle_count, 3)))
    contacts = model.collide(before, None, DT)
    solver.step(before, after, None, contacts, DT)
    rows, moved = contacts.pairs.rows.numpy(), solver.surfaces.correction.numpy().reshape(-1, 4, 3)
    closed = solver.surfaces.share.numpy().reshape(-1, 4).sum(axis=1) > 0.0
    closed &= solver.surfaces.multiplier.numpy() > 0.0
    rows, moved = rows[closed], moved[closed]
    x = after.particle_q.numpy().copy()
    np.add.at(x, rows.ravel(), -moved.reshape(-1, 3))  # as the sweep began
    mass = 1.0 / model.particle_inv_mass.numpy()
    return x[rows], mass[rows][..., None] * moved / DT


def torques(x: np.ndarray, impulses: np.ndarray) -> np.ndarray:
    return np.cross(x, impulses).sum(axis=1)


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_pairs_keep_momentum_and_without_friction_angular_momentum() -> None:
    x, impulses = swept(0.0)
    assert len(x) > 20
    size = np.abs(impulses).max()
    assert np.abs(impulses.sum(axis=1)).max() < 1e-12 * size
    assert np.abs(torques(x, impulses)).max() < 1e-12 * size


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_friction_takes_a_couple_of_no_more_than_itself_times_the_distance() -> None:
    """Points have no spin that would take it; see the limits."""
    mu = 0.3
    x, impulses = swept(mu)
    size = np.abs(impulses).max()
    assert np.abs(impulses.sum(axis=1)).max() < 1e-12 * size
    pushed = 0.5 * np.linalg.norm(impulses, axis=2).sum(axis=1)  # of each side, at least, where its points go one way
    couple = np.linalg.norm(torques(x, impulses), axis=1)
    assert couple.max() > 0.1 * mu * THICKNESS * size
    assert (couple <= mu * THICKNESS * pushed + 1e-12 * size).all()
