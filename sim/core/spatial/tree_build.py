"""Building trees of boxes from above, by the surface area heuristic, in one thread.

I. Wald, "On fast construction of SAH-based bounding volume hierarchies", 2007: the boxes of a node go into bins by
their centres, and are split between two bins where the expected cost of a query, surface area times number of boxes,
summed over both sides, is least.
"""

from __future__ import annotations

from typing import Any

from sim.core.lang.constants import inf
from sim.core.lang.frontend.builtins import ceil, tid, where
from sim.core.lang.frontend.constructors import cast
from sim.core.lang.frontend.function import func
from sim.core.lang.types import float32, int32, struct, uint32, uint64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty
from sim.core.runtime.devices.device import Device
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch

vec3 = vector(3, float32)
BINS = 16
DEEPEST = 64
"""Nodes below this depth are split into halves, so that the stack of the builder is bounded."""
STACK = DEEPEST + 40


@struct
class TreeNode:
    """See the package: skip > 0: the node behind the subtree; < 0: a leaf of -skip items from position `first` on."""

    lower: vec3
    skip: int32
    upper: vec3
    first: int32


@struct
class TreeBox:
    """A box: of an item of the tree, at its position, or of a bin."""

    lower: vec3
    upper: vec3


Extent = vector(8, float32)
"""A box as its lower corner and, with the other sign, its upper one, each with a number that means nothing behind it:
the box of two is the smaller one of each number, side by side."""


@func
def least(a, b):
    """The lesser one, component by component."""
    return vec3(min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]))


@func
def greatest(a, b):
    """The greater one, component by component."""
    return vec3(max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))


@func
def _around(a, b):
    """The box around two."""
    for k in range(8):
        a[k] = min(b[k], a[k])
    return a


@func
def _half_area(a):
    x, y, z = -(a[0] + a[4]), -(a[1] + a[5]), -(a[2] + a[6])
    return x * y + y * z + z * x


@func
def _centre(a):
    """Twice the centre of a box."""
    return vec3(a[0] - a[4], a[1] - a[5], a[2] - a[6])


@kernel
def gather_boxes(items: array[int32], lowers: array[vec3], uppers: array[vec3], boxes: array[TreeBox]):
    """The boxes in the order of the items."""
    i = tid()
    item = items[i]
    boxes[i].lower = lowers[item]
    boxes[i].upper = uppers[item]


@kernel
def gather_extents(boxes: array[TreeBox], extents: array[Extent]):
    """Boxes for the builder."""
    i = tid()
    a, b = boxes[i].lower, boxes[i].upper
    extents[i] = Extent(a[0], a[1], a[2], 0.0, -b[0], -b[1], -b[2], 0.0)


@func
def _swap(items, extents, a, b):
    item, extent = items[a], extents[a]
    items[a] = items[b]
    extents[a] = extents[b]
    items[b] = item
    extents[b] = extent


@func
def _bin(centre, low, scale, bins):
    """The bin of a box by its centre, along one axis (twice the centre, here and in `low`).

    The first and the last are half as wide: what is added leaves the nearest whole number in the lowest bits, which is
    quicker than a conversion that is defined for all numbers.
    """
    return min(cast((centre - low) * scale + 8388608.0, int32) & 31, bins - 1)


@func
def _fill_bins(extents, begin, end, low, scale, bins, bin_boxes, counts):
    for k in range(3 * BINS):
        counts[k] = 0
        bin_boxes[k] = Extent(inf)
    for i in range(begin, end):
        extent = extents[i]
        centre = _centre(extent)
        for axis in range(3):
            k = axis * BINS + _bin(centre[axis], low[axis], scale[axis], bins)
            counts[k] = counts[k] + 1
            bin_boxes[k] = _around(bin_boxes[k], extent)


@func
def _cheapest(bins, share, bin_boxes, counts, costs):
    """The axis and the last bin of the left side of the cheapest split; axis -1: there is none.

    share: of what an item costs, where full leaves count: 1 / their size."""
    best_axis, best_bin, best_cost = int32(-1), int32(0), float32(inf)
    for axis in range(3):
        first = axis * BINS
        box, count = Extent(inf), int32(0)
        for j in range(bins - 1):  # the right sides, from the last bin on
            k = bins - 1 - j
            box = _around(box, bin_boxes[first + k])
            count += counts[first + k]
            costs[k - 1] = float32(inf)
            if count > 0:
                costs[k - 1] = _half_area(box) * ceil(float32(count) * share)
        box, count = Extent(inf), int32(0)
        for k in range(bins - 1):
            box = _around(box, bin_boxes[first + k])
            count += counts[first + k]
            if count > 0:
                cost = _half_area(box) * ceil(float32(count) * share) + costs[k]
                if cost < best_cost:
                    best_axis, best_bin, best_cost = int32(axis), int32(k), cost
    return best_axis, best_bin


