"""Shadow memory: who has read, written and added where, in cells beside the memory of a launch.

The tool of dynamic race detectors (Serebryany, Iskhodzhanov, "ThreadSanitizer", 2009).  Threads run one after another
here, so that a cell per kind of access, with the last thread that did it, says enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env
from sim.core.lang.ir.core import Func, Op, Value, element_leaves, emit, split_memory, walk
from sim.core.lang.types import array_type, int32, int64, size_of

READ, WRITE, ADD, CONSTANT = range(4)
"""Kinds of accesses.  CONSTANT: a store of the one constant that a kernel stores there: several threads may do it."""
KINDS = 4
REPORT = 4
"""Integers of a report: number of the access + 1 (0: no race), its thread, the mark that it met, and of which kind."""


@dataclass(eq=False)
class ShadowMemory:
    """Emits what looks at the cells of accesses to the watched parameters, and marks them."""

    b: Builder
    kernel: Func
    watched: tuple[int, ...]
    active: frozenset[int]
    layout: Value = field(default_factory=lambda: Value(array_type(int64, 1), "layout"))
    cells: Value = field(default_factory=lambda: Value(array_type(int32, 2), "marks"))
    report: Value = field(default_factory=lambda: Value(array_type(int32, 1), "report"))
    sites: list[Op] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.unit = min(size_of(leaf.scalar) for k in self.watched for leaf in element_leaves(self.kernel.params[k]))
        self.first: dict[Value, int] = {}
        row = 0
        for k in self.watched:
            p = self.kernel.params[k]
            self.first[p], row = row, row + 1 + p.type.ndim  # type: ignore[attr-defined]
        self.graded = {self.kernel.params[k] for k in self.active}
        stores = [(op, [v.const for v in split_memory(op)[3]]) for op in walk(self.kernel.body) if op.name == "store"]
        known = {c for _, values in stores for c in values if c is not None}
        self.constant = {op for op, values in stores if len(known) == 1 and None not in values}

    def watches(self, op: Op) -> bool:
        return op.row.memory and op.operands[0] in self.first

    def _wide(self, v: Value) -> Value:
        return v if v.type is int64 else emit("cast", v, type=int64)

    def mark(self, op: Op, env: Env) -> None:
        """Look who else has been where this access goes, and leave a mark."""
        b = self.b
        array, index, leaf, _ = split_memory(op)
        kind = READ if op.name == "load" else ADD if op.name != "store" else CONSTANT if op in self.constant else WRITE
        if array not in self.graded:  # only whether a value that is read depends on other threads
            against: tuple[int, ...] = (WRITE, ADD, CONSTANT) if kind == READ else (READ,)
        else:
            against = tuple(k for k in range(KINDS) if k == WRITE or k != kind)
        base = b.load(self.layout, [b.const(self.first[array], int32)], [0])[0]
        for n, v in enumerate(index):
            stride = b.load(self.layout, [b.const(self.first[array] + 1 + n, int32)], [0])[0]
            base = base + self._wide(env.get(v, v)) * stride
        self.sites.append(op)
        look = partial(self._look, len(self.sites), kind, against)
        elements, touched = element_leaves(array), op.leaves
        if leaf is not None:
            width = size_of(elements[touched[0]].scalar) // self.unit
            look(base + elements[touched[0]].offset // self.unit + self._wide(env.get(leaf, leaf)) * width)
            return
        offsets = [elements[j].offset // self.unit for j in touched]
        if len(offsets) > 1 and offsets == list(range(offsets[0], offsets[0] + len(offsets))):

            def cell(k: Value) -> list[Value]:
                look(base + offsets[0] + self._wide(k))
                return []

            b.for_(b.const(len(offsets), int32), [], cell)
            return
        for at in offsets:
            look(base + at)

    def _look(self, site: int, kind: int, against: Sequence[int], cell: Value) -> None:
        b = self.b
        me = b.tid(-1) + 1
        seen = [b.load(self.cells, [b.const(other, int32), cell], [0])[0] for other in against]
        foreign = [emit("and", emit("ne", s, 0), emit("ne", s, me)) for s in seen]
        worst, kind_of = seen[-1], b.const(against[-1], int32)
        for s, f, other in zip(seen[-2::-1], foreign[-2::-1], against[-2::-1], strict=True):
            worst, kind_of = emit("select", f, s, worst), emit("select", f, b.const(other, int32), kind_of)
        any_foreign = foreign[0]
        for f in foreign[1:]:
            any_foreign = emit("or", any_foreign, f)
        b.if_(any_foreign, partial(self._report, site, me, worst, kind_of), lambda: None)
        here = [b.const(kind, int32), cell]
        own = b.load(self.cells, here, [0])[0]
        mine = emit("or", emit("eq", own, 0), emit("eq", own, me))
        b.store(self.cells, here, [0], [emit("select", mine, me, b.const(-1, int32))])

    def _report(self, site: int, me: Value, seen: Value, other: Value) -> None:
        b = self.b
        clean = emit("eq", b.load(self.report, [b.const(0, int32)], [0])[0], 0)

        def write() -> None:
            for at, value in enumerate((b.const(site, int32), me - 1, seen - 1, other)):
                b.store(self.report, [b.const(at, int32)], [0], [value])

        b.if_(clean, write, lambda: None)
