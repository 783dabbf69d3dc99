"""What threads may do side by side: which updates are in each other's way, and whether eight can be taken at a time.

An accumulation is in nobody's way where the launch promises that nobody else touches the element (`exclusive`), or
where the index is provably different for every thread and the kernel writes to that array nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.core.lang.analysis.value_numbering import ValueNumbering
from sim.core.lang.ir.core import Func, Op, Value, split_memory, walk, walk_regions

_UNSUITED = frozenset(
    ("for", "while", "peek", "tape", "tape_load", "tape_store", "print", "assert", "call", "load_at", "store_at")
)

BRANCHED = 1000
"""Operations in branches from which on threads go one by one.  Bodies of eight threads that long take three times as
long to compile, and are no faster: of the contacts of two boxes few take the same way."""


def suits_lanes(func: Func) -> bool:
    """Is the body of a kernel better written for eight threads at a time, and can it be?

    Not with loops, nor where accumulations that are put off could be missed later.
    """
    ops = list(walk(func.body))
    if func.dims != 1 or func.attrs.get("serial") or any(op.name in _UNSUITED or op.dynamic for op in ops):
        return False
    if any(op.name == "atomic" and (op.results or op.how != "add") for op in ops):
        return False
    late = late_updates(func)
    if late:
        arrays = {op.operands[0] for op in ops if op in late}
        if any(op.name in ("load", "store") and op.operands[0] in arrays for op in ops):
            return False
        first = min(k for k, op in enumerate(ops) if op in late)
        if not func.attrs.get("apart") and any(op.name in ("load", "store") for op in ops[first:]):
            return False
    return any(op.name in ("load", "store", "accum") and len(op.leaves) in (2, 3, 4) for op in ops)


def diverges(func: Func) -> bool:
    """Is so much of a body in branches that eight threads at a time would mostly wait for each other?"""
    return (
        not func.attrs.get("alike")
        and sum(1 for op in func.body.ops if op.name == "if" for _ in walk_regions(op)) >= BRANCHED
    )


def late_updates(func: Func) -> set[Op]:
    """The accumulations that several lanes may make at one element, or in another order than threads in turn.

    The others are promised exclusive, or go to arrays of which every thread writes an element of its own.
    """
    updates: dict[Value, list[Op]] = {}
    for op in walk(func.body):
        if op.name in ("accum", "atomic"):
            updates.setdefault(op.operands[0], []).append(op)
    for array in own_arrays(func) if updates else ():
        updates.pop(array, None)
    return {op for ops in updates.values() if not all(op.exclusive for op in ops) for op in ops}


def needs_atomics(op: Op, own: Collection[Value]) -> bool:
    """Whether an accumulation may meet another thread at its element."""
    return not op.exclusive and op.operands[0] not in own


def shared_arrays(func: Func, own: Collection[Value]) -> frozenset[Value]:
    """Array parameters to which several threads may add at one index."""
    promised = func.attrs.get("exclusive", ())
    return frozenset(
        op.operands[0]
        for op in walk(func.body)
        if op.name in ("accum", "atomic") and needs_atomics(op, own) and op.operands[0].name not in promised
    )


def own_arrays(func: Func) -> frozenset[Value]:
    """Array parameters that every thread writes only at an index of its own, the same one everywhere."""
    axes, numbering = injective_axes(func), ValueNumbering()
    places: dict[Value, set[object]] = {}
    for op in walk(func.body):
        if not op.row.writes:
            numbering.note(op)
            continue
        array, index, _, _ = split_memory(op)
        covered = frozenset().union(*(axes.get(i, frozenset()) for i in index))
        alone = -1 in covered or covered >= frozenset(range(func.dims))
        places.setdefault(array, set()).add(tuple(map(numbering.number, index)) if alone else op)
    return frozenset(a for a, found in places.items() if len(found) == 1 and not any(isinstance(p, Op) for p in found))


def uniform_values(func: Func) -> set[Value]:
    """Values that are the same in all threads: made of constants, scalar arguments and shapes only."""
    found = set(func.params)
    for op in walk(func.body):
        if op.name in ("const", "shape") or (
            (op.is_primitive or op.name == "opt_barrier") and all(v in found for v in op.operands)
        ):
            found.update(op.results)
    return found


def injective_axes(func: Func) -> dict[Value, frozenset[int]]:
    """Axes of the thread index along which a value is an injective index: `tid()`, or that with a common shift."""
    uniform = uniform_values(func)
    found: dict[Value, frozenset[int]] = {}
    for op in walk(func.body):
        if op.name == "tid":
            found[op.results[0]] = frozenset([op.axis])
        elif op.name == "opt_barrier":  # a value that a back end hides from a compiler
            found.update((op.results[0], found[v]) for v in op.operands if v in found)
        elif op.name in ("add", "sub"):
            a, b = op.operands
            if a in found and b in uniform:
                found[op.results[0]] = found[a]
            elif op.name == "add" and a in uniform and b in found:
                found[op.results[0]] = found[b]
    return found
