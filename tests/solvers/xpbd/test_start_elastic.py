"""`start="elastic"`: what does not grow from multipliers of zero does not grow from those of the forces either."""

import numpy as np
import pytest
from tools.physics.solids import MEAN, block

import sim
from sim.solvers.steplength import step_warnings


def strip(cells=(16, 8), cell=0.005, bend=500.0, stretch=1e-5, damping=0.0, gravity=0.0) -> sim.Model:
    """Held along two rows of points at one end."""
    builder = sim.ModelBuilder(gravity=(0, 0, -gravity))
    material = {"distance": {"compliance": stretch, "damping": damping}, "shear": {"compliance": stretch},
                "bend": {"compliance": bend}}  # fmt: skip
    sheet = builder.add_cloth_grid(
        (0, 0, 0), dim_x=cells[0], dim_y=cells[1], cell_x=cell, cell_y=cell, density=0.2, label="s", material=material
    )
    builder.add_attachment(sheet.choose({"x": [None, 1.01 * cell]}))
    return builder.finalize(dtype=sim.float64)


def solid(material: str, cells=(2, 2, 5), damping: float = 0.0) -> sim.Model:
    size = tuple(0.015 * n for n in cells)
    return block(material, cells, size, damping=damping, clamp=True)[0]


def growth(model: sim.Model, h: float, steps: int = 800) -> float:
    """Of a disturbance of the positions by 1e-7 m."""
    state = model.state()
    x, free = state.particle_q.numpy(), model.particle_inv_mass.numpy()[:, None] > 0
    state.particle_q.assign(x + 1e-7 * free * np.random.default_rng(0).normal(size=x.shape))
    final = sim.rollout(sim.SolverXPBD(model, start="elastic"), state, steps, h).final.particle_q.numpy()
    return float(np.abs(final - x).max() / 1e-7)


# The first grew to centimetres where damping counted like stiffness.
CASES = {
    "stvk, 20 ms": (lambda: solid("stvk", (2, 2, 7), 0.02), (2e-4,)),
    "cell pair": (lambda: solid(MEAN), (1e-3,)),
    "cloth, 10 ms": (lambda: strip((8, 8), 0.01, stretch=1e-3, damping=0.01), (1.6e-4, 2.5e-4)),
}


@pytest.mark.parametrize("case", CASES)
def test_disturbances_do_not_grow(case):
    make, steps = CASES[case]
    model = make()
    found = [growth(model, h) for h in steps]
    print(case, found)
    assert max(found) < 30.0


def test_strip_falls_as_from_zero():
    """32 x 8 cells of 5 mm, c = 500, h = 1.25e-4: was 2.3 m/s after .3 s, and 10 mm off."""
    model, h = strip((32, 8), gravity=9.81), 1.25e-4
    ends = [sim.rollout(sim.SolverXPBD(model, start=s), model.state(), 2400, h).final for s in ("zero", "elastic")]
    x, v = ([end.particle_q.numpy() for end in ends], [np.abs(end.particle_qd.numpy()).max() for end in ends])
    print("speed", v, "apart", np.abs(x[1] - x[0]).max())
    assert v[1] == pytest.approx(v[0], rel=0.02) and np.abs(x[1] - x[0]).max() < 3e-3


def test_what_is_left_out_is_told():
    """Damping of 20 ms at 2e-4: hardly any of the forces can act at the start of a step."""
    for damping, told in ((0.02, True), (0.0, False)):
        notes = step_warnings(sim.SolverXPBD(solid("stvk", damping=damping), start="elastic"), [5e-5])
        assert any("less damping" in n for n in notes) == told, notes


ELASTIC = {"young": 1e5, "poisson": 0.4}
LEADING = {
    "damped pair": ({"deviatoric": {**ELASTIC, "damping": 4e-3}, "cell_volume": ELASTIC}, {}),
    "quadratic": ({"stvk": {**ELASTIC, "damping": 4e-3}}, {"element": "quadratic"}),
}
"""Solids of two constraints, one of which begins a step with no more of its force than the other: `leading_parts`."""


@pytest.mark.parametrize("case", ["damped pair", pytest.param("quadratic", marks=pytest.mark.slow)])
def test_gradients_through_the_leading_part(case):
    """The part of a force that a step begins with depends on another constraint: on its places, values and damping."""
    materials, more = LEADING[case]
    builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
    group = builder.add_soft_grid(
        dim_x=1, dim_y=1, dim_z=2, cell_x=0.03, cell_y=0.03, cell_z=0.03, density=1070.0, label="block",
        vel=(-0.3, 0.1, 0.0), spin=(0.0, 2.0, 1.0), material=materials, **more,
    )  # fmt: skip
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    model, rng = builder.finalize(dtype=sim.float64, requires_grad=True), np.random.default_rng(5)
    stepper, weights = sim.SolverXPBD(model, start="elastic"), rng.normal(size=(1, model.particle_count, 3))
    names = [f"block.{material}.{key}" for material, values in materials.items() for key in values]
    names += ["block.density", "block.velocity"]

    def value():
        return float(np.sum(weights * sim.rollout(stepper, model.state(), 12, 5e-4).particle_q.numpy()))

    found = []
    for strategy in (sim.StoreAll(), sim.Checkpointed(every=5)):
        with sim.Tape() as tape:
            final = sim.rollout(stepper, model.state(), 12, 5e-4, strategy=strategy).particle_q
        tape.backward(grads={final: sim.array(weights, dtype=sim.vec3d)})
        found.append({name: model[name].grad.numpy().copy() for name in names})
        tape.zero()
    for name in names:
        np.testing.assert_array_equal(found[0][name], found[1][name])
        array = model[name]
        before = array.numpy().copy()
        direction, ends = np.abs(before).max() * rng.normal(size=before.shape), []
        for step in (1e-3, -1e-3, 2e-3, -2e-3):
            array.assign(before + step * direction)
            ends.append(value())
        array.assign(before)
        want = (4 * (ends[0] - ends[1]) / 2e-3 - (ends[2] - ends[3]) / 4e-3) / 3
        assert np.sum(found[0][name] * direction) == pytest.approx(want, rel=2e-6), name
