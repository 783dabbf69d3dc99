"""What a triangle mesh is made of: edges, hinges, boundary, pieces, areas; and what makes it unfit for a cloth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sim.geometry.errors import GeometryError, listed

# A triangle flatter than this part of its longest edge squared has no usable normal; an edge shorter than this part of
# the mesh has no usable direction.
_FLAT = 1e-12
_SHORT = 1e-12


@dataclass(frozen=True)
class Topology:
    """The parts of a triangle mesh with n points, m triangles, e edges, h hinges. Indices are int32, sizes float64.

    positions: (n, 3) [m]; triangles: (m, 3); triangle_area: (m,) [m^2].
    edges: (e, 2), lower index first, sorted; edge_length: (e,) [m].
    edge_uses: (e,) number of adjacent triangles: 1 at the boundary, more than 2 where sheets meet.
    edge_triangles: (e, 2) the adjacent triangles, -1 where there is none (of more than two, the first two).
    edge_area: (e,) [m^2] sum of the areas of all adjacent triangles.
    hinges: (h, 4) one row for each edge of exactly two triangles, in the order of the bend constraint: x0, x1 the wings
    (the points opposite the edge), x2, x3 the edge. The triangles are (x0, x2, x3), wound as in ``triangles``, and
    (x1, x3, x2). hinge_edge: (h,) its row in ``edges``.
    boundary: (n,) bool; point_area: (n,) [m^2] a third of each adjacent triangle (lumped).
    piece: (n,) the connected piece of each point, 0, 1, ... in the order of their lowest points, -1 for a loose point
    (one that no triangle uses).
    """

    positions: np.ndarray
    triangles: np.ndarray
    triangle_area: np.ndarray
    edges: np.ndarray
    edge_length: np.ndarray
    edge_uses: np.ndarray
    edge_triangles: np.ndarray
    edge_area: np.ndarray
    hinges: np.ndarray
    hinge_edge: np.ndarray
    boundary: np.ndarray
    point_area: np.ndarray
    piece: np.ndarray

    @property
    def piece_count(self) -> int:
        """Number of connected pieces, loose points not counted."""
        return int(self.piece.max(initial=-1)) + 1

    @property
    def loose_points(self) -> np.ndarray:
        """Indices of the points that no triangle uses."""
        return np.flatnonzero(self.piece < 0).astype(np.int32)

    @property
    def short_edges(self) -> np.ndarray:
        """Indices of the edges of no length (measured against the extent of the mesh)."""
        extent = np.ptp(self.positions, axis=0).max(initial=0.0)
        return np.flatnonzero(self.edge_length <= _SHORT * extent).astype(np.int32)

    @property
    def degenerate_triangles(self) -> np.ndarray:
        """Indices of the triangles of no area: a point used twice, or three points on a line."""
        corners = self.positions[self.triangles]
        longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(axis=1, initial=0.0)
        return np.flatnonzero(self.triangle_area <= _FLAT * longest**2).astype(np.int32)

    @property
    def duplicate_triangles(self) -> np.ndarray:
        """Indices of the triangles on the same three points as an earlier one, whatever their winding."""
        _, first = np.unique(np.sort(self.triangles, axis=1), axis=0, return_index=True)
        again = np.ones(len(self.triangles), bool)
        again[first] = False
        return np.flatnonzero(again).astype(np.int32)

    def find_edges(self, pairs: ArrayLike) -> np.ndarray:
        """Rows of ``edges`` that hold the given pairs of points (k, 2), in either order: (k,) int32."""
        wanted = np.sort(np.asarray(pairs, np.int64).reshape(-1, 2), axis=1)
        count = max(len(self.positions), 1)
        keys = self.edges[:, 0].astype(np.int64) * count + self.edges[:, 1]
        wanted_keys = wanted[:, 0] * count + wanted[:, 1]
        rows = np.searchsorted(keys, wanted_keys)
        missing = np.flatnonzero(keys[np.minimum(rows, len(keys) - 1)] != wanted_keys) if len(keys) else wanted[:, 0]
        if len(missing):
            raise GeometryError(f"points {tuple(wanted[missing[0]].tolist())} are not joined by an edge of the mesh")
        return rows.astype(np.int32)


def mesh_topology(positions: ArrayLike, triangles: ArrayLike) -> Topology:
    """Analyse a triangle mesh: positions (n, 3) [m], triangles (m, 3) indices."""
    x = np.asarray(positions, np.float64).reshape(-1, 3)
    tri = np.asarray(triangles)
    if tri.size and not np.issubdtype(tri.dtype, np.integer):
        raise GeometryError(f"triangles have dtype {tri.dtype}", "Pass integer indices (m, 3)")
    tri = tri.astype(np.int32).reshape(-1, 3)
    wrong = np.flatnonzero((tri < 0).any(axis=1) | (tri >= len(x)).any(axis=1))
    if len(wrong):
        raise GeometryError(f"triangle {listed(wrong)} names a point outside 0..{len(x) - 1}")
    area = 0.5 * np.linalg.norm(np.cross(x[tri[:, 1]] - x[tri[:, 0]], x[tri[:, 2]] - x[tri[:, 0]]), axis=1)

    # The three sides of every triangle, triangle by triangle; side k of (a, b, c) runs from corner k to corner k + 1.
    sides = np.stack([tri, np.roll(tri, -1, axis=1)], axis=2).reshape(-1, 2)
    opposite = np.roll(tri, -2, axis=1).reshape(-1)
    edges, edge_of_side, uses = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    edge_of_side = edge_of_side.reshape(-1)
    by_edge = np.argsort(edge_of_side, kind="stable")
    start = np.concatenate([[0], np.cumsum(uses)[:-1]]) if len(uses) else np.zeros(0, np.int64)
    first_side = by_edge[start]
    second_side = by_edge[np.minimum(start + 1, max(len(by_edge) - 1, 0))]
    edge_triangles = np.stack([first_side // 3, np.where(uses > 1, second_side // 3, -1)], axis=1)

    hinge_edge = np.flatnonzero(uses == 2)
    wings = np.stack([opposite[first_side[hinge_edge]], opposite[second_side[hinge_edge]]], axis=1)
    hinges = np.concatenate([wings, sides[first_side[hinge_edge]]], axis=1)

    boundary = np.zeros(len(x), bool)
    boundary[edges[uses == 1].reshape(-1)] = True
    return Topology(
        positions=x,
        triangles=tri,
        triangle_area=area,
        edges=edges.astype(np.int32),
        edge_length=np.linalg.norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1),
        edge_uses=uses.astype(np.int32),
        edge_triangles=edge_triangles.astype(np.int32),
        edge_area=np.bincount(edge_of_side, np.repeat(area, 3), minlength=len(edges)),
        hinges=hinges.astype(np.int32),
        hinge_edge=hinge_edge.astype(np.int32),
        boundary=boundary,
        point_area=np.bincount(tri.reshape(-1), np.repeat(area / 3.0, 3), minlength=len(x)),
        piece=_pieces(len(x), edges, tri),
    )


def _pieces(count: int, edges: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Connected pieces by hooking roots to lower roots and compressing the paths until nothing changes."""
    root = np.arange(count)
    while True:
        ends = root[edges]
        low = ends.min(axis=1)
        hooked = root.copy()
        np.minimum.at(hooked, ends[:, 0], low)
        np.minimum.at(hooked, ends[:, 1], low)
        while not np.array_equal(hooked[hooked], hooked):
            hooked = hooked[hooked]
        if np.array_equal(hooked, root):
            break
        root = hooked
    piece = np.full(count, -1, np.int32)
    used = np.flatnonzero(np.bincount(triangles.reshape(-1), minlength=count))
    piece[used] = np.unique(root[used], return_inverse=True)[1].reshape(-1)
    return piece


