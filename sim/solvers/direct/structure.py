"""In which order the constraints of a tree are eliminated, and what that takes: known before anything is computed.

Constraints that share a free mover are neighbours in a graph.  Where bodies and joints are a tree, all joints of a body
are neighbours of each other (a clique), and the graph is chordal: it has an order of elimination without fill, which
maximum cardinality search finds (R. E. Tarjan, M. Yannakakis, "Simple linear-time algorithms to test chordality of
graphs", 1984).  A chain is block-tridiagonal.  Where there are loops, blocks fill in, as symbolic factorisation says.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np

Lists = tuple[np.ndarray, np.ndarray]
"""Lists of integers one behind the other: list i is values[offsets[i]:offsets[i + 1]], of (offsets, values)."""


@dataclass(frozen=True, eq=False)
class Factorisation:
    """n constraints in the order of their elimination, tree by tree, as A = L U in blocks.

    Blocks stand in one array: n on the diagonal, `couplings` below it (row after column), as many above it.

    order: place in the order -> constraint; trees (t + 1,): tree t is places trees[t] to trees[t + 1].
    columns: place -> couplings with those behind it; rows: place -> couplings with those before it.
    behind, ahead (couplings,): of a coupling the place behind, and the one before; number: (before, behind) -> it.
    updates: place -> triples (left, right, target) of blocks: target -= left right, as it is eliminated.
    """

    order: np.ndarray
    trees: np.ndarray
    columns: Lists
    rows: Lists
    behind: np.ndarray
    ahead: np.ndarray
    updates: tuple[np.ndarray, np.ndarray]
    number: dict[tuple[int, int], int] = field(repr=False)

    def block(self, i: int, j: int) -> int:
        """The number of a block of A, by places."""
        return block_number(i, j, len(self.order), self.number)

    @property
    def couplings(self) -> int:
        """Number of pairs of constraints with a block."""
        return len(self.behind)


def block_number(i: int, j: int, n: int, number: Mapping[tuple[int, int], int]) -> int:
    """See `Factorisation.block`."""
    return i if i == j else n + number[j, i] if i > j else n + len(number) + number[i, j]


def lists(rows: Sequence[Sequence[int]]) -> Lists:
    """Rows one behind the other."""
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int32)
    return offsets, np.array(list(chain.from_iterable(rows)), np.int32)


def neighbours(movers: Sequence[Sequence[int]]) -> list[set[int]]:
    """For constraints on free movers, which share one."""
    holding: dict[int, list[int]] = {}
    for k, own in enumerate(movers):
        for v in set(own):
            holding.setdefault(v, []).append(k)
    found: list[set[int]] = [set() for _ in movers]
    for held in holding.values():
        for a, b in combinations(held, 2):
            found[a].add(b)
            found[b].add(a)
    return found


def trees_of(graph: Sequence[set[int]]) -> list[list[int]]:
    """Its connected parts, each in the order of its elimination."""
    seen, parts = [False] * len(graph), []
    for root in range(len(graph)):
        if not seen[root]:
            parts.append(_eliminated(graph, root))
            for k in parts[-1]:
                seen[k] = True
    return parts


def _eliminated(graph: Sequence[set[int]], root: int) -> list[int]:
    """The part of `root`: maximum cardinality search, backward."""
    weight, visited, waiting = {root: 0}, [], [(0, root)]
    done = set[int]()
    while waiting:
        count, k = heapq.heappop(waiting)
        if k in done or -count != weight[k]:
            continue
        done.add(k)
        visited.append(k)
        for other in graph[k]:
            if other not in done:
                weight[other] = weight.get(other, 0) + 1
                heapq.heappush(waiting, (-weight[other], other))
    return visited[::-1]


class TooMuchFill(ValueError):
    """A graph that is too far from a tree."""


def factorise(graph: Sequence[set[int]], parts: Sequence[Sequence[int]], most: float = math.inf) -> Factorisation:
    """Symbolic factorisation of the parts of a graph, each in the order of its elimination.

    Raises TooMuchFill where a constraint has more than `most` couplings on average.
    """
    order = np.array(list(chain.from_iterable(parts)), np.int32)
    n, place = len(order), {int(k): j for j, k in enumerate(order)}
    behind = [sorted(place[other] for other in graph[k] if place[other] > j) for j, k in enumerate(order.tolist())]
    total = 0
    for j in range(n):  # what is eliminated makes neighbours of all its neighbours
        total += len(behind[j])
        if total > most * n:
            raise TooMuchFill
        if behind[j]:
            first = behind[j][0]
            merged = set(behind[first]).union(behind[j][1:])
            if len(merged) > len(behind[first]):
                behind[first] = sorted(merged)
    number = {pair: e for e, pair in enumerate((j, i) for j in range(n) for i in behind[j])}

    def block(i: int, j: int) -> int:
        return block_number(i, j, n, number)

    updates = [[(block(i, j), block(j, k), block(i, k)) for i in behind[j] for k in behind[j]] for j in range(n)]
    rows: list[list[int]] = [[] for _ in range(n)]
    for (_, i), e in number.items():
        rows[i].append(e)
    offsets = np.concatenate([[0], np.cumsum([len(triples) for triples in updates])]).astype(np.int32)
    return Factorisation(
        order,
        np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int32),
        lists([[number[j, i] for i in behind[j]] for j in range(n)]),
        lists(rows),
        np.array([i for _, i in number], np.int32),
        np.array([j for j, _ in number], np.int32),
        (offsets, np.array(list(chain.from_iterable(updates)), np.int32).reshape(-1, 3)),
        number,
    )
