"""What is open in a thread of the user: tapes, graphs, observers.  Other threads do not see it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
anywhere: list[None] = []
"""At least as many entries as are open on any stack of any thread.  None, nearly always: then nobody has to ask for
those of a thread, which takes longer."""


class Stack(threading.local):
    """The `entries` that are open in the present thread, the innermost last."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def push(self, entry: Any) -> None:
        anywhere.append(None)  # first, and removed last: an interruption in between costs time and nothing else
        self.entries.append(entry)

    def pop(self) -> Any:
        entry = self.entries.pop()
        anywhere.pop()
        return entry

    def restore(self, entries: list[Any]) -> None:
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


def contained(action: Callable[[], T], *stacks: Stack) -> T:
    """Call `action`; afterwards what was open before is open.

    Where an interruption (Ctrl-C) comes between any two instructions, a `with` block may not get to close what it has
    opened, nor a
    `finally` to its end: so this looks twice.
    """
    before = [list(stack.entries) for stack in stacks]
    try:
        try:
            return action()
        finally:
            _restore(stacks, before)
    finally:
        _restore(stacks, before)


def _restore(stacks: tuple[Stack, ...], before: list[list[Any]]) -> None:
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
