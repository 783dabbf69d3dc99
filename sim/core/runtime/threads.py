"""How many threads a launch uses.  The result never depends on it: only launches whose threads touch nothing in common are
split, at multiples of 64 indices, and everything else runs on one thread."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from sim.core.backends.base import Executable
from sim.core.backends.native import native
from sim.core.lang.ir import walk

GRAIN = 16384
"""Indices per thread below which splitting costs more than it brings."""

_threads = max(1, int(os.environ.get("SIM_NUM_THREADS", "1") or 1))
_pool: ThreadPoolExecutor | None = None


def set_num_threads(n: int) -> None:
    """Use up to `n` threads for large launches (default: $SIM_NUM_THREADS, or 1)."""
    global _threads, _pool
    if n < 1:
        raise ValueError(f"the number of threads is {n}; expected at least 1")
    _threads = int(n)
    if _pool is not None:
        _pool.shutdown()
        _pool = None


def get_num_threads() -> int:
    return _threads


def _splittable(compiled: Any) -> bool:
    """No accumulation, no atomic, no output order: threads touch nothing in common."""
    found = compiled.__dict__.get("splittable")
    if found is None:
        shared = ("accum", "atomic", "print", "assert")
        serial = compiled.func.attrs.get("serial", False)
        found = compiled.__dict__["splittable"] = not serial and not any(op.name in shared for op in walk(compiled.func.body))
    return found


def grain_of(compiled: Any) -> int:
    """The least number of indices of a launch that is worth a thread; 0 if it must not be split."""
    return GRAIN if _splittable(compiled) else 0


def run_table(table: int, rows: int) -> None:
    """Run the rows of a table of launches, one after the other; see `sim.core.backends.native`."""
    native().walk(table, rows)


def run_range(executable: Executable, block: int, n: int, compiled: Any) -> None:
    """Run threads 0 .. n - 1 of a launch."""
    if _threads == 1 or n < 2 * GRAIN or not _splittable(compiled):
        executable.run(block, 0, n)
        return
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(_threads)
    parts = min(_threads, n // GRAIN)
    edges = [n * k // parts // 64 * 64 for k in range(parts)] + [n]
    waiting = [_pool.submit(executable.run, block, a, b) for a, b in zip(edges, edges[1:], strict=False)]
    wait(waiting)
    for part in waiting:
        part.result()
