"""What is open in a thread of the user: tapes, graphs, shadows.  Other threads do not see it."""

from __future__ import annotations

import threading
from typing import Any


class Stack(threading.local):
    """The `entries` that are open in the present thread, the innermost last."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
