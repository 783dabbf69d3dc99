"""Undo logs: where the old values lie of stores that an adjoint performs again and takes back (`undo_stack.py`).

Where the program run backwards knows the places of the stores (`replay_plan.py`), old values lie on a `ValueStack`;
else the places lie beside them, in an `UndoLog`.  What an atomic returned inside a loop cannot be computed again: the
forward launch writes it down (`ReturnLog`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Op, TapeType, Value, element_leaves, emit
from sim.core.lang.types import Scalar, array_type, int32


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


def positions_of(cursors: Sequence[Cursor]) -> list[Value]:
    return [cursor.now() for cursor in cursors]


def rewind_all(cursors: Sequence[Cursor], positions: Sequence[Value]) -> None:
    for cursor, position in zip(cursors, positions, strict=True):
        cursor.rewind(position)


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
class ValueStack(Cursor):
    """Numbers of one type: `values` has shape (rows, entries...), a row is one thread in flight."""

    values: Value

    def _row(self) -> Value:
        return emit("mod", self.b.tid(-1), self.b.shape(self.values, 0))

    def push(self, values: Sequence[Value]) -> None:
        start, row = self.now(), self._row()
        for k, value in enumerate(values):
            self.b.store(self.values, [row, start + k], [0], [value])
        self.set(start + len(values))

    def pop(self, count: int) -> list[Value]:
        """The last `count` entries, in the order in which they were pushed."""
        start, row = self.now() - count, self._row()
        self.set(start)
        return [self.b.load(self.values, [row, start + k], [0])[0] for k in range(count)]


@dataclass(eq=False)
class UndoLog(Cursor):
    """The log of one memory.  An entry is (index ..., number of the leaf) in `places` and the old value among `values`.

    arrays:  the names under which it is written.
    places:  an array of shape (rows, entries...): a row is one thread in flight.
    values:  one such array per scalar type of the leaves, of which an entry uses one.
    """

    arrays: Sequence[Value]
    places: Value
    values: dict[Scalar, Value]

    @staticmethod
    def width_for(arrays: Sequence[Value]) -> int:
        """Integers of one entry: the index, and the number of the leaf where there are several."""
        several = sum(len(element_leaves(a)) for a in arrays) > 1
        return max(a.type.ndim for a in arrays) + several  # type: ignore[attr-defined, no-any-return]

    @staticmethod
    def kinds_of(arrays: Sequence[Value]) -> list[Scalar]:
        """Scalar types of the leaves, by name."""
        return sorted({leaf.scalar for a in arrays for leaf in element_leaves(a)}, key=lambda kind: kind.name)

    @property
    def width(self) -> int:
        return self.width_for(self.arrays)

    def _row(self) -> Value:
        return emit("mod", self.b.tid(-1), self.b.shape(self.places, 0))

    def _first_leaf(self, array: Value) -> int:
        """The number of the first leaf of one of `arrays`: they are counted through."""
        return sum(len(element_leaves(a)) for a in self.arrays[: self.arrays.index(array)])

    def push(
        self, array: Value, index: Sequence[Value], leaves: Sequence[int], leaf: Value | None, old: Sequence[Value]
    ) -> None:
        """Write down what a store is about to overwrite."""
        b, start, row, first = self.b, self.now(), self._row(), self._first_leaf(array)
        for k, value in enumerate(old):
            number = b.const(first + leaves[k], int32) if leaf is None else leaf + (first + leaves[0])
            at = start + k
            for column, part in enumerate(index):
                b.store(self.places, [row, at * self.width + column], [0], [part])
            if self.width > len(index):
                b.store(self.places, [row, at * self.width + (self.width - 1)], [0], [number])
            assert isinstance(value.type, Scalar)
            b.store(self.values[value.type], [row, at], [0], [value])
        self.set(start + len(old))

    def rewind(self, position: Value) -> None:
        """Take back all stores since the log had `position` entries."""
        b, end, row = self.b, self.now(), self._row()
        counted = self.width > max(a.type.ndim for a in self.arrays)  # type: ignore[attr-defined]

        def back(k: Value) -> list[Value]:
            at = end - 1 - k
            index = [b.load(self.places, [row, at * self.width + column], [0])[0] for column in range(self.width)]
            number = index.pop() if counted else b.const(0, int32)
            self._put(self.arrays, number, index, row, at)
            return []

        b.for_(end - position, [], back)
        self.set(position)

    def _put(self, arrays: Sequence[Value], number: Value, index: Sequence[Value], row: Value, at: Value) -> None:
        """Put an old value back into one of `arrays`: that which has leaf `number`."""
        array, *others = arrays
        if others:
            rest = partial(self._put, others, number, index, row, at)
            self.b.if_(
                emit("lt", number, self._first_leaf(others[0])),
                partial(self._put_leaf, array, 0, number, index, row, at),
                rest,
            )
        else:
            self._put_leaf(array, 0, number, index, row, at)

    def _put_leaf(self, array: Value, j: int, number: Value, index: Sequence[Value], row: Value, at: Value) -> None:
        """Put an old value back into leaf number `j` of an element or one behind it."""
        b, leaves, first = self.b, element_leaves(array), self._first_leaf(array)
        index = index[: array.type.ndim]  # type: ignore[attr-defined]
        kind = leaves[j].scalar
        rest = range(j, len(leaves))
        if all(leaves[k].scalar is kind for k in rest):
            (old,) = b.load(self.values[kind], [row, at], [0])
            if len(rest) == 1:
                b.store(array, index, [j], [old])
            else:
                b.store(array, index, rest, [old], number - (first + j))
            return

        def put() -> None:
            b.store(array, index, [j], b.load(self.values[kind], [row, at], [0]))

        b.if_(emit("eq", number, first + j), put, partial(self._put_leaf, array, j + 1, number, index, row, at))


def position_tape() -> tuple[Op, Value]:
    """The declaration of a position, and its value."""
    op = Op("tape", [], [Value(TapeType(int32, 1))], {"slots": 1, "scalar": int32})
    op.results[0].op = op
    return op, op.results[0]


def log_array(kind: Scalar, name: str) -> Value:
    """A parameter for the entries of a log."""
    return Value(array_type(kind, 2), f"{name}_{kind.name}")
