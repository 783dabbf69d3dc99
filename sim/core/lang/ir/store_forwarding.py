"""Store-to-load forwarding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_op
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk
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
    """Exclusive accumulations onto values that the thread has loaded before become stores: for code, after all
    derivatives are taken.

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

    def rewrite(b: Builder, block: Block, env: Env, known: dict) -> list[Value]:
        for op in block.ops:
            if op.row.memory:
                array, index, leaf, values = split_memory(op)
                place = (env.get(array, array), *(env.get(v, v) for v in index))
                if op.name == "load" and leaf is None:
                    have = [known[*place, k] for k in op.leaves if (*place, k) in known]
                    if len(have) == len(op.results):
                        env.update(zip(op.results, have, strict=True))
                        continue
                before = None
                if (
                    op.name == "accum"
                    and leaf is None
                    and array.name in exclusive
                    and all((*place, k) in known for k in op.leaves)
                ):
                    before = [known[*place, k] for k in op.leaves]
                if op.row.writes:
                    group = groups[array]
                    gone = [key for key in known if groups[key[0]] == group]
                    same = (op.name == "store" or before is not None) and leaf is None
                    for key in gone:
                        here = same and key[:-1] == place and key[-1] not in op.leaves
                        apart = key[0] is place[0] and key[:-1] != place and array.name in exclusive
                        if not (here or apart):
                            del known[key]
                if before is not None:
                    b.span = op.span
                    sums = [old + env.get(v, v) for old, v in zip(before, values, strict=True)]
                    b.store(place[0], list(place[1:]), op.leaves, sums)
                    known.update(((*place, k), v) for k, v in zip(op.leaves, sums, strict=True))
                    continue
                copy_op(b, op, env)
                if leaf is None and op.name in ("load", "store"):
                    moved = op.results if op.name == "load" else values
                    known.update(((*place, k), env.get(v, v)) for k, v in zip(op.leaves, moved, strict=True))
            elif op.regions:
                written = {groups[split_memory(o)[0]] for r in op.regions for o in walk(r) if o.row.writes}
                outer = {k: v for k, v in known.items() if op.name == "if" or groups[k[0]] not in written}
                args = [env.get(v, v) for v in op.operands]
                b.span = op.span

                def inside(region: Block, outer: dict = outer) -> Callable[..., list[Value]]:
                    def fill(*params: Value) -> list[Value]:
                        inner = dict(env)
                        inner.update(zip(region.params, params, strict=True))
                        return rewrite(b, region, inner, dict(outer))

                    return fill

                regions = [
                    b.region([p.type for p in r.params], inside(r), [p.name for p in r.params]) for r in op.regions
                ]
                new = b.append(
                    Op(op.name, args, [Value(r.type, r.name) for r in op.results], dict(op.attrs), regions, op.span)
                )
                env.update(zip(op.results, new.results, strict=True))
                for key in [k for k in known if groups[k[0]] in written]:
                    del known[key]
            else:
                copy_op(b, op, env)
        return [env.get(v, v) for v in block.yields]

    body = Block(list(func.params))
    with Builder(body) as b:
        body.yields = rewrite(b, func.body, {}, {})
    return Func(func.name, body, func.span, func.dims, dict(func.attrs))


def assume_disjoint(func: Func, names: Collection[str]) -> Func:
    """Write into a kernel that no two threads of a launch touch the same element of the arrays `names`, nor one thread
    by two indices."""
    func.attrs["exclusive"] = frozenset(names)
    for op in walk(func.body):
        if op.name == "accum" and op.operands[0].name in names:
            op.attrs["exclusive"] = True
    return func
