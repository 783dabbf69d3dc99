"""Passes over the IR: copying (which folds and reuses values again), inlining, dead code, forwarding of stored
values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sim.core.lang.ir.core import OPS, Block, Builder, Func, Op, Value, has_effect, split_memory, walk
from sim.core.lang.types import ArrayType

Env = dict[Value, Value]
MEMORY = frozenset(("load", "store", "accum", "atomic"))
WRITES = frozenset(("store", "accum", "atomic"))


# ------------------------------------------------------------------------------------------------ copying
def copy_block(b: Builder, block: Block, env: Env, special: Callable[[Op, Env], bool] | None = None) -> list[Value]:
    """Emit the operations of `block` with operands replaced by `env`; returns what the block yields there.

    `special(op, env)` may handle an operation itself (then it returns True and has set `env` for the results).
    """
    for op in block.ops:
        if special is None or not special(op, env):
            copy_op(b, op, env, special)
    return [env.get(v, v) for v in block.yields]


def copy_op(b: Builder, op: Op, env: Env, special: Callable[[Op, Env], bool] | None = None) -> None:
    """Emit one operation (and its regions) with operands replaced by `env`."""
    args = [env.get(v, v) for v in op.operands]
    b.span = op.span

    def inside(region: Block) -> Callable[..., list[Value]]:
        def fill(*params: Value) -> list[Value]:
            inner = dict(env)
            inner.update(zip(region.params, params, strict=True))
            return copy_block(b, region, inner, special)

        return fill

    if op.name in OPS:
        results = [b.emit(op.name, *args, type=op.results[0].type)]
    elif op.name == "const":
        results = [b.const(op.attrs["value"], op.results[0].type)]
    elif op.name in ("tid", "shape"):
        results = [b.leaf_op(op.name, args, op.results[0].type, **op.attrs)]
    elif op.name == "if" and args[0].const is not None:
        chosen = op.regions[0] if args[0].const else op.regions[1]
        inner = dict(env)
        results = copy_block(b, chosen, inner, special)
    else:
        regions = [b.region([p.type for p in r.params], inside(r), [p.name for p in r.params]) for r in op.regions]
        results = b.append(
            Op(op.name, args, [Value(r.type, r.name) for r in op.results], dict(op.attrs), regions, op.span)
        ).results
    for before, after in zip(op.results, results, strict=True):
        after.name = after.name or before.name
        env[before] = after


def rebuild(func: Func, special: Callable[[Builder, Op, Env], bool] | None = None) -> Func:
    """A copy of the function, its values folded and reused anew."""
    block = Block([Value(p.type, p.name) for p in func.params])
    env: Env = dict(zip(func.params, block.params, strict=True))
    with Builder(block) as b:
        handler = None if special is None else (lambda op, e: special(b, op, e))
        block.yields = copy_block(b, func.body, env, handler)
    return Func(func.name, block, func.span, func.dims, dict(func.attrs))


def inline_call(b: Builder, callee: Func, args: Sequence[Value]) -> list[Value]:
    """Emit the body of a function for these arguments; returns its results."""
    return copy_block(b, callee.body, dict(zip(callee.params, args, strict=True)))


def promise_exclusive(func: Func, names: Collection[str]) -> Func:
    """Write into a kernel that no two threads of a launch touch the same element of the arrays `names`, nor one thread
    by two indices."""
    func.attrs["exclusive"] = frozenset(names)
    for op in walk(func.body):
        if op.name == "accum" and op.operands[0].name in names:
            op.attrs["exclusive"] = True
    return func


def inline(func: Func) -> Func:
    """Replace every `call` by the body of its callee."""

    def special(b: Builder, op: Op, env: Env) -> bool:
        if op.name != "call":
            return False
        args = [env.get(v, v) for v in op.operands]
        inner: Env = dict(zip(op.attrs["callee"].params, args, strict=True))
        results = copy_block(b, op.attrs["callee"].body, inner, lambda o, e: special(b, o, e))
        env.update(zip(op.results, results, strict=True))
        return True

    return rebuild(func, special) if any(op.name == "call" for op in walk(func.body)) else func


# ------------------------------------------------------------------------------------------------ data flow through
# regions
def flow(op: Op) -> list[tuple[Value, list[Value]]]:
    """(result or region parameter, the values that it may take) of an operation with regions."""
    if op.name == "if":
        return [(r, [a, b]) for r, a, b in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True)]
    body = op.regions[-1]
    start = 1 if op.name == "for" else 0
    edges = []
    for j, (result, end) in enumerate(zip(op.results, body.yields, strict=True)):
        sources = [op.operands[start + j], end]
        edges.append((result, sources))
        edges += [(region.params[start + j], sources) for region in op.regions]
    return edges


def control(op: Op) -> list[Value]:
    """Values that decide which regions run, and how often."""
    return [op.regions[0].yields[0]] if op.name == "while" else op.operands[:1]


def free_values(op: Op) -> list[Value]:
    """Values used inside the regions of `op` but defined outside, in order of first use."""
    found: dict[Value, None] = {}

    def visit(block: Block, defined: set[Value]) -> None:
        defined = defined | set(block.params)
        for inner in block.ops:
            found.update((v, None) for v in inner.operands if v not in defined)
            for region in inner.regions:
                visit(region, defined)
            defined.update(inner.results)
        found.update((v, None) for v in block.yields if v not in defined)

    for region in op.regions:
        visit(region, set())
    return list(found)


# ------------------------------------------------------------------------------------------------ dead code
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
        _remove(func.body, set(map(id, unread)))


def _remove(block: Block, dead: set[int]) -> None:
    block.ops = [op for op in block.ops if id(op) not in dead]
    for op in block.ops:
        for region in op.regions:
            _remove(region, dead)


def _prune(body: Block) -> None:
    ops = list(walk(body))
    acts = {id(op): has_effect(op) for op in ops}
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
        if acts[id(op)]:
            mark(control(op) if op.regions else op.operands)
    while todo:
        value = todo.pop()
        mark(depends.get(value, ()))
        if value in owner:
            mark(control(owner[value]))

    def sweep(block: Block) -> None:
        block.ops = [op for op in block.ops if acts[id(op)] or any(r in live for r in op.results)]
        for op in block.ops:
            if not op.regions:
                continue
            shift = 1 if op.name == "for" else 0
            keep = [
                j
                for j, r in enumerate(op.results)
                if r in live or (op.name != "if" and any(region.params[shift + j] in live for region in op.regions))
            ]
            if op.name != "if":
                op.operands = op.operands[:shift] + [op.operands[shift + j] for j in keep]
            for region in op.regions:
                if op.name != "if":
                    region.params = region.params[:shift] + [region.params[shift + j] for j in keep]
                if not (op.name == "while" and region is op.regions[0]):
                    region.yields = [region.yields[j] for j in keep]
                sweep(region)
            op.results = [op.results[j] for j in keep]

    sweep(body)


# ------------------------------------------------------------------------------------------------ memory
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
    return dce(forward_memory(func, alias_groups(func, ()), exclusive)) if exclusive else func


def forward_memory(func: Func, groups: Mapping[Value, int], exclusive: Collection[str] = ()) -> Func:
    """A load that sees an earlier load or store of this thread at the same index takes its value.

    Straight-line code and into branches; a write to the same memory at another index, or inside a region, ends it.
    exclusive: names of the arrays whose accumulations become stores, see `settle_updates`.
    """

    def rewrite(b: Builder, block: Block, env: Env, known: dict) -> list[Value]:
        for op in block.ops:
            if op.name in MEMORY:
                array, index, leaf, values = split_memory(op)
                place = (env.get(array, array), *(env.get(v, v) for v in index))
                if op.name == "load" and leaf is None:
                    have = [known[*place, k] for k in op.attrs["leaves"] if (*place, k) in known]
                    if len(have) == len(op.results):
                        env.update(zip(op.results, have, strict=True))
                        continue
                before = None
                if (
                    op.name == "accum"
                    and leaf is None
                    and array.name in exclusive
                    and all((*place, k) in known for k in op.attrs["leaves"])
                ):
                    before = [known[*place, k] for k in op.attrs["leaves"]]
                if op.name in WRITES:
                    group = groups[array]
                    gone = [key for key in known if groups[key[0]] == group]
                    same = (op.name == "store" or before is not None) and leaf is None
                    for key in gone:
                        here = same and key[:-1] == place and key[-1] not in op.attrs["leaves"]
                        apart = key[0] is place[0] and key[:-1] != place and array.name in exclusive
                        if not (here or apart):
                            del known[key]
                if before is not None:
                    b.span = op.span
                    sums = [old + env.get(v, v) for old, v in zip(before, values, strict=True)]
                    b.store(place[0], list(place[1:]), op.attrs["leaves"], sums)
                    known.update(((*place, k), v) for k, v in zip(op.attrs["leaves"], sums, strict=True))
                    continue
                copy_op(b, op, env)
                if leaf is None and op.name in ("load", "store"):
                    moved = op.results if op.name == "load" else values
                    known.update(((*place, k), env.get(v, v)) for k, v in zip(op.attrs["leaves"], moved, strict=True))
            elif op.regions:
                written = {groups[split_memory(o)[0]] for r in op.regions for o in walk(r) if o.name in WRITES}
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
