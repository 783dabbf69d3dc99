"""Solids as tetrahedra: the lattice of a box, volumes, surfaces, other elements, and what makes a mesh unfit.

Hexahedra and quadratic tetrahedra come with tetrahedra too, cut so that every node is a corner of one: pictures,
markers and surfaces see their nodes as they see those of linear tetrahedra.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError, listed

FLAT = 1e-6
"""A tetrahedron is flat if its volume is below this share of the cube of its longest edge."""
SLIVER = 0.02
"""Tetrahedra of a smaller shape quality (1 for the regular one) converge badly; they are counted and reported."""

# The corners of a cell are numbered 4 k + 2 j + i; both cuts have the same diagonals on common faces of neighbours.
_EVEN = ((0, 1, 2, 4), (3, 2, 1, 7), (5, 4, 7, 1), (6, 7, 4, 2), (1, 2, 4, 7))
_ODD = ((1, 3, 0, 5), (2, 0, 3, 6), (4, 6, 5, 0), (7, 5, 6, 3), (0, 5, 3, 6))
_FACES = ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1))  # outward for a tetrahedron of positive volume

# Of a tetrahedron 0123 with the midpoints 01, 02, 03, 12, 13, 23 as corners 4 to 9: four at its corners, and four about
# one of the three diagonals of the octahedron between them.
_CORNERS = ((0, 4, 5, 6), (4, 1, 7, 8), (5, 7, 2, 9), (6, 8, 9, 3))
_ABOUT = (
    (4, 9, (5, 7, 8, 6)),
    (5, 8, (4, 7, 9, 6)),
    (6, 7, (4, 8, 9, 5)),
)


ELEMENTS = ("tetrahedra", "hexahedra", "quadratic")
EDGES = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""Edges of a tetrahedron: nodes 4 to 9 of a quadratic one are their midpoints."""
QUADRATIC_TURNS = np.array(
    [(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), (0, 2, 3, 1, 5, 6, 4, 9, 7, 8), (0, 3, 1, 2, 6, 4, 5, 8, 9, 7)]
)
"""The nodes of a quadratic tetrahedron with its corners 1, 2, 3 turned about corner 0."""

_BRICK = (0, 4, 5, 1, 6, 2, 3, 7)  # of the corners of `lattice_cells`: numbered 4 k + 2 j + i along the edges at one
_PARTS = (*_CORNERS, (4, 9, 5, 6), (4, 9, 6, 8), (4, 9, 8, 7), (4, 9, 7, 5))
"""Always about the same diagonal: quadratic tetrahedra are cut for pictures and markers alone."""
_SQUARE = 1e-6
"""How far the corners of a cell may be from a box, over its longest edge."""


@dataclass(frozen=True)
class TetMesh:
    """A solid.

    positions: (n, 3) float64 [m]; tets: (t, 4) int32 of positive volume; triangles: (m, 3) int32, its surface, facing
    outward; file_to_point: (nodes of the file,) int32, the point that each became, -1 where no tetrahedron uses it;
    notes: what was mended or is doubtful, in words with counts; cells: (c, 8) int32, the corners of lattice cells:
    those of the four outer tetrahedra, then those of the inner one (`lattice_cells`); none in other meshes.
    elements: (e, 8) corners of hexahedra, numbered 4 k + 2 j + i, or (e, 10) nodes of quadratic tetrahedra, four
    corners, then the middles of edges 01, 02, 03, 12, 13, 23; `tets` then only cut them for pictures and markers.  None
    where the tetrahedra themselves are the elements.
    """

    positions: np.ndarray
    tets: np.ndarray
    triangles: np.ndarray
    file_to_point: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    cells: np.ndarray = field(default_factory=lambda: np.empty((0, 8), np.int32))
    elements: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.int32))

    @property
    def element(self) -> str:
        """`tetrahedra`, `hexahedra` or `quadratic`."""
        return {0: "tetrahedra", 8: "hexahedra", 10: "quadratic"}[self.elements.shape[1]]

    @property
    def volumes(self) -> np.ndarray:
        """(t,) [m^3]."""
        return tet_volumes(self.positions, self.tets)

    @property
    def boundary(self) -> np.ndarray:
        """(n,) bool: points on the surface."""
        mask = np.zeros(len(self.positions), bool)
        mask[self.triangles] = True
        return mask


