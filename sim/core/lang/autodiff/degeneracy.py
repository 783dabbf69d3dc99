"""Functions with results that are not unique where some of them coincide: singular vectors of equal values
(`Function.separated`).

Their derivative in closed form lacks, at such points, what only the vectors and the values together determine.  Where a
kernel combines the two, reverse mode can go on with values moved apart.  Where it cannot, a derivative that is asked
for at such a point is an error, at run time: everywhere else it is right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Func, Op, Value, emit, split_memory, walk
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.ir.regions import flow
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.types import bool_

_SUMS = frozenset(("add", "sub", "neg", "cast", "select"))
"""Primitives in which derivatives by one operand do not depend on the others."""


def combined_calls(func: Func) -> set[Op]:
    """Calls with separable results (`separated`) that are multiplied with each other: those that it moves with
    the others."""
    found: set[Op] = set()
    for call in walk(func.body):
        if "separated" not in call.attrs:
            continue
        moved = moved_results(call)
        of_moved, of_others = _following(func, moved), _following(func, set(call.results) - moved)
        for op in walk(func.body):
            mixes = (op.name in OPS and op.name not in _SUMS and OPS[op.name].vjp is not ZERO) or op.name == "call"
            if mixes and any(v in of_moved for v in op.operands) and any(v in of_others for v in op.operands):
                found.add(call)
    return found


def _following(func: Func, start: set[Value]) -> set[Value]:
    """Values that depend on these, through values."""
    found, size = set(start), -1
    while size != len(found):
        size = len(found)
        for op in walk(func.body):
            if op.regions:
                found.update(t for t, sources in flow(op) if any(s in found for s in sources))
            elif op.name in OPS or op.name == "call":
                if any(v in found for v in op.operands):
                    found.update(op.results)
    return found


def stored_calls(func: Func) -> set[Op]:
    """Calls with separable results of which a kernel writes both sorts to memory: others may combine them."""
    writes = [v for op in walk(func.body) if op.row.writes for v in split_memory(op)[3]]
    found: set[Op] = set()
    for call in walk(func.body):
        if "separated" in call.attrs:
            moved = moved_results(call)
            of_moved, of_others = _following(func, moved), _following(func, set(call.results) - moved)
            if any(v in of_moved - of_others for v in writes) and any(v in of_others - of_moved for v in writes):
                found.add(call)
    return found


def values_behind(func: Func, calls: Collection[Op]) -> set[Value]:
    """Values computed from the results of calls, these included."""
    return _following(func, {r for op in walk(func.body) if op in calls for r in op.results})


def moved_results(call: Op) -> set[Value]:
    """The results of a call that its separation moves: the values, not the vectors."""
    rule: Func = call.attrs["separated"]()
    return {r for r, p, v in zip(call.results, rule.params, rule.body.yields, strict=True) if v is not p}


def demand_distinct(b: Builder, call: Op, results: Sequence[Value], matters: Value | None = None) -> None:
    """Fail, when the kernel runs, where results of a call coincide and (if given) it `matters`."""
    rule: Func = call.attrs["separated"]()
    apart = inline_call(b, rule, results)
    same = [emit("eq", a, r) for a, r in zip(apart, results, strict=True) if a is not r]
    fine = reduce(lambda x, y: emit("and", x, y), same, b.const(True, bool_))
    if matters is not None:
        fine = emit("or", fine, emit("not", matters))
    b.append(Op("assert", [fine], [], {"message": MESSAGE, "derivative": True}, [], call.span))


def any_nonzero(b: Builder, values: Sequence[Value]) -> Value:
    """Is one of these numbers not zero?"""
    return reduce(lambda x, y: emit("or", x, y), [emit("ne", v, 0.0) for v in values], b.const(False, bool_))


MESSAGE = (
    "singular values or eigenvalues coincide here, and this derivative of functions of them together with their vectors"
    " is not known there; use polar3 for rotations and stretches, or keep vectors and values in one kernel without"
    " loops over stored elements"
)
