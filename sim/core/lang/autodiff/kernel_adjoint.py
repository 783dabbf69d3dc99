"""The adjoint kernel: its parameters, its logs, the primal once more and the reverse sweep over it, put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sim.core.lang.analysis.activity import clobbered_loads
from sim.core.lang.autodiff.cache_plan import CacheLayout
from sim.core.lang.autodiff.degeneracy import combined_calls, stored_calls
from sim.core.lang.autodiff.kernel_logs import LogLayout, clear, kernel_logs, returned_type
from sim.core.lang.autodiff.primal import AdjointConfig, ForwardState, PrimalEmitter
from sim.core.lang.autodiff.recording_kernel import recording_kernel
from sim.core.lang.autodiff.replay_plan import ReplayPlan, plan_replay
from sim.core.lang.autodiff.reverse import Cotangents, ReverseEmitter
from sim.core.lang.autodiff.rules import keeping_gradients, read_finals, scratch_memory
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.autodiff.undo_stack import UndoStack
from sim.core.lang.errors import GradientError
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory, walk
from sim.core.lang.ir.dce import dce
from sim.core.lang.ir.inline import inline
from sim.core.lang.ir.store_forwarding import forward_stores
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import Scalar


@dataclass(frozen=True)
class AdjointPlan:
    """What a launch asks of an adjoint kernel.

    active:    numbers of the parameters that have a gradient array, in order.
    live_in:   numbers of the array parameters whose values before the launch it loads; others may be null.
    caches:    (scalar type, slots) of the arrays (slots, threads) that the recording kernel fills for it.
    returned:  scalar types of the logs (entries, threads) of values that atomics in loops returned.
    logs:      what it writes down itself, one thread at a time.  The arrays that it replays must be given as copies
               that may be changed (they are whole again afterwards).
    finals:    numbers of the parameters whose values after the launch it loads (atomic minima and maxima; what
               a gradient function reads of what its function has written).
    scratch:   numbers of the parameters that it stores to, as they are given (gradient functions with scratch memory).
    """

    active: tuple[int, ...]
    live_in: tuple[int, ...]
    caches: tuple[tuple[Scalar, int], ...]
    returned: tuple[Scalar, ...]
    logs: tuple[LogLayout, ...]
    finals: tuple[int, ...]
    scratch: tuple[int, ...]


@dataclass(frozen=True)
class KernelAdjoint(AdjointPlan):
    """The adjoint of a kernel for one choice of arrays with gradient.

    func:      its parameters are those of the kernel, then a gradient array per number in `active`, then the caches,
               then the logs of returned values, then the arrays of the other logs, then an array per number in
               `finals`.
    recording: the kernel with the caches, the logs of returned values, and the entry counts of these and of the other
               logs, as extra parameters; None if there are none.
    source:    `func` with calls of functions whose derivative is in closed form, for the tangent of the adjoint.
    """

    func: Func
    recording: Func | None
    source: Func

    @property
    def plan(self) -> AdjointPlan:
        """What a launch asks of it, without its code."""
        return AdjointPlan(self.active, self.live_in, self.caches, self.returned, self.logs, self.finals, self.scratch)


def kernel_adjoint(tbr: ToBeRecorded, cached: Collection[int] = ()) -> KernelAdjoint:
    """Build the adjoint.

    It does without loads of the parameters in `cached` and in `tbr.must_cache`: what it takes is cached per thread.
    """
    kernel, active = tbr.kernel, [tbr.kernel.params[k] for k in tbr.active]
    layout = CacheLayout.of(kernel, tbr.min_cut(frozenset(cached)))
    plan = plan_replay(tbr)
    attrs = _memory_attributes(kernel, tbr.groups)

    # the parameters: those of the kernel, then all that is told in `KernelAdjoint.func`
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    gradient = {source: Value(source.type, f"adj_{source.name}") for source in active}
    finals = {p: Value(p.type, f"final_{p.name}") for p in _seen_after(kernel, tbr.groups, active)}
    caches = layout.parameters()
    with Builder(block) as b:
        logs = kernel_logs(b, tbr, plan, env)
        returned = [log.values for log in logs.returned.values()]
        block.params += [*gradient.values(), *caches.values(), *returned, *logs.params, *finals.values()]
        clear(b, [*logs.written, *logs.returned.values()])

        # the forward part, and the reverse sweep over it
        cached_loads = {op: partial(layout.load, b, caches, op) for op in layout.entries}
        config = _adjoint_config(tbr, plan, gradient, finals, cached_loads)
        by_atomic = {op: logs.returned[returned_type(op)] for op in tbr.returned}
        primal = PrimalEmitter(b, config, UndoStack(b, plan, logs.undo, logs.stacks, by_atomic))
        state = ForwardState()
        primal.forward(kernel.body, env, state)
        ReverseEmitter(primal).reverse(kernel.body, env, Cotangents(), state)
    block.ops[:0] = [*primal.tapes.declared, *logs.declared]

    # the kernel; a thread that changes memory to take it back must be alone with it, as with scratch memory
    scratch = scratch_memory(kernel)
    serial = {"serial": True} if plan.arrays or scratch else {}
    func = Func(f"{kernel.name}_adjoint", block, kernel.span, kernel.dims, {**attrs, "adjoint": True, **serial})
    if plan.arrays:  # what is put back need not be loaded again
        func = forward_stores(func, _memory_of(func, tbr))
    source = dce(func)
    func = verify(dce(inline(source)))
    loaded = {op.operands[0] for op in walk(func.body) if op.name == "load"}
    recorded = layout.entries or plan.arrays or tbr.returned
    return KernelAdjoint(
        tbr.active,
        tuple(k for k, p in enumerate(kernel.params) if func.params[k] in loaded and p not in scratch),
        layout.arrays,
        tuple(logs.returned),
        tuple(logs.layouts),
        tuple(k for k, p in enumerate(kernel.params) if p in finals),
        tuple(k for k, p in enumerate(kernel.params) if p in scratch),
        func,
        recording_kernel(tbr, layout, plan, attrs) if recorded else None,
        source,
    )


def _adjoint_config(
    tbr: ToBeRecorded,
    plan: ReplayPlan,
    gradient: Mapping[Value, Value],
    finals: Mapping[Value, Value],
    cached: Mapping[Op, Callable[[], list[Value]]],
) -> AdjointConfig:
    kernel = tbr.kernel
    exclusive = {p for p in kernel.params if p.name in kernel.attrs.get("exclusive", ())}
    split, guarded = combined_calls(kernel), stored_calls(kernel)
    if plan.arrays or tbr.returned:  # the forward part has to go where the launch went, to the bit: it moves no value
        split, guarded = set(), guarded | split
    return AdjointConfig(
        tbr.varied,
        tbr.needed,
        gradient,
        finals,
        exclusive,
        cached,
        _unreadable(tbr, plan),
        split,
        guarded,
        keeping_gradients(kernel),
    )


def _unreadable(tbr: ToBeRecorded, plan: ReplayPlan) -> set[Op]:
    """Loads that would not find in memory what they found in the launch."""
    clobbered, replayed = clobbered_loads(tbr.kernel, tbr.groups), {tbr.groups[array] for array in plan.arrays}
    return {op for op in walk(tbr.kernel.body) if op in clobbered and tbr.groups[op.operands[0]] not in replayed}


def _memory_attributes(kernel: Func, groups: Mapping[Value, int]) -> dict[str, Any]:
    """What is known of the arrays of a launch, and holds for their gradients in its adjoint.

    exclusive: names of arrays no element of which two threads touch.
    apart:     no two arrays of a launch overlap in what it writes.
    alike:     threads side by side mostly take the same branches.
    """
    names, apart = kernel.attrs.get("exclusive", frozenset()), len(set(groups.values())) == len(groups)
    adjoints = {f"adj_{name}" for name in names}
    return {"exclusive": names | adjoints, "apart": apart, "alike": kernel.attrs.get("alike", False)}


def _memory_of(adjoint: Func, tbr: ToBeRecorded) -> dict[Value, int]:
    """Numbers of the memory of the arrays of an adjoint: gradients overlap as their arrays do, logs with nothing."""
    params, count = tbr.kernel.params, len(tbr.kernel.params)
    groups: dict[Value, int] = {}
    for k, p in enumerate(adjoint.params):
        source = params[k] if k < count else params[tbr.active[k - count]] if k - count < len(tbr.active) else None
        if source is None:
            groups[p] = 2 * count + k
        elif source in tbr.groups:
            groups[p] = tbr.groups[source] + (count if k >= count else 0)
    return groups


def _seen_after(kernel: Func, groups: dict[Value, int], gradient: Collection[Value]) -> list[Value]:
    """Arrays that the adjoint loads as they are after the launch."""
    return sorted({*_extremes(kernel, groups, gradient), *read_finals(kernel)}, key=kernel.params.index)


def _extremes(kernel: Func, groups: dict[Value, int], gradient: Collection[Value]) -> list[Value]:
    """Arrays with a gradient that take atomic minima or maxima.  Refuses those that may be written otherwise too."""
    seen: list[tuple[str, Op]] = []
    found = []
    for op in walk(kernel.body):
        if not op.row.writes:
            continue
        array = op.operands[0]
        kind = op.how if op.name == "atomic" else op.name
        for other, earlier in seen:
            if (
                other != kind
                and {kind, other} & {"min", "max"}
                and groups[array] == groups[earlier.operands[0]]
                and not _disjoint(op, earlier)
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
    return found


def _disjoint(a: Op, b: Op) -> bool:
    """Do two writes go to different elements: at constant indices of one array?"""
    (x, here, *_), (y, there, *_) = split_memory(a), split_memory(b)
    return x is y and any(
        i.const is not None and j.const is not None and i.const != j.const for i, j in zip(here, there, strict=True)
    )


def _spelled(kind: str) -> str:
    return f"atomic_{kind}" if kind in ("min", "max", "exch", "cas") else kind
