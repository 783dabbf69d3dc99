"""What a step leaves undone, and who is told."""

import warnings

import numpy as np
import pytest

import sim
from sim.solvers import NumericsWarning, SolverXPBD, resolved_step, rounding_warning, step_residuals


def strip(compliance, pinned, cells=6, gravity=(0.0, -9.81, 0.0), damping=0.0, **settings):
    """A hanging sheet of unit length."""
    b = sim.ModelBuilder(gravity=gravity)
    spring = {"compliance": compliance, **({"damping": damping} if damping else {})}
    material = {"distance": spring, "shear": spring, "bend": {"compliance": 100.0}}
    sheet = b.add_cloth_grid(
        dim_x=cells, dim_y=cells, cell_x=1 / cells, cell_y=1 / cells, density=0.2, material=material
    )
    b.add_attachment(sheet.choose(pinned))
    return SolverXPBD(b.finalize(dtype=sim.float64), **settings)


def hung(solver, seconds=2.0, dt=1 / 240):
    return sim.rollout(solver, solver.model.state(), round(seconds / dt), dt).final


TOP = {"y": [0.999, None]}


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericsWarning)
        yield


def chain(iterations, compliance=2e-3, points=8):
    b = sim.ModelBuilder(gravity=(0.0, -9.81, 0.0))
    b.add_chain(
        (0, 0, 0), (0, -1, 0), points, 0.1 * points, material={"distance": {"compliance": compliance, "damping": 0.1}}
    )
    b.add_attachment(np.array([0]))
    return SolverXPBD(b.finalize(dtype=sim.float64), iterations=iterations)


@pytest.mark.parametrize("iterations", [1, 4])
def test_at_rest_the_residual_is_what_a_chain_is_too_long_by(iterations, quiet):
    """C = -alpha~ lambda + r with lambda the exact tension: the chain hangs longer by the sum of r."""
    solver, compliance, n = chain(iterations), 2e-3, 8
    final = hung(solver, 6.0)
    assert np.abs(final.particle_qd.numpy()).max() < 1e-9
    y = final.particle_q.numpy()[:, 1]
    tension = 0.1 * 9.81 * np.arange(n - 1, 0, -1)
    extra = -np.diff(y) - 1 / (n - 1) - compliance * tension
    found = step_residuals(solver, final, 1 / 240)["distance"]
    assert found.force == pytest.approx(np.linalg.norm(extra) / np.linalg.norm(compliance * tension), rel=1e-6)
    rms = np.sqrt(np.mean((extra / -np.diff(y) / np.sqrt(2.0)) ** 2))
    assert found.strain == pytest.approx(rms, rel=1e-6)


def test_a_converged_step_leaves_nothing():
    solver = chain(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = step_residuals(solver, hung(solver, 0.2), 1 / 240)
    assert found["distance"].force < 1e-9 and not found["distance"].unresolved


def test_jacobi_on_a_stiff_cloth_is_told_once():
    solver = strip(1e-5, TOP, order="jacobi", iterations=20)
    with pytest.warns(NumericsWarning, match="with 20 iterations leave forces undone.*`distance`") as told:
        hung(solver, 0.5, 1 / 60)
        hung(solver, 0.5, 1 / 60)
    assert len(told) == 1 and told[0].filename == __file__


def test_a_sag_that_depends_on_the_iterations_is_told():
    corners = {"near": [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]}
    sags = []
    for iterations, unresolved in ((5, True), (400, False)):
        solver = strip(1e-3, corners, gravity=(0.0, 0.0, -9.81), damping=0.02, iterations=iterations)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            final = hung(solver, 1.0, 1 / 60)
        assert bool(told) == unresolved
        sags.append(-final.particle_q.numpy()[:, 2].min())
    assert sags[0] > 1.3 * sags[1]


def test_rigid_links_have_a_strain_and_no_force(quiet):
    solver = strip(0.0, TOP)
    found = step_residuals(solver, hung(solver, 0.5, 1 / 60), 1 / 60)
    assert found["distance"].force == np.inf and found["distance"].strain > 1e-3


def test_what_is_resolved_is_not_told():
    for settings in ({}, {"iterations": 4}):
        solver = strip(0.05, TOP, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hung(solver, 0.5, 1 / 1200)


def test_a_solver_without_sweeps_is_refused():
    solver = sim.SolverSemiImplicit(chain(1).model)
    with pytest.raises(sim.SolverError, match="SolverSemiImplicit makes no sweeps"):
        step_residuals(solver, solver.model.state(), 1e-3)


def test_steps_too_short_for_the_precision_are_told():
    def model(dtype):
        b = sim.ModelBuilder()
        b.add_particles([(0, 0, 0)], 1.0)
        return b.finalize(dtype=dtype)

    single, double = model(sim.float32), model(sim.float64)
    assert resolved_step(single, 1.0) == pytest.approx(6e-6, rel=0.05)
    assert resolved_step(single, 10.0) == pytest.approx(10 * resolved_step(single, 1.0))
    assert resolved_step(double, 1.0) < 1e-13
    assert rounding_warning(single, 1.0, 1e-5) == "" and rounding_warning(double, 1.0, 1e-7) == ""
    assert "float32 resolves 1 s of this scene down to h = 6e-06 s" in rounding_warning(single, 1.0, 1e-6)
    with pytest.warns(NumericsWarning, match="float32 resolves"):
        sim.rollout(SolverXPBD(single), single.state(), 200_000, 1e-6)


def test_places_too_coarse_for_the_precision_are_told():
    """Far from the origin, positions are rounded to more: rigid links jitter in short steps, and shapes are lost."""

    def links(away, compliance, dtype=sim.float32):
        b = sim.ModelBuilder(gravity=(0, -9.81, 0))
        b.add_chain((away, 0, 0), (away, -1, 0), 11, mass=0.1, material={"distance": {"compliance": compliance}})
        return b.finalize(dtype=dtype)

    assert resolved_step(links(100.0, 0.0), 0.5) == pytest.approx(100 * 1.2e-7 / (0.2 * 0.99), rel=0.02)
    assert (
        resolved_step(links(1.0, 0.0), 0.5) == resolved_step(links(100.0, 1e-2), 0.5) == pytest.approx(3e-6, rel=0.02)
    )
    assert rounding_warning(links(100.0, 0.0), 0.5, 1e-4) == ""
    assert "down to h = 6e-05 s" in rounding_warning(links(100.0, 0.0), 0.5, 1e-5)
    assert "lies 3e+03 m from the origin" in rounding_warning(links(3000.0, 1e-2), 0.5, 1e-4)
    assert rounding_warning(links(3000.0, 0.0, sim.float64), 0.5, 1e-7) == ""
