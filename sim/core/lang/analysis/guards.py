"""Which threads of a launch do anything: those below a number that is the same for all, where a kernel asks for that.

if sim.tid() < count[0]: ...
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.core.lang.ir.core import Func, Op, Value, walk
from sim.core.lang.types import ArrayType, int32


@dataclass(frozen=True)
class Guard:
    """Threads from `bound`, an int32, on do nothing; `ops`: what gives it, in order, the same for all threads."""

    bound: Value
    ops: tuple[Op, ...]


def guard_of(func: Func) -> Guard | None:
    """The guard around all that a kernel of one dimension does; None where there is none.

    What it loads is nothing that the kernel may write: no array that it writes has elements of such a type.
    """
    ops = func.body.ops
    if func.dims != 1 or func.body.yields or not ops or ops[-1].name != "if":
        return None
    *before, branch = ops
    test = branch.operands[0].op
    if test not in before or test.name != "lt" or branch.regions[1].ops or any(not _plain(op) for op in before):
        return None
    thread, bound = test.operands
    if thread.op is None or thread.op.name != "tid" or bound.type is not int32:
        return None
    needed: list[Op] = []
    wanted = {bound}
    for op in reversed(before):
        if not wanted.isdisjoint(op.results):
            if op.name == "tid":
                return None
            needed.append(op)
            wanted.update(op.operands)
    written = {_element(op.operands[0]) for op in walk(func.body) if op.row.writes}
    if any(op.row.loads and _element(op.operands[0]) in written for op in needed):
        return None
    return Guard(bound, tuple(reversed(needed)))


def _plain(op: Op) -> bool:
    """Does it give results and nothing else?"""
    return op.is_primitive or op.name in ("const", "tid", "shape", "load")


def _element(array: Value) -> object:
    return array.type.dtype if isinstance(array.type, ArrayType) else array.type
