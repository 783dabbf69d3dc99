"""The objects that a builder adds: their points and elements, counted from their own first point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sim.constraints.stencils import Chain, Cloth, LoosePoints, Meshed, Solid
from sim.geometry import (
    ClothGrid,
    EmbeddedSurface,
    TetMesh,
    check_cloth,
    mesh_topology,
    nodal_volumes,
    place,
    tet_edges,
)
from sim.model.build import checks
from sim.model.errors import ModelError
from sim.model.groups import NO_EDGES, NO_TETS, NO_TRIANGLES, Group

ORIGIN = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class ObjectOptions:
    """What a user may say of every object, beside its shape: see `ModelBuilder.add_particles`."""

    pos: Any
    rot: Any
    scale: float
    vel: Any
    spin: Any
    label: str | None
    material: Mapping[str, Any] | None
    thickness: float

    @property
    def axes(self) -> np.ndarray:
        """The axes of the object, turned: (3, 3), a row each."""
        return np.asarray(checks.geometry(place, np.eye(3), ORIGIN, checks.rotation("rot", self.rot)))

    def placed(self, points: np.ndarray) -> np.ndarray:
        """Turned and scaled about the origin; `pos` is added later, because it is a material value."""
        rotation = checks.rotation("rot", self.rot)
        return np.asarray(checks.geometry(place, points, ORIGIN, rotation, self.scale))


@dataclass(frozen=True, eq=False)
class NewObject:
    """An object with points `base` (n, 3), to be added.  weight: as in `PointBlock`, its key, value and factor."""

    thing: Meshed
    base: np.ndarray
    weight: tuple[str, np.ndarray, np.ndarray]
    triangles: np.ndarray = field(default_factory=NO_TRIANGLES.copy)
    edges: np.ndarray = field(default_factory=NO_EDGES.copy)
    tets: np.ndarray = field(default_factory=NO_TETS.copy)
    boundary: np.ndarray | None = None
    file_to_point: np.ndarray | None = None
    surface: EmbeddedSurface | None = None

    def group(self, name: str, start: int, position: np.ndarray, elements: Mapping[str, np.ndarray]) -> Group:
        """The group of its particles, of which the first is number `start`."""
        first, of_file = np.int32(start), self.file_to_point
        return Group(
            name,
            self.thing.kind,
            start,
            len(self.base),
            self.base + position,
            self.triangles + first,
            self.edges + first,
            self.tets + first,
            self.boundary,
            None if of_file is None else np.where(of_file < 0, -1, of_file.astype(np.int32) + first),
            self.surface,
            elements,
        )


def loose_particles(options: ObjectOptions, positions: Any, mass: Any) -> NewObject:
    """Points that nothing links; mass: of each."""
    base = options.placed(checks.vec3s("positions", positions))
    return NewObject(LoosePoints(base), base, ("mass", checks.values("mass", mass, len(base)), np.ones(len(base))))


def chain(options: ObjectOptions, start: Sequence[float], end: Sequence[float], points: int, mass: float) -> NewObject:
    """Points on a line, each with the same part of the mass."""
    if isinstance(points, bool) or int(points) != points or points < 2:
        raise ModelError(f"points = {points!r}", "A chain has a whole number of points, at least 2")
    ends = checks.vec3("start", start), checks.vec3("end", end)
    if np.array_equal(*ends):
        raise ModelError("start and end of the chain are the same place", "Its links would have no length")
    along = np.linspace(0.0, 1.0, int(points))[:, None]
    base = options.placed((1 - along) * ends[0] + along * ends[1])
    total = np.array([checks.number("mass", mass, positive=True)])
    first = np.arange(len(base) - 1, dtype=np.int32)
    links = np.stack([first, first + 1], axis=1)
    return NewObject(Chain(base), base, ("mass", total, np.full(len(base), 1 / len(base))), edges=links)


def cloth(
    options: ObjectOptions,
    vertices: np.ndarray,
    triangles: np.ndarray,
    mass: Any,
    density: Any,
    grid: ClothGrid | None = None,
    file_to_point: np.ndarray | None = None,
) -> NewObject:
    """A surface of triangles: with a mass of each point, or a density over the area of each."""
    base = options.placed(vertices)
    topology = checks.geometry(mesh_topology, base, triangles)
    checks.geometry(check_cloth, topology, options.label or "cloth")
    if (mass is None) == (density is None):
        raise ModelError("a cloth needs either mass (of each point) or density (kg/m^2)", "Give exactly one of them")
    if mass is not None:
        weight = "mass", checks.values("mass", mass, len(base)), np.ones(len(base))
    else:
        weight = "density", checks.values("density", density, len(base), positive=True), topology.point_area
    return NewObject(
        Cloth(topology, grid, options.axes),
        base,
        weight,
        topology.triangles,
        topology.edges,
        boundary=topology.boundary,
        file_to_point=file_to_point,
    )


def solid(options: ObjectOptions, mesh: TetMesh, density: Any, surface: EmbeddedSurface | None = None) -> NewObject:
    """A solid of tetrahedra or other elements, each of which gives its mass to its points: see `nodal_volumes`."""
    base = options.placed(mesh.positions)
    mesh = replace(mesh, positions=base)
    weight = "density", checks.values("density", density, len(base), positive=True), nodal_volumes(mesh)
    return NewObject(
        Solid(mesh),
        base,
        weight,
        mesh.triangles,
        tet_edges(mesh.tets),
        mesh.tets,
        mesh.boundary,
        mesh.file_to_point,
        surface,
    )


def index_table(indices: Any, width: int, what: str) -> np.ndarray:
    """The points of triangles or tetrahedra (m, width); a flat list, as Newton takes, is one too."""
    if indices is None:
        raise ModelError("indices are missing", f"Give the {what} (m, {width})")
    table = np.asarray(indices)
    return table.reshape(-1, width) if table.ndim == 1 and table.size % width == 0 else table
