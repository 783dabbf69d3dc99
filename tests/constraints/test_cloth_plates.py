"""Plates: energies of curved sheets, deflections and rest shapes in closed form on any mesh; gradients."""

import numpy as np
import pytest
from material_tables import deflection, energy, sheet, strip
from sheet_meshes import MESHES
from tools.constraints.cloth import check_values_by_element
from tools.constraints.samples import SEED
from tools.physics.steps import central

import sim
from sim.model.energy import constraint_forces

B, POISSON = 2e-3, 0.3
PLATE = {"stiffness": B, "poisson": POISSON}
WOVEN = {"warp": 3e-3, "weft": 1e-3, "twist": 5e-4, "poisson": 0.2, "angle": 0.4}
AS_PLATE = {"warp": B * (1 - POISSON**2), "weft": B * (1 - POISSON**2), "twist": B * (1 - POISSON) / 2} | {
    "poisson": POISSON,
    "angle": 0.7,
}
SIZE = (1.0, 0.25)
CURVED = {  # heights over the sheet, and the energy per area over B / 2
    "cylinder": (lambda x, y: x * x / 2, 1.0),
    "sphere": (lambda x, y: (x * x + y * y) / 2, 2 * (1 + POISSON)),
    "saddle": (lambda x, y: x * y, 2 * (1 - POISSON)),
    "other saddle": (lambda x, y: (x * x - y * y) / 2, 2 * (1 - POISSON)),
}


@pytest.mark.parametrize("name", ["plate", "fabric_bend"])
@pytest.mark.parametrize("mesh", MESHES)
def test_curved_sheets(mesh, name):
    """Quadratics have their energy exactly, up to the square of the slope."""
    x, triangles = MESHES[mesh]((16, 4), SIZE)
    model = sheet((x, triangles), {name: PLATE if name == "plate" else AS_PLATE})
    for height, density in CURVED.values():
        q = x + [0, 0, 1e-4] * height(x[:, :1], x[:, 1:2])
        assert energy(model, q) == pytest.approx(0.25 * B / 2 * density * 1e-8, rel=1e-6)


def test_woven_sheets_bend_by_the_direction():
    """A cylinder at an angle to the warp, against the compliances that testing machines read."""
    x, triangles = MESHES["Delaunay"]((8, 2), SIZE)
    model = sheet((x, triangles), {"fabric_bend": WOVEN})
    compliance = np.diag([1 / WOVEN["warp"], 1 / WOVEN["weft"], 1 / WOVEN["twist"]])
    compliance[0, 1] = compliance[1, 0] = -WOVEN["poisson"] / np.sqrt(WOVEN["warp"] * WOVEN["weft"])
    for turn in (0.0, 0.4, 1.1, 2.0):
        q = x + [0, 0, 1e-4] * (np.cos(turn) * x[:, :1] + np.sin(turn) * x[:, 1:2]) ** 2 / 2
        c, s = np.cos(turn - WOVEN["angle"]), np.sin(turn - WOVEN["angle"])
        k = 1e-4 * np.array([c * c, s * s, 2 * c * s])
        assert energy(model, q) == pytest.approx(0.25 * 0.5 * k @ np.linalg.solve(compliance, k), rel=1e-6)


@pytest.mark.parametrize("mesh", MESHES)
def test_a_sheet_rolled_up(mesh):
    """A quarter of a tube: 0.5 B k^2 to 1 %, whichever way it is turned."""
    x, triangles = MESHES[mesh]((16, 4), SIZE)
    model, k = sheet((x, triangles), {"plate": PLATE}), np.pi / 2
    tube = np.stack([np.sin(k * x[:, 0]) / k, x[:, 1], (1 - np.cos(k * x[:, 0])) / k], axis=1)
    turn = np.linalg.qr(np.random.default_rng(SEED).normal(size=(3, 3)))[0]
    assert energy(model, tube @ turn.T) == pytest.approx(0.25 * 0.5 * B * k * k, rel=1e-2)


@pytest.mark.parametrize("kind", MESHES)
def test_a_cantilevered_strip(kind):
    """w L^4 / (8 B) with 8 and 16 cells, two cells wide."""
    plate = {"plate": {"stiffness": 1.0}}
    assert deflection(kind, 8, plate) == pytest.approx(1.0, abs=2.5e-2)
    assert deflection(kind, 16, plate) == pytest.approx(1.0, abs=2e-2)


def test_a_woven_strip_has_the_stiffness_of_its_direction():
    for warp, weft, angle in ((1.0, 5.0, 0.0), (5.0, 1.0, np.pi / 2)):
        woven = {"fabric_bend": {"warp": warp, "weft": weft, "twist": 0.5, "angle": angle}}
        assert deflection("union jack", 16, woven) == pytest.approx(1.0, abs=2.5e-2)


