"""The bodies of a kernel for eight threads: as they stand, for fewer of them, in order, or in two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.core.backends.base import LANES
from sim.core.backends.llvm.lane_memory import Sums
from sim.core.backends.llvm.lane_order import in_order, named
from sim.core.backends.llvm.lane_values import InRows, LaneVector
from sim.core.backends.llvm.lanes import LaneEmitter
from sim.core.backends.llvm.machine_code.toolchain import gains_by_order
from sim.core.backends.llvm.pipelining import BETWEEN, Stages, chain_of, in_stages, is_number, only_stores_rows
from sim.core.backends.llvm.writer import llvm_type
from sim.core.lang.analysis.thread_locality import suits_lanes
from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.types import Scalar


class StagedLanes(LaneEmitter):
    """The lines of a body in two stages.  `%taken`, `%given`: where vectors come from and go to, between them."""

    sums_in_rows = True

    def emit_first(self, stages: Stages) -> list[str]:
        """The lines of what the first eight begin with."""
        self.take_parameters()
        self.block(stages.ahead)
        given = [self.vector(v) for v in stages.carried]
        return in_order(self.lines, self.give(given, stages))

    def emit_stages(self, stages: Stages) -> list[str]:
        """The lines of the body for eight threads that have begun, and what those from `%ahead` on begin with."""
        self.take_parameters()
        known = self.values.copy()
        for k, v in enumerate(stages.carried):
            at = self.shifted("%taken", k * BETWEEN)
            self.values[v] = LaneVector(self.let(f"load {stages.carried_types[k]}, ptr {at}, align {BETWEEN}"))
        self.block(stages.chain)
        taken = {v for op in stages.rest for v in op.operands}
        results = [v for op in stages.chain for v in op.results if v in taken and is_number(v)]
        roots = [name for v in results if (name := self.vector(v)).startswith("%")]
        these, self.values, rows, self.rows = self.values, known, self.rows, {}
        self.first_thread = "%ahead"
        self.block(stages.ahead)
        given = [self.vector(v) for v in stages.carried]
        roots += self.give(given, stages)
        self.first_thread, self.values, self.rows = "%linear", these, rows
        before, rest = len(self.lines), list[str]()
        written = {op.operands[0] for op in walk(self.func.body) if op.row.writes}
        seen = {v for op in stages.rest if op not in self.unseen for v in op.operands}
        for op in stages.rest:
            self.block([op])
            if op.name == "load" and op.operands[0] in written and not seen.isdisjoint(op.results):
                rest += [name for v in op.results for name in self.names_of(v)]
            elif op.row.writes:
                rest += [line for line in self.lines[before:] if " = " not in line]
            before = len(self.lines)
        return in_order(self.lines, [*roots, *rest])

    def give(self, vectors: Sequence[str], stages: Stages) -> list[str]:
        """The lines that give vectors to the next stage: through memory, which keeps the order of the stages.  LLVM
        would put off what is not asked for before the next eight, and keep all that it is made of."""
        lines = list[str]()
        for k, (t, vector) in enumerate(zip(stages.carried_types, vectors, strict=True)):
            at = self.shifted("%given", k * BETWEEN)
            lines.append(f"  store volatile {t} {vector}, ptr {at}, align {BETWEEN}")
        return lines


class OrderedLanes(LaneEmitter):
    """The lines of a body in one stage, each just before it is needed."""

    sums_in_rows = True

    def emit_in_order(self, chain: Sequence[Op]) -> list[str]:
        self.take_parameters()
        written = {op.operands[0] for op in chain if op.row.writes}
        roots, read = list[str](), list[str]()
        for op in chain:
            before = len(self.lines)
            self.block([op])
            if op.name == "load" and op.operands[0] in written:
                read += [name for v in op.results for name in self.names_of(v)]
            elif op.row.writes:
                stores = [line for line in self.lines[before:] if " = " not in line]
                # what is read has to be before anything is stored, but not before what it is stored for
                roots += [*named(stores[0]), *read, *stores]
                read = []
        return in_order(self.lines, roots)

    def add_to_old(self, places: Sequence[str], kind: Scalar, offset: int, sums: Sums) -> bool:
        """Adds to rows that registers hold still.  In memory it takes a load and a sum for each lane."""
        old = [self.of(v) for v, _ in sums]
        rows = old[0].rows if isinstance(old[0], InRows) else ()
        if old != [InRows(rows, part) for part in range(len(sums))]:
            return False
        t, (how, added) = llvm_type(kind), self.vectors_added(kind, sums)
        more = self.transposed(t, [*added, *["poison"] * (4 - len(sums))])
        self.lanes = LANES
        new = [self.arithmetic(how, kind, list(pair)) for pair in zip(rows, more, strict=True)]
        self.lanes = 1
        self.put_rows(places, kind, len(sums), offset, self.of_each(t, new, len(sums)))
        return True


@dataclass(frozen=True)
class LaneBody:
    """The lines of the body for eight threads, and of that for the first `%left` of them, if it is a large one.

    may_be_left: it may answer that single threads have to do what the eight should: an index counts from the end.
    first: the lines of what the first eight begin with, where the body goes in `stages`.
    """

    lines: list[str]
    some: list[str] | None
    may_be_left: bool
    declared: dict[str, str]
    first: list[str] = field(default_factory=list)
    stages: Stages | None = None


def lanes_of(func: Func, names: dict[Value, str], strides: dict[tuple[Value, int], str]) -> LaneBody | None:
    """The body for eight threads; None where one by one is better or the only way."""
    if not suits_lanes(func):
        return None
    memset = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
    chain = chain_of(func)
    stages = None if chain is None else in_stages(func, chain)
    if chain is not None and stages is None and gains_by_order() and only_stores_rows(chain):
        ordered = OrderedLanes(func, names, strides)
        return LaneBody(ordered.emit_in_order(chain), None, False, {**ordered.declared, "memset": memset})
    if stages is not None:
        begun, begin = (StagedLanes(func, names, strides) for _ in range(2))
        first, lines = begin.emit_first(stages), begun.emit_stages(stages)
        declared = {**begun.declared, **begin.declared, "memset": memset}
        return LaneBody(lines, None, False, declared, first, stages)
    every, some = (LaneEmitter(func, names, strides) for _ in range(2))
    lines, rest = every.emit(), None
    if every.is_large:
        rest = some.emit(masked=True)
    return LaneBody(lines, rest, every.may_be_left, {**every.declared, **some.declared, "memset": memset})