def tet_volumes(positions: ArrayLike, tets: ArrayLike) -> np.ndarray:
    """Signed volumes (t,): positive where points 1, 2, 3 run anticlockwise seen from point 0's far side."""
    x, cells = np.asarray(positions, np.float64), np.asarray(tets)
    a, b, c = (x[cells[:, k]] - x[cells[:, 0]] for k in (1, 2, 3))
    return np.einsum("ij,ij->i", a, np.cross(b, c)) / 6.0


def tet_quality(positions: ArrayLike, tets: ArrayLike) -> np.ndarray:
    """(t,) in (0, 1]: 6 sqrt 2 V over the cube of the root mean square edge; 1 for the regular tetrahedron."""
    x, cells = np.asarray(positions, np.float64), np.asarray(tets)
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    square = np.mean([((x[cells[:, a]] - x[cells[:, b]]) ** 2).sum(axis=1) for a, b in pairs], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(6.0 * np.sqrt(2.0) * np.abs(tet_volumes(x, cells)) / square**1.5)


def tet_surface(tets: ArrayLike, what: str = "the mesh") -> np.ndarray:
    """Triangles (m, 3) int32 that belong to one tetrahedron only, facing outward where volumes are positive."""
    cells = np.asarray(tets, np.int32)
    faces = np.concatenate([cells[:, face] for face in _FACES])
    _, first, uses = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    if (uses > 2).any():
        raise GeometryError(
            f"{what}: {int((uses > 2).sum())} faces belong to more than two tetrahedra", "Mesh the body again"
        )
    return faces[np.sort(first[uses == 1])]


def tet_edges(tets: ArrayLike) -> np.ndarray:
    """The edges (e, 2) int32, lower point first."""
    cells = np.asarray(tets, np.int32)
    pairs = np.concatenate([cells[:, [a, b]] for a, b in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))])
    return np.unique(np.sort(pairs, axis=1), axis=0)


def lattice_tets(filled: np.ndarray) -> np.ndarray:
    """Five tetrahedra in each filled cell of a lattice: (t, 4) int32 of its points, numbered x fastest, all positive.

    filled: (dim_x, dim_y, dim_z) bool.  The cut alternates from cell to cell, so that neighbours share their diagonals.
    Six tetrahedra about a common diagonal would lock far more (bending at nu = 0.45, 3 cells thick: 47 % of the true
    deflection instead of 70 %).
    """
    nx, ny, _ = filled.shape
    cells = np.argwhere(filled)
    cells = cells[np.lexsort((cells[:, 0], cells[:, 1], cells[:, 2]))]
    steps = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
    corners = (cells[:, None] + steps) @ np.array([1, nx + 1, (nx + 1) * (ny + 1)])
    odd = cells.sum(axis=1) % 2 == 1
    out = np.where(odd[:, None, None], corners[:, np.array(_ODD)], corners[:, np.array(_EVEN)])
    return out.reshape(-1, 4).astype(np.int32)


def lattice_cells(tets: np.ndarray) -> np.ndarray:
    """(c, 8) the corners of the cells that `lattice_tets` cut into `tets` (5 c, 4).

    With a, b, c, d the corners of the inner tetrahedron and p, q, r, s the others, a cell is p, q, r, s, a, b, c, d,
    and its tetrahedra, all positive, are (p, a, b, c), (q, b, a, d), (r, c, d, a), (s, d, c, b), (a, b, c, d).
    """
    parts = tets.reshape(-1, 5, 4)
    inner = parts[:, 4]
    out = np.empty((len(parts), 8), np.int32)
    out[:, 4:] = inner
    for part in range(4):
        shared = (parts[:, part, 1:, None] == inner[:, None, :]).any(axis=1)  # (c, 4): corners of the inner tetrahedron
        out[np.arange(len(parts)), 3 - shared.argmin(axis=1)] = parts[:, part, 0]
    return out


