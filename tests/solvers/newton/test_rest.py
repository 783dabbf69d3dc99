"""The state at rest under the loads: balanced forces, its gradient against differences, and where there is none."""

import numpy as np
import pytest
from tools.physics.newton_models import block, chain, gradient_errors

import sim
from sim.solvers import NoStateAtRest, RestSolver

ELASTIC = {"young": 2e4, "poisson": 0.3}
RELAXING = [{"stiffness": 0.5, "time": 0.02}, {"stiffness": 0.3, "time": 1.5}]


def drape(**shape):
    """A sheet that hangs from its corners, or lies on something."""
    builder = sim.ModelBuilder(gravity=(0.3, 0, -9.81))
    material = {"membrane_stvk": {"young": 2e4, "poisson": 0.3, "thickness": 1e-3}, "bend": {"compliance": 500.0}}
    builder.add_cloth_grid(dim_x=4, dim_y=3, cell_x=0.1, cell_y=0.1, density=0.3, vel=(0.1, 0, 0), material=material)
    builder.add_attachment([0, 4, 15, 19], offset=(0.002, 0, 0.001), turn=(0.05, 0, 0.1))
    if shape:
        builder.add_shape_sphere((0.2, 0.15, -0.11), 0.1, label="ball", **shape)
    return builder


MODELS = {
    "chain": lambda: chain(compliance=1e-2),
    "chain without give": lambda: chain(compliance=0.0),
    "chain held softly": lambda: chain(compliance=1e-2, held=1e-3, motion={"swing": (0.1, 0, 0), "frequency": 1.0}),
    "sheet": drape,
    "sheet on a ball": lambda: drape(compliance=0.0),
    "sheet on a soft ball": lambda: drape(compliance=1e-3),
    "loaded block in a turned clamp": lambda: block(
        {"stvk": {**ELASTIC, "damping": 2e-3}}, load={"arm": (-0.015, 0, 0.002), "compliance": 1e-4}, turned=True
    ),
    "branches that have relaxed": lambda: block(
        {"deviatoric": {**ELASTIC, "branches": RELAXING}, "cell_volume": {**ELASTIC, "damping": 1e-3}}, turned=True
    ),
    "springs with branches": lambda: chain(compliance=1e-2, branches=RELAXING),
    "hexahedra": lambda: block({"neo_hookean": ELASTIC}, "hexahedra"),
}


SLOW = ("sheet on a soft ball", "hexahedra", "loaded block in a turned clamp", "branches that have relaxed")
CASES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_differences(name):
    errors = gradient_errors(MODELS[name](), 1, 1.0, lambda solver: RestSolver(solver.model).state())
    assert len(errors) > 3
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("name", MODELS)
def test_what_is_at_rest_stays_there(name):
    model = MODELS[name]().finalize(dtype=sim.float64)
    start = RestSolver(model).state()
    assert start.time == 0.0
    np.testing.assert_array_equal(start.particle_qd.numpy(), model.particle_qd.numpy())
    assert np.abs(start.particle_q.numpy() - model.particle_q.numpy()).max() > 1e-3
    start.particle_qd.zero_()
    steps, h = 2, 1e-5  # motions hardly begin
    after = sim.rollout(sim.SolverNewton(model, tolerance=1e-11), start, steps, h).final
    free = model.particle_inv_mass.numpy() > 0.0
    assert np.abs(after.particle_qd.numpy()[free]).max() < 1e-2 * 9.81 * steps * h


def test_a_chain_hangs_as_its_weights_pull():
    model = chain(compliance=0.02).finalize(dtype=sim.float64)
    q = RestSolver(model).state().particle_q.numpy()
    below = 0.2 * np.array([4, 3, 2, 1]) * 9.81  # what hangs below each link [N]
    np.testing.assert_allclose(-np.diff(q[:, 1]), 0.25 + 0.02 * below, rtol=1e-10)


def column():
    builder = sim.ModelBuilder(gravity=(0, 0, -9.81))
    size = {"dim_x": 1, "dim_y": 1, "dim_z": 12, "cell_x": 0.01, "cell_y": 0.01, "cell_z": 0.02}
    group = builder.add_soft_grid(**size, density=1070.0, material={"stvk": ELASTIC})
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    return builder


def loose():
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_chain((0, 0, 0), (1, 0, 0), 4, 1.0, material={"distance": {"compliance": 1e-3}}, label="rope")
    return builder


def weightless():
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_chain((0, 0, 0), (1, 0, 0), 4, 1.0, material={"distance": {"compliance": 1e-3}}, label="rope")
    builder.add_attachment([0])
    return builder


@pytest.mark.parametrize("made, words", [
    (loose, "nothing holds `rope`"), (column, "it would buckle"), (weightless, "no state at rest was found"),
])  # fmt: skip
def test_where_there_is_none_it_says_so(made, words):
    with pytest.raises(NoStateAtRest, match=words):
        RestSolver(made().finalize(dtype=sim.float64)).state()


def test_branches_have_relaxed():
    q, inner = [], []
    for branches in ([], RELAXING):
        model = chain(compliance=0.02, **({"branches": branches} if branches else {})).finalize(dtype=sim.float64)
        found = RestSolver(model).state()
        q.append(found.particle_q.numpy())
        inner += [a.numpy().copy() for a in found.internal_variables.values()]
    np.testing.assert_allclose(q[1], q[0], atol=1e-12)
    stretch = np.sort(-np.diff(q[0][:, 1]) - 0.25)
    np.testing.assert_allclose(np.sort(inner[0], axis=0), np.stack([stretch, stretch], axis=1), rtol=1e-9)


def test_what_it_does_not_know_is_refused_all_at_once():
    builder = drape()
    builder.add_body((0, 0, 0, 0, 0, 0, 1), 1.0, np.eye(3), (0, 0, 0), "box")
    builder.add_ground_plane(height=-1.0, normal=(0, 0, 1), label="floor", cfg=builder.ShapeConfig(mu=0.3))
    with pytest.raises(sim.SolverError, match=r"rigid bodies .*; friction"):
        RestSolver(builder.finalize(dtype=sim.float64))
    windy = drape()
    windy.set_air(windy.groups[next(iter(windy.groups))], 1.2)
    model = windy.finalize(dtype=sim.float64)
    solver = RestSolver(model)
    solver.state()
    model.wind.assign([(0.0, 0.0, 2.0)])
    with pytest.raises(NoStateAtRest, match="in a wind"):
        solver.state()
    with pytest.raises(sim.SolverError, match="float64"):
        RestSolver(chain().finalize(dtype=sim.float32)).state()
