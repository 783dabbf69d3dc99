"""What threads of a launch may do side by side: whether eight of them can be taken at a time, and which updates are in each other's way."""

from __future__ import annotations

from sim.core.lang.ir import OPS, Func, Op, Value, split_memory, walk
from sim.core.lang.types import int32

_UNSUITED = frozenset(("for", "while", "tape", "tape_load", "tape_store", "print", "assert", "call"))


def suits_lanes(func: Func) -> bool:
    """Is the body of a kernel better written for eight threads at a time, and can it be?

    Not with loops, or where accumulations that are put off could be missed by a later load.
    """
    ops = list(walk(func.body))
    if func.dims != 1 or func.attrs.get("serial") or any(op.name in _UNSUITED or op.attrs.get("dynamic") for op in ops):
        return False
    if any(op.name == "atomic" and (op.results or op.attrs["how"] != "add") for op in ops):
        return False
    late = late_updates(func)
    if late:
        arrays = {op.operands[0] for op in ops if id(op) in late}
        if any(op.name in ("load", "store") and op.operands[0] in arrays for op in ops):
            return False
        first = min(k for k, op in enumerate(ops) if id(op) in late)
        if not func.attrs.get("apart") and any(op.name in ("load", "store") for op in ops[first:]):
            return False
    return any(op.name in ("load", "store", "accum") and len(op.attrs["leaves"]) in (2, 3, 4) for op in ops)


def late_updates(func: Func) -> set[int]:
    """ids of the accumulations that several lanes may make at one element, or in another order than one thread after another.

    The others are promised exclusive, or are the only writes to their array and all at one index that counts with the thread.
    """
    counts = counting_values(func)
    writes: dict[Value, list[Op]] = {}
    for op in walk(func.body):
        if op.name in ("store", "accum", "atomic"):
            writes.setdefault(op.operands[0], []).append(op)
    late: set[int] = set()
    for ops in writes.values():
        updates = [op for op in ops if op.name != "store"]
        places = {tuple(map(id, split_memory(op)[1])) for op in ops}
        own = len(places) == 1 and any(v in counts for v in split_memory(ops[0])[1])
        if updates and not own and not all(op.attrs.get("exclusive") for op in updates):
            late.update(map(id, updates))
    return late


def counting_values(func: Func) -> set[Value]:
    """The index of the thread, and its sums with uniform values: from thread to thread they grow by one."""
    counts: set[Value] = set()
    uniform = {p for p in func.params}
    for op in walk(func.body):
        if op.name == "tid" and (func.dims == 1 or op.attrs["axis"] == -1):
            counts.update(op.results)
        elif op.name in ("add", "sub") and op.results[0].type is int32:
            a, b = op.operands
            if (a in counts and b in uniform) or (op.name == "add" and a in uniform and b in counts):
                counts.add(op.results[0])
        if op.name in ("const", "shape") or (op.name in OPS and all(v in uniform for v in op.operands)):
            uniform.update(op.results)
    return counts