def lattice_points(dims: tuple[int, int, int], cell: ArrayLike, origin: ArrayLike = (0.0, 0.0, 0.0)) -> np.ndarray:
    """All points of a lattice (n, 3), x fastest."""
    nx, ny, nz = dims
    k, j, i = np.meshgrid(np.arange(nz + 1), np.arange(ny + 1), np.arange(nx + 1), indexing="ij")
    return np.stack([i.ravel(), j.ravel(), k.ravel()], axis=1) * np.asarray(cell, float) + np.asarray(origin, float)


def solid_mesh(positions: ArrayLike, tets: ArrayLike, what: str = "the mesh") -> TetMesh:
    """A solid from nodes (n, 3) and tetrahedra (t, 4) of either orientation: mended where that is safe, else an error.

    Tetrahedra that are all, or some of them, turned inside out by their numbering are turned round; nodes that none of
    them uses are dropped (`file_to_point` is -1 there); `notes` counts both, and slivers.  Flat ones are an error.
    """
    x, cells = np.asarray(positions, np.float64), np.asarray(tets)
    if x.ndim != 2 or x.shape[1] != 3 or cells.ndim != 2 or cells.shape[1:] != (4,) or not len(cells):
        raise GeometryError(
            f"{what}: positions have shape {x.shape} and tetrahedra {cells.shape}",
            "Give positions (n, 3) and tetrahedra (t, 4)",
        )
    if not np.issubdtype(cells.dtype, np.integer):
        raise GeometryError(f"{what}: tetrahedra have the type {cells.dtype}", "Give numbers of points, whole numbers")
    outside = np.flatnonzero(((cells < 0) | (cells >= len(x))).any(axis=1))
    if len(outside):
        raise GeometryError(
            f"{what}: tetrahedron {listed(outside)} names a point that does not exist; there are {len(x)}",
            "Count points from 0",
        )
    broken = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(broken):
        raise GeometryError(f"{what}: the position of point {listed(broken)} is not finite", "Export it again")
    cells = cells.astype(np.int32)
    volume = tet_volumes(x, cells)
    longest = np.max(
        [np.linalg.norm(x[cells[:, a]] - x[cells[:, b]], axis=1) for a in range(4) for b in range(a)], axis=0
    )
    flat = np.flatnonzero(np.abs(volume) <= FLAT * longest**3)
    if len(flat):
        worst = flat[np.argmin(np.abs(volume[flat]))]
        raise GeometryError(
            f"{what}: {len(flat)} of {len(cells)} tetrahedra are flat: {listed(flat)}; tetrahedron {worst} has "
            f"the volume {volume[worst]:.3g} m^3 with edges up to {longest[worst]:.3g} m",
            "Mesh the body again, with better elements",
        )
    notes = []
    turned = volume < 0
    if turned.any():
        cells[turned] = cells[turned][:, [0, 2, 1, 3]]
        notes.append(
            f"{what}: {int(turned.sum())} of {len(cells)} tetrahedra were numbered inside out; they were turned round"
        )
    used = np.zeros(len(x), bool)
    used[cells] = True
    to_point = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
    if not used.all():
        notes.append(f"{what}: {int((~used).sum())} of {len(x)} points belong to no tetrahedron; they were left out")
        x, cells = x[used], to_point[cells]
    pieces = len(np.unique(tet_pieces(len(x), cells)))
    if pieces > 1:
        raise GeometryError(
            f"{what}: the tetrahedra form {pieces} separate pieces", "Give each body as an object of its own"
        )
    slivers = int((tet_quality(x, cells) < SLIVER).sum())
    if slivers:
        notes.append(
            f"{what}: {slivers} of {len(cells)} tetrahedra are slivers (quality below {SLIVER:g}); they need short"
            " steps"
        )
    return TetMesh(x, cells, tet_surface(cells, what), to_point, tuple(notes))


