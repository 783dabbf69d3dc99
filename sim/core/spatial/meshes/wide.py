"""The tree of a mesh for rays, with eight children to a node: what a walk computes of eight boxes, or of eight
triangles, lies side by side, so that a compiler takes them at once (Wald, Benthin, Boulos, "Getting Rid of Packets",
RT 2008).

A node is seven rows of eight numbers: the lower sides of its children's boxes along x, y, z, the upper sides, and what
the children are.  A leaf is a block of thirteen: the components of the corners of eight triangles, the numbers of these
corners, and those of the faces: what a hit asks for lies beside what has found it.  What a child is says one number:
twice the first row of a node, or twice that of a block and one; `EMPTY` where there is none.  Whole numbers stand in
these rows by their bits.

Its shape is that of a binary tree by the surface area heuristic (`tree_build.py`), which counts blocks, not triangles,
so that they are full; of a node's children the largest is opened until there are eight (Wald, Benthin, Boulos).
A walk visits the nearest child first and keeps the others, each with its distance, for as long as that is less than
that of the nearest hit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.core.lang.constants import INF
from sim.core.lang.frontend.builtins import abs, bits_set, sign_bits, tid, where
from sim.core.lang.frontend.constructors import cast
from sim.core.lang.frontend.function import func
from sim.core.lang.types import bool_, float32, int32, int64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.device import Device
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.bvh import Tree
from sim.core.spatial.meshes.layout import LANES, AxisNumbers, LaneNumbers, Lanes, vec3
from sim.core.spatial.scratch import keep, kept
from sim.core.spatial.tree_build import DEEPEST, FromAbove

SLACK = 1.0 + 4e-7
"""What the far end of a ray in a box is lengthened by, so that rounding hides no face (Ize, "Robust BVH Ray
Traversal", JCGT 2(2), 2013)."""
NODE, BLOCK = 7, 13
"""Rows of a node, and of a block."""
CORNERS = 9
"""The row of a block where the numbers of corners begin."""
EMPTY = -1
LOWER_HALF = 0xFFFFFFFF
MOST = 3.4028234663852886e38
"""The largest number."""
LEVELS = 32
"""Levels of nodes, at most: a deeper tree, of triangles of very different sizes, is built anew, by halves."""
STACK = (LANES - 1) * LEVELS
"""What a walk keeps, at most."""


# ------------------------------------------------------------------------------------------------ building
class WideTree:
    """The shape of a tree over boxes: what the children of each node are, level by level, and what the leaves hold.

    children: (nodes, 8), by numbers of nodes (even, twice the number) and of leaves (odd).  levels: where each level
    begins, and the end.  items: (leaves, 8), which are in them, the first one again where there are less.
    """

    def __init__(self, lowers: array, uppers: array) -> None:
        for deepest in (DEEPEST, 0):
            self._collapse(binary_tree(lowers, uppers, deepest))
            if len(self.levels) <= LEVELS + 1:
                break

    def _collapse(self, tree: Tree) -> None:
        nodes = tree.nodes.numpy()[: int(tree.header.numpy()[3])]
        skip, first = nodes["skip"], nodes["first"]
        extent = np.nan_to_num(nodes["upper"] - nodes["lower"])
        leaf = skip < 0
        area = np.where(leaf, -1.0, (extent * np.roll(extent, 1, 1)).sum(1))
        leaf_number = np.cumsum(leaf) - 1
        rows, self.levels, level = [], [0], np.zeros(1, int)
        while len(level):
            slots, sizes = np.full((len(level), LANES), EMPTY), np.full((len(level), LANES), -1.0)
            slots[:, 0], sizes[:, 0] = level, area[level]
            each = np.arange(len(level))
            for filled in range(1, LANES):
                at = sizes.argmax(1)
                opened = each[sizes[each, at] >= 0.0]
                at = at[opened]
                left = slots[opened, at] + 1
                right = np.maximum(skip[left], left + 1)
                for place, node in ((at, left), (filled, right)):
                    slots[opened, place], sizes[opened, place] = node, area[node]
            inner = (slots != EMPTY) & ~leaf[slots]
            self.levels.append(self.levels[-1] + len(level))
            row = np.where(slots != EMPTY, 2 * leaf_number[slots] + 1, EMPTY)
            row[inner] = 2 * (self.levels[-1] + np.arange(inner.sum()))
            rows.append(row)
            level = slots[inner]
        self.children = np.concatenate(rows)
        at = first[leaf][:, None] + np.arange(LANES)
        within = np.arange(LANES) < -skip[leaf][:, None]
        self.items = tree.items.numpy()[np.where(within, at, at[:, :1])]

    def rows(self, node: int, block: int) -> np.ndarray:
        """The rows of the nodes, behind so many rows of others of nodes and of blocks, with nothing but what the
        children are in them."""
        nodes = np.zeros((len(self.children), NODE, LANES), np.int32)
        number = self.children >> 1
        place = np.where(self.children & 1, 2 * (block + BLOCK * number) + 1, 2 * (node + NODE * number))
        nodes[:, NODE - 1] = np.where(self.children == EMPTY, EMPTY, place)
        return nodes.reshape(-1, LANES)


def binary_tree(lowers: array, uppers: array, deepest: int) -> Tree:
    """A tree over boxes whose leaves are blocks."""
    device: Device = lowers.device
    tree = Tree(len(lowers), device, None, LANES, None)
    tree.builder = FromAbove(len(lowers), LANES, device, LANES, deepest)
    tree.build(lowers, uppers)
    return tree


@kernel
def number_blocks(faces: array[int32], indices: array[int32], blocks: array[Lanes]):
    """The whole numbers in the blocks."""
    place = tid()
    row, c = BLOCK * int64(place // LANES), place % LANES
    face = faces[place]
    blocks[row + int64(BLOCK - 1)][c] = cast(face, float32)
    for k in range(3):
        blocks[row + int64(CORNERS + k)][c] = cast(indices[3 * face + k], float32)


# ------------------------------------------------------------------------------------------------ refitting
@kernel
def refit_blocks(first: int, points: array[vec3], blocks: array[Lanes]):
    """A triangle of a leaf; at a place that is empty a corner of the first one, thrice, which no ray hits."""
    row, c = BLOCK * (int64(first) + int64(tid() // LANES)), tid() % LANES
    numbers = row + int64(CORNERS)
    empty = c > 0 and cast(blocks[row + int64(BLOCK - 1)][c], int32) == cast(blocks[row + int64(BLOCK - 1)][0], int32)
    for k in range(3):
        x = points[cast(blocks[numbers + where(empty, int64(0), int64(k))][c], int32)]
        for axis in range(3):
            blocks[row + int64(3 * k + axis)][c] = x[axis]


@func
def block_box(blocks, row):
    low, high = vec3(float32(INF)), vec3(-float32(INF))
    for axis in range(3):
        for k in range(3):
            x = blocks[row + int64(3 * k + axis)]
            for c in range(LANES):
                low[axis] = where(x[c] < low[axis], x[c], low[axis])
                high[axis] = where(x[c] > high[axis], x[c], high[axis])
    return low, high


@func
def node_box(nodes, row):
    low, high = vec3(float32(INF)), vec3(-float32(INF))
    for axis in range(3):
        x, y = nodes[row + int64(axis)], nodes[row + int64(axis + 3)]
        for c in range(LANES):
            low[axis] = where(x[c] < low[axis], x[c], low[axis])
            high[axis] = where(y[c] > high[axis] and y[c] <= MOST, y[c], high[axis])
    return low, high


@kernel
def refit_children(first: int, blocks: array[Lanes], nodes: array[Lanes]):
    """The box of one child of a node of a level, from the level below."""
    c, row = tid() % LANES, NODE * (int64(first) + int64(tid() // LANES))
    child = cast(nodes[row + int64(NODE - 1)][c], int32)
    low, high = vec3(float32(INF)), vec3(float32(INF))
    if child >= 0:
        if (child & 1) != 0:
            low, high = block_box(blocks, int64(child >> 1))
        else:
            low, high = node_box(nodes, int64(child >> 1))
    for axis in range(3):
        nodes[row + int64(axis)][c] = low[axis]
        nodes[row + int64(axis + 3)][c] = high[axis]


def refit_wide(mesh: Any, levels: list[int], blocks: tuple[int, int]) -> None:
    """Brings one tree to where the points are now; nothing may record.  levels: where these begin, and the end; blocks:
    the first, and how many."""
    launch(refit_blocks, LANES * blocks[1], [blocks[0], mesh.points], [mesh.blocks])
    for first, end in zip(levels[-2::-1], levels[:0:-1], strict=True):
        launch(refit_children, LANES * (end - first), [first, mesh.blocks], [mesh.nodes])


# ------------------------------------------------------------------------------------------------ walking
@func
def inverse_of(direction):
    """1 / each component; +infinity where that is infinite, as `open_node` wants it."""
    inverse = vec3()
    for k in range(3):
        along = 1.0 / direction[k]
        inverse[k] = where(abs(along) < INF, along, float32(INF))
    return inverse


@func
def lowest(bits):
    """The number of the lowest bit that is set."""
    return bits_set((bits & -bits) - 1)


@func
def bits_of(numbers):
    """Which of eight numbers are negative."""
    return sign_bits(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7])


@func
def open_node(nodes, row, start, inverse, limit, near):
    """Which children a ray enters before `limit`, a finite one, as bits 1 to 128; where, is kept in `near`.

    Along an axis to which the ray is parallel `inverse` is infinite, and the product with 0, where the ray runs in a
    side of the box, is no number: every comparison is written so that it then says nothing.  Places without a child are
    at infinity: no ray comes there, or it comes from there.
    """
    x0, y0, z0 = nodes[row], nodes[row + int64(1)], nodes[row + int64(2)]
    x1, y1, z1 = nodes[row + int64(3)], nodes[row + int64(4)], nodes[row + int64(5)]
    inside = LaneNumbers()
    for c in range(LANES):
        low = vec3((x0[c] - start[0]) * inverse[0], (y0[c] - start[1]) * inverse[1], (z0[c] - start[2]) * inverse[2])
        high = vec3((x1[c] - start[0]) * inverse[0], (y1[c] - start[1]) * inverse[1], (z1[c] - start[2]) * inverse[2])
        enters, leaves = float32(0.0), float32(INF)
        for k in range(3):
            first, last = where(high[k] < low[k], high[k], low[k]), where(low[k] > high[k], low[k], high[k])
            enters = where(first > enters, first, enters)
            leaves = where(last < leaves, last, leaves)
        leaves = where(leaves * SLACK < limit, leaves * SLACK, limit)
        keep(near, c, enters)
        inside[c] = where(enters <= leaves, int32(-1), int32(0))
    return bits_of(inside)


@func
def whole_number(rows, row, column):
    return cast(rows[row][column], int32)


@func
def key_of(nodes, row, c, near):
    """A child as its distance by its bits, which are in the order of the numbers, and below it what it is."""
    return (int64(cast(kept(near, c), int32)) << int64(32)) | int64(whole_number(nodes, row + int64(NODE - 1), c))


@func
def descend(nodes, row, entered, near, stack, top):
    """The nearest of the children that are entered, of which there are some; the others go onto the stack."""
    nearest = key_of(nodes, row, lowest(entered), near)
    entered = entered & (entered - 1)
    while entered != 0:
        other = key_of(nodes, row, lowest(entered), near)
        entered = entered & (entered - 1)
        keep(stack, top, where(other < nearest, nearest, other))
        nearest = where(other < nearest, other, nearest)
        top += 1
    return int32(nearest & int64(LOWER_HALF)), top


@func
def pop(stack, top, limit):
    """The last child that was put onto the stack, of those that are entered before `limit`, else `EMPTY`."""
    child, searching = int32(EMPTY), top > 0
    while searching:
        top -= 1
        key = kept(stack, top)
        searching = top > 0
        if cast(int32(key >> int64(32)), float32) < limit:
            child, searching = int32(key & int64(LOWER_HALF)), bool_(False)
    return child, top


@func
def ray_axes(start, direction):
    """A ray with its largest component last: the order of the axes, its start, the shear of `ray_frame`."""
    ax, ay, az = abs(direction[0]), abs(direction[1]), abs(direction[2])
    axes = AxisNumbers(0, 1, 2)
    p, d = start, direction
    if ax >= ay and ax >= az:
        axes = AxisNumbers(1, 2, 0)
        p, d = vec3(start[1], start[2], start[0]), vec3(direction[1], direction[2], direction[0])
    elif ay >= az:
        axes = AxisNumbers(2, 0, 1)
        p, d = vec3(start[2], start[0], start[1]), vec3(direction[2], direction[0], direction[1])
    depth = 1.0 / d[2]
    return axes, p, vec3(d[0] * depth, d[1] * depth, depth)


@func
def hits_in_block(blocks, row, axes, start, shear, limit, near):
    """Which of eight triangles a ray hits, 0 <= t < limit, as bits 1 to 128: as `ray_triangle` has it; t is kept in
    `near`."""
    x, y, z = row + int64(axes[0]), row + int64(axes[1]), row + int64(axes[2])
    ax, ay, az = blocks[x], blocks[y], blocks[z]
    bx, by, bz = blocks[x + int64(3)], blocks[y + int64(3)], blocks[z + int64(3)]
    cx, cy, cz = blocks[x + int64(6)], blocks[y + int64(6)], blocks[z + int64(6)]
    hit = LaneNumbers()
    for k in range(LANES):
        za, zb, zc = az[k] - start[2], bz[k] - start[2], cz[k] - start[2]
        xa, ya = ax[k] - start[0] - shear[0] * za, ay[k] - start[1] - shear[1] * za
        xb, yb = bx[k] - start[0] - shear[0] * zb, by[k] - start[1] - shear[1] * zb
        xc, yc = cx[k] - start[0] - shear[0] * zc, cy[k] - start[1] - shear[1] * zc
        u, v, w = xc * yb - yc * xb, xa * yc - ya * xc, xb * ya - yb * xa
        total = u + v + w
        low, high = where(u < v, u, v), where(u > v, u, v)
        low, high = where(low < w, low, w), where(high > w, high, w)
        inside = (low >= 0.0 or high <= 0.0) and total != 0.0
        t = (u * (za * shear[2]) + v * (zb * shear[2]) + w * (zc * shear[2])) / total
        keep(near, k, t)
        hit[k] = where(inside and t >= 0.0 and t < limit, int32(-1), int32(0))
    return bits_of(hit)
