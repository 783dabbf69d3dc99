"""What is open in a thread of the user: tapes, graphs, shadows.  Other threads do not see it."""

from __future__ import annotations

import threading
from typing import Any

anywhere: list[None] = []
"""As many entries as are open on any stack of any thread.  None, nearly always: then nobody has to ask for those of a thread, which takes longer."""


class Stack(threading.local):
    """The `entries` that are open in the present thread, the innermost last."""

    def __init__(self) -> None:
        self.entries: list[Any] = []

    def push(self, entry: Any) -> None:
        self.entries.append(entry)
        anywhere.append(None)

    def pop(self) -> Any:
        anywhere.pop()
        return self.entries.pop()
