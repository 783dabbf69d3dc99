"""A surface carried along by tetrahedra, and solids made of lattice cells inside a closed surface."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError
from sim.geometry.tetrahedra import TetMesh, lattice_cells, lattice_points, lattice_tets, tet_pieces, tet_surface
from sim.geometry.topology import mesh_topology

CHUNK = 4_000_000
"""Pairs that are compared at once, so that large meshes need little memory."""


@dataclass(frozen=True)
class Embedding:
    """Places that move with a solid: place k is weights[k] @ positions[points[k]].

    points: (n, 4) int32; weights: (n, 4) float64, barycentric coordinates; negative ones outside of the tetrahedron.
    """

    points: np.ndarray
    weights: np.ndarray

    def at(self, positions: np.ndarray) -> np.ndarray:
        """The places (..., n, 3) where the points of the solid are at positions (..., points, 3)."""
        return np.einsum("nk,...nkx->...nx", self.weights, positions[..., self.points, :])


@dataclass(frozen=True)
class EmbeddedSurface:
    """The surface that a lattice was made for: triangles (m, 3) between the places of `embedding`."""

    embedding: Embedding
    triangles: np.ndarray


def embed(places: ArrayLike, positions: np.ndarray, tets: np.ndarray) -> Embedding:
    """Attaches places (n, 3) to the nearest tetrahedron; outside of all of them the place is extrapolated from it.

    Inside counts as nearest; among tetrahedra that do not hold the place, the one whose closest point is nearest.
    Raises GeometryError where a tetrahedron has no volume.
    """
    x = np.asarray(places, np.float64).reshape(-1, 3)
    corner = positions[tets]
    edges = np.transpose(corner[:, 1:] - corner[:, :1], (0, 2, 1))
    try:
        inverse = np.linalg.inv(edges)
    except np.linalg.LinAlgError as error:
        what = "the solid has elements without volume, which carry no places"
        raise GeometryError(what, "Give it a size along all three axes") from error
    chosen = np.zeros(len(x), np.int64)
    rows = max(1, CHUNK // max(1, len(tets)))
    for begin in range(0, len(x), rows):
        part = x[begin : begin + rows]
        local = np.einsum("tij,ntj->nti", inverse, part[:, None] - corner[None, :, 0])
        lowest = np.minimum(local.min(axis=2), 1.0 - local.sum(axis=2))
        for k in range(len(part)):
            best = int(np.argmax(lowest[k]))
            if lowest[k, best] < -1e-12:
                best = _nearest(part[k], corner)
            chosen[begin + k] = best
    local = np.einsum("nij,nj->ni", inverse[chosen], x - corner[chosen, 0])
    weights = np.concatenate([1.0 - local.sum(axis=1, keepdims=True), local], axis=1)
    return Embedding(tets[chosen].astype(np.int32), weights)


def embed_in_triangles(places: ArrayLike, positions: np.ndarray, triangles: np.ndarray) -> Embedding:
    """Attaches places (n, 3) to the nearest triangle: points and weights are (n, 3), those of the foot in its plane."""
    x = np.asarray(places, np.float64).reshape(-1, 3)
    corner = positions[triangles]
    chosen = np.array([int(np.argmin(triangle_distance(place, corner))) for place in x])
    a, b, c = (corner[chosen, k] for k in range(3))
    u, v, d = b - a, c - a, x - a
    uu, uv, vv, du, dv = (np.einsum("ij,ij->i", p, q) for p, q in ((u, u), (u, v), (v, v), (d, u), (d, v)))
    whole = uu * vv - uv * uv
    s, t = (vv * du - uv * dv) / whole, (uu * dv - uv * du) / whole
    return Embedding(triangles[chosen].astype(np.int32), np.stack([1.0 - s - t, s, t], axis=1))


def _nearest(place: np.ndarray, corner: np.ndarray) -> int:
    """The tetrahedron (of corners (t, 4, 3)) nearest to a place outside of all of them; the lowest number on a tie."""
    faces = corner[:, np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])]
    distance = triangle_distance(place, faces.reshape(-1, 3, 3)).reshape(-1, 4).min(axis=1)
    return int(np.flatnonzero(distance <= distance.min() * (1 + 1e-9) + 1e-15)[0])


def triangle_distance(place: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Distances (m,) of one place (3,) from triangles (m, 3, 3): to the plane if its foot is inside, else an edge."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    normal = np.cross(b - a, c - a)
    square = np.einsum("ij,ij->i", normal, normal)
    inside = np.ones(len(a), bool)
    nearest = np.full(len(a), np.inf)
    for p, q in ((a, b), (b, c), (c, a)):
        edge = q - p
        inside &= np.einsum("ij,ij->i", np.cross(edge, place - p), normal) >= 0
        t = np.clip(np.einsum("ij,ij->i", place - p, edge) / np.einsum("ij,ij->i", edge, edge), 0.0, 1.0)
        nearest = np.minimum(nearest, np.linalg.norm(place - p - t[:, None] * edge, axis=1))
    height = np.abs(np.einsum("ij,ij->i", place - a, normal)) / np.sqrt(np.where(square > 0, square, 1.0))
    return np.where(inside & (square > 0), height, nearest)


def cells_inside(
    positions: np.ndarray, triangles: np.ndarray, origin: np.ndarray, cell: float, dims: np.ndarray
) -> np.ndarray:
    """(dim_x, dim_y, dim_z) bool: cells of a lattice whose centres lie inside a closed surface.

    A ray along z through each column of centres passes the surface an odd number of times above a centre inside.
    """
    # Columns through vertices and edges would be counted twice or not at all: they stand a little off, by an odd share.
    shift = np.array([1.2345678e-5, 2.3456789e-5]) * cell
    at = [origin[k] + (np.arange(dims[k]) + 0.5) * cell + shift[k] for k in range(2)]
    heights = origin[2] + (np.arange(dims[2]) + 0.5) * cell
    above = np.zeros(dims, np.int64)
    for a, b, c in positions[triangles]:
        low, high = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
        i, j = (np.flatnonzero((at[k] >= low[k]) & (at[k] <= high[k])) for k in range(2))
        if not len(i) or not len(j):
            continue
        px, py = at[0][i][:, None], at[1][j][None, :]
        whole = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        if whole == 0.0:
            continue
        u = ((px - a[0]) * (c[1] - a[1]) - (py - a[1]) * (c[0] - a[0])) / whole
        v = ((b[0] - a[0]) * (py - a[1]) - (b[1] - a[1]) * (px - a[0])) / whole
        hit = (u >= 0) & (v >= 0) & (u + v <= 1)
        z = a[2] + u * (b[2] - a[2]) + v * (c[2] - a[2])
        above[np.ix_(i, j)] += hit[:, :, None] & (z[:, :, None] > heights)
    return above % 2 == 1


def fill_surface(positions: ArrayLike, triangles: ArrayLike, cells: int) -> tuple[TetMesh, EmbeddedSurface]:
    """A solid of cubic cells inside a closed surface, and the surface carried along by it.

    cells: along the longest side of the box around the surface.  A cell belongs to the solid if its centre lies inside
    of the surface, so that the volume is right on average; the surface between the cells and itself is extrapolated.
    Cells that hang together with the rest by less than a face's points are left out, and counted in `notes`.
    """
    x, faces = np.asarray(positions, np.float64), np.asarray(triangles, np.int32)
    topology = mesh_topology(x, faces)
    open_edges = int(topology.boundary.sum())
    if open_edges:
        raise GeometryError(
            f"the surface is not closed: {open_edges} of its points lie on a border",
            "Close its holes, or use it as a cloth",
        )
    if int(cells) != cells or cells < 1:
        raise GeometryError(f"cells = {cells!r} must be a whole number, at least 1")
    low, high = x.min(axis=0), x.max(axis=0)
    cell = float((high - low).max()) / int(cells)
    dims = np.maximum(1, np.ceil((high - low) / cell - 1e-9)).astype(int)
    origin = 0.5 * (low + high) - 0.5 * dims * cell
    filled = cells_inside(x, faces, origin, cell, dims)
    if not filled.any():
        raise GeometryError(f"no cell of a lattice of {cells} lies inside of the surface", "Use more cells")
    tets = lattice_tets(filled)
    points = lattice_points((int(dims[0]), int(dims[1]), int(dims[2])), cell, origin)
    label = tet_pieces(len(points), tets)[tets[:, 0]]
    names, sizes = np.unique(label, return_counts=True)
    kept = label == names[np.argmax(sizes)]
    notes = (
        ()
        if kept.all()
        else (
            (
                f"{int((~kept).sum()) // 5} of {len(tets) // 5} cells hang apart from the rest and were left "
                "out; more cells may join them"
            ),
        )
    )
    tets = tets[kept]
    # each vertex goes with the best of the five tetrahedra of the nearest cell; those of one cell stand together
    own = tets.reshape(-1, 5, 4)
    points_of, weights = _best_of(x, points, own[_nearest_row(x, points[tets[4::5]].mean(axis=1))])
    used = np.unique(tets)
    rank = np.full(len(points), -1, np.int32)
    rank[used] = np.arange(len(used), dtype=np.int32)
    mesh = TetMesh(points[used], rank[tets], tet_surface(rank[tets]), notes=notes, cells=lattice_cells(rank[tets]))
    return mesh, EmbeddedSurface(Embedding(rank[points_of], weights), faces)


def _nearest_row(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(n,) the nearest of the centres (c, 3) to each place (n, 3)."""
    out = np.zeros(len(x), np.int64)
    rows = max(1, CHUNK // len(centres))
    square = (centres**2).sum(axis=1)
    for begin in range(0, len(x), rows):
        out[begin : begin + rows] = np.argmin(square - 2.0 * x[begin : begin + rows] @ centres.T, axis=1)
    return out


def _best_of(x: np.ndarray, points: np.ndarray, tets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of candidates tets (n, c, 4) for each place the one that holds it best: its points (n, 4) and weights (n, 4)."""
    corner = points[tets]
    inverse = np.linalg.inv(np.swapaxes(corner[:, :, 1:] - corner[:, :, :1], 2, 3))
    local = np.einsum("ncij,ncj->nci", inverse, x[:, None] - corner[:, :, 0])
    weights = np.concatenate([1.0 - local.sum(axis=2, keepdims=True), local], axis=2)
    best = np.argmax(weights.min(axis=2), axis=1)
    rows = np.arange(len(x))
    return tets[rows, best], weights[rows, best]
