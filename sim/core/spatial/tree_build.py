"""Building trees of boxes from above, by the surface area heuristic, in one thread.

I. Wald, "On fast construction of SAH-based bounding volume hierarchies", 2007: the boxes of a node go into bins by
their centres, and are split between two bins where the expected cost of a query, surface area times number of boxes,
summed over both sides, is least.
"""

from __future__ import annotations

from typing import Any

from sim.core.lang.constants import inf
from sim.core.lang.frontend.builtins import tid
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


@func
def least(a, b):
    """The lesser one, component by component."""
    return vec3(min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]))


@func
def greatest(a, b):
    """The greater one, component by component."""
    return vec3(max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]))


@func
def _half_area(lower, upper):
    d = upper - lower
    return d[0] * d[1] + d[1] * d[2] + d[2] * d[0]


@kernel
def gather_boxes(items: array[int32], lowers: array[vec3], uppers: array[vec3], boxes: array[TreeBox]):
    """The boxes in the order of the items."""
    i = tid()
    item = items[i]
    boxes[i].lower = lowers[item]
    boxes[i].upper = uppers[item]


@func
def _swap(items, boxes, a, b):
    item = items[a]
    items[a] = items[b]
    items[b] = item
    lower = boxes[a].lower
    upper = boxes[a].upper
    boxes[a].lower = boxes[b].lower
    boxes[a].upper = boxes[b].upper
    boxes[b].lower = lower
    boxes[b].upper = upper


@func
def _bin(boxes, i, axis, low, scale, bins):
    """The bin of a box by its centre (twice the centre, here and in `low`)."""
    return min(max(int32((boxes[i].lower[axis] + boxes[i].upper[axis] - low) * scale), 0), bins - 1)


@func
def _fill_bins(boxes, begin, end, low, scale, bins, bin_boxes, counts):
    for k in range(3 * BINS):
        counts[k] = 0
        bin_boxes[k].lower = vec3(inf)
        bin_boxes[k].upper = vec3(-inf)
    for i in range(begin, end):
        lower, upper = boxes[i].lower, boxes[i].upper
        for axis in range(3):
            k = axis * BINS + _bin(boxes, i, axis, low[axis], scale[axis], bins)
            counts[k] = counts[k] + 1
            bin_boxes[k].lower = least(bin_boxes[k].lower, lower)
            bin_boxes[k].upper = greatest(bin_boxes[k].upper, upper)


@func
def _cheapest(bins, together, bin_boxes, counts, costs):
    """The axis and the last bin of the left side of the cheapest split; axis -1: there is none.

    together: how many items cost what one does."""
    best_axis, best_bin, best_cost = int32(-1), int32(0), float32(inf)
    for axis in range(3):
        first = axis * BINS
        lower, upper, count = vec3(inf), vec3(-inf), int32(0)
        for j in range(bins - 1):  # the right sides, from the last bin on
            k = bins - 1 - j
            lower = least(lower, bin_boxes[first + k].lower)
            upper = greatest(upper, bin_boxes[first + k].upper)
            count += counts[first + k]
            costs[k - 1] = float32(inf)
            if count > 0:
                costs[k - 1] = _half_area(lower, upper) * float32((count + together - 1) // together)
        lower, upper, count = vec3(inf), vec3(-inf), int32(0)
        for k in range(bins - 1):
            lower = least(lower, bin_boxes[first + k].lower)
            upper = greatest(upper, bin_boxes[first + k].upper)
            count += counts[first + k]
            if count > 0:
                cost = _half_area(lower, upper) * float32((count + together - 1) // together) + costs[k]
                if cost < best_cost:
                    best_axis, best_bin, best_cost = int32(axis), int32(k), cost
    return best_axis, best_bin


@func
def _split(items, boxes, begin, end, halved, together, bin_boxes, counts, costs):
    """Sorts the items of a node into two sides; returns where the right one begins."""
    half = begin + (end - begin) // 2
    if end - begin == 2 or halved:
        return half
    low, high = vec3(inf), vec3(-inf)
    for i in range(begin, end):
        centre = boxes[i].lower + boxes[i].upper
        low = least(low, centre)
        high = greatest(high, centre)
    bins = min(BINS, end - begin)
    scale = vec3(0.0)
    for axis in range(3):
        if high[axis] > low[axis]:
            scale[axis] = float32(bins) / (high[axis] - low[axis])
    _fill_bins(boxes, begin, end, low, scale, bins, bin_boxes, counts)
    axis, last = _cheapest(bins, together, bin_boxes, counts, costs)
    if axis < 0:
        return half
    left, right = begin, end
    while left < right:
        if _bin(boxes, left, axis, low[axis], scale[axis], bins) <= last:
            left += 1
        else:
            right -= 1
            _swap(items, boxes, left, right)
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
    boxes: array[TreeBox],
    groups: array[uint32],
    leaf_size: int,
    together: int,
    deepest: int,
    nodes: array[TreeNode],
    roots: array[int32],
    header: array[uint64],
    stack: array[int32],
    bin_boxes: array[TreeBox],
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
                _split(items, boxes, begin, end, depth > deepest, together, bin_boxes, counts, costs)
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

    def __init__(self, leaf_size: int, device: Device, together: int = 1, deepest: int = DEEPEST) -> None:
        self.leaf_size, self.together, self.deepest, self.device = leaf_size, together, deepest, device
        kinds = ((3 * STACK, int32), (3 * BINS, TreeBox), (3 * BINS, int32), (BINS, float32))
        self.scratch = [empty(count, kind, device) for count, kind in kinds]

    def build(self, tree: Any) -> None:
        """The nodes of a `Tree`, whose items are sorted by group."""
        arguments = [tree.items, tree.boxes, tree.sorted_groups, self.leaf_size, self.together, self.deepest]
        arguments += [tree.nodes, tree.roots, tree.header]
        launch(split_tree, 1, [*arguments, *self.scratch], device=self.device)

    def fit(self, tree: Any) -> None:
        """The boxes of the nodes."""
        launch(fit_tree, 1, [tree.boxes, tree.header, tree.nodes], device=self.device)
