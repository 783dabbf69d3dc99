"""The tree of a mesh with four children to a node, for rays: what a walk computes of four boxes, or of four triangles,
lies side by side, so that a compiler takes them at once (Wald, Benthin, Boulos, "Getting Rid of Packets", RT 2008).

Every second level of the binary tree (`layout.py`) is left out.  The nodes are numbered level by level: the children of
node k are 4 k + 1 to 4 k + 4, the leaves come last.  Where the binary tree has an odd number of levels, half of the
root's children are empty boxes.

A walk keeps the children that are still to be visited as four bits for each level, those of the node that it is at in
`left`, those above in `trail`; the lowest bit is not used (as in `layout.py`, here with more than two children).
"""

from __future__ import annotations

from typing import Any

from sim.core.lang.constants import INF
from sim.core.lang.frontend.builtins import abs, tid, where
from sim.core.lang.frontend.constructors import cast
from sim.core.lang.frontend.function import func
from sim.core.lang.types import float32, int32, int64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.meshes.layout import LANES, Box, LaneNumbers, Lanes, Triangle, vec3

SLACK = 1.0 + 4e-7
"""What the far end of a ray in a box is lengthened by, so that rounding hides no face (Ize, "Robust BVH Ray
Traversal", JCGT 2(2), 2013)."""
ALL = 30
"""All four children are still to be visited."""
NONE = 2147483647
"""The key of no child."""


