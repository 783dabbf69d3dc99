"""Degenerate results: of functions whose results are not unique where some coincide (singular vectors).

Their derivative in closed form lacks, at such points, what only the vectors and the values together determine.  Where a
kernel combines the two, the degeneracy is split: the derivative goes on with values moved apart (`Function.separated`).
Where it cannot, a derivative that is asked for at such a point is an error, at run time: everywhere else it is right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from functools import reduce

from sim.core.lang.analysis.dataflow import reached_results, solve_forward
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Func, Op, Value, emit, split_memory, walk
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.types import bool_


def combined_calls(func: Func) -> set[Op]:
    """Degenerate calls: the function multiplies what follows from their values with what follows from their vectors."""
    found: set[Op] = set()
    for call in _degenerate(func):
        of_moved, of_others = _sorts(func, call)
        for op in walk(func.body):
            mixes = (op.is_primitive and not op.row.linear and OPS[op.name].vjp is not ZERO) or op.name == "call"
            if mixes and any(v in of_moved for v in op.operands) and any(v in of_others for v in op.operands):
                found.add(call)
    return found


def stored_calls(func: Func) -> set[Op]:
    """Calls with degenerate results of which a kernel writes both sorts to memory: others may combine them."""
    writes = [v for op in walk(func.body) if op.row.writes for v in split_memory(op)[3]]
    found: set[Op] = set()
    for call in _degenerate(func):
        of_moved, of_others = _sorts(func, call)
        if any(v in of_moved - of_others for v in writes) and any(v in of_others - of_moved for v in writes):
            found.add(call)
    return found


def values_behind(func: Func, calls: Collection[Op]) -> set[Value]:
    """Values computed from the results of calls, these included."""
    return _dependents(func, {r for call in calls for r in call.results})


def is_degenerate(op: Op) -> bool:
    """Is it a call whose results are not unique where some coincide?"""
    return "separated" in op.attrs


def is_split(call: Op) -> bool:
    """Is it the copy of a call in an adjoint?  What its results need of splitting was done there."""
    return bool(call.attrs.get("differentiated"))


def mark_split(call: Op) -> None:
    call.attrs["differentiated"] = True


def split_results(b: Builder, call: Op, results: Sequence[Value]) -> list[Value]:
    """Emit the results of a call with those that coincide moved apart."""
    return inline_call(b, call.attrs["separated"](), results)


def moved_results(call: Op) -> set[Value]:
    """The results of a call that splitting moves: the values, not the vectors."""
    rule: Func = call.attrs["separated"]()
    return {r for r, p, v in zip(call.results, rule.params, rule.body.yields, strict=True) if v is not p}


def _degenerate(func: Func) -> list[Op]:
    return [op for op in walk(func.body) if is_degenerate(op)]


def _sorts(func: Func, call: Op) -> tuple[set[Value], set[Value]]:
    """What depends on the results of a call that splitting moves, and what on the others."""
    moved = moved_results(call)
    return _dependents(func, moved), _dependents(func, set(call.results) - moved)


def _dependents(func: Func, start: Collection[Value]) -> set[Value]:
    """Values that depend on these, not by way of memory."""

    def transfer(op: Op, found: Set[Value]) -> Collection[Value]:
        return reached_results(op, found) if op.regions or op.name in OPS or op.name == "call" else ()

    return solve_forward(walk(func.body), start, transfer)


def demand_distinct(b: Builder, call: Op, results: Sequence[Value], used: Value | None = None) -> None:
    """Fail, when the kernel runs, where results of a call coincide and (if given) the derivative there is `used`."""
    moved = split_results(b, call, results)
    same = [emit("eq", a, r) for a, r in zip(moved, results, strict=True) if a is not r]
    fine = reduce(lambda x, y: emit("and", x, y), same, b.const(True, bool_))
    if used is not None:
        fine = emit("or", fine, emit("not", used))
    b.append(Op("assert", [fine], [], {"message": MESSAGE, "derivative": True}, [], call.span))


def any_nonzero(b: Builder, values: Sequence[Value]) -> Value:
    """Is one of these numbers not zero?"""
    return reduce(lambda x, y: emit("or", x, y), [emit("ne", v, 0.0) for v in values], b.const(False, bool_))


MESSAGE = (
    "singular values or eigenvalues coincide here, and this derivative of functions of them together with their vectors"
    " is not known there; use polar3 for rotations and stretches, or keep vectors and values in one kernel without"
    " loops over stored elements"
)
