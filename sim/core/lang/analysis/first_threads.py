"""Which indices count from the end in the first threads alone: in `x[tid() - 1]` the index of thread 0.

All others can do without the question, and a loop over them loads what lies side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.ir.lower_bounds import DEPTH, Bound, at_least_zero, made_bound

_FEW = 8
"""Threads along an axis that are no more than a beginning."""


@dataclass(frozen=True)
class FirstThreads:
    """apart: axis of `tid` -> how many threads at its beginning; counted: the `from_end` that the others do without."""

    apart: Mapping[int, int]
    counted: frozenset[Op]


def first_threads(func: Func) -> FirstThreads | None:
    """The threads in which indices of the others count from the end; None where there are none such."""
    trusted = frozenset(func.params[k] for k in func.attrs.get("not_negative", ()))
    apart: dict[int, int] = {}
    counted: set[Op] = set()
    for op in walk(func.body):
        if op.name != "from_end":
            continue
        index = op.operands[0]
        least, axes = _bound(index, {}, trusted, DEPTH), _axes(index, func.dims, DEPTH)
        if least is None or not -_FEW <= least < 0:
            continue
        if at_least_zero(_bound(index, dict.fromkeys(axes, -least), trusted, DEPTH)):
            counted.add(op)
            for axis in axes:
                apart[axis] = max(apart.get(axis, 0), -least)
    return FirstThreads(apart, frozenset(counted)) if counted else None


def _bound(value: Value, apart: Mapping[int, int], trusted: frozenset[Value], depth: int) -> Bound:
    """What an integer cannot be less than, in threads from `apart` on."""
    if value.const is not None:
        return int(value.const)
    if value in trusted:
        return 0
    if value.op is not None and value.op.name == "tid":
        return apart.get(max(value.op.axis, 0), 0)
    return made_bound(value, lambda v: _bound(v, apart, trusted, depth - 1)) if depth else None


def _axes(value: Value, dims: int, depth: int) -> set[int]:
    """The axes of `tid` that an integer is made of."""
    op = value.op
    if op is None or op.regions or not depth:
        return set()
    if op.name == "tid":
        return {max(op.axis, 0)} if op.axis >= 0 or dims == 1 else set()
    return set().union(*(_axes(v, dims, depth - 1) for v in op.operands))
