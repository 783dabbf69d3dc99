"""GPUs: device memory from the driver's pool, transfers, and launches on one stream.

The host sees device memory by copies only: `numpy()` gives a read-only one, so that writing through it is an error and
not lost.  Work is enqueued on the present stream in order, and nothing waits for it but reading back.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.core.backends.base import Backend, Executable, argument_slots
from sim.core.backends.cuda.backend import Compiler, CudaBackend
from sim.core.backends.cuda.compile import NvrtcCompiler, target_of
from sim.core.backends.cuda.driver import CudaDriver, find_gpus
from sim.core.lang.ir.builder import Builder
from sim.core.lang.ir.core import Block, Func, Value, element_leaves
from sim.core.lang.memoize import compiling
from sim.core.lang.types import Type, array_type, size_of
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.base_device import Device, DeviceNode, Handle
from sim.core.runtime.memory import dlpack
from sim.core.runtime.memory.buffer import Buffer, Strided, View, packed_view
from sim.core.runtime.memory.elements import element
from sim.core.runtime.memory.spans import extent_of, reach

_SMALL = 256
"""Bytes of values for fills that stay on the device, so that filling again needs no transfer (and can be captured)."""

_RECORDS = 1024
"""Error records that are allocated at a time: pinning memory is slow."""


class _Allocation:
    """Owns device memory."""

    def __init__(self, driver: Any, nbytes: int) -> None:
        self.driver, self.address = driver, driver.allocate(nbytes)

    def __del__(self) -> None:
        try:
            self.driver.free(self.address)
        except Exception:  # noqa: BLE001 the interpreter is ending, and the driver with it
            return


class _DriverGraph:
    """Owns a graph of the driver."""

    def __init__(self, driver: Any, graph: Any) -> None:
        self.driver, self.graph = driver, graph

    def __del__(self) -> None:
        try:
            self.driver.drop_graph(self.graph)
        except Exception:  # noqa: BLE001 the interpreter is ending, and the driver with it
            return


@functools.cache
def transfer_kernel(kind: Type, ndim: int, adds: bool) -> Func:
    """dest = src, or dest += src over the floating-point parts, element by element, for arrays of any strides."""
    dest, src = (Value(array_type(kind, ndim), name) for name in ("dest", "src"))
    block = Block([dest, src])
    scalars = [leaf.scalar for leaf in element_leaves(dest)]
    with Builder(block) as b:
        index = [b.tid(axis) for axis in range(ndim)]
        leaves = [k for k, s in enumerate(scalars) if s.is_float or not adds]
        values = b.load(src, index, leaves)
        if adds:
            b.accum(dest, index, leaves, values, exclusive=True)
        else:
            b.store(dest, index, leaves, values)
    return Func("add" if adds else "copy", block, None, ndim)


class CudaDevice(Device):
    """One GPU.  `driver` and `compiler`: those of `backends`, or stand-ins that do the same on the CPU."""

    is_cuda = True

    def __init__(self, name: str, driver: Any, compiler: Compiler, deterministic: bool = False) -> None:
        super().__init__(name)
        self.driver, self.ordinal, self.arch = driver, driver.ordinal, driver.capability
        self._backend = CudaBackend(driver, compiler, ordered=deterministic)
        self._transfers: dict[tuple[Type, int, bool], Executable] = {}
        self._values: dict[bytes, Buffer] = {}
        self._records: list[np.ndarray] = []

    @property
    def backend(self) -> Backend:
        return self._backend

    @property
    def description(self) -> str:
        return f"{self.name} ({self.driver.label}, compute capability {self.driver.capability / 10})"

    @property
    def sm_count(self) -> int:
        return int(self.driver.attribute("MULTIPROCESSOR_COUNT"))

    @property
    def max_shared_memory_per_block(self) -> int:
        return int(self.driver.attribute("MAX_SHARED_MEMORY_PER_BLOCK"))

    @property
    def memory_info(self) -> tuple[int, int]:
        free, total = self.driver.memory_info()
        return int(free), int(total)

    # -- memory
    def allocate(self, nbytes: int, zero: bool = False) -> Buffer:
        owner = _Allocation(self.driver, nbytes)
        if zero and nbytes:
            self.driver.fill(owner.address, 0, nbytes)
        return Buffer(owner.address, nbytes, self, None, owner)

    def foreign(self, address: int, nbytes: int, owner: object = None) -> Buffer:
        return Buffer(address, nbytes, self, None, owner, foreign=True)

    def numpy(self, view: Strided) -> np.ndarray:
        """A read-only copy of the elements, of shape view.shape + component shape."""
        dtype, inner, inner_strides = element(view.dtype)
        if 0 in view.shape:
            host = np.empty(view.shape + inner, dtype)
        else:
            low, high = reach(view.shape, view.strides)
            raw = np.empty(high - low + size_of(view.dtype), np.uint8)
            self.driver.download(raw, view.buffer.address + view.offset + low)
            host = np.ndarray(view.shape + inner, dtype, raw, -low, view.strides + inner_strides)
        host.flags.writeable = False
        return host

    def copy(self, dest: Strided, src: Strided) -> None:
        if 0 in dest.shape:
            return
        source = src.buffer.device
        if source is not self and not source.is_cuda:
            if _at_once(dest, src):
                self.driver.upload_later(dest.buffer.address + dest.offset, src.buffer.address + src.offset, src.nbytes)
            else:
                self.write(dest, source.numpy(src))
            return
        if source is not self:
            self._move(dest, self._fetched(src))
        elif src.buffer is dest.buffer and _touch(dest, src):
            between = packed_view(self, src)
            self._move(between, src)
            self._move(dest, between)
        else:
            self._move(dest, src)

    def deliver(self, dest: Strided, src: Strided) -> bool:
        if not _at_once(src, dest):
            return False
        self.driver.download_later(dest.buffer.address + dest.offset, src.buffer.address + src.offset, src.nbytes)
        return True

    def _fetched(self, src: Strided) -> Strided:
        """Elements of another GPU in packed memory of this one."""
        other = src.buffer.device
        packed = src if src.is_contiguous else packed_view(other, src)
        if packed is not src:
            other._move(packed, src)
        here = packed_view(self, src)
        self.driver.copy_from(
            other.driver, here.buffer.address, packed.buffer.address + packed.offset, here.buffer.nbytes
        )
        return here

    def duplicate(self, view: Strided) -> Strided:
        made = packed_view(self, view)
        self.copy(made, view)
        return made

    def _move(self, dest: Strided, src: Strided) -> None:
        """Copy on this device, of memory that does not overlap."""
        if dest.is_contiguous and src.is_contiguous:
            self.driver.copy(dest.buffer.address + dest.offset, src.buffer.address + src.offset, dest.nbytes)
        else:
            self._transfer(dest, src, False)

    def _transfer(self, dest: Strided, src: Strided, adds: bool) -> None:
        key = dest.dtype, len(dest.shape), adds
        executable = self._transfers.get(key)
        if executable is None:
            executable = self._transfers[key] = self._backend.compile(transfer_kernel(*key))
        block = argument_slots(dest.shape, [(v.buffer.address + v.offset, dest.shape, v.strides) for v in (dest, src)])
        executable.run(block.ctypes.data, 0, math.prod(dest.shape))

    def write(self, dest: Strided, value: np.ndarray) -> None:
        if 0 in dest.shape:
            return
        dtype, inner, _ = element(dest.dtype)
        host = np.asarray(value, dtype)
        if host.shape == inner or host.ndim == 0:
            self._fill(dest, np.ascontiguousarray(np.broadcast_to(host, inner)))
            return
        host = np.ascontiguousarray(np.broadcast_to(host, dest.shape + inner))
        if dest.is_contiguous:
            self.driver.upload(dest.buffer.address + dest.offset, host)
        else:
            between = packed_view(self, dest)
            self.driver.upload(between.buffer.address, host)
            self._transfer(dest, between, False)

    def _fill(self, dest: Strided, value: np.ndarray) -> None:
        """Every element becomes `value`."""
        raw = value.tobytes()
        if dest.is_contiguous and len(set(raw)) == 1:
            self.driver.fill(dest.buffer.address + dest.offset, raw[0], dest.nbytes)
            return
        one = self._values.get(raw)
        if one is None:
            one = self.allocate(len(raw))
            self.driver.upload(one.address, value)
            if len(raw) <= _SMALL:
                self._values[raw] = one
        self._transfer(dest, View(one, 0, dest.shape, (0,) * len(dest.shape), dest.dtype), False)

    def clear(self, dest: Strided) -> None:
        dtype, inner, _ = element(dest.dtype)
        if 0 not in dest.shape:
            self._fill(dest, np.zeros(inner, dtype))

    def add(self, dest: Strided, src: Strided) -> None:
        if 0 in dest.shape or not any(
            leaf.scalar.is_float for leaf in element_leaves(Value(array_type(dest.dtype, 1)))
        ):
            return
        if src.buffer.device is not self:
            here = packed_view(self, src)
            self.copy(here, src)
            src = here
        self._transfer(dest, src, True)

    # -- graphs
    def copy_row(self, dest: Strided, src: Strided) -> DeviceNode | None:
        return DeviceNode(self) if src.buffer.device is self or _at_once(dest, src) else None

    def write_row(self, dest: Strided, value: np.ndarray) -> DeviceNode | None:
        """One value for all elements stays on the device once it was written; host data are fetched anew."""
        one = np.ndim(value) == 0 or np.shape(value) == element(dest.dtype)[1]
        return DeviceNode(self) if one and size_of(dest.dtype) <= _SMALL else None

    def give_row(self, dest: Strided, src: Strided) -> DeviceNode | None:
        return DeviceNode(self) if src.buffer.device is self else None

    def captured(self, actions: Sequence[Callable[[], None]]) -> _DriverGraph:
        self.driver.begin_capture()
        try:
            for action in actions:
                action()
        finally:
            graph = self.driver.end_capture()
        return _DriverGraph(self.driver, graph)

    def replay(self, captured: _DriverGraph) -> None:
        self.driver.replay(captured.graph)

    # -- launches
    def error_record(self) -> np.ndarray:
        if not self._records:
            self._records = list(self.driver.pinned(64 * _RECORDS).view(np.int64).reshape(_RECORDS, 8))
        return self._records.pop()

    def run(self, executable: Executable, block: int, threads: int, compiled: Compiled) -> None:
        executable.run(block, 0, threads)

    def synchronize(self, everything: bool = False) -> None:
        self.driver.synchronize(everything)

    # -- streams and events
    @property
    def stream(self) -> Handle:
        """Handle of the stream that launches and copies go to."""
        return self.driver.stream

    @stream.setter
    def stream(self, handle: Handle) -> None:
        self.driver.stream = handle

    def new_stream(self) -> Handle:
        return self.driver.new_stream()

    def drop_stream(self, stream: Handle) -> None:
        if stream is not self.driver.stream:
            self.driver.drop_stream(stream)

    def new_event(self, timing: bool) -> Handle:
        return self.driver.new_event(timing)

    def drop_event(self, event: Handle) -> None:
        self.driver.drop_event(event)

    def record_event(self, event: Handle, stream: Handle) -> None:
        self.driver.record_event(event, stream)

    def wait_event(self, stream: Handle, event: Handle) -> None:
        self.driver.wait_event(stream, event)

    def stream_ended(self, stream: Handle) -> bool:
        return bool(self.driver.stream_ended(stream))

    def event_ended(self, event: Handle) -> bool:
        return bool(self.driver.event_ended(event))

    def elapsed(self, begin: Handle, end: Handle) -> float:
        return float(self.driver.elapsed(begin, end))

    # -- other libraries
    def dlpack(self, view: Strided, stream: Handle) -> Any:
        if dlpack.waits(stream):
            self.driver.follow(stream, self.stream)
        dtype, inner, inner_strides = element(view.dtype)
        return dlpack.to_capsule(
            view.buffer.address + view.offset,
            dtype,
            view.shape + inner,
            view.strides + inner_strides,
            self.driver.ordinal,
            view.buffer.lend(),
        )

    def from_dlpack(
        self, source: Any, **options: Any
    ) -> tuple[Buffer, int, tuple[int, ...], tuple[int, ...], np.dtype]:
        return super().from_dlpack(source, stream=int(self.stream), **options)

    def cuda_interface(self, view: Strided) -> dict[str, Any]:
        dtype, inner, inner_strides = element(view.dtype)
        return {
            "version": 3, "shape": view.shape + inner, "strides": view.strides + inner_strides, "typestr": dtype.str,
            "data": (view.buffer.address + view.offset, False), "stream": int(self.stream),
        }  # fmt: skip


def _at_once(here: Strided, host: Strided) -> bool:
    """Whether a copy between memory of a GPU and of the CPU is one piece of work for its stream."""
    return bool(host.buffer.pinned) and here.is_contiguous and host.is_contiguous and 0 not in here.shape


def _touch(a: Strided, b: Strided) -> bool:
    """Whether two views of one buffer reach over common bytes."""
    (low, high), (first, last) = extent_of(a), extent_of(b)
    return low < last and first < high


# ------------------------------------------------------------------------------------------------ which there are
_made: list[CudaDevice] = []


def cuda_devices() -> list[CudaDevice]:
    """The GPUs of this machine, made when first asked for.  `SIM_DETERMINISTIC=1`: the same bits on every run."""
    if not _made:
        with compiling:
            if not _made:
                deterministic = os.environ.get("SIM_DETERMINISTIC", "0") not in ("", "0")
                drivers = [CudaDriver(ordinal) for ordinal in range(find_gpus()[0])]
                _made.extend(
                    [
                        CudaDevice(
                            f"cuda:{d.ordinal}", d, NvrtcCompiler(target_of(d.capability, d.version)), deterministic
                        )
                        for d in drivers
                    ]
                )
    return list(_made)


def cuda_missing() -> str:
    """Why there are no GPUs, and what to do about it; empty if there are some."""
    return "" if _made else find_gpus()[1]
