"""Building trees of boxes from below, with as many threads as there are boxes: for GPUs.

T. Karras, "Maximizing parallelism in the construction of BVHs, octrees, and k-d trees", 2012: items are sorted by the
Morton codes of their centres, behind their groups; the inner nodes are those of the binary radix tree of the codes, and
each finds its range of items alone.  Where a node stands in depth-first order follows from its range: twice the items
before it, and one for each left turn on its way from the root.  The boxes of the nodes are put together from those of
blocks of 2^k items, so that no thread waits for another one.
"""

from __future__ import annotations

from typing import Any

from sim.core.lang.constants import inf
from sim.core.lang.frontend.builtins import tid
from sim.core.lang.frontend.function import func
from sim.core.lang.types import float32, int32, uint32, uint64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, empty
from sim.core.runtime.devices.device import Device
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.sorting import RadixSort, Scan, number, take
from sim.core.spatial.tree_build import TreeBox, TreeNode, greatest, least

vec3 = vector(3, float32)
CODE_BITS = 30


@func
def _spread(x):
    """The lowest ten bits, with two zeros between neighbours."""
    x = (x ^ (x << uint32(16))) & uint32(0xFF0000FF)
    x = (x ^ (x << uint32(8))) & uint32(0x0300F00F)
    x = (x ^ (x << uint32(4))) & uint32(0x030C30C3)
    return (x ^ (x << uint32(2))) & uint32(0x09249249)


@kernel
def _block_boxes(width: int, blocks: array[TreeBox]):
    """The box of two blocks: `blocks` is a binary tree, children of k are 2k and 2k + 1."""
    k = width + tid()
    blocks[k].lower = least(blocks[2 * k].lower, blocks[2 * k + 1].lower)
    blocks[k].upper = greatest(blocks[2 * k].upper, blocks[2 * k + 1].upper)


@kernel
def _item_blocks(boxes: array[TreeBox], width: int, blocks: array[TreeBox]):
    k = tid()
    if k < boxes.shape[0]:
        blocks[width + k].lower = boxes[k].lower
        blocks[width + k].upper = boxes[k].upper
    else:
        blocks[width + k].lower = vec3(inf)
        blocks[width + k].upper = vec3(-inf)


@kernel
def _find_codes(items: array[int32], boxes: array[TreeBox], blocks: array[TreeBox], codes: array[uint32]):
    """The code of each item, by its number; `blocks[1]` is the box of all."""
    k = tid()
    code = uint32(0)
    for axis in range(3):
        low, high = blocks[1].lower[axis], blocks[1].upper[axis]
        place = float32(0.0)
        if high > low:
            place = (0.5 * (boxes[k].lower[axis] + boxes[k].upper[axis]) - low) / (high - low)
        cell = uint32(min(max(int32(place * 1024.0), 0), 1023))
        code = code | (_spread(cell) << uint32(axis))
    codes[items[k]] = code


@func
def _key(codes, groups, k):
    key = uint64(codes[k])
    if groups:
        key = key | (uint64(groups[k]) << uint64(32))
    return key


@func
def _below(a, b):
    """Whether the highest bit of a is below that of b."""
    return a < b and a < (a ^ b)


@func
def _closer(codes, groups, i, j, k):
    """Whether the key of j has a longer prefix in common with that of i than that of k has; equal ones go on with the
    position, and what is outside has nothing in common."""
    n = codes.shape[0]
    closer = False
    if j >= 0 and j < n:
        closer = True
        if k >= 0 and k < n:
            own = _key(codes, groups, i)
            a, b = own ^ _key(codes, groups, j), own ^ _key(codes, groups, k)
            if a == uint64(0) and b == uint64(0):
                closer = _below(uint32(i ^ j), uint32(i ^ k))
            else:
                closer = _below(a, b)
    return closer


@kernel
def _find_ranges(
    codes: array[uint32],
    groups: array[uint32],
    firsts: array[int32],
    lasts: array[int32],
    parents: array[int32],
    left: array[int32],
):
    """Range and children of each inner node, and what is known of a node by its number: inner ones 0 .. n - 2, then the
    leaves; `left`: whether it is a left child."""
    n, i = codes.shape[0], tid()
    d = int32(-1)
    if _closer(codes, groups, i, i + 1, i - 1):
        d = int32(1)
    most = int32(2)
    while _closer(codes, groups, i, i + most * d, i - d):
        most *= 2
    length, step = int32(0), most // 2
    while step > 0:
        if _closer(codes, groups, i, i + (length + step) * d, i - d):
            length += step
        step = step // 2
    j = i + length * d
    split, step = int32(0), length
    while step > 1:
        step = (step + 1) // 2
        if split + step < length and _closer(codes, groups, i, i + (split + step) * d, j):
            split += step
    middle = i + split * d + min(d, 0)
    first, last = min(i, j), max(i, j)
    one, other = middle, middle + 1
    if one == first:
        one += n - 1
    if other == last:
        other += n - 1
    firsts[i] = first
    lasts[i] = last
    parents[one] = i
    parents[other] = i
    left[one] = 1
    left[other] = 0
    if i == 0:
        parents[0] = -1
        left[0] = 0


