"""The CUDA driver: the few calls that the project needs, errors in words, and nothing of arrays or kernels.

Importing `cuda.bindings` costs a tenth of a second, so it happens when somebody asks for a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.core.lang.errors import SimError

OLDEST_DRIVER = 12000
_thread = threading.local()


class CudaError(SimError):
    """A call of the CUDA driver failed."""


@functools.cache
def _bindings() -> Any:
    from cuda.bindings import driver

    return driver


def _check(result: tuple) -> Any:
    code, *values = result
    if int(code):
        driver = _bindings()
        name, text = (driver.cuGetErrorName(code)[1], driver.cuGetErrorString(code)[1])
        raise CudaError(f"the CUDA driver reports {name.decode()}: {text.decode()}")
    return values[0] if len(values) == 1 else values


_NOT_READY = 600


def _ended(result: tuple) -> bool:
    """The answer of a query: whether what it asks for has come to pass."""
    if int(result[0]) == _NOT_READY:
        return False
    _check(result)
    return True


@functools.cache
def find_gpus() -> tuple[int, str]:
    """(number of GPUs, why there are none).  Never raises; the answer of the first call is kept."""
    try:
        driver = _bindings()
    except ImportError:
        return 0, "the CUDA bindings are not installed; pip install 'simopt-xpbd[cuda]'"
    try:
        code = driver.cuInit(0)[0]
    except RuntimeError:  # the bindings look for the driver's library at the first call
        return 0, "this machine has no NVIDIA driver; install one of version 580 or newer"
    if int(code):
        return (
            0,
            f"the NVIDIA driver does not start ({driver.cuGetErrorName(code)[1].decode()}); see what nvidia-smi says",
        )
    count, version = int(_check(driver.cuDeviceGetCount())), int(_check(driver.cuDriverGetVersion()))
    if version < OLDEST_DRIVER:
        return (
            0,
            (
                f"the NVIDIA driver is of CUDA {version // 1000}.{version % 1000 // 10}; install one of CUDA"
                f" {OLDEST_DRIVER // 1000} or newer"
            ),
        )
    return count, "" if count else "the NVIDIA driver finds no GPU"


class CudaDriver:
    """One GPU: its primary context, memory pool and stream.  Addresses and handles are integers or opaque objects."""

    def __init__(self, ordinal: int) -> None:
        cu = self._cu = _bindings()
        self.ordinal = ordinal
        self._device = _check(cu.cuDeviceGet(ordinal))
        self._context = _check(cu.cuDevicePrimaryCtxRetain(self._device))
        self._enter()
        kinds = cu.CUdevice_attribute
        major, minor = (
            self._attribute(getattr(kinds, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"))
            for part in ("MAJOR", "MINOR")
        )
        self.capability, self.version = 10 * major + minor, int(_check(cu.cuDriverGetVersion()))
        self.label = _check(cu.cuDeviceGetName(128, self._device)).split(b"\0")[0].decode()
        pool = _check(cu.cuDeviceGetDefaultMemPool(self._device))
        keep = cu.cuuint64_t(2**64 - 1)  # freed memory stays in the pool
        _check(cu.cuMemPoolSetAttribute(pool, cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, keep))
        self._pool = pool
        self._reads_host = bool(self._attribute(kinds.CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
        self._streams: list[Any] = []
        self._pinned: dict[int, int] = {}
        self.stream = self.new_stream()
        self._kept: list[Any] = []
        self._own: set[int] | None = None
        self._later: list[Callable[[], None]] = []

    def _attribute(self, which: Any) -> int:
        return int(_check(self._cu.cuDeviceGetAttribute(which, self._device)))

    def attribute(self, name: str) -> int:
        """An attribute of the device, by its name after CU_DEVICE_ATTRIBUTE_."""
        return self._attribute(getattr(self._cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"))

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        self._enter()
        free, total = _check(self._cu.cuMemGetInfo())
        return free, total

    def _enter(self) -> None:
        """Make this GPU the one that calls of this thread go to: another library may have chosen another since."""
        if getattr(_thread, "ordinal", None) != self.ordinal or find_gpus()[0] > 1:
            _check(self._cu.cuCtxSetCurrent(self._context))
            _thread.ordinal = self.ordinal

    # -- kernels
    def load(self, image: bytes, symbol: str) -> Any:
        """A kernel of an image (machine code or PTX)."""
        self._enter()
        cu = self._cu
        library = _check(cu.cuLibraryLoadData(image, [], [], 0, [], [], 0))
        self._kept.append((library, image))
        return _check(cu.cuKernelGetFunction(_check(cu.cuLibraryGetKernel(library, symbol.encode()))))

    def launch(self, kernel: Any, blocks: int, threads: int, parameters: int) -> None:
        """Starts a kernel on the present stream."""
        self._enter()
        code = self._cu.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, self.stream, parameters, 0)
        if int(code[0]):
            _check(code)

    # -- memory
    def allocate(self, nbytes: int) -> int:
        """Memory on the GPU, in the order of the present stream."""
        self._enter()
        address = int(_check(self._cu.cuMemAllocFromPoolAsync(max(nbytes, 1), self._pool, self.stream)))
        if self._own is not None:
            self._own.add(address)
        return address

    def free(self, address: int) -> None:
        """Gives memory back, after what all streams have been told so far."""
        self._enter()
        if self._own is not None and address not in self._own:  # a capture may only free what it has allocated itself
            self._later.append(lambda: self.free(address))
            return
        for other in self._streams if len(self._streams) > 1 and self._own is None else ():
            if other is not self.stream:
                self.follow(self.stream, other)
        _check(self._cu.cuMemFreeAsync(address, self.stream))

    def copy(self, dest: int, src: int, nbytes: int) -> None:
        """Bytes on the GPU to other bytes that do not overlap them."""
        self._enter()
        _check(self._cu.cuMemcpyAsync(dest, src, nbytes, self.stream))

    def copy_from(self, other: CudaDriver, dest: int, src: int, nbytes: int) -> None:
        """Bytes of another GPU to this one; both have ended with them when this returns."""
        other.synchronize()
        self._enter()
        _check(self._cu.cuMemcpyPeerAsync(dest, self._context, src, other._context, nbytes, self.stream))
        self.synchronize()

    def upload(self, dest: int, host: np.ndarray) -> None:
        """Packed host data to the GPU; they may change or go as soon as this returns."""
        self._enter()
        _check(self._cu.cuMemcpyHtoDAsync(dest, host.ctypes.data, host.nbytes, self.stream))
        if self._reads_host or self._is_pinned(host):  # else the driver has put them by before it returns
            self.synchronize()

    def upload_later(self, dest: int, host: int, nbytes: int) -> None:
        """Bytes of pinned memory to the GPU, in the order of the stream: they must stay as they are until then."""
        self._enter()
        _check(self._cu.cuMemcpyHtoDAsync(dest, host, nbytes, self.stream))

    def download_later(self, host: int, src: int, nbytes: int) -> None:
        """Bytes of the GPU to pinned memory, in the order of the stream: they are there when it has been waited for."""
        self._enter()
        _check(self._cu.cuMemcpyDtoHAsync(host, src, nbytes, self.stream))

    def _is_pinned(self, host: np.ndarray) -> bool:
        at, end = host.ctypes.data, host.ctypes.data + host.nbytes
        return any(first < end and at < first + count for first, count in self._pinned.items())

    def download(self, host: np.ndarray, src: int) -> None:
        """Bytes of the GPU to packed host memory; waits for them."""
        self._enter()
        _check(self._cu.cuMemcpyDtoHAsync(host.ctypes.data, src, host.nbytes, self.stream))
        self.synchronize()

    def fill(self, dest: int, value: int, nbytes: int) -> None:
        """Sets bytes."""
        self._enter()
        _check(self._cu.cuMemsetD8Async(dest, value, nbytes, self.stream))

    def pinned(self, nbytes: int) -> np.ndarray:
        """Host memory (bytes, zero) that the GPU reads and writes directly."""
        self._enter()
        address = int(
            _check(
                self._cu.cuMemHostAlloc(
                    max(nbytes, 1), self._cu.CU_MEMHOSTALLOC_PORTABLE | self._cu.CU_MEMHOSTALLOC_DEVICEMAP
                )
            )
        )
        self._pinned[address] = max(nbytes, 1)
        owner = _Pinned(self, address)
        raw = (ctypes.c_uint8 * max(nbytes, 1)).from_address(address)
        raw._owner = owner  # type: ignore[attr-defined]  # NumPy keeps the ctypes object alive
        made = np.ctypeslib.as_array(raw)
        made[:] = 0
        return made

    # -- streams, events, graphs
    def new_stream(self) -> Any:
        """A stream in order with the legacy default stream, on which other libraries work by default."""
        self._enter()
        made = _check(self._cu.cuStreamCreate(0))
        self._streams.append(made)
        return made

    def synchronize(self, everything: bool = False) -> None:
        """Waits until everything on the present stream has ended; `everything`: on all streams."""
        self._enter()
        _check(self._cu.cuCtxSynchronize() if everything else self._cu.cuStreamSynchronize(self.stream))

    def new_event(self, timing: bool) -> Any:
        self._enter()
        flags = self._cu.CUevent_flags
        return _check(self._cu.cuEventCreate(int(flags.CU_EVENT_DEFAULT if timing else flags.CU_EVENT_DISABLE_TIMING)))

    def record_event(self, event: Any, stream: Any) -> None:
        self._enter()
        _check(self._cu.cuEventRecord(event, stream))

    def wait_event(self, stream: Any, event: Any) -> None:
        """What the stream is told from now on waits for the event."""
        self._enter()
        _check(self._cu.cuStreamWaitEvent(stream, event, 0))

    def follow(self, stream: Any, other: Any) -> None:
        """What `stream` is told from now on waits for all that `other` has been told."""
        event = self.new_event(False)
        self.record_event(event, other)
        self.wait_event(stream, event)
        _check(self._cu.cuEventDestroy(event))  # the wait stays

    def drop_event(self, event: Any) -> None:
        self._after_capture(lambda: _check(self._cu.cuEventDestroy(event)))

    def drop_stream(self, stream: Any) -> None:
        """The stream is not used any more; what it has been told is done."""
        self._after_capture(lambda: self._drop_stream(stream))

    def _drop_stream(self, stream: Any) -> None:
        self._enter()
        self._streams.remove(stream)
        _check(self._cu.cuStreamDestroy(stream))

    def stream_ended(self, stream: Any) -> bool:
        """Whether all that the stream has been told is done.  Waits for nothing."""
        self._enter()
        return _ended(self._cu.cuStreamQuery(stream))

    def event_ended(self, event: Any) -> bool:
        """Whether all that was told before the event was recorded is done.  Waits for nothing."""
        self._enter()
        return _ended(self._cu.cuEventQuery(event))

    def elapsed(self, begin: Any, end: Any) -> float:
        """Milliseconds between two recorded events; waits for the second."""
        self._enter()
        _check(self._cu.cuEventSynchronize(end))
        return float(_check(self._cu.cuEventElapsedTime(begin, end)))

    def begin_capture(self) -> None:
        """From now on the present stream notes instead of doing."""
        self._enter()
        self._own = set()
        _check(
            self._cu.cuStreamBeginCapture(self.stream, self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        )

    def end_capture(self) -> Any:
        """What was noted, as something to `replay`."""
        try:
            graph = _check(self._cu.cuStreamEndCapture(self.stream))
        finally:
            self._own, later, self._later = None, self._later, []
            for give_back in later:
                give_back()
        made = _check(self._cu.cuGraphInstantiate(graph, 0))
        _check(self._cu.cuGraphDestroy(graph))
        return made

    def replay(self, graph: Any) -> None:
        """Does what was noted."""
        self._enter()
        _check(self._cu.cuGraphLaunch(graph, self.stream))

    def drop_graph(self, graph: Any) -> None:
        """Forgets what was noted; what runs of it may end."""
        self._after_capture(lambda: _check(self._cu.cuGraphExecDestroy(graph)))

    def free_pinned(self, address: int) -> None:
        """Gives pinned memory back; waits for what uses it."""
        self._after_capture(lambda: self._free_pinned(address))

    def _free_pinned(self, address: int) -> None:
        self.synchronize(everything=True)  # copies from there may still be under way
        del self._pinned[address]
        _check(self._cu.cuMemFreeHost(address))

    def _after_capture(self, action: Callable[[], Any]) -> None:
        """Objects end at any time, also while a stream notes, and the driver refuses most calls then."""
        if self._own is None:
            action()
        else:
            self._later.append(action)

    def memory(self) -> tuple[int, int]:
        """(free, all) bytes of the GPU."""
        self._enter()
        free, total = _check(self._cu.cuMemGetInfo())
        return int(free), int(total)


class _Pinned:
    """Owns pinned host memory."""

    def __init__(self, driver: CudaDriver, address: int) -> None:
        self.driver, self.address = driver, address

    def __del__(self) -> None:
        try:
            self.driver.free_pinned(self.address)
        except Exception:  # noqa: BLE001 the interpreter is ending, and the driver with it
            return
