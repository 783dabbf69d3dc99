"""What integers cannot be less than, by what makes them: `tid()`, extents, constants, sums and products of such.

Arithmetic is taken not to overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from sim.core.lang.ir.core import Op, Value
from sim.core.lang.types import Scalar

Bound = int | None
"""None: not known."""
DEPTH = 6
"""How many operations back a bound is looked for."""


def made_bound(value: Value, inner: Callable[[Value], Bound]) -> Bound:
    """The bound of a value by the operation that makes it; inner: those of its operands."""
    op = value.op
    if op is None:
        return None
    if op.name in ("tid", "shape", "bits_set"):
        return 0
    if op.name == "if":
        at = op.results.index(value)
        return _least([inner(region.yields[at]) for region in op.regions])
    rule = _RULES.get(op.name)
    if rule is None or not all(isinstance(v.type, Scalar) and v.type.is_int for v in op.operands[rule.skip :]):
        return None
    return rule(op, [inner(v) for v in op.operands[rule.skip :]])


def not_negative(value: Value, depth: int = DEPTH) -> bool:
    """Whether an integer is known not to be negative by what makes it."""

    def bound(x: Value, depth: int) -> Bound:
        if x.const is not None:
            return int(x.const)
        return made_bound(x, lambda v: bound(v, depth - 1)) if depth else None

    return at_least_zero(bound(value, depth))


def _least(bounds: list[Bound]) -> Bound:
    known = [b for b in bounds if b is not None]
    return min(known) if len(known) == len(bounds) else None


class _BoundRule:
    """The bound of a result from those of the operands; skip: how many operands are conditions."""

    def __init__(self, how: Callable[[Op, list[Bound]], Bound], skip: int = 0) -> None:
        self.how, self.skip = how, skip

    def __call__(self, op: Op, bounds: list[Bound]) -> Bound:
        return self.how(op, bounds)


def at_least_zero(bound: Bound) -> bool:
    return bound is not None and bound >= 0


def _difference(op: Op, bounds: list[Bound]) -> Bound:
    first, constant = bounds[0], op.operands[1].const
    return None if first is None or constant is None else first - int(constant)


def _zero_if_all(op: Op, bounds: list[Bound]) -> Bound:
    return 0 if all(map(at_least_zero, bounds)) else None


def _zero_if_first(op: Op, bounds: list[Bound]) -> Bound:
    return 0 if at_least_zero(bounds[0]) else None


def _conversion(op: Op, bounds: list[Bound]) -> Bound:
    """Of a conversion that keeps every value that is not negative."""
    source, target = op.operands[0].type, op.results[0].type
    assert isinstance(source, Scalar) and isinstance(target, Scalar)
    bits = (source.bits + (source.kind == "u"), target.bits + (target.kind == "u"))
    return bounds[0] if bits[0] <= bits[1] else None


_RULES = {
    "add": _BoundRule(lambda op, b: None if b[0] is None or b[1] is None else b[0] + b[1]),
    "sub": _BoundRule(_difference),
    "mul": _BoundRule(lambda op, b: prod(b) if all(map(at_least_zero, b)) else None),  # type: ignore[arg-type]
    "div": _BoundRule(_zero_if_all),
    "mod": _BoundRule(_zero_if_first),
    "shr": _BoundRule(_zero_if_first),
    "and": _BoundRule(lambda op, b: 0 if any(map(at_least_zero, b)) else None),
    "or": _BoundRule(_zero_if_all),
    "min": _BoundRule(lambda op, b: _least(b)),
    "max": _BoundRule(lambda op, b: max((x for x in b if x is not None), default=None)),
    "select": _BoundRule(lambda op, b: _least(b), skip=1),
    "cast": _BoundRule(_conversion),
}
