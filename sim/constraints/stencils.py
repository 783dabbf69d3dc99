"""Stencils: the points of an object that one constraint of its material acts on.

A constraint that says nothing acts on what its number of points stands for on an object (`defaults` of the object).
One that means others brings a stencil along, with a function for each kind of object that has it:

    DIAGONALS = Stencil("the diagonals of a grid")

    @DIAGONALS.on(Cloth)
    def diagonals_of_cloth(cloth):
        return cloth.edges(cloth.topology.find_edges(cloth.grid.diagonals))

    @constraint(points=2, stencil=DIAGONALS)
    def shear(x, rest: float): ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sim.geometry import QUADRATIC_TURNS, ClothGrid, GeometryError, TetMesh, Topology, element_volumes, tet_edges

Given = Callable[[np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Elements:
    """Points (n, k) of the constraints, counted from the first point of the object.

    length (n,) [m]: of the edge that a constraint stretches or bends about; area (n,) [m^2]: of the triangles there, or
    [m^3] the volume of a tetrahedron.  given: parameters of the constraint that the mesh decides, (n,) or (n, 3), for a
    choice of held points of the object (points,) bool: those that the solver does not move.
    """

    points: np.ndarray
    length: np.ndarray
    area: np.ndarray
    given: Given | None = None


Finder = Callable[[Any], Elements]


@dataclass(frozen=True, eq=False)
class Stencil:
    """How elements are found, by the class of the object.

    elsewhere: does the number of points decide on an object without a function here?  Else the constraint is refused.
    gives: names of the parameters that its elements bring along.
    """

    name: str
    elsewhere: bool = False
    gives: tuple[str, ...] = ()
    _finders: dict[type[Meshed], Finder] = field(default_factory=dict)

    def on(self, kind: type[Meshed]) -> Callable[[Finder], Finder]:
        """Decorator: a function (object) -> its elements; it raises GeometryError where this one has none."""

        def wrap(find: Finder) -> Finder:
            self._finders[kind] = find
            return find

        return wrap

    @property
    def nouns(self) -> str:
        """The objects that have it, in words."""
        return " and ".join(kind.noun for kind in self._finders)

    def find(self, thing: Any) -> Elements | None:
        """The elements of an object, None where its kind has no such stencil."""
        found = self._finders.get(type(thing))
        return None if found is None else found(thing)


class Meshed:
    """An object whose material has constraints.

    kind: as in `Group.kind`; noun, hint: for messages, what it is and which constraints it takes.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]
    hint: ClassVar[str] = ""
    defaults: ClassVar[dict[int, Stencil]] = {}

    @property
    def element(self) -> str:
        """The kind of its elements, which may have constraints of their own: see `Constraint.on_element`."""
        return "tetrahedra"

    def default(self, points: int) -> Stencil | None:
        """What a constraint of so many points acts on, None if on nothing."""
        return self.defaults.get(points)


POINTS, EDGES, TRIANGLES = Stencil("points"), Stencil("edges"), Stencil("triangles")
HINGES, TETRAHEDRA, CELLS = Stencil("hinges"), Stencil("tetrahedra"), Stencil("cells")
ELEMENTS, TURNS = Stencil("elements of a solid"), Stencil("elements of a solid, from three sides")


@dataclass(frozen=True, eq=False)
class Cloth(Meshed):
    """A surface of triangles; grid: where its edges along the axes and its diagonals are known; axes (3, 3): rows x, y
    and z of the object, as it is placed."""

    topology: Topology
    grid: ClothGrid | None
    axes: np.ndarray = field(default_factory=lambda: np.eye(3))

    kind, noun = "cloth", "cloth"
    defaults = {1: POINTS, 2: EDGES, 3: TRIANGLES, 4: HINGES}

    def edges(self, rows: np.ndarray) -> Elements:
        """Some of the edges."""
        t = self.topology
        return Elements(t.edges[rows], t.edge_length[rows], t.edge_area[rows])


@POINTS.on(Cloth)
def points_of_cloth(cloth: Cloth) -> Elements:
    return _every_point(cloth.topology.positions, cloth.topology.point_area)


@EDGES.on(Cloth)
def edges_of_cloth(cloth: Cloth) -> Elements:
    return cloth.edges(np.arange(len(cloth.topology.edges)))


@TRIANGLES.on(Cloth)
def triangles_of_cloth(cloth: Cloth) -> Elements:
    t = cloth.topology
    return Elements(t.triangles, np.sqrt(t.triangle_area), t.triangle_area)


