"""What integers of a trace cannot be less than: indices that are known not to be negative are used as they are.

Bounds come from what makes a value (`tid()`, extents, counters of loops, sums of such) and from the branches around it:
inside of `if i > 0`, `i - 1` is not negative.  Arithmetic is taken not to overflow.

Integers that a kernel is given, as the width of a grid, are taken not to be negative either; which of them that was
needed for is written down, so that a launch with others takes a kernel without the assumption.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sim.core.lang.ir.core import Value
from sim.core.lang.ir.lower_bounds import DEPTH, Bound, at_least_zero, made_bound
from sim.core.lang.types import Scalar

_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


class LowerBounds:
    """Bounds of the values of a trace."""

    def __init__(self) -> None:
        self.parameters: set[Value] = set()
        """Integers that a kernel is given and that are not negative unless it is shown otherwise."""
        self.relied_on: set[Value] = set()
        """Those of them that indices are as they are because of."""
        self._asked: set[Value] | None = None
        self._least: dict[Value, int] = {}
        self._apart: dict[tuple[Value, Value], int] = {}
        """(a, b) -> what a - b cannot be less than."""

    def not_negative(self, value: Value, trusting: bool) -> bool:
        """Whether an integer is not negative; trusting: given that the integers of the kernel are not."""
        if at_least_zero(self.of(value)):
            return True
        if not trusting or not self.parameters:
            return False
        self._asked = set()
        bound = self.of(value)
        asked, self._asked = self._asked, None
        if at_least_zero(bound):
            self.relied_on |= asked
        return at_least_zero(bound)

    def of(self, value: Value, depth: int = DEPTH) -> Bound:
        """What an integer cannot be less than."""
        assert isinstance(value.type, Scalar)
        if value.const is not None:
            return int(value.const)
        if self._asked is not None and value in self.parameters:
            self._asked.add(value)
            return max(0, self._least.get(value, 0))
        found = self._made(value, depth - 1) if depth > 0 else None
        bounds = [b for b in (found, self._least.get(value), 0 if value.type.kind == "u" else None) if b is not None]
        return max(bounds, default=None)

    def note(self, value: Value, least: int) -> None:
        """From now on, `value` is not less than `least`."""
        self._least[value] = max(least, self._least.get(value, least))

    @contextmanager
    def assuming(self, test: Value, holds: bool) -> Iterator[None]:
        """What is traced inside runs only where `test` is `holds`."""
        before = dict(self._least), dict(self._apart)
        self._assume(test, holds)
        try:
            yield
        finally:
            self._least, self._apart = before

    def _assume(self, test: Value, holds: bool) -> None:
        op = test.op
        if op is None:
            return
        if op.name == "not":
            self._assume(op.operands[0], not holds)
        elif op.name == ("and" if holds else "or"):
            for part in op.operands:
                self._assume(part, holds)
        elif op.name == "if":  # `and` and `or` whose right side is only looked at where the left one asks for it
            at = op.results.index(test)
            for side, other in ((0, 1), (1, 0)):
                if op.regions[other].yields[at].const is (not holds):
                    self._assume(op.operands[0], side == 0)
                    self._assume(op.regions[side].yields[at], holds)
        elif op.name in _NEGATED and all(isinstance(v.type, Scalar) and v.type.is_int for v in op.operands):
            self._compared(op.name if holds else _NEGATED[op.name], *op.operands)

    def _compared(self, how: str, a: Value, b: Value) -> None:
        if how in ("lt", "le"):
            self._not_below(b, a, how == "lt")
        elif how in ("gt", "ge"):
            self._not_below(a, b, how == "gt")
        elif how == "eq":
            self._not_below(a, b, False)
            self._not_below(b, a, False)
        elif self.of(a) is not None and b.const == self.of(a):
            self.note(a, int(b.const) + 1)

    def _not_below(self, a: Value, b: Value, more: bool) -> None:
        """a >= b, or a > b."""
        self._apart[a, b] = max(int(more), self._apart.get((a, b), 0))
        least = self.of(b)
        if least is not None:
            self.note(a, least + more)

    def _made(self, value: Value, depth: int) -> Bound:
        op = value.op
        if op is not None and op.name == "sub" and (*op.operands,) in self._apart:
            return self._apart[op.operands[0], op.operands[1]]
        return made_bound(value, lambda v: self.of(v, depth))
