"""`HashGrid`: points sorted into the cells of a grid that is repeated through space; see the package for its layout."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from sim.core.lang.frontend.builtins import tid
from sim.core.lang.types import Scalar, as_type, float32, int32, uint32, uint64, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, empty, zeros
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.launch.structures import add_structure
from sim.core.spatial.bvh import check_groups
from sim.core.spatial.hash_grid_queries import cell_index
from sim.core.spatial.sorting import RadixSort, number, take

MOST_CELLS = 2**31 - 1
CELLS = 1024
"""Cells whose first positions one thread finds."""


@kernel
def _key_cells(points: array[Any], inverse_width: Any, dim_x: int, dim_y: int, dim_z: int, cells: array[uint32]):
    i = tid()
    cells[i] = uint32(cell_index(points[i], inverse_width, dim_x, dim_y, dim_z))


@kernel
def _find_starts(cells: array[uint32], count: int, piece: int, starts: array[int32]):
    """The first position of a point in each cell or behind it: found once, then counted on."""
    first = tid() * piece
    low, high = int32(0), cells.shape[0]
    while low < high:
        middle = (low + high) // 2
        if cells[middle] < uint32(first):
            low = middle + 1
        else:
            high = middle
    for c in range(first, min(first + piece, count + 1)):
        while low < cells.shape[0] and cells[low] < uint32(c):
            low += 1
        starts[c] = low


class _Room:
    """The arrays of a grid for up to `capacity` points."""

    def __init__(self, capacity: int, grouped: bool, device: Any) -> None:
        self.capacity, self.grouped = capacity, grouped
        self.cells, self.points = empty(capacity, uint32, device), empty(capacity, int32, device)
        self.groups = empty(capacity if grouped else 0, uint32, device)
        self.unsorted = empty(capacity if grouped else 0, uint32, device)
        self.sort = RadixSort(capacity, device)


class HashGrid:
    """Points in cells, for queries in kernels: `for j in hash_grid_query(grid.id, x, radius)`.

    dim_x, dim_y, dim_z: cells along the axes.  Space is covered by repetitions of the grid, so that any place may be
    asked for; a query that covers less than the whole grid sees no point twice.
    dtype: float16, float32 or float64, of the coordinates.
    Raises RuntimeError for a number of cells below 1 or above 2^31 - 1, TypeError for dimensions that are no integers,
    or another dtype.
    """

    id: int | None = None

    def __init__(self, dim_x: int, dim_y: int, dim_z: int, device: DeviceLike = None, dtype: Any = None) -> None:
        self.dtype = _coordinate_type(dtype)
        try:
            self._dims = tuple(operator.index(d) for d in (dim_x, dim_y, dim_z))
        except TypeError:
            raise TypeError(f"HashGrid dimensions must be integers, got {(dim_x, dim_y, dim_z)}") from None
        if min(self._dims) < 1:
            raise RuntimeError(f"Hash grid dimensions must be positive, got {self._dims}")
        self._count = self._dims[0] * self._dims[1] * self._dims[2]
        if self._count > MOST_CELLS:
            raise RuntimeError(f"Hash grid cell count exceeds supported limit: {self._count} > {MOST_CELLS}")
        self.device = get_device(device)
        self.groups: array | None = None
        self.reserved = False
        self._starts: array | None = None
        self._room: _Room | None = None
        self._header = zeros(8, uint64, self.device)
        self.id = int(self._header.ptr)
        add_structure(self.id, self)

    @property
    def memory(self) -> list[array]:
        """What kernels read through the id."""
        room = [] if self._room is None else [self._room.points, self._room.groups]
        return [self._header, *room, *([] if self._starts is None else [self._starts])]

    def reserve(self, num_points: int, with_groups: bool = False) -> None:
        """Take the memory for this many points, so that `build` takes none.

        Raises NotImplementedError while a graph is captured: a graph that was captured before uses the old memory.
        """
        if capturing() is not None:
            raise NotImplementedError("HashGrid.reserve() cannot be called during a capture; reserve before capture")
        self._make_room(int(num_points), with_groups)
        self.reserved = True

    def build(self, points: array, radius: float, groups: array | None = None) -> None:
        """Sort these points into cells of width `radius`.

        points: vec3 of the precision of the grid, of any shape; numbered as if flattened.  radius: best about that of
        the queries.  groups: int32 per point; a query for a group sees the points of that group only.
        Raises TypeError for another type of points, ValueError for a radius that is not positive, RuntimeError for
        arrays on another device or groups that do not fit.
        """
        self._check(points, radius)
        if groups is not None:
            check_groups(groups, points.size, self.device, "the grid and its points")
        self.groups = groups
        with recording.paused():
            self._make_room(points.size, groups is not None)
            self._sort(_flat(points), float(radius), None if groups is None else _flat(groups))
        self.reserved = True

    def _check(self, points: Any, radius: float) -> None:
        wanted = vector(3, self.dtype)
        if not isinstance(points, array) or points.dtype is not wanted:
            found = getattr(points, "dtype", type(points).__name__)
            raise TypeError(f"Hash grid points should have type {wanted}, got {found}")
        if not radius > 0.0:
            raise ValueError(f"Hash grid cell width must be positive, got {radius}")
        if points.device is not self.device:
            raise RuntimeError(f"points must live on the same device as this HashGrid: {self.device}")

    def _make_room(self, count: int, grouped: bool) -> None:
        room = self._room
        if room is None or room.capacity < count or (grouped and not room.grouped):
            grouped = grouped or (room is not None and room.grouped)
            capacity = max(count, 0 if room is None else room.capacity)
            self._room = _Room(capacity, grouped, self.device)
        if self._starts is None:
            self._starts = empty(self._count + 1, int32, self.device)

    def _sort(self, points: array, radius: float, groups: array | None) -> None:
        room, starts, count = self._room, self._starts, points.size
        assert room is not None and starts is not None
        inverse = self.dtype.np.type(1.0) / self.dtype.np.type(radius)
        cells, order, bits = room.cells[:count], room.points[:count], int(self._count - 1).bit_length()
        unsorted = cells if groups is None else room.unsorted[:count]
        launch(_key_cells, count, [points, inverse, *self._dims, unsorted], device=self.device)
        number(order)
        if groups is not None:
            by_group = room.groups[:count]
            copy(by_group, groups.view(uint32))
            room.sort.run(by_group, order)
            launch(take, count, [unsorted, order, cells], device=self.device)
        room.sort.run(cells, order, bits)
        if groups is not None:
            launch(take, count, [groups.view(uint32), order, room.groups[:count]], device=self.device)
        pieces = -(-(self._count + 1) // CELLS)
        launch(_find_starts, pieces, [cells, self._count, CELLS, starts], device=self.device)
        width = np.float64(inverse).view(np.uint64)
        by = 0 if groups is None else room.groups.ptr or 0
        words = [starts.ptr, room.points.ptr or 0, by, *self._dims, int(width), count]
        self._header.assign(np.array(words, np.uint64))

    def __del__(self) -> None:
        """Warp's programs call it; the memory goes with the last reference."""


def _coordinate_type(dtype: Any) -> Scalar:
    kind = float32 if dtype is None else as_type(dtype)
    if not isinstance(kind, Scalar) or not kind.is_float:
        raise TypeError(f"Unsupported dtype {kind} for HashGrid. Supported types: float16, float32, float64")
    return kind


def _flat(a: array) -> array:
    if a.ndim == 1:
        return a
    return a.flatten() if a.is_contiguous else a.contiguous().flatten()
