"""Queries of trees in kernels: what overlaps a box, a ray, a capsule, a sphere; see the package for the layout.

A query is a struct, and `bvh_query_next` goes on with it: through the nodes in order where boxes overlap, behind a
subtree where they do not.  What kind of query it is, is known while tracing, unless a branch has mixed two kinds.
"""

from __future__ import annotations

import ast
from typing import Any

from sim.core.lang.constants import inf
from sim.core.lang.frontend.builtins import where
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.frontend.traced import Keywords, Positional, StructValue
from sim.core.lang.frontend.tracing.calls import call_function
from sim.core.lang.frontend.tracing.context import Context
from sim.core.lang.frontend.tracing.registry import Builtin, register
from sim.core.lang.library.vector import dot
from sim.core.lang.types import float32, int32, struct, uint32, uint64, vector
from sim.core.spatial.handles import advancing, peek

vec3 = vector(3, float32)
BOX, RAY, CAPSULE, SPHERE = range(4)


@struct
class BvhQuery:
    """A query of a tree, and how far it has come: `node` is the next one of those before `end`, `item` and `stop` the
    items of a leaf that are still to come.  Opaque to users."""

    nodes: uint64
    items: uint64
    boxes: uint64
    node: int32
    end: int32
    item: int32
    stop: int32
    kind: int32
    point: vec3
    corner: vec3
    inverse: vec3
    radius: float32


@func
def begin(id, root):
    """A query of the subtree of a node; -1: of the whole tree."""
    query = BvhQuery()
    query.nodes = peek(uint64, id)
    query.items = peek(uint64, id + 8)
    query.boxes = peek(uint64, id + 16)
    query.end = int32(peek(uint64, id + 24))
    if root >= 0:
        query.node = root
        query.end = max(peek(int32, query.nodes + uint64(root) * 32 + 12), root + 1)
    return query


@func
def _box(id: uint64, low: vec3, high: vec3, root: int = -1):
    query = begin(id, root)
    query.point = low
    query.corner = high
    return query


@func
def _ray(id: uint64, start: vec3, dir: vec3, root: int = -1):
    query = begin(id, root)
    query.point = start
    query.inverse = vec3(1.0 / dir[0], 1.0 / dir[1], 1.0 / dir[2])
    return query


@func
def _capsule(id: uint64, start: vec3, dir: vec3, radius: float, root: int = -1):
    query = _ray(id, start, dir, root)
    query.radius = max(radius, 0.0)
    return query


@func
def _sphere(id: uint64, center: vec3, radius: float, root: int = -1):
    query = begin(id, root)
    query.point = center
    query.radius = max(radius, 0.0)
    return query


@func
def boxes_overlap(lower, upper, other_lower, other_upper):
    """Whether two closed boxes share a point."""
    x = lower[0] <= other_upper[0] and upper[0] >= other_lower[0]
    y = lower[1] <= other_upper[1] and upper[1] >= other_lower[1]
    z = lower[2] <= other_upper[2] and upper[2] >= other_lower[2]
    return x and y and z


@func
def squared_distance_to_box(point, lower, upper):
    """Squared distance of a point from a box; 0 inside."""
    away = vec3(0.0)
    for axis in range(3):
        below, above = lower[axis] - point[axis], point[axis] - upper[axis]
        outside = where(below > above, below, above)
        away[axis] = where(outside > 0.0, outside, 0.0)
    return dot(away, away)


@func
def ray_enters_box(point, inverse, lower, upper):
    """Where a ray enters a box and where it leaves it [lengths of its direction]; it misses it if it leaves before it
    enters.  inverse: one over the direction, component by component.

    Slabs: T. Kay and J. Kajiya, "Ray tracing complex scenes", 1986.  A ray that lies in the plane of a side gives
    0 * inf there; comparisons with that are false, so that the slab does not bound the ray.
    """
    enters, leaves = float32(0.0), float32(inf)
    for axis in range(3):
        near = where(inverse[axis] < 0.0, upper[axis], lower[axis])
        far = where(inverse[axis] < 0.0, lower[axis], upper[axis])
        first, last = (near - point[axis]) * inverse[axis], (far - point[axis]) * inverse[axis]
        enters = where(first > enters, first, enters)
        leaves = where(last < leaves, last, leaves)
    return enters, leaves


