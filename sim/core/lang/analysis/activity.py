"""What the adjoint of a function needs: which values carry a gradient, and which values its reverse sweep looks at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from functools import cache

from sim.core.lang.analysis.dataflow import least_fixpoint, reached_results, solve_forward
from sim.core.lang.ir.core import OPS, ZERO, Block, Builder, Func, Op, Value, split_memory, walk
from sim.core.lang.ir.passes import WRITES, control, flow
from sim.core.lang.types import Scalar, bool_, float32


def is_float(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_float


def varied_values(func: Func, active: Collection[Value], only: Collection[int] | None = None) -> set[Value]:
    """Floating values that depend on an active parameter: a scalar, or loads of an active array (`only`: these loads,
    by id)."""

    def transfer(op: Op, varied: Set[Value]) -> Iterable[Value]:
        if op.name in ("load", "atomic"):
            reached = op.results if op.operands[0] in active and (only is None or id(op) in only) else ()
        elif op.name == "tape_store":  # a tape varies as a whole
            return op.operands[:1] if op.operands[2] in varied else ()
        elif op.name == "call" and any(v in active for v in op.operands):
            reached = op.results
        else:
            constant = op.name in OPS and OPS[op.name].vjp is ZERO
            reached = () if constant else reached_results(op, varied)
        return filter(is_float, reached)

    return solve_forward(walk(func.body), (p for p in func.params if p in active and is_float(p)), transfer)


def reached_arrays(func: Func, sources: Collection[Value]) -> set[Value]:
    """Array parameters that a kernel writes with values that depend on the arrays `sources`, also through memory."""

    def grow(reached: set[Value]) -> None:
        values = varied_values(func, reached.union(sources))
        reached.update(array for array, _ in written_from(func, values))

    return least_fixpoint((), grow)


@cache
def vjp_uses(name: str, kind: Scalar) -> tuple[frozenset[int], ...]:
    """For each operand of a primitive: numbers of the values that its cotangent looks at (operands in order, then the
    result)."""
    row = OPS[name]
    if row.vjp is ZERO or row.vjp is None:
        return (frozenset(),) * row.arity
    types = [bool_ if name == "select" and k == 0 else kind for k in range(row.arity)]
    block = Block([Value(kind), Value(kind), *(Value(t) for t in types)])
    with Builder(block):
        cotangents = row.vjp(*block.params)
    inputs = {id(v): k for k, v in enumerate([*block.params[2:], block.params[1]])}
    uses: dict[int, set[int]] = {id(v): {inputs[id(v)]} if id(v) in inputs else set() for v in block.params}
    for op in block.ops:
        merged = set().union(*(uses[id(v)] for v in op.operands))
        uses.update((id(r), merged) for r in op.results)
    return tuple(frozenset(uses[id(c)]) if c is not None else frozenset() for c in cotangents)


def matters(op: Op, varied: set[Value], active: Collection[Value]) -> bool:
    """Does the reverse sweep enter this region operation?  Only if a gradient can flow through it."""
    if any(r in varied for r in op.results):
        return True
    return any(
        (o.name in WRITES and o.operands[0] in active) or any(r in varied for r in o.results)
        for region in op.regions
        for o in walk(region)
    )


def needed_values(
    func: Func, varied: set[Value], active: Collection[Value], replayed: Collection[Value] = ()
) -> set[Value]:
    """Values that the reverse sweep looks at (`wanted_values`), closed over what recomputing them takes."""
    needed = wanted_values(func, varied, active, replayed)
    depends: dict[Value, list[Value]] = {}
    for op in walk(func.body):
        if op.regions:
            for target, sources in flow(op):
                depends.setdefault(target, []).extend([*sources, *control(op)])
            continue
        for r in op.results:
            depends[r] = op.operands
    todo = list(needed)
    while todo:
        for v in depends.get(todo.pop(), ()):
            if v not in needed:
                needed.add(v)
                todo.append(v)
    return needed


def wanted_values(
    func: Func, varied: set[Value], active: Collection[Value], replayed: Collection[Value] = ()
) -> set[Value]:
    """Values that the reverse sweep itself looks at.

    replayed: arrays whose stores the adjoint performs again: every operand of such a store is needed.
    """
    needed: set[Value] = set()
    for op in walk(func.body):
        if op.regions:
            deciding = control(op)
            if matters(op, varied, active) or any(
                o.operands[0] in replayed for r in op.regions for o in walk(r) if o.name in WRITES
            ):
                needed.update(deciding)
            continue
        if op.name in OPS:
            if op.results[0] in varied:
                all_values = [*op.operands, op.results[0]]
                kind = op.results[0].type if op.name != "cast" else float32
                for v, uses in zip(op.operands, vjp_uses(op.name, kind), strict=True):  # type: ignore[arg-type]
                    if v in varied:
                        needed.update(all_values[k] for k in uses)
        elif op.name == "call":
            if any(r in varied for r in op.results):
                needed.update(op.operands)
                needed.update(op.results)
        elif op.name in ("load", "store", "accum", "atomic"):
            array, index, leaf, _ = split_memory(op)
            if array in replayed and op.name in WRITES:
                needed.update(op.operands[1:])
            elif array in active:
                needed.update([*index, *([leaf] if leaf is not None else [])])
                if op.name == "atomic" and op.attrs["how"] in ("min", "max"):
                    needed.update(op.operands[1:])
    return needed


def dirty_loads(func: Func, groups: Mapping[Value, int]) -> set[int]:
    """ids of loads that a write of the same thread to the same memory may precede (a loop body precedes itself)."""
    found: set[int] = set()

    def writes(op: Op) -> Iterable[int]:
        ops = [op, *(o for region in op.regions for o in walk(region))]
        return [groups[o.operands[0]] for o in ops if o.name in WRITES]

    def visit(block: Block, seen: set[int]) -> None:
        for op in block.ops:
            if op.name in ("load", "atomic") and groups[op.operands[0]] in seen:
                found.add(id(op))
            if op.name in WRITES:
                seen.add(groups[op.operands[0]])
            elif op.name == "if":
                then, other = set(seen), set(seen)
                visit(op.regions[0], then)
                visit(op.regions[1], other)
                seen |= then | other
            elif op.regions:
                seen.update(writes(op))
                for region in op.regions:
                    visit(region, seen)

    visit(func.body, set())
    return found


def written_from(func: Func, values: Collection[Value]) -> list[tuple[Value, Op]]:
    """(array parameter, write) of every write that puts one of these values into memory."""
    return [
        (op.operands[0], op)
        for op in walk(func.body)
        if op.name in WRITES and any(v in values for v in split_memory(op)[3])
    ]


def in_loops(func: Func) -> set[int]:
    """ids of operations inside a loop."""
    return {
        id(inner)
        for op in walk(func.body)
        if op.name in ("for", "while")
        for region in op.regions
        for inner in walk(region)
    }