def width_of(leaves: int) -> int:
    """How many leaves the wide tree over so many leaves has, a power of four, some of them empty; 0 of none."""
    return 1 << 2 * max(((leaves - 1).bit_length() + 1) // 2, 1) if leaves else 0


def blocks_in_leaf(faces: int, leaves: int) -> int:
    """How many rows of four triangles a leaf has."""
    return -(-faces // (LANES * leaves)) if leaves else 0


# ------------------------------------------------------------------------------------------------ refitting
@kernel
def refit_nodes(base: int, first: int, skipped: int, boxes: array[Box], nodes: array[Lanes]):
    """The boxes of the children of each node.  skipped: leaves of the wide tree for each of the binary one."""
    node = tid()
    start, width = int32(0), int32(1)
    while node >= start + width:
        start, width = start + width, 4 * width
    there, child = 4 * width // skipped, 4 * (node - start)
    a, b, c, d = Box(float32(INF)), Box(float32(INF)), Box(float32(INF)), Box(float32(INF))
    for k in range(3):
        a[k + 3], b[k + 3], c[k + 3], d[k + 3] = -a[k], -b[k], -c[k], -d[k]
    if child < there:
        a, b = boxes[base + there + child], boxes[base + there + child + 1]
    if child + 2 < there:
        c, d = boxes[base + there + child + 2], boxes[base + there + child + 3]
    row = 6 * (int64(first) + int64(node))
    for k in range(6):
        nodes[row + int64(k)] = Lanes(a[k], b[k], c[k], d[k])


@func
def _triangle(triangles, k, end):
    """Number k, before `end`, else points at the origin."""
    found = Triangle()
    if k < end:
        found = triangles[k]
    return found


@kernel
def refit_blocks(
    entry: int,
    per_leaf: int,
    first: int,
    firsts: array[int32],
    faces: array[int32],
    triangles: array[Triangle],
    blocks: array[Lanes],
    numbers: array[LaneNumbers],
):
    """The triangles of a leaf, four to a block; at places that are empty, points at the origin, which no ray hits."""
    block = tid()
    leaf = block // per_leaf
    begin, end = firsts[entry + leaf] + LANES * (block - leaf * per_leaf), firsts[entry + leaf + 1]
    number = LaneNumbers()
    for c in range(4):
        if begin + c < end:
            number[c] = faces[begin + c]
    numbers[first + block] = number
    a, b = _triangle(triangles, begin, end), _triangle(triangles, begin + 1, end)
    c, d = _triangle(triangles, begin + 2, end), _triangle(triangles, begin + 3, end)
    row = 9 * (int64(first) + int64(block))
    for k in range(9):
        blocks[row + int64(k)] = Lanes(a[k], b[k], c[k], d[k])


def refit_wide(mesh: Any, row: tuple[int, ...]) -> None:
    """Brings one tree to where the binary one is now; nothing may record."""
    base, leaves, entry, _, first_node, nodes, first_block, per_leaf = row
    if not leaves:
        return
    launch(refit_nodes, nodes, [base, first_node, width_of(leaves) // leaves, mesh.boxes], [mesh.nodes])
    launch(
        refit_blocks,
        leaves * per_leaf,
        [entry, per_leaf, first_block, mesh.firsts, mesh.faces, mesh.triangles],
        [mesh.blocks, mesh.block_faces],
    )


# ------------------------------------------------------------------------------------------------ walking
@func
def open_node(nodes, first, node, left, start, inverse, forward, limit):
    """The key of the nearest child that a ray enters before `limit`, of those in `left`, and all that it enters.

    A key is the distance as bits, which are in the order of the numbers, with the number of the child in the lowest.
    inverse: 1 / direction; forward: whether that is positive.  Along an axis to which the ray is parallel it is
    infinite, and the product with 0, where the ray runs in a side of the box, is no number: every comparison is written
    so that it then says nothing.
    """
    row = int64(6) * (int64(first) + int64(node))
    x0, y0, z0 = nodes[row], nodes[row + int64(1)], nodes[row + int64(2)]
    x1, y1, z1 = nodes[row + int64(3)], nodes[row + int64(4)], nodes[row + int64(5)]
    keys, entered = LaneNumbers(), int32(0)
    for c in range(4):
        low = vec3((x0[c] - start[0]) * inverse[0], (y0[c] - start[1]) * inverse[1], (z0[c] - start[2]) * inverse[2])
        high = vec3((x1[c] - start[0]) * inverse[0], (y1[c] - start[1]) * inverse[1], (z1[c] - start[2]) * inverse[2])
        near, far = float32(0.0), float32(INF)
        for k in range(3):
            enters, leaves = where(forward[k], low[k], high[k]), where(forward[k], high[k], low[k])
            near = where(enters > near, enters, near)
            far = where(leaves < far, leaves, far)
        far = where(far * SLACK < limit, far * SLACK, limit)
        # numbers 4 to 7, bits 2 to 16: all four are computed alike, 0 or all ones would be simplified away
        key = where(near <= far, (cast(near, int32) & -16) | (4 + c), int32(NONE))
        key = where((left & (2 << c)) != 0, key, int32(NONE))
        keys[c] = key
        entered = entered | where(key < NONE, int32(2 << c), int32(0))
    first_two = where(keys[0] < keys[1], keys[0], keys[1])
    last_two = where(keys[2] < keys[3], keys[2], keys[3])
    return where(first_two < last_two, first_two, last_two), entered


@func
def child_of(node, key):
    return 4 * node + 1 + (key & 3)


@func
def without(entered, key):
    """The other children."""
    return entered & ~(2 << (key & 3))


@func
def climb(node, trail):
    """The nearest node above with children still to be visited, these, and what remains above; trail is not 0."""
    left = int32(0)
    while left == 0:
        left = int32(trail & int64(ALL))
        trail = (trail ^ int64(left)) >> int64(4)
        node = (node - 1) >> 2
    return node, left, trail


@func
def ray_axes(start, direction):
    """A ray with its largest component last: the order of the axes, its start, the shear of `ray_frame`."""
    ax, ay, az = abs(direction[0]), abs(direction[1]), abs(direction[2])
    axes = LaneNumbers(0, 1, 2, 0)
    p, d = start, direction
    if ax >= ay and ax >= az:
        axes = LaneNumbers(1, 2, 0, 0)
        p, d = vec3(start[1], start[2], start[0]), vec3(direction[1], direction[2], direction[0])
    elif ay >= az:
        axes = LaneNumbers(2, 0, 1, 0)
        p, d = vec3(start[2], start[0], start[1]), vec3(direction[2], direction[0], direction[1])
    depth = 1.0 / d[2]
    return axes, p, vec3(d[0] * depth, d[1] * depth, depth)


@func
def hits_in_block(blocks, block, axes, start, shear, limit):
    """Which of four triangles a ray hits, 0 <= t < limit, as bits 2 to 16, and t for each: as `ray_triangle` has it."""
    row = int64(9) * int64(block)
    x, y, z = row + int64(axes[0]), row + int64(axes[1]), row + int64(axes[2])
    ax, ay, az = blocks[x], blocks[y], blocks[z]
    bx, by, bz = blocks[x + int64(3)], blocks[y + int64(3)], blocks[z + int64(3)]
    cx, cy, cz = blocks[x + int64(6)], blocks[y + int64(6)], blocks[z + int64(6)]
    hits, times = int32(0), Lanes()
    for k in range(4):
        za, zb, zc = az[k] - start[2], bz[k] - start[2], cz[k] - start[2]
        xa, ya = ax[k] - start[0] - shear[0] * za, ay[k] - start[1] - shear[1] * za
        xb, yb = bx[k] - start[0] - shear[0] * zb, by[k] - start[1] - shear[1] * zb
        xc, yc = cx[k] - start[0] - shear[0] * zc, cy[k] - start[1] - shear[1] * zc
        u, v, w = xc * yb - yc * xb, xa * yc - ya * xc, xb * ya - yb * xa
        total = u + v + w
        inside = (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0)
        scale = 1.0 / where(total != 0.0, total, 1.0)
        t = (u * (za * shear[2]) + v * (zb * shear[2]) + w * (zc * shear[2])) * scale
        times[k] = t
        hits = hits | where(inside and total != 0.0 and t >= 0.0 and t < limit, int32(2 << k), int32(0))
    return hits, times
