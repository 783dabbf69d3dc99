"""`MarchingCubes`: the surface on which a field on a grid has a value (Lorensen and Cline, 1987), with gradients.

The triangles of a cell are not read off a printed table but made: around each face of the cube the surface goes from
the edge where one comes in below the threshold to the edge where one leaves it; these segments join into loops, and a
loop is a fan of triangles.  Where all four edges of a face are crossed, the two corners below are cut off one by one:
that is said by the face alone, so that cells on both sides agree, and the surface has no gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cw_mul
from sim.core.lang.types import float32, int32, vec3, vec3i
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.arrays.dimensions import array2d, array3d
from sim.core.runtime.devices.device import Device
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.interop.reductions import array_scan
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch

Corner = tuple[int, ...]
MOST_INDICES = 15
"""Five triangles of a cell."""


def _ring(axis: int, side: int) -> list[Corner]:
    """The corners of a face of the unit cube, anticlockwise for who looks from outside."""
    around = [(0, 0), (1, 0), (1, 1), (0, 1)]
    corners = []
    for a, b in around if side else around[::-1]:
        corner = [side] * 3
        corner[(axis + 1) % 3], corner[(axis + 2) % 3] = a, b
        corners.append(tuple(corner))
    return corners


def _number(corner: Corner) -> int:
    return corner[0] + 2 * corner[1] + 4 * corner[2]


def _edge(a: Corner, b: Corner) -> int:
    """The number of the edge between two corners: 3 times that of the lower one, and the axis."""
    return 3 * _number(min(a, b)) + next(k for k in range(3) if a[k] != b[k])


def _triangles(case: int) -> list[int]:
    """Edges, three for each triangle, of a cell whose corners below the threshold are the bits of `case`.

    Normals point to where the field is larger.
    """
    below = [bool(case >> n & 1) for n in range(8)]
    then: dict[int, int] = {}
    for ring in (_ring(axis, side) for axis, side in product(range(3), range(2))):
        inside = [below[_number(corner)] for corner in ring]
        for leave in (k for k in range(4) if inside[k] and not inside[(k + 1) % 4]):
            enter = next(k % 4 for k in range(leave, leave - 4, -1) if not inside[k - 1])
            then[_edge(ring[enter - 1], ring[enter])] = _edge(ring[leave], ring[(leave + 1) % 4])
    edges: list[int] = []
    while then:
        first = min(then)
        loop = [first]
        while (follows := then.pop(loop[-1])) != first:
            loop.append(follows)
        start = next(s for s in range(len(loop)) if not _touches_face(loop[s:] + loop[:s]))
        fan = loop[start:] + loop[:start]
        edges += [e for k in range(1, len(fan) - 1) for e in (fan[0], fan[k], fan[k + 1])]
    return edges


def _touches_face(fan: Sequence[int]) -> bool:
    """Whether an inner edge of a fan lies on a face of the cell, where the neighbour may have it, too."""
    return any(fan[0] in face and e in face for e in fan[2:-1] for face in _faces())


@cache
def _faces() -> list[set[int]]:
    """The four edges of each face."""
    rings = [_ring(axis, side) for axis, side in product(range(3), range(2))]
    return [{_edge(ring[k - 1], ring[k]) for k in range(4)} for ring in rings]


@cache
def _tables(device: Device) -> tuple[array, array]:
    """By case: how many indices there are, and the edges that they stand for."""
    cases = [_triangles(case) for case in range(256)]
    edges = np.array([case + [0] * (MOST_INDICES - len(case)) for case in cases], np.int32)
    return array([len(case) for case in cases], int32, device=device), array(edges, int32, device=device)


@func
def _node(field: array3d[float], number: int):
    """Where a node stands in the grid."""
    rows = number // field.shape[2]
    return vec3i(rows // field.shape[1], rows % field.shape[1], number % field.shape[2])


@func
def _next(at: vec3i, axis: int):
    """The node behind this one along an axis."""
    return vec3i(at[0] + int(axis == 0), at[1] + int(axis == 1), at[2] + int(axis == 2))


@func
def _at(field: array3d[float], node: vec3i):
    return field[node[0], node[1], node[2]]


@kernel
def _find_crossings(field: array3d[float], threshold: float, crossed: array[int32]):
    """Whether the edge from node `number` along `axis` crosses the surface; its number is 3 number + axis."""
    number, axis = tid()
    here = _node(field, number)
    there = _next(here, axis)
    if there[axis] < field.shape[axis]:
        crossed[3 * number + axis] = int((_at(field, here) < threshold) != (_at(field, there) < threshold))
    else:
        crossed[3 * number + axis] = 0


@kernel
def _list_edges(counted: array[int32], edges: array[int32]):
    """The edges on which vertices lie; counted: how many there are up to each edge."""
    e = tid()
    before = int32(0)
    if e > 0:
        before = counted[e - 1]
    if counted[e] > before:
        edges[before] = e


@kernel
def _place(
    field: array3d[float], threshold: float, edges: array[int32], lower: vec3, spacing: vec3, vertices: array[vec3]
):
    v = tid()
    axis = edges[v] % 3
    here = _node(field, edges[v] // 3)
    a, b = _at(field, here), _at(field, _next(here, axis))
    place = vec3(float(here[0]), float(here[1]), float(here[2]))
    place[axis] += (threshold - a) / (b - a)
    vertices[v] = lower + cw_mul(place, spacing)


@func
def _corner(cell: vec3i, corner: int):
    """The node at a corner of a cell."""
    return vec3i(cell[0] + (corner & 1), cell[1] + (corner >> 1 & 1), cell[2] + (corner >> 2))


@kernel
def _find_cases(field: array3d[float], threshold: float, sizes: array[int32], cases: array[int32], count: array[int32]):
    i, j, k = tid()
    case = int32(0)
    for corner in range(8):
        if _at(field, _corner(vec3i(i, j, k), corner)) < threshold:
            case += 1 << corner
    cell = (i * (field.shape[1] - 1) + j) * (field.shape[2] - 1) + k
    cases[cell], count[cell] = case, sizes[case]


@kernel
def _list_triangles(
    field: array3d[float],
    table: array2d[int32],
    cases: array[int32],
    ends: array[int32],
    counted: array[int32],
    indices: array[int32],
):
    """The vertices of the triangles of a cell; ends: of its indices; counted: vertices up to each edge."""
    i, j, k = tid()
    cell = (i * (field.shape[1] - 1) + j) * (field.shape[2] - 1) + k
    first = int32(0)
    if cell > 0:
        first = ends[cell - 1]
    for n in range(ends[cell] - first):
        edge = table[cases[cell], n]
        node = _corner(vec3i(i, j, k), edge // 3)
        number = (node[0] * field.shape[1] + node[1]) * field.shape[2] + node[2]
        indices[first + n] = counted[3 * number + edge % 3] - 1


Bound = Sequence[float] | None


class MarchingCubes:
    """The surface on which a field on a grid of nodes has a value, as triangles: `surface`, then `verts`, `indices`.

    nx, ny, nz: nodes.  lower, upper: where the first and the last node lie; None: at (0, 0, 0), and such that nodes
    are 1 apart.  The names that begin with `domain_bounds` are Warp's older ones for these; TypeError for both.
    """

    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        lower: Bound = None,
        upper: Bound = None,
        *,
        domain_bounds_lower_corner: Bound = None,
        domain_bounds_upper_corner: Bound = None,
    ) -> None:
        self.resize(nx, ny, nz)
        self.lower = _one_of("lower", lower, "domain_bounds_lower_corner", domain_bounds_lower_corner)
        self.upper = _one_of("upper", upper, "domain_bounds_upper_corner", domain_bounds_upper_corner)
        self.verts: array | None = None
        self.indices: array | None = None

    @property
    def domain_bounds_lower_corner(self) -> Bound:
        """Warp's older name of `lower`."""
        return self.lower

    @domain_bounds_lower_corner.setter
    def domain_bounds_lower_corner(self, value: Bound) -> None:
        self.lower = value

    @property
    def domain_bounds_upper_corner(self) -> Bound:
        """Warp's older name of `upper`."""
        return self.upper

    @domain_bounds_upper_corner.setter
    def domain_bounds_upper_corner(self, value: Bound) -> None:
        self.upper = value

    def resize(self, nx: int, ny: int, nz: int) -> None:
        """Other numbers of nodes, for the surfaces from now on."""
        self.nx, self.ny, self.nz = nx, ny, nz

    def surface(self, field: array, threshold: float) -> None:
        """Sets `verts` and `indices` (see `extract`).  Raises ValueError for a field of another shape."""
        if tuple(field.shape) != (self.nx, self.ny, self.nz):
            raise ValueError(
                f"'field' has the shape {field.shape}, the grid has {(self.nx, self.ny, self.nz)} nodes; call resize"
            )
        self.verts, self.indices = self.extract(field, threshold, lower=self.lower, upper=self.upper)

    @classmethod
    def extract(
        cls, field: array, threshold: float = 0.0, *, lower: Bound = None, upper: Bound = None
    ) -> tuple[array, array]:
        """Vertices (vec3) and three indices (int32) for each triangle, anticlockwise seen from where `field` is larger.

        A vertex lies on each edge of the grid between a node below `threshold` and one that is not, where the field
        is linear between them.  Vertices have a gradient where the field has one; indices do not change with it.
        Raises ValueError for a field that has not three dimensions of two nodes, TypeError for another type than
        float32, NotImplementedError while a graph is captured: how long the arrays are depends on the field.
        """
        _check(field)
        nodes, device = field.size, field.device
        cells = tuple(n - 1 for n in field.shape)
        start = vec3(*(lower if lower is not None else (0.0, 0.0, 0.0)))
        end = upper if upper is not None else [start[k] + cells[k] for k in range(3)]
        spacing = vec3(*((end[k] - start[k]) / cells[k] for k in range(3)))
        counted, ends = empty(3 * nodes, int32, device), empty(cells[0] * cells[1] * cells[2], int32, device)
        cases, (sizes, table) = empty(ends.size, int32, device), _tables(device)
        with recording.paused():
            launch(_find_crossings, (nodes, 3), [field, threshold, counted], device=device)
            array_scan(counted, counted)
            edges = empty(int(counted[-1:].numpy()[0]), int32, device)
            launch(_list_edges, 3 * nodes, [counted, edges], device=device)
            launch(_find_cases, cells, [field, threshold, sizes, cases, ends], device=device)
            array_scan(ends, ends)
            indices = empty(int(ends[-1:].numpy()[0]), int32, device)
            launch(_list_triangles, cells, [field, table, cases, ends, counted, indices], device=device)
        vertices = empty(edges.size, vec3, device, requires_grad=field.requires_grad)
        launch(_place, edges.size, [field, threshold, edges, start, spacing, vertices], device=device)
        return vertices, indices

    @classmethod
    def extract_surface_marching_cubes(
        cls,
        field: array,
        threshold: float = 0.0,
        domain_bounds_lower_corner: Bound = None,
        domain_bounds_upper_corner: Bound = None,
    ) -> tuple[array, array]:
        """Warp's older name of `extract`."""
        return cls.extract(field, threshold, lower=domain_bounds_lower_corner, upper=domain_bounds_upper_corner)


def _one_of(name: str, value: Bound, older: str, older_value: Bound) -> Bound:
    """What is given under one of two names."""
    if value is not None and older_value is not None:
        raise TypeError(f"MarchingCubes got both '{name}' and '{older}', which is its older name; leave one out")
    return older_value if value is None else value


def _check(field: array) -> None:
    if not isinstance(field, array):
        raise TypeError(f"'field' should be an array, not a {type(field).__name__}; pass sim.array(field, dtype=float)")
    if field.ndim != 3:
        raise ValueError(f"'field' should have three dimensions, not the shape {field.shape}")
    if min(field.shape) < 2:
        raise ValueError(f"'field' should have two nodes or more along each axis, not the shape {field.shape}")
    if field.dtype is not float32:
        raise TypeError(f"'field' should be of float32, not {field.dtype}")
    if capturing() is not None:
        raise NotImplementedError(
            "MarchingCubes cannot be used during a capture: how long its arrays are depends on the field; capture what"
            " comes before and behind it"
        )
