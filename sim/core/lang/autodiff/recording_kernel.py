"""The recording kernel: a launch that also writes what its adjoint cannot compute again (Enzyme's augmented primal).

It does what the kernel does, and besides writes the caches and what atomics in loops returned, and counts the entries
that the logs of the adjoint will have, so that there is room for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sim.core.lang.autodiff.cache_plan import CacheLayout
from sim.core.lang.autodiff.kernel_logs import KernelLogs, clear, kernel_logs, returned_type
from sim.core.lang.autodiff.replay_plan import ReplayPlan
from sim.core.lang.autodiff.to_be_recorded import ToBeRecorded
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_block, copy_op
from sim.core.lang.ir.core import Block, Func, Op, Value, split_memory
from sim.core.lang.ir.verifier import verify
from sim.core.lang.types import Scalar, array_type, int32


def recording_kernel(tbr: ToBeRecorded, layout: CacheLayout, plan: ReplayPlan, attrs: dict[str, Any]) -> Func:
    """Build it.

    Its further parameters: the caches, the logs of what atomics return, and, if there are logs, an array of entry
    counts: of these logs, then of those that the adjoint writes (the largest of all threads).
    """
    kernel = tbr.kernel
    block = Block([Value(p.type, p.name) for p in kernel.params])
    env: Env = dict(zip(kernel.params, block.params, strict=True))
    caches = layout.parameters()
    with Builder(block) as b:
        logs = kernel_logs(b, tbr, plan, env)
        cursors = [*logs.returned.values(), *logs.written]
        counts = Value(array_type(int32, 1), "entry_counts")
        block.params += [
            *caches.values(),
            *(log.values for log in logs.returned.values()),
            *([counts] if cursors else []),
        ]
        clear(b, cursors)
        copy_block(b, kernel.body, env, _Recording(b, layout, caches, plan, logs, tbr.returned).handle)
        for k, cursor in enumerate(cursors):
            b.atomic("max", counts, [b.const(k, int32)], [0], [cursor.now()])
    block.ops[:0] = logs.declared
    kept = {"caches": frozenset(cache.name for cache in caches.values())}
    return verify(Func(f"{kernel.name}_recording", block, kernel.span, kernel.dims, {**attrs, **kept}))


@dataclass(frozen=True)
class _Recording:
    """What is done at the operations that the adjoint has to know more of."""

    b: Builder
    layout: CacheLayout
    caches: Mapping[Scalar, Value]
    plan: ReplayPlan
    logs: KernelLogs
    returned: Collection[Op]

    def handle(self, op: Op, env: Env) -> bool:
        """Emit such an operation; returns whether it is one."""
        if op in self.plan.frames:
            self._framed_loop(op, env)
            return True
        stores = self.plan.stores(op)
        if not stores and op not in self.returned and op not in self.layout.entries:
            return False
        copy_op(self.b, op, env)
        if stores:
            self._count_pushes(op)
        elif op in self.returned:
            self.logs.returned[returned_type(op)].put([env[r] for r in op.results])
        else:
            self.layout.store(self.b, self.caches, op, [env[r] for r in op.results])
        return True

    def _count_pushes(self, store: Op) -> None:
        """The adjoint will push what this store overwrites."""
        for kind, numbers in self.plan.pushed(store):
            self.logs.stacks[kind].skip(len(numbers))
        if store in self.plan.logged:
            self.logs.undo[store.operands[0]].skip(len(split_memory(store)[3]))

    def _framed_loop(self, op: Op, env: Env) -> None:
        """A loop whose trips will end with the push of a frame: count it there."""
        args = [env.get(v, v) for v in op.operands]
        regions = [
            self.b.region([p.type for p in r.params], partial(self._region, op, r, env), [p.name for p in r.params])
            for r in op.regions
        ]
        results = [Value(r.type, r.name) for r in op.results]
        self.b.append(Op(op.name, args, results, dict(op.attrs), regions, op.span))
        env.update(zip(op.results, results, strict=True))

    def _region(self, loop: Op, region: Block, env: Env, *params: Value) -> list[Value]:
        ends = copy_block(self.b, region, {**env, **dict(zip(region.params, params, strict=True))}, self.handle)
        if region is loop.regions[-1]:
            positions = len(self.logs.returned) + len(self.logs.written) - len(self.logs.stacks)
            for kind, numbers in self.plan.frame(loop, positions):
                self.logs.stacks[kind].skip(len(numbers))
        return ends
