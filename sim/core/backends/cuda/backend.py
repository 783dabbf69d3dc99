"""The CUDA back end: text (`text.py`), machine code (`compile.py`), launches through the driver.

What a driver and a compiler are is said by two protocols: `driver.py` and NVRTC fulfil them, and so do the
stand-ins of the tests, which run the same text on the CPU.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from sim.core.backends.base import FIRST_PARAM, Record, Site, int64_view, param_slots, print_text
from sim.core.backends.cuda.prelude import BLOCK
from sim.core.backends.cuda.text import CudaText
from sim.core.lang.analysis.thread_locality import own_arrays, shared_arrays
from sim.core.lang.ir.core import Func
from sim.core.lang.types import ArrayType, Scalar, size_of

PRINT_WORDS = 1 << 17
"""Room for the output of one launch [8-byte words]."""


class Loader(Protocol):
    """What the back end needs of a driver."""

    def load(self, image: bytes, symbol: str) -> Any:
        """A kernel that can be launched, from an image."""

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: int) -> None:
        """Starts a kernel on the present stream; `parameters`: address of an array of addresses of its arguments."""

    def pinned(self, nbytes: int) -> np.ndarray:
        """Host memory (bytes) that kernels can write to."""

    def synchronize(self, everything: bool = False) -> None:
        """Waits until everything that was launched has ended."""


class Compiler(Protocol):
    """What the back end needs of a compiler."""

    def image(self, text: str) -> bytes: ...


class _Variant:
    """One text of a kernel, compiled and loaded."""

    def __init__(self, driver: Loader, compiler: Compiler, text: CudaText) -> None:
        self.code = compiler.image(text.text())
        self.kernel = driver.load(self.code, text.symbol)


class CudaExecutable:
    """A compiled kernel: `run(block address, 0, n)` starts n threads on the present stream and does not wait."""

    record = None

    def __init__(self, driver: Loader, compiler: Compiler, func: Func, check: bool, ordered: bool) -> None:
        self.driver = driver
        self._make: Callable[[bool], _Variant] = lambda careful: _Variant(
            driver, compiler, CudaText(func, check, careful)
        )
        text = CudaText(func, check)
        self.sites: list[Site] = text.sites
        self._prints, self._func = text.prints, func
        self._serial = bool(func.attrs.get("serial"))
        self.waits = bool(text.prints)
        """Whether a launch waits for its end: then a graph cannot note it."""
        slots = param_slots(func)
        self._aligned = [(slots[k], size) for k, size in text.aligned()]
        self._apart = [] if ordered else _to_compare(func, slots)
        self._fast = self._make(False)
        self._careful: _Variant | None = None
        self._turn = threading.Lock()  # of the threads that fill the parameters, and the log
        self._parameters = (ctypes.c_void_p * 2)()
        self._log = np.zeros(0, np.int64)
        if self._prints:
            self._log = driver.pinned(8 * (3 + PRINT_WORDS)).view(np.int64)
            self._parameters[1] = ctypes.addressof(self._log_address())

    def _log_address(self) -> ctypes.c_void_p:
        self._log_pointer = ctypes.c_void_p(self._log.ctypes.data)
        return self._log_pointer

    def run(self, block: int, begin: int, end: int) -> None:
        """Threads 0 .. end - 1 (a launch on a GPU is never split: `begin` is 0)."""
        if end <= 0:  # the driver refuses a grid of nothing
            return
        kernel = self._fast.kernel
        if (self._aligned or self._apart) and not self._as_promised(block):
            if self._careful is None:
                self._careful = self._make(True)
            kernel = self._careful.kernel
        blocks = 1 if self._serial else -(-end // BLOCK)
        with self._turn:
            self._parameters[0] = block
            if self._prints:
                self._log[:3] = 0, 0, PRINT_WORDS
            self.driver.launch(kernel, blocks, 1 if self._serial else BLOCK, ctypes.addressof(self._parameters))
            if self._prints:
                self.driver.synchronize()
                self._show()

    def _as_promised(self, block: int) -> bool:
        """Whether the arrays lie as the fast text assumes: aligned for wide loads, and not over each other."""
        last = max(
            [at for at, _ in self._aligned] + [at + 2 * ndim for pair in self._apart for at, ndim, _ in pair],
            default=FIRST_PARAM,
        )
        slots = int64_view(block, last + 1)
        if any(slots[at] % size for at, size in self._aligned):
            return False
        return not any(_overlap(slots, a, b) for a, b in self._apart)

    def _show(self) -> None:
        """What the threads have printed, in the order of the threads."""
        used = min(int(self._log[1]), PRINT_WORDS)
        entries: list[tuple[int, int, int, bytes]] = []
        at, words = 0, self._log[3:]
        while at + 3 <= used and len(entries) < int(self._log[0]):
            thread, site, count = (int(w) for w in words[at : at + 3])
            entries.append((thread, len(entries), site, words[at + 3 : at + 3 + count].tobytes()))
            at += 3 + count
        for _, _, site, raw in sorted(entries):
            op = self._prints[site]
            kinds = [v.type for v in op.operands]
            shown = [np.frombuffer(raw, k.np, 1, 8 * n)[0] for n, k in enumerate(kinds) if isinstance(k, Scalar)]
            sys.stdout.write(print_text(op.attrs["format"], shown))
        if int(self._log[1]) > PRINT_WORDS:
            sys.stdout.write(
                f"kernel '{self._func.name}' printed more than a launch has room for; some of it is missing\n"
            )


_Range = tuple[int, int, int]
"""First slot of an array, its dimensions, bytes of an element."""


def _to_compare(func: Func, slots: list[int]) -> list[tuple[_Range, _Range]]:
    """Pairs of arrays of which one is written without atomics because only its own thread does, the other with them."""
    own = own_arrays(func)
    shared = shared_arrays(func, own)

    def where(k: int) -> _Range:
        kind = func.params[k].type
        assert isinstance(kind, ArrayType) and kind.dtype is not Any
        return slots[k], kind.ndim, size_of(kind.dtype)

    number = {p: k for k, p in enumerate(func.params)}
    return [
        (where(number[a]), where(number[b]))
        for a in sorted(own, key=number.__getitem__)
        for b in sorted(shared, key=number.__getitem__)
    ]


def _overlap(slots: np.ndarray, a: _Range, b: _Range) -> bool:
    """Whether two array arguments touch the same bytes."""
    ends = []
    for at, ndim, size in (a, b):
        data, shape, strides = int(slots[at]), slots[at + 1 : at + 1 + ndim], slots[at + 1 + ndim : at + 1 + 2 * ndim]
        if not data or not all(shape):
            return False
        reach = [(int(n) - 1) * int(s) for n, s in zip(shape, strides, strict=True)]
        ends.append((data + sum(r for r in reach if r < 0), data + sum(r for r in reach if r > 0) + size))
    return ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1]


class CudaBackend:
    """Compiles kernels for one device.

    ordered: accumulations from several threads to one floating-point number happen in the order of the threads, so
        that every run gives the same bits; such kernels then run on one thread, the others are not changed.
    """

    name, few_apart, kept_as = "cuda", False, ""

    def __init__(self, driver: Loader, compiler: Compiler, ordered: bool = False) -> None:
        self.driver, self.compiler, self.ordered = driver, compiler, ordered

    def again(self, record: Record) -> None:
        """See `Backend`: nothing is kept."""

    def begin(self, func: Func, check: bool = False, soon: bool = False) -> None:
        """See `Backend`: there is no such way."""

    def compile(self, func: Func, check: bool = False) -> CudaExecutable:
        if self.ordered and shared_arrays(func, own_arrays(func)):
            func = Func(func.name, func.body, func.span, func.dims, {**func.attrs, "serial": True})
        return CudaExecutable(self.driver, self.compiler, func, check, self.ordered)
