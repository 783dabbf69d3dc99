"""Gradients that several threads add to: one backward at a time for each.

A backward puts aside what a gradient holds, and adds it to what it has found: two at once would lose one of their sums,
or count it twice.  Those that share no gradient do not wait for each other.

No lock is held while this is sorted out: an interruption may come between any two instructions, also before the last
one of a `with`, and what it left locked would stop all other threads for good.  Entries of a dictionary are made and
removed as one instruction each, and may be removed twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from time import sleep

from sim.core.runtime.memory.buffer import Buffer

PAUSE = 1e-4
"""Seconds between two looks at whether another thread has come to its end."""

_working: dict[Buffer, int] = {}
"""The thread that works on a gradient."""

if hasattr(os, "register_at_fork"):
    # the other threads, and what they were working on, are not in the child
    os.register_at_fork(after_in_child=_working.clear)


@contextmanager
def exclusive(gradients: Iterable[Buffer]) -> Iterator[None]:
    """Wait until no other thread works on any of these gradients; until the block ends, no other one will."""
    me, taken = get_ident(), list[Buffer]()
    try:
        try:
            # in one order for all threads: none waits for one that waits for it
            for gradient in sorted(set(gradients), key=id):
                if _working.get(gradient) == me:
                    continue  # a block inside of another
                taken.append(gradient)
                while _working.setdefault(gradient, me) != me:
                    sleep(PAUSE)
            yield
        finally:
            _leave(taken, me)
    finally:
        _leave(taken, me)


def _leave(taken: Iterable[Buffer], me: int) -> None:
    for gradient in taken:
        if _working.get(gradient) == me:
            _working.pop(gradient, None)
