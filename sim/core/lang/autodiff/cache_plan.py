"""The min-cut cache: what a thread of a launch caches for its adjoint, where that is cheapest, and in which slots.

The loads of an array that the launch overwrites could be cached themselves.  Often less will do: a distance constraint
looks at the difference of two points only, three numbers instead of six.  What has to be known is a vertex cut between
those loads and the values that the reverse sweep uses: the cheapest one (bytes), of several that nearest to the loads
(Moses, Churavy et al., "Reverse-mode automatic differentiation and optimization of GPU kernels via Enzyme", 2021).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sim.core.lang.analysis.min_cut import UNBOUNDED, minimum_cut
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.ir.regions import control, flow, free_values
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import Scalar, array_type, bool_, int32

CacheEntry = tuple[Scalar, int]
"""Where a value is cached: the array of its type, and the slot of the thread there."""


@dataclass(frozen=True)
class CacheLayout:
    """Where the threads of a launch cache values: in arrays (slots, threads), one per scalar type.

    entries: of the results of an operation; None where a result is not cached.
    arrays:  (type, slots) of the arrays, by name of the type.
    """

    entries: dict[Op, list[CacheEntry | None]]
    arrays: tuple[tuple[Scalar, int], ...]

    @classmethod
    def of(cls, func: Func, cached: Collection[Value]) -> CacheLayout:
        """Slots for these values, in program order."""
        entries: dict[Op, list[CacheEntry | None]] = {}
        slots: dict[Scalar, int] = {}
        for op in walk(func.body):
            if not any(r in cached for r in op.results):
                continue
            entries[op] = []
            for r in op.results:
                kind = r.type
                assert isinstance(kind, Scalar)
                entries[op].append((kind, slots.get(kind, 0)) if r in cached else None)
                slots[kind] = slots.get(kind, 0) + (r in cached)
        return cls(entries, tuple(sorted(slots.items(), key=lambda item: item[0].name)))

    def parameters(self) -> dict[Scalar, Value]:
        """New parameters for the arrays."""
        return {kind: Value(array_type(kind, 2), f"record_{kind.name}") for kind, _ in self.arrays}

    def load(self, b: Builder, arrays: Mapping[Scalar, Value], op: Op) -> list[Value]:
        """The results of an operation, from the cache."""
        thread = b.tid(-1)
        return [
            Value(r.type, "unreadable")
            if entry is None
            else b.load(arrays[entry[0]], [b.const(entry[1], int32), thread], [0])[0]
            for r, entry in zip(op.results, self.entries[op], strict=True)
        ]

    def store(self, b: Builder, arrays: Mapping[Scalar, Value], op: Op, results: Sequence[Value]) -> None:
        thread = b.tid(-1)
        for r, entry in zip(results, self.entries[op], strict=True):
            if entry is not None:
                b.store(arrays[entry[0]], [b.const(entry[1], int32), thread], [0], [r])


def min_cut_cache(func: Func, loads: Collection[Op], tbr: Collection[Value], looped: Collection[Op]) -> list[Value]:
    """Values to cache, in program order, so that all of `tbr` can be computed without `loads`.

    looped: operations inside loops, whose values cannot be cached: a thread has one slot for each.
    """
    before, price = _dependences(func, set(loads), looped)
    targets = set(tbr)
    for op in walk(func.body):
        if op.name in ("for", "while") and any(v in targets for inner in _inside(op) for v in inner.results):
            targets.update([*op.operands, *free_values(op)])
    after: dict[Value, list[Value]] = {}
    for v, sources in before.items():
        for s in sources:
            after.setdefault(s, []).append(v)
    sources = [r for op in loads for r in op.results]
    cut = minimum_cut(sources, targets, after, before, price)
    return [r for op in walk(func.body) for r in op.results if r in cut]


def _inside(op: Op) -> Iterable[Op]:
    return (inner for region in op.regions for inner in walk(region))


def _dependences(
    func: Func, loads: Collection[Op], looped: Collection[Op]
) -> tuple[dict[Value, list[Value]], dict[Value, int]]:
    """What each value is computed from (nothing for `loads`), and the bytes that caching it takes."""
    before: dict[Value, list[Value]] = {}
    price: dict[Value, int] = {}
    for op in walk(func.body):
        if op.regions:
            for target, values in flow(op):
                before.setdefault(target, []).extend([*values, *control(op)])
            if op.name != "if":
                for r in op.results:
                    before[r] = [*before.get(r, []), *op.operands, *free_values(op)]
        for r in op.results:
            if not op.regions:
                before[r] = [] if op in loads else list(op.operands)
            kind = r.type
            alone = (
                isinstance(kind, Scalar)
                and kind is not bool_
                and (op.name in OPS or (op.name == "call" and len(op.results) == 1))
            )
            price[r] = kind.size if op in loads or (alone and op not in looped) else UNBOUNDED  # type: ignore[attr-defined]
    return before, price
