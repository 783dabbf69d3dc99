"""The primal once more: the forward part of an adjoint, without effects, and what the reverse sweep needs of it.

Everything is recomputed but for what cannot be: values that the launch has cached, what atomics returned, and the
starts of the trips of loops, on tapes of bounded length (`checkpoints.py`).  Stores to arrays that are *replayed* are
performed, on a copy (`undo_stack.py`); a loop with such stores keeps a frame per trip instead of checkpoints, since its
memory grows with the trips anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sim.core.lang.analysis.activity import is_active
from sim.core.lang.autodiff.checkpoints import CheckpointWriter, LoopCheckpoints, ThreadTapes
from sim.core.lang.autodiff.degeneracy import is_degenerate, is_split, mark_split, split_results
from sim.core.lang.autodiff.undo_log import positions_of
from sim.core.lang.autodiff.undo_stack import UndoStack
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_op
from sim.core.lang.ir.core import Block, Op, Value
from sim.core.lang.ir.inline import without_rule
from sim.core.lang.types import int32


@dataclass(frozen=True)
class AdjointConfig:
    """What is decided about an adjoint before the first of its operations is emitted.

    varied:     values that carry a derivative.
    needed:     values that the reverse sweep looks at, closed over what recomputing them takes.
    gradient:   the gradient arrays, by array.
    finals:     arrays as they are after the launch, by array (atomic extremes).
    exclusive:  arrays none of whose elements two threads touch: nor do they in the gradients.
    cached:     what loads the results of operations that the launch has cached.
    unreadable: loads whose memory the launch overwrites and whose results nobody needs.
    split:      calls whose degenerate results are moved apart where they coincide (`degeneracy.py`).
    guarded:    calls that are not, and whose derivative may lack a part where results coincide: that is an error then.
    keeping:    stores that leave the gradient there as it is.
    """

    varied: set[Value]
    needed: set[Value]
    gradient: Mapping[Value, Value] = field(default_factory=dict)
    finals: Mapping[Value, Value] = field(default_factory=dict)
    exclusive: Collection[Value] = ()
    cached: Mapping[Op, Callable[[], list[Value]]] = field(default_factory=dict)
    unreadable: Collection[Op] = ()
    split: Collection[Op] = ()
    guarded: Collection[Op] = ()
    keeping: Collection[Op] = ()

    def is_active(self, op: Op) -> bool:
        """Does a gradient flow through this operation with regions?"""
        return is_active(op, self.varied, self.gradient)


@dataclass
class ForwardState:
    """What the forward sweep over a block leaves for the reverse sweep over it.

    loops:  checkpoints, by loop.
    before: positions of cursors before an operation with regions.
    old:    values that a store to a replayed array overwrote.
    """

    loops: dict[Op, LoopCheckpoints] = field(default_factory=dict)
    before: dict[Op, list[Value]] = field(default_factory=dict)
    old: dict[Op, list[Value]] = field(default_factory=dict)


class PrimalEmitter:
    """Emits the forward part of one function into a builder."""

    def __init__(self, b: Builder, config: AdjointConfig, undo: UndoStack | None = None) -> None:
        self.b, self.config = b, config
        self.undo = undo or UndoStack(b)
        self.plan = self.undo.plan
        self.tapes = ThreadTapes(b)

    # -- blocks
    def forward(self, block: Block, env: Env, state: ForwardState) -> None:
        """Emit a block so that the reverse sweep can follow, without stores that nothing in the block looks at."""
        seen = self.plan.seen(block, self.config.needed)
        for op in block.ops:
            self.b.span = op.span
            stores, reads_returned = op in self.plan.storing, self.undo.reads_returned(op)
            if self.plan.stores(op):
                if op in seen:
                    state.old[op] = self.undo.perform(op, env)
            elif stores and op.name == "if" and op not in seen and not reads_returned:
                continue
            else:
                if stores or reads_returned:
                    state.before[op] = positions_of(self.undo.cursors)
                if op.name in ("for", "while") and not (stores and not self.config.is_active(op)):
                    self.forward_loop(op, env, state)
                else:
                    self.copy(op, env)

    def forward_nest(self, body: Block, env: Env, state: ForwardState) -> None:
        """The same for a trip of a perfect nest, which the reverse sweep enters from behind.

        Its inner loops have run and are taken back one by one; nothing needed here depends on what they store.
        """
        for op in body.ops:
            if op in self.plan.storing:
                state.loops[op] = LoopCheckpoints(env.get(op.operands[0], op.operands[0]))
            elif op.name in ("for", "while"):
                self.forward_loop(op, env, state)
            else:
                self.copy(op, env)

    def rerun(self, block: Block, env: Env) -> None:
        """Emit a block once more to get at its values: no reverse sweep follows."""
        for op in block.ops:
            self.b.span = op.span
            self.copy(op, env)

    # -- single operations
    def copy(self, op: Op, env: Env) -> None:
        """Emit an operation again, without effects but for stores to replayed arrays, whose old values are kept."""
        if not self._special(op, env):
            copy_op(self.b, op, env, self._special)

    def recompute(self, op: Op, env: Env) -> None:
        """Emit an operation again for its values alone, without stores to replayed arrays too."""

        def special(o: Op, inner: Env) -> bool:
            return self.plan.stores(o) or self._special(o, inner)

        if not special(op, env):
            copy_op(self.b, op, env, special)

    def _special(self, op: Op, env: Env) -> bool:
        """Emit what is not simply copied; returns whether it is."""
        if without_rule(op, env):
            return True
        if op.name in ("store", "accum", "print", "assert"):
            if self.plan.stores(op):
                self.undo.perform(op, env, push=True)
        elif is_degenerate(op):
            self._copy_degenerate(op, env)
        elif op in self.undo.returned:
            env.update(zip(op.results, self.undo.returned[op].take(len(op.results)), strict=True))
        elif op in self.config.cached:
            env.update(zip(op.results, self.config.cached[op](), strict=True))
        elif op.name == "atomic" or op in self.config.unreadable:
            env.update((r, Value(r.type, "unreadable")) for r in op.results)
        else:
            return False
        return True

    def _copy_degenerate(self, call: Op, env: Env) -> None:
        """A call whose results may coincide; the copy is marked: a derivative of it is not to split them again."""
        copy_op(self.b, call, env)
        copied = env[call.results[0]].op
        assert copied is not None
        mark_split(copied)
        if call in self.config.split and not is_split(call):
            env.update(zip(call.results, split_results(self.b, call, [env[r] for r in call.results]), strict=True))

    # -- loops
    def forward_loop(self, op: Op, env: Env, state: ForwardState) -> None:
        """Run a loop, keeping what the reverse sweep needs of the start of its trips."""
        if op in self.plan.storing:
            state.loops[op] = LoopCheckpoints(self._forward_framed(op, env))
        else:
            run = self._forward_for if op.name == "for" else self._forward_while
            results, state.loops[op] = run(op, env)
            env.update(zip(op.results, results, strict=True))

    def _forward_for(self, op: Op, env: Env) -> tuple[list[Value], LoopCheckpoints]:
        body, (n, *init) = op.regions[-1], [env.get(v, v) for v in op.operands]
        slots = self.tapes.slots if n.const is None else max(min(self.tapes.slots, n.const), 1)
        writer = self._writer(op, body.params[1:], slots)
        stride = writer.stride_for(n)

        def trip(k: Value, *carried: Value) -> list[Value]:
            at = n - 1 - k if op.reverse else k
            writer.keep_every(stride, at, (k, *carried))
            return self._region(body, env, (k, *carried))

        return self.b.for_(n, init, trip, op.reverse), writer.checkpoints(n, stride)

    def _forward_while(self, op: Op, env: Env) -> tuple[list[Value], LoopCheckpoints]:
        """The loop carries two numbers more: how many trips it has made, and the stride of its checkpoints."""
        cond, body = op.regions
        writer = self._writer(op, body.params, self.tapes.slots)
        zero, one = self.b.const(0, int32), self.b.const(1, int32)

        def go_on(*now: Value) -> Value:
            return self._region(cond, env, now[:-2])[0]

        def trip(*now: Value) -> list[Value]:
            *carried, count, stride = now
            wider = writer.keep_thinning(stride, count, carried)
            return [*self._region(body, env, carried), count + 1, wider]

        init = [env.get(v, v) for v in op.operands]
        *results, count, stride = self.b.while_([*init, zero, one], go_on, trip)
        return results, writer.checkpoints(count, stride if writer.tapes else None)

    def _writer(self, op: Op, carried: Sequence[Value], slots: int) -> CheckpointWriter:
        cursors = self.undo.cursors if self.undo.reads_returned(op) else []
        needed = [p for p in carried if p in self.config.needed]
        return CheckpointWriter(self.tapes, op.regions[-1], needed, cursors, slots)

    def _forward_framed(self, op: Op, env: Env) -> Value:
        """A loop that stores to replayed arrays: each trip pushes at its end what the reverse sweep asks of its start.

        Returns the number of trips.
        """
        b, body = self.b, op.regions[-1]
        args = [env.get(v, v) for v in op.operands]

        def trip(*params: Value) -> list[Value]:
            inner = {**env, **dict(zip(body.params, params, strict=True))}
            positions = positions_of(self.undo.cursors_of(op))
            for o in body.ops:
                if op in self.plan.perfect_nests and o in self.plan.storing:
                    self._forward_framed(o, inner)
                else:
                    self.copy(o, inner)
            self.undo.push_frame(op, [inner[p] for p in self.plan.frames[op]], positions)
            return [inner.get(v, v) for v in body.yields]

        if op.name == "for":
            results, count = b.for_(args[0], args[1:], trip, op.reverse), args[0]
        else:
            *results, count = b.while_(
                [*args, b.const(0, int32)],
                lambda *now: self._region(op.regions[0], env, now[:-1])[0],
                lambda *now: [*trip(*now[:-1]), now[-1] + 1],
            )
        env.update(zip(op.results, results, strict=True))
        return count

    def _region(self, region: Block, env: Env, params: Sequence[Value]) -> list[Value]:
        """Emit a region for these parameters; returns what it yields."""
        inner = {**env, **dict(zip(region.params, params, strict=True))}
        for op in region.ops:
            self.copy(op, inner)
        return [inner.get(v, v) for v in region.yields]
