"""The plan of a replay: how the adjoint of a kernel takes back the stores that it performs again (`undo_stack.py`).

An operation with regions that stands outside of all others (a *root*) is *address-invariant* if where its stores go,
and how often, follows from values that those stores do not change, or that a root which is a loop carries: its frames
keep these.  Then the program itself, run backwards, says where the old values belong: only these are kept.  Else every
store also keeps its place, and every trip of a loop the place in the log where it began.

A *perfect nest* is an address-invariant loop whose trips store in inner loops only: the reverse sweep goes from the end
of one to the end of the one before, and nothing runs a third time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from sim.core.lang.analysis.dataflow import reached_results, solve_forward
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.ir.core import Block, Op, Value, split_memory, walk, walk_regions
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import Scalar, int32


@dataclass
class ReplayPlan:
    """What is done about the stores to `arrays`.

    groups:            number of the memory of every array.
    storing:           the operations with regions that hold such stores.
    address_invariant: the stores that keep their old values alone, and the `storing` operations with nothing but such.
    perfect_nests:     loops among them.
    changing:          values that depend, within a root, on what its stores change.
    logged:            the stores that keep their places too, and `logged_arrays` where they go.
    frames:            per loop in `storing` the carried values that every trip keeps.
    stack_types:       types of what is kept without a place.
    """

    arrays: frozenset[Value] = frozenset()
    groups: Mapping[Value, int] = field(default_factory=dict)
    storing: set[Op] = field(default_factory=set)
    address_invariant: set[Op] = field(default_factory=set)
    perfect_nests: set[Op] = field(default_factory=set)
    changing: set[Value] = field(default_factory=set)
    logged: set[Op] = field(default_factory=set)
    logged_arrays: set[Value] = field(default_factory=set)
    frames: dict[Op, list[Value]] = field(default_factory=dict)
    stack_types: set[Scalar] = field(default_factory=set)

    def stores(self, op: Op) -> bool:
        """Is it a store that is performed again?"""
        return op.row.writes and op.operands[0] in self.arrays

    def pushed(self, op: Op) -> list[tuple[Scalar, list[int]]]:
        """What a store keeps without a place: (type, which of the values that it overwrites)."""
        if op not in self.address_invariant or not self.stores(op):
            return []
        return _by_type([v.type for v in split_memory(op)[3]])  # type: ignore[misc]

    def frame(self, op: Op, positions: int) -> list[tuple[Scalar, list[int]]]:
        """What a trip of a loop keeps: (type, which of its `frames` and, behind them, positions in other logs)."""
        types: list[Scalar] = [v.type for v in self.frames[op]]  # type: ignore[misc]
        return _by_type(types if op in self.address_invariant else [*types, *[int32] * positions])

    def seen(self, block: Block, needed: Collection[Value]) -> set[Op]:
        """The stores, and the branches with stores, of a block that anything behind them in it looks at.

        A store is also seen by a later operation with regions that overwrites the same memory: it keeps the old value.
        """
        found: set[Op] = set()
        later: set[int] = set()
        for op in reversed(block.ops):
            inside = [op, *walk_regions(op)]
            written = {self.groups[o.operands[0]] for o in inside if self.stores(o)}
            if written & later or any(r in needed for r in op.results):
                found.add(op)
            if op.regions:
                later |= written
            later |= {
                self.groups[o.operands[0]] for o in inside if o.name == "load" and any(r in needed for r in o.results)
            }
        return found


def plan_replay(tbr: ToBeRecorded) -> ReplayPlan:
    """The plan for the stores to the arrays that are replayed."""
    params, body = tbr.kernel.params, tbr.kernel.body
    plan = ReplayPlan(frozenset(params[k] for k in tbr.replayed), tbr.groups)
    plan.storing |= {op for op in walk(body) if any(plan.stores(o) for o in walk_regions(op))}
    for root in body.ops:
        if root in plan.storing:
            _plan_root(plan, root, tbr)
    return plan


def _plan_root(plan: ReplayPlan, root: Op, tbr: ToBeRecorded) -> None:
    inside = [*walk_regions(root)]
    stores = {op for op in inside if plan.stores(op)}

    # what the stores change, directly or through what loops carry (that of a root with frames is known from these)
    from_memory = _from_memory_or_loops(plan, inside)
    framed = root.name != "if" and tbr.is_active(root)
    carrying = [op for op in (inside if framed else [root, *inside]) if op.name in ("for", "while")]
    carried = {p for loop in carrying for region in loop.regions for p in region.params[loop.first_carried :]}
    changing = _dependents(root, from_memory | carried)
    plan.changing |= changing

    # can the program run backwards tell where old values belong?
    if (framed or root.name != "while") and all(_is_address_invariant(o, plan, changing, tbr.returned) for o in inside):
        plan.address_invariant |= stores | plan.storing.intersection(inside) | {root}
        spoilt = _dependents(root, from_memory) & tbr.needed
        loops = [op for op in (root, *inside) if op.name == "for"]
        plan.perfect_nests.update(op for op in loops if _is_perfect_nest(op, plan, spoilt, tbr))
    else:
        plan.logged |= stores
        plan.logged_arrays |= {op.operands[0] for op in stores}
        plan.stack_types.add(int32)

    # what the trips of its loops keep, counters aside: those are computed from the number of the trip
    for op in (root, *inside):
        if op in plan.storing and op.name != "if":
            counted = counters(op)
            plan.frames[op] = [p for p in op.carried_params if p in tbr.needed and p not in counted]
            plan.stack_types.update(p.type for p in plan.frames[op])  # type: ignore[misc]
        plan.stack_types.update(kind for kind, _ in plan.pushed(op))


def counters(loop: Op) -> dict[Value, tuple[Value, Value]]:
    """Integers that a loop carries and every trip adds the same to: (value before the first trip, what is added)."""
    body = loop.regions[-1]
    inside = {v for op in walk(body) for v in op.results} | set(body.params)
    found = {}
    for p, start, end in zip(loop.carried_params, loop.carried_init, body.yields, strict=True):
        parts = end.op.operands if end.op is not None and end.op.name == "add" else []
        step = next((v for v in parts if v is not p), None)
        if (
            isinstance(p.type, Scalar)
            and p.type.is_int
            and p in parts
            and step is not None
            and (step.const is not None or step not in inside)
        ):
            found[p] = start, step
    return found


def _by_type(types: Sequence[Scalar]) -> list[tuple[Scalar, list[int]]]:
    """(type, numbers of the entries of this type), in order of first appearance."""
    found: dict[Scalar, list[int]] = {}
    for k, kind in enumerate(types):
        found.setdefault(kind, []).append(k)
    return list(found.items())


def _from_memory_or_loops(plan: ReplayPlan, inside: Collection[Op]) -> set[Value]:
    """Values that come from memory that stores change, or from loops."""
    memory = {plan.groups[array] for array in plan.arrays}
    sources = [
        op
        for op in inside
        if op.name in ("atomic", "for", "while") or (op.name == "load" and plan.groups[op.operands[0]] in memory)
    ]
    return {r for op in sources for r in op.results}


def _dependents(root: Op, start: Collection[Value]) -> set[Value]:
    """Values inside `root` that depend on these: on the condition of a branch too, but not on how often a loop runs.

    That is asked of the loop: `_is_address_invariant`.
    """

    def transfer(op: Op, found: Set[Value]) -> Collection[Value]:
        return op.results if op.name == "if" and op.operands[0] in found else reached_results(op, found)

    return solve_forward([root, *walk_regions(root)], start, transfer)


def _is_address_invariant(op: Op, plan: ReplayPlan, changing: set[Value], returned: Collection[Op]) -> bool:
    """Does nothing about where it stores, or how often, depend on what is stored?"""
    if op in returned:
        return False
    if plan.stores(op):
        return not any(v in changing for v in split_memory(op).address)
    return op not in plan.storing or (op.name != "while" and op.operands[0] not in changing)


def _is_perfect_nest(loop: Op, plan: ReplayPlan, spoilt: set[Value], tbr: ToBeRecorded) -> bool:
    """Do the trips of an address-invariant loop store in inner loops only?

    And does the reverse sweep need nothing that those have changed (`spoilt`)?
    """
    ops = loop.regions[-1].ops
    storing = [op for op in ops if op in plan.storing or plan.stores(op)]
    if not storing or any(op.name != "for" or not tbr.is_active(op) for op in storing):
        return False
    return not any(r in spoilt for op in ops for r in op.results)


def is_invariant_value(op: Op, plan: ReplayPlan) -> bool:
    """Can an operation of an address-invariant region be computed at any time while its stores are taken back?

    Of a branch some of the results, without its stores: dead code elimination throws away what leads to the others.
    """
    if op.name == "if":
        return any(r not in plan.changing for r in op.results)
    plain = op.name in OPS or op.name in ("const", "tid", "shape", "peek", "load", "call")
    return plain and not any(r in plan.changing for r in op.results)