@dataclass(frozen=True)
class SolidMoments:
    """Of what a closed surface encloses, at density one: volume [m^3], centre (3,) [m], and the integral (3, 3) of
    x x^T about the centre [m^5]."""

    volume: float
    centre: np.ndarray
    second: np.ndarray


def solid_moments(positions: ArrayLike, triangles: ArrayLike) -> SolidMoments:
    """Sums over the tetrahedra between a point and the triangles, which look outward.

    Raises GeometryError where the surface is not closed, not wound alike, or looks inward.
    """
    x, tri = np.asarray(positions, np.float64).reshape(-1, 3), np.asarray(triangles, np.int64).reshape(-1, 3)
    sides = np.stack([tri, np.roll(tri, -1, axis=1)], axis=2).reshape(-1, 2)
    ways, uses = np.unique(sides, axis=0, return_counts=True)
    keys = ways @ [len(x), 1]
    single = ~np.isin(ways @ [1, len(x)], keys)
    if (uses > 1).any():
        what = f"the surface is wound both ways: {int((uses > 1).sum())} of its edges are run twice in one direction"
        raise GeometryError(what, "Let all triangles look outward (recalculate normals in a mesh editor)")
    if single.any():
        raise GeometryError(
            f"the surface is not closed: {int(single.sum())} of its edges have a triangle on one side only",
            "Close its holes in a mesh editor, or merge points that stand twice",
        )
    middle = x[np.unique(tri)].mean(axis=0)
    a, b, c = np.moveaxis(x[tri] - middle, 1, 0)
    six = np.einsum("td,td->t", a, np.cross(b, c))
    volume = float(six.sum() / 6.0)
    if volume <= 0.0:
        raise GeometryError(
            f"the surface encloses a volume of {volume:.3g} m^3: it looks inward, or is flat",
            "Turn its triangles round (flip normals in a mesh editor)",
        )
    first = np.einsum("t,td->d", six, a + b + c) / 24.0 / volume
    # of a tetrahedron with a corner at the origin: V / 20 (a a + b b + c c + s s), s the sum of the others
    spread = sum(np.einsum("t,ti,tj->ij", six, v, v) for v in (a, b, c, a + b + c)) / 120.0
    return SolidMoments(volume, middle + first, spread - volume * np.outer(first, first))