@kernel
def _place_nodes(
    firsts: array[int32],
    lasts: array[int32],
    parents: array[int32],
    left: array[int32],
    groups: array[uint32],
    ordinals: array[int32],
    nodes: array[TreeNode],
    roots: array[int32],
):
    n, k = (parents.shape[0] + 1) // 2, tid()
    first, last = k - (n - 1), k - (n - 1)
    if k < n - 1:
        first, last = firsts[k], lasts[k]
    place, node = 2 * first, int32(k)
    if n > 1:
        while node >= 0:
            place += left[node]
            node = parents[node]
    nodes[place].first = first
    nodes[place].skip = place + 2 * (last - first) + 1
    if first == last:
        nodes[place].skip = -1
    if groups:
        group = groups[first]
        begins = first == 0 or groups[max(first - 1, 0)] != group
        ends = last == n - 1 or groups[min(last + 1, n - 1)] != group
        if group == groups[last] and begins and ends:
            roots[2 * ordinals[first]] = int32(group)
            roots[2 * ordinals[first] + 1] = place


@kernel
def _begin_groups(groups: array[uint32], begins: array[int32]):
    k = tid()
    begins[k] = 0
    if k > 0 and groups[k] != groups[max(k - 1, 0)]:
        begins[k] = 1


@kernel
def _count_groups(begins: array[int32], ordinals: array[int32]):
    """The number of the group of each position, in order."""
    k = tid()
    ordinals[k] = ordinals[k] + begins[k]


@kernel
def _finish_header(count: int, ordinals: array[int32], header: array[uint64]):
    header[3] = uint64(max(2 * count - 1, 0))
    header[6] = uint64(0)
    if ordinals:
        header[6] = uint64(ordinals[count - 1] + 1)


@kernel
def _fit_nodes(blocks: array[TreeBox], width: int, nodes: array[TreeNode]):
    """The box of a node from the fewest blocks that make up its range."""
    i = tid()
    first, count = nodes[i].first, int32(1)
    if nodes[i].skip > 0:
        count = (nodes[i].skip - i + 1) // 2
    low, high = width + first, width + first + count
    lower, upper = vec3(inf), vec3(-inf)
    while low < high:
        if low % 2 == 1:
            lower, upper = least(lower, blocks[low].lower), greatest(upper, blocks[low].upper)
            low += 1
        if high % 2 == 1:
            high -= 1
            lower, upper = least(lower, blocks[high].lower), greatest(upper, blocks[high].upper)
        low, high = low // 2, high // 2
    nodes[i].lower = lower
    nodes[i].upper = upper


class FromBelow:
    """Builds and fits trees over `count` boxes; leaves have one item each."""

    def __init__(self, count: int, device: Device) -> None:
        self.count, self.device = count, device
        self.width = 1 << max(count - 1, 0).bit_length()
        self.blocks = empty(2 * self.width, TreeBox, device)
        self.codes, self.sorted_codes = empty(count, uint32, device), empty(count, uint32, device)
        self.firsts, self.lasts = empty(count, int32, device), empty(count, int32, device)
        self.parents, self.left = (
            empty(max(2 * count - 1, 1), int32, device),
            empty(max(2 * count - 1, 1), int32, device),
        )
        self.begins, self.ordinals = empty(count, int32, device), empty(count, int32, device)
        self.sort, self.scan = RadixSort(count, device), Scan(count, device)

    def build(self, tree: Any) -> None:
        """The nodes of a `Tree`; its items are sorted by code, behind their groups."""
        n, groups, ordinals = self.count, tree.sorted_groups, None
        self._fill_blocks(tree.boxes)
        self._run(_find_codes, n, tree.items, tree.boxes, self.blocks, self.codes)
        number(tree.items)
        copy(self.sorted_codes, self.codes)
        self.sort.run(self.sorted_codes, tree.items, CODE_BITS)
        if groups is not None:
            tree.sort_by_group()
            self._run(take, n, self.codes, tree.items, self.sorted_codes)
            ordinals = self.ordinals
            self._run(_begin_groups, n, groups, self.begins)
            copy(ordinals, self.begins)
            self.scan.run(ordinals)
            self._run(_count_groups, n, self.begins, ordinals)
        ranges = [self.firsts, self.lasts, self.parents, self.left]
        self._run(_find_ranges, max(n - 1, 0), self.sorted_codes, groups, *ranges)
        self._run(_place_nodes, max(2 * n - 1, 0), *ranges, groups, ordinals, tree.nodes, tree.roots)
        self._run(_finish_header, 1, n, ordinals, tree.header)

    def fit(self, tree: Any) -> None:
        """The boxes of the nodes from those of the items, in their order."""
        self._fill_blocks(tree.boxes)
        self._run(_fit_nodes, max(2 * self.count - 1, 0), self.blocks, self.width, tree.nodes)

    def _run(self, kernel: Kernel, count: int, *arguments: object) -> None:
        launch(kernel, count, [*arguments], device=self.device)

    def _fill_blocks(self, boxes: array) -> None:
        width = self.width
        self._run(_item_blocks, width, boxes, width, self.blocks)
        while width > 1:
            width //= 2
            self._run(_block_boxes, width, width, self.blocks)
