"""Membranes and fabric: energies in closed form on any mesh, moduli as they are given, gradients by every value."""

import numpy as np
import pytest
from sheet_meshes import MESHES
from tools.constraints.cloth import check_values_by_element
from tools.constraints.samples import SEED

import sim
from sim.model.energy import constraint_energy, constraint_forces

SIZE, THICKNESS = (0.4, 0.25), 2e-3
YOUNG, POISSON = 3e5, 0.35
ISOTROPIC = {"young": YOUNG, "poisson": POISSON, "thickness": THICKNESS}
WOVEN = {"warp": 120.0, "weft": 45.0, "shear": 8.0, "poisson": 0.3, "angle": 0.4}
MATERIALS = {"membrane_stvk": ISOTROPIC, "membrane_neo_hookean": ISOTROPIC, "fabric": WOVEN}
TURN = np.linalg.qr(np.random.default_rng(SEED).normal(size=(3, 3)))[0]


def sheet(mesh, material, grad=False, cells=(4, 3), **options):
    x, triangles = MESHES[mesh](cells, SIZE)
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    builder.add_cloth_mesh(vertices=x, indices=triangles, density=0.2, label="sheet", material=material, **options)
    return builder.finalize(dtype=sim.float64, requires_grad=grad), x[:, :2]


def energy(mesh, name, deformation, **changed):
    """Per area [J/m^2], of a sheet deformed by a matrix (3, 2)."""
    model, x = sheet(mesh, {name: MATERIALS[name] | changed})
    state = model.state()
    state.particle_q.assign(x @ np.asarray(deformation).T)
    return constraint_energy(model, state, name) / (SIZE[0] * SIZE[1])


def closed_form(name, f):
    if name == "fabric":
        c, s = np.cos(WOVEN["angle"]), np.sin(WOVEN["angle"])
        u, v = f @ [c, s], f @ [-s, c]
        e = np.array([np.linalg.norm(u) - 1, np.linalg.norm(v) - 1])
        compliance = np.diag([1 / WOVEN["warp"], 1 / WOVEN["weft"]])  # strains of forces: e = S f
        compliance[0, 1] = compliance[1, 0] = -WOVEN["poisson"] / np.sqrt(WOVEN["warp"] * WOVEN["weft"])
        return 0.5 * e @ np.linalg.solve(compliance, e) + 0.5 * WOVEN["shear"] * (u @ v) ** 2
    e = 0.5 * (f.T @ f - np.eye(2))
    if name == "membrane_stvk":
        stiffness = THICKNESS * YOUNG / (1 - POISSON**2)
        return 0.5 * stiffness * ((1 - POISSON) * (e * e).sum() + POISSON * np.trace(e) ** 2)
    # the solid, at the thickness for which its energy is least
    mu, lam = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    area, total = np.sqrt(np.linalg.det(f.T @ f)), lam + mu
    thin = np.linspace(0.2, 3.0, 200_001)
    solid = mu / 2 * ((f * f).sum() + thin**2) + total / 2 * (area * thin - 1 - mu / total) ** 2
    return THICKNESS * solid.min()


@pytest.mark.parametrize("name", MATERIALS)
@pytest.mark.parametrize("mesh", MESHES)
def test_patch(mesh, name):
    """A deformation that is the same everywhere has its energy in closed form, whatever the mesh."""
    for f in ([[1.1, 0.05], [-0.02, 0.93], [0.2, 0.1]], [[0.8, 0.3], [0.1, 1.4], [0.0, 0.0]]):
        f = TURN @ np.array(f)
        rel = 1e-9 if name == "membrane_neo_hookean" else 1e-12  # the thickness is looked for on a grid
        assert energy(mesh, name, f) == pytest.approx(closed_form(name, f), rel=rel)


@pytest.mark.parametrize("name", ["membrane_stvk", "membrane_neo_hookean"])
def test_small_strains_see_the_moduli(name):
    """Second differences of the energy: E t in a strip that contracts by nu, G t = E t / (2 (1 + nu)) in shear."""
    strain, base = 1e-4, energy("Delaunay", name, np.eye(3, 2))
    pulled = energy("Delaunay", name, [[1 + strain, 0], [0, 1 - POISSON * strain], [0, 0]]) - base
    assert 2 * pulled / strain**2 == pytest.approx(YOUNG * THICKNESS, rel=1e-3)
    sheared = energy("Delaunay", name, [[1, strain], [0, 1], [0, 0]]) - base
    assert 2 * sheared / strain**2 == pytest.approx(YOUNG * THICKNESS / (2 * (1 + POISSON)), rel=1e-3)


