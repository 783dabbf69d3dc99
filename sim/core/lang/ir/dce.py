"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable

from sim.core.lang.ir.core import Block, Func, Op, Value, walk
from sim.core.lang.ir.regions import control, flow


def dce(func: Func) -> Func:
    """Remove dead operations, results and carried values, in place.

    A carried value that only feeds itself is dead too: it would keep arrays alive that the adjoint does not need.
    A store to a tape that nobody reads is dead.
    """
    while True:
        _prune(func.body)
        read = {op.operands[0] for op in walk(func.body) if op.name == "tape_load"}
        unread = [op for op in walk(func.body) if op.name == "tape_store" and op.operands[0] not in read]
        if not unread:
            return func
        _remove(func.body, set(unread))


def _remove(block: Block, dead: set[Op]) -> None:
    block.ops = [op for op in block.ops if op not in dead]
    for op in block.ops:
        for region in op.regions:
            _remove(region, dead)


def _prune(body: Block) -> None:
    ops = list(walk(body))
    acts: dict[Op, bool] = {}
    for op in reversed(ops):  # what is inside of an operation stands behind it
        acts[op] = op.row.effect or any(acts[inner] for region in op.regions for inner in region.ops)
    depends: dict[Value, list[Value]] = {}
    owner: dict[Value, Op] = {}
    for op in ops:
        if op.regions:
            for target, sources in flow(op):
                depends.setdefault(target, []).extend(sources)
            owner.update((r, op) for r in op.results)
            owner.update((p, op) for region in op.regions for p in region.params)
        else:
            for r in op.results:
                depends[r] = op.operands
    live: set[Value] = set()
    todo: list[Value] = []

    def mark(values: Iterable[Value]) -> None:
        for v in values:
            if v not in live:
                live.add(v)
                todo.append(v)

    mark(body.yields)
    for op in ops:
        if acts[op]:
            mark(control(op) if op.regions else op.operands)
    while todo:
        value = todo.pop()
        mark(depends.get(value, ()))
        if value in owner:
            mark(control(owner[value]))

    def sweep(block: Block) -> None:
        block.ops = [op for op in block.ops if acts[op] or any(r in live for r in op.results)]
        for op in block.ops:
            if not op.regions:
                continue
            carries = op.row.loop
            first = op.first_carried if carries else 0
            keep = [
                j
                for j, r in enumerate(op.results)
                if r in live or (carries and any(region.params[first + j] in live for region in op.regions))
            ]
            if carries:
                op.operands = op.operands[:first] + [op.operands[first + j] for j in keep]
            for region in op.regions:
                if carries:
                    region.params = region.params[:first] + [region.params[first + j] for j in keep]
                if region is op.regions[-1] or not carries:  # but the condition of a `while` yields what decides
                    region.yields = [region.yields[j] for j in keep]
                sweep(region)
            op.results = [op.results[j] for j in keep]

    sweep(body)