def test_elastica():
    """A strip that hangs far down under w L^3 / B = 4: end at 0.890111 L, 0.425159 L (elastica, by quadrature)."""
    x, triangles = strip("union jack", 16)
    held = np.flatnonzero(x[:, 0] < 1e-9)
    stiff = {"young": 1.2e5 * B, "poisson": 0.0, "thickness": 1.0}
    model = sheet((x, triangles), {"plate": {"stiffness": B}, "membrane_stvk": stiff}, held)
    state, out = model.state(), sim.zeros(len(x), sim.vec3d)
    free = np.setdiff1d(np.arange(len(x)), held)
    dofs, mass = (3 * free[:, None] + np.arange(3)).ravel(), model.particle_mass.numpy()

    def force(q, load):
        state.particle_q.assign(q.reshape(-1, 3))
        out.zero_()
        constraint_forces(model, state, out)
        return (out.numpy() - load * B * mass[:, None] * [0, 0, 1]).ravel()[dofs]

    q = x.ravel().copy()
    for load in (2.0, 4.0):
        for _ in range(40):
            residual = force(q, load)
            if np.abs(residual).max() < 1e-9 * B:
                break
            stiffness = np.empty((len(dofs), len(dofs)))
            for column, dof in enumerate(dofs):
                moved = q.copy()
                moved[dof] += 1e-6
                stiffness[:, column] = (residual - force(moved, load)) / 1e-6
            values, modes = np.linalg.eigh(0.5 * (stiffness + stiffness.T))
            step = modes @ ((modes.T @ residual) / np.maximum(np.abs(values), 1e-6 * B))
            q[dofs] += step * min(1.0, 0.15 / np.abs(step).max())
    end = q.reshape(-1, 3)[x[:, 0] > 1 - 1e-9].mean(axis=0)
    assert np.abs(residual).max() < 1e-9 * B
    np.testing.assert_allclose(end[[0, 2]], [0.890111, -0.425159], rtol=2e-2)


def tube(material, k=2.0):
    x, triangles = MESHES["Delaunay"]((16, 4), SIZE)
    rolled = np.stack([np.sin(k * x[:, 0]) / k, x[:, 1], (1 - np.cos(k * x[:, 0])) / k], axis=1)
    return x, rolled, sheet((rolled, triangles), material)


def test_rest_shapes():
    """A shell at rest has no energy; flattened that of its curvature; told that it was flat, at rest that."""
    k, one = 2.0, 0.25 * 0.5 * B * 4.0
    flat, rolled, shell = tube({"plate": PLATE})
    assert energy(shell, rolled) < 1e-20
    assert energy(shell, flat) == pytest.approx(one, rel=2e-2)
    flat, rolled, was_flat = tube({"plate": PLATE | {"curvature": 0.0}})
    assert energy(was_flat, rolled) == pytest.approx(one, rel=2e-2)
    assert energy(was_flat, flat) < 1e-4 * one
    x, triangles = MESHES["grid"]((16, 4), SIZE)
    curled = sheet((x, triangles), {"fabric_bend": AS_PLATE | {"angle": 0.0, "curl_warp": k, "curl_weft": 0.0}})
    assert energy(curled, x) == pytest.approx(one, rel=1e-6)
    rolled = np.stack([np.sin(k * x[:, 0]) / k, x[:, 1], (1 - np.cos(k * x[:, 0])) / k], axis=1)
    assert energy(curled, rolled) < 1e-3 * one


def test_a_point_reached_twice_counts_once():
    """Around a vertex of three triangles the neighbours of neighbours are neighbours: forces balance all the same."""
    top = np.array([[0, 0, 0.3], [1, 0, 0], [-0.5, 0.8, 0], [-0.5, -0.8, 0.1], [1.5, 1.5, 0]])
    model = sheet((top, np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [2, 1, 4]])), {"plate": PLATE})
    state, out = model.state(), sim.zeros(5, sim.vec3d)
    q = top + 0.1 * np.random.default_rng(SEED).normal(size=(5, 3))
    state.particle_q.assign(q)
    constraint_forces(model, state, out)
    force = out.numpy()
    np.testing.assert_allclose(force.sum(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(np.cross(q, force).sum(axis=0), 0, atol=1e-13)
    direction = np.random.default_rng(1).normal(size=(5, 3))
    assert -(force * direction).sum() == pytest.approx(central(lambda at: energy(model, at), q, direction), rel=1e-6)
    final = sim.rollout(sim.SolverXPBD(model, 3), state, 20, 1e-3).final
    momentum = model.particle_mass.numpy() @ final.particle_qd.numpy()
    np.testing.assert_allclose(momentum, 0, atol=1e-12)


@pytest.mark.parametrize("name", ["plate", "fabric_bend"])
def test_gradients_by_every_value_of_every_element(name):
    """A rollout's gradient by each material value, one for each triangle, against differences."""
    rng = np.random.default_rng(SEED)
    x, triangles = MESHES["Delaunay"]((3, 2), SIZE)
    rest = np.c_[x[:, :2], 0.2 * x[:, 0] ** 2]
    values = PLATE | {"curvature": 0.8} if name == "plate" else WOVEN | {"curvature": 0.8, "curl_warp": 0.3}
    each = {key: value * rng.uniform(0.9, 1.1, len(triangles)) for key, value in values.items()}
    spring = {"membrane_stvk": {"young": 50.0, "poisson": 0.3, "thickness": 1.0}}
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    material = {name: each | {"damping": 2e-3}} | spring
    builder.add_cloth_mesh(vertices=rest, indices=triangles, density=1.0, label="sheet", material=material)
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    solver = sim.SolverXPBD(model, 2)
    start = rest + 0.02 * rng.normal(size=(len(x), 3))

    def run():
        state = model.state()
        state.particle_q.assign(start)
        return sim.rollout(solver, state, 5, 1e-2).final.particle_q

    check_values_by_element(model, run, f"sheet.{name}", each, rng)


def test_worlds_are_held_alike():
    """What a plate wants to know of held points is the same in every world."""
    x, triangles = strip("grid", 4)
    energies = []
    for worlds in (1, 3):
        builder = sim.ModelBuilder(gravity=(0, 0, 0))
        group = builder.add_cloth_mesh(vertices=x, indices=triangles, density=1.0, material={"plate": PLATE})
        builder.add_attachment(group.points[x[:, 0] < 1e-9])
        model = builder.replicate(worlds).finalize(dtype=sim.float64)
        q = model.particle_q.numpy()
        energies.append(energy(model, q + [0, 0, 1e-3] * q[:, :1] ** 2))
    assert energies[1] == pytest.approx(3 * energies[0], rel=1e-12)
