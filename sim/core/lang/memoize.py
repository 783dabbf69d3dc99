"""What threads make on demand is made once: a lock for whoever traces, transforms or compiles, and a cache under it.

One lock for all: tracing holds the interpreter's lock anyway, LLVM's context is not made for several threads, and of
several locks two could wait for each other.  It is taken on a miss only, so launches of compiled kernels never wait.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

compiling = threading.RLock()
"""Held by the thread that traces, transforms or compiles; it may take it again."""
if hasattr(os, "register_at_fork"):  # a child whose parent forks while another thread compiles would wait for ever
    os.register_at_fork(before=compiling.acquire, after_in_parent=compiling.release, after_in_child=compiling.release)


def memoize(function: F) -> F:
    """`functools.cache` under the lock: every thread gets the same object.

    (That one may call the function twice, and give two.)
    """
    cached = functools.cache(function)

    @functools.wraps(function)
    def call(*args: object) -> object:
        with compiling:
            return cached(*args)

    return call  # type: ignore[return-value]
