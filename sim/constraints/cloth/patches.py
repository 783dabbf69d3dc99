"""The curvature of a sheet over a triangle, from twelve points: the triangle, its neighbours and theirs.

The sheet over the plane of a triangle T is a height f.  The mean of its second derivatives over T is an integral over
the sides, (1 / A) sum_k l_k n_k g_k^T, of the slope g at their midpoints: exactly, where f is a quadratic.  The slope
along a side follows from its ends; the one across it is that of the quadratic that fits the points around the side
best: the two triangles there, and the points opposite the other four sides of these.

Such a measure is right for every quadratic on any mesh, and both triangles at a side use the same slope, so that the
curvatures of all triangles add up to what the boundary says, again on any mesh.  Both are needed for plates to bend as
they should: a quadratic fitted to each triangle and its three neighbours has the first property only, and on a union
jack bends 43 % too much however fine it is; the slope averaged over the two triangles (E. Onate, F. Zarate,
"Rotation-free triangular plate and shell elements", 2000) has the second only.  That slopes belong to sides is from
E. Grinspun, Y. Gingold, J. Reisman, D. Zorin, "Computing discrete shape operators on general meshes", 2006, where they
are unknowns of their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.constraints.cloth.triangle import woven_triangles
from sim.constraints.stencils import Cloth, Elements, Stencil
from sim.geometry import Topology

CORNERS, POINTS = 3, 12
WEIGHTS = tuple(f"w{k}" for k in range(CORNERS, POINTS))
"""Parameters: what the height of a point over the triangle adds to the rows of `plate`."""

PATCHES = Stencil("triangles with two rings of neighbours", gives=(*WEIGHTS, "rest"))
WOVEN_PATCHES = Stencil("triangles with two rings of neighbours, and the warp", gives=(*WEIGHTS, "rest", "along"))

_RIDGE = 1e-9  # of curvatures in a fit: those that the points do not tell, as across a strip one cell wide, are 0


@PATCHES.on(Cloth)
def patches(cloth: Cloth) -> Elements:
    """Points: the corners, the three points opposite the sides, and two more behind each of these; where there is
    none, or where it was there already, the first corner, without weight.  rest: the curvatures of the rest shape."""
    t = cloth.topology
    slots = _points(t)
    flat = _unfolded(t.positions, slots)
    points, same = slots.copy(), []
    for later in range(1, POINTS):
        for first in range(later):  # one point by several ways, as around a vertex of three triangles
            rows = np.flatnonzero((points[:, later] == points[:, first]) & (points[:, later] >= 0))
            points[rows, later] = -1
            same.append((rows, first, later))
    points = np.where(points < 0, points[:, :1], points).astype(np.int32)

    def given(held: np.ndarray) -> dict[str, np.ndarray]:
        weights = _weights(slots, flat, held)
        for rows, first, later in same:  # all of its weight at the first of them
            weights[rows, first] += weights[rows, later]
            weights[rows, later] = 0.0
        found = {name: weights[:, CORNERS + k] for k, name in enumerate(WEIGHTS)}
        return {**found, "rest": _curvatures(t.positions[points], weights)}

    return Elements(points, np.sqrt(t.triangle_area), t.triangle_area, given)


@WOVEN_PATCHES.on(Cloth)
def woven_patches(cloth: Cloth) -> Elements:
    """The same, with `along` of `woven_triangles`."""
    found, woven = patches(cloth), woven_triangles(cloth)
    parts = [part for part in (found.given, woven.given) if part is not None]
    return replace(found, given=lambda held: {name: v for part in parts for name, v in part(held).items()})


def _points(t: Topology) -> np.ndarray:
    """(m, 12), -1 where there is none.  Point 3 + k is opposite side k = (corner k, corner k + 1); behind it are
    6 + 2 k, across (corner k, 3 + k), and 7 + 2 k, across (3 + k, corner k + 1)."""
    corners = t.triangles
    points = np.full((len(corners), POINTS), -1)
    points[:, :CORNERS] = corners
    own = np.arange(len(corners))
    for k in range(3):
        a, b = corners[:, k], corners[:, (k + 1) % 3]
        near, points[:, 3 + k] = _across(t, a, b, own)
        _, points[:, 6 + 2 * k] = _across(t, a, points[:, 3 + k], near)
        _, points[:, 7 + 2 * k] = _across(t, points[:, 3 + k], b, near)
    return points


def _across(t: Topology, a: np.ndarray, b: np.ndarray, triangle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The triangles across the edges (a, b) of triangles, and their third points; -1 where there is none."""
    other, third = np.full((2, len(a)), -1)
    known = np.flatnonzero(triangle >= 0)
    edges = t.find_edges(np.stack([a[known], b[known]], axis=1))
    both = t.edge_triangles[edges]
    found = np.where(both[:, 0] == triangle[known], both[:, 1], both[:, 0])
    known, found = known[found >= 0], found[found >= 0]
    other[known] = found
    third[known] = t.triangles[found].sum(axis=1) - a[known] - b[known]
    return other, third


