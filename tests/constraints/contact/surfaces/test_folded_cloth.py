"""S2: a sheet in four layers falls on the floor and on itself, the same bits every time."""

import numpy as np
import pytest

import sim
from sim.core.runtime.ambient.threads import get_num_threads, set_num_threads

THICKNESS = 2e-3
DT = 1e-3


def folds(**contact):
    """A strip of 25 x 7 points, folded three times, a centimetre above the floor."""
    u, v = np.meshgrid(np.linspace(0, 0.48, 25), np.linspace(0, 0.12, 7), indexing="ij")
    layer, along = np.divmod(u, 0.12)
    across = np.where(layer % 2 == 0, along, 0.12 - along)
    at = np.stack([across + 0.003 * v, 0.01 + 0.012 * u / 0.12, v], axis=-1).reshape(-1, 3)
    k = np.arange(24 * 7).reshape(24, 7)[:, :6].ravel()
    faces = np.concatenate([np.stack([k, k + 1, k + 8], axis=1), np.stack([k, k + 8, k + 7], axis=1)])
    builder = sim.ModelBuilder()
    builder.add_cloth_mesh(
        at, faces, density=0.2, label="folds", thickness=0.5 * THICKNESS,
        material={"distance": {"compliance": 1e-4}, "bend": {"compliance": 3e4}},
    )  # fmt: skip
    builder.add_ground_plane()
    builder.add_self_contact(["folds"], friction=0.3, margin=0.008, **contact)
    return sim.SolverXPBD(builder.finalize(dtype=sim.float64))


def motion(solver, steps, frame_every=10):
    made = sim.rollout(solver, solver.model.state(), steps, DT, frame_every=frame_every)
    return made.particle_q.numpy().copy(), made.penetration


@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_folds_fall_to_the_same_bits():
    """Again with what the first run has left in the workspace, with room for more pairs, and on two threads."""
    solver = folds(every=4, capacity=9000)
    first, penetration = motion(solver, 100)
    assert 0.0 < penetration.worst < THICKNESS and penetration.crossed == 0
    np.testing.assert_array_equal(motion(solver, 100)[0], first)
    np.testing.assert_array_equal(motion(folds(every=5, capacity=20000), 100)[0], first)
    threads = get_num_threads()
    try:
        set_num_threads(2)
        np.testing.assert_array_equal(motion(solver, 100)[0], first)
    finally:
        set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sim.solvers.NumericsWarning")
def test_folds_lie_after_ten_seconds():
    solver = folds(every=4, capacity=20000)
    first, penetration = motion(solver, 10_000, 500)
    second, _ = motion(solver, 10_000, 500)
    np.testing.assert_array_equal(first, second)
    assert penetration.worst < THICKNESS and penetration.crossed == 0
    assert first[-1, :, 1].min() > 0.0 and np.abs(first[-1] - first[-3]).max() < 2e-3  # it lies
