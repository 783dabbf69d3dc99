"""The part of `ModelBuilder` that adds objects of points: particles, chains, cloths, solids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.geometry import (
    ClothGrid,
    EmbeddedSurface,
    MeshFile,
    SolidGrid,
    TetMesh,
    cloth_grid,
    solid_grid,
    solid_mesh,
    with_elements,
)
from sim.model.build import checks
from sim.model.build.blocks import (
    AttachmentBlock,
    PointBlock,
)
from sim.model.build.points import objects
from sim.model.build.points.material_blocks import material_blocks
from sim.model.build.points.objects import ORIGIN, NewObject, ObjectOptions, index_table
from sim.model.build.self_contact import SelfContactBuilder
from sim.model.errors import ModelError
from sim.model.groups import Group


class ObjectBuilder(SelfContactBuilder):
    """Collects objects of points."""

    def __init__(self) -> None:
        super().__init__()
        self._points: list[PointBlock] = []
        self._attachments: list[AttachmentBlock] = []
        self._attached: dict[int, str] = {}
        self._loose: list[tuple[np.ndarray, np.ndarray, float]] = []
        self._count = 0

    # ------------------------------------------------------------------------------------------ what there is
    @property
    def particle_count(self) -> int:
        """Number of particles so far."""
        return self._count

    @property
    def tri_indices(self) -> np.ndarray:
        """The triangles so far: points (m, 3) int32."""
        return np.concatenate([np.zeros((0, 3), np.int32), *(g.triangles for g in self.groups.values())])

    # ------------------------------------------------------------------------------------------ objects
    def add_particle(self, pos: Sequence[float], vel: Sequence[float] = ORIGIN, mass: float = 1.0) -> int:
        """One particle: position, velocity, mass; mass 0 pins it.  Returns its number.

        Particles added in a row are one group, `particles`, with values for each: `particles.mass` has shape (n,).
        """
        self._open("add_particle")
        self._loose.append((checks.vec3("pos", pos), checks.vec3("vel", vel), checks.number("mass", mass)))
        self._count += 1
        return self._count - 1

    def add_particles(
        self,
        positions: Any,
        mass: Any,
        *,
        vel: Any = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        pos: Sequence[float] = ORIGIN,
        rot: Any = None,
        scale: float = 1.0,
        label: str | None = None,
        material: Mapping[str, Any] | None = None,
        thickness: float = 0.0,
    ) -> Group:
        """Particles at `positions` (n, 3).  mass of each: one number or (n,); vel: (3,) or (n, 3); spin [rad/s].

        pos, rot (quaternion or matrix) and scale place them; `material` takes constraints of one point.
        """
        self._open("add_particles")
        options = ObjectOptions(pos, rot, scale, vel, spin, label, material, thickness)
        return self._add(objects.loose_particles(options, positions, mass), options)

    def add_chain(
        self,
        start: Sequence[float],
        end: Sequence[float],
        points: int,
        mass: float,
        *,
        vel: Any = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        pos: Sequence[float] = ORIGIN,
        rot: Any = None,
        scale: float = 1.0,
        label: str | None = None,
        material: Mapping[str, Any] | None = None,
        thickness: float = 0.0,
    ) -> Group:
        """`points` points on the line from `start` to `end`, neighbours linked by the constraints of `material`.

        mass: of the whole chain; every point, the ends included, has mass / points.  A compliance is that of one link.
        """
        self._open("add_chain")
        options = ObjectOptions(pos, rot, scale, vel, spin, label, material, thickness)
        return self._add(objects.chain(options, start, end, points, mass), options)

    def add_cloth_grid(
        self,
        pos: Sequence[float] = ORIGIN,
        *,
        dim_x: int,
        dim_y: int,
        cell_x: float,
        cell_y: float,
        rot: Any = None,
        scale: float = 1.0,
        vel: Any = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        mass: Any = None,
        density: Any = None,
        reverse_winding: bool = False,
        fix_left: bool = False,
        fix_right: bool = False,
        fix_top: bool = False,
        fix_bottom: bool = False,
        label: str | None = None,
        material: Mapping[str, Any] | None = None,
        thickness: float = 0.0,
    ) -> Group:
        """A rectangular cloth of dim_x x dim_y cells in the plane z = 0 of its own frame, lower left corner at `pos`.

        Exactly one of mass (of each point [kg]: a number or one per point) and density [kg/m^2, likewise].  fix_*:
        pins the points of a side (left, right: lowest, highest x; bottom, top: lowest, highest y).

        material: `distance` acts on the edges along the axes and `shear` on the diagonals of the cells, one each:
        without `shear` nothing resists a pull along the bias.  `bend` acts on all hinges.
        """
        self._open("add_cloth_grid")
        grid = checks.geometry(cloth_grid, dim_x, dim_y, cell_x, cell_y, reverse_winding)
        options = ObjectOptions(pos, rot, scale, vel, spin, label, material, thickness)
        group = self._add(objects.cloth(options, grid.positions, grid.triangles, mass, density, grid), options)
        return self._fix_sides(group, grid, fix_left, fix_right, fix_top, fix_bottom)

    def add_cloth_mesh(
        self,
        vertices: Any = None,
        indices: Any = None,
        *,
        mesh: MeshFile | None = None,
        pos: Sequence[float] = ORIGIN,
        rot: Any = None,
        scale: float = 1.0,
        vel: Any = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        mass: Any = None,
        density: Any = None,
        label: str | None = None,
        material: Mapping[str, Any] | None = None,
        thickness: float = 0.0,
    ) -> Group:
        """A cloth from `vertices` (n, 3), `indices` (m, 3) of triangles, or `mesh` (of `sim.geometry.load_mesh`).

        The rest as in `add_cloth_grid`; `distance` acts on all edges.
        """
        self._open("add_cloth_mesh")
        if (mesh is None) == (vertices is None) or (mesh is not None and indices is not None):
            raise ModelError("add_cloth_mesh needs either mesh, or vertices and indices", "Give one of the two")
        file_to_point = None
        if mesh is not None:
            vertices, indices, file_to_point = mesh.positions, mesh.triangles, mesh.file_to_point
        triangles = index_table(indices, 3, "triangles")
        if triangles.ndim != 2 or triangles.shape[1] != 3:
            raise ModelError(f"indices have shape {triangles.shape}", "Give the triangles (m, 3)")
        options = ObjectOptions(pos, rot, scale, vel, spin, label, material, thickness)
        points = checks.vec3s("vertices", vertices)
        new = objects.cloth(options, points, triangles, mass, density, file_to_point=file_to_point)
        return self._add(new, options)

    def add_soft_grid(
        self,
        pos: Sequence[float] = ORIGIN,
        *,
        dim_x: int,
        dim_y: int,
        dim_z: int,
        cell_x: float,
        cell_y: float,
        cell_z: float,
        density: Any,
        element: str = "tetrahedra",
        rot: Any = None,
        scale: float = 1.0,
        vel: Any = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        fix_left: bool = False,
        fix_right: bool = False,
        fix_top: bool = False,
        fix_bottom: bool = False,
        label: str | None = None,
        material: Mapping[str, Any] | None = None,
        thickness: float = 0.0,
    ) -> Group:
        """A solid box of dim_x x dim_y x dim_z cells, five tetrahedra in each, its lowest corner at `pos`.

        element: `tetrahedra`, `hexahedra` (the cells), or `quadratic` (tetrahedra with points in the middles of their
        edges).  The last two bend as they should, with one value of Young's modulus on coarse and fine lattices.

        density: [kg/m^3], one number or one per point.  fix_*: pins the points of a side (left, right: lowest, highest
        x; bottom, top: lowest, highest y).
        material: `neo_hookean`, `stvk` with young [Pa], poisson and damping [s], ...
        """
        self._open("add_soft_grid")
        grid = checks.geometry(solid_grid, dim_x, dim_y, dim_z, cell_x, cell_y, cell_z, element)
        options = ObjectOptions(pos, rot, scale, vel, spin, label, material, thickness)
        group = self._add(objects.solid(options, grid.mesh, density), options)
        return self._fix_sides(group, grid, fix_left, fix_right, fix_top, fix_bottom)

    def add_soft_mesh(
        self,
        vertices: Any = None,
        indices: Any = None,
        *,
        mesh: TetMesh | None = None,
        surface: EmbeddedSurface | None = None,
        density: Any,
        element: str = "tetrahedra",
        pos: Sequence[float] = ORIGIN,
        rot: Any = None,
        scale: float = 1.0,
        vel: Any = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        label: str | None = None,
        material: Mapping[str, Any] | None = None,
        thickness: float = 0.0,
    ) -> Group:
        """A solid from `vertices` (n, 3), `indices` (m, 4) of tetrahedra, or `mesh` (of `sim.geometry.load_tets`).

        surface: one that is carried along, as `sim.geometry.fill_surface` returns it with the mesh.  element: as in
        `add_soft_grid`, `hexahedra` for a mesh of lattice cells only.  The rest as there.
        """
        self._open("add_soft_mesh")
        if (mesh is None) == (vertices is None) or (mesh is not None and indices is not None):
            raise ModelError("add_soft_mesh needs either mesh, or vertices and indices", "Give one of the two")
        options = ObjectOptions(pos, rot, scale, vel, spin, label, material, thickness)
        if mesh is None:
            tets = index_table(indices, 4, "tetrahedra")
            mesh = checks.geometry(solid_mesh, checks.vec3s("vertices", vertices), tets, label or "the solid")
        mesh = checks.geometry(with_elements, mesh, element, label or "the solid")
        return self._add(objects.solid(options, mesh, density, surface), options)

    # ------------------------------------------------------------------------------------------ settings of one object
    def set_drag(self, group: Group, drag: float) -> None:
        """Air drag on the points of an object: they are slowed down by drag |v|^2 [1/m].  Its path is `label.drag`."""
        self._open("set_drag")
        self._block_of(group).drag = checks.number("drag", drag)

    def set_air(self, group: Group, normal: float, tangential: float = 0.0) -> None:
        """Drag of the air on the triangles of an object, by its coefficients across and along them.

        A triangle of area A that moves by v relative to the wind feels -rho A / 2 (normal |v_n| v_n n + tangential
        |v_t| v_t).  Paths: `label.air.normal`, `label.air.tangential`, `wind`, `air_density`.
        """
        self._open("set_air")
        block = self._block_of(group)
        if not len(group.triangles):
            raise ModelError(f"{group!r} has no triangles for the air to act on", "Use set_drag: drag of its points")
        block.air = {"normal": checks.number("normal", normal), "tangential": checks.number("tangential", tangential)}

    def set_values(self, group: Group, key: str, values: Any) -> None:
        """A material value for each element of an object, (n,), instead of what it was added with.

        key: `density` or `mass`, whose elements are the points of the group; or `constraint.key` of its material, in
        the order of `group.elements[constraint]`.
        """
        self._open("set_values")
        block = self._block_of(group)
        constraint, _, inner = key.partition(".")
        if not inner:
            block.set_values(key, values)
            return
        checks.known(f"set_values: constraint of {group.name!r}", constraint, group.elements)
        prefix = f"{group.name}.{constraint}"
        # the first has one constraint for each element; the others are parts of the same elements, with its values
        next(b for b in self._constraints if b.prefix == prefix).set_values(inner, values)

    def give_each_point(self, group: Group, key: str) -> None:
        """Lets every point of an object have its own `position` or `velocity`: the same at first, (n,) in the model."""
        self._open("give_each_point")
        checks.known("give_each_point: key", key, ("position", "velocity"))
        self._block_of(group).give_each(key)

    # ------------------------------------------------------------------------------------------ inside
    def _block_of(self, group: Group) -> PointBlock:
        block = next((b for b in self._points if b.group is group), None)
        if block is None:
            raise ModelError(f"{group!r} is not of this builder", "Pass what an add_* method returned")
        return block

    def _add(self, new: NewObject, options: ObjectOptions) -> Group:
        """Adds an object behind those there are.  Where it raises, nothing has changed."""
        position, velocity = checks.vec3("pos", options.pos), _velocity(options.vel, len(new.base))
        thickness = checks.number("thickness", options.thickness)
        if len(new.triangles):
            checks.thinner(thickness, [new.base])
        self._close_loose()
        name, start = self._label(options.label, new.thing.kind), self._count
        spin = checks.vec3("spin", options.spin)[None]
        constraints = material_blocks(name, start, options.material, new.thing)
        # of the parts of an element the first stands last: it has one constraint for each of them
        elements = {b.prefix.partition(".")[2]: b.points for b in reversed(constraints)}
        group = new.group(name, start, position, elements)
        self.groups[name] = group
        self._labels.add(name)
        self._points.append(PointBlock(group, new.base, position[None], velocity, spin, *new.weight, thickness))
        self._constraints += constraints
        self._count = start + group.count
        return group

    def _fix_sides(
        self, group: Group, grid: ClothGrid | SolidGrid, left: bool, right: bool, top: bool, bottom: bool
    ) -> Group:
        """Pins the points of some sides of a grid."""
        sides = (left, grid.left), (right, grid.right), (top, grid.top), (bottom, grid.bottom)
        fixed = [side for wanted, side in sides if wanted]
        if fixed:
            held = np.zeros(group.count, bool)
            held[np.concatenate(fixed)] = True
            self._attach(group.name, np.flatnonzero(held).astype(np.int32) + group.start, np.zeros(1), [])
        return group

    def _attach(
        self,
        label: str,
        points: np.ndarray,
        compliance: np.ndarray,
        motions: list[Any],
        displaced: dict[str, np.ndarray] | None = None,
    ) -> str:
        for point in points.tolist():
            if point in self._attached:
                raise ModelError(
                    f"point {point} is attached twice: by {self._attached[point]!r} and by {label!r}",
                    "Leave it out of one of them",
                )
        self._attached.update(dict.fromkeys(points.tolist(), label))
        self._labels.add(label)
        self._attachments.append(AttachmentBlock(label, points, compliance, motions, displaced or {}))
        return label

    def _close_loose(self) -> None:
        """Makes a group of the particles that `add_particle` added in a row."""
        if not self._loose:
            return
        base, velocity = (np.array([row[k] for row in self._loose]) for k in (0, 1))
        mass = np.array([row[2] for row in self._loose])
        self._loose = []
        group = Group(self._label(None, "particles"), "particles", self._count - len(base), len(base), base)
        self._labels.add(group.name)
        self.groups[group.name] = group
        self._points.append(
            PointBlock(group, base, np.zeros((1, 3)), velocity, np.zeros((1, 3)), "mass", mass, np.ones(len(base)))
        )


def _velocity(vel: Any, points: int) -> np.ndarray:
    """One for all points (1, 3), or one for each (n, 3)."""
    velocity = checks.vec3("vel", vel)[None] if np.ndim(vel) < 2 else checks.vec3s("vel", vel)
    if len(velocity) not in (1, points):
        raise ModelError(f"vel has shape {velocity.shape}", f"Give (3,), or ({points}, 3): one for each point")
    return velocity
