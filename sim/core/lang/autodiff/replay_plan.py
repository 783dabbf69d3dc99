"""How the adjoint of a kernel takes back the stores that it performs again (`undo.py`): decided here, before it is
emitted.

An operation with regions that stands outside of all others (a *root*) is *steady* if where its stores go, and how
often, follows from values that those stores do not change, or that a root which is a loop carries: its frames keep
these.  Then the program itself, run backwards, says where the old values belong: only these are kept.  Else every store
also keeps its place, and every trip of a loop the place in the log where it began.

A steady loop whose trips hold nothing but other loops is gone *through*: the reverse sweep goes from the end of one to
the end of the one before, and nothing runs a third time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sim.core.lang.analysis.activity import is_active
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk
from sim.core.lang.ir.regions import flow
from sim.core.lang.ir.table import OPS
from sim.core.lang.types import Scalar, int32


@dataclass
class ReplayPlan:
    """What is done about the stores to `arrays`.

    groups:   number of the memory of every array.
    storing:   ids of the operations with regions that hold such stores.
    address_invariant:   ids of steady stores, and of `moving` operations with nothing but such.
    perfect_nests:  ids of loops that are gone through.
    changing: values that depend, within a root, on what its stores change.
    logged:   ids of stores that keep their places, and `placed_in` the arrays that they go to.
    frames:   per loop in `moving` the carried values that every trip keeps.
    stack_types:  types of what is kept without a place.
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
        return by_kind([v.type for v in split_memory(op)[3]])  # type: ignore[misc]

    def frame(self, op: Op, positions: int) -> list[tuple[Scalar, list[int]]]:
        """What a trip of a loop keeps: (type, which of its `frames` and, behind them, positions in other logs)."""
        kinds: list[Scalar] = [v.type for v in self.frames[op]]  # type: ignore[misc]
        return by_kind(kinds if op in self.address_invariant else [*kinds, *[int32] * positions])

    def seen(self, block: Block, needed: Collection[Value]) -> set[Op]:
        """ids of the stores, and of the branches with stores, of a block that anything behind them in it looks at.

        A store is also seen by a later operation with regions that overwrites the same memory: that keeps the old
        value.
        """
        found: set[Op] = set()
        later: set[int] = set()
        for op in reversed(block.ops):
            inside = [op, *(o for region in op.regions for o in walk(region))]
            written = {self.groups[o.operands[0]] for o in inside if self.stores(o)}
            if written & later or any(r in needed for r in op.results):
                found.add(op)
            if op.regions:
                later |= written
            later |= {
                self.groups[o.operands[0]] for o in inside if o.name == "load" and any(r in needed for r in o.results)
            }
        return found


def plan_replay(
    kernel: Func,
    arrays: Collection[Value],
    groups: Mapping[Value, int],
    needed: set[Value],
    varied: set[Value],
    active: Collection[Value],
    returned: Collection[Op],
) -> ReplayPlan:
    """The plan for stores to `arrays`.  active: arrays with a gradient; returned: ids of atomics whose results are
    logged."""
    plan = ReplayPlan(frozenset(arrays), groups)
    for op in walk(kernel.body):
        if any(plan.stores(o) for region in op.regions for o in walk(region)):
            plan.storing.add(op)
    for root in kernel.body.ops:
        if root not in plan.storing:
            continue
        remembered = _from_memory_or_loops(root, {groups[a] for a in arrays}, groups)
        inside = [o for region in root.regions for o in walk(region)]
        framed = root.name != "if" and is_active(root, varied, active)  # then the frames tell what it carries
        changing = _following(root, {*remembered, *_carried(inside if framed else [root, *inside])})
        plan.changing |= changing
        if (framed or root.name != "while") and all(_is_address_invariant(o, plan, changing, returned) for o in inside):
            plan.address_invariant |= {o for o in inside if plan.stores(o) or o in plan.storing} | {root}
            spoilt = _following(root, remembered) & needed
            plan.perfect_nests |= {
                o for o in (root, *inside) if o.name == "for" and _is_perfect_nest(o, plan, spoilt, varied, active)
            }
        else:
            plan.logged |= {o for o in inside if plan.stores(o)}
            plan.logged_arrays |= {o.operands[0] for o in inside if plan.stores(o)}
            plan.stack_types.add(int32)
        for op in (root, *inside):
            if op in plan.storing and op.name != "if":
                counted = counters(op)
                plan.frames[op] = [
                    p for p in op.regions[-1].params[1 if op.name == "for" else 0 :] if p in needed and p not in counted
                ]
                plan.stack_types.update(p.type for p in plan.frames[op])  # type: ignore[misc]
            plan.stack_types.update(kind for kind, _ in plan.pushed(op))
    return plan


