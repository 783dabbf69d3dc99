"""The standard linear solid: fast and slow loading, relaxation, creep and damping against closed forms.  float64."""

import numpy as np
import pytest
from tools.physics import fem
from tools.physics.solids import DENSITY, POISSON, YOUNG, at, block, tip
from tools.physics.steps import positions, take_steps

import sim
from sim.identify.data.measures import Measure
from sim.model.energy import constraint_forces


def bar(relaxing, time, g=0.0981, cells=(1, 1, 3), young=1e5, poisson=0.3):
    """A clamped bar of a relaxing material under its weight."""
    builder = sim.ModelBuilder(gravity=(-g, 0, 0))
    nx, ny, nz = cells
    group = builder.add_soft_grid(
        dim_x=nx,
        dim_y=ny,
        dim_z=nz,
        cell_x=0.03 / nx,
        cell_y=0.03 / ny,
        cell_z=0.1 / nz,
        density=DENSITY,
        label="block",
        material={"viscoelastic": {"young": young, "poisson": poisson, "relaxing": relaxing, "time": time}},
    )
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    return builder.finalize(dtype=sim.float64), group


def fast(young, poisson, relaxing):
    """E and nu of fast loading: the shear modulus is 1 + relaxing times as large, the bulk modulus the same."""
    mu, bulk = young / (2 * (1 + poisson)) * (1 + relaxing), young / (3 * (1 - 2 * poisson))
    return 9 * bulk * mu / (3 * bulk + mu), (3 * bulk - 2 * mu) / (2 * (3 * bulk + mu))


@pytest.mark.parametrize("start", ["zero", "elastic"])
def test_fast_loading_is_a_stiffer_elastic_solid(start):
    young, poisson = fast(1e5, 0.3, 0.8)
    slow_flow, _ = bar(0.8, 1e9)
    elastic, _ = block(
        "stvk", (1, 1, 3), (0.03, 0.03, 0.1), young=young, poisson=poisson, gravity=(-0.0981, 0, 0), clamp=True
    )
    ends = [positions(take_steps(sim.SolverXPBD(m, start=start), m.state(), 200, 2e-4)) for m in (slow_flow, elastic)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)
    assert np.abs(ends[1] - positions(elastic.state())).max() > 1e-6


def test_without_relaxing_it_is_stvk():
    one, _ = bar(0.0, 1e-2)
    other, _ = block("stvk", (1, 1, 3), (0.03, 0.03, 0.1), young=1e5, poisson=0.3, gravity=(-0.0981, 0, 0), clamp=True)
    ends = [positions(take_steps(sim.SolverXPBD(m), m.state(), 100, 2e-4)) for m in (one, other)]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-13)


def test_it_creeps_to_the_place_of_slow_loading():
    """Where finite elements with E and nu of slow loading put it, from a start at the place of fast loading."""
    model, group = bar(0.5, 0.02)
    x = group.positions
    weight, clamped = model.particle_mass.numpy()[:, None] * np.array([-0.0981, 0, 0]), x[:, 2] < 1e-9
    places = {}
    for name, (young, poisson) in {"slow": (1e5, 0.3), "fast": fast(1e5, 0.3, 0.5)}.items():
        places[name] = fem.solve_static(fem.stiffness(x, group.tets, young, poisson), weight, clamped)
    drops = {name: tip(group, x + u) for name, u in places.items()}
    assert drops["slow"] > 1.3 * drops["fast"]
    final = sim.rollout(sim.SolverXPBD(model, start="elastic"), at(model, x + places["fast"]), 6000, 2e-4).final
    assert tip(group, positions(final)) == pytest.approx(drops["slow"], rel=2e-3)


def test_stress_relaxes_exponentially():
    """A strain that is held: force(t) / force(0) = (1 + relaxing exp(-t / time)) / (1 + relaxing), for pure shear."""
    relaxing, time, h = 0.6, 5e-3, 1e-3
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    group = builder.add_soft_grid(
        dim_x=1,
        dim_y=1,
        dim_z=1,
        cell_x=0.1,
        cell_y=0.1,
        cell_z=0.1,
        density=1e9,
        label="block",
        material={"viscoelastic": {"young": 1e4, "poisson": 0.3, "relaxing": relaxing, "time": time}},
    )
    model = builder.finalize(dtype=sim.float64)
    sheared = group.positions.copy()
    sheared[:, 0] += 1e-5 * sheared[:, 1]  # so heavy that it does not move
    state, following = at(model, sheared), model.state()
    solver, forces = sim.SolverXPBD(model), []
    for _ in range(10):
        made, out = model.constraint_sets["viscoelastic"], sim.zeros(model.particle_count, sim.vec3d)
        for name in ("normal", "shear"):
            made.parameters[name].assign(state.internal_variables[f"viscoelastic.{name}"])
        constraint_forces(model, state, out)
        forces.append(out.numpy()[:, 0].max())
        solver.step(state, following, None, None, h)
        state, following = following, state
    t = h * np.arange(10)
    np.testing.assert_allclose(
        np.array(forces) / forces[0], (1 + relaxing * np.exp(-t / time)) / (1 + relaxing), rtol=1e-3
    )


def test_frequency_and_damping_of_the_beam():
    """A mode of slow frequency w0 becomes s^2 + w0^2 (1 + r time s / (1 + time s)) = 0; its deviatoric part is 0.9 on
    this lattice (see `test_solids_statics`), so that r is a little less than the material's."""
    relaxing, time = 0.25, 0.03
    model, group = bar(relaxing, time, g=0.0, cells=(3, 3, 10), young=YOUNG, poisson=POISSON)
    x = group.positions
    K = fem.stiffness(x, group.tets, YOUNG, POISSON)
    slow = 2 * np.pi * fem.bending_frequency(K, model.particle_mass.numpy(), x[:, 2] < 1e-9)
    u = fem.solve_static(K, model.particle_mass.numpy()[:, None] * np.array([-1e-2, 0, 0]), x[:, 2] < 1e-9)
    frames = sim.rollout(
        sim.SolverXPBD(model, start="elastic"), at(model, x + u), 2500, 2e-4, frame_every=10
    ).particle_q.numpy()
    end, times = np.isclose(x[:, 2], 0.1), 2e-3 * (1 + np.arange(250))
    rate = 0.9 * relaxing
    s = next(root for root in np.roots([time, 1.0, slow**2 * time * (1 + rate), slow**2]) if root.imag > 0)
    frequency, damping = (
        Measure("m", "tip", (-1, 0, 0), kind).take(times, frames[:, end], x[end])
        for kind in ("frequency", "damping_ratio")
    )
    assert frequency == pytest.approx(s.imag / (2 * np.pi), rel=0.01)
    assert damping == pytest.approx(-s.real / abs(s), rel=0.12)


def test_states_carry_their_memory():
    model, _ = bar(0.5, 0.01)
    solver = sim.SolverXPBD(model)
    state = take_steps(solver, model.state(), 20, 1e-3)
    assert set(state.internal_variables) == {"viscoelastic.normal", "viscoelastic.shear"}
    assert np.abs(state.internal_variables["viscoelastic.shear"].numpy()).max() > 1e-6
    other = model.state()
    other.assign(state)
    for s in (state.clone(), other):
        np.testing.assert_array_equal(
            positions(take_steps(solver, s, 5, 1e-3)), positions(take_steps(solver, state, 5, 1e-3))
        )