def tet_pieces(count: int, tets: np.ndarray) -> np.ndarray:
    """(count,) for each point the lowest of its connected body; labels spread along tetrahedra until none changes."""
    label = np.arange(count)
    while True:
        low = label[tets].min(axis=1)
        new = label.copy()
        for k in range(4):
            np.minimum.at(new, tets[:, k], low)
        new = new[new]
        if np.array_equal(new, label):
            return label
        label = new


@dataclass(frozen=True)
class SolidGrid:
    """The lattice of a box, numbered as in Newton: point (i, j, k) is k (dim_x + 1)(dim_y + 1) + j (dim_x + 1) + i.

    The middles of edges, if there are, come behind these points.

    left, right, bottom, top: points at the lowest and highest x, the lowest and highest y.
    """

    mesh: TetMesh
    left: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    top: np.ndarray


def with_elements(mesh: TetMesh, kind: str, what: str = "the mesh") -> TetMesh:
    """The mesh with elements of this kind, one of `ELEMENTS`.

    `hexahedra` are the cells of a lattice; `quadratic` gives every edge of a tetrahedron a point in its middle, behind
    those there are, and cuts every tetrahedron into eight.
    """
    if kind not in ELEMENTS:
        raise GeometryError(f"{what}: there are no elements called {kind!r}", f"Choose one of {', '.join(ELEMENTS)}")
    if len(mesh.elements):
        raise GeometryError(f"{what} has elements already", "Choose its elements once")
    if kind == "tetrahedra":
        return mesh
    return _hexahedra(mesh, what) if kind == "hexahedra" else _quadratic(mesh)


def _hexahedra(mesh: TetMesh, what: str) -> TetMesh:
    if not len(mesh.cells):
        raise GeometryError(
            f"{what}: hexahedra are the cells of a lattice, and it has none", "Use `quadratic` elements"
        )
    bricks = mesh.cells[:, _BRICK]
    corner = mesh.positions[bricks]
    sides = corner[:, [1, 2, 4]] - corner[:, :1]
    steps = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
    longest = np.linalg.norm(sides, axis=2).max(axis=1)
    off = np.abs(corner - corner[:, :1] - steps @ sides).max(axis=(1, 2)) / longest
    dots = np.abs(np.einsum("cax,cbx->cab", sides, sides)[:, [0, 1, 0], [1, 2, 2]]).max(axis=1) / longest**2
    skew = np.flatnonzero(np.maximum(off, dots) > _SQUARE)
    if len(skew):
        raise GeometryError(f"{what}: cell {listed(skew)} is no box", "Use `quadratic` elements")
    return replace(mesh, elements=bricks)


def _quadratic(mesh: TetMesh) -> TetMesh:
    x, middles = _with_midpoints(mesh.positions, mesh.tets[:, np.array(EDGES)])
    nodes = np.concatenate([mesh.tets, middles.astype(np.int32)], axis=1)
    parts = nodes[:, np.array(_PARTS)].reshape(-1, 4)
    none = np.empty((0, 8), np.int32)
    return replace(mesh, positions=x, tets=parts, triangles=tet_surface(parts), cells=none, elements=nodes)


def solid_grid(
    dim_x: int, dim_y: int, dim_z: int, cell_x: float, cell_y: float, cell_z: float, element: str = "tetrahedra"
) -> SolidGrid:
    """A box of cells of five tetrahedra each, from the origin to (dim_x cell_x, dim_y cell_y, dim_z cell_z) [m].

    element: one of `ELEMENTS`; see `with_elements`.
    """
    dims = []
    for name, cells in (("dim_x", dim_x), ("dim_y", dim_y), ("dim_z", dim_z)):
        if isinstance(cells, bool) or int(cells) != cells or cells < 1:
            raise GeometryError(f"{name} = {cells!r} must be a whole number of cells, at least 1")
        dims.append(int(cells))
    for name, size in (("cell_x", cell_x), ("cell_y", cell_y), ("cell_z", cell_z)):
        if not (np.isfinite(size) and size > 0):
            raise GeometryError(f"{name} = {size!r} must be a positive length in metres")
    nx, ny, nz = dims
    points = lattice_points((nx, ny, nz), (cell_x, cell_y, cell_z))
    tets = lattice_tets(np.ones(dims, bool))
    mesh = TetMesh(points, tets, tet_surface(tets), cells=lattice_cells(tets))
    mesh = with_elements(mesh, element)
    x, high = mesh.positions, points.max(axis=0)
    sides = (x[:, 0] == 0.0, x[:, 0] == high[0], x[:, 1] == 0.0, x[:, 1] == high[1])
    return SolidGrid(mesh, *(np.flatnonzero(side).astype(np.int32) for side in sides))