def counters(loop: Op) -> dict[Value, tuple[Value, Value]]:
    """Integers that a loop carries and every trip adds the same to: (their value before the first trip, what is
    added)."""
    shift, body = 1 if loop.name == "for" else 0, loop.regions[-1]
    inside = {v for op in walk(body) for v in op.results} | set(body.params)
    found = {}
    for p, start, end in zip(body.params[shift:], loop.operands[shift:], body.yields, strict=True):
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


def by_kind(kinds: Sequence[Scalar]) -> list[tuple[Scalar, list[int]]]:
    """(type, numbers of the entries of this type), in order of first appearance."""
    found: dict[Scalar, list[int]] = {}
    for k, kind in enumerate(kinds):
        found.setdefault(kind, []).append(k)
    return list(found.items())


def _from_memory_or_loops(root: Op, memory: Collection[int], groups: Mapping[Value, int]) -> set[Value]:
    """Values inside `root` that come from memory that stores change, or from loops."""
    found: set[Value] = set()
    for region in root.regions:
        for op in walk(region):
            if (
                op.name == "atomic"
                or (op.name == "load" and groups[op.operands[0]] in memory)
                or op.name in ("for", "while")
            ):
                found.update(op.results)
    return found


def _carried(ops: Collection[Op]) -> set[Value]:
    """What the loops among these carry."""
    return {
        p
        for op in ops
        if op.name in ("for", "while")
        for region in op.regions
        for p in region.params[1 if op.name == "for" else 0 :]
    }


def _following(root: Op, start: Collection[Value]) -> set[Value]:
    """Values inside `root` that depend on these."""
    found, size = set(start), -1
    inside = [root, *(o for region in root.regions for o in walk(region))]
    while size != len(found):
        size = len(found)
        for op in inside:
            if op.regions:
                found.update(target for target, sources in flow(op) if any(v in found for v in sources))
                if op.name == "if" and op.operands[0] in found:
                    found.update(op.results)
            elif any(v in found for v in op.operands):
                found.update(op.results)
    return found


def _is_address_invariant(op: Op, plan: ReplayPlan, changing: set[Value], returned: Collection[Op]) -> bool:
    """Does nothing about where it stores, or how often, depend on what is stored?"""
    if op in returned:
        return False
    if plan.stores(op):
        _, index, leaf, _ = split_memory(op)
        return not any(v in changing for v in (*index, *([leaf] if leaf is not None else [])))
    return op not in plan.storing or (op.name != "while" and op.operands[0] not in changing)


def _is_perfect_nest(
    loop: Op, plan: ReplayPlan, spoilt: set[Value], varied: set[Value], active: Collection[Value]
) -> bool:
    """Do the trips of a steady loop store in inner loops only, and does the reverse sweep need nothing that those have
    changed?"""
    ops = loop.regions[-1].ops
    moving = [op for op in ops if op in plan.storing or plan.stores(op)]
    if not moving or any(op.name != "for" or not is_active(op, varied, active) for op in moving):
        return False
    return not any(r in spoilt for op in ops for r in op.results)


def is_invariant_value(op: Op, plan: ReplayPlan) -> bool:
    """Can an operation of a steady region be computed at any time while its stores are taken back?"""
    plain = (
        op.name in OPS
        or op.name in ("const", "tid", "shape", "load", "call")
        or (op.name == "if" and op not in plan.storing)
    )
    return plain and not any(r in plan.changing for r in op.results)
