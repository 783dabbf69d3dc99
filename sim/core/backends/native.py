"""Native code that the runtime itself needs: walking a table of launches, and moving memory between them.

A table is rows of four int64: the address of a function `void f(ptr block, i64 begin, i64 end)`, the address of its
block, its end (it begins at 0), and how far its range may be split between threads: 0, not at all; else the least
number of indices that is worth a thread.  Compiled kernels are such functions; so are those here:

    copy   block {to, from}: bytes; the two may overlap if it is not split
    copy_on  block {to, from, stride}: bytes; then `to` is so much further on.  It is not split
    clear  block {to}: bytes become 0
    give32, give64   block {to, from}: floats of `from` are added to `to`, and become 0
    relocate   block {places, shift, wanted}: the words at places[begin] to places[end - 1], addresses in blocks of rows
              that follow, lie as far on as `shift` points to, and now `wanted`
    strands   block {table, offsets}: rows offsets[s] to offsets[s + 1] of another table, for s from begin / 64 to
              end / 64: strands of rows that have nothing to do with each other, so that threads may share them
    again  block {table, rows}: another table, so many times

They are LLVM text (`native_text`), because users have no C compiler.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from sim.core.backends.llvm.machine_code.toolchain import load_functions
from sim.core.backends.native_text import NAMES, TEXT
from sim.core.lang.memoize import compiling

ROW = 4
"""int64 per row of a table."""
Row = tuple[int, tuple[int, ...], int]
"""What the runtime notes of a function: its address, the words of its block, its end."""


class Native:
    """The functions, by address; `walk(table address, rows)` runs a table.

    `walk_together(pool, table address, rows)` shares rows with the threads that are in
    `work(pool, own number, patience)`; the pool is memory: its number of threads; from word `WORDS` a cache line each.
    """

    def __init__(self) -> None:
        self._engine, self.address = load_functions(TEXT, NAMES, straight=True)
        word = ctypes.c_int64
        self.walk: Any = ctypes.CFUNCTYPE(None, word, word)(self.address["walk"])
        self.walk_together: Any = ctypes.CFUNCTYPE(None, word, word, word)(self.address["walk_together"])
        self.work: Any = ctypes.CFUNCTYPE(None, word, word, word)(self.address["work"])

    def copy(self, to: int, source: int, nbytes: int) -> Row:
        """A copy of memory."""
        return self.address["copy"], (to, source), nbytes

    def clear(self, to: int, nbytes: int) -> Row:
        """Memory that becomes zero."""
        return self.address["clear"], (to,), nbytes

    def relocate(self, places: int, count: int, shift: int, wanted: int) -> Row:
        """So many words are moved on, from the shift that they have to another."""
        return self.address["relocate"], (places, shift, wanted), count

    def give(self, to: int, source: int, count: int, kind: np.dtype) -> Row:
        """Numbers that are added somewhere else and become zero."""
        return self.address["give32" if kind == np.float32 else "give64"], (to, source), count


_native: Native | None = None


def native() -> Native:
    """Made when first needed: it takes the compiler, or a hit in its cache.  Once: its code goes when it does."""
    global _native
    if _native is None:
        with compiling:
            if _native is None:
                _native = Native()
    return _native
