"""Stores that the adjoint of a kernel performs again, on a copy of the memory, and takes back on its way.

The memory always holds what it held in the primal at the point where the adjoint is: forward over a store the old value
is kept (unless it goes back at once) and the store done, backward the old value is put back; a region that is about to
be recomputed is first rewound to where it began.  In the end the copy is whole again.  `replay_plan.py` decides what is
kept and where, `undo_log.py` has what it is kept in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.autodiff.replay_plan import ReplayPlan, is_invariant_value
from sim.core.lang.autodiff.undo_log import Cursor, ReturnLog, UndoLog, ValueStack, rewind_all
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.clone import Env
from sim.core.lang.ir.core import Block, Op, Value, split_memory, walk_regions
from sim.core.lang.types import Scalar

Emit = Callable[[Op, Env], None]
"""Emits an operation of the primal once more, for its values."""


def address_of(op: Op, env: Env) -> tuple[Value, list[Value], Sequence[int], Value | None]:
    """Array, index, leaves and run-time leaf of a memory operation, where `env` says what its operands are."""
    array, index, leaf, _ = split_memory(op)
    here = [env.get(v, v) for v in index]
    return env.get(array, array), here, op.leaves, None if leaf is None else env.get(leaf, leaf)


@dataclass
class UndoStack:
    """What is kept to take stores back, in the order in which they were performed.

    logs:     by array, of old values and their places.
    stacks:   by type, of old values alone, and of the frames that the trips of loops end with.
    returned: by atomic in a loop, what the launch has written down of its results.
    """

    b: Builder
    plan: ReplayPlan = field(default_factory=ReplayPlan)
    logs: dict[Value, UndoLog] = field(default_factory=dict)
    stacks: dict[Scalar, ValueStack] = field(default_factory=dict)
    returned: dict[Op, ReturnLog] = field(default_factory=dict)

    @property
    def cursors(self) -> list[Cursor]:
        """Everything that has to be put back to where it was before a region is recomputed."""
        return [*dict.fromkeys((*self.logs.values(), *self.returned.values()))]

    def cursors_of(self, loop: Op) -> list[Cursor]:
        """Those whose positions the frames of a loop hold: none where the program run backwards says what to undo."""
        return [] if loop in self.plan.address_invariant else self.cursors

    def reads_returned(self, op: Op) -> bool:
        """Does an operation with regions take what an atomic returned?"""
        return any(inner in self.returned for inner in walk_regions(op))

    # -- single stores
    def perform(self, op: Op, env: Env, push: bool = False) -> list[Value]:
        """Do a store or an accumulation; returns the old values, which are kept here too if asked to `push` them."""
        array, index, leaves, leaf = address_of(op, env)
        old = self.b.load(array, index, leaves, leaf)
        if push and op in self.plan.address_invariant:
            for kind, numbers in self.plan.pushed(op):
                self.stacks[kind].push([old[k] for k in numbers])
        elif push:
            self.logs[op.operands[0]].push(array, index, leaves, leaf, old)
        new = [env.get(v, v) for v in split_memory(op)[3]]
        if op.name != "store":
            new = [before + v for before, v in zip(old, new, strict=True)]
        self.b.store(array, index, leaves, new, leaf)
        return old

    def take_back(self, op: Op, env: Env, old: Sequence[Value]) -> None:
        """Put the old values of a store back."""
        array, index, leaves, leaf = address_of(op, env)
        self.b.store(array, index, leaves, old, leaf)

    def rewind(self, positions: Sequence[Value]) -> None:
        rewind_all(self.cursors, positions)

    # -- frames: what a trip of a loop that stores leaves at its end
    def push_frame(self, loop: Op, carried: Sequence[Value], positions: Sequence[Value]) -> None:
        frame = [*carried, *positions]
        for kind, numbers in self.plan.frame(loop, len(positions)):
            self.stacks[kind].push([frame[k] for k in numbers])

    def pop_frame(self, loop: Op) -> tuple[dict[Value, Value], list[Value]]:
        """The values of carried parameters at the start of a trip, and the positions of cursors there."""
        kept, found = self.plan.frames[loop], dict[int, Value]()
        positions = len(self.cursors_of(loop))
        for kind, numbers in self.plan.frame(loop, positions):
            found.update(zip(numbers, self.stacks[kind].pop(len(numbers)), strict=True))
        count = len(kept)
        return {p: found[k] for k, p in enumerate(kept)}, [found[count + k] for k in range(positions)]

    # -- address-invariant regions: the program itself, run backwards, says where old values belong
    def unwind(self, op: Op, env: Env, emit_again: Emit) -> None:
        """Take back the stores of an address-invariant operation, with what is around it given."""
        if self.plan.stores(op):
            old = list(split_memory(op)[3])
            for kind, numbers in self.plan.pushed(op):
                for k, value in zip(numbers, self.stacks[kind].pop(len(numbers)), strict=True):
                    old[k] = value
            self.take_back(op, env, old)
        elif op.name == "if":
            cond = env.get(op.operands[0], op.operands[0])
            self.b.if_(cond, *(partial(self.unwind_block, region, env, emit_again) for region in op.regions))
        elif op.name == "for":
            body = op.regions[-1]

            def back(k: Value) -> list[Value]:
                self.unwind_block(body, {**env, body.params[0]: k}, emit_again)
                return []

            self.b.for_(env.get(op.operands[0], op.operands[0]), [], back, not op.reverse)

    def unwind_block(self, block: Block, env: Env, emit_again: Emit) -> None:
        """Take back the stores of a region that has run, where `env` has what is around it."""
        inner = dict(env)
        for op in block.ops:
            if is_invariant_value(op, self.plan):
                emit_again(op, inner)
        for op in reversed(block.ops):
            if op in self.plan.address_invariant:
                self.unwind(op, inner, emit_again)
