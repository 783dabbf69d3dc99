"""The calls of the CUDA driver, by a recording stand-in for its bindings: which, in which order, on which stream."""

from __future__ import annotations

import ctypes
import inspect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim.core.backends.cuda import driver as cuda_driver
from sim.core.backends.cuda.driver import CudaDriver, CudaError

try:
    from cuda.bindings import driver as REAL  # noqa: N812 a constant, None where it is not installed
except ImportError:
    REAL = None


class Bindings:
    """Notes every call, and answers with what the table says (a number that counts up for handles and addresses)."""

    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP = 1, 2
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS=88,
    )
    CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)
    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0, CU_EVENT_DISABLE_TIMING=2)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
    makes = {"Create", "Alloc", "Retain", "Get", "Load", "EndCapture", "Instantiate"}

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.fails: dict[str, int] = {}
        self.count = 100
        self.memory: list[Any] = []

    def cuuint64_t(self, value: int) -> int:
        return value

    def cuDeviceGetAttribute(self, which: int, device: Any) -> tuple:  # noqa: N802 the driver's names
        return 0, {75: 9, 76: 0, 88: 0}[which]

    def cuDriverGetVersion(self) -> tuple:  # noqa: N802
        return 0, 13000

    def cuDeviceGetName(self, size: int, device: Any) -> tuple:  # noqa: N802
        return 0, b"a GPU\0\0\0"

    def cuGetErrorName(self, code: int) -> tuple:  # noqa: N802
        return 0, b"CUDA_ERROR_OUT_OF_MEMORY"

    def cuGetErrorString(self, code: int) -> tuple:  # noqa: N802
        return 0, b"out of memory"

    def cuMemHostAlloc(self, size: int, flags: int) -> tuple:  # noqa: N802
        self.memory.append(ctypes.create_string_buffer(size))
        return 0, ctypes.addressof(self.memory[-1])

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> tuple:
            if REAL is not None:
                inspect.signature(getattr(REAL, name)).bind(*args)  # as many as the real one takes
            self.calls.append((name, *args))
            if name in self.fails:
                return (self.fails[name],)
            self.count += 1
            return (0, self.count) if any(part in name for part in self.makes) else (0,)

        if not name.startswith("cu"):
            raise AttributeError(name)
        return call


@pytest.fixture
def bindings(monkeypatch):
    found = Bindings()
    monkeypatch.setattr(cuda_driver, "_bindings", lambda: found)
    monkeypatch.setattr(cuda_driver, "_thread", SimpleNamespace())
    monkeypatch.setattr(cuda_driver, "find_gpus", lambda: (1, ""))
    return found


def told(bindings: Bindings) -> list[str]:
    names = [c[0] for c in bindings.calls]
    bindings.calls.clear()
    return names


def test_start(bindings):
    driver = CudaDriver(1)
    assert (driver.capability, driver.version, driver.label) == (90, 13000, "a GPU")
    assert bindings.calls[0] == ("cuDeviceGet", 1)
    assert told(bindings)[-3:] == ["cuDeviceGetDefaultMemPool", "cuMemPoolSetAttribute", "cuStreamCreate"]


def test_calls_go_to_the_present_stream_and_the_own_gpu(bindings):
    first, second = CudaDriver(0), CudaDriver(1)
    told(bindings)
    first.launch("kernel", 7, 256, 1234)
    assert bindings.calls == [
        ("cuCtxSetCurrent", first._context),
        ("cuLaunchKernel", "kernel", 7, 1, 1, 256, 1, 1, 0, first.stream, 1234, 0),
    ]
    told(bindings)
    first.fill(64, 0, 8)
    first.copy(64, 128, 16)
    second.fill(64, 0, 8)
    assert told(bindings) == ["cuMemsetD8Async", "cuMemcpyAsync", "cuCtxSetCurrent", "cuMemsetD8Async"]
    host = np.zeros(3, np.float32)
    first.stream = side = first.new_stream()
    told(bindings)
    first.upload(64, host)
    first.download(host, 64)
    assert [c[-1] for c in bindings.calls] == [side] * 3
    assert told(bindings) == ["cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamSynchronize"]
    second.copy_from(first, 1, 2, 3)
    assert told(bindings) == ["cuStreamSynchronize", "cuCtxSetCurrent", "cuMemcpyPeerAsync", "cuStreamSynchronize"]


def test_with_several_gpus_every_call_says_which(bindings, monkeypatch):
    """Another library may have chosen another one in between."""
    monkeypatch.setattr(cuda_driver, "find_gpus", lambda: (2, ""))
    driver = CudaDriver(0)
    told(bindings)
    driver.fill(64, 0, 8)
    driver.fill(64, 0, 8)
    assert told(bindings) == ["cuCtxSetCurrent", "cuMemsetD8Async"] * 2


