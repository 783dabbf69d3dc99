"""Branches: what relaxes and what yields, on one spring that is pulled, against closed forms.  float64."""

import numpy as np
import pytest
from tools.physics.rollouts import check_model_gradients
from tools.physics.steps import central

import sim
from sim.constraints import REGISTRY, ConstraintError
from sim.constraints.damping.branches import branched, may_branch
from sim.model.energy import constraint_energy, constraint_forces
from sim.solvers import step_warnings

SOFT = 1e-2  # [m/N]
PRONY = [{"stiffness": 0.6, "time": 5e-3}, {"stiffness": 0.3, "time": 0.03}, {"stiffness": 0.2, "time": 0.15}]
FRICTION = [{"stiffness": 0.8, "yield": 0.01}]


def pulled(branches, swing=0.0, frequency=1.0, stretched=0.0):
    """A spring between a point that cannot move and one that swings by `swing`, stretched by `stretched` at first."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0.0, 0, 0], [1.0, 0, 0]], [1e30, 1.0])
    motion = [{"swing": (swing, 0.0, 0.0), "frequency": frequency}]
    builder.add_constraints("distance", [[0, 1]], SOFT, label="spring", branches=branches, rest=1.0 - stretched)
    builder.add_attachment([1], motion, label="hand")
    return builder.finalize(dtype=sim.float64)


def measured(model, steps, dt):
    """Stretch, force, energy and inner variables at the start of every step, and the name of the spring's set."""
    (name,) = (name for name in model.constraint_sets if name.startswith("distance"))
    solver, state, after, rows = sim.SolverXPBD(model), model.state(), model.state(), []
    for _ in range(steps):
        force = sim.zeros(2, sim.vec3d)
        constraint_forces(model, state, force)
        x = state.particle_q.numpy()
        inner = state.internal_variables[f"{name}.inner"].numpy().ravel()
        rows.append([x[1, 0] - x[0, 0] - 1.0, -force.numpy()[1, 0], constraint_energy(model, state, name), *inner])
        solver.step(state, after, None, None, dt)
        state, after = after, state
    return np.array(rows).T


def test_a_step_strain_relaxes_as_the_prony_series():
    """Exactly, whatever the step: g(t) = 1 + sum r exp(-t / tau)."""
    for dt in (1e-3, 0.05, 0.4):
        model = pulled(PRONY, stretched=0.1)
        _, force, *_ = measured(model, 12, dt)
        t = dt * np.arange(12)
        modulus = 1 + sum(b["stiffness"] * np.exp(-t / b["time"]) for b in PRONY)
        np.testing.assert_allclose(force, 0.1 / SOFT * modulus, rtol=1e-12)


def complex_modulus(omega):
    """Storage and loss modulus over the lasting stiffness."""
    return 1 + sum(b["stiffness"] * 1j * omega * b["time"] / (1 + 1j * omega * b["time"]) for b in PRONY)


def modulus_found(omega, steps):
    """The complex modulus from the sixth cycle of a sinusoidal strain."""
    period = 2 * np.pi / omega
    strain, force, *_ = measured(pulled(PRONY, 0.02, 1 / period), 6 * steps + 1, period / steps)
    phase = np.exp(-2j * np.pi * np.arange(steps) / steps)
    return (force[-steps - 1 : -1] @ phase) / (strain[-steps - 1 : -1] @ phase) * SOFT


@pytest.mark.parametrize("omega", [3.0, 10.0, 25.0])
def test_loss_tangent_of_a_sinusoidal_strain_of_second_order(omega):
    want = complex_modulus(omega)
    errors = [abs(modulus_found(omega, n) - want) for n in (40, 80)]
    found = modulus_found(omega, 160)
    assert found.imag / found.real == pytest.approx(want.imag / want.real, rel=2e-3)
    assert 1.8 < np.log2(errors[0] / errors[1]) < 2.3


def test_creep_under_a_constant_load():
    """F / k (1 - r / (1 + r) exp(-t / ((1 + r) tau))), of one branch, by a mass that is light and damped."""
    stretch, force, tau, r = [], 2.0, 0.1, 0.5
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0.0, 0, 0], [1.0, 0, 0]], [0.0, 1e-6])
    builder.add_constraints(
        "distance", [[0, 1]], SOFT, 1e-4, label="spring", branches=[{"stiffness": r, "time": tau}], rest=1.0
    )
    model, dt = builder.finalize(dtype=sim.float64), 5e-4
    state, after, solver = model.state(), model.state(), sim.SolverXPBD(model)
    for s in (state, after):
        s.particle_f.assign([[0, 0, 0], [force, 0, 0]])
    for _ in range(300):
        solver.step(state, after, None, None, dt)
        state, after = after, state
        stretch.append(state.particle_q.numpy()[1, 0] - 1.0)
    t = dt * (1 + np.arange(300))
    want = force * SOFT * (1 - r / (1 + r) * np.exp(-t / ((1 + r) * tau)))
    np.testing.assert_allclose(stretch[20:], want[20:], rtol=3e-3)