@func
def _touches(query, lower, upper, max_dist):
    if query.kind == BOX:
        return boxes_overlap(query.point, query.corner, lower, upper)
    if query.kind == SPHERE:
        return squared_distance_to_box(query.point, lower, upper) <= query.radius * query.radius
    if query.kind == CAPSULE:
        grown = vec3(query.radius)
        enters, leaves = ray_enters_box(query.point, query.inverse, lower - grown, upper + grown)
        return enters <= leaves and enters <= max_dist
    enters, leaves = ray_enters_box(query.point, query.inverse, lower, upper)
    return enters <= leaves and enters < max_dist


@func
def _next(query: BvhQuery, max_dist: float = inf):
    """(query, item, whether there was one).  The box of a leaf of one item is that of the item."""
    node, item, stop = query.node, query.item, query.stop
    found, index = False, int32(0)
    while not found and (item < stop or node < query.end):
        if item < stop:
            box = query.boxes + uint64(item) * 24
            found = _touches(query, peek(vec3, box), peek(vec3, box + 12), max_dist)
            if found:
                index = peek(int32, query.items + uint64(item) * 4)
            item += 1
        else:
            place = query.nodes + uint64(node) * 32
            skip = peek(int32, place + 12)
            if _touches(query, peek(vec3, place), peek(vec3, place + 16), max_dist):
                node += 1
                if skip < 0:
                    item = peek(int32, place + 28)
                    stop = item - skip
                    if skip == -1:
                        found = True
                        index = peek(int32, query.items + uint64(item) * 4)
                        item = stop
            else:
                node = max(skip, node + 1)
    query.node = node
    query.item = item
    query.stop = stop
    return query, index, found


def _query(name: str, kind: int, function: Function, doc: str) -> Builtin:
    def handler(t: Context, node: ast.AST, args: Positional, kwargs: Keywords) -> Any:
        made = call_function(t, function, args, kwargs, node)
        return StructValue(made.type, {**made.values, "kind": kind})

    made = Builtin(name, handler, doc)
    register({name: made})
    return made


bvh_query_aabb = _query(
    "bvh_query_aabb",
    BOX,
    _box,
    "A query for the items whose boxes overlap the box from `low` to `high`; of the subtree `root`, or of all (-1).",
)
bvh_query_ray = _query(
    "bvh_query_ray",
    RAY,
    _ray,
    "A query for the items whose boxes the ray `start + t dir`, t >= 0, meets: bvh_query_ray(id, start, dir, root=-1).",
)
bvh_query_capsule = _query(
    "bvh_query_capsule",
    CAPSULE,
    _capsule,
    "A query for the items whose boxes, grown by `radius` on all sides, the ray `start + t dir` meets.  From p0 to p1:"
    " dir = p1 - p0, and bvh_query_next(query, index, 1.0).",
)
bvh_query_sphere = _query(
    "bvh_query_sphere",
    SPHERE,
    _sphere,
    "A query for the items whose boxes a ball meets: bvh_query_sphere(id, center, radius, root=-1).",
)
bvh_query_next = advancing(
    "bvh_query_next",
    BvhQuery,
    _next,
    "bvh_query_next(query, index, max_dist=inf): finds the next item, if there is one.  Both are variables: `index`"
    " becomes the item, and stays as it is where there is none.  max_dist: of rays and capsules, [lengths of dir].",
)


@func
def bvh_get_group_root(id: uint64, group: int):
    """The node of a tree that holds the items of a group; -1 if there is no such group."""
    table = peek(uint64, id + 40)
    low, high = int32(0), int32(peek(uint64, id + 48))
    end = high
    while low < high:
        middle = (low + high) // 2
        if peek(uint32, table + uint64(middle) * 8) < uint32(group):
            low = middle + 1
        else:
            high = middle
    root = int32(-1)
    if low < end:
        place = table + uint64(low) * 8
        if peek(int32, place) == group:
            root = peek(int32, place + 4)
    return root


register({"bvh_get_group_root": bvh_get_group_root})
