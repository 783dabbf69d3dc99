"""Meshes of a rectangle, of four kinds: what the values of a material should not depend on."""

import numpy as np

Mesh = tuple[np.ndarray, np.ndarray]
"""Points (n, 3) in the plane z = 0 and triangles (m, 3), counterclockwise."""


def grid(cells: tuple[int, int], size: tuple[float, float]) -> Mesh:
    """Every cell cut by the same diagonal."""
    return _cut(cells, size, lambda i, j: np.zeros(i.shape, bool))


def union_jack(cells: tuple[int, int], size: tuple[float, float]) -> Mesh:
    """The diagonals of neighbouring cells meet."""
    return _cut(cells, size, lambda i, j: (i + j) % 2 == 1)


def equilateral(cells: tuple[int, int], size: tuple[float, float]) -> Mesh:
    """Rows of triangles with equal sides, up to the number of rows that fits; half triangles at the ends."""
    (columns, _), (width, height) = cells, size
    side = width / columns
    rows = max(1, round(height / (side * 0.75**0.5)))
    even, odd = np.linspace(0, width, columns + 1), np.array([0, *(np.arange(columns) + 0.5), columns]) * side
    points = [(x, height * j / rows) for j in range(rows + 1) for x in (odd if j % 2 else even)]
    return _delaunay(np.array(points))


def scattered(cells: tuple[int, int], size: tuple[float, float], seed: int = 1, by: float = 0.3, held: int = 0) -> Mesh:
    """Delaunay triangles of the points of a grid, each moved by up to `by` cells; not those of the first columns."""
    points = _points(cells, size)
    cell = np.array(size) / cells
    moved = points + np.random.default_rng(seed).uniform(-by, by, points.shape) * cell
    column, row = np.round(points / cell).T
    inside = np.stack([(column > max(held - 1, 0)) & (column < cells[0]), (row > 0) & (row < cells[1])], axis=1)
    inside[column < held] = False
    return _delaunay(np.where(inside, moved, points))


MESHES = {"grid": grid, "union jack": union_jack, "equilateral": equilateral, "Delaunay": scattered}


def _points(cells: tuple[int, int], size: tuple[float, float]) -> np.ndarray:
    j, i = np.divmod(np.arange((cells[0] + 1) * (cells[1] + 1)), cells[0] + 1)
    return np.stack([i, j], axis=1) * (np.array(size) / cells)


def _cut(cells, size, other) -> Mesh:
    j, i = np.divmod(np.arange(cells[0] * cells[1]), cells[0])
    a = j * (cells[0] + 1) + i
    b, c, d = a + 1, a + cells[0] + 2, a + cells[0] + 1
    two = np.where(other(i, j)[:, None], np.stack([a, b, d, b, c, d], 1), np.stack([a, b, c, a, c, d], 1))
    return _flat(_points(cells, size)), two.reshape(-1, 3)


def _flat(points: np.ndarray) -> np.ndarray:
    return np.concatenate([points, np.zeros((len(points), 1))], axis=1)


def _delaunay(points: np.ndarray) -> Mesh:
    """A. Bowyer, "Computing Dirichlet tessellations", 1981; D. F. Watson, the same year: point by point."""
    low, high = points.min(axis=0), points.max(axis=0)
    far = 100 * (high - low).max()
    middle = (low + high) / 2
    x = np.concatenate([points, middle + far * np.array([[-2.0, -1.0], [2.0, -1.0], [0.0, 2.0]])])
    # ties, as between the corners of a square, are broken by a change that is nothing beside a cell
    x[: len(points)] += 1e-7 * (high - low).max() * np.random.default_rng(0).normal(size=points.shape)
    n = len(points)
    triangles = np.array([[n, n + 1, n + 2]])
    for k in range(n):
        a, b, c = (x[triangles[:, m]] - x[k] for m in range(3))
        squares = [(p * p).sum(axis=1) for p in (a, b, c)]
        inside = squares[0] * _cross(b, c) + squares[1] * _cross(c, a) + squares[2] * _cross(a, b) > 0
        hole = triangles[inside]
        sides = np.concatenate([hole[:, [0, 1]], hole[:, [1, 2]], hole[:, [2, 0]]])
        known = {tuple(side) for side in sides.tolist()}
        rim = [side for side in sides.tolist() if (side[1], side[0]) not in known]
        triangles = np.concatenate([triangles[~inside], [[p, q, k] for p, q in rim]])
    triangles = triangles[(triangles < n).all(axis=1)]
    a, b, c = (points[triangles[:, m]] for m in range(3))
    area = _cross(b - a, c - a)
    return _flat(points), triangles[area > 1e-5 * area.max()]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