@pytest.mark.parametrize("amplitude", [0.013, 0.1])
def test_hysteresis_of_a_branch_that_yields(amplitude):
    """4 r k y (a - y) in a cycle of amplitude a, whatever the frequency."""
    areas, steps = [], 500
    for frequency in (0.2, 30.0):
        strain, force, *_ = measured(pulled(FRICTION, 2 * amplitude, frequency), 2 * steps + 1, 1 / (steps * frequency))
        s, f = strain[-steps - 1 :], force[-steps - 1 :]
        areas.append(np.sum(np.diff(s) * 0.5 * (f[1:] + f[:-1])))
    assert areas[0] == pytest.approx(4 * 0.8 / SOFT * 0.01 * (amplitude - 0.01), rel=5e-3)
    assert areas[1] == pytest.approx(areas[0], rel=1e-9)


def test_nothing_is_lost_below_the_yield_strain():
    strain, force, *_, inner = measured(pulled(FRICTION, 0.009), 500, 2e-3)
    np.testing.assert_allclose(force, 1.8 * strain / SOFT, atol=1e-12)
    assert not inner.any()


def test_the_damping_of_a_swing_rises_as_it_decays():
    """zeta = loss / (4 pi energy) = 2 r y (a - y) / (pi a^2), highest at a = 2 y."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_particles([[0.0, 0, 0], [1.0, 0, 0]], [0.0, 1.0])
    friction = [{"stiffness": 0.2, "yield": 0.01}]
    builder.add_constraints("distance", [[0, 1]], SOFT, label="spring", branches=friction, rest=0.9)
    model = builder.finalize(dtype=sim.float64)
    dt = 2 * np.pi / 10 / 4000
    x = sim.rollout(sim.SolverXPBD(model), model.state(), 40000, dt, frame_every=10).particle_q.numpy()[:, 1, 0] - 0.9
    top = np.flatnonzero((x[1:-1] > x[:-2]) & (x[1:-1] >= x[2:])) + 1
    peaks = x[top]  # amplitudes above the yield strain: the branch pulls by r k y at each
    decrement = np.log(peaks[:-1] / peaks[1:]) / (2 * np.pi)
    a = np.sqrt(peaks[:-1] * peaks[1:])
    numerical = 0.5 * 10 * dt  # of implicit Euler
    want = 2 * 0.2 * 0.01 * (a - 0.01) / (np.pi * a**2)
    np.testing.assert_allclose(decrement - numerical, want, rtol=0.06)
    assert decrement[-1] > 1.5 * decrement[0]


def test_energy_stored_and_dissipated_is_the_work():
    """Of relaxing and yielding branches together: the dissipated power of each is r k (s - q) dq/dt."""
    for steps, bound in ((500, 2e-4), (1000, 5e-5)):
        both = [*PRONY[:2], *FRICTION]
        strain, force, energy, *inner = measured(pulled(both, 0.08, 3.0), steps + 1, 0.5 / steps)
        work = np.sum(np.diff(strain) * 0.5 * (force[1:] + force[:-1]))
        lost = 0.0
        for branch, q in zip(both, inner, strict=True):
            elastic = strain - q
            lost += np.sum(np.diff(q) * 0.5 * (elastic[1:] + elastic[:-1])) * branch["stiffness"] / SOFT
        assert lost > 0.1 * energy.max()
        assert energy[-1] - energy[0] + lost == pytest.approx(work, abs=bound * energy.max())
        own = strain[-1] ** 2 + sum(
            b["stiffness"] * (strain[-1] - q[-1]) ** 2 for b, q in zip(both, inner, strict=True)
        )
        assert energy[-1] == pytest.approx(own / (2 * SOFT), rel=1e-12)


# ------------------------------------------------------------------------------------------ solids, cloth, gradients
def block(material, **builder_options):
    builder = sim.ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_soft_grid(
        dim_x=1, dim_y=2, dim_z=1, cell_x=0.1, cell_y=0.1, cell_z=0.1, density=1000.0, label="block",
        material=material, fix_bottom=True, spin=(0.0, 3.0, 5.0),
    )  # fmt: skip
    return builder.finalize(dtype=sim.float64, **builder_options)


ELASTIC = {"young": 2e4, "poisson": 0.3}
MIXED = [{"stiffness": 0.5, "time": 4e-3}, {"stiffness": 0.3, "yield": 0.02}, {"stiffness": 0.2, "time": 0.03}]


def test_one_branch_is_the_standard_linear_solid():
    """`viscoelastic`, which follows the strain at the start of a step, at first order."""
    gaps = []
    for dt in (1e-3, 5e-4):
        ends = []
        for material in (
            {"viscoelastic": {**ELASTIC, "relaxing": 0.5, "time": 0.02}},
            {"stvk": {**ELASTIC, "branches": [{"stiffness": 0.5, "time": 0.02}]}},
        ):
            model = block(material)
            final = sim.rollout(sim.SolverXPBD(model), model.state(), round(0.05 / dt), dt).final
            ends.append(final.particle_q.numpy())
        gaps.append(np.abs(ends[0] - ends[1]).max())
    moved = np.abs(ends[0] - model.particle_q.numpy()).max()
    assert gaps[0] < 0.02 * moved
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.2)


def test_branches_without_stiffness_change_nothing():
    ends = []
    for more in ({}, {"branches": [{"stiffness": 0.0, "time": 0.02}, {"stiffness": 0.0, "yield": 0.1}]}):
        model = block({"stvk": {**ELASTIC, **more}})
        ends.append(sim.rollout(sim.SolverXPBD(model), model.state(), 20, 1e-3).final.particle_q.numpy())
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-15)


def test_energy_of_a_solid_is_that_of_its_strains():
    """V mu (|dev E|^2 + sum r |dev E - q|^2) of `deviatoric`, by NumPy; forces are its negative gradient."""
    model = block({"deviatoric": {**ELASTIC, "branches": MIXED}})
    (name,) = model.constraint_sets
    state = sim.rollout(sim.SolverXPBD(model), model.state(), 40, 1e-3).final
    (made,), x = model.constraint_sets.values(), state.particle_q.numpy().copy()
    inner = state.internal_variables[f"{name}.inner"].numpy().reshape(made.count, 3, 5)
    assert all(np.abs(inner[:, k]).max() > 1e-4 for k in range(3))
    rest, mu, total = model.particle_q.numpy(), 2e4 / 2.6, 0.0
    for points, q in zip(made.points.numpy(), inner, strict=True):
        edges = (rest[points][1:] - rest[points][0]).T
        f = (x[points][1:] - x[points][0]).T @ np.linalg.inv(edges)
        e = 0.5 * (f.T @ f - np.eye(3))
        s = np.array([(e[0, 0] - e[1, 1]) / 2**0.5, (e[0, 0] + e[1, 1] - 2 * e[2, 2]) / 6**0.5,
                      *(2**0.5 * e[[0, 1, 2], [1, 2, 0]])])  # fmt: skip
        parts = s @ s + sum(b["stiffness"] * np.sum((s - own) ** 2) for b, own in zip(MIXED, q, strict=True))
        total += np.linalg.det(edges) / 6 * mu * parts
    assert constraint_energy(model, state, name) == pytest.approx(total, rel=1e-10)
    force, direction = sim.zeros(len(x), sim.vec3d), np.random.default_rng(1).normal(size=x.shape)
    constraint_forces(model, state, force)

    def energy(at):
        state.particle_q.assign(at)
        return constraint_energy(model, state, name)

    assert np.sum(force.numpy() * direction) == pytest.approx(-central(energy, x, direction, 1e-6), rel=1e-6)


def test_gradients_of_all_values():
    """Through slips and sticks: against differences, where neither end lies on a kink."""
    model = block({"deviatoric": {**ELASTIC, "branches": MIXED[:2]}}, requires_grad=True)

    def final():
        return sim.rollout(sim.SolverXPBD(model), model.state(), 15, 2e-3).final

    paths = [p for p in model.materials if "branches" in p or p.endswith(("young", "poisson", "spin"))]
    assert sum("branches" in p for p in paths) == 4
    check_model_gradients(model, final, paths, rel=1e-5, abs=1e-10)


def test_yield_strains_of_cloth_do_not_depend_on_the_mesh():
    """A strip that is pulled to twice its yield strain: every edge has slipped by the same strain."""
    for cells in (2, 4):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        branches = [{"stiffness": 1.0, "yield": 0.05}]
        builder.add_cloth_grid(
            dim_x=cells, dim_y=1, cell_x=1.0 / cells, cell_y=1.0, density=1e20, label="sheet",
            material={"distance": {"compliance": 1e-2, "branches": branches}},
        )  # fmt: skip
        model = builder.finalize(dtype=sim.float64)
        state, after = model.state(), model.state()
        state.particle_q.assign(model.particle_q.numpy() * [1.1, 1.0, 1.0])
        sim.SolverXPBD(model).step(state, after, None, None, 1e-3)
        (made,) = model.constraint_sets.values()
        strain = after.internal_variables["distance_yielding.inner"].numpy()[:, 0] / made.parameters["rest"].numpy()
        along = np.ptp(model.particle_q.numpy()[made.points.numpy()][:, :, 0], axis=1) > 0
        np.testing.assert_allclose(strain, np.where(along, 0.05, 0.0), atol=1e-12)


def test_internal_friction_of_a_fabric():
    """A sheet whose hinges yield stays bent where it has been bent, as far as friction holds it."""
    ends = []
    for branches in ([], [{"stiffness": 2.0, "yield": 0.5}]):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        group = builder.add_cloth_grid(
            dim_x=4, dim_y=1, cell_x=0.1, cell_y=0.1, density=0.2, label="sheet",
            material={"distance": {"compliance": 1e-3, "damping": 5e-3}, "shear": {"compliance": 1e-3},
                      "bend": {"compliance": 30.0, "damping": 0.05, "branches": branches}},
        )  # fmt: skip
        builder.add_attachment(group.choose({"x": [None, 0.11]}))
        pushed = builder.finalize(dtype=sim.float64)
        free = group.choose({"x": [0.35, None]})
        state, after, solver = pushed.state(), pushed.state(), sim.SolverXPBD(pushed)
        assert step_warnings(solver, [2e-3]) == []
        for k in range(1200):
            force = np.zeros((pushed.particle_count, 3))
            force[free, 2] = 0.01 * (k < 400)
            state.particle_f.assign(force)
            solver.step(state, after, None, None, 2e-3)
            state, after = after, state
        ends.append(state.particle_q.numpy()[free, 2].mean())
    assert abs(ends[0]) < 5e-3
    assert ends[1] > 0.02


def test_values_of_each_element_and_world():
    builder = sim.ModelBuilder()
    times = np.linspace(0.01, 0.05, 3)
    builder.add_chain((0, 0, 0), (1, 0, 0), 4, 1.0, label="rope", material={
        "distance": {"compliance": 1e-3, "branches": [{"stiffness": 0.4, "time": times}]}})  # fmt: skip
    model = builder.replicate(2).finalize(dtype=sim.float64)
    assert model["rope.distance.branches.0.stiffness"].shape == (2,)
    np.testing.assert_array_equal(model["rope.distance.branches.0.time"].numpy(), np.tile(times, 2))
    state = sim.rollout(sim.SolverXPBD(model), model.state(), 10, 1e-2).final
    one, other = (state.particle_q.numpy()[model.groups["rope"].of_world(w)] for w in (0, 1))
    np.testing.assert_array_equal(one, other)


def test_other_solvers_and_float32_see_the_same():
    """XPBD in both precisions, and the same constraints as explicit forces: together to what the step leaves."""
    ends = []
    for solver, dtype in (
        (sim.SolverXPBD, sim.float64),
        (sim.SolverXPBD, sim.float32),
        (sim.SolverSemiImplicit, sim.float64),
    ):
        builder = sim.ModelBuilder()
        links = {"compliance": 1e-3, "damping": 1e-3, "branches": [*PRONY[:2], {"stiffness": 0.3, "yield": 1e-3}]}
        builder.add_chain((0, 0, 0), (1, 0, 0), 4, 0.5, label="rope", material={"distance": links})
        builder.add_attachment([0])
        model = builder.finalize(dtype=dtype)
        ends.append(sim.rollout(solver(model), model.state(), 2000, 2e-4).final.particle_q.numpy())
    moved = np.abs(ends[0] - model.particle_q.numpy()).max()
    assert moved > 0.3
    np.testing.assert_allclose(ends[1], ends[0], atol=2e-3 * moved)
    np.testing.assert_allclose(ends[2], ends[0], atol=5e-3 * moved)


# ------------------------------------------------------------------------------------------ what cannot be
def test_which_constraints_may_branch():
    assert {name for name, c in REGISTRY.items() if may_branch(c)} >= {"distance", "bend", "stvk", "deviatoric"}
    for name in ("contact_plane", "attachment", "viscoelastic", "neo_hookean"):
        with pytest.raises(ConstraintError, match="no rows that may have branches"):
            branched(REGISTRY[name], ("time",))
    assert branched(REGISTRY["stvk"], ("time",)) is branched(REGISTRY["stvk"], ("time",))


@pytest.mark.parametrize(
    ("branches", "match"),
    [
        ([{"stiffness": 0.1}], "has the keys 'stiffness'"),
        ([{"stiffness": 0.1, "time": 0.1, "yield": 0.1}], "either 'time'"),
        ([{"stiffness": 0.1, "tau": 0.1}], "either 'time'"),
        ([{"stiffness": -0.1, "time": 0.1}], r"branches\[0\].stiffness"),
        ([{"stiffness": 0.1, "time": 0.0}], r"branches\[0\].time"),
        (0.3, "Give a list of branches"),
    ],
)
def test_what_is_no_branch(branches, match):
    with pytest.raises(sim.ModelError, match=match):
        pulled(branches)
