"""Queries of hash grids in kernels: the points in the cells around a place; see the package for the layout.

The cells that a query covers make up rows along x, and those of a row are neighbours in memory: a query goes through
runs of positions, one per row, or two where the row is wrapped around the end of the grid, or one per cell where only
one group is asked for.
"""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.frontend.builtins import floor, where
from sim.core.lang.frontend.function import func
from sim.core.lang.frontend.traced import Keywords, Positional, StructValue
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin, register
from sim.core.lang.library.static import scalar_type
from sim.core.lang.types import Struct, as_scalar, float64, int32, int64, uint32, uint64
from sim.core.spatial.handles import advancing, peek

FURTHEST = 2147483646
"""The last cell: coordinates beyond it, and infinite ones, count as in it."""


class QueryType(Struct):
    """The type of queries of grids.  `HashGridQuery[float64]` is the same one: a query has no coordinates in it."""

    def __getitem__(self, dtype: Any) -> QueryType:
        if not as_scalar(dtype).is_float:
            raise TypeError(f"Unsupported dtype {dtype} for HashGridQuery. Supported types: float16, float32, float64")
        return self


HashGridQuery = QueryType(
    "HashGridQuery",
    {
        **dict.fromkeys(("starts", "points", "groups"), uint64),
        **dict.fromkeys(("dim_x", "dim_y", "dim_z", "x", "y", "z"), int32),
        **dict.fromkeys(("across", "runs_x", "rows", "runs", "run", "at", "end", "group", "grouped"), int32),
    },
)
"""A query of a grid, and how far it has come; opaque to users.

x, y, z: the first cell.  across, rows: how many along x and y.  runs_x: runs in a row.  run: the next one of `runs`.
at, end: positions in the present run.
"""


@func
def cell_of(coordinate):
    """The cell, along one axis, of a coordinate in widths of a cell: NaN counts as 0."""
    return min(int32(floor(coordinate)), FURTHEST)


@func
def wrapped(cell, dim):
    """A cell of space, as one of the grid."""
    rest = cell % dim
    return where(rest < 0, rest + dim, rest)


@func
def cell_index(p, inverse_width, dim_x, dim_y, dim_z):
    """The number of the cell that a point is in."""
    x = wrapped(cell_of(p[0] * inverse_width), dim_x)
    y = wrapped(cell_of(p[1] * inverse_width), dim_y)
    z = wrapped(cell_of(p[2] * inverse_width), dim_z)
    return (z * dim_y + y) * dim_x + x


@func
def _span(low, high, dim):
    """How many cells a query covers along an axis: every cell of the grid once at most."""
    return int32(min(int64(high) - int64(low) + int64(1), int64(dim)))


@func
def _query(id: uint64, point, max_dist):
    query = HashGridQuery()
    query.starts = peek(uint64, id)
    query.points = peek(uint64, id + 8)
    query.dim_x = int32(peek(uint64, id + 24))
    query.dim_y = int32(peek(uint64, id + 32))
    query.dim_z = int32(peek(uint64, id + 40))
    inverse = scalar_type(point)(peek(float64, id + 48))
    low_x, high_x = cell_of((point[0] - max_dist) * inverse), cell_of((point[0] + max_dist) * inverse)
    low_y, high_y = cell_of((point[1] - max_dist) * inverse), cell_of((point[1] + max_dist) * inverse)
    low_z, high_z = cell_of((point[2] - max_dist) * inverse), cell_of((point[2] + max_dist) * inverse)
    query.across = _span(low_x, high_x, query.dim_x)
    query.rows = _span(low_y, high_y, query.dim_y)
    query.x, query.y, query.z = wrapped(low_x, query.dim_x), wrapped(low_y, query.dim_y), wrapped(low_z, query.dim_z)
    query.runs_x = where(query.x + query.across > query.dim_x, 2, 1)
    query.runs = query.rows * _span(low_z, high_z, query.dim_z)
    if peek(uint64, id + 56) == uint64(0):
        query.runs = 0
    return query


@func
def _query_all(id: uint64, point, max_dist):
    query = _query(id, point, max_dist)
    query.runs *= query.runs_x
    return query


@func
def _query_group(id: uint64, point, max_dist, group: int32):
    query = _query(id, point, max_dist)
    query.group = group
    query.groups = peek(uint64, id + 16)
    if query.groups != uint64(0):
        query.runs_x = query.across
    query.runs *= query.runs_x
    return query


def _hash_grid_query(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
    grouped = len(args) > 3 or "group" in kwargs
    made = call_function(t, _query_group if grouped else _query_all, args, kwargs, node)
    return StructValue(made.type, {**made.values, "grouped": int(grouped)})


hash_grid_query = Builtin(
    "hash_grid_query",
    _hash_grid_query,
    "A query for the points in the cells that a cube around a point touches: hash_grid_query(id, point, max_dist)."
    "  They are more than those within max_dist, the distance from the point to the faces of the cube.  With a"
    " fourth argument, `group`, only for points of that group.",
)


@func
def _first_of_group(query, low, high, group):
    """The first position from `low` on whose group is not below this one, as unsigned numbers."""
    while low < high:
        middle = low + (high - low) // 2
        if peek(uint32, query.groups + uint64(middle) * 4) < group:
            low = middle + 1
        else:
            high = middle
    return low


@func
def _positions(query, row, k):
    """First position, and the end, of run k of a row of cells."""
    y = query.y + row % query.rows
    z = query.z + row // query.rows
    y = where(y >= query.dim_y, y - query.dim_y, y)
    z = where(z >= query.dim_z, z - query.dim_z, z)
    first = (z * query.dim_y + y) * query.dim_x
    x, last = query.x, min(query.x + query.across, query.dim_x)
    by_group = query.grouped == 1 and query.groups != uint64(0)
    if by_group:
        x = query.x + k
        x = where(x >= query.dim_x, x - query.dim_x, x)
        last = x + 1
    elif k == 1:
        x, last = int32(0), query.x + query.across - query.dim_x
    at = peek(int32, query.starts + uint64(first + x) * 4)
    end = peek(int32, query.starts + uint64(first + last) * 4)
    if by_group:
        group = uint32(query.group)
        at = _first_of_group(query, at, end, group)
        if group != uint32(4294967295):
            end = _first_of_group(query, at, end, group + uint32(1))
    return at, end


@func
def _next(query: HashGridQuery):
    """(query, point, whether there was one)."""
    at, end, run = query.at, query.end, query.run
    while at >= end and run < query.runs:
        at, end = _positions(query, run // query.runs_x, run % query.runs_x)
        run += 1
    found, index = at < end, int32(0)
    if found:
        index = peek(int32, query.points + uint64(at) * 4)
    query.at = at + 1
    query.end = end
    query.run = run
    return query, index, found


hash_grid_query_next = advancing(
    "hash_grid_query_next",
    HashGridQuery,
    _next,
    "hash_grid_query_next(query, index): finds the next point, if there is one.  Both are variables: `index` becomes"
    " the number of the point, and stays as it is where there is none.",
)


@func
def hash_grid_point_id(id: uint64, index: int):
    """The number of the point at a position in the order of the cells: threads that take points in this order, and not
    in that of the array, ask for neighbours that are close in memory.  -1 before the grid is built."""
    found = int32(-1)
    if peek(uint64, id + 56) != uint64(0):
        found = peek(int32, peek(uint64, id + 8) + uint64(index) * 4)
    return found


register({"hash_grid_query": hash_grid_query, "hash_grid_point_id": hash_grid_point_id})
