"""Activity and TBR analysis: which values vary with the active parameters, and which of them the adjoint looks at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from functools import cache

from sim.core.lang.analysis.dataflow import least_fixpoint, reached_results, solve_forward
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk, walk_regions
from sim.core.lang.ir.regions import control, flow
from sim.core.lang.ir.table import OPS, ZERO
from sim.core.lang.types import Scalar, float32


def is_float(v: Value) -> bool:
    return isinstance(v.type, Scalar) and v.type.is_float


def varied_values(func: Func, active: Collection[Value], only: Collection[Op] | None = None) -> set[Value]:
    """Floating values that depend on an active scalar, or on loads of an active array (`only`: on these loads)."""

    calls = ("call", "rule") if only is None else ("call",)  # the loads of a `rule` stand before it

    def transfer(op: Op, varied: Set[Value]) -> Iterable[Value]:
        if op.row.loads:
            reached = op.results if op.operands[0] in active and (only is None or op in only) else ()
        elif op.name == "tape_store":  # a tape varies as a whole
            return op.operands[:1] if op.operands[2] in varied else ()
        elif op.name in calls and any(v in active for v in op.operands):
            reached = op.results
        else:
            constant = op.is_primitive and OPS[op.name].vjp is ZERO
            reached = () if constant else reached_results(op, varied)
        return filter(is_float, reached)

    return solve_forward(walk(func.body), (p for p in func.params if p in active and is_float(p)), transfer)


def reached_arrays(func: Func, sources: Collection[Value]) -> set[Value]:
    """Array parameters that a kernel writes with values that depend on the arrays `sources`, also through memory."""

    def grow(reached: set[Value]) -> None:
        arrays = reached.union(sources)
        reached.update(array for array, _ in written_from(func, varied_values(func, arrays), arrays))

    return least_fixpoint((), grow)


@cache
def vjp_uses(name: str, kind: Scalar) -> tuple[frozenset[int], ...]:
    """By operand of a primitive: numbers of the values that its cotangent looks at (operands, then the result)."""
    row = OPS[name]
    if row.vjp is ZERO or row.vjp is None:
        return (frozenset(),) * row.arity
    block = Block([Value(kind), Value(kind), *map(Value, row.operand_types(kind))])
    with Builder(block):
        cotangents = row.vjp(*block.params)
    inputs = {v: k for k, v in enumerate([*block.params[2:], block.params[1]])}
    uses: dict[Value, set[int]] = {v: {inputs[v]} if v in inputs else set() for v in block.params}
    for op in block.ops:
        merged = set().union(*(uses[v] for v in op.operands))
        uses.update((r, merged) for r in op.results)
    return tuple(frozenset(uses[c]) if c is not None else frozenset() for c in cotangents)


def is_active(op: Op, varied: set[Value], active: Collection[Value]) -> bool:
    """Does the reverse sweep enter this region operation?  Only if a gradient can flow through it."""
    if any(r in varied for r in op.results):
        return True
    return any(
        (o.row.writes and o.operands[0] in active)
        or any(r in varied for r in o.results)
        or (o.name == "rule" and goes_back(o, varied, active))
        for o in walk_regions(op)
    )


def goes_back(rule: Op, varied: Collection[Value], active: Collection[Value]) -> bool:
    """Does the derivative of this `rule` have anything to add to?"""
    return any(v in varied or v in active for v in rule.operands)


def tbr_closure(
    func: Func, varied: set[Value], active: Collection[Value], replayed: Collection[Value] = ()
) -> set[Value]:
    """The to-be-recorded set (`tbr_values`), closed over what recomputing it takes."""
    needed = tbr_values(func, varied, active, replayed)
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


def tbr_values(
    func: Func, varied: set[Value], active: Collection[Value], replayed: Collection[Value] = ()
) -> set[Value]:
    """Values that the reverse sweep itself looks at: the to-be-recorded (TBR) set.

    L. Hascoet, U. Naumann, V. Pascual, "'To be recorded' analysis in reverse-mode automatic differentiation", 2005.

    replayed: arrays whose stores the adjoint performs again: every operand of such a store is needed.
    """
    tbr: set[Value] = set()
    for op in walk(func.body):
        if op.regions:
            if is_active(op, varied, active) or any(
                o.row.writes and o.operands[0] in replayed for o in walk_regions(op)
            ):
                tbr.update(control(op))
            continue
        if op.is_primitive:
            if op.results[0] in varied:
                all_values = [*op.operands, op.results[0]]
                # a cast has operand and result of different types, and its cotangent uses no values: any type will do
                kind = op.results[0].type if op.name != "cast" else float32
                for v, uses in zip(op.operands, vjp_uses(op.name, kind), strict=True):
                    if v in varied:
                        tbr.update(all_values[k] for k in uses)
        elif op.name == "call":
            if any(r in varied for r in op.results):
                tbr.update(op.operands)
                tbr.update(op.results)
        elif op.name == "rule":
            if goes_back(op, varied, active):
                tbr.update(op.operands)
        elif op.row.memory:
            access = split_memory(op)
            if access.array in replayed and op.row.writes:
                tbr.update(op.operands[1:])
            elif access.array in active:
                tbr.update(access.address)
                # the reverse sweep compares the value with the initial and the final one
                if op.name == "atomic" and op.how in ("min", "max"):
                    tbr.update(op.operands[1:])
    return tbr


def clobbered_loads(func: Func, groups: Mapping[Value, int]) -> set[Op]:
    """Loads of memory that a write of the same thread may have changed before (a loop body precedes itself).

    The adjoint, which reads arrays as they were at the launch, would load something else.
    """
    found: set[Op] = set()

    def visit(block: Block, written: set[int]) -> None:
        for op in block.ops:
            if op.row.loads and groups[op.operands[0]] in written:
                found.add(op)
            if op.row.writes:
                written.add(groups[op.operands[0]])
            elif op.name == "if":
                then, other = set(written), set(written)
                visit(op.regions[0], then)
                visit(op.regions[1], other)
                written |= then | other
            elif op.regions:
                written.update(groups[o.operands[0]] for o in walk_regions(op) if o.row.writes)
                for region in op.regions:
                    visit(region, written)

    visit(func.body, set())
    return found


def written_from(func: Func, values: Collection[Value], arrays: Collection[Value] = ()) -> list[tuple[Value, Op]]:
    """(array parameter, write) of every write that puts one of these values into memory.

    So does any write of a function with a rule that takes one of the values, or of `arrays`: nobody knows what the
    rule makes of them.
    """
    taking = {op.callee for op in walk(func.body) if op.name == "rule" and goes_back(op, values, arrays)}
    return [
        (op.operands[0], op)
        for op in walk(func.body)
        if op.row.writes and (op.by_rule in taking or any(v in values for v in split_memory(op).values))
    ]


def ops_in_loops(func: Func) -> set[Op]:
    """Operations inside a loop."""
    return {inner for op in walk(func.body) if op.row.loop for inner in walk_regions(op)}
