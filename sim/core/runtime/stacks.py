"""What is open in a thread of the user: tapes, graphs, shadows.  Other threads do not see it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

anywhere: list[None] = []
"""As many entries as are open on any stack of any thread.  None, nearly always: then nobody has to ask for those of a thread, which takes longer."""


class Stack(threading.local):
    """The `entries` that are open in the present thread, the innermost last."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def push(self, entry: Any) -> None:
        anywhere.append(None)  # first, and removed last: an interrupt in between costs time and nothing else
        self.entries.append(entry)

    def pop(self) -> Any:
        made = self.entries.pop()
        anywhere.pop()
        return made

    def cut(self, depth: int) -> None:
        """Pop what is above so many entries."""
        while len(self.entries) > depth:
            self.pop()


def insist(actions: Sequence[Callable[[], None]]) -> None:
    """Do all of these, each of which may be done twice, even where the user interrupts."""
    try:
        for action in actions:
            action()
    except BaseException:
        for action in actions:
            action()
        raise
