"""The forward part of an adjoint: a function or kernel once more, without its effects, and what the way back needs of
it.

* A loop records at the start of its iterations the carried values that the reverse sweep looks at (`analysis.needed_values`),
  nothing if there are none.  The record is bounded: `SLOTS` checkpoints per value.  Trip count known on entry: every
  `stride`-th iteration is recorded.  Unknown (`while`): when the slots are full every second one is dropped and the stride
  doubles (hence SLOTS is even).  The reverse sweep restores a checkpoint, runs forward to the end of its segment into a
  second record, and goes back from there: full speed up to SLOTS^2 trips, slower but right beyond.
* Stores to arrays that are *replayed* are performed, on a copy, and their old values kept (`undo.py`, `replay.py`).  A loop
  with such stores keeps a frame per trip instead of checkpoints, since its memory grows with the trips anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.analysis.activity import matters
from sim.core.lang.autodiff.replay_plan import Replay, is_steady_value
from sim.core.lang.autodiff.undo_log import Cursor, ReturnLog, Stack, UndoLog
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env, copy_op
from sim.core.lang.ir.core import Block, Op, TapeType, Value, emit, split_memory, walk
from sim.core.lang.ir.inline import inline_call
from sim.core.lang.types import Scalar, int32

SLOTS = 512
"""Checkpoints per recorded value of a loop; even, because thinning keeps every second one."""


@dataclass
class Record:
    """What the forward sweep left for the reverse sweep of one loop.

    tapes: checkpoints of the carried values (None: not needed), then of the positions of cursors.  Loops that store to
           replayed arrays have none: they push frames.
    """

    count: Value
    tapes: list[Value | None] = field(default_factory=list)
    stride: Value | None = None


@dataclass
class Sweep:
    """What the forward sweep over a block leaves for the reverse sweep over it.

    loops: by operation; before: positions of cursors before an operation with regions; old: values that a store
    to a replayed array overwrote.
    """

    loops: dict[int, Record] = field(default_factory=dict)
    before: dict[int, list[Value]] = field(default_factory=dict)
    old: dict[int, list[Value]] = field(default_factory=dict)


@dataclass
class Forward:
    """Emits the forward part of one function into a builder.  What it is given describes the reverse sweep as well."""

    b: Builder
    varied: set[Value]
    needed: set[Value]
    gradient: dict[Value, Value] = field(default_factory=dict)
    recorded: dict[int, Callable[[], list[Value]]] = field(default_factory=dict)
    unreadable: set[int] = field(default_factory=set)
    replay: Replay = field(default_factory=Replay)
    logs: dict[Value, UndoLog] = field(default_factory=dict)
    stacks: dict[Scalar, Stack] = field(default_factory=dict)
    returned: dict[int, ReturnLog] = field(default_factory=dict)
    finals: dict[Value, Value] = field(default_factory=dict)
    tapes: list[Op] = field(default_factory=list)
    slots: int = field(default_factory=lambda: SLOTS)
    apart: Collection[int] = ()
    """ids of calls whose results the function combines: they are moved apart where they coincide."""
    stored: Collection[int] = ()
    """ids of calls whose results may be combined by others."""
    fixed: bool = False
    """Whether the forward part has to do what the launch did, bit for bit."""
    own: Collection[Value] = ()
    """Arrays none of whose elements two threads touch: nor do they in the gradients."""

    @property
    def _cursors(self) -> list[Cursor]:
        """Everything that has to be put back to where it was before a region is recomputed."""
        return [*{id(log): log for log in (*self.logs.values(), *self.returned.values())}.values()]

    def recompute(self, block: Block, env: Env, sweep: Sweep | None = None) -> None:
        """Emit the operations of a block again, without effects (but for replayed arrays).

        With a `sweep`, the reverse sweep over this block can follow; stores that nothing in the block looks at are left
        out.
        """
        seen = self.replay.seen(block, self.needed) if sweep is not None else ()
        for op in block.ops:
            self.b.span = op.span
            moving = id(op) in self.replay.moving
            if sweep is None:
                self._copy(op, env)
            elif self.replay.stores(op):
                if id(op) in seen:
                    sweep.old[id(op)] = self._perform(op, env)
            elif moving and op.name == "if" and id(op) not in seen and not self._takes(op):
                continue
            else:
                if moving or self._takes(op):
                    sweep.before[id(op)] = [cursor.now() for cursor in self._cursors]
                if op.name in ("for", "while") and not (moving and not matters(op, self.varied, self.gradient)):
                    self._forward_loop(op, env, sweep)
                else:
                    self._copy(op, env)

    def _copy(self, op: Op, env: Env) -> None:
        """Emit an operation again.  Effects are left out, but for stores to replayed arrays, of which the old values
        are kept."""
        if not self._special(op, env):
            copy_op(self.b, op, env, self._special)

    def _special(self, op: Op, env: Env) -> bool:
        """Emit what is not simply copied; returns whether it is."""
        if op.name in ("store", "accum", "print", "assert"):
            if self.replay.stores(op):
                self._perform(op, env, keep=True)
        elif op.name == "call" and "separated" in op.attrs:
            copy_op(self.b, op, env)
            env[op.results[0]].op.attrs["differentiated"] = True  # type: ignore[union-attr]
            if id(op) in self.apart and not self.fixed and not op.attrs.get("differentiated"):
                env.update(
                    zip(
                        op.results,
                        inline_call(self.b, op.attrs["separated"](), [env[r] for r in op.results]),
                        strict=True,
                    )
                )
        elif id(op) in self.returned:
            env.update(zip(op.results, self.returned[id(op)].take(len(op.results)), strict=True))
        elif id(op) in self.recorded:
            env.update(zip(op.results, self.recorded[id(op)](), strict=True))
        elif op.name == "atomic" or id(op) in self.unreadable:
            env.update((r, Value(r.type, "unreadable")) for r in op.results)
        else:
            return False
        return True

    # -- stores that are performed again
    def _place(self, op: Op, env: Env) -> tuple[Value, list[Value], Sequence[int], Value | None]:
        """Array, index, leaves and run-time leaf of a memory operation, here."""
        array, index, leaf, _ = split_memory(op)
        return (
            env.get(array, array),
            [env.get(v, v) for v in index],
            op.attrs["leaves"],
            None if leaf is None else env.get(leaf, leaf),
        )

    def _perform(self, op: Op, env: Env, keep: bool = False) -> list[Value]:
        """Do a store or an accumulation; returns the old values.  Without `keep` they are at hand when it is taken
        back."""
        array, index, leaves, leaf = self._place(op, env)
        old = self.b.load(array, index, leaves, leaf)
        if keep and id(op) in self.replay.steady:
            for kind, numbers in self.replay.pushed(op):
                self.stacks[kind].push([old[k] for k in numbers])
        elif keep:
            self.logs[op.operands[0]].push(array, index, leaves, leaf, old)
        values = [env.get(v, v) for v in split_memory(op)[3]]
        self.b.store(
            array,
            index,
            leaves,
            values if op.name == "store" else [o + v for o, v in zip(old, values, strict=True)],
            leaf,
        )
        return old

    def _take_back(self, op: Op, env: Env, old: Sequence[Value]) -> None:
        """Put the old values of a store back."""
        array, index, leaves, leaf = self._place(op, env)
        self.b.store(array, index, leaves, old, leaf)

    def _rewind(self, positions: Sequence[Value]) -> None:
        for cursor, position in zip(self._cursors, positions, strict=True):
            cursor.rewind(position)

    def _unwind(self, op: Op, env: Env) -> None:
        """Take back the stores of a steady operation, with what is around it given."""
        if self.replay.stores(op):
            old = list(split_memory(op)[3])
            for kind, numbers in self.replay.pushed(op):
                for k, value in zip(numbers, self.stacks[kind].pop(len(numbers)), strict=True):
                    old[k] = value
            self._take_back(op, env, old)
        elif op.name == "if":
            self.b.if_(
                env.get(op.operands[0], op.operands[0]),
                *(partial(self._unwind_block, region, env) for region in op.regions),
            )
        elif op.name == "for":
            body = op.regions[-1]

            def back(k: Value) -> list[Value]:
                self._unwind_block(body, {**env, body.params[0]: k})
                return []

            self.b.for_(env.get(op.operands[0], op.operands[0]), [], back, not op.attrs["reverse"])

    def _unwind_block(self, block: Block, env: Env) -> None:
        """Take back the stores of a region that has run, where `env` has what is around it."""
        inner = dict(env)
        for op in block.ops:
            if is_steady_value(op, self.replay):
                self._copy(op, inner)
        for op in reversed(block.ops):
            if id(op) in self.replay.steady:
                self._unwind(op, inner)

    def _region(self, region: Block, env: Env, params: Sequence[Value]) -> list[Value]:
        inner = dict(env)
        inner.update(zip(region.params, params, strict=True))
        for op in region.ops:
            self._copy(op, inner)
        return [inner.get(v, v) for v in region.yields]

    def _tape(self, scalar: Scalar, slots: int) -> Value:
        """Storage of the thread; all of it is declared at the top of the function."""
        op = Op("tape", [], [Value(TapeType(scalar, slots))], {"slots": slots, "scalar": scalar})
        op.results[0].op = op
        self.tapes.append(op)
        return op.results[0]

    def _put(self, tape: Value, at: Value, value: Value) -> None:
        self.b.append(Op("tape_store", [tape, at, value], []))

    def _get(self, tape: Value, at: Value) -> Value:
        assert isinstance(tape.type, TapeType)
        return self.b.leaf_op("tape_load", (tape, at), tape.type.scalar)

    def _forward_loop(self, op: Op, env: Env, sweep: Sweep) -> None:
        if id(op) in self.replay.moving:
            sweep.loops[id(op)] = Record(self._forward_framed(op, env))
            return
        b, body = self.b, op.regions[-1]
        shift = 1 if op.name == "for" else 0
        carried = body.params[shift:]
        args = [env.get(v, v) for v in op.operands]
        logs = self._cursors if self._takes(op) else []
        if op.name == "for":
            n, known = args[0], args[0].const
            slots = max(min(self.slots, known), 1) if known is not None else self.slots
            tapes = self._checkpoints(carried, len(logs), slots)
            stride = None
            if any(tapes) and not (known is not None and known <= self.slots):
                stride = emit("max", emit("div", n + (self.slots - 1), self.slots), 1)

            def fill(k: Value, *values: Value) -> list[Value]:
                at = n - 1 - k if op.attrs["reverse"] else k
                kept = [*values, *(log.now() for log in logs)]
                if stride is None:
                    self._keep(tapes, at, kept)
                elif any(tapes):
                    slot = emit("div", at, stride)
                    b.if_(emit("eq", slot * stride, at), lambda: self._keep(tapes, slot, kept), lambda: None)
                return self._region(body, env, (k, *values))

            results = b.for_(n, args[1:], fill, op.attrs["reverse"])
            sweep.loops[id(op)] = Record(n, tapes, stride)
        else:
            tapes = self._checkpoints(carried, len(logs), self.slots)
            zero, one = b.const(0, int32), b.const(1, int32)

            def step(*values: Value) -> list[Value]:
                *plain, count, stride = values
                slot = emit("div", count, stride)
                kept = [*plain, *(log.now() for log in logs)]

                def checkpoint() -> list[Value]:
                    def thin() -> list[Value]:
                        def move(k: Value) -> list[Value]:
                            for tape in tapes:
                                if tape is not None:
                                    self._put(tape, k, self._get(tape, k * 2))
                            return []

                        b.for_(b.const(self.slots // 2, int32), [], move)
                        return [stride * 2]

                    (wider,) = b.if_(emit("eq", slot, self.slots), thin, lambda: [stride])
                    self._keep(tapes, emit("div", count, wider), kept)
                    return [wider]

                wider = stride
                if any(tapes):
                    (wider,) = b.if_(emit("eq", slot * stride, count), checkpoint, lambda: [stride])
                return [*self._region(body, env, plain), count + 1, wider]

            def go_on(*values: Value) -> Value:
                return self._region(op.regions[0], env, values[:-2])[0]

            *results, count, stride = b.while_([*args, zero, one], go_on, step)
            sweep.loops[id(op)] = Record(count, tapes, stride)
        env.update(zip(op.results, results, strict=True))

    def _forward_framed(self, op: Op, env: Env) -> Value:
        """A loop that stores to replayed arrays: every trip ends with a push of what the reverse sweep has to know of
        its start.

        Returns the number of trips.
        """
        b, body = self.b, op.regions[-1]
        args = [env.get(v, v) for v in op.operands]
        through = id(op) in self.replay.through

        def trip(*params: Value) -> list[Value]:
            inner = dict(env)
            inner.update(zip(body.params, params, strict=True))
            positions = [cursor.now() for cursor in self._framed_cursors(op)]
            for o in body.ops:
                if through and id(o) in self.replay.moving:
                    self._forward_framed(o, inner)
                else:
                    self._copy(o, inner)
            frame = [inner[p] for p in self.replay.frames[id(op)]] + positions
            for kind, numbers in self.replay.frame(op, len(positions)):
                self.stacks[kind].push([frame[k] for k in numbers])
            return [inner.get(v, v) for v in body.yields]

        if op.name == "for":
            results, count = b.for_(args[0], args[1:], trip, op.attrs["reverse"]), args[0]
        else:
            *results, count = b.while_(
                [*args, b.const(0, int32)],
                lambda *now: self._region(op.regions[0], env, now[:-1])[0],
                lambda *now: [*trip(*now[:-1]), now[-1] + 1],
            )
        env.update(zip(op.results, results, strict=True))
        return count

    def _framed_cursors(self, op: Op) -> list[Cursor]:
        """The cursors whose positions they keep: none where the program itself says what to take back."""
        return [] if id(op) in self.replay.steady else self._cursors

    def _takes(self, op: Op) -> bool:
        """Does an operation with regions take what an atomic returned?"""
        return any(id(o) in self.returned for region in op.regions for o in walk(region))

    def _checkpoints(self, carried: Sequence[Value], logs: int, slots: int) -> list[Value | None]:
        """Tapes for the carried values that are needed, and for the positions of cursors."""
        kept = [self._tape(p.type, slots) if p in self.needed else None for p in carried]  # type: ignore[arg-type]
        return [*kept, *(self._tape(int32, slots) for _ in range(logs))]

    def _keep(self, tapes: Sequence[Value | None], at: Value, values: Sequence[Value]) -> None:
        for tape, v in zip(tapes, values, strict=True):
            if tape is not None:
                self._put(tape, at, v)
