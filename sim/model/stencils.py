"""Which points the constraints of a material act on, and the sizes that turn its compliance into theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.constraints.base import Constraint
from sim.geometry import ClothGrid, TetMesh, Topology, tet_edges
from sim.model import checks
from sim.model.blocks import ConstraintBlock, constraint_values, registered
from sim.model.errors import ModelError

OF_THE_WORLD = {
    "attachment": "add_attachment",
    "contact_plane": "add_ground_plane",
    "contact_sphere": "add_shape_sphere",
}


@dataclass(frozen=True, eq=False)
class Stencil:
    """Points (n, k) of the constraints, counted from the first point of the object.

    length (n,) [m]: of the edge that a constraint stretches or bends about; area (n,) [m^2]: of the triangles there, or
    [m^3] the volume of a tetrahedron.
    """

    points: np.ndarray
    length: np.ndarray
    area: np.ndarray


Stencils = Callable[[Constraint], Stencil]


def cloth_stencils(topology: Topology, grid: ClothGrid | None) -> Stencils:
    """Edges for constraints of two points, triangles for three, hinges for four, and every point for one.

    On a grid `distance` acts on the edges along the axes and `shear` on the diagonals: warp and weft, and bias.
    """

    def of_edges(rows: np.ndarray) -> Stencil:
        return Stencil(topology.edges[rows], topology.edge_length[rows], topology.edge_area[rows])

    def stencil(constraint: Constraint) -> Stencil:
        if constraint.name == "shear":
            if grid is None:
                raise ModelError(
                    "material: 'shear' acts on the diagonals of a grid; a mesh has none",
                    "Leave it out: `distance` acts on all edges of a mesh",
                )
            return of_edges(topology.find_edges(grid.diagonals))
        if constraint.name == "distance" and grid is not None:
            return of_edges(topology.find_edges(grid.structural))
        if constraint.points == 1:
            everyone = np.arange(len(topology.positions), dtype=np.int32)[:, None]
            return Stencil(everyone, np.zeros(len(everyone)), topology.point_area)
        if constraint.points == 2:
            return of_edges(np.arange(len(topology.edges)))
        if constraint.points == 3:
            return Stencil(topology.triangles, np.sqrt(topology.triangle_area), topology.triangle_area)
        if constraint.points == 4:
            return Stencil(
                topology.hinges, topology.edge_length[topology.hinge_edge], topology.edge_area[topology.hinge_edge]
            )
        raise _unfit(constraint, "cloth")

    return stencil


def solid_stencils(mesh: TetMesh) -> Stencils:
    """Edges for constraints of two points, surface triangles for three, tetrahedra for four, lattice cells for eight,
    and every point for one."""
    edges = tet_edges(mesh.tets)

    def sides(points: np.ndarray) -> np.ndarray:
        return mesh.positions[points[:, 1]] - mesh.positions[points[:, 0]]

    def stencil(constraint: Constraint) -> Stencil:
        if constraint.name in ("bend", "shear"):
            raise ModelError(
                f"material: {constraint.name!r} is for cloth", "Solids take `neo_hookean`, `stvk`, `volume`, `distance`"
            )
        if constraint.points == 1:
            everyone = np.arange(len(mesh.positions), dtype=np.int32)[:, None]
            return Stencil(everyone, np.zeros(len(everyone)), np.ones(len(everyone)))
        if constraint.points == 2:
            return Stencil(edges, np.linalg.norm(sides(edges), axis=1), np.ones(len(edges)))
        if constraint.points == 3:
            a, b = sides(mesh.triangles), sides(mesh.triangles[:, [0, 2]])
            area = 0.5 * np.linalg.norm(np.cross(a, b), axis=1)
            return Stencil(mesh.triangles, np.sqrt(area), area)
        if constraint.points == 4:
            return Stencil(mesh.tets, np.cbrt(mesh.volumes), mesh.volumes)
        if constraint.points == 8:
            if not len(mesh.cells):
                raise ModelError(
                    f"material: {constraint.name!r} acts on the cells of a lattice; this mesh has none",
                    "Use add_soft_grid or a lattice, or another material",
                )
            volume = mesh.volumes.reshape(-1, 5).sum(axis=1)
            return Stencil(mesh.cells, np.cbrt(volume), volume)
        raise _unfit(constraint, "a solid")

    return stencil


def line_stencils(positions: np.ndarray) -> Stencils:
    """k neighbouring points of a chain for a constraint of k points."""

    def stencil(constraint: Constraint) -> Stencil:
        if constraint.name in (
            "bend",
            "shear",
        ):  # along a line the triangles of a hinge have no area, and their angle is no number
            raise ModelError(
                f"material: {constraint.name!r} is for cloth",
                "Chains take `distance`, or a constraint of your own of two or three neighbouring points",
            )
        count = len(positions) - constraint.points + 1
        if count < 1:
            raise ModelError(
                f"material: {constraint.name!r} needs {constraint.points} neighbouring points; the chain "
                f"has {len(positions)}",
                "Give it more points",
            )
        rows = np.arange(count)[:, None] + np.arange(constraint.points)
        length = np.linalg.norm(positions[rows[:, -1]] - positions[rows[:, 0]], axis=1)
        return Stencil(rows.astype(np.int32), length, np.ones(count))

    return stencil


def point_stencils(positions: np.ndarray) -> Stencils:
    """Every single point."""

    def stencil(constraint: Constraint) -> Stencil:
        if constraint.points != 1:
            raise _unfit(constraint, "loose particles")
        count = len(positions)
        return Stencil(np.arange(count, dtype=np.int32)[:, None], np.zeros(count), np.ones(count))

    return stencil


def material_blocks(label: str, kind: str, start: int, material: Any, stencils: Stencils) -> list[ConstraintBlock]:
    """The constraints of an object of this `kind` (cloth, chain, ...) whose first particle is `start`."""
    blocks = []
    material = checks.mapping("material", material)
    for name in material:
        constraint = registered(name, "material: constraint")
        if name in OF_THE_WORLD:
            raise ModelError(f"material: {name!r} is no material", f"Use {OF_THE_WORLD[name]}")
        if constraint.law is not None and kind != "soft":
            raise ModelError(f"material: {name!r} is for solids", "Use add_soft_grid or add_soft_mesh")
        stencil = stencils(constraint)
        spec = checks.mapping(f"material[{name!r}]", material[name])
        values, each = constraint_values(f"material[{name!r}]", constraint, spec, len(stencil.points))
        factor = np.ones(len(stencil.points))
        if not each and kind in constraint.factors:
            factor = np.asarray(constraint.factors[kind](stencil.length, stencil.area), np.float64)
        blocks.append(
            ConstraintBlock(
                label,
                f"{label}.{name}",
                constraint,
                stencil.points + np.int32(start),
                factor,
                values,
                size=stencil.area if constraint.law is not None else None,
            )
        )
    return blocks


def _unfit(constraint: Constraint, what: str) -> ModelError:
    return ModelError(
        f"material: {constraint.name!r} acts on {constraint.points} points, which {what} cannot give it",
        "Add it with add_constraints and name the points",
    )
