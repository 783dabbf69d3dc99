"""Undo logs: the adjoint of a kernel that overwrites what it reads performs the stores again, and takes them back.

The adjoint works on a copy of the memory as it was before the launch.  Passing forward over a store it writes the index
and the old value to the log of the thread, then stores; passing backward it puts the old value back.  A region that is
about to be recomputed is first rewound to where it began.  So memory always is what the forward run had at that point, and
the copy is whole again at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.core.lang.ir import Builder, Op, TapeType, Value, element_leaves, emit
from sim.core.lang.types import Scalar, int32


def one_scalar(array: Value) -> Scalar | None:
    """The scalar type of all leaves of an array's elements, or None if there are several."""
    kinds = {leaf.scalar for leaf in element_leaves(array)}
    return kinds.pop() if len(kinds) == 1 else None


@dataclass(eq=False)
class UndoLog:
    """The log of one array.  An entry is (index ..., leaf) in `places` and the old value in `values`.

    places, values: arrays of shape (rows, entries...): a row is one thread in flight.  position: one slot, entries so far.
    """

    b: Builder
    array: Value
    places: Value
    values: Value
    position: Value

    @property
    def width(self) -> int:
        """Integers of one entry."""
        return self.array.type.ndim + 1  # type: ignore[attr-defined]

    def now(self) -> Value:
        """Entries so far."""
        return self.b.append(Op("tape_load", [self.position, self.b.const(0, int32)], [Value(int32)])).results[0]

    def set(self, position: Value) -> None:
        self.b.append(Op("tape_store", [self.position, self.b.const(0, int32), position], []))

    def _row(self) -> Value:
        return emit("mod", self.b.tid(-1), self.b.shape(self.values, 0))

    def perform(self, kind: str, index: Sequence[Value], leaves: Sequence[int], values: Sequence[Value], leaf: Value | None) -> list[Value]:
        """Do a store or an accumulation, logging the old values, which are returned."""
        b = self.b
        old = b.load(self.array, index, leaves, leaf)
        start, row = self.now(), self._row()
        for k, value in enumerate(old):
            number = b.const(leaves[k], int32) if leaf is None else leaf + leaves[0]
            at = start + k
            for column, part in enumerate([*index, number]):
                b.store(self.places, [row, at * self.width + column], [0], [part])
            b.store(self.values, [row, at], [0], [value])
        self.set(start + len(old))
        new = list(values) if kind == "store" else [o + v for o, v in zip(old, values, strict=True)]
        b.store(self.array, index, leaves, new, leaf)
        return old

    def undo(self, index: Sequence[Value], leaves: Sequence[int], old: Sequence[Value], leaf: Value | None) -> None:
        """Take back the last store, whose old values are at hand."""
        self.b.store(self.array, index, leaves, old, leaf)
        self.set(self.now() - len(old))

    def rewind(self, position: Value) -> None:
        """Take back all stores since the log had `position` entries."""
        b, end, row = self.b, self.now(), self._row()
        count = len(element_leaves(self.array))

        def back(k: Value) -> list[Value]:
            at = end - 1 - k
            parts = [b.load(self.places, [row, at * self.width + column], [0])[0] for column in range(self.width)]
            old = b.load(self.values, [row, at], [0])
            b.store(self.array, parts[:-1], range(count), old, parts[-1])
            return []

        b.for_(end - position, [], back)
        self.set(position)


def position_tape() -> tuple[Op, Value]:
    """The declaration of a position, and its value."""
    op = Op("tape", [], [Value(TapeType(int32, 1))], {"slots": 1, "scalar": int32})
    op.results[0].op = op
    return op, op.results[0]
