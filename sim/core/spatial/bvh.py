"""`Bvh`: a tree of bounding boxes, built from arrays of their corners; see the package for its layout."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from sim.core.lang.types import float32, int32, uint32, uint64, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, empty, zeros
from sim.core.runtime.devices.device import Device
from sim.core.runtime.launch.launch import launch
from sim.core.runtime.launch.structures import add_structure
from sim.core.spatial.sorting import RadixSort, number, take
from sim.core.spatial.tree_build import FromAbove, TreeBox, TreeNode, gather_boxes
from sim.core.spatial.tree_linear import FromBelow

vec3 = vector(3, float32)


class BvhConstructor(IntEnum):
    """How a tree is built; results of queries do not depend on it."""

    SAH = 0
    MEDIAN = 1
    LBVH = 2
    CUBQL = -1


def is_cubql_available() -> bool:
    """Whether `constructor="cubql"` is accepted.  It is, and builds the same tree as the others."""
    return True


class Tree:
    """The arrays of a tree over a fixed number of boxes, and what builds and refits it.

    header: the words that kernels find at the address `id`.  sorted_groups: of the items, in their order.
    """

    def __init__(
        self, count: int, device: Device, groups: array | None, leaf_size: int, constructor: BvhConstructor | None
    ) -> None:
        self.count, self.device, self.groups = count, device, groups
        self.nodes = empty(max(2 * count - 1, 1), TreeNode, device)
        self.items, self.boxes = empty(count, int32, device), empty(count, TreeBox, device)
        self.sorted_groups = None if groups is None else empty(count, uint32, device)
        self._unsorted_groups = None if groups is None else empty(count, uint32, device)
        self._sort = None if groups is None else RadixSort(count, device)
        self.roots = empty(2 * count if groups is not None else 1, int32, device)
        self.header = zeros(7, uint64, device)
        words = [self.nodes.ptr, self.items.ptr or 0, self.boxes.ptr or 0, 0, count, self.roots.ptr or 0, 0]
        self.header.assign(np.array(words, np.uint64))
        add_structure(self.id, self)
        parallel = not device.is_cpu or constructor is BvhConstructor.LBVH
        self.builder = FromBelow(count, device) if parallel else FromAbove(count, leaf_size, device)

    @property
    def id(self) -> int:
        """The address of the header."""
        return int(self.header.ptr)

    @property
    def memory(self) -> list[array]:
        """What kernels read through the id."""
        return [self.header, self.nodes, self.items, self.boxes, self.roots]

    def build(self, lowers: array, uppers: array) -> None:
        """A new tree over these boxes."""
        with recording.paused():
            number(self.items)
            self.sort_by_group()
            self._gather(lowers, uppers)
            self.builder.build(self)
            self._gather(lowers, uppers)
            self.builder.fit(self)

    def refit(self, lowers: array, uppers: array) -> None:
        """The same tree with the present boxes."""
        with recording.paused():
            self._gather(lowers, uppers)
            self.builder.fit(self)

    def sort_by_group(self) -> None:
        """Sort the items by group, if there are groups; those of a group keep their order."""
        if self.groups is not None:
            assert self.sorted_groups is not None and self._unsorted_groups is not None and self._sort is not None
            copy(self._unsorted_groups, self.groups.view(uint32))
            launch(take, self.count, [self._unsorted_groups, self.items, self.sorted_groups], device=self.device)
            self._sort.run(self.sorted_groups, self.items)

    def _gather(self, lowers: array, uppers: array) -> None:
        launch(gather_boxes, self.count, [self.items, lowers, uppers, self.boxes], device=self.device)


def constructor_of(name: BvhConstructor | str | None) -> BvhConstructor | None:
    """The constructor of this name.  Raises ValueError for one that does not exist."""
    if name is None or isinstance(name, BvhConstructor):
        return name
    try:
        return BvhConstructor[name.upper()]
    except KeyError:
        known = ", ".join(f"'{c.name.lower()}'" for c in BvhConstructor)
        raise ValueError(f"constructor is '{name}'; expected one of {known}, or None") from None


class Bvh:
    """A tree of bounding boxes, for queries in kernels: `bvh_query_aabb(bvh.id, low, high)` and others.

    lowers, uppers: corners of the boxes, arrays of n vec3, which the tree keeps: after a change, `refit` or `rebuild`.
    constructor: "lbvh" builds by Morton codes, quickly and in parallel, as always on a GPU; "sah", None and the other
        names of Warp build by the surface area heuristic on a CPU, for the quickest queries.
    groups: int32 per box; the boxes of a group make up a subtree (`bvh_get_group_root`).
    leaf_size: boxes per leaf, at most ("lbvh": one).
    Queries find boxes in an order that depends on the boxes alone.
    """

    id: int | None = None

    def __init__(
        self,
        lowers: array,
        uppers: array,
        constructor: BvhConstructor | str | None = None,
        groups: array | None = None,
        leaf_size: int = 1,
    ) -> None:
        _check_boxes(lowers, uppers)
        if groups is not None:
            check_groups(groups, len(lowers), lowers.device, "lowers and uppers")
        if leaf_size < 1:
            raise ValueError(f"leaf_size is {leaf_size}; expected 1 or more")
        if constructor_of(constructor) is BvhConstructor.CUBQL and groups is not None:
            raise RuntimeError("Grouped BVHs cannot be built by 'cubql'; leave the constructor out")
        self.lowers, self.uppers, self.groups = lowers, uppers, groups
        self.device = lowers.device
        self._tree = Tree(len(lowers), self.device, groups, int(leaf_size), constructor_of(constructor))
        self.id = self._tree.id
        self._tree.build(lowers, uppers)

    def refit(self) -> None:
        """Follow a change of `lowers` and `uppers`, with the tree as it is: quick, and good for small motions."""
        self._tree.refit(self.lowers, self.uppers)

    def rebuild(self, constructor: BvhConstructor | str | None = None) -> None:
        """Follow a change of `lowers`, `uppers` and `groups` with a new tree, built as the first, in the same memory.

        constructor: looked at for its name only.
        """
        constructor_of(constructor)
        self._tree.build(self.lowers, self.uppers)

    def __del__(self) -> None:
        """Warp's programs call it; the memory goes with the last reference."""


def _check_boxes(lowers: Any, uppers: Any) -> None:
    for name, a in (("lowers", lowers), ("uppers", uppers)):
        if not isinstance(a, array) or a.dtype is not vec3 or a.ndim != 1 or not a.is_contiguous:
            found = f"{a.shape} of {a.dtype}" if isinstance(a, array) else type(a).__name__
            raise RuntimeError(f"{name} is {found}; expected a contiguous array of vec3")
    if len(lowers) != len(uppers):
        raise RuntimeError(f"there are {len(lowers)} lowers and {len(uppers)} uppers; expected the same number")
    if lowers.device is not uppers.device:
        raise RuntimeError(f"lowers lies on {lowers.device}, uppers on {uppers.device}; expected one device")


def check_groups(groups: Any, count: int, device: Device, beside: str) -> None:
    """Raises RuntimeError where these cannot be the groups of `count` boxes or points."""
    if not isinstance(groups, array) or groups.dtype is not int32:
        raise RuntimeError(f"groups is {getattr(groups, 'dtype', type(groups).__name__)}; expected an array of int32")
    if groups.device is not device:
        raise RuntimeError(f"groups must live on the same device as {beside}: {device}, not {groups.device}")
    if groups.size != count:
        raise RuntimeError(f"there are {groups.size} groups for {count} boxes or points; expected one each")
