"""The CPU: host memory, seen by NumPy without copies."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

import numpy as np

from sim.core.backends.base import Backend, Executable
from sim.core.backends.interp import InterpBackend
from sim.core.backends.llvm.backend import LlvmBackend
from sim.core.backends.native import Row, native
from sim.core.lang.errors import did_you_mean
from sim.core.runtime.ambient.threads import run_range, runner
from sim.core.runtime.compiled.compiled import Compiled
from sim.core.runtime.devices.base_device import Device, DeviceError, Handle
from sim.core.runtime.devices.cuda_device import cuda_devices
from sim.core.runtime.memory.buffer import Buffer, Strided, packed_view
from sim.core.runtime.memory.elements import add_into, clear, element
from sim.core.runtime.memory.host_memory import own_memory, raw_memory

_BACKENDS = {"llvm": LlvmBackend, "interp": InterpBackend}


def _zeros(nbytes: int) -> np.ndarray:
    return np.zeros(nbytes, np.uint8)


def _undefined(nbytes: int) -> np.ndarray:
    return np.empty(nbytes, np.uint8)


class CpuDevice(Device):
    """The CPU."""

    is_cpu = True

    def __init__(self, name: str = "cpu") -> None:
        super().__init__(name)
        self._backend: Backend | None = None

    @property
    def backend(self) -> Backend:
        """What compiles kernels for this device; `SIM_BACKEND=interp` picks the reference interpreter."""
        if self._backend is None:
            name = os.environ.get("SIM_BACKEND", "llvm")
            if name not in _BACKENDS:
                raise DeviceError(
                    f"SIM_BACKEND={name} is not a backend{did_you_mean(name, _BACKENDS)}; use {' or '.join(_BACKENDS)}"
                )
            self._backend = _BACKENDS[name]()
        return self._backend

    @backend.setter
    def backend(self, backend: Backend) -> None:
        self._backend = backend

    def allocate(self, nbytes: int, zero: bool = False) -> Buffer:
        return own_memory(nbytes, self, _zeros if zero else _undefined)

    def allocate_pinned(self, nbytes: int) -> Buffer:
        """See `Device`; plain memory where there is no GPU."""
        gpu = next(iter(cuda_devices()), None)
        if gpu is None:
            return self.allocate(nbytes, zero=True)
        made = own_memory(nbytes, self, gpu.driver.pinned)
        made.pinned = True
        return made

    def foreign(self, address: int, nbytes: int, owner: object = None) -> Buffer:
        return raw_memory(address, nbytes, self, owner)

    def numpy(self, view: Strided) -> np.ndarray:
        """The elements of `view` as a NumPy view of shape view.shape + component shape."""
        dtype, inner, inner_strides = element(view.dtype)
        if 0 in view.shape:  # NumPy refuses strides that leave memory even where nothing is touched
            return np.empty(view.shape + inner, dtype)
        return np.ndarray(view.shape + inner, dtype, view.buffer.memory, view.offset, view.strides + inner_strides)

    def copy(self, dest: Strided, src: Strided) -> None:
        source = src.buffer.device
        if source is self and dest.dtype is src.dtype and dest.is_contiguous and src.is_contiguous:
            ctypes.memmove(dest.buffer.address + dest.offset, src.buffer.address + src.offset, dest.nbytes)
            return
        if source is not self and dest.buffer.pinned and source.deliver(dest, src):
            return
        np.copyto(self.numpy(dest), source.numpy(src))

    def copy_row(self, dest: Strided, src: Strided) -> Row | None:
        """A copy as a row of a graph, or None where it has no such form."""
        if not (dest.is_contiguous and src.is_contiguous and src.buffer.device is self):
            return None
        return native().copy(dest.buffer.address + dest.offset, src.buffer.address + src.offset, dest.nbytes)

    def write_row(self, dest: Strided, value: np.ndarray) -> Row | None:
        """Stored host data as a row of a graph, or None: zeros, or as much as fits.  The caller keeps `value`."""
        if not dest.is_contiguous:
            return None
        address = dest.buffer.address + dest.offset
        if not value.tobytes().strip(b"\0"):
            return native().clear(address, dest.nbytes)
        if value.flags.c_contiguous and value.nbytes == dest.nbytes and value.dtype == element(dest.dtype)[0]:
            return native().copy(address, value.ctypes.data, dest.nbytes)
        return None

    def give_row(self, dest: Strided, src: Strided) -> Row | None:
        """`dest` += `src` and `src` = 0 as a row of a graph, or None: of floats of one kind, apart from each other."""
        kind = element(dest.dtype)[0]
        if not (
            dest.is_contiguous
            and src.is_contiguous
            and src.buffer.device is self
            and kind.kind == "f"
            and kind.itemsize >= 4
        ):
            return None
        to, source = dest.buffer.address + dest.offset, src.buffer.address + src.offset
        if to < source + src.nbytes and source < to + dest.nbytes:
            return None
        return native().give(to, source, dest.nbytes // kind.itemsize, kind)

    def write(self, dest: Strided, value: np.ndarray) -> None:
        np.copyto(self.numpy(dest), value)

    def clear(self, dest: Strided) -> None:
        if dest.is_contiguous:
            ctypes.memset(dest.buffer.address + dest.offset, 0, dest.nbytes)
        else:
            clear(self.numpy(dest))

    def add(self, dest: Strided, src: Strided) -> None:
        add_into(self.numpy(dest), src.buffer.device.numpy(src))

    def duplicate(self, view: Strided) -> Strided:
        made = packed_view(self, view)
        self.copy(made, view)
        return made

    def error_record(self) -> np.ndarray:
        return np.zeros(8, np.int64)

    run = staticmethod(run_range)

    def runner(self, executable: Executable, block: int, threads: int, compiled: Compiled) -> Callable[[], None]:
        return runner(executable, block, threads, compiled)

    def synchronize(self, everything: bool = False) -> None:
        """Everything has ended already."""

    def new_event(self, timing: bool) -> list[float]:
        """The time of an event, when it is recorded."""
        return [0.0]

    def record_event(self, event: Handle, stream: Handle) -> None:
        event[0] = time.perf_counter()

    def elapsed(self, begin: Handle, end: Handle) -> float:
        return 1e3 * float(end[0] - begin[0])
