"""Where to record what a kernel's adjoint cannot load again: at the narrowest place of the computation.

The loads of an array that the launch overwrites could be recorded themselves.  Often less will do: a distance constraint looks at
the difference of two points only, three numbers instead of six.  What has to be known is a vertex cut between those loads and the
values that the reverse sweep looks at; the cheapest one (bytes) is found by augmenting paths (L. R. Ford, D. R. Fulkerson,
"Maximal Flow through a Network", 1956), and of several the one nearest to the loads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sim.core.lang.ir import OPS, Func, Op, Value, walk
from sim.core.lang.passes import control, flow, free_values
from sim.core.lang.types import Scalar, bool_

_UNBOUNDED = 1 << 30


def narrowest(func: Func, loads: Collection[Op], wanted: Collection[Value], looped: Collection[int]) -> list[Value]:
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
    flows: dict[tuple[Value, Value], int] = {}
    through: dict[Value, int] = {}
    while True:
        path, reached = _path(sources, targets, after, before, price, through, flows)
        if path is None:
            break
        _augment(path, price, through, flows)
    cut = {v for v, inner in reached if not inner and (v, True) not in reached and price.get(v, 0) < _UNBOUNDED}
    return [r for op in walk(func.body) for r in op.results if r in cut]


def _inside(op: Op) -> Iterable[Op]:
    return (inner for region in op.regions for inner in walk(region))


def _dependences(func: Func, loads: Collection[Op], looped: Collection[int]) -> tuple[dict[Value, list[Value]], dict[Value, int]]:
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
            alone = isinstance(kind, Scalar) and kind is not bool_ and (op.name in OPS or (op.name == "call" and len(op.results) == 1))
            price[r] = kind.size if id(op) in ids or (alone and id(op) not in looped) else _UNBOUNDED  # type: ignore[attr-defined]
    return before, price


def _path(
    sources: Collection[Value], targets: Collection[Value], after: dict[Value, list[Value]], before: dict[Value, list[Value]],
    price: dict[Value, int], through: dict[Value, int], flows: dict[tuple[Value, Value], int],
) -> tuple[list[tuple[Value, bool]] | None, set[tuple[Value, bool]]]:
    """A way for more flow, and what can be reached.  A value is two places: its entry (False) and, behind its price, its exit (True)."""
    start = [(s, False) for s in sources]
    came: dict[tuple[Value, bool], tuple[Value, bool] | None] = {s: None for s in start}
    todo = list(start)
    for place in todo:  # breadth first; the list grows
        v, leaving = place
        if leaving and v in targets:
            path = [place]
            while (previous := came[path[-1]]) is not None:
                path.append(previous)
            return path[::-1], set(came)
        steps: list[tuple[Value, bool]] = []
        if leaving:
            steps += [(n, False) for n in after.get(v, ())]
            if through.get(v, 0) > 0:
                steps.append((v, False))
        else:
            if through.get(v, 0) < price.get(v, _UNBOUNDED):
                steps.append((v, True))
            steps += [(p, True) for p in before.get(v, ()) if flows.get((p, v), 0) > 0]
        for step in steps:
            if step not in came:
                came[step] = place
                todo.append(step)
    return None, set(came)


def _augment(path: list[tuple[Value, bool]], price: dict[Value, int], through: dict[Value, int], flows: dict[tuple[Value, Value], int]) -> None:
    """Send as much along a path as it takes."""
    room = _UNBOUNDED
    steps = list(zip(path, path[1:], strict=False))
    for (a, leaving), (b, _) in steps:
        if a is b:
            room = min(room, through.get(a, 0) if leaving else price.get(a, _UNBOUNDED) - through.get(a, 0))
        elif not leaving:
            room = min(room, flows[b, a])
    for (a, leaving), (b, _) in steps:
        if a is b:
            through[a] = through.get(a, 0) + (-room if leaving else room)
        elif leaving:
            flows[a, b] = flows.get((a, b), 0) + room
        else:
            flows[b, a] -= room
