"""Energy and forces that follow from C: against NumPy, against differences, and against each other."""

import numpy as np
import pytest
from tools.constraints.samples import NAMES, SEED, sample
from tools.physics.steps import central

import sim
from sim.constraints import REGISTRY
from sim.model.energy import constraint_energy, constraint_forces, make_energy, make_force


def energy(s, x):
    a, total = s.arrays(x=x), sim.zeros(1, sim.float64, requires_grad=True)
    with sim.Tape() as tape:
        sim.launch(make_energy(s.c, sim.float64), s.count, [a["points"], a["data"], a["compliance"], a["x"]], [total])
    return total, a, tape


def held(s):
    """What viscous strains q hold beside C, row by row: share (1 - share) q^2; they are in the rows of shape alone."""
    if not s.c.internal_variables:
        return 0.0
    p = s.parameters
    q = np.concatenate([np.zeros((s.count, s.c.rows - 5)), p["normal"][:, :2], p["shear"]], axis=1)
    return (p["share"] * (1 - p["share"]))[:, None] * q**2


@pytest.mark.parametrize("name", NAMES)
def test_energy_and_force(name):
    """E = C^T alpha^-1 C / 2 (where C < 0, for a contact); force = -dE/dx, three times: by its own kernel, by the tape
    through the energy, and by differences."""
    s = sample(name)
    total, a, tape = energy(s, s.x)
    C = np.array([s.of(k) for k in range(s.count)])
    violated = np.minimum(C, 0.0) if s.c.unilateral else C
    squares = violated**2 + held(s)
    assert total.numpy()[0] == pytest.approx(
        0.5 * (np.array(s.c.elastic) * squares / s.compliance.reshape(C.shape)).sum(), rel=1e-12
    )
    assert name == "lever" or ((C > 0).any() and (C < 0).any())  # an arm of a frame of random points is far off

    force = sim.zeros(len(s.x), sim.vec3d, requires_grad=True)
    sim.launch(make_force(s.c, sim.float64), s.count, [a["points"], a["data"], a["compliance"], a["x"]], [force])
    tape.backward(loss=total)
    np.testing.assert_allclose(force.numpy(), -a["x"].grad.numpy(), rtol=1e-12, atol=1e-12)
    direction = np.random.default_rng(SEED).normal(size=s.x.shape)
    want = -central(lambda x: float(energy(s, x)[0].numpy()[0]), s.x, direction)
    assert np.sum(force.numpy() * direction) == pytest.approx(want, rel=1e-7)


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].internal])
def test_internal_forces_add_up_to_nothing(name):
    s = sample(name)
    a, force = s.arrays(), sim.zeros(len(s.x), sim.vec3d)
    sim.launch(make_force(s.c, sim.float64), s.count, [a["points"], a["data"], a["compliance"], a["x"]], [force])
    f = force.numpy()
    scale = np.abs(f).max()
    assert scale > 0.01
    np.testing.assert_allclose(f.sum(axis=0), 0, atol=1e-12 * scale * len(f))
    np.testing.assert_allclose(np.cross(s.x, f).sum(axis=0), 0, atol=1e-12 * scale * len(f))


def sheet(**changed):
    material = {"distance": {"compliance": 0.1}, "shear": {"compliance": 0.3}, "bend": {"compliance": 50.0}} | changed
    builder = sim.ModelBuilder()
    builder.add_cloth_grid(dim_x=4, dim_y=3, cell_x=0.1, cell_y=0.1, density=0.2, label="sheet", material=material)
    builder.add_shape_sphere((0.2, 0.1, -0.05), 0.1, compliance=1e-2)
    return builder.finalize(dtype=sim.float64)


def test_energies_and_forces_of_a_model():
    """All forces of a model are the negative gradient of all of its energies."""
    model, rng = sheet(), np.random.default_rng(SEED)
    state = model.state()
    x = state.particle_q.numpy() + 0.01 * rng.normal(size=(20, 3))

    def total(at):
        state.particle_q.assign(at)
        return sum(constraint_energy(model, state, name) for name in model.constraint_sets)

    state.particle_q.assign(x)
    for name in model.constraint_sets:
        assert constraint_energy(model, state, name) > 1e-6
    out = sim.full(20, (1.0, 2.0, 3.0), sim.vec3d)
    constraint_forces(model, state, out)
    direction = rng.normal(size=x.shape)
    want = -central(total, x, direction, step=1e-6)
    assert np.sum((out.numpy() - [1, 2, 3]) * direction) == pytest.approx(want, rel=1e-6)


def test_energy_follows_a_changed_material_value():
    model = sheet()
    state = model.state()
    state.particle_q.assign(1.1 * state.particle_q.numpy())
    before = constraint_energy(model, state, "distance")
    model["sheet.distance.compliance"].fill_(0.05)
    assert constraint_energy(model, state, "distance") == pytest.approx(2 * before, rel=1e-13)


def test_rigid_constraints_have_no_finite_energy():
    model = sheet(distance={"compliance": 0.0})
    state = model.state()
    with pytest.raises(sim.ConstraintError, match=r"'distance' on points \[\d+, \d+\] has compliance 0.*infinite"):
        constraint_energy(model, state, "distance")
    with pytest.raises(sim.ConstraintError, match="infinite"):
        constraint_forces(model, state, sim.zeros(20, sim.vec3d))
    assert constraint_energy(model, state, "shear") == 0.0


def test_an_unknown_constraint_is_named():
    model = sheet()
    with pytest.raises(sim.ConstraintError, match="did you mean 'distance'"):
        constraint_energy(model, model.state(), "distanse")
