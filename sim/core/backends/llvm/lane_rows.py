"""Sums and differences of whole rows: what eight threads load at scattered places, added before it is transposed.

A row holds the numbers of one thread side by side; transposing makes a vector of the lanes of each of them.  Where all
that becomes of two rows is their sum or difference, one transposition does instead of two: for the differences of the
points of a constraint, each a reference and a displacement, one instead of four.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable

from sim.core.lang.ir.core import Func, Op, Value, walk

Bundles = Callable[[Op], list[tuple[Value, ...]]]
"""The values that a load takes from each row, side by side."""


def values_in_rows(func: Func, bundles: Bundles, unseen: Collection[Op]) -> set[Value]:
    """The values that stay in rows until a sum or difference of them is transposed, and these.

    unseen: operations that look at their operands in another way, if at all.
    """
    part: dict[Value, tuple[Hashable, int]] = {}
    users: dict[Value, list[Op]] = {}
    made: dict[Hashable, list[Op]] = {}
    ops = list(walk(func.body))
    for op in ops:
        for v in op.operands:
            users.setdefault(v, []).append(op)
        if op.name == "load":
            for values in bundles(op):
                part.update({v: ((op, values[0]), k) for k, v in enumerate(values)})
        elif op.name in ("add", "sub") and all(v in part for v in op.operands):
            (a, k), (b, other) = (part[v] for v in op.operands)
            if k == other:
                part[op.results[0]] = (op.name, a, b), k
                made.setdefault((op.name, a, b), []).append(op)
    yielded = {v for op in ops for region in op.regions for v in region.yields}
    while True:
        sums = {op for group in made.values() for op in group}
        seen = {
            part[v][0]
            for v in part
            if v in yielded or any(op not in sums and op not in unseen for op in users.get(v, []))
        }
        worse = [key for key, group in made.items() if len(group) < 3 or not seen.isdisjoint(key[1:])]  # type: ignore[index]
        if not worse:
            break
        for key in worse:
            del made[key]
    sums = {op for group in made.values() for op in group}
    return {v for op in sums for v in (*op.operands, *op.results)}