def test_whether_work_is_done_is_asked_without_waiting(bindings):
    driver = CudaDriver(0)
    event = driver.new_event(False)
    told(bindings)
    assert driver.stream_ended(driver.stream) and driver.event_ended(event)
    bindings.fails = {"cuStreamQuery": 600, "cuEventQuery": 600}  # not ready
    assert not driver.stream_ended(driver.stream) and not driver.event_ended(event)
    assert told(bindings) == ["cuStreamQuery", "cuEventQuery"] * 2
    bindings.fails = {"cuStreamQuery": 2}
    with pytest.raises(CudaError, match="OUT_OF_MEMORY"):
        driver.stream_ended(driver.stream)


def test_memory_is_freed_after_all_streams_are_done_with_it(bindings):
    driver = CudaDriver(0)
    address = driver.allocate(0)
    assert bindings.calls[-1][:2] == ("cuMemAllocFromPoolAsync", 1)
    told(bindings)
    driver.free(address)
    assert bindings.calls == [("cuMemFreeAsync", address, driver.stream)]
    side = driver.new_stream()
    told(bindings)
    driver.free(driver.allocate(8))
    assert [c[-1] for c in bindings.calls if c[0] == "cuEventRecord"] == [side]
    assert told(bindings)[1:] == [
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventDestroy",
        "cuMemFreeAsync",
    ]


def test_a_capture_frees_only_what_it_has_allocated(bindings):
    driver = CudaDriver(0)
    before = driver.allocate(8)
    told(bindings)
    driver.begin_capture()
    inside = driver.allocate(8)
    driver.free(before)
    driver.free(inside)
    graph = driver.end_capture()
    assert told(bindings) == [
        "cuStreamBeginCapture", "cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuStreamEndCapture", "cuMemFreeAsync",
        "cuGraphInstantiate", "cuGraphDestroy",
    ]  # fmt: skip
    driver.replay(graph)
    driver.drop_graph(graph)
    assert told(bindings) == ["cuGraphLaunch", "cuGraphExecDestroy"]


def test_pinned_memory_lives_as_long_as_its_views(bindings):
    driver = CudaDriver(0)
    view = driver.pinned(64).view(np.int64)[2:4]
    view[:] = 5
    told(bindings)
    assert view.tolist() == [5, 5] and not told(bindings)
    del view
    assert told(bindings) == ["cuCtxSynchronize", "cuMemFreeHost"], "copies from there may be under way"


def test_what_ends_during_a_capture_is_given_back_after_it(bindings):
    """The driver refuses most calls then, and breaks the capture."""
    driver = CudaDriver(0)
    view, stream, event, graph = driver.pinned(64), driver.new_stream(), driver.new_event(False), "a graph"
    told(bindings)
    driver.begin_capture()
    del view
    driver.drop_stream(stream)
    driver.drop_event(event)
    driver.drop_graph(graph)
    assert told(bindings) == ["cuStreamBeginCapture"]
    driver.end_capture()
    given_back = ["cuCtxSynchronize", "cuMemFreeHost", "cuStreamDestroy", "cuEventDestroy", "cuGraphExecDestroy"]
    assert told(bindings) == ["cuStreamEndCapture", *given_back, "cuGraphInstantiate", "cuGraphDestroy"]


def test_uploads_wait_where_the_device_reads_host_memory(bindings, monkeypatch):
    """Otherwise the driver has put pageable memory by before the call returns; pinned memory it never does."""
    driver = CudaDriver(0)
    told(bindings)
    driver.upload(64, np.zeros(3))
    pinned = driver.pinned(64)
    driver.upload(64, pinned[8:16])
    driver.upload_later(64, pinned.ctypes.data, 8)
    assert told(bindings) == ["cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", "cuStreamSynchronize", "cuMemcpyHtoDAsync"]
    monkeypatch.setattr(driver, "_reads_host", True)
    driver.upload(64, np.zeros(3))
    assert told(bindings) == ["cuMemcpyHtoDAsync", "cuStreamSynchronize"]


def test_errors_are_words(bindings):
    driver = CudaDriver(0)
    bindings.fails = {"cuMemAllocFromPoolAsync": 2, "cuLaunchKernel": 2}
    for failing in (lambda: driver.allocate(8), lambda: driver.launch("kernel", 1, 1, 0)):
        with pytest.raises(CudaError, match="CUDA_ERROR_OUT_OF_MEMORY: out of memory"):
            failing()