def cloth_problems(topology: Topology) -> list[GeometryError]:
    """Everything that makes a mesh unfit for a cloth, each with what to do; empty for a good one."""
    problems = []
    if len(topology.triangles) == 0:
        problems.append(GeometryError("the mesh has no triangles", "A cloth is a surface; use `chain` or `particles`"))
        return problems
    if topology.piece_count > 1:
        sizes = np.bincount(topology.piece[topology.piece >= 0])
        problems.append(
            GeometryError(
                f"the mesh falls into {topology.piece_count} pieces that share no point (of {listed(sizes)} points)",
                "Sew them together where they should hold, or make each an object of its own",
            )
        )
    if len(topology.loose_points):
        problems.append(
            GeometryError(
                f"{len(topology.loose_points)} loose points belong to no triangle: {listed(topology.loose_points)}",
                "Remove them from the mesh",
            )
        )
    if len(topology.degenerate_triangles):
        problems.append(
            GeometryError(
                f"{len(topology.degenerate_triangles)} triangles have no area: {listed(topology.degenerate_triangles)}",
                "Remove them, or move their points apart",
            )
        )
    repeated = topology.duplicate_triangles
    if len(repeated):
        problems.append(
            GeometryError(
                f"{len(repeated)} triangles repeat an earlier one: {listed(repeated)}", "Remove the repetitions"
            )
        )
    short = [tuple(topology.edges[row].tolist()) for row in topology.short_edges]
    if short:
        problems.append(GeometryError(f"{len(short)} edges have no length: {listed(short)}", "Merge their two points"))
    crowded = [tuple(edge.tolist()) for edge in topology.edges[topology.edge_uses > 2]]
    if crowded:
        problems.append(
            GeometryError(
                f"{len(crowded)} edges belong to more than two triangles: {listed(crowded)}",
                "Such a seam has no bending angle; separate the layers",
            )
        )
    return problems


def check_cloth(topology: Topology, label: str) -> None:
    """Raise one GeometryError with all of :func:`cloth_problems`, if there are any."""
    problems = cloth_problems(topology)
    if problems:
        raise GeometryError(f"{label}: " + "; ".join(p.what for p in problems), "; ".join(p.hint for p in problems))
