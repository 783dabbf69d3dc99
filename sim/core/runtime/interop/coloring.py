"""Colors of a graph's nodes, such that an edge joins two different ones: what can be solved side by side.

Found on the host, as what a simulation needs of them is known before it starts.
"""

from __future__ import annotations

import heapq
import math
import warnings
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from sim.core.lang.types import int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.device import DeviceLike
from sim.core.runtime.interop.reductions import UtilityError

MOST = 2**31 - 1
"""Steps that Warp can count."""


class GraphColoringAlgorithm(IntEnum):
    """In which order nodes get their colors, each the first one that no neighbor has."""

    MCS = 0
    """Maximum cardinality search: always a node with the most neighbors that have their color.  With graphs in which
    every longer cycle has a chord these are the fewest colors that there can be."""
    GREEDY = 1
    """Nodes with more neighbors first."""


def graph_coloring_assign(
    edges: array, node_colors: array, algorithm: GraphColoringAlgorithm = GraphColoringAlgorithm.MCS
) -> int:
    """Colors the nodes of a graph, and returns how many colors there are: 0 ... count - 1.

    edges: of shape (edge_count, 2), the two nodes of each; node_colors: for the color of each node.  Both lie on the
    host, with elements of int32.
    Raises UtilityError where an edge is none of two different nodes.
    """
    name = "graph_coloring_assign"
    neighbors = _neighbors(name, edges, _colors(name, node_colors).size)
    try:
        chosen = GraphColoringAlgorithm(int(algorithm))
    except ValueError:
        known = ", ".join(str(a) for a in GraphColoringAlgorithm.__members__)
        raise UtilityError(f"{name}: there is no algorithm {algorithm!r}; there are {known}") from None
    if not neighbors:
        raise UtilityError(f"{name}: the graph is empty: node_colors has no elements")
    colors = _searched(neighbors) if chosen is GraphColoringAlgorithm.MCS else _by_degree(neighbors)
    node_colors.assign(np.array(colors, np.int32))
    return max(colors) + 1


def graph_coloring_balance(
    edges: array,
    node_colors: array,
    color_count: int,
    target_max_min_ratio: float,
    *,
    max_iterations: int | None = None,
) -> float:
    """Gives nodes other colors until there are about as many of each; returns the most of a color by the least.

    It changes `node_colors` one node at a time, so that the colors stay right all along, and that ratio does not grow.
    It stops where the ratio is at most `target_max_min_ratio`, where no node can be changed, or, with a warning, after
    `max_iterations` changes (None: as many as there are nodes).
    Raises UtilityError where the colors are none of 0 ... color_count - 1, or an edge joins two of one color.
    """
    name = "graph_coloring_balance"
    colors = _colors(name, node_colors).tolist()
    limit = _limit(name, max_iterations, len(colors))
    neighbors = _neighbors(name, edges, len(colors))
    _check_range(name, colors, color_count)
    for a, b in ((a, b) for a, others in enumerate(neighbors) for b in others):
        if colors[a] == colors[b]:
            raise UtilityError(f"{name}: nodes {a} and {b} have color {colors[a]} both, and an edge joins them")
    if not colors:
        return 1.0
    groups = _Groups(neighbors, colors, color_count)
    for _ in range(limit):
        if groups.ratio() <= target_max_min_ratio or not groups.improve():
            break
    else:
        if groups.ratio() > target_max_min_ratio and groups.improvement() is not None:
            warnings.warn(
                f"{name}: {limit} nodes were given other colors, which was the limit; the ratio is"
                f" {groups.ratio():g}, sought is {target_max_min_ratio:g}",
                stacklevel=2,
            )
    node_colors.assign(np.array(groups.colors, np.int32))
    return groups.ratio()


def graph_coloring_get_groups(
    node_colors: array, color_count: int, return_wp_array: bool = True, device: DeviceLike = "cpu"
) -> tuple[Any, ...]:
    """The nodes of each color, ascending: arrays on `device`, or with `return_wp_array=False` of NumPy."""
    name = "graph_coloring_get_groups"
    colors = _colors(name, node_colors)
    _check_range(name, colors.tolist(), color_count)
    groups = [np.flatnonzero(colors == c).astype(np.int32) for c in range(color_count)]
    return tuple(array(g, dtype=int32, device=device) if return_wp_array else g for g in groups)


def _colors(name: str, node_colors: Any) -> np.ndarray:
    if not isinstance(node_colors, array) or node_colors.ndim != 1 or node_colors.dtype != int32:
        raise UtilityError(f"{name}: node_colors is {_what(node_colors)}; expected one dimension of int32")
    return _on_host(name, "node_colors", node_colors)


