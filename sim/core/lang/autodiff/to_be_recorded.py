"""To-be-recorded (TBR) analysis of a kernel: which values its reverse sweep uses, and how each can be had again.

The literature asks which overwritten values a tape must record (Hascoet, Naumann, Pascual, "To be recorded analysis in
reverse-mode automatic differentiation", 2005; Griewank & Walther, ch. 4 and 12).  Here almost everything is recomputed,
so the question is asked of loads alone, and there are three answers, per array:

* *live-in*: the adjoint reads the array as it was before the launch; the tape keeps a copy if anything overwrites it;
* *cache*: the launch writes what the loads give, per thread, to an array of their own (as Enzyme does; outside of loops
  only).  What atomics return is cached in any case, in loops in a log whose length a run on copies has counted;
* *replay*: a load inside a loop may see what the thread has stored: the adjoint works on a copy of the array as it was
  before the launch, performs the stores again and takes them back (`undo_stack.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sim.core.lang.analysis.activity import (
    clobbered_loads,
    is_active,
    ops_in_loops,
    tbr_closure,
    tbr_values,
    varied_values,
    written_from,
)
from sim.core.lang.analysis.addresses import no_derivative
from sim.core.lang.autodiff.cache_plan import min_cut_cache
from sim.core.lang.autodiff.rules import check_rules
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.sinking import sink
from sim.core.lang.ir.store_forwarding import alias_groups, forward_stores


@dataclass(frozen=True)
class ToBeRecorded:
    """Which values the adjoint of a kernel uses, before it is decided how to keep them.

    active:     numbers of the parameters with a gradient, in order.
    groups:     number of the memory of every array.
    varied:     values that carry a derivative.
    tbr:        values that the reverse sweep itself uses; `needed` adds what recomputing them takes.
    cacheable:  needed loads outside loops, by the number of their array.
    must_cache: arrays with a needed load that a store of the same thread may precede: they cannot be live-in.
    returned:   atomics inside loops whose results are needed.
    in_loops:   arrays with a needed load inside a loop: they are live-in as a whole.
    replayed:   written arrays that are replayed.
    detached:   arrays without gradient that the kernel writes values with a gradient to.
    """

    kernel: Func
    active: tuple[int, ...]
    groups: dict[Value, int]
    varied: set[Value]
    tbr: set[Value]
    needed: set[Value]
    cacheable: dict[int, list[Op]]
    must_cache: frozenset[int]
    returned: list[Op]
    in_loops: frozenset[int]
    replayed: frozenset[int]
    detached: frozenset[int]
    _cuts: dict[frozenset[int], list[Value]] = field(default_factory=dict)

    def is_active(self, op: Op) -> bool:
        """Does a gradient flow through this operation with regions?"""
        return is_active(op, self.varied, [self.kernel.params[k] for k in self.active])

    @property
    def returning(self) -> frozenset[int]:
        """Numbers of the arrays that the atomics `returned` go to."""
        return frozenset(self.kernel.params.index(op.operands[0]) for op in self.returned)

    def min_cut(self, cached: frozenset[int]) -> list[Value]:
        """What to cache (the fewest bytes) so that no load of the arrays in `cached` and `must_cache` is needed."""
        found = self._cuts.get(cached)
        if found is None:
            loads = [op for k in sorted({*cached, *self.must_cache}) for op in self.cacheable.get(k, ())]
            found = min_cut_cache(self.kernel, loads, self.tbr, ops_in_loops(self.kernel)) if loads else []
            self._cuts[cached] = found
        return found

    def bytes_per_thread(self, cached: frozenset[int]) -> int:
        """Bytes of these values."""
        return sum(v.type.size for v in self.min_cut(cached))  # type: ignore[attr-defined]


def to_be_recorded(kernel: Func, active: Iterable[int], aliases: Iterable[Collection[int]] = ()) -> ToBeRecorded:
    """Analyse a kernel: `active` are the array parameters with a gradient, `aliases` groups of parameters that overlap.

    Raises GradientError where a value with a gradient passes through an array without, or stores cannot be replayed.
    """
    if any(op.name in ("load_at", "store_at") for op in walk(kernel.body)):
        raise no_derivative(kernel, "gradient")
    aliases = tuple(aliases)
    kernel = dce(forward_stores(kernel, alias_groups(kernel, aliases)))
    groups = dict(alias_groups(kernel, aliases))
    chosen = tuple(sorted(active))
    sources = {kernel.params[k] for k in chosen}
    varied = varied_values(sink(kernel, varied_values(kernel, sources)), sources)
    clobbered = clobbered_loads(kernel, groups)
    replayed, needed = _replayed(kernel, groups, sources, varied, clobbered)
    _check_replay(kernel, replayed)
    check_rules(kernel, groups)

    looped, number = ops_in_loops(kernel), {p: k for k, p in enumerate(kernel.params)}
    replayed_memory = {groups[array] for array in replayed}
    cacheable: dict[int, list[Op]] = {}
    must_cache, in_loop, returned = set(), set(), []
    for op in walk(kernel.body):
        if op.name not in ("load", "atomic") or not any(r in needed for r in op.results):
            continue
        array = number[op.operands[0]]
        if groups[op.operands[0]] in replayed_memory:
            continue
        if op in looped:
            if op.name == "atomic":
                returned.append(op)
            else:
                in_loop.add(array)
            continue
        cacheable.setdefault(array, []).append(op)
        if op.name == "atomic" or op in clobbered:
            must_cache.add(array)
    return ToBeRecorded(
        kernel,
        chosen,
        groups,
        varied,
        tbr_values(kernel, varied, sources, replayed),
        needed,
        cacheable,
        frozenset(must_cache),
        returned,
        frozenset(in_loop),
        frozenset(number[array] for array in replayed),
        frozenset(number[array] for array in _detached(kernel, groups, sources, varied, clobbered)),
    )


def _replayed(
    kernel: Func, groups: Mapping[Value, int], sources: set[Value], varied: set[Value], clobbered: Collection[Op]
) -> tuple[set[Value], set[Value]]:
    """The arrays that are replayed, and the values that are needed then.

    A fixpoint: an array is replayed if a load of it in a loop is needed and may see a store of the thread; performing
    its stores again takes their operands, so more loads are needed.
    """
    looped, writes = ops_in_loops(kernel), [op for op in walk(kernel.body) if op.row.writes]
    loads = [op for op in walk(kernel.body) if op.name == "load" and op in looped and op in clobbered]
    memory: set[int] = set()
    while True:
        replayed = {op.operands[0] for op in writes if groups[op.operands[0]] in memory}
        needed = tbr_closure(kernel, varied, sources, replayed)
        seen = {groups[op.operands[0]] for op in loads if any(r in needed for r in op.results)}
        if seen <= memory:
            return replayed, needed
        memory |= seen


def _check_replay(kernel: Func, replayed: set[Value]) -> None:
    """Refuse what cannot be performed again: an atomic, whose effect depends on the other threads."""
    for op in walk(kernel.body):
        if op.name == "atomic" and op.operands[0] in replayed:
            name = op.operands[0].name
            raise GradientError(
                f"the gradient needs values of '{name}' that this kernel overwrites in a loop, and"
                f" atomic_{op.how} on '{name}' cannot be replayed",
                op.span,
                "carry the value in a local variable through the loop and store it afterwards",
            )


def _detached(
    kernel: Func, groups: Mapping[Value, int], sources: set[Value], varied: set[Value], clobbered: Collection[Op]
) -> set[Value]:
    """Arrays without gradient that values with a gradient are written to.

    Raises GradientError if the kernel reads them back and writes what depends on them to an array with a gradient.
    """
    detached = {array for array, _ in written_from(kernel, varied, sources) if array not in sources}
    while True:
        detached = {p for p in groups if p not in sources and any(groups[p] == groups[a] for a in detached)}
        through = varied_values(kernel, detached, clobbered)
        reached = {array for array, _ in written_from(kernel, through)}
        for array, op in written_from(kernel, through):
            if array in sources:
                names = " and ".join(sorted(f"'{a.name}'" for a in detached))
                raise GradientError(
                    f"what is written to '{array.name}' here depends on values with a gradient that pass through"
                    f" {names}, which has none: the gradient would be lost",
                    op.span,
                    f"make {names} with requires_grad=True, or keep the values in local variables",
                )
        if reached <= detached:
            return detached
        detached |= reached
