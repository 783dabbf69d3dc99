"""Where to record what a kernel's adjoint cannot load again: at the narrowest place of the computation.

The loads of an array that the launch overwrites could be recorded themselves.  Often less will do: a distance
constraint looks at the difference of two points only, three numbers instead of six.  What has to be known is a vertex
cut between those loads and the values that the reverse sweep looks at: the cheapest one (bytes), and of several the one
nearest to the loads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sim.core.lang.analysis.min_cut import UNBOUNDED, minimum_cut
from sim.core.lang.ir.core import OPS, Func, Op, Value, walk
from sim.core.lang.ir.passes import control, flow, free_values
from sim.core.lang.types import Scalar, bool_


def min_cut_cache(func: Func, loads: Collection[Op], wanted: Collection[Value], looped: Collection[int]) -> list[Value]:
    """Values to record, in program order, so that all `wanted` ones can be computed without `loads`.

    looped: ids of operations inside loops, whose values cannot be recorded: a thread has one place for each.
    """
    before, price = _dependences(func, loads, looped)
    targets = set(wanted)
    for op in walk(func.body):
        if op.name in ("for", "while") and any(v in targets for inner in _inside(op) for v in inner.results):
            targets.update([*op.operands, *free_values(op)])
    after: dict[Value, list[Value]] = {}
    for v, sources in before.items():
        for s in sources:
            after.setdefault(s, []).append(v)
    sources = [r for op in loads for r in op.results]
    cut = minimum_cut(sources, targets, after, before, price)
    return [r for op in walk(func.body) for r in op.results if r in cut]


def _inside(op: Op) -> Iterable[Op]:
    return (inner for region in op.regions for inner in walk(region))


def _dependences(
    func: Func, loads: Collection[Op], looped: Collection[int]
) -> tuple[dict[Value, list[Value]], dict[Value, int]]:
    """What each value is computed from (nothing for `loads`), and the bytes that recording it takes."""
    ids = set(map(id, loads))
    before: dict[Value, list[Value]] = {}
    price: dict[Value, int] = {}
    for op in walk(func.body):
        if op.regions:
            for target, values in flow(op):
                before.setdefault(target, []).extend([*values, *control(op)])
            if op.name != "if":
                for r in op.results:
                    before[r] = [*before.get(r, []), *op.operands, *free_values(op)]
        for r in op.results:
            if not op.regions:
                before[r] = [] if id(op) in ids else list(op.operands)
            kind = r.type
            alone = (
                isinstance(kind, Scalar)
                and kind is not bool_
                and (op.name in OPS or (op.name == "call" and len(op.results) == 1))
            )
            price[r] = kind.size if id(op) in ids or (alone and id(op) not in looped) else UNBOUNDED  # type: ignore[attr-defined]
    return before, price
