"""Python's search for garbage, put off while what is made stays: traces, code, the records of a rollout."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Without looking for cycles of objects that are gone.

    Among many small objects that stay this takes a third of the time of a first gradient, for nothing: the search
    comes again with every quarter that there is more of them.  Threads that overlap end with the search as it was.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