def _curvatures(at: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(m, 3) in the basis of the rows of `plate`, of points at (m, 12, 3)."""
    normal = np.cross(at[:, 1] - at[:, 0], at[:, 2] - at[:, 0])
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    height = ((at - at[:, :1]) * normal[:, None]).sum(axis=2)
    return np.asarray((height[:, :, None] * weights).sum(axis=1))


def _unfolded(x: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The points (m, 12, 2) laid flat: triangles are turned about their common sides into the plane of the first one,
    whose side 0 is the x axis."""
    at = x[points]
    flat = np.zeros((*points.shape, 2))
    edge, out = at[:, 1] - at[:, 0], at[:, 2] - at[:, 0]
    long = np.linalg.norm(edge, axis=1)
    flat[:, 1, 0] = long
    flat[:, 2] = np.stack([(edge * out).sum(axis=1), np.linalg.norm(np.cross(edge, out), axis=1)], 1) / long[:, None]
    for k in range(3):
        a, b, c, near = k, (k + 1) % 3, (k + 2) % 3, 3 + k
        _lay(flat, at, near, a, b, c)
        _lay(flat, at, 6 + 2 * k, a, near, b)
        _lay(flat, at, 7 + 2 * k, near, b, a)
    return flat


def _lay(flat: np.ndarray, at: np.ndarray, new: int, a: int, b: int, other: int) -> None:
    """Writes `flat` of a new point behind the side (a, b), on the other side of it than `other`."""
    edge, out = at[:, b] - at[:, a], at[:, new] - at[:, a]
    square = np.maximum((edge * edge).sum(axis=1), 1e-300)
    ahead = (edge * out).sum(axis=1) / square
    aside = np.linalg.norm(np.cross(edge, out), axis=1) / square
    side = flat[:, b] - flat[:, a]
    across = np.stack([-side[:, 1], side[:, 0]], axis=1)
    behind = -np.sign(((flat[:, other] - flat[:, a]) * across).sum(axis=1))
    flat[:, new] = flat[:, a] + ahead[:, None] * side + (behind * aside)[:, None] * across


def _weights(points: np.ndarray, flat: np.ndarray, held: np.ndarray) -> np.ndarray:
    """(m, 12, 3): curvatures per height of each point, in the basis of the rows of `plate`.

    Where all corners of a triangle are held the sheet is clamped: the slope at its sides is that of the triangle.
    """
    there = points >= 0
    fixed = held[points] & there
    hessian = np.zeros((len(points), POINTS, 2, 2))
    area = 0.5 * flat[:, 1, 0] * flat[:, 2, 1]
    for k in range(3):
        a, b = k, (k + 1) % 3
        side = flat[:, b] - flat[:, a]
        outward = np.stack([side[:, 1], -side[:, 0]], axis=1)  # times the length of the side
        slope = _slope_across(flat, _around(there, fixed, k), a, b)[:, :, None] * outward[:, None, :]
        along = side / (side * side).sum(axis=1)[:, None]
        slope[:, b] += along
        slope[:, a] -= along
        hessian += outward[:, None, :, None] * slope[:, :, None, :] / area[:, None, None, None]
    xx, yy, xy = hessian[..., 0, 0], hessian[..., 1, 1], 0.5 * (hessian[..., 0, 1] + hessian[..., 1, 0])
    return np.stack([(xx + yy) * 0.5**0.5, (xx - yy) * 0.5**0.5, xy * 2.0**0.5], axis=2)


def _around(there: np.ndarray, fixed: np.ndarray, k: int) -> np.ndarray:
    """(m, 12): the points around side k of each triangle.

    At the boundary, where the triangle across is missing, those behind its other two sides instead; at a clamped side
    the corners of the triangle that is held.
    """
    used = np.zeros(there.shape, bool)
    used[:, :6] = True
    inner = there[:, 3 + k]
    for side in range(3):
        used[:, 6 + 2 * side : 8 + 2 * side] = (inner if side == k else ~inner)[:, None]
    ends = [k, (k + 1) % 3]
    for third in (3 + k, (k + 2) % 3):
        clamped = fixed[:, [*ends, third]].all(axis=1)
        used[clamped] = False
        used[clamped[:, None] & np.isin(np.arange(POINTS), [*ends, third])] = True
    return used & there


def _slope_across(flat: np.ndarray, used: np.ndarray, a: int, b: int) -> np.ndarray:
    """(m, 12): the derivative across the side (a, b), at its midpoint and over its length, per height of each point."""
    side = flat[:, b] - flat[:, a]
    square = (side * side).sum(axis=1)
    from_middle = flat - 0.5 * (flat[:, a] + flat[:, b])[:, None]
    across = np.stack([side[:, 1], -side[:, 0]], axis=1)
    u = (from_middle * side[:, None]).sum(axis=2) / square[:, None]  # along and across, in lengths of the side
    v = (from_middle * across[:, None]).sum(axis=2) / square[:, None]
    terms = np.stack([np.ones_like(u), u, v, 0.5 * u * u, 0.5 * v * v, u * v], axis=2) * used[:, :, None]
    normal = np.einsum("mpi,mpj->mij", terms, terms) + np.diag(_RIDGE * np.array([0, 0, 0, 1, 1, 2]))
    return np.linalg.solve(normal, np.swapaxes(terms, 1, 2))[:, 2] / square[:, None]
