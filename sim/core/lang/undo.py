"""Undo logs: the adjoint of a kernel that overwrites what it reads performs the stores again, and takes them back.

The adjoint works on a copy of the memory as it was before the launch.  Passing forward over a store it writes the index
and the old value to the log of the thread, then stores (where it goes back at once, the old value needs no log); passing
backward it puts the old value back.  A region that is about to be recomputed is first rewound to where it began.  So memory
always is what the forward run had at that point, and the copy is whole again at the end.

What an atomic returned inside a loop cannot be computed again: the forward launch writes it down (`ReturnLog`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sim.core.lang.ir import Builder, Op, TapeType, Value, element_leaves, emit
from sim.core.lang.types import Scalar, float64, int32


def log_scalar(array: Value) -> Scalar | None:
    """The scalar type in which the log of an array keeps numbers of all its fields exactly, or None if there is none."""
    kinds = {leaf.scalar for leaf in element_leaves(array)}
    if len(kinds) == 1:
        return kinds.pop()
    return None if any(kind.is_int and kind.bits == 64 for kind in kinds) else float64


@dataclass(eq=False)
class Cursor:
    """A place in a sequence of entries of the thread.  position: one slot, entries so far."""

    b: Builder
    position: Value

    def now(self) -> Value:
        """Entries so far."""
        return self.b.append(Op("tape_load", [self.position, self.b.const(0, int32)], [Value(int32)])).results[0]

    def set(self, position: Value) -> None:
        self.b.append(Op("tape_store", [self.position, self.b.const(0, int32), position], []))

    def skip(self, entries: int) -> None:
        self.set(self.now() + entries)

    def rewind(self, position: Value) -> None:
        """Go back to where there were `position` entries."""
        self.set(position)


@dataclass(eq=False)
class ReturnLog(Cursor):
    """What atomics in loops have returned to the thread, in order: `values` has shape (entries, threads)."""

    values: Value

    def take(self, count: int) -> list[Value]:
        """The next entries."""
        start, thread = self.now(), self.b.tid(-1)
        self.set(start + count)
        return [self.b.load(self.values, [start + k, thread], [0])[0] for k in range(count)]

    def put(self, values: Sequence[Value]) -> None:
        """Write the next entries; those for which there is no room are only counted."""
        start, thread = self.now(), self.b.tid(-1)
        self.set(start + len(values))
        for k, value in enumerate(values):
            fits = emit("lt", start + k, self.b.shape(self.values, 0))
            self.b.if_(fits, partial(self._write, start + k, thread, value), lambda: None)

    def _write(self, at: Value, thread: Value, value: Value) -> None:
        self.b.store(self.values, [at, thread], [0], [value])


@dataclass(eq=False)
class UndoLog(Cursor):
    """The log of one array.  An entry is (index ..., leaf) in `places` and the old value in `values`.

    places, values: arrays of shape (rows, entries...): a row is one thread in flight.
    """

    array: Value
    places: Value
    values: Value

    @property
    def width(self) -> int:
        """Integers of one entry: the index, and the leaf where elements have several."""
        return self.array.type.ndim + (len(element_leaves(self.array)) > 1)  # type: ignore[attr-defined]

    @staticmethod
    def _cast(value: Value, kind: Scalar) -> Value:
        return value if value.type is kind else emit("cast", value, type=kind)

    def _row(self) -> Value:
        return emit("mod", self.b.tid(-1), self.b.shape(self.values, 0))

    def perform(
        self, kind: str, index: Sequence[Value], leaves: Sequence[int], values: Sequence[Value], leaf: Value | None, logged: bool
    ) -> list[Value]:
        """Do a store or an accumulation; returns the old values.  Not `logged`: they are at hand when `undo` takes it back."""
        b = self.b
        old = b.load(self.array, index, leaves, leaf)
        if logged:
            start, row = self.now(), self._row()
            for k, value in enumerate(old):
                number = b.const(leaves[k], int32) if leaf is None else leaf + leaves[0]
                at = start + k
                for column, part in enumerate([*index, number][: self.width]):
                    b.store(self.places, [row, at * self.width + column], [0], [part])
                b.store(self.values, [row, at], [0], [self._cast(value, self.values.type.dtype)])  # type: ignore[attr-defined]
            self.set(start + len(old))
        new = list(values) if kind == "store" else [o + v for o, v in zip(old, values, strict=True)]
        b.store(self.array, index, leaves, new, leaf)
        return old

    def undo(self, index: Sequence[Value], leaves: Sequence[int], old: Sequence[Value], leaf: Value | None) -> None:
        """Take back a store that was not logged."""
        self.b.store(self.array, index, leaves, old, leaf)

    def rewind(self, position: Value) -> None:
        """Take back all stores since the log had `position` entries."""
        b, end, row = self.b, self.now(), self._row()
        leaves = element_leaves(self.array)

        def back(k: Value) -> list[Value]:
            at = end - 1 - k
            index = [b.load(self.places, [row, at * self.width + column], [0])[0] for column in range(self.width)]
            (old,) = b.load(self.values, [row, at], [0])
            if len(leaves) == 1:
                b.store(self.array, index, [0], [old])
                return []
            number = index.pop()
            if len({leaf.scalar for leaf in leaves}) == 1:
                b.store(self.array, index, range(len(leaves)), [old], number)
                return []
            for j, leaf in enumerate(leaves):
                b.if_(emit("eq", number, j), partial(put, index, j, old, leaf.scalar), lambda: None)
            return []

        def put(index: Sequence[Value], j: int, old: Value, kind: Scalar) -> None:
            b.store(self.array, index, [j], [self._cast(old, kind)])

        b.for_(end - position, [], back)
        self.set(position)


def position_tape() -> tuple[Op, Value]:
    """The declaration of a position, and its value."""
    op = Op("tape", [], [Value(TapeType(int32, 1))], {"slots": 1, "scalar": int32})
    op.results[0].op = op
    return op, op.results[0]
