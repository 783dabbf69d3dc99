"""A rectangular cloth as a triangulated grid."""

from dataclasses import dataclass

import numpy as np

from sim.geometry.errors import GeometryError


@dataclass(frozen=True)
class ClothGrid:
    """A grid of (dim_x + 1)(dim_y + 1) points in the plane z = 0, row by row: point (i, j) is number j (dim_x + 1) + i.

    positions: (n, 3) float64 [m], from (0, 0, 0) to (dim_x cell_x, dim_y cell_y, 0).
    triangles: (2 dim_x dim_y, 3) int32, normals along +z.
    structural: (k, 2) int32 the edges along the axes; structural_axis: (k,) int8, 0 along x and 1 along y.
    diagonals: (dim_x dim_y, 2) int32 the edges across the cells, one each. Together with ``structural``: all edges.
    left, right, bottom, top: indices of the points at the lowest and highest x, the lowest and highest y.
    """

    positions: np.ndarray
    triangles: np.ndarray
    structural: np.ndarray
    structural_axis: np.ndarray
    diagonals: np.ndarray
    left: np.ndarray
    right: np.ndarray
    bottom: np.ndarray
    top: np.ndarray


def cloth_grid(dim_x: int, dim_y: int, cell_x: float, cell_y: float, reverse_winding: bool = False) -> ClothGrid:
    """Build a grid of ``dim_x`` by ``dim_y`` cells of ``cell_x`` by ``cell_y`` [m], numbered as Newton numbers it.

    Each cell is cut from its lower right to its upper left corner; ``reverse_winding`` (Newton's name) cuts it the
    other way and leaves the normals as they are.
    """
    for name, cells in (("dim_x", dim_x), ("dim_y", dim_y)):
        if int(cells) != cells or cells < 1:
            raise GeometryError(f"{name} = {cells!r} must be a whole number of cells, at least 1")
    for name, size in (("cell_x", cell_x), ("cell_y", cell_y)):
        if not (np.isfinite(size) and size > 0):
            raise GeometryError(f"{name} = {size!r} must be a positive length in metres")
    number = np.arange((dim_x + 1) * (dim_y + 1), dtype=np.int32).reshape(dim_y + 1, dim_x + 1)
    row, column = np.divmod(number.reshape(-1), dim_x + 1)
    positions = np.stack([column * cell_x, row * cell_y, np.zeros(number.size)], axis=1)

    lower_left, lower_right = number[:-1, :-1].reshape(-1), number[:-1, 1:].reshape(-1)
    upper_left, upper_right = number[1:, :-1].reshape(-1), number[1:, 1:].reshape(-1)
    if reverse_winding:
        halves = [(lower_left, lower_right, upper_right), (lower_left, upper_right, upper_left)]
        diagonals = np.stack([lower_left, upper_right], axis=1)
    else:
        halves = [(lower_left, lower_right, upper_left), (lower_right, upper_right, upper_left)]
        diagonals = np.stack([lower_right, upper_left], axis=1)
    triangles = np.stack([np.stack(half, axis=1) for half in halves], axis=1).reshape(-1, 3)

    along_x = np.stack([number[:, :-1].reshape(-1), number[:, 1:].reshape(-1)], axis=1)
    along_y = np.stack([number[:-1].reshape(-1), number[1:].reshape(-1)], axis=1)
    return ClothGrid(
        positions=positions,
        triangles=triangles,
        structural=np.concatenate([along_x, along_y]),
        structural_axis=np.repeat(np.array([0, 1], np.int8), [len(along_x), len(along_y)]),
        diagonals=diagonals,
        left=number[:, 0].copy(),
        right=number[:, -1].copy(),
        bottom=number[0].copy(),
        top=number[-1].copy(),
    )
