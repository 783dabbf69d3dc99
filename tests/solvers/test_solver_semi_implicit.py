"""Symplectic Euler on the forces of the constraints: against closed forms, and against XPBD as steps become shorter."""

import numpy as np
import pytest
from tools.physics.solids import MATERIALS, at, beam, block
from tools.physics.steps import momentum, positions, take_steps

import sim


def spring(compliance=1e-3, damping=0.0):
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particle((0, 0, 0), mass=0.0)
    builder.add_particle((1.5, 0, 0), mass=1.0)
    builder.add_spring(0, 1, compliance, damping, rest_length=1.0)
    return builder.finalize(dtype=sim.float64)


@pytest.mark.parametrize("damping", [0.0, 2e-3])
def test_an_oscillator_is_its_matrix_power(damping):
    """v += h (-k (y + damping v)), y += h v: the same numbers as a power of the 2 x 2 matrix."""
    h, n, k = 1e-3, 300, 1e3
    step = np.array([[1 - h * h * k, h * (1 - h * k * damping)], [-h * k, 1 - h * k * damping]])
    want = np.linalg.matrix_power(step, n) @ [0.5, 0.0]
    model = spring(damping=damping)
    state = take_steps(sim.SolverSemiImplicit(model), model.state(), n, h)
    assert positions(state)[1, 0] - 1 == pytest.approx(want[0], abs=1e-12)
    assert state.particle_qd.numpy()[1, 0] == pytest.approx(want[1], abs=1e-10)


@pytest.mark.parametrize("material", MATERIALS)
def test_both_solvers_converge_to_each_other(material):
    """A bar with a moving clamp and damping; XPBD in both of its starts.  The difference halves with the step."""

    def end(make, h):
        builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
        group = builder.add_soft_grid(
            dim_x=1,
            dim_y=1,
            dim_z=3,
            cell_x=0.03,
            cell_y=0.03,
            cell_z=0.03,
            density=1070.0,
            material={material: {"young": 1e5, "poisson": 0.3, "damping": 1e-3}},
        )
        builder.add_attachment(group.choose({"z": [None, 1e-9]}), motion={"move": (0, 0.02, 0), "end": 0.03})
        model = builder.finalize(dtype=sim.float64)
        return positions(take_steps(make(model), model.state(), round(0.04 / h), h))

    for start in ("zero", "elastic"):
        gaps = [
            np.abs(end(sim.SolverSemiImplicit, h) - end(lambda m: sim.SolverXPBD(m, start=start), h)).max()  # noqa: B023
            for h in (8e-5, 4e-5, 2e-5)
        ]
        orders = np.log2(np.array(gaps[:-1]) / gaps[1:])
        assert gaps[-1] < 1e-3
        assert (orders > 0.75).all(), (start, gaps)


def test_cloth_chains_and_contacts_too():
    def end(make, h):
        builder = sim.ModelBuilder()
        builder.add_cloth_grid(
            (-0.1, 0.12, -0.1),
            dim_x=4,
            dim_y=4,
            cell_x=0.05,
            cell_y=0.05,
            density=0.3,
            rot=(np.sqrt(0.5), 0, 0, np.sqrt(0.5)),
            material={
                "distance": {"compliance": 0.05, "damping": 2e-3},
                "shear": {"compliance": 0.1},
                "bend": {"compliance": 2e3},
            },
        )
        builder.add_shape_sphere((0, 0, 0), 0.1, compliance=1e-3)
        model = builder.finalize(dtype=sim.float64)
        return positions(take_steps(make(model), model.state(), round(0.1 / h), h))

    gaps = [np.abs(end(sim.SolverSemiImplicit, h) - end(sim.SolverXPBD, h)).max() for h in (4e-4, 2e-4, 1e-4)]
    assert gaps[2] < 1e-3
    assert gaps[2] < 0.8 * gaps[1] < 0.8**2 * gaps[0]  # contacts begin within steps: not quite the first order


def test_energy_and_momentum_of_a_free_body():
    model, group = block("stvk", (2, 1, 1), (0.2, 0.1, 0.1))
    state = at(model, group.positions * np.array([1.02, 1.0, 0.99]))
    state.particle_qd.assign(np.cross([1.0, 2.0, 3.0], group.positions))
    before = momentum(state)
    after = momentum(take_steps(sim.SolverSemiImplicit(model), state, 400, 1e-4))
    np.testing.assert_allclose(after[0], before[0], atol=1e-12)
    np.testing.assert_allclose(after[1], before[1], rtol=1e-10)  # central forces at the positions where they act


def test_it_needs_compliance():
    model = spring(compliance=0.0)
    with pytest.raises(
        sim.SolverError, match=r"distance on points \[0, 1\]\) has compliance 0, which no force can hold"
    ):
        sim.SolverSemiImplicit(model).step(model.state(), model.state(), None, None, 1e-3)
    model = spring()
    solver, state = sim.SolverSemiImplicit(model), model.state()
    solver.step(state, model.state(), None, None, 1e-3)
    model["springs.compliance"].fill_(0.0)
    with pytest.raises(sim.SolverError, match="SolverXPBD"):
        solver.step(state, model.state(), None, None, 1e-3)


def test_steps_that_are_too_long_are_said_to_break_down():
    model, _ = beam("stvk", (1, 1, 3))
    with pytest.raises(sim.SimError, match="take shorter steps"):
        sim.rollout(sim.SolverSemiImplicit(model), model.state(), 3000, 2e-3, frame_every=100)
