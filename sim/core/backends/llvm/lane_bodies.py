"""The bodies of a kernel for eight threads: as they stand, for fewer of them, or in two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sim.core.backends.llvm.lane_order import in_order
from sim.core.backends.llvm.lane_values import InRows, LaneVector, Split
from sim.core.backends.llvm.lanes import LaneEmitter
from sim.core.backends.llvm.pipelining import BETWEEN, Stages, in_stages, is_number
from sim.core.lang.analysis.thread_locality import suits_lanes
from sim.core.lang.ir.core import Func, Value, walk


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

    def names_of(self, value: Value) -> tuple[str, ...]:
        """The values of LLVM that a value of the kernel is."""
        lane = self.of(value)
        if isinstance(lane, InRows):
            return lane.rows
        return self.split(value) if isinstance(lane, Split) else (self.vector(value),)


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
    stages = in_stages(func)
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
