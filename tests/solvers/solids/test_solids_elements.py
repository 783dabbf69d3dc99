"""Hexahedra and quadratic tetrahedra: exact for linear fields, true to Young's modulus where they bend."""

import importlib.util

import numpy as np
import pytest
from tools.physics.solids import DENSITY, at
from tools.places import ROOT

import sim
from sim.geometry import GeometryError, solid_grid, solid_mesh, with_elements
from sim.model import ModelError
from sim.model.energy import constraint_energy, constraint_forces

ELEMENTS, LAWS = ("hexahedra", "quadratic"), ("stvk", "neo_hookean")
YOUNG, POISSON = 2e5, 0.4
SIZE = np.array([0.2, 0.3, 0.4])


def distorted() -> tuple[np.ndarray, np.ndarray]:
    """Points and tetrahedra of a box, as from a file: no lattice, and its inner points are moved."""
    grid = solid_grid(2, 2, 2, *(SIZE / 2)).mesh
    x = grid.positions.copy()
    inner = (x > 1e-9) & (x < SIZE - 1e-9)
    return x + np.random.default_rng(3).uniform(-0.02, 0.02, x.shape) * inner, grid.tets


def body(element: str, law: str = "stvk", **more) -> tuple[sim.Model, object]:
    """A box of hexahedra, or a distorted one of quadratic tetrahedra."""
    builder = sim.ModelBuilder(gravity=(0, 0, 0))
    options = {"density": DENSITY, "element": element, "label": "block"}
    options["material"] = {law: {"young": YOUNG, "poisson": POISSON, **more}}
    if element == "quadratic":
        x, tets = distorted()
        group = builder.add_soft_mesh(x, tets, **options)
    else:
        sizes = {f"cell_{axis}": side / 2 for axis, side in zip("xyz", SIZE, strict=True)}
        group = builder.add_soft_grid(dim_x=2, dim_y=2, dim_z=2, **sizes, **options)
    return builder.finalize(dtype=sim.float64, requires_grad=True), group


def energy(model: sim.Model, x: np.ndarray) -> float:
    state = at(model, x)
    return sum(constraint_energy(model, state, name) for name in model.constraint_sets)


def forces(model: sim.Model, x: np.ndarray) -> np.ndarray:
    out = sim.zeros(model.particle_count, sim.vec3d)
    constraint_forces(model, at(model, x), out)
    return out.numpy()


@pytest.mark.parametrize("element", ELEMENTS)
def test_mass_and_its_centre_are_those_of_the_body(element):
    model, group = body(element)
    mass = model.particle_mass.numpy()
    assert mass.min() > 0
    assert mass.sum() == pytest.approx(DENSITY * SIZE.prod(), rel=1e-12)
    np.testing.assert_allclose(
        mass @ group.positions / mass.sum(), SIZE / 2, rtol=1e-12 if element == "hexahedra" else 1e-9
    )


@pytest.mark.parametrize("element", ELEMENTS)
def test_patch_test(element):
    """A linear field, however large: the energy of the law, and no force on an inner point."""
    model, group = body(element)
    F = np.eye(3) + np.random.default_rng(1).uniform(-0.3, 0.3, (3, 3))
    x = group.positions @ F.T
    E = 0.5 * (F.T @ F - np.eye(3))
    mu, la = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
    assert energy(model, x) == pytest.approx(SIZE.prod() * (mu * np.sum(E * E) + la / 2 * np.trace(E) ** 2), rel=1e-12)
    f = forces(model, x)
    assert np.abs(f[~group.boundary]).max() < 1e-11 * np.abs(f).max()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_rigid_motions_exert_no_force(element, law):
    model, group = body(element, law)
    turn, _ = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    x = group.positions @ turn.T + [1.0, -2.0, 0.5]
    bent = x + 0.01 * np.random.default_rng(4).normal(size=x.shape)
    assert np.abs(forces(model, x)).max() < 1e-10 * np.abs(forces(model, bent)).max()


@pytest.mark.parametrize("element", ELEMENTS)
def test_nothing_but_a_rigid_motion_is_free(element):
    """Six zero eigenvalues of the stiffness: no mode of an element lacks a constraint."""
    K = beams().stiffness(body(element)[0]).toarray()
    values = np.linalg.eigvalsh(K) / np.abs(K).max()
    assert np.abs(values[:6]).max() < 1e-12 and values[6] > 1e-4


