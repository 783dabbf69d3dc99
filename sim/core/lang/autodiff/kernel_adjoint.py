"""Adjoints of kernels: what values they need of arrays that the launch overwrites, and how those values are kept.

Three ways, chosen per array:

* *claim*: the adjoint reads the array as it was before the launch; the tape keeps a copy if anything overwrites it;
* *record*: the forward launch writes the needed loads, per thread, to an array of their own (loads outside loops only).  What
  atomics return is recorded in any case, in loops in a log whose length a run on copies has counted;
* *replay*: a load inside a loop may see what the thread has stored: the adjoint works on the claimed copy, performs the
  stores again and takes them back (`undo.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.core.lang.analysis.activity import (
    dirty_loads,
    in_loops,
    needed_values,
    varied_values,
    wanted_values,
    written_from,
)
from sim.core.lang.autodiff.cache_plan import min_cut_cache
from sim.core.lang.autodiff.degeneracy import combined_calls, stored_calls
from sim.core.lang.autodiff.replay_plan import Replay, plan_replay
from sim.core.lang.autodiff.reverse import Reverse, Sweep
from sim.core.lang.autodiff.undo_log import Cursor, ReturnLog, Stack, UndoLog, log_array, position_tape
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.core import Block, Builder, Func, Op, Value, split_memory, verify, walk
from sim.core.lang.ir.passes import WRITES, Env, alias_groups, copy_block, copy_op, dce, forward_memory, inline
from sim.core.lang.ir.sinking import sink
from sim.core.lang.types import Scalar, array_type, int32


@dataclass(frozen=True)
class Log:
    """A log of the adjoint: its arrays, each a scalar type and the numbers of that type in one entry."""

    arrays: tuple[tuple[Scalar, int], ...]


@dataclass(frozen=True)
class KernelAdjoint:
    """The adjoint of a kernel for one choice of arrays with gradient.

    func:    its parameters are those of the kernel, then a gradient array per number in `active`, then the records, then
             the logs of returned values, then the arrays of the other logs, then an array per number in `finals`.
    active:  numbers of the parameters that have a gradient array, in order.
    live_in: numbers of the array parameters whose values before the launch the adjoint loads; others may be null.
    caches:  (scalar type, slots) of the arrays (slots, threads) that the forward launch fills for the adjoint.
    returned: scalar types of the logs (entries, threads) of values that atomics in loops returned.
    logs:    what the adjoint writes down itself, one thread at a time.  The arrays that it replays must be given as copies that
             may be changed (they are whole again afterwards).
    finals:  numbers of the parameters whose values after the launch the adjoint loads (atomic minima and maxima).
    recording: the kernel with the records, the logs of returned values, and the entry counts of these and of the undo
    logs, as
             extra parameters; None if there are none.
    source:  `func` with calls of functions whose derivative is in closed form, for the tangent of the adjoint.
    """

    func: Func
    active: tuple[int, ...]
    live_in: tuple[int, ...]
    caches: tuple[tuple[Scalar, int], ...]
    returned: tuple[Scalar, ...]
    logs: tuple[Log, ...]
    finals: tuple[int, ...]
    recording: Func | None
    source: Func


@dataclass(frozen=True)
class ToBeRecorded:
    """Which values the adjoint of a kernel looks at, before deciding how to keep them.

    cacheable: array parameter number -> its needed loads outside loops.
    must_cache: parameters with a needed load that a store of the same thread may precede: they have to be recorded.
    returned: atomics inside loops whose results are needed.
    in_loops: parameters with a needed load inside a loop: their values have to be kept as a whole.
    replayed: written parameters that are replayed.
    detached: arrays without gradient that the kernel writes values with a gradient to.
    wanted:   values that the reverse sweep itself looks at; `needed` adds what recomputing them takes.
    """

    kernel: Func
    active: tuple[int, ...]
    groups: dict[Value, int]
    varied: set[Value]
    needed: set[Value]
    cacheable: dict[int, list[Op]]
    must_cache: frozenset[int]
    returned: list[Op]
    in_loops: frozenset[int]
    replayed: frozenset[int]
    detached: frozenset[int]
    wanted: set[Value]
    _cuts: dict[frozenset[int], list[Value]] = field(default_factory=dict)

    @property
    def returning(self) -> frozenset[int]:
        """Numbers of the parameters that the atomics `returned` go to."""
        return frozenset(self.kernel.params.index(op.operands[0]) for op in self.returned)

    def min_cut(self, cached: frozenset[int]) -> list[Value]:
        """The values that a thread records so that no load of the parameters in `cached` and `must_cache` is needed: the
        fewest bytes."""
        found = self._cuts.get(cached)
        if found is None:
            loads = [op for k in sorted({*cached, *self.must_cache}) for op in self.cacheable.get(k, ())]
            found = self._cuts[cached] = (
                min_cut_cache(self.kernel, loads, self.wanted, in_loops(self.kernel)) if loads else []
            )
        return found

    def bytes_per_thread(self, cached: frozenset[int]) -> int:
        """Bytes of these values."""
        return sum(v.type.size for v in self.min_cut(cached))  # type: ignore[attr-defined]


def to_be_recorded(kernel: Func, active: Iterable[int], aliases: Iterable[Collection[int]] = ()) -> ToBeRecorded:
    """Analyse a kernel: `active` are the array parameters with a gradient, `aliases` groups of parameters that overlap.

    Raises GradientError where a value with a gradient passes through an array that has none, and where stores cannot be
    replayed.
    """
    aliases = tuple(aliases)
    groups_before = alias_groups(kernel, aliases)
    kernel = dce(forward_memory(kernel, groups_before))
    groups = dict(alias_groups(kernel, aliases))
    chosen = tuple(sorted(active))
    sources = {kernel.params[k] for k in chosen}
    varied = varied_values(sink(kernel, varied_values(kernel, sources)), sources)
    dirty, looped = dirty_loads(kernel, groups), in_loops(kernel)
    number = {p: k for k, p in enumerate(kernel.params)}
    loads = [op for op in walk(kernel.body) if op.name in ("load", "atomic")]

    replayed_groups: set[int] = set()
    while True:
        replayed = {
            op.operands[0]
            for op in walk(kernel.body)
            if op.name in WRITES and groups[op.operands[0]] in replayed_groups
        }
        needed = needed_values(kernel, varied, sources, replayed)
        more = {
            groups[op.operands[0]]
            for op in loads
            if op.name == "load" and id(op) in looped and id(op) in dirty and any(r in needed for r in op.results)
        } - replayed_groups
        if not more:
            break
        replayed_groups |= more
    _check_replay(kernel, groups, replayed_groups)
    _check_calls(kernel, groups)

    cacheable: dict[int, list[Op]] = {}
    must, in_loop, returned = set(), set(), []
    for op in loads:
        if not any(r in needed for r in op.results) or groups[op.operands[0]] in replayed_groups:
            continue
        param = number[op.operands[0]]
        if op.name == "atomic" and id(op) in looped:
            returned.append(op)
            continue
        if id(op) in looped:
            in_loop.add(param)
            continue
        cacheable.setdefault(param, []).append(op)
        if op.name == "atomic" or id(op) in dirty:
            must.add(param)
    lossy = frozenset(number[array] for array in _lost(kernel, groups, sources, varied, dirty))
    return ToBeRecorded(
        kernel,
        chosen,
        groups,
        varied,
        needed,
        cacheable,
        frozenset(must),
        returned,
        frozenset(in_loop),
        frozenset(number[p] for p in replayed),
        lossy,
        wanted_values(kernel, varied, sources, replayed),
    )


def _check_calls(kernel: Func, groups: Mapping[Value, int]) -> None:
    """Refuse gradient functions of arrays that the kernel writes: they read the array as it was before the launch."""
    written = {groups[op.operands[0]]: op.operands[0] for op in walk(kernel.body) if op.name in WRITES}
    for op in walk(kernel.body):
        spoilt = next((v for v in op.operands if groups.get(v) in written), None) if op.name == "call" else None
        if spoilt is not None:
            raise GradientError(
                f"`{op.attrs['callee'].name}` has a gradient function that takes the array '{spoilt.name}', which this"
                f" kernel writes to (as '{written[groups[spoilt]].name}')",
                op.span,
                "write to another array, or pass the elements instead of the array",
            )


def _check_replay(kernel: Func, groups: dict[Value, int], replayed: set[int]) -> None:
    """Refuse what a replay cannot do, by name."""
    for op in walk(kernel.body):
        if op.name not in WRITES or groups[op.operands[0]] not in replayed:
            continue
        array = op.operands[0]
        why = ""
        if op.name == "atomic":
            why = f"atomic_{op.attrs['how']} on '{array.name}' cannot be replayed"
        if why:
            raise GradientError(
                f"the gradient needs values of '{array.name}' that this kernel overwrites in a loop, and {why}",
                op.span,
                "carry the value in a local variable through the loop and store it afterwards",
            )


def _lost(
    kernel: Func, groups: dict[Value, int], sources: set[Value], varied: set[Value], dirty: set[int]
) -> set[Value]:
    """Arrays without gradient that values with a gradient are written to.

    Raises GradientError if the kernel reads them back and writes what depends on them to an array with a gradient.
    """
    lost = {array for array, _ in written_from(kernel, varied) if array not in sources}
    while True:
        lost = {p for p in groups if p not in sources and any(groups[p] == groups[a] for a in lost)}
        through = varied_values(kernel, lost, dirty)
        reached = {array for array, _ in written_from(kernel, through)}
        for array, op in written_from(kernel, through):
            if array in sources:
                names = " and ".join(sorted(f"'{a.name}'" for a in lost))
                raise GradientError(
                    f"what is written to '{array.name}' here depends on values with a gradient that pass through"
                    f" {names}, which has none: the gradient would be lost",
                    op.span,
                    f"make {names} with requires_grad=True, or keep the values in local variables",
                )
        if reached <= lost:
            return lost
        lost |= reached


def kernel_adjoint(tbr: ToBeRecorded, record: Collection[int] = ()) -> KernelAdjoint:
    """Build the adjoint.  It does without loads of the parameters in `record` and in `tbr.must_cache`: what it takes is
    recorded per thread."""
    kernel = tbr.kernel
    kept = set(tbr.min_cut(frozenset(record)))
    recorded = [op for op in walk(kernel.body) if any(r in kept for r in op.results)]
    slots: dict[Scalar, int] = {}
    place: dict[int, list[tuple[Scalar, int] | None]] = {}
    for op in recorded:
        place[id(op)] = []
        for r in op.results:
            scalar = r.type
            assert isinstance(scalar, Scalar)
            if r in kept:
                place[id(op)].append((scalar, slots.get(scalar, 0)))
                slots[scalar] = slots.get(scalar, 0) + 1
            else:
                place[id(op)].append(None)
    records = tuple(sorted(slots.items(), key=lambda item: item[0].name))
    replayed_groups = {tbr.groups[kernel.params[k]] for k in tbr.replayed}
    spoilt = dirty_loads(kernel, tbr.groups)
    unreadable = {
        id(op) for op in walk(kernel.body) if id(op) in spoilt and tbr.groups[op.operands[0]] not in replayed_groups
    }

    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    gradient: dict[Value, Value] = {}
    for k in tbr.active:
        source = kernel.params[k]
        gradient[source] = Value(source.type, f"adj_{source.name}")
        block.params.append(gradient[source])
    stores = {scalar: Value(array_type(scalar, 2), f"record_{scalar.name}") for scalar, _ in records}
    block.params += stores.values()

    with Builder(block) as b:
        returns, declared = _return_logs(b, tbr.returned)
        block.params += [log.values for log in returns.values()]
        plan = plan_replay(
            kernel,
            [kernel.params[k] for k in tbr.replayed],
            tbr.groups,
            tbr.needed,
            tbr.varied,
            gradient,
            {id(op) for op in tbr.returned},
        )
        own = _own_logs(b, kernel, plan, env)
        declared += own.declared
        block.params += own.params
        for cursor in (*own.cursors, *returns.values()):
            cursor.set(b.const(0, int32))
        finals = {p: Value(p.type, f"final_{p.name}") for p in _extremes(kernel, tbr.groups, gradient)}
        block.params += finals.values()

        def reader(op: Op) -> Callable[[], list[Value]]:
            def read() -> list[Value]:
                thread = b.tid(-1)
                return [
                    (
                        Value(r.type, "unreadable")
                        if at is None
                        else b.load(stores[at[0]], [b.const(at[1], int32), thread], [0])[0]
                    )
                    for r, at in zip(op.results, place[id(op)], strict=True)
                ]

            return read

        taken = {id(op): returns[kind_of(op)] for op in tbr.returned}
        reverse = Reverse(
            b,
            tbr.varied,
            tbr.needed,
            gradient,
            {id(op): reader(op) for op in recorded},
            unreadable,
            plan,
            own.undo,
            own.stacks,
            taken,
            finals,
        )
        reverse.apart, reverse.stored = combined_calls(kernel), stored_calls(kernel)
        reverse.fixed = bool(plan.arrays or returns)
        reverse.own = {p for p in kernel.params if p.name in kernel.attrs.get("exclusive", ())}
        sweep = Sweep()
        reverse.recompute(kernel.body, env, sweep)
        reverse.reverse(kernel.body, env, {}, sweep)
    block.ops[:0] = [*reverse.tapes, *declared]
    attrs = _promise(kernel, tbr.groups)
    func = Func(
        f"{kernel.name}_adjoint",
        block,
        kernel.span,
        kernel.dims,
        {**attrs, "adjoint": True, **({"serial": True} if plan.arrays else {})},
    )
    if plan.arrays:  # what is put back need not be loaded again
        func = forward_memory(func, _groups_of(func, tbr))
    closed = dce(func)
    func = verify(dce(inline(closed)))
    loaded = {op.operands[0] for op in walk(func.body) if op.name == "load"}
    count = len(kernel.params)
    read = tuple(k for k, p in enumerate(func.params[:count]) if p in loaded)
    special = recorded or plan.arrays or returns
    forward = _recording(kernel, place, stores, plan, tbr, attrs) if special else None
    last = tuple(k for k, p in enumerate(kernel.params) if p in finals)
    return KernelAdjoint(func, tbr.active, read, records, tuple(returns), own.described, last, forward, closed)


def _groups_of(adjoint: Func, tbr: ToBeRecorded) -> dict[Value, int]:
    """Numbers of the memory of the arrays of an adjoint: gradients overlap as their arrays do, logs are apart from
    everything."""
    params, count = tbr.kernel.params, len(tbr.kernel.params)
    groups: dict[Value, int] = {}
    for k, p in enumerate(adjoint.params):
        source = params[k] if k < count else params[tbr.active[k - count]] if k - count < len(tbr.active) else None
        if source is None:
            groups[p] = 2 * count + k
        elif source in tbr.groups:
            groups[p] = tbr.groups[source] + (count if k >= count else 0)
    return groups


@dataclass
class _OwnLogs:
    """The logs that an adjoint writes itself: of memory (by the arrays that it is written as), and of numbers (by
    type).

    cursors, params, described: of all of them, in one order; declared: the operations that make their positions.
    """

    undo: dict[Value, UndoLog]
    stacks: dict[Scalar, Stack]
    declared: list[Op]
    params: list[Value]
    described: tuple[Log, ...]

    @property
    def cursors(self) -> list[Cursor]:
        return [*{id(log): log for log in self.undo.values()}.values(), *self.stacks.values()]


def _own_logs(b: Builder, kernel: Func, plan: Replay, env: Env) -> _OwnLogs:
    """The logs for a plan.  env: what the arrays of the kernel are here."""
    undo: dict[Value, UndoLog] = {}
    stacks: dict[Scalar, Stack] = {}
    declared, params, described = [], [], []
    for memory in sorted({plan.groups[a] for a in plan.placed_in}):
        names = [p for p in kernel.params if p in plan.placed_in and plan.groups[p] == memory]
        arrays, width, kinds = [env[p] for p in names], UndoLog.width_for(names), UndoLog.kinds_of(names)
        op, position = position_tape()
        log = UndoLog(
            b,
            position,
            arrays,
            log_array(int32, f"undo_{names[0].name}"),
            {kind: log_array(kind, f"old_{names[0].name}") for kind in kinds},
        )
        undo.update((p, log) for p in names)
        declared.append(op)
        params += [log.places, *log.values.values()]
        described.append(Log(((int32, width), *((kind, 1) for kind in kinds))))
    for kind in sorted(plan.stacked, key=lambda kind: kind.name):
        op, position = position_tape()
        stacks[kind] = Stack(b, position, log_array(kind, "stack"))
        declared.append(op)
        params.append(stacks[kind].values)
        described.append(Log(((kind, 1),)))
    return _OwnLogs(undo, stacks, declared, params, tuple(described))


def kind_of(op: Op) -> Scalar:
    """The scalar type of what an atomic returns."""
    kind = op.results[0].type
    assert isinstance(kind, Scalar)
    return kind


def _return_logs(b: Builder, atomics: Collection[Op]) -> tuple[dict[Scalar, ReturnLog], list[Op]]:
    """A log per type for what these atomics return, and the declarations of their positions."""
    logs, declared = {}, []
    for kind in sorted({kind_of(op) for op in atomics}, key=lambda kind: kind.name):
        op, position = position_tape()
        declared.append(op)
        logs[kind] = ReturnLog(b, position, Value(array_type(kind, 2), f"returned_{kind.name}"))
    return logs, declared


def _promise(kernel: Func, groups: Mapping[Value, int]) -> dict[str, Any]:
    """What is known of the arrays of a launch, and holds for their gradients in its adjoint.

    exclusive: names of arrays no element of which two threads touch.  apart: no two arrays of a launch overlap in what
    it writes.
    """
    names = kernel.attrs.get("exclusive", frozenset())
    return {"exclusive": names | {f"adj_{name}" for name in names}, "apart": len(set(groups.values())) == len(groups)}


def _extremes(kernel: Func, groups: dict[Value, int], gradient: Collection[Value]) -> list[Value]:
    """Arrays with a gradient that take atomic minima or maxima.  Refuses those of which an element may be written in
    another way too."""
    seen: list[tuple[str, Op]] = []
    found = []
    for op in walk(kernel.body):
        if op.name not in WRITES:
            continue
        array = op.operands[0]
        kind = op.attrs["how"] if op.name == "atomic" else op.name
        for other, earlier in seen:
            if (
                other != kind
                and {kind, other} & {"min", "max"}
                and groups[array] == groups[earlier.operands[0]]
                and not _apart(op, earlier)
            ):
                raise GradientError(
                    f"an element of '{array.name}' may take {_spelled(other)} and {_spelled(kind)} in one launch: its"
                    " gradient would depend on the order of the threads",
                    op.span,
                    "use elements at different constant indices, or two kernels",
                )
        seen.append((kind, op))
        if kind in ("min", "max") and array in gradient and array not in found:
            found.append(array)
    return sorted(found, key=kernel.params.index)


def _apart(a: Op, b: Op) -> bool:
    """Do two writes go to different elements: at constant indices of one array?"""
    (x, here, *_), (y, there, *_) = split_memory(a), split_memory(b)
    return x is y and any(
        i.const is not None and j.const is not None and i.const != j.const for i, j in zip(here, there, strict=True)
    )


def _spelled(kind: str) -> str:
    return f"atomic_{kind}" if kind in ("min", "max", "exch") else kind


def _recording(
    kernel: Func,
    place: dict[int, list[tuple[Scalar, int] | None]],
    stores: dict[Scalar, Value],
    plan: Replay,
    tbr: ToBeRecorded,
    attrs: dict[str, Any],
) -> Func:
    """The kernel that also writes the needed results of recorded loads and atomics, and counts the entries of the
    logs."""
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    extra = {scalar: Value(v.type, v.name) for scalar, v in stores.items()}
    block.params += extra.values()
    counts = Value(array_type(int32, 1), "entry_counts")

    def special(op: Op, inner: Env) -> bool:
        if plan.stores(op):
            copy_op(b, op, inner)
            for scalar, numbers in plan.pushed(op):
                own.stacks[scalar].skip(len(numbers))
            if id(op) in plan.placed:
                own.undo[op.operands[0]].skip(len(split_memory(op)[3]))
            return True
        if id(op) in plan.frames:
            loop(op, inner)
            return True
        if id(op) in noted:
            copy_op(b, op, inner)
            returns[kind_of(op)].put([inner[r] for r in op.results])
            return True
        if id(op) not in place:
            return False
        copy_op(b, op, inner)
        thread = b.tid(-1)
        for r, at in zip(op.results, place[id(op)], strict=True):
            if at is not None:
                b.store(extra[at[0]], [b.const(at[1], int32), thread], [0], [inner[r]])
        return True

    def loop(op: Op, env: Env) -> None:
        """A loop whose trips end with the push of a frame."""

        def inside(region: Block) -> Callable[..., list[Value]]:
            def fill(*params: Value) -> list[Value]:
                inner = {**env, **dict(zip(region.params, params, strict=True))}
                ends = copy_block(b, region, inner, special)
                if region is op.regions[-1]:
                    for scalar, numbers in plan.frame(op, len(cursors) - len(own.stacks)):
                        own.stacks[scalar].skip(len(numbers))
                return ends

            return fill

        args = [env.get(v, v) for v in op.operands]
        regions = [b.region([p.type for p in r.params], inside(r), [p.name for p in r.params]) for r in op.regions]
        results = b.append(
            Op(op.name, args, [Value(r.type, r.name) for r in op.results], dict(op.attrs), regions, op.span)
        ).results
        env.update(zip(op.results, results, strict=True))

    with Builder(block) as b:
        returned = tbr.returned
        noted = {id(op) for op in returned}
        returns, declared = _return_logs(b, returned)
        block.params += [log.values for log in returns.values()]
        own = _own_logs(b, kernel, plan, env)
        declared += own.declared
        cursors = [*returns.values(), *own.cursors]
        if cursors:
            block.params.append(counts)
        for cursor in cursors:
            cursor.set(b.const(0, int32))
        for op in kernel.body.ops:
            if not special(op, env):
                copy_op(b, op, env, special)
        for k, cursor in enumerate(cursors):
            b.atomic("max", counts, [b.const(k, int32)], [0], [cursor.now()])
    block.ops[:0] = declared
    return verify(Func(f"{kernel.name}_recording", block, kernel.span, kernel.dims, dict(attrs)))
