"""How many threads a launch uses.  The result never depends on it: only launches whose threads touch nothing in common
are split, at multiples of 64 indices, and everything else runs on one thread.

The threads are Python threads inside native code (`sim.core.backends.native`), where they look for work without the
interpreter's lock.  A row of a table is shared out evenly, and who has finished takes from the others, so that a thread
that the system has put aside holds up at most what it had taken.  A thread that finds nothing for a while sleeps.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from sim.core.backends.base import Executable
from sim.core.backends.llvm.python_calls import builtin_repeat
from sim.core.backends.native import ROW, native
from sim.core.backends.native_text import ACTIVE, STOP, WORDS, YIELD
from sim.core.lang.memoize import compiling
from sim.core.runtime.compiled.compiled import Compiled

WORTH = 30000
"""Indices times operations of a kernel that make up for waking another thread: about a microsecond."""
LEAST = 256
"""Indices per thread, at least."""
ALONE = 16
"""A launch by itself wakes other threads only from so many times the work worth a thread: about what waking costs."""
MOST = 8
"""Threads that are used unless somebody asks for more."""
PATIENCE = 3000
"""Looks for work before a thread goes to sleep: some ten microseconds."""


def grain_of(compiled: Compiled) -> int:
    """The least number of indices of a launch that is worth a thread; 0 if it must not be split."""
    ops = compiled.divisible_ops
    return max(LEAST, WORTH // ops) if ops else 0


class _Pool:
    """Threads beside the one that launches."""

    def __init__(self, count: int) -> None:
        # Words on cache lines of their own (128 bytes: they come in pairs), or threads would slow each other down.
        raw = np.zeros(WORDS + 16 * count + 16, np.int64)
        shift = -raw.ctypes.data % 128 // 8
        self.count, self.memory = count, raw[shift:]
        self.address = self.memory.ctypes.data
        self.memory[0] = count
        self.memory[YIELD] = _yield_address()
        self.busy = threading.Lock()
        self.wake = [threading.Event() for _ in range(count - 1)]
        self.threads = [
            threading.Thread(target=self._work, args=(k + 1, event), daemon=True, name=f"sim-{k + 1}")
            for k, event in enumerate(self.wake)
        ]
        for thread in self.threads:
            thread.start()

    def _work(self, number: int, event: threading.Event) -> None:
        while not self.memory[STOP]:
            event.clear()  # before the looks at STOP and ACTIVE: a call to wake in between is not lost
            if not self.memory[STOP] and not self.memory[ACTIVE]:
                event.wait()
            native().work(self.address, number, PATIENCE)

    def run(self, table: int, rows: int) -> None:
        """The rows of a table; alone, if another thread of the user has the pool: waiting would take longer."""
        if not self.busy.acquire(blocking=False):
            native().walk(table, rows)
            return
        try:
            for event in self.wake:
                event.set()
            native().walk_together(self.address, table, rows)
        finally:
            self.busy.release()

    def stop(self) -> None:
        self.memory[STOP] = 1
        for event in self.wake:
            event.set()
        for thread in self.threads:
            thread.join()


def _yield_address() -> int:
    """The C library's function that lets other threads run, or 0."""
    if sys.platform == "win32":
        return 0
    return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0


def _default_threads() -> int:
    """$SIM_NUM_THREADS, else as many as this process has cores, up to `MOST`."""
    chosen = os.environ.get("SIM_NUM_THREADS", "")
    if chosen:
        return max(1, int(chosen))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


_threads = _default_threads()
_pool: _Pool | None = None


def set_num_threads(n: int) -> None:
    """Use up to `n` threads for launches with work enough (default: $SIM_NUM_THREADS, or one per core up to 8).
    Results do not depend on it."""
    global _threads
    if n < 1:
        raise ValueError(f"the number of threads is {n}; expected at least 1")
    _threads = int(n)
    _close()


def get_num_threads() -> int:
    """How many threads a large launch uses; `set_num_threads` changes it."""
    return _threads


def _close() -> None:
    global _pool
    if _pool is not None:
        _pool.stop()
        _pool = None


def _forget() -> None:
    """In a forked process the threads are gone."""
    global _pool
    _pool = None


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run_table(table: int, rows: int, splits: bool) -> None:
    """Run a table of launches, in order (see `sim.core.backends.native`).  splits: is a row worth several threads?"""
    global _pool
    if _threads == 1 or not splits:
        native().walk(table, rows)
        return
    if _pool is None:
        with compiling:
            _pool = _pool or _Pool(_threads)
    _pool.run(table, rows)


def runner(executable: Executable, block: int, n: int, compiled: Compiled) -> Callable[[], None]:
    """What runs threads 0 .. n - 1 of a launch again and again."""
    grain = grain_of(compiled)
    if (address := getattr(executable, "address", 0)) and not (grain and n >= ALONE * grain):
        return builtin_repeat(address, executable, block, n)
    return partial(run_range, executable, block, n, compiled)


def run_range(executable: Executable, block: int, threads: int, compiled: Compiled) -> None:
    """Run threads 0 .. threads - 1 of a launch."""
    if (
        threads >= ALONE * LEAST
        and _threads > 1
        and (grain := grain_of(compiled))
        and threads >= ALONE * grain
        and (address := getattr(executable, "address", 0))
    ):
        row = np.array((address, block, threads, grain), np.int64)
        run_table(row.ctypes.data, len(row) // ROW, True)
    else:
        executable.run(block, 0, threads)
