"""Gradients through steps of solids against differences, for every material value; both starts, both solvers.
float64."""

import numpy as np
import pytest
from tools.physics.solids import MATERIALS, block, tip

import sim

SOLVERS = {
    "zero": lambda model: sim.SolverXPBD(model),
    "elastic": lambda model: sim.SolverXPBD(model, start="elastic"),
    "elastic, 2 iterations": lambda model: sim.SolverXPBD(model, iterations=2, start="elastic"),
    "elastic, jacobi": lambda model: sim.SolverXPBD(model, order="jacobi", start="elastic"),
    "semi-implicit": lambda model: sim.SolverSemiImplicit(model),
}


def scene(material, values):
    """A clamped bar with a weight on its end, in the air."""
    builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
    group = builder.add_soft_grid(
        pos=(0.05, 0, 0),
        dim_x=1,
        dim_y=1,
        dim_z=3,
        cell_x=0.03,
        cell_y=0.03,
        cell_z=0.03,
        density=1070.0,
        label="block",
        vel=(-0.3, 0.1, 0.0),
        spin=(0.0, 2.0, 0.0),
        material={material: values},
    )
    builder.set_drag(group, 0.5)
    builder.add_attachment(group.choose({"z": [None, 1e-9]}), label="clamp")
    builder.add_load(group.choose({"z": [0.0899, None]}), 0.02, label="weight")
    return builder.finalize(dtype=sim.float64, requires_grad=True), group


ELASTIC = {"young": 1e5, "poisson": 0.4, "damping": 1e-3}
VALUES = {"neo_hookean": ELASTIC, "stvk": ELASTIC, "viscoelastic": {**ELASTIC, "relaxing": 0.7, "time": 4e-3}}
BODY = ("density", "drag", "velocity", "spin", "position")


SLOW = {("neo_hookean", "elastic"), ("neo_hookean", "elastic, jacobi"), ("viscoelastic", "elastic")}
RUNS = [
    pytest.param(m, s, marks=pytest.mark.slow if m == "stvk" or (m, s) in SLOW else ()) for m in VALUES for s in SOLVERS
]


@pytest.mark.parametrize(("material", "solver"), RUNS)
def test_gradients_of_a_rollout(material, solver):
    model, group = scene(material, VALUES[material])
    stepper, rng = SOLVERS[solver](model), np.random.default_rng(5)
    weights = rng.normal(size=(4, model.particle_count, 3))
    names = {
        **{key: f"block.{material}.{key}" for key in VALUES[material]},
        **{key: f"block.{key}" for key in BODY},
        "mass": "weight.mass",
        "gravity": "gravity",
    }

    def value():
        q = sim.rollout(stepper, model.state(), 40, 2.5e-4, frame_every=10).particle_q
        return float(np.sum(weights * q.numpy()))

    for strategy in (sim.StoreAll(), sim.Checkpointed(every=7)):
        with sim.Tape() as tape:
            frames = sim.rollout(stepper, model.state(), 40, 2.5e-4, frame_every=10, strategy=strategy).particle_q
        tape.backward(grads={frames: sim.array(weights, dtype=sim.vec3d)})
        got = {key: model[names[key]].grad.numpy().copy() for key in names}
        tape.zero()
    for key in names:
        array = model[names[key]]
        before = array.numpy().copy()
        direction = rng.normal(size=before.shape)
        h = 2e-3 * max(np.abs(before).max(), 1e-3) / np.abs(direction).max()
        ends = []
        for step in (h, -h, 2 * h, -2 * h):
            array.assign(before + step * direction)
            ends.append(value())
        array.assign(before)
        want = (4 * (ends[0] - ends[1]) / (2 * h) - (ends[2] - ends[3]) / (4 * h)) / 3
        assert np.sum(got[key] * direction) == pytest.approx(want, rel=2e-6, abs=1e-9), key
        assert want != 0.0, key


@pytest.mark.parametrize("material", MATERIALS)
def test_values_for_each_tetrahedron(material):
    """Young's moduli of their own: gradients of each, which add up to that of the common one."""
    young = np.linspace(0.8e5, 1.2e5, 15)

    def built(values):
        builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
        group = builder.add_soft_grid(
            dim_x=1,
            dim_y=1,
            dim_z=3,
            cell_x=0.03,
            cell_y=0.03,
            cell_z=0.03,
            density=1070.0,
            label="block",
            material={material: {"young": values, "poisson": 0.3}},
        )
        builder.add_attachment(group.choose({"z": [None, 1e-9]}))
        return builder.finalize(dtype=sim.float64, requires_grad=True), group

    gradients = []
    for values in (np.full(15, 1e5), 1e5, young):
        model, group = built(values)
        with sim.Tape() as tape:
            q = sim.rollout(sim.SolverXPBD(model, start="elastic"), model.state(), 30, 5e-4).particle_q
        seed = np.zeros((1, model.particle_count, 3))
        seed[0, :, 0] = 1.0
        tape.backward(grads={q: sim.array(seed, dtype=sim.vec3d)})
        gradients.append(model[f"block.{material}.young"].grad.numpy().copy())
    assert gradients[0].shape == gradients[2].shape == (15,)
    assert gradients[0].sum() == pytest.approx(gradients[1][0], rel=1e-12)
    assert np.ptp(gradients[2]) > 0
    np.testing.assert_array_equal(model.constraint_sets[material].index_of["block"] >= 0, True)


def test_softer_and_damped_more_is_what_it_says():
    model, group = block(
        "stvk", (1, 1, 3), (0.03, 0.03, 0.09), young=1e5, damping=2e-3, gravity=(-1.0, 0, 0), clamp=True
    )
    solver = sim.SolverXPBD(model, start="elastic")
    stiff = tip(group, sim.rollout(solver, model.state(), 4000, 2e-4).particle_q.numpy()[0])
    model["block.stvk.young"].fill_(5e4)
    soft = tip(group, sim.rollout(solver, model.state(), 4000, 2e-4).particle_q.numpy()[0])
    assert soft / stiff == pytest.approx(2.0, rel=0.02)
