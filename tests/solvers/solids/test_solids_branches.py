"""Branches on hexahedra and quadratic tetrahedra: their energy, and gradients in steps of second order.  float64."""

import numpy as np
import pytest
from tools.physics.rollouts import check_model_gradients
from tools.physics.solids import at
from tools.physics.steps import central

import sim
from sim.model import ModelError
from sim.model.energy import constraint_energy, constraint_forces

SIDE, YOUNG, POISSON = 0.1, 2e4, 0.3
MU, LA = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
RELAXES, YIELDS = {"stiffness": 0.5, "time": 4e-3}, {"stiffness": 0.3, "yield": 0.02}
ELEMENTS = "hexahedra", "quadratic"


def cell(element: str, branches, law: str = "stvk", **more) -> sim.Model:
    """One cell of a lattice, which stands on the ground and is spun."""
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_soft_grid(
        dim_x=1, dim_y=1, dim_z=1, cell_x=SIDE, cell_y=SIDE, cell_z=SIDE, density=1000.0, element=element,
        label="block", material={law: {"young": YOUNG, "poisson": POISSON, "branches": branches}},
        fix_bottom=True, spin=(0.0, 3.0, 5.0),
    )  # fmt: skip
    return builder.finalize(dtype=sim.float64, **more)


def energy(model: sim.Model, state: sim.State) -> float:
    return sum(constraint_energy(model, state, name) for name in model.constraint_sets)


@pytest.mark.parametrize("element", ELEMENTS)
def test_branches_stiffen_changes_of_shape(element):
    """At a strain that has just begun, by 1 + sum r: V (mu |E|^2 + lambda / 2 (tr E)^2 + sum r mu |dev E|^2)."""
    model = cell(element, [RELAXES, YIELDS])
    F = np.eye(3) + np.random.default_rng(1).uniform(-0.2, 0.2, (3, 3))
    E = 0.5 * (F.T @ F - np.eye(3))
    deviator = E - np.trace(E) / 3 * np.eye(3)
    want = MU * np.sum(E * E) + LA / 2 * np.trace(E) ** 2 + 0.8 * MU * np.sum(deviator * deviator)
    found = energy(model, at(model, model.particle_q.numpy() @ F.T))
    assert found == pytest.approx(SIDE**3 * want, rel=1e-12)


def test_branches_stiffen_bending_and_twist_of_hexahedra():
    """They have no stress across what is bent: all of their energy grows by 1 + sum r."""
    x, energies = None, []
    for branches in ([], [RELAXES, YIELDS]):
        model = cell("hexahedra", branches)
        if x is None:
            x = model.particle_q.numpy() + 0.01 * np.random.default_rng(2).normal(size=(model.particle_count, 3))
        parts = [name for name in model.constraint_sets if not name.startswith("stvk")]
        energies.append([constraint_energy(model, at(model, x), name) for name in parts])
    assert len(parts) == len(energies[0]) > 0
    np.testing.assert_allclose(energies[1], 1.8 * np.array(energies[0]), rtol=1e-12)


@pytest.mark.parametrize(
    "element", [pytest.param(e, marks=pytest.mark.slow) if e == "quadratic" else e for e in ELEMENTS]
)
def test_forces_are_those_of_the_energy_with_all_that_is_held(element):
    """After steps in which branches have relaxed and slipped, in every part of the element."""
    model = cell(element, [RELAXES, YIELDS])
    state = sim.rollout(sim.SolverXPBD(model, iterations=4, integrator="bdf2"), model.state(), 20, 2e-3).final
    for name, inner in state.internal_variables.items():
        relaxed, slipped = np.split(inner.numpy().reshape(-1, 2, inner.numpy().shape[-1] // 2), 2, axis=1)
        assert min(np.abs(relaxed).max(), np.abs(slipped).max()) > 1e-4, name
    x, force = state.particle_q.numpy().copy(), sim.zeros(model.particle_count, sim.vec3d)
    constraint_forces(model, state, force)
    direction = np.random.default_rng(3).normal(size=x.shape)

    def along(q):
        state.particle_q.assign(q)
        return energy(model, state)

    assert np.sum(force.numpy() * direction) == pytest.approx(-central(along, x, direction, 1e-6), rel=1e-6)


def test_a_law_without_such_rows_is_named():
    with pytest.raises(ModelError, match=r"neo_hookean.*no rows that may have branches"):
        cell("hexahedra", [RELAXES], law="neo_hookean")


@pytest.mark.slow
@pytest.mark.parametrize("element", ELEMENTS)
def test_gradients_in_steps_of_second_order(element):
    """Of all values, through relaxation and slip, against differences."""
    model = cell(element, [RELAXES, YIELDS], requires_grad=True)

    def final():
        solver = sim.SolverXPBD(model, iterations=2, integrator="bdf2")
        return sim.rollout(solver, model.state(), 15, 2e-3).final

    paths = [p for p in model.materials if "branches" in p or p.endswith(("young", "poisson", "spin"))]
    assert sum("branches" in p for p in paths) == 4
    check_model_gradients(model, final, paths, rel=5e-6)
