"""Moving what may be infinite to where it is chosen, before a function is differentiated.

    l = sqrt(dot(d, d))
    if l > 0.0:
        f = k * (l - rest) / l

Where l is 0 the branch is not taken and the cotangent of l is 0, but the derivative of the square root is infinite
there, and 0 * inf is a NaN.  Computed inside the branch the root is not differentiated at all: so what is used by one
side of a choice only (`if`, `select`, and the choice that `min` and `max` make) moves there.  Guarding products with
zero instead would be wrong in derivatives of derivatives, where a zero cotangent has a derivative of its own.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.core.lang.ir.core import Block, Func, Op, Value, walk
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.types import bool_

LIMIT = 8
"""An operation moves to this many places at most."""

Use = tuple[Op | None, int | None]
"""Who uses a value (None: it is yielded), and in which side of a choice (None: it is used in any case)."""
_LOOK = Op("look", [], [])
"""Stands for a user that does not differentiate what it uses."""


def sink(func: Func, varied: Collection[Value]) -> Func:
    """Move singular computations of `varied` values into the sides of choices that alone use them, in place."""
    if any(op.row.singular and op.results[0] in varied for op in walk(func.body)):
        _sink(func.body, set(varied), set())
    return func


def _sink(block: Block, varied: set[Value], infinite: set[Value]) -> None:
    """`infinite`: values around this block that a singular operation has gone into."""
    infinite = set(infinite)
    for op in block.ops:
        if op.is_primitive and op.results[0] in varied and (op.row.singular or any(v in infinite for v in op.operands)):
            infinite.add(op.results[0])
    uses = _uses(block)
    tests: dict[Op, list[Op]] = {}  # operations to put in front of a choice that has become an `if`
    kept: list[Op] = []
    for op in reversed(block.ops):  # users first: what feeds a moved operation may follow it
        moves = op.is_primitive and op.results[0] in infinite
        places = _places(uses.get(op.results[0], [])) if moves else []
        if not places:
            kept.append(op)
            continue
        for user, side in places:
            if user.row.choice:  # not yet an `if`, which an earlier move may have made of it
                tests[user] = _open(user, uses)
            varied.add(_move(op, user.regions[side]))
            for v in op.operands:
                uses[v].append((user, side))
        # A comparison needs the value where it was.  It stays there too, undifferentiated, and from now on only looks
        # at its operands, which may follow into the branch.
        looked_at = any(_looks(user) for user, side in uses[op.results[0]])
        for v in op.operands:
            uses[v] = [use for use in uses[v] if use[0] is not op] + ([(_LOOK, None)] if looked_at else [])
        if looked_at:
            kept.append(op)
    block.ops = [o for op in reversed(kept) for o in (*tests.get(op, ()), op)]
    for op in block.ops:
        for region in op.regions:
            _sink(region, varied, infinite)


def _uses(block: Block) -> dict[Value, list[Use]]:
    """Who uses a value, among the operations of a block (what is inside their regions included)."""
    uses: dict[Value, list[Use]] = {}
    for op in block.ops:
        first = len(op.operands) - 2 if op.row.choice and not is_guard(op) else None
        for k, v in enumerate(op.operands):
            uses.setdefault(v, []).append((op, k - first if first is not None and k >= first else None))
        for k, region in enumerate(op.regions):
            inside = [
                v for inner in walk(region) for v in (*inner.operands, *(y for r in inner.regions for y in r.yields))
            ]
            for v in {*inside, *region.yields}:
                uses.setdefault(v, []).append((op, k if op.name == "if" else None))
    for v in block.yields:
        uses.setdefault(v, []).append((None, None))
    return uses


def is_guard(op: Op) -> bool:
    """Does it choose by a condition that `guarded` of the op table made?

    Then it is a part of a derivative (or of its derivative) and no choice of the program.
    """
    return op.name == "select" and op.operands[0].op is not None and "guard" in op.operands[0].op.attrs


def _looks(user: Op | None) -> bool:
    return user is _LOOK or (user is not None and user.name in OPS and OPS[user.name].vjp is ZERO)


def _places(uses: Collection[Use]) -> list[tuple[Op, int]]:
    """The sides of choices that a value may move to; none if anything else differentiates it, or both sides do."""
    found: dict[tuple[Op, int], tuple[Op, int]] = {}
    for user, side in uses:
        if _looks(user):
            continue
        if user is None or side is None or (user, 1 - side) in found:
            return []
        found[user, side] = (user, side)
    return list(found.values()) if len(found) <= LIMIT else []


def _open(choice: Op, uses: dict[Value, list[Use]]) -> list[Op]:
    """Turn a choice between two operands into an `if`, in place; returns the operations that make its condition."""
    a, b = choice.operands[-2:]
    if choice.name == "select":
        tests, cond = [], choice.operands[0]
    else:  # of equal values the first; a NaN is passed over
        better, nan = (
            _operation("le" if choice.name == "min" else "ge", [a, b], choice),
            _operation("ne", [b, b], choice),
        )
        tests = [better, nan, _operation("or", [better.results[0], nan.results[0]], choice)]
        cond = tests[-1].results[0]
        for v in (a, b):
            uses[v].append((_LOOK, None))
    choice.name, choice.operands, choice.regions = "if", [cond], [Block(yields=[a]), Block(yields=[b])]
    return tests


def _operation(name: str, operands: list[Value], at: Op) -> Op:
    """A comparison or logical operation."""
    op = Op(name, operands, [], span=at.span)
    op.results.append(Value(bool_, "", op))
    return op


def _move(op: Op, region: Block) -> Value:
    """Put a copy of an operation at the start of a region, which uses it from now on."""
    old = op.results[0]
    copy = Op(op.name, list(op.operands), [], dict(op.attrs), [], op.span)
    new = Value(old.type, old.name, copy)
    copy.results.append(new)

    def replace(block: Block) -> None:
        for inner in block.ops:
            inner.operands = [new if v is old else v for v in inner.operands]
            for part in inner.regions:
                replace(part)
        block.yields = [new if v is old else v for v in block.yields]

    replace(region)
    region.ops.insert(0, copy)
    return new