def element_volumes(mesh: TetMesh) -> np.ndarray:
    """(e,) [m^3] of the hexahedra, which are boxes, or quadratic tetrahedra, whose edges are straight."""
    if mesh.element == "hexahedra":
        return 6.0 * tet_volumes(mesh.positions, mesh.elements[:, [0, 1, 2, 4]])
    return tet_volumes(mesh.positions, mesh.elements[:, :4])


def nodal_volumes(mesh: TetMesh) -> np.ndarray:
    """(n,) [m^3] the part of the volume that each point stands for: all positive, their sum and centre those of the
    body.

    A tetrahedron and a hexahedron give equal parts to their corners; of a quadratic tetrahedron a corner gets 1/36 and
    the middle of an edge 4/27, in proportion to the diagonal of the consistent mass matrix (E. Hinton, T. Rock,
    O. C. Zienkiewicz, "A Note on Mass Lumping and Related Processes in the Finite Element Method", 1976).
    """
    nodes, volume, part = mesh.tets, mesh.volumes, np.full(4, 1 / 4)
    if len(mesh.elements):
        nodes, volume = mesh.elements, element_volumes(mesh)
        part = np.full(8, 1 / 8) if mesh.element == "hexahedra" else np.repeat([1 / 36, 4 / 27], [4, 6])
    out = np.zeros(len(mesh.positions))
    np.add.at(out, nodes, volume[:, None] * part)
    return out


def subdivide_triangles(positions: np.ndarray, triangles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Four triangles in place of each, wound as before: points (n + edges, 3), old ones first, triangles (4 m, 3)."""
    edges = triangles[:, [[0, 1], [1, 2], [2, 0]]]
    points, middle = _with_midpoints(positions, edges)
    a, b, c = triangles.T
    ab, bc, ca = middle.T
    four = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return points, np.stack([np.stack(t, axis=1) for t in four], axis=1).reshape(-1, 3).astype(np.int32)


def subdivide_tets(mesh: TetMesh) -> TetMesh:
    """Eight tetrahedra in place of each, the inner four about the shortest diagonal of their octahedron.

    J. Bey, "Tetrahedral Grid Refinement", Computing 55, 1995.  A finer mesh has no lattice cells.
    """
    points, middle = _with_midpoints(mesh.positions, mesh.tets[:, np.array(EDGES)])
    corner = np.concatenate([mesh.tets, middle], axis=1)
    place = points[corner]
    lengths = np.stack([np.linalg.norm(place[:, i] - place[:, j], axis=1) for i, j, _ in _ABOUT], axis=1)
    shortest = np.argmin(lengths, axis=1)
    parts = [corner[:, list(c)] for c in _CORNERS]
    rings = np.array([[(i, j, ring[k], ring[(k + 1) % 4]) for k in range(4)] for i, j, ring in _ABOUT])
    inner = np.take_along_axis(corner[:, None, :], rings[shortest], axis=2)
    tets = np.concatenate([np.stack(parts, axis=1), inner], axis=1).reshape(-1, 4).astype(np.int32)
    turned = tet_volumes(points, tets) < 0
    tets[turned] = tets[turned][:, [0, 2, 1, 3]]
    return TetMesh(points, tets, tet_surface(tets), mesh.file_to_point, mesh.notes)


def _with_midpoints(positions: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The points and after them a midpoint for each edge of elements (m, k, 2); the numbers (m, k) of midpoints."""
    ends, which = np.unique(np.sort(edges.reshape(-1, 2), axis=1), axis=0, return_inverse=True)
    points = np.concatenate([positions, positions[ends].mean(axis=1)])
    return points, (len(positions) + which).reshape(edges.shape[:2])
