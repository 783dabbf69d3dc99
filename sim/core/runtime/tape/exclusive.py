"""Gradients that several threads add to: one backward at a time for each.

A backward puts aside what a gradient holds, and adds it to what it has found: two at once would lose one of their sums,
or count it twice.  Those that share no gradient do not wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Condition, get_ident

from sim.core.runtime.memory.buffer import Buffer

_working: dict[Buffer, int] = {}
"""The thread that works on a gradient."""
_changed = Condition()


def _after_fork() -> None:
    """The other threads, and what they were working on, are not in the child."""
    global _changed
    _changed = Condition()
    _working.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def exclusive(gradients: Iterable[Buffer]) -> Iterator[None]:
    """Wait until no other thread works on any of these gradients; until the block ends, no other one will."""
    me, wanted = get_ident(), set(gradients)
    with _changed:
        _changed.wait_for(lambda: all(_working.get(gradient, me) == me for gradient in wanted))
        taken = wanted - _working.keys()
        _working.update(dict.fromkeys(taken, me))
    try:
        yield
    finally:
        with _changed:
            for gradient in taken:
                del _working[gradient]
            _changed.notify_all()
