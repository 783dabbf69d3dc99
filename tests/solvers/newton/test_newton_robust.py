"""SolverNewton where energies are not convex: what folds, buckles, or begins flat."""

import warnings

import numpy as np
import pytest
from tools.physics.newton_models import ELASTIC

import sim
from sim.geometry import rotation_from_axis_angle

SPRINGS = {
    "distance": {"compliance": 1e-4, "damping": 5e-3},
    "shear": {"compliance": 1e-3},
    "bend": {"compliance": 3e3},
}
MEMBRANE = {
    "membrane_stvk": {"young": 1e6, "poisson": 0.3, "thickness": 3e-4, "damping": 5e-3},
    "plate": {"stiffness": 1e-4, "poisson": 0.3},
}


def on_a_ball(material, compliance=0.0, cells=6):
    """A sheet that falls on a ball and folds about it."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    size = {"dim_x": cells, "dim_y": cells, "cell_x": 0.4 / cells, "cell_y": 0.4 / cells}
    lying = rotation_from_axis_angle([1.0, 0, 0], -np.pi / 2)
    builder.add_cloth_grid((-0.2, 0.115, 0.2), rot=lying, **size, density=0.3, material=material)
    builder.add_shape_sphere((0.003, 0, 0.002), 0.11, compliance=compliance)
    return builder.finalize(dtype=sim.float64)


def strip(cells=10):
    """A strip whose ends are pushed together."""
    builder = sim.ModelBuilder(gravity=(0, -0.01, 0))
    size = {"dim_x": cells, "dim_y": 2, "cell_x": 0.24 / cells, "cell_y": 0.024}
    material = {**MEMBRANE, "plate": {"stiffness": 1e-3, "poisson": 0.3}}
    group = builder.add_cloth_grid(**size, density=0.3, material=material)
    builder.add_attachment(group.choose({"x": [None, 1e-6]}))
    pushed = group.choose({"x": [0.24 - 1e-6, None]})
    builder.add_attachment(pushed, motion=[{"move": (-0.08, 0, 0), "end": 0.3}])
    return builder.finalize(dtype=sim.float64)


@pytest.fixture(autouse=True)
def converged():
    """No step may be left unconverged."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def stepped(model, steps, dt, begin=None):
    solver, states = sim.SolverNewton(model), [model.state(), model.state()]
    if begin is not None:
        states[0].particle_q.assign(begin)
    for _ in range(steps):
        solver.step(states[0], states[1], None, None, dt)
        states.reverse()
    assert solver.convergence.unconverged == 0
    return solver, states[0].particle_q.numpy()


@pytest.mark.parametrize(("material", "compliance"), [(SPRINGS, 0.0), (SPRINGS, 1e-3), (MEMBRANE, 0.0)])
def test_a_sheet_that_falls_on_a_ball(material, compliance):
    solver, x = stepped(on_a_ball(material, compliance), 40, 0.01)
    distance = np.linalg.norm(x - (0.003, 0, 0.002), axis=1)
    assert distance.min() > (0.11 - 1e-9 if compliance == 0.0 else 0.1)
    assert np.ptp(x[:, 1]) > 0.1 and solver.convergence.iterations < 30 * 40


def test_a_strip_that_buckles():
    _, x = stepped(strip(), 40, 0.01)
    assert np.ptp(x[:, 0]) < 0.17 and max(np.ptp(x[:, 1]) - 0.048, np.ptp(x[:, 2])) > 0.03


def test_a_crumpled_sheet():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    size = {"dim_x": 5, "dim_y": 5, "cell_x": 0.05, "cell_y": 0.05}
    builder.add_cloth_grid(**size, density=0.3, material=MEMBRANE)
    model = builder.finalize(dtype=sim.float64)
    begin = model.particle_q.numpy() + 0.02 * np.random.default_rng(3).normal(size=(36, 3))
    _, x = stepped(model, 30, 0.01, begin)
    assert np.isfinite(x).all()


@pytest.mark.parametrize("how", ["flat", "reflected", "random"])
def test_a_crushed_block_has_its_shape_again(how):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    size = {"dim_x": 2, "dim_y": 2, "dim_z": 2, "cell_x": 0.03, "cell_y": 0.03, "cell_z": 0.03}
    builder.add_soft_grid(**size, density=1000.0, material={"neo_hookean": {**ELASTIC, "damping": 2e-3}})
    model = builder.finalize(dtype=sim.float64)
    rest = model.particle_q.numpy()
    begin = rest.copy()
    if how == "random":
        begin = np.random.default_rng(3).uniform(0, 0.06, size=rest.shape)
    else:
        begin[:, 1] = begin[:, 1].mean() if how == "flat" else -begin[:, 1]
    _, x = stepped(model, 100, 0.01, begin)
    edges = [np.linalg.norm(p[:, None] - p[None], axis=-1) for p in (x, rest)]
    np.testing.assert_allclose(edges[0], edges[1], atol=1e-3)
