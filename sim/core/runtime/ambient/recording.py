"""Who is told of what happens to memory in this thread: the recorder, a tape.  It is known by its methods; nothing here
imports a tape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

from sim.core.runtime.ambient.stacks import Stack, anywhere, insist


class Bookmark(NamedTuple):
    """How far something was recorded: the number of the last record then, and that record."""

    place: int
    record: object


class Recorder(Protocol):
    """What a tape shows to arrays, launches, graphs and other tapes.

    begun: where it began to record, for messages: " since file:line".
    """

    begun: str

    def record(self, operation: Any) -> None:
        """Called before an `Operation` (a copy, fill or host write) runs."""

    def recorded(self, operation: Any) -> None:
        """Called after it has run."""

    def broke_off(self, written: Iterable[Any], writer: str) -> None:
        """Called instead where it raised after it had begun to write to these arrays."""

    def launch(self, call: Any) -> None:
        """Records the launch of a `Call`, and runs it."""

    def adjoint_launch(self, call: Any, gradients: Mapping[int, Any]) -> None:
        """Called before a launch in adjoint form."""

    def gradients_change(self, gradients: Mapping[Any, Any]) -> None:
        """Called before the backward of another tape writes these."""

    def replay(self, written: Iterable[Any], carries: bool) -> None:
        """Called before the replay of a captured graph that writes the memory of these views.  carries: does it read
        what has a gradient?"""

    def bookmark(self) -> Bookmark | None:
        """The end of what is recorded so far; None where that is nothing."""

    def holds(self, bookmark: Bookmark) -> bool:
        """Whether a bookmark was made here, and what was recorded up to it was not forgotten since."""


opened = Stack()
"""The recorders; only the innermost is told.  None: recording is paused."""


def push(recorder: Recorder | None) -> None:
    """Makes `recorder` the one that is told."""
    opened.push(recorder)


def pop() -> Recorder | None:
    """Ends what the last `push` began."""
    made: Recorder | None = opened.pop()
    return made


def current() -> Recorder | None:
    """The recorder that writes are told to, or None."""
    if not anywhere:
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