@pytest.mark.parametrize("mesh", ["grid", "Delaunay"])
def test_a_strip_that_is_pulled_contracts_by_poissons_ratio(mesh):
    """Forces of the deformed strip: none across, E t strain per width along."""
    model, x = sheet(mesh, {"membrane_stvk": ISOTROPIC}, cells=(6, 5))
    state, out, strain = model.state(), sim.zeros(len(x), sim.vec3d), 1e-6
    state.particle_q.assign(np.c_[x * [1 + strain, 1 - POISSON * strain], np.zeros(len(x))])
    constraint_forces(model, state, out)
    force, end = out.numpy(), np.isclose(x[:, 0], SIZE[0])
    assert -force[end, 0].sum() == pytest.approx(YOUNG * THICKNESS * strain * SIZE[1], rel=1e-5)
    np.testing.assert_allclose(force[~end & (x[:, 0] > 0)], 0, atol=1e-5 * np.abs(force).max())


def test_warp_and_weft_are_what_a_testing_machine_reads():
    """Force per width over stretch, at 20 % too, with the other direction free to contract."""
    values = WOVEN | {"angle": 0.0}
    ratio = values["poisson"] * np.sqrt(values["warp"] / values["weft"])
    for stretch in (0.01, 0.2):
        at = [[1 + stretch, 0], [0, 1 - ratio * stretch], [0, 0]]
        assert energy("union jack", "fabric", at, angle=0.0) == pytest.approx(0.5 * 120 * stretch**2, rel=1e-12)


def test_the_warp_turns_with_the_object_and_goes_level_around_a_tube():
    along = {"fabric": WOVEN | {"warp": 1e4, "weft": 1.0, "shear": 1.0, "poisson": 0.0, "angle": 0.0}}
    quarter = (0.0, 0.0, 0.5**0.5, 0.5**0.5)  # about z
    model, x = sheet("grid", along, rot=quarter)
    state = model.state()
    state.particle_q.assign(state.particle_q.numpy() * [1, 1.1, 1])  # its own x axis
    assert constraint_energy(model, state, "fabric") == pytest.approx(0.5 * 1e4 * 0.01 * SIZE[0] * SIZE[1], rel=1e-9)
    x, triangles = MESHES["grid"]((24, 2), (2 * np.pi, 0.5))
    tube = np.stack([np.cos(x[:, 0]), x[:, 1], np.sin(x[:, 0])], axis=1)
    builder = sim.ModelBuilder()
    builder.add_cloth_mesh(vertices=tube, indices=triangles, density=0.2, label="tube", material=along)
    state = builder.finalize(dtype=sim.float64).state()
    state.particle_q.assign(tube * [1, 1.1, 1])
    assert constraint_energy(state.model, state, "fabric") < 1e-5 * 1e4
    state.particle_q.assign(tube * [1.1, 1, 1.1])
    assert constraint_energy(state.model, state, "fabric") == pytest.approx(0.5 * 1e4 * 0.01 * np.pi, rel=2e-2)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n == "membrane_neo_hookean" else n for n in MATERIALS]
)
def test_gradients_by_every_value_of_every_element(name):
    """A rollout's gradient by each material value, one for each triangle, against differences."""
    rng = np.random.default_rng(SEED)
    _, triangles = MESHES["Delaunay"]((2, 2), SIZE)
    each = {key: value * rng.uniform(0.9, 1.1, len(triangles)) for key, value in (MATERIALS[name]).items()}
    model, x = sheet("Delaunay", {name: each | {"damping": 2e-3}}, grad=True, cells=(2, 2))
    solver = sim.SolverXPBD(model, 2)
    start = np.c_[x * [1.05, 0.98], 0.02 * rng.normal(size=len(x))]

    def run():
        state = model.state()
        state.particle_q.assign(start)
        final = sim.rollout(solver, state, 5, 1e-3).final.particle_q
        return final

    check_values_by_element(model, run, f"sheet.{name}", each, rng)


@pytest.mark.parametrize("name", MATERIALS)
def test_damping_takes_energy_from_every_motion(name):
    rng = np.random.default_rng(SEED)
    left = []
    for damping in (0.0, 5e-3):
        model, x = sheet("grid", {name: MATERIALS[name] | {"damping": damping}}, cells=(2, 2))
        state = model.state()
        state.particle_q.assign(np.c_[x * 1.01, np.zeros(len(x))])
        state.particle_qd.assign(np.c_[0.1 * rng.normal(size=(len(x), 2)), np.zeros(len(x))])
        rng = np.random.default_rng(SEED)
        final = sim.rollout(sim.SolverXPBD(model, 4), state, 100, 1e-4).final
        left.append((final.particle_qd.numpy() ** 2).sum())
    assert left[1] < 0.5 * left[0]


def test_the_sheet_is_cloths_and_the_solid_is_not():
    with pytest.raises(sim.ModelError, match="'stvk' is for solids. Use add_soft_grid"):
        sheet("grid", {"stvk": {"young": 1.0, "poisson": 0.3}})
    with pytest.raises(sim.ModelError, match="'fabric' is for cloth. Use add_cloth_grid"):
        sim.ModelBuilder().add_chain((0, 0, 0), (1, 0, 0), 4, 1.0, material={"fabric": WOVEN})
    with pytest.raises(sim.ModelError, match=r"fabric.*needs 'weft' \[N/m\]"):
        sheet("grid", {"fabric": {"warp": 1.0, "shear": 1.0}})
