"""CUDA text on the CPU, for tests: a header that gives its words a meaning in plain C++, and g++.

Threads run one after another, so races are not tested.  A warp is one thread here, or 32 that wait for each other where
they exchange values (`HostCompiler(warps=True)`).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.core.backends.base import argument_block
from sim.core.backends.cuda.prelude import BLOCK, PRELUDE
from sim.core.backends.cuda.text import CudaText
from sim.core.lang.ir.core import Func
from sim.core.runtime.devices.cuda_device import CudaDevice

GXX = shutil.which("g++")
needs_gxx = pytest.mark.skipif(
    GXX is None, reason="the CUDA text is run on the CPU by g++, which this machine does not have"
)

SHIM = r"""
typedef __SIZE_TYPE__ size_t;
#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
struct index3 { unsigned x, y, z; };
static index3 threadIdx, blockIdx;
#define memcpy __builtin_memcpy
#define MATH1(name) \
    static inline float name##f(float a) { return __builtin_##name##f(a); } \
    static inline double name(double a) { return __builtin_##name(a); }
#define MATH2(name) \
    static inline float name##f(float a, float b) { return __builtin_##name##f(a, b); } \
    static inline double name(double a, double b) { return __builtin_##name(a, b); }
MATH1(sqrt) MATH1(cbrt) MATH1(exp) MATH1(log) MATH1(log2) MATH1(log10) MATH1(sin) MATH1(cos)
MATH1(tan) MATH1(asin) MATH1(acos) MATH1(atan) MATH1(erf) MATH1(erfc)
MATH1(sinh) MATH1(cosh) MATH1(tanh) MATH1(floor) MATH1(ceil) MATH1(trunc) MATH1(rint) MATH1(fabs)
MATH2(fmod) MATH2(pow) MATH2(atan2) MATH2(copysign) MATH2(fmin) MATH2(fmax)
static inline float __int_as_float(int a) { float b; memcpy(&b, &a, 4); return b; }
static inline double __longlong_as_double(long long a) { double b; memcpy(&b, &a, 8); return b; }
template <class T> static inline T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }
template <class T> static inline T atomicCAS(T *p, T seen, T v) { T old = *p; if (old == seen) *p = v; return old; }
#define WIDE(T, name, align) struct alignas(align) name##2 { T x, y; }; \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }
WIDE(float, float, 8) WIDE(int, int, 8) WIDE(unsigned, uint, 8)
WIDE(double, double, 16) WIDE(long long, longlong, 16) WIDE(unsigned long long, ulonglong, 16)
#define WIDE4(T, name) struct alignas(16) name##4 { T x, y, z, w; }; \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
WIDE4(float, float) WIDE4(int, int) WIDE4(unsigned, uint)
"""
ALONE = r"""
static inline unsigned __activemask() { return 1; }
template <class T> static inline T __shfl_down_sync(unsigned, T v, int) { return v; }
template <class T> static inline T __shfl_sync(unsigned, T v, int) { return v; }
template <class T> static inline unsigned __match_any_sync(unsigned, T) { return 1u << (threadIdx.x & 31); }
static inline bool __any_sync(unsigned, bool what) { return what; }
static inline unsigned __ballot_sync(unsigned, bool what) { return what ? 1u << (threadIdx.x & 31) : 0u; }
#define __popc __builtin_popcount
#define __popcll __builtin_popcountll
#define __ffs(x) __builtin_ffs((int)(x))
#define RUN(kernel) for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel
"""
"""A thread is a warp by itself."""

WARPS = r"""
#include <ucontext.h>
#include <cstdio>
#include <cstdlib>
#include <functional>
struct lane { ucontext_t place; int state; const void *at; int turn; unsigned long long put[2]; char stack[1 << 16]; };
enum { ENDED, RUNS, WAITS };
static lane lanes[32];
static ucontext_t warp;
static int now;
static unsigned members;  // lanes that have met
static std::function<void()> body;
static void enter() { body(); lanes[now].state = ENDED; swapcontext(&lanes[now].place, &warp); }
static void run_warp(unsigned first, unsigned count) {
    for (unsigned k = 0; k < 32; ++k) {
        lanes[k].state = k < count ? RUNS : ENDED;
        lanes[k].turn = 0;
        if (k >= count) continue;
        getcontext(&lanes[k].place);
        lanes[k].place.uc_stack.ss_sp = lanes[k].stack;
        lanes[k].place.uc_stack.ss_size = sizeof lanes[k].stack;
        makecontext(&lanes[k].place, enter, 0);
    }
    for (;;) {
        for (now = 0; now < 32; ++now)
            if (lanes[now].state == RUNS) { threadIdx.x = first + now; swapcontext(&warp, &lanes[now].place); }
        const void *at = nullptr;  // those that wait at the place of the first one go on together
        members = 0;
        for (int k = 0; k < 32; ++k)
            if (lanes[k].state == WAITS && (!at || lanes[k].at == at)) {
                at = lanes[k].at; members |= 1u << k; lanes[k].state = RUNS;
            }
        if (!members) return;
    }
}
static void meet(const void *at, unsigned mask, unsigned long long put) {
    lane &self = lanes[now];
    self.put[self.turn ^= 1] = put;
    self.at = at;
    self.state = WAITS;
    swapcontext(&self.place, &warp);
    if (mask & ~members) { fprintf(stderr, "a warp waits for lanes that do not come\n"); abort(); }
}
template <class T> static unsigned long long bits(T v) { unsigned long long b = 0; memcpy(&b, &v, sizeof v); return b; }
template <class T> static T of(int k) { T v; memcpy(&v, &lanes[k].put[lanes[now].turn], sizeof v); return v; }
#define HERE __builtin_return_address(0)
static __attribute__((noinline)) unsigned __activemask() { meet(HERE, 0, 0); return members; }
template <class T> static __attribute__((noinline)) T __shfl_sync(unsigned m, T v, int from) {
    meet(HERE, m, bits(v));
    return members >> from & 1 ? of<T>(from) : v;
}
template <class T> static __attribute__((noinline)) T __shfl_down_sync(unsigned m, T v, int step) {
    meet(HERE, m, bits(v));
    return now + step < 32 && (members >> (now + step) & 1) ? of<T>(now + step) : v;
}
template <class T> static __attribute__((noinline)) unsigned __match_any_sync(unsigned m, T v) {
    meet(HERE, m, bits(v));
    unsigned same = 0;
    for (int k = 0; k < 32; ++k) if ((members >> k & 1) && of<T>(k) == v) same |= 1u << k;
    return same;
}
static __attribute__((noinline)) unsigned __ballot_sync(unsigned m, bool v) {
    meet(HERE, m, v);
    unsigned yes = 0;
    for (int k = 0; k < 32; ++k) if ((members >> k & 1) && of<bool>(k)) yes |= 1u << k;
    return yes;
}
static __attribute__((noinline)) bool __any_sync(unsigned m, bool v) {
    meet(HERE, m, v);
    for (int k = 0; k < 32; ++k) if ((members >> k & 1) && of<bool>(k)) return true;
    return false;
}
#define __popc __builtin_popcount
#define __popcll __builtin_popcountll
#define __ffs(x) __builtin_ffs((int)(x))
static void run_block(unsigned threads) {
    for (unsigned first = 0; first < threads; first += 32)
        run_warp(first, threads - first < 32 ? threads - first : 32);
}
#define RUN(kernel) { body = [&] { kernel; }; run_block(threads); }
"""
"""Threads of a warp take turns, and wait for each other where they exchange values."""

_KERNEL = re.compile(
    r'extern "C" __global__ void __launch_bounds__\(\d+\) (\w+)\(const __grid_constant__ (\w+) args(, long long \*const'
    r" printed)?\)"
)
_PTX = {
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));': "_Float16 h = x; memcpy(&bits, &h, 2);",
    'asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));': "_Float16 h; memcpy(&h, &bits, 2); x = (float)h;",
}
"""Instructions of a GPU that the texts name, and what they do."""
_FLAGS = [
    "-std=c++17",
    "-O0",
    "-fPIC",
    "-shared",
    "-w",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-x",
    "c++",
]


def host_text(text: str, warps: bool = False) -> str:
    """The text with the header, and for every kernel a function that runs a grid of it; warps: of threads that exchange
    values."""
    runs = []
    for symbol, struct, log in _KERNEL.findall(text):
        more = ", log" if log else ""
        runs.append(f"""
extern "C" {{
unsigned size_{symbol} = sizeof({struct});
void run_{symbol}(unsigned blocks, unsigned threads, const {struct} *block, long long *log) {{
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        RUN({symbol}(*block{more}));
}}
}}""")
    for instruction, meaning in _PTX.items():
        text = text.replace(instruction, meaning)
    return SHIM + (WARPS if warps else ALONE) + text + "\n".join(runs)


class HostCompiler:
    """Makes shared libraries of CUDA texts; keeps them by text for as long as the process lives."""

    def __init__(self, warps: bool = False) -> None:
        self.warps = warps
        self.folder = tempfile.TemporaryDirectory(prefix="cuda_on_cpu_")
        self.texts: list[str] = []

    @staticmethod
    @functools.cache
    def shared() -> HostCompiler:
        return HostCompiler()

    def image(self, text: str) -> bytes:
        """The path of the library, in the place of machine code."""
        self.texts.append(text)
        path = Path(self.folder.name) / (hashlib.sha256(text.encode()).hexdigest()[:24] + ".so")
        if not path.exists():
            made = subprocess.run(
                [str(GXX), *_FLAGS, "-o", str(path), "-", "-lm"],
                input=host_text(text, self.warps),
                capture_output=True,
                text=True,
            )
            assert made.returncode == 0, made.stderr[:4000]
        return str(path).encode()


class HostKernel:
    """A kernel of a library that `HostCompiler` has made."""

    def __init__(self, library: Any, symbol: str) -> None:
        self.name, self.run = symbol, getattr(library, f"run_{symbol}")
        self.run.argtypes, self.run.restype = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p], None
        self.size = ctypes.c_uint.in_dll(library, f"size_{symbol}").value
        """Bytes of its argument block."""


class HostDriver:
    """The driver's calls on host memory.  `calls` notes them, with the sizes that they were given.

    Memory that is freed is filled with rubbish, and fresh memory too, so that a use after the end shows.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal, self._streams = ordinal, 1000
        self.libraries: dict[bytes, Any] = {}
        self.calls: list[tuple] = []
        self.live: dict[int, np.ndarray] = {}
        self.stream, self.capability, self.version, self.label = 1000, 90, 13000, "the CPU, as a stand-in"
        self.noted: list[Callable[[], None]] | None = None

    def attribute(self, name: str) -> int:
        return {"MULTIPROCESSOR_COUNT": 4, "MAX_SHARED_MEMORY_PER_BLOCK": 49152}[name]

    def memory_info(self) -> tuple[int, int]:
        return 2**30, 2**31

    def _do(self, action: Callable[[], None], *call: Any) -> None:
        self.calls.append(call)
        if self.noted is not None:
            self.noted.append(action)
        else:
            action()

    def load(self, image: bytes, symbol: str) -> HostKernel:
        library = self.libraries.get(image)
        if library is None:
            library = self.libraries[image] = ctypes.CDLL(image.decode())
        return HostKernel(library, symbol)

    def launch(self, kernel: HostKernel, blocks: int, threads: int, parameters: int) -> None:
        """The arguments are read now, as the driver reads them, also where the kernel runs later."""
        addresses = (ctypes.c_void_p * 2).from_address(parameters)
        block = ctypes.create_string_buffer(ctypes.string_at(addresses[0], kernel.size))
        log = ctypes.c_void_p.from_address(addresses[1]).value if addresses[1] else None
        self._do(lambda: kernel.run(blocks, threads, block, log), "launch", kernel.name, blocks, threads)

    def allocate(self, nbytes: int) -> int:
        memory = np.full(nbytes + 256 + 64, 0xCD, np.uint8)
        address = memory.ctypes.data + -memory.ctypes.data % 256
        self.live[address] = memory
        self.calls.append(("allocate", nbytes))
        return address

    def free(self, address: int) -> None:
        self.calls.append(("free",))
        self.live.pop(address)[:] = 0xDD

    def _owner(self, address: int, nbytes: int) -> None:
        """Nothing is copied from or to memory that is not allocated."""
        assert any(
            m.ctypes.data <= address and address + nbytes <= m.ctypes.data + m.nbytes for m in list(self.live.values())
        ), "not memory of the device"

    def copy(self, dest: int, src: int, nbytes: int) -> None:
        self._owner(dest, nbytes)
        self._owner(src, nbytes)
        assert src + nbytes <= dest or dest + nbytes <= src, "copies of overlapping memory"
        self._do(lambda: ctypes.memmove(dest, src, nbytes), "copy", nbytes)

    def copy_from(self, other: Any, dest: int, src: int, nbytes: int) -> None:
        other._owner(src, nbytes)
        self._owner(dest, nbytes)
        self._do(lambda: ctypes.memmove(dest, src, nbytes), "copy from a peer", nbytes)

    def upload(self, dest: int, host: np.ndarray) -> None:
        assert self.noted is None, "host memory in a captured stretch"
        assert host.flags.c_contiguous
        self._owner(dest, host.nbytes)
        self._do(lambda: ctypes.memmove(dest, host.ctypes.data, host.nbytes), "upload", host.nbytes)

    def download(self, host: np.ndarray, src: int) -> None:
        assert self.noted is None, "the host reads in a captured stretch"
        self._owner(src, host.nbytes)
        self._do(lambda: ctypes.memmove(host.ctypes.data, src, host.nbytes), "download", host.nbytes)

    def upload_later(self, dest: int, host: int, nbytes: int) -> None:
        self._owner(dest, nbytes)
        self._do(lambda: ctypes.memmove(dest, host, nbytes), "upload later", nbytes)

    def download_later(self, host: int, src: int, nbytes: int) -> None:
        self._owner(src, nbytes)
        self._do(lambda: ctypes.memmove(host, src, nbytes), "download later", nbytes)

    def fill(self, dest: int, value: int, nbytes: int) -> None:
        self._owner(dest, nbytes)
        self._do(lambda: ctypes.memset(dest, value, nbytes), "fill", nbytes)

    def pinned(self, nbytes: int) -> np.ndarray:
        return np.zeros(nbytes, np.uint8)

    def synchronize(self, everything: bool = False) -> None:
        assert self.noted is None, "the host waits in a captured stretch"
        self.calls.append(("synchronize",) if not everything else ("synchronize", "everything"))

    def new_stream(self) -> Any:
        self._streams += 1
        return self._streams

    def new_event(self, timing: bool) -> Any:
        return [0.0]

    def record_event(self, event: Any, stream: Any) -> None:
        event[0] = float(len(self.calls))
        self.calls.append(("record", stream))

    def elapsed(self, begin: Any, end: Any) -> float:
        return end[0] - begin[0]

    def wait_event(self, stream: Any, event: Any) -> None:
        self.calls.append(("wait", stream))

    def follow(self, stream: Any, other: Any) -> None:
        self.record_event(self.new_event(False), other)
        self.wait_event(stream, None)

    def drop_event(self, event: Any) -> None:
        pass

    def drop_stream(self, stream: Any) -> None:
        self.calls.append(("drop", stream))

    def begin_capture(self) -> None:
        self.noted = []

    def end_capture(self) -> Any:
        noted, self.noted = self.noted, None
        return noted

    def replay(self, graph: Any) -> None:
        self.calls.append(("replay", len(graph)))
        for action in graph:
            action()

    def drop_graph(self, graph: Any) -> None:
        graph.clear()

    def memory(self) -> tuple[int, int]:
        return 2**30, 2**30


def fake_gpu(name: str = "cuda:0", deterministic: bool = False) -> CudaDevice:
    """A GPU of which driver and compiler are the stand-ins."""
    return CudaDevice(name, HostDriver(int(name[5:])), HostCompiler.shared(), deterministic)


# ------------------------------------------------------------------------------------------ many kernels in one text
class Batch:
    """Kernels in one text: one compilation for all of them.  Their names must differ."""

    def __init__(self, funcs: list[Func], check: bool = False, careful: bool = False) -> None:
        self.writers = {f.name: CudaText(f, check, careful) for f in funcs}
        assert len(self.writers) == len(funcs), "two kernels of one name"
        self.kernels = {name: w.kernel() for name, w in self.writers.items()}
        self.text = PRELUDE + "\n".join(self.kernels.values())
        self._library: Any = None

    def launch(self, name: str, dims: list[int], args: list[Any], gpu: CudaDevice | None = None) -> np.ndarray:
        """Runs a kernel on the CPU, or on a GPU with copies of the arrays, which come back; the error record."""
        writer = self.writers[name]
        compiler, driver = (HostCompiler.shared(), HostDriver()) if gpu is None else (gpu.backend.compiler, gpu.driver)  # type: ignore[attr-defined]
        if self._library is None:
            self._library = compiler.image(self.text)
        error = np.zeros(8, np.int64) if gpu is None else gpu.error_record()
        block = argument_block(writer.func, dims, args, error)
        moved = [] if gpu is None else [_Moved(gpu, a, block) for a in args if isinstance(a, np.ndarray)]
        parameters = (ctypes.c_void_p * 2)(block.ctypes.data, None)
        serial = bool(writer.func.attrs.get("serial"))
        blocks = 1 if serial else -(-int(np.prod(dims)) // BLOCK)
        driver.launch(
            driver.load(self._library, writer.symbol), blocks, 1 if serial else BLOCK, ctypes.addressof(parameters)
        )
        for m in moved:
            m.back()
        return error


class _Moved:
    """The memory of a NumPy array on a GPU; the argument block points there."""

    def __init__(self, gpu: CudaDevice, host: np.ndarray, block: np.ndarray) -> None:
        low, high = np.lib.array_utils.byte_bounds(host)
        self.host = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
        self.owner, self.gpu, self.buffer = host, gpu, gpu.allocate(high - low)
        gpu.driver.upload(self.buffer.address, self.host)
        block[block == host.ctypes.data] = self.buffer.address + host.ctypes.data - low

    def back(self) -> None:
        raw = np.empty_like(self.host)
        self.gpu.driver.download(raw, self.buffer.address)
        self.host[:] = raw


def renamed(func: Func, name: str) -> Func:
    return Func(name, func.body, func.span, func.dims, func.attrs)
