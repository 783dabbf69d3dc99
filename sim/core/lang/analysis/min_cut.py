"""The cheapest set of values that everything else can be computed from: a minimum vertex cut.

By augmenting paths (L. R. Ford, D. R. Fulkerson, "Maximal Flow through a Network", 1956).  Each value has a price, ways
between values are free: a value is split into an entry and an exit with its price in between, and the cut is where
entries are reached but exits are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sim.core.lang.ir.core import Value

UNBOUNDED = 1 << 30
"""The price of a value that cannot be in a cut."""

_Place = tuple[Value, bool]
"""A value is two places: its entry (False) and, behind its price, its exit (True)."""


def minimum_cut(
    sources: Collection[Value],
    targets: Collection[Value],
    after: Mapping[Value, Sequence[Value]],
    before: Mapping[Value, Sequence[Value]],
    price: Mapping[Value, int],
) -> set[Value]:
    """Values that every way from a source to a target passes through, of the least total price.

    Of several such sets the one nearest to the sources.
    after, before: the neighbours of a value in and against the direction of the ways.
    """
    flows: dict[tuple[Value, Value], int] = {}
    through: dict[Value, int] = {}
    wanted = targets if isinstance(targets, set) else set(targets)
    # From here no more flow gets through, now and later.  No search enters these places again; together they are the
    # side of the sources, whose border is the cut.
    lost: dict[_Place, _Place | None] = {}
    for source in sources:
        while True:
            path, reached = _path(source, wanted, after, before, price, through, flows, lost)
            if path is None:
                lost.update(reached)
                break
            _augment(path, price, through, flows)
    return {v for v, inner in lost if not inner and (v, True) not in lost and price.get(v, 0) < UNBOUNDED}


def _path(
    source: Value,
    targets: set[Value],
    after: Mapping[Value, Sequence[Value]],
    before: Mapping[Value, Sequence[Value]],
    price: Mapping[Value, int],
    through: Mapping[Value, int],
    flows: Mapping[tuple[Value, Value], int],
    lost: Mapping[_Place, _Place | None],
) -> tuple[list[_Place] | None, dict[_Place, _Place | None]]:
    """A way for more flow, and what was reached in looking for it (with the place before)."""
    start = (source, False)
    came: dict[_Place, _Place | None] = {start: None} if start not in lost else {}
    todo = list(came)
    while todo:  # depth first: a way is found without looking at everything
        place = todo.pop()
        v, leaving = place
        if leaving and v in targets:
            path = [place]
            while (previous := came[path[-1]]) is not None:
                path.append(previous)
            return path[::-1], came
        steps: list[_Place] = []  # forwards where there is room, backwards to take flow back
        if leaving:
            steps += [(n, False) for n in after.get(v, ())]
            if through.get(v, 0) > 0:
                steps.append((v, False))
        else:
            steps += [(p, True) for p in before.get(v, ()) if flows.get((p, v), 0) > 0]
            if through.get(v, 0) < price.get(v, UNBOUNDED):
                steps.append((v, True))
        for step in steps:
            if step not in came and step not in lost:
                came[step] = place
                todo.append(step)
    return None, came


def _augment(
    path: list[_Place], price: Mapping[Value, int], through: dict[Value, int], flows: dict[tuple[Value, Value], int]
) -> None:
    """Send as much along a path as it takes."""
    room = UNBOUNDED
    steps = list(zip(path, path[1:], strict=False))
    for (a, leaving), (b, _) in steps:
        if a is b:
            room = min(room, through.get(a, 0) if leaving else price.get(a, UNBOUNDED) - through.get(a, 0))
        elif not leaving:
            room = min(room, flows[b, a])
    for (a, leaving), (b, _) in steps:
        if a is b:
            through[a] = through.get(a, 0) + (-room if leaving else room)
        elif leaving:
            flows[a, b] = flows.get((a, b), 0) + room
        else:
            flows[b, a] -= room
