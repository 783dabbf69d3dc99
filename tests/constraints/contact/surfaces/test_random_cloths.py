"""Drops of two cloths on a box, a floor and each other, at random: `-m slow`."""

from __future__ import annotations

import numpy as np
import pytest

import sim

Config = sim.ModelBuilder.ShapeConfig
POINTS, CELL, THICKNESS, HALF, RATE = 5, 0.03, 4e-3, 0.05, 960
NAMES = "low", "high"


def cloths(seed: int, worlds: int) -> sim.Model:
    """Two sheets of 12 cm above a box of 10 cm that stands on a floor; they move at up to .6 m/s."""
    builder = sim.ModelBuilder()
    lying = (-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5))
    for k, name in enumerate(NAMES):
        builder.add_cloth_grid(
            (-0.06, 0.12 + 0.02 * k, 0.06), dim_x=POINTS - 1, dim_y=POINTS - 1, cell_x=CELL, cell_y=CELL, rot=lying,
            density=0.2, label=name, material={"distance": {"compliance": 1e-5}, "bend": {"compliance": 1.0}},
        )  # fmt: skip
    rough = Config(mu=0.4)
    builder.add_shape_box(-1, sim.transformd((0, HALF, 0), (0, 0, 0, 1)), HALF, HALF, HALF, cfg=rough, label="box")
    builder.add_ground_plane(0.0, cfg=rough, label="floor")
    builder.add_self_contact(NAMES, friction=0.3, thickness=THICKNESS, margin=0.01, every=2, capacity=6000 * worlds)
    model = (builder.replicate(worlds) if worlds > 1 else builder).finalize(dtype=sim.float64)
    return model


def thrown(model: sim.Model, seed: int, worlds: int) -> sim.State:
    """Each sheet is moved, turned and bent a little, and thrown with a velocity of its own."""
    rng = np.random.default_rng(seed)
    state = model.state()
    q, qd = state.particle_q.numpy().copy(), state.particle_qd.numpy().copy()
    sheet = q.reshape(-1, POINTS * POINTS, 3)
    qd = qd.reshape(sheet.shape)
    for k in range(len(sheet)):
        angle = rng.uniform(-np.pi, np.pi)
        turn = np.array([[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]])
        sheet[k] = sheet[k] @ turn.T + rng.uniform(-0.05, 0.05, 3) * [1, 0, 1] + rng.normal(size=sheet[k].shape) * 1e-4
        qd[k] = rng.uniform(-0.3, 0.3, 3)
    state.particle_q.assign(q)
    state.particle_qd.assign(qd.reshape(-1, 3))
    return state


def drop(seed: int, worlds: int) -> None:
    """For 1 s.  No point comes further in a step than the thickness of the sheets, 3.8 m/s: no faster is meant by sane.

    Pairs that might have been missed are an error of the rollout.
    """
    model = cloths(seed, worlds)
    state = thrown(model, seed, worlds)
    solver = sim.SolverXPBD(model, iterations=2)
    for _ in range(8):
        made = sim.rollout(solver, state, RATE // 8, 1 / RATE)
        state = made.final
        q = state.particle_q.numpy()
        assert np.isfinite(q).all(), seed
        assert np.abs(state.particle_qd.numpy()).max() < THICKNESS * RATE, seed
        assert made.penetration.crossed == 0 and made.penetration.worst < THICKNESS, (seed, made.penetration)
        assert q[:, 1].min() > -THICKNESS, (seed, q[:, 1].min())
        inside = HALF - np.abs(q - [0, HALF, 0]).max(axis=1)
        assert inside.max() < THICKNESS, (seed, inside.max())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
@pytest.mark.parametrize("seed", range(4))
def test_cloths_neither_pass_nor_blow_up(seed: int) -> None:
    drop(seed, 50)


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_of_a_few_the_same() -> None:
    drop(100, 4)
