"""Stencils: which elements of an object a constraint acts on, by its own declaration or by its number of points."""

import numpy as np
import pytest

import sim
from sim.constraints import REGISTRY
from sim.constraints.stencils import Cloth, Stencil


@pytest.fixture
def declare():
    """Declares constraints that are gone after the test."""
    before = dict(REGISTRY)
    yield sim.constraint
    REGISTRY.clear()
    REGISTRY.update(before)


def cloth(material, grid=True):
    builder = sim.ModelBuilder()
    if grid:
        return builder.add_cloth_grid(dim_x=2, dim_y=1, cell_x=1.0, cell_y=1.0, density=1.0, material=material)
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]])
    return builder.add_cloth_mesh(corners, [[0, 1, 2], [0, 2, 3]], density=1.0, material=material)


def soft(material):
    builder = sim.ModelBuilder()
    return builder.add_soft_grid(
        dim_x=1, dim_y=1, dim_z=1, cell_x=1.0, cell_y=1.0, cell_z=1.0, density=1.0, material=material
    )


def chain(material):
    return sim.ModelBuilder().add_chain((0, 0, 0), (1, 0, 0), 4, 1.0, material=material)


def test_what_a_number_of_points_stands_for(declare):
    for points in (1, 2, 3, 4, 8):
        declare(points=points, name=f"of_{points}")(lambda x: x[0][0])
    rigid = {f"of_{points}": {"compliance": 0.0} for points in (1, 2, 3, 4)}
    counts = {name: len(rows) for name, rows in cloth(rigid).elements.items()}
    assert counts == {"of_1": 6, "of_2": 9, "of_3": 4, "of_4": 3}  # points, edges, triangles, hinges
    counts = {name: len(rows) for name, rows in soft({**rigid, "of_8": {"compliance": 0.0}}).elements.items()}
    assert counts == {"of_1": 8, "of_2": 18, "of_3": 12, "of_4": 5, "of_8": 1}  # ..., tetrahedra, cells
    assert {name: rows.shape for name, rows in chain(rigid).elements.items()} == {
        f"of_{k}": (5 - k, k) for k in (1, 2, 3, 4)
    }


def test_a_stencil_of_ones_own_is_declared_with_the_constraint(declare):
    border = Stencil("edges of the border")

    @border.on(Cloth)
    def border_of_cloth(thing):
        t = thing.topology
        return thing.edges(np.flatnonzero(t.boundary[t.edges].all(axis=1)))

    @declare(points=2, stencil=border)
    def hem(x, rest: float):
        return sim.length(x[0] - x[1]) - rest

    group = cloth({"hem": {"compliance": 0.0}}, grid=False)
    assert len(group.elements["hem"]) == 5  # all points lie on the border, so the diagonal is one of its edges
    with pytest.raises(sim.ModelError, match="'hem' is for cloth.*Solids take"):
        soft({"hem": {"compliance": 0.0}})


def test_distance_and_shear_part_the_edges_of_a_grid():
    material = {"distance": {"compliance": 0.0}, "shear": {"compliance": 0.0}, "bend": {"compliance": 1.0}}
    counts = {name: len(rows) for name, rows in cloth(material).elements.items()}
    assert counts == {"distance": 7, "shear": 2, "bend": 3}
    assert len(cloth({"distance": {"compliance": 0.0}}, grid=False).elements["distance"]) == 5
    with pytest.raises(sim.ModelError, match="'shear' acts on the diagonals of a grid; a mesh has none"):
        cloth({"shear": {"compliance": 0.0}}, grid=False)
    assert len(soft({"distance": {"compliance": 0.0}}).elements["distance"]) == 18


@pytest.mark.parametrize(("make", "name", "words"), [
    (soft, "bend", "is for cloth. Solids take"), (chain, "shear", "is for cloth. Chains take"),
    (chain, "cell_volume", "is for solids"), (cloth, "attachment", "is no material. Use add_attachment"),
    (soft, "contact_plane", "is no material. Use add_ground_plane"),
])  # fmt: skip
def test_what_is_refused(make, name, words):
    with pytest.raises(sim.ModelError, match=f"{name}' {words}"):
        make({name: {"compliance": 0.0}})


def test_too_few_points_and_points_that_an_object_has_not(declare):
    declare(points=5, name="of_5")(lambda x: x[0][0])
    with pytest.raises(sim.ModelError, match="'of_5' needs 5 neighbouring points; the chain has 4. Give it more"):
        chain({"of_5": {"compliance": 0.0}})
    with pytest.raises(sim.ModelError, match="'of_5' acts on 5 points, which cloth cannot give it"):
        cloth({"of_5": {"compliance": 0.0}})
    with pytest.raises(sim.ModelError, match="'bend' acts on 4 points, which loose particles cannot give it"):
        sim.ModelBuilder().add_particles(np.eye(3), 1.0, material={"bend": {"compliance": 1.0}})
