"""What is open in a thread of the user: tapes, graphs, observers.  Other threads do not see it.

An interruption (Ctrl-C) may come between any two instructions, also within a `finally`: what is opened here is closed
all the same, by `contained` and `insist`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
anywhere: list[None] = []
"""At least as many entries as are open on any stack of any thread.  It is empty, nearly always: then a launch does not
look at what its thread has open, which takes longer (`threading.local`)."""


class OpenStack(threading.local, Generic[T]):
    """The `entries` that are open in the present thread, the innermost last.

    somewhere: as `anywhere`, for this stack alone: with a tape open, nearly always no graph is.
    """

    def __init__(self, somewhere: list[None] | None = None) -> None:
        self.entries: list[T] = []
        self._somewhere = [] if somewhere is None else somewhere

    def push(self, entry: T) -> None:
        anywhere.append(None)  # first, and removed last: an interruption in between costs time and nothing else
        self._somewhere.append(None)
        self.entries.append(entry)

    def pop(self) -> T:
        entry = self.entries.pop()
        self._somewhere.pop()
        anywhere.pop()
        return entry

    def restore(self, entries: list[T]) -> None:
        """Make these the entries that are open."""
        same = 0
        for mine, wanted in zip(self.entries, entries, strict=False):
            if mine is not wanted:
                break
            same += 1
        while len(self.entries) > same:
            self.pop()
        for entry in entries[same:]:
            self.push(entry)


def contained(action: Callable[[], T], *stacks: OpenStack[Any]) -> T:
    """Call `action`; afterwards what was open before is open, also where a `with` block in it was interrupted before it
    could close what it had opened, or this `finally` on its way: so there are two."""
    before = [list(stack.entries) for stack in stacks]
    try:
        try:
            return action()
        finally:
            _restore(stacks, before)
    finally:
        _restore(stacks, before)


def _restore(stacks: tuple[OpenStack[Any], ...], before: list[list[Any]]) -> None:
    for stack, entries in zip(stacks, before, strict=True):
        stack.restore(entries)


def insist(actions: Sequence[Callable[[], None]]) -> None:
    """Do all of these, each of which may be done twice, even where the user interrupts."""
    try:
        for action in actions:
            action()
    except BaseException:
        for action in actions:
            action()
        raise
