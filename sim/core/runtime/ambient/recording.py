"""The recorder of this thread, a tape known by its methods only, which hears of every change of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from sim.core.runtime.ambient.stacks import OpenStack, insist
from sim.core.runtime.memory.buffer import Strided

ArrayT = TypeVar("ArrayT")
OperationT = TypeVar("OperationT", contravariant=True)
CallT = TypeVar("CallT", contravariant=True)


class Bookmark(NamedTuple):
    """How far something was recorded: the number of the last record then, and that record."""

    place: int
    record: object


class Recorder(Protocol[ArrayT, OperationT, CallT]):
    """What a tape shows to arrays, launches, graphs and other tapes.

    ArrayT, OperationT, CallT: `array`, `Operation` and `Call`, which are defined in rooms above this one.
    begun: where it began to record, for messages: " since file:line".
    """

    begun: str

    def record(self, operation: OperationT) -> None:
        """Called before an operation (a copy, fill or host write) runs."""

    def recorded(self, operation: OperationT) -> None:
        """Called after it has run."""

    def broke_off(self, written: Iterable[ArrayT], writer: str) -> None:
        """Called instead where it raised after it had begun to write to these arrays."""

    def launch(self, call: CallT, done: bool = False) -> None:
        """Records a launch, and runs it.  done: it has run on what its arrays hold, and what it wrote is there still:
        where nothing is lost by that, it need not run again."""

    def adjoint_launch(self, call: CallT, gradients: Mapping[int, ArrayT]) -> None:
        """Called before a launch in adjoint form."""

    def gradients_change(self, gradients: Mapping[ArrayT, ArrayT]) -> None:
        """Called before the backward of another tape writes these."""

    def replay(self, written: Iterable[Strided], carries: bool) -> None:
        """Before the replay of a captured graph that writes there.  carries: does it read what has a gradient?"""

    def replayed(self) -> None:
        """Called before the replay of a graph that was captured while this one recorded."""

    def bookmark(self) -> Bookmark | None:
        """The end of what is recorded so far; None where that is nothing."""

    def holds(self, bookmark: Bookmark) -> bool:
        """Whether a bookmark was made here, and what was recorded up to it was not forgotten since."""


AnyRecorder = Recorder[Any, Any, Any]
"""A recorder, for those who do not know the rooms above."""

somewhere: list[None] = []
opened = OpenStack[AnyRecorder | None](somewhere)
"""The recorders; only the innermost is called.  None: recording is paused."""


def push(recorder: AnyRecorder | None) -> None:
    """Makes `recorder` the one that is called."""
    opened.push(recorder)


def pop() -> AnyRecorder | None:
    """Ends what the last `push` began."""
    return opened.pop()


def current() -> AnyRecorder | None:
    """The open recorder, or None."""
    if not somewhere:
        return None
    entries = opened.entries
    return entries[-1] if entries else None


@contextmanager
def paused() -> Iterator[None]:
    """`with paused():` nothing is recorded inside the block."""
    before = list(opened.entries)
    try:
        push(None)
        yield
    finally:
        insist([partial(opened.restore, before)])