@HINGES.on(Cloth)
def hinges_of_cloth(cloth: Cloth) -> Elements:
    """Two triangles with a common edge: the ends of the edge last."""
    t = cloth.topology
    return Elements(t.hinges, t.edge_length[t.hinge_edge], t.edge_area[t.hinge_edge])


@dataclass(frozen=True, eq=False)
class Solid(Meshed):
    """A solid of tetrahedra, or of other elements; the mesh has cells where it is a lattice."""

    mesh: TetMesh

    kind, noun = "soft", "a solid"
    hint = "Solids take `neo_hookean`, `stvk`, `volume`, `distance`"
    defaults = {1: POINTS, 2: EDGES, 3: TRIANGLES, 4: TETRAHEDRA, 8: CELLS}

    @property
    def element(self) -> str:
        return self.mesh.element

    def sides(self, points: np.ndarray) -> np.ndarray:
        """From the first to the second of the points."""
        return self.mesh.positions[points[:, 1]] - self.mesh.positions[points[:, 0]]


@POINTS.on(Solid)
def points_of_solid(solid: Solid) -> Elements:
    return _every_point(solid.mesh.positions)


@EDGES.on(Solid)
def edges_of_solid(solid: Solid) -> Elements:
    edges = tet_edges(solid.mesh.tets)
    return Elements(edges, np.linalg.norm(solid.sides(edges), axis=1), np.ones(len(edges)))


@TRIANGLES.on(Solid)
def triangles_of_solid(solid: Solid) -> Elements:
    """Those of its surface."""
    triangles = solid.mesh.triangles
    a, b = solid.sides(triangles), solid.sides(triangles[:, [0, 2]])
    area = 0.5 * np.linalg.norm(np.cross(a, b), axis=1)
    return Elements(triangles, np.sqrt(area), area)


@TETRAHEDRA.on(Solid)
def tetrahedra_of_solid(solid: Solid) -> Elements:
    return Elements(solid.mesh.tets, np.cbrt(solid.mesh.volumes), solid.mesh.volumes)


@CELLS.on(Solid)
def cells_of_solid(solid: Solid) -> Elements:
    if not len(solid.mesh.cells):
        raise GeometryError(
            "acts on the cells of a lattice; this mesh has none",
            "Use add_soft_grid or a lattice, or another material",
        )
    volume = solid.mesh.volumes.reshape(-1, 5).sum(axis=1)  # five tetrahedra in each cell
    return Elements(solid.mesh.cells, np.cbrt(volume), volume)


@ELEMENTS.on(Solid)
def elements_of_solid(solid: Solid) -> Elements:
    """Hexahedra, or quadratic tetrahedra."""
    volume = element_volumes(solid.mesh)
    return Elements(solid.mesh.elements, np.cbrt(volume), volume)


@TURNS.on(Solid)
def turns_of_solid(solid: Solid) -> Elements:
    """Each quadratic tetrahedron three times in a row, with its corners 1, 2, 3 turned about corner 0."""
    one = elements_of_solid(solid)
    points = one.points[:, QUADRATIC_TURNS].reshape(-1, 10)
    return Elements(points, np.repeat(one.length, 3), np.repeat(one.area, 3))


@dataclass(frozen=True, eq=False)
class Chain(Meshed):
    """Points in a line: k neighbours for a constraint of k points."""

    positions: np.ndarray

    kind, noun = "chain", "a chain"
    hint = "Chains take `distance`, or a constraint of your own of two or three neighbouring points"

    def default(self, points: int) -> Stencil:
        made = Stencil(f"{points} neighbours")

        @made.on(Chain)
        def neighbours(chain: Chain) -> Elements:
            count = len(chain.positions) - points + 1
            if count < 1:
                raise GeometryError(
                    f"needs {points} neighbouring points; the chain has {len(chain.positions)}", "Give it more points"
                )
            rows = np.arange(count)[:, None] + np.arange(points)
            length = np.linalg.norm(chain.positions[rows[:, -1]] - chain.positions[rows[:, 0]], axis=1)
            return Elements(rows.astype(np.int32), length, np.ones(count))

        return made


@dataclass(frozen=True, eq=False)
class LoosePoints(Meshed):
    """Points that nothing links."""

    positions: np.ndarray

    kind, noun = "particles", "loose particles"
    defaults = {1: POINTS}


@POINTS.on(LoosePoints)
def points_of_particles(loose: LoosePoints) -> Elements:
    return _every_point(loose.positions)


def _every_point(positions: np.ndarray, area: np.ndarray | None = None) -> Elements:
    n = len(positions)
    return Elements(np.arange(n, dtype=np.int32)[:, None], np.zeros(n), np.ones(n) if area is None else area)
