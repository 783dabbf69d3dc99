"""Rematerialisation: a kernel computes again, from memory and a few values that it keeps, what it would have to hold
for long (P. Briggs, K. D. Cooper, L. Torczon, "Rematerialization", 1992; here before registers are allocated).

An adjoint looks at nearly everything that the kernel has computed, so everything stays alive from the forward part to
the reverse sweep: up to 500 numbers for a solid, where a thread has 255 registers and a GPU is busy with 64.  A
*barrier* is a place of the kernel behind which all cheap values are computed anew, right where they are used, from what
memory still holds and from the cheapest set of values that the rest follows from (`min_cut`).  Roots, quotients and
results of branches are not computed twice.

Compilers would recognise that the same is computed again, and keep it after all.  So what passes a barrier becomes a
value that they know nothing of: `opt_barrier`, an exclusive or with zeros that only the host knows to be zeros.  Not a
bit of any result changes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sim.core.backends import cache
from sim.core.lang.analysis.min_cut import minimum_cut
from sim.core.lang.analysis.value_numbering import ValueNumbering
from sim.core.lang.collector import uncollected
from sim.core.lang.ir.clone import Env
from sim.core.lang.ir.core import Block, Func, Op, Value, has_effect, split_memory, walk
from sim.core.lang.ir.printer import to_text
from sim.core.lang.ir.regions import free_values
from sim.core.lang.types import Scalar, bool_

BUDGET = {False: 52, True: 100}
"""Live 32-bit values for the registers that a kernel, an adjoint (True) should have: 64, 128; a few are addresses."""

BARRIERS = 15
"""At most so many: each needs zeros of its own."""

_GROWTH = 1.5
"""What computing anew may make of the number of operations."""

_DEEP = 60
"""A value that so many operations in a row lead to is not computed again."""

_PLACES = 6
"""Places that are tried for every barrier, beside those around the peak."""


def rematerialise(func: Func, budget: int) -> Func:
    """The kernel, with barriers (`opt_barrier` {number}) if more than `budget` values are alive somewhere.

    Only the top level gets barriers, and only if they pay: values become fewer, operations not much more.  Where they
    go is kept in the cache on disk: looking for the places takes seconds for the adjoint of a solid.
    """
    ops = func.body.ops
    if func.attrs.get("serial") or max(pressure(ops), default=0) <= budget:
        return func
    work = _Work(func)
    key = cache.cache_key(
        "barriers",
        to_text(func),
        str((budget, BARRIERS, _GROWTH, _DEEP, _PLACES, work.apart, sorted(a.name for a in work.own))),
    )
    kept = cache.load(key)
    if kept is None:
        with uncollected():
            late, places = _search(work, ops, budget)
        cache.save(key, json.dumps([late, places]).encode())
    else:
        late, places = json.loads(kept)
    made = _late(ops, work.apart) if late else ops
    for number, at in enumerate(places):
        found = work.with_barrier(made, at, number)
        assert found is not None
        made = found
    return Func(func.name, Block(func.body.params, list(made)), func.span, func.dims, func.attrs)


def _search(work: _Work, ops: Sequence[Op], budget: int) -> tuple[bool, list[int]]:
    """Whether to begin with everything right before its use; the places of the barriers, in order of insertion."""
    found, plain = _Form(_late(ops, work.apart), budget), _Form(ops, budget)
    best = found if found.cost < plain.cost else plain
    late, places, room = best is found, list[int](), _GROWTH * len(ops)
    while best.cost and len(places) < BARRIERS:
        made = [(at, work.with_barrier(best.ops, at, len(places))) for at in best.places()]
        forms = [(at, _Form(found, budget)) for at, found in made if found is not None and len(found) <= room]
        at, better = min(forms, key=lambda f: (f[1].cost, len(f[1].ops)), default=(0, best))
        if better.cost > 0.97 * best.cost:  # greedy: a barrier that hardly pays ends the search
            break
        best = better
        places.append(at)
    return late, places


class _Form:
    """One way to write the kernel, and what it costs: the excess over the budget, squared, over all operations."""

    def __init__(self, ops: Sequence[Op], budget: int) -> None:
        self.ops, self.most, self.budget = ops, pressure(ops), budget
        self.cost = sum(max(0, m - budget) ** 2 for m in self.most)

    def places(self) -> list[int]:
        """Where a barrier could help: at the peak, and here and there in what is over the budget."""
        over, peak, near = (
            [k for k, m in enumerate(self.most) if m > self.budget],
            self.most.index(max(self.most)),
            len(self.ops) // 50,
        )
        found = {
            peak,
            peak - near,
            peak + near,
            over[-1] + 1,
            *(over[k * (len(over) - 1) // (_PLACES - 1)] for k in range(_PLACES)),
        }
        return sorted(k for k in found if 0 < k < len(self.ops))


# ------------------------------------------------------------------------------------------------ live values
def registers(value: Value) -> int:
    """Registers that a value takes; none for constants, launch indices and shapes, which are at hand everywhere."""
    kind = value.type
    if not isinstance(kind, Scalar) or kind is bool_ or value.op is None or value.op.row.free:
        return 0
    return 2 if kind.bits == 64 else 1


def used(op: Op) -> list[Value]:
    """Values that an operation needs, its regions included."""
    return [*op.operands, *free_values(op)] if op.regions else op.operands


def pressure(ops: Sequence[Op], yields: Iterable[Value] = ()) -> list[int]:
    """Registers that are taken at each operation; inside of one with regions: the most."""
    alive = set(yields)
    count = sum(map(registers, alive))
    out = [0] * len(ops)
    for k in range(len(ops) - 1, -1, -1):
        op = ops[k]
        most = count
        for r in op.results:
            if r in alive:
                alive.remove(r)
                count -= registers(r)
        for v in used(op):
            if v not in alive:
                alive.add(v)
                count += registers(v)
        inside = max((m for region in op.regions for m in pressure(region.ops, region.yields)), default=0)
        out[k] = max(most, count, count + inside)
    return out


# ------------------------------------------------------------------------------------------------ order
def _late(ops: Iterable[Op], apart: bool) -> list[Op]:
    """Everything without effects right before its first use; loads before writes that could change what they see."""
    waiting: dict[Value, Op] = {}
    out: list[Op] = []
    done: set[Op] = set()

    def put(op: Op) -> None:
        todo = [(op, False)]
        while todo:
            now, ready = todo.pop()
            if now in done:
                continue
            if ready:
                done.add(now)
                out.append(now)
            else:
                todo.append((now, True))
                todo += [(waiting[v], False) for v in reversed(used(now)) if v in waiting and waiting[v] not in done]

    for op in ops:
        if op.is_primitive or op.row.free or op.name == "load":
            waiting.update((r, op) for r in op.results)
            continue
        written = _written([op])
        for load in list(waiting.values()) if written else ():
            if load.name == "load" and (not apart or load.operands[0] in written):
                put(load)
        put(op)
    return out


def _written(ops: Iterable[Op]) -> set[Value]:
    """Arrays that these operations write to."""
    return {inner.operands[0] for inner in walk(Block(ops=list(ops))) if inner.row.writes}


def _alive(ops: Sequence[Op]) -> list[Op]:
    """Without the operations whose results nobody uses."""
    needed: set[Value] = set()
    out = []
    for op in reversed(ops):
        if has_effect(op) or any(r in needed for r in op.results):
            needed.update(used(op))
            out.append(op)
    return out[::-1]


# ------------------------------------------------------------------------------------------------ barriers
@dataclass
class _Cone:
    """What values before a place are computed from, as far as it may be computed again: None for what may not."""

    before: dict[Value, list[Value] | None]

    def kept(self, wanted: Collection[Value]) -> set[Value]:
        """The fewest registers that the wanted values follow from, as late as possible."""
        after: dict[Value, list[Value]] = {v: [] for v in self.before}
        for v, sources in self.before.items():
            for s in sources or ():
                after[s].append(v)
        ends = {v for v, sources in self.before.items() if sources is None}
        price = {v: max(registers(v), 1) for v in self.before}
        against = {v: sources or [] for v, sources in self.before.items()}
        return minimum_cut([v for v in wanted if v in self.before], ends, against, after, price)


class _Work:
    """Puts barriers into one kernel."""

    def __init__(self, func: Func) -> None:
        exclusive = func.attrs.get("exclusive", ())
        self.apart = bool(func.attrs.get("apart") or exclusive)
        written = _written(func.body.ops)
        self.own = {a for a in written if a.name in exclusive}
        self.fixed = written - self.own
        self.numbering = ValueNumbering()
        for op in walk(func.body):
            self.numbering.note(op, loads=True)

    def reloads(self, load: Op, writes: Collection[Op]) -> bool:
        """Whether memory still holds what a load has seen.  Other indices of an exclusive array: other elements."""
        array = load.operands[0]
        if load.dynamic or array in self.fixed or (not self.apart and (self.fixed or self.own)):
            return False
        if array not in self.own:
            return True
        number = self.numbering.number
        place = [number(v) for v in split_memory(load)[1]]
        return all(w.operands[0] is not array or [number(v) for v in split_memory(w)[1]] != place for w in writes)

    def with_barrier(self, ops: Sequence[Op], at: int, number: int) -> list[Op] | None:
        """The operations with a barrier before the one of number `at`; None if it would spare nothing."""
        refused: set[Op] = set()
        while True:  # a load that turns out to come too late is kept from then on, and the cut found anew
            made = _Barrier(self, ops, at, number, refused)
            if made.wasted:
                return None
            late = made.build()
            if late is None:
                return _alive(made.out)
            refused.add(late)


class _Barrier:
    """One barrier: `out` are the operations with it."""

    def __init__(self, work: _Work, ops: Sequence[Op], at: int, number: int, refused: Collection[Op]) -> None:
        self.work, self.number, self.refused = work, number, refused
        self.first, self.rest = ops[:at], ops[at:]
        self.maker = {r: op for op in ops for r in op.results}
        self.old = {r for op in self.first for r in op.results}
        self.height: dict[Value, int] = {}
        for op in self.first:
            if op.is_primitive and not op.row.expensive:
                self.height[op.results[0]] = 1 + max((self.height.get(v, 0) for v in op.operands), default=0)
        self.writes = [o for o in walk(Block(ops=list(self.first))) if o.row.writes]
        crossing = dict.fromkeys(
            v for op in self.rest for v in used(op) if v in self.old and not self.maker[v].row.free
        )
        self.cone = self._cone(crossing)
        self.kept = self.cone.kept(list(crossing))
        # every kept value costs an instruction: worth it only if fewer registers cross the barrier than without it
        self.wasted = sum(map(registers, self.kept)) >= sum(map(registers, crossing))
        self.out = list(self.first)
        self.env: Env = {}

    def _cone(self, wanted: Iterable[Value]) -> _Cone:
        before: dict[Value, list[Value] | None] = {}
        todo = list(wanted)
        while todo:
            v = todo.pop()
            if v in before:
                continue
            op = self.maker[v]
            sources = (
                [x for x in op.operands if x in self.old and not self.maker[x].row.free] if self._cheap(v, op) else None
            )
            before[v] = sources
            todo += sources or ()
        return _Cone(before)

    def _cheap(self, value: Value, op: Op) -> bool:
        if op.name == "load":
            return op not in self.refused and self.work.reloads(op, self.writes)
        return op.is_primitive and not op.row.expensive and self.height[value] <= _DEEP

    def build(self) -> Op | None:
        """Fills `out`; returns a load that would come too late for its memory, if there is one."""
        writes = list(self.writes)
        for v in self.cone.before:
            if (
                v in self.kept and isinstance(v.type, Scalar) and v.type is not bool_
            ):  # no conditions, nor tapes: they are memory
                self._opaque(v)
        for op in self.rest:
            for v in used(op):
                late = self._need(v, writes)
                if late is not None:
                    return late
            self.out.append(_copied(op, self.env))
            if has_effect(op):
                writes += [o for o in walk(Block(ops=[op])) if o.row.writes]
        return None

    def _opaque(self, v: Value) -> None:
        op = Op("opt_barrier", [v], [], {"number": self.number})
        op.results.append(Value(v.type, v.name, op))
        self.out.append(op)
        self.env[v] = op.results[0]
        self.work.numbering.same(op.results[0], v)

    def _need(self, wanted: Value, writes: Sequence[Op]) -> Op | None:
        """Compute a value again, if it is not known behind the barrier; returns a load that cannot be done any more."""
        todo = [wanted]
        while todo:
            v = todo[-1]
            op = self.maker.get(v)
            if v in self.env or v not in self.old or v in self.kept or op is None or op.name in ("const", "shape"):
                todo.pop()
            elif op.name == "tid":
                self._opaque(v)
            elif self.cone.before.get(v) is None:  # a condition that is not computed twice
                todo.pop()
            elif missing := [x for x in op.operands if self._missing(x)]:
                todo += missing
            else:
                if op.name == "load" and not self.work.reloads(op, writes):
                    return op
                made = _copied(op, self.env, anew=True)
                self.out.append(made)
                for a, b in zip(op.results, made.results, strict=True):
                    self.env[a] = b
                    self.work.numbering.same(b, a)
        return None

    def _missing(self, v: Value) -> bool:
        if v in self.env or v not in self.old or v in self.kept:
            return False
        return self.maker[v].name == "tid" or (not self.maker[v].row.free and self.cone.before.get(v) is not None)


def _copied(op: Op, env: Env, anew: bool = False) -> Op:
    """The operation with other operands; its results stay the same values, or become new ones."""
    regions = [Block(r.params, [_copied(o, env) for o in r.ops], [env.get(v, v) for v in r.yields]) for r in op.regions]
    made = Op(op.name, [env.get(v, v) for v in op.operands], op.results, op.attrs, regions, op.span)
    if anew:
        made.results = [Value(r.type, r.name, made) for r in op.results]
    return made