@func
def _split(items, extents, begin, end, halved, share, bin_boxes, counts, costs):
    """Sorts the items of a node into two sides; returns where the right one begins."""
    half = begin + (end - begin) // 2
    if end - begin == 2 or halved:
        return half
    low, high = vec3(inf), vec3(-inf)
    for i in range(begin, end):
        centre = _centre(extents[i])
        for axis in range(3):
            low[axis] = where(centre[axis] < low[axis], centre[axis], low[axis])
            high[axis] = where(centre[axis] > high[axis], centre[axis], high[axis])
    bins = min(BINS, end - begin)
    scale = vec3(0.0)
    for axis in range(3):
        if high[axis] > low[axis]:
            scale[axis] = float32(bins - 1) / (high[axis] - low[axis])
    _fill_bins(extents, begin, end, low, scale, bins, bin_boxes, counts)
    axis, last = _cheapest(bins, share, bin_boxes, counts, costs)
    if axis < 0:
        return half
    left, right = begin, end
    while left < right:
        if _bin(_centre(extents[left])[axis], low[axis], scale[axis], bins) <= last:
            left += 1
        else:
            right -= 1
            _swap(items, extents, left, right)
    return half if left == begin or left == end else left


@func
def _group_boundary(groups, begin, end):
    """Where a group begins, close to the middle of positions that more than one group has."""
    middle = begin + (end - begin) // 2
    group = groups[middle]
    low, high = begin, middle
    while low < high:
        k = (low + high) // 2
        if groups[k] < group:
            low = k + 1
        else:
            high = k
    first = low
    low, high = middle, end
    while low < high:
        k = (low + high) // 2
        if groups[k] <= group:
            low = k + 1
        else:
            high = k
    if first == begin or (low < end and low - middle < middle - first):
        return low
    return first


@kernel
def split_tree(
    items: array[int32],
    extents: array[Extent],
    groups: array[uint32],
    leaf_size: int,
    share: float,
    deepest: int,
    nodes: array[TreeNode],
    roots: array[int32],
    header: array[uint64],
    stack: array[int32],
    bin_boxes: array[Extent],
    counts: array[int32],
    costs: array[float32],
):
    """The nodes in depth-first order, without their boxes; those of groups go into a table.  One thread."""
    n = items.shape[0]
    top, node, known = int32(0), int32(0), int32(0)
    if n > 0:
        stack[0] = 0
        stack[1] = n
        stack[2] = 0
        top = 1
    while top > 0:
        top -= 1
        begin, end, depth = stack[3 * top], stack[3 * top + 1], stack[3 * top + 2]
        one_group = True
        if groups:
            group = groups[begin]
            one_group = group == groups[end - 1]
            if one_group and (begin == 0 or groups[begin - 1] != group) and (end == n or groups[end] != group):
                roots[2 * known] = int32(group)
                roots[2 * known + 1] = node
                known += 1
        if one_group and end - begin <= leaf_size:
            nodes[node].first = begin
            nodes[node].skip = begin - end
        else:
            middle = (
                _split(items, extents, begin, end, depth > deepest, share, bin_boxes, counts, costs)
                if one_group
                else _group_boundary(groups, begin, end)
            )
            deeper = depth + int(one_group)
            nodes[node].first = 0
            nodes[node].skip = 1
            stack[3 * top] = middle
            stack[3 * top + 1] = end
            stack[3 * top + 2] = deeper
            stack[3 * top + 3] = begin
            stack[3 * top + 4] = middle
            stack[3 * top + 5] = deeper
            top += 2
        node += 1
    header[3] = uint64(node)
    header[6] = uint64(known)


@func
def _behind(nodes, i):
    """The node behind a subtree."""
    return max(nodes[i].skip, i + 1)


@kernel
def fit_tree(boxes: array[TreeBox], header: array[uint64], nodes: array[TreeNode]):
    """Boxes of the nodes, and where their subtrees end, from the last one to the first.  One thread."""
    count = int32(header[3])
    for j in range(count):
        i = count - 1 - j
        skip = nodes[i].skip
        lower, upper = vec3(inf), vec3(-inf)
        if skip < 0:
            first = nodes[i].first
            for k in range(first, first - skip):
                lower = least(lower, boxes[k].lower)
                upper = greatest(upper, boxes[k].upper)
        else:
            right = _behind(nodes, i + 1)
            lower = least(nodes[i + 1].lower, nodes[right].lower)
            upper = greatest(nodes[i + 1].upper, nodes[right].upper)
            nodes[i].skip = _behind(nodes, right)
        nodes[i].lower = lower
        nodes[i].upper = upper


class FromAbove:
    """Builds and fits trees over boxes, in one thread; leaves have up to `leaf_size` items, of which up to `together`
    cost what one does; nodes below the depth `deepest` are split into halves."""

    def __init__(self, count: int, leaf_size: int, device: Device, together: int = 1, deepest: int = DEEPEST) -> None:
        self.leaf_size, self.together, self.deepest, self.device = leaf_size, together, deepest, device
        self.extents = empty(count, Extent, device)
        kinds = ((3 * STACK, int32), (3 * BINS, Extent), (3 * BINS, int32), (BINS, float32))
        self.scratch = [empty(count, kind, device) for count, kind in kinds]

    def build(self, tree: Any) -> None:
        """The nodes of a `Tree`, whose items are sorted by group."""
        launch(gather_extents, tree.count, [tree.boxes, self.extents], device=self.device)
        arguments = [tree.items, self.extents, tree.sorted_groups, self.leaf_size, 1.0 / self.together, self.deepest]
        arguments += [tree.nodes, tree.roots, tree.header]
        launch(split_tree, 1, [*arguments, *self.scratch], device=self.device)

    def fit(self, tree: Any) -> None:
        """The boxes of the nodes."""
        launch(fit_tree, 1, [tree.boxes, tree.header, tree.nodes], device=self.device)
