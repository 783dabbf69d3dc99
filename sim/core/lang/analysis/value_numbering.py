"""Global value numbering: which values are computed alike.

B. Alpern, M. N. Wegman, F. K. Zadeck, "Detecting Equality of Variables in Programs", 1988.
"""

from __future__ import annotations

from sim.core.lang.ir.core import Op, Value


class ValueNumbering:
    """Numbers that are equal for values that are computed alike."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._known: dict[object, int] = {}

    def number(self, value: Value) -> int:
        """The number of a value; one whose operation was not noted has a number of its own."""
        return self._numbers.get(value) or self._given(value, value)

    def note(self, op: Op, loads: bool = False) -> None:
        """The results of an operation without effects; loads: also what it loads from memory."""
        if op.is_primitive or op.row.free or (loads and op.name == "load"):
            how = tuple(f"{k} {op.attrs[k]}" for k in sorted(op.attrs))
            for k, r in enumerate(op.results):
                self._given(r, (op.name, k, r.type.name, how, *map(self.number, op.operands)))

    def same(self, value: Value, other: Value) -> None:
        """From now on a value has the number of another one."""
        self._numbers[value] = self.number(other)

    def _given(self, value: Value, key: object) -> int:
        found = self._numbers[value] = self._known.setdefault(key, len(self._known) + 1)
        return found
