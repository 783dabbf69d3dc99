"""Detached memory: content that depends on values with a gradient, but that the tape has no way back from.

PyTorch calls such values detached, and takes their gradient for zero.  Here that is allowed as long as it makes no
difference: the tape remembers what has detached each buffer, follows what is computed from there, and refuses an
operation that would bring such values back to memory with a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from sim.core.lang.errors import GradientError
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.operations import Operation
from sim.core.runtime.launch.calls import Call
from sim.core.runtime.memory.buffer import Buffer, Strided, is_whole
from sim.core.runtime.tape.launch_records import LaunchRecord
from sim.core.runtime.tape.live_ins import LiveIns


class Detachment(NamedTuple):
    """Why the tape has no way back from some content: an array there, what became of it, and what to do.

    written: the launch that wrote it, and what stood for the content of its arrays then.
    """

    where: Strided
    what: str
    hint: str
    written: tuple[LaunchRecord, tuple[object, ...]] | None = None

    @classmethod
    def without_gradient(cls, a: Strided, written_as: str) -> Detachment:
        """Values with a gradient were stored where there is none."""
        return cls(
            a,
            f"was written as {written_as} from values with a gradient, but had none itself then: the gradient would be"
            " lost",
            "make that array with requires_grad=True, or read a copy made by sim.clone(a, requires_grad=False)",
        )

    @classmethod
    def without_backward(cls, a: array, kernel: str) -> Detachment:
        """A kernel that is not to be differentiated has written there."""
        return cls(
            a,
            f"was written by kernel '{kernel}', which has enable_backward=False: the gradient would be lost",
            "switch enable_backward on for that kernel or its module, or read a copy without a gradient",
        )

    @classmethod
    def half_written(cls, a: array, writer: str) -> Detachment:
        """What has written there was not recorded."""
        return cls(
            a,
            f"was left half written when a {writer} broke off: the tape does not know its content",
            "overwrite all of it first (a.zero_(), a.assign(...)), or record on a new tape",
        )


@dataclass(eq=False)
class Detached:
    """The memory that one tape has no way back from."""

    by_buffer: dict[Buffer, Detachment] = field(default_factory=dict)

    def copy(self) -> Detached:
        return Detached(dict(self.by_buffer))

    def add(self, a: Strided, why: Detachment) -> None:
        """An array is detached; where it was before, the first reason stays: it is the nearer to the cause."""
        self.by_buffer.setdefault(a.buffer, why)

    def replace(self, a: array, why: Detachment) -> None:
        """An array is detached for this reason, whatever was there before."""
        self.by_buffer[a.buffer] = why

    def refuse(self, reads: Iterable[array], reader: str, is_active: bool) -> Detachment | None:
        """What has detached one of the arrays that `reader` reads, or None; raises GradientError if what it computes
        is active: has a gradient that would have to go back there."""
        found = next((self.by_buffer[a.buffer] for a in reads if a.buffer in self.by_buffer), None)
        if found is not None and is_active:
            raise GradientError(
                f"{reader} reads an array of shape {found.where.shape} that {found.what}", hint=found.hint
            )
        return found

    def after_launch(self, record: LaunchRecord, detached: frozenset[int]) -> None:
        """The launch that has detached these is recorded: until somebody writes there, they may get a gradient."""
        for k in detached:
            a = record.call.args[k]
            if a is not None and (why := self.by_buffer[a.buffer]).where is a:
                self.by_buffer[a.buffer] = why._replace(written=(record, record.content()))

    def attach(self, a: array, live_ins: LiveIns) -> None:
        """A backward starts from an array without a gradient: it gets one, if the tape can still go back from there."""
        why = self.by_buffer.get(a.buffer)
        if why is None or why.written is None or why.where.buffer is not a.buffer:
            return
        record, content = why.written
        if record.content() == content and record.include(a.buffer, live_ins):
            a.requires_grad = True
            del self.by_buffer[a.buffer]

    def before_operation(self, operation: Operation) -> None:
        """Through a copy, fill or host write detached values spread; they end where all is overwritten."""
        found = self.refuse(operation.reads, operation.name, any(w.requires_grad for w in operation.writes))
        for target in operation.writes:
            if found is not None:
                self.add(target, found)
            elif is_whole(target):
                self.by_buffer.pop(target.buffer, None)

    def before_launch(self, call: Call, active: frozenset[int], detached: frozenset[int]) -> None:
        """The same of a launch.

        active: numbers of the arrays with a gradient; detached: of those without that get values with a gradient.
        """
        spec, args = call.spec, call.args
        if self.by_buffer:
            sources = [k for k in sorted(spec.reads) if isinstance(args[k], array) and args[k].buffer in self.by_buffer]
            reached = spec.reached(frozenset(sources))
            reader = f"launch of '{spec.kernel.name}'" + (f" (as '{spec.names[sources[0]]}')" if sources else "")
            found = self.refuse([args[k] for k in sources], reader, bool(reached & active))
            if found is not None:
                for k in (k for k in reached - active if args[k] is not None):
                    self.add(args[k], found)
        for k in (k for k in detached if args[k] is not None):
            written_as = f"'{spec.names[k]}' of kernel '{spec.kernel.name}'"
            self.add(args[k], Detachment.without_gradient(args[k], written_as))
