"""Native code that the runtime itself needs: walking a table of launches, and moving memory between them.

A table is rows of four int64: the address of a function `void f(ptr block, i64 begin, i64 end)`, the address of its block, its end
(it begins at 0), and how far its range may be split between threads: 0, not at all; else the least number of indices that is
worth a thread.  Compiled kernels are such functions; so are those here:

    copy   block {to, from}: bytes; the two may overlap if it is not split
    clear  block {to}: bytes become 0
    give32, give64   block {to, from}: floats of `from` are added to `to`, and become 0

LLVM text, because users have no C compiler.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from sim.core.backends.llvm import load_functions

ROW = 4
"""int64 per row of a table."""
Row = tuple[int, tuple[int, ...], int]
"""What the runtime notes of a function: its address, the words of its block, its end."""

_WALK = """
define void @walk(ptr %table, i64 %count) nounwind {
entry:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %loop, label %done
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %row = getelementptr inbounds [4 x i64], ptr %table, i64 %k
  %f = load ptr, ptr %row
  %block.p = getelementptr inbounds i64, ptr %row, i64 1
  %block = load ptr, ptr %block.p
  %end.p = getelementptr inbounds i64, ptr %row, i64 2
  %end = load i64, ptr %end.p
  call void %f(ptr %block, i64 0, i64 %end)
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}

declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @copy(ptr %block, i64 %begin, i64 %end) nounwind {
  %to.0 = load ptr, ptr %block
  %from.p = getelementptr inbounds i64, ptr %block, i64 1
  %from.0 = load ptr, ptr %from.p
  %to = getelementptr inbounds i8, ptr %to.0, i64 %begin
  %from = getelementptr inbounds i8, ptr %from.0, i64 %begin
  %n = sub nsw i64 %end, %begin
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}

define void @clear(ptr %block, i64 %begin, i64 %end) nounwind {
  %to.0 = load ptr, ptr %block
  %to = getelementptr inbounds i8, ptr %to.0, i64 %begin
  %n = sub nsw i64 %end, %begin
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %n, i1 false)
  ret void
}
"""

_GIVE = """
define void @NAME(ptr %block, i64 %begin, i64 %end) nounwind {
entry:
  %to = load ptr, ptr %block
  %from.p = getelementptr inbounds i64, ptr %block, i64 1
  %from = load ptr, ptr %from.p
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %k = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %a = getelementptr inbounds TYPE, ptr %to, i64 %k
  %b = getelementptr inbounds TYPE, ptr %from, i64 %k
  %x = load TYPE, ptr %a
  %y = load TYPE, ptr %b
  %sum = fadd TYPE %x, %y
  store TYPE %sum, ptr %a
  store TYPE 0.0, ptr %b
  %next = add nsw i64 %k, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""

_TEXT = _WALK + _GIVE.replace("NAME", "give32").replace("TYPE", "float") + _GIVE.replace("NAME", "give64").replace("TYPE", "double")
_NAMES = ("walk", "copy", "clear", "give32", "give64")


class Native:
    """The functions, by address; `walk(table address, rows)` runs a table."""

    def __init__(self) -> None:
        self._engine, self.address = load_functions(_TEXT, _NAMES)
        self.walk: Any = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(self.address["walk"])

    def copy(self, to: int, source: int, nbytes: int) -> Row:
        """A copy of memory."""
        return self.address["copy"], (to, source), nbytes

    def clear(self, to: int, nbytes: int) -> Row:
        """Memory that becomes zero."""
        return self.address["clear"], (to,), nbytes

    def give(self, to: int, source: int, count: int, kind: np.dtype) -> Row:
        """Numbers that are added somewhere else and become zero."""
        return self.address["give32" if kind == np.float32 else "give64"], (to, source), count


@functools.cache
def native() -> Native:
    """Made when first needed: it takes the compiler, or a hit in its cache."""
    return Native()