def _neighbors(name: str, edges: Any, count: int) -> list[list[int]]:
    """The neighbors of each node, each once."""
    if not isinstance(edges, array) or edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype != int32:
        raise UtilityError(f"{name}: edges is {_what(edges)}; expected shape (edge_count, 2) of int32")
    found: list[set[int]] = [set() for _ in range(count)]
    for k, (a, b) in enumerate(_on_host(name, "edges", edges).tolist()):
        if not (0 <= a < count and 0 <= b < count):
            raise UtilityError(f"{name}: edge {k} joins nodes {a} and {b}; there are nodes 0 ... {count - 1}")
        if a == b:
            raise UtilityError(f"{name}: edge {k} joins node {a} with itself: it cannot have two colors")
        found[a].add(b)
        found[b].add(a)
    return [sorted(others) for others in found]


def _what(x: Any) -> str:
    return f"an array of shape {x.shape} of {x.dtype}" if isinstance(x, array) else f"a {type(x).__name__}"


def _on_host(name: str, what: str, a: array) -> np.ndarray:
    if not a.device.is_cpu:
        raise UtilityError(f"{name}: {what} lies on {a.device}; expected an array on the host: {what}.to('cpu')")
    return a.numpy()


def _limit(name: str, max_iterations: Any, count: int) -> int:
    if max_iterations is None:
        return count
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int | np.integer):
        raise TypeError(f"{name}: max_iterations is a whole number or None, not {max_iterations!r}")
    if not 0 <= max_iterations <= MOST:
        raise ValueError(f"{name}: max_iterations is {max_iterations}; expected 0 ... {MOST}")
    return int(max_iterations)


def _check_range(name: str, colors: Sequence[int], color_count: int) -> None:
    for node, color in enumerate(colors):
        if not 0 <= color < color_count:
            raise UtilityError(f"{name}: node {node} has color {color}; color_count={color_count} are 0 ... count - 1")


def _first_free(others: Sequence[int], colors: Sequence[int]) -> int:
    taken = {colors[n] for n in others}
    return next(c for c in range(len(others) + 1) if c not in taken)


def _by_degree(neighbors: Sequence[Sequence[int]]) -> list[int]:
    colors = [-1] * len(neighbors)
    for node in sorted(range(len(neighbors)), key=lambda n: -len(neighbors[n])):
        colors[node] = _first_free(neighbors[node], colors)
    return colors


def _searched(neighbors: Sequence[Sequence[int]]) -> list[int]:
    """Tarjan and Yannakakis 1984.  The queue keeps what a node counted before; that is passed over."""
    colors, counts = [-1] * len(neighbors), [0] * len(neighbors)
    queue = [(0, node) for node in range(len(neighbors))]
    while queue:
        count, node = heapq.heappop(queue)
        if colors[node] >= 0 or -count != counts[node]:
            continue
        colors[node] = _first_free(neighbors[node], colors)
        for other in neighbors[node]:
            if colors[other] < 0:
                counts[other] += 1
                heapq.heappush(queue, (-counts[other], other))
    return colors


class _Groups:
    """The nodes of each color while nodes change theirs."""

    def __init__(self, neighbors: Sequence[Sequence[int]], colors: list[int], color_count: int) -> None:
        self.neighbors, self.colors = neighbors, np.array(colors)
        self.sizes = np.bincount(colors, minlength=color_count)
        self.near = np.zeros((len(colors), color_count), np.int32)
        """How many neighbors of a node have a color."""
        for node, others in enumerate(neighbors):
            np.add.at(self.near[node], self.colors[others], 1)
        self.resting = np.zeros(len(colors), bool)
        """Nodes that were moved between groups of n + 1 and n, which is no gain by itself, since there was one last:
        they stay, or two nodes would go to and fro."""

    def ratio(self) -> float:
        """The most nodes of a color by the least."""
        return math.inf if self.sizes.min() == 0 else float(self.sizes.max() / self.sizes.min())

    def improvement(self) -> tuple[int, int] | None:
        """A node, and the color that it can be given: into the smallest group, from the largest that has one."""
        order = np.argsort(self.sizes, kind="stable").tolist()
        for to in order:
            for of in sorted(order, key=lambda c: -self.sizes[c]):
                difference = self.sizes[of] - self.sizes[to]
                if difference < 1:
                    break
                free = (self.colors == of) & (self.near[:, to] == 0)
                if difference == 1:
                    free &= ~self.resting
                node = int(free.argmax())
                if free[node]:
                    return node, to
        return None

    def improve(self) -> bool:
        found = self.improvement()
        if found is None:
            return False
        node, to = found
        of = self.colors[node]
        if self.sizes[of] - self.sizes[to] == 1:
            self.resting[node] = True
        else:
            self.resting[:] = False
        self.colors[node] = to
        self.sizes[of] -= 1
        self.sizes[to] += 1
        others = self.neighbors[node]
        self.near[others, of] -= 1
        self.near[others, to] += 1
        return True
