"""Store-to-load forwarding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_op
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk, walk_regions
from sim.core.lang.ir.dce import dce
from sim.core.lang.types import ArrayType


def alias_groups(func: Func, aliases: Iterable[Collection[int]]) -> Mapping[Value, int]:
    """Number of the group of overlapping memory of every array parameter."""
    groups = {p: k for k, p in enumerate(func.params) if isinstance(p.type, ArrayType)}
    for together in aliases:
        first = min(together)
        for k in together:
            groups[func.params[k]] = first
    return groups


def settle_updates(func: Func) -> Func:
    """Exclusive accumulations onto values that the thread has loaded before become stores, once derivatives are taken.

    Such kernels promise more than that no two threads touch one element: their arrays do not overlap, and within a
    thread different indices are different elements of an exclusive array.
    """
    exclusive = func.attrs.get("exclusive")
    return dce(forward_stores(func, alias_groups(func, ()), exclusive)) if exclusive else func


def forward_stores(func: Func, groups: Mapping[Value, int], exclusive: Collection[str] = ()) -> Func:
    """A load that sees an earlier load or store of this thread at the same index takes its value.

    Straight-line code and into branches; a write to the same memory at another index, or inside a region, ends it.
    exclusive: names of the arrays whose accumulations become stores, see `settle_updates`.
    """
    body = Block(list(func.params))
    with Builder(body) as b:
        body.yields = _Forwarding(b, groups, exclusive).block(func.body, {}, {})
    return Func(func.name, body, func.span, func.dims, dict(func.attrs))


Cell = tuple[Value | int, ...]
"""A scalar in memory: the array, the indices (values of the copy), the number of the leaf."""


@dataclass
class _Forwarding:
    """Copies a kernel.  Its methods pass on what memory is known to hold: `known`, the value of every such cell."""

    b: Builder
    groups: Mapping[Value, int]
    exclusive: Collection[str]

    def block(self, block: Block, env: Env, known: dict[Cell, Value]) -> list[Value]:
        for op in block.ops:
            if op.row.memory:
                self.access(op, env, known)
            elif op.regions:
                self.enter(op, env, known)
            else:
                if op.name == "store_at":
                    known.clear()
                copy_op(self.b, op, env)
        return [env.get(v, v) for v in block.yields]

    def access(self, op: Op, env: Env, known: dict[Cell, Value]) -> None:
        array, indices, leaf, values = split_memory(op)
        place = (env.get(array, array), *(env.get(v, v) for v in indices))
        cells: list[Cell] = [] if leaf is not None else [(*place, k) for k in op.leaves]
        held = [known[cell] for cell in cells if cell in known]
        complete = leaf is None and len(held) == len(cells)
        if op.name == "load" and complete:
            env.update(zip(op.results, held, strict=True))
            return
        settled = op.name == "accum" and complete and op.by_rule is None and array.name in self.exclusive
        if op.row.writes:
            self.forget(op, place, known, precise=leaf is None and (op.name == "store" or settled))
        if settled:
            self.b.span = op.span
            moved = [old + env.get(v, v) for old, v in zip(held, values, strict=True)]
            beside: Cell = (*place, op.leaves[-1] + 1)
            if len(moved) == 3 and beside in known:  # four numbers side by side are one store, three are two
                self.b.store(place[0], list(place[1:]), [*op.leaves, op.leaves[-1] + 1], [*moved, known[beside]])
            else:
                self.b.store(place[0], list(place[1:]), op.leaves, moved)
        else:
            copy_op(self.b, op, env)
            if op.name not in ("load", "store") or op.by_rule is not None:  # the rule's gradient is that of memory
                return
            moved = [env.get(v, v) for v in (op.results if op.name == "load" else values)]
        if leaf is None:
            known.update(zip(cells, moved, strict=True))

    def forget(self, op: Op, place: tuple[Value, ...], known: dict[Cell, Value], precise: bool) -> None:
        """What a write may change is not known any more: all of its memory, since other indices may be equal.

        precise: but the other leaves of its own element.  In an exclusive array other indices are other elements too.
        """
        array = op.operands[0]
        for cell in [c for c in known if self.groups[c[0]] == self.groups[array]]:  # type: ignore[index]
            other_leaf = precise and cell[:-1] == place and cell[-1] not in op.leaves
            other_element = cell[0] is place[0] and cell[:-1] != place and array.name in self.exclusive
            if not (other_leaf or other_element):
                del known[cell]

    def enter(self, op: Op, env: Env, known: dict[Cell, Value]) -> None:
        """An operation with regions.

        A branch begins with all that is known; the body of a loop only with what no trip changes, since the last one
        has come before.
        """
        written = {self.groups[o.operands[0]] for o in walk_regions(op) if o.row.writes}
        kept = {c: v for c, v in known.items() if self.groups[c[0]] not in written}  # type: ignore[index]
        outer = known if op.name == "if" else kept
        self.b.span = op.span

        def inside(region: Block) -> Callable[..., list[Value]]:
            return lambda *params: self.block(region, env | dict(zip(region.params, params, strict=True)), dict(outer))

        args = [env.get(v, v) for v in op.operands]
        regions = [self.b.region([p.type for p in r.params], inside(r), [p.name for p in r.params]) for r in op.regions]
        results = [Value(r.type, r.name) for r in op.results]
        self.b.append(Op(op.name, args, results, dict(op.attrs), regions, op.span))
        env.update(zip(op.results, results, strict=True))
        for cell in known.keys() - kept.keys():
            del known[cell]


def assume_disjoint(func: Func, names: Collection[str]) -> Func:
    """Write into a kernel that no two threads touch the same element of the arrays `names`, nor one by two indices."""
    func.attrs["exclusive"] = frozenset(names)
    for op in walk(func.body):
        if op.name == "accum" and op.operands[0].name in names:
            op.attrs["exclusive"] = True
    return func