def beams():
    spec = importlib.util.spec_from_file_location("benchmark_of_elements", ROOT / "benchmarks" / "elements.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("poisson", [0.3, 0.45, 0.499])
def test_one_value_of_young_on_coarse_and_fine_meshes(poisson):
    """The E that gives the beam its drop: linear tetrahedra are 29 to 47 % apart."""
    tool = beams()
    coarse, fine, moved = (
        tool.young_found(kind, n, poisson)
        for kind, n in (("quadratic", 2), ("quadratic", 4), ("quadratic, distorted", 2))
    )
    assert coarse == pytest.approx(fine, rel=0.015)
    assert moved == pytest.approx(coarse, rel=0.005)
    bricks = [tool.young_found("hexahedra", n, poisson) for n in (3, 6)]
    assert bricks[0] == pytest.approx(bricks[1], rel=0.04)
    assert bricks[1] == pytest.approx(fine, rel=0.03)


def test_parts_of_an_element_share_its_values():
    """A value for each element reaches every constraint of it, and is one value."""
    model, group = body("quadratic")
    builder = sim.ModelBuilder()
    x, tets = distorted()
    young = np.linspace(1e5, 3e5, len(tets))
    group = builder.add_soft_mesh(
        x, tets, density=1.0, element="quadratic", label="b", material={"stvk": {"young": young, "poisson": 0.4}}
    )
    model = builder.finalize(dtype=sim.float64)
    assert model["b.stvk.young"].shape == (len(tets),) and group.elements["stvk"].shape == (len(tets), 10)
    volume = solid_mesh(x, tets).volumes
    modes = model.constraint_sets["quadratic_modes"]
    rows = modes.index_of["b"]
    want = np.repeat(2 * 1.4 / (2 * young * volume), 3)
    np.testing.assert_allclose(modes.compliance.numpy()[rows, 0], want, rtol=1e-12)


@pytest.mark.slow
def test_gradients_of_a_rollout_of_hexahedra():
    """By a law that three constraints share, against differences."""
    builder = sim.ModelBuilder(gravity=(-9.81, 0, 0))
    values = {"young": 1e5, "poisson": 0.4, "damping": 1e-3}
    group = builder.add_soft_grid(
        dim_x=1, dim_y=1, dim_z=2, cell_x=0.03, cell_y=0.03, cell_z=0.03, density=1070.0, element="hexahedra",
        label="block", vel=(-0.3, 0.1, 0.0), spin=(0.0, 2.0, 1.0), material={"stvk": values},
    )  # fmt: skip
    builder.add_attachment(group.choose({"z": [None, 1e-9]}))
    model = builder.finalize(dtype=sim.float64, requires_grad=True)
    weights = np.random.default_rng(5).normal(size=(model.particle_count, 3))
    solver = sim.SolverXPBD(model, start="elastic")

    def final() -> np.ndarray:
        states = [model.state() for _ in range(4)]
        for before, after in zip(states, states[1:], strict=False):
            solver.step(before, after, None, None, 2e-3)
        return states[-1].particle_q

    with sim.Tape() as tape:
        last = final()
    tape.backward(grads={last: sim.array(weights, dtype=sim.vec3d)})
    for key, value in values.items():
        array = model[f"block.stvk.{key}"]
        got, found = array.grad.numpy()[0], []
        for step in (-1e-4, 1e-4):
            array.assign([value * (1 + step)])
            found.append(np.sum(weights * final().numpy()))
        array.assign([value])
        assert got == pytest.approx((found[1] - found[0]) / (2e-4 * value), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"element": "hexes"}, "no elements called 'hexes'"),
        ({"element": "hexahedra"}, "hexahedra are the cells of a lattice"),
        ({"element": "quadratic", "material": {"viscoelastic": {}}}, "is for elements that are tetrahedra"),
        ({"material": {"quadratic_modes": {}}}, "is no material"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    x, tets = distorted()
    with pytest.raises(ModelError, match=message):
        sim.ModelBuilder().add_soft_mesh(x, tets, density=1.0, **options)


def test_two_laws_for_the_same_elements_are_refused():
    values = {"young": 1e5, "poisson": 0.3}
    x, tets = distorted()
    with pytest.raises(ModelError, match="two laws"):
        sim.ModelBuilder().add_soft_mesh(
            x, tets, density=1.0, element="quadratic", material={"stvk": values, "neo_hookean": values}
        )


def test_cells_that_are_no_boxes_are_no_hexahedra():
    mesh = solid_grid(1, 1, 2, 0.1, 0.1, 0.1).mesh
    mesh.positions[-1, 0] += 0.01
    with pytest.raises(GeometryError, match="cell 1 is no box"):
        with_elements(mesh, "hexahedra")
