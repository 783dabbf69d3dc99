"""Devices: where memory lies and kernels run.  Everything that differs between devices is asked of a `Device`."""

from __future__ import annotations

import os
from types import TracebackType

import numpy as np

from sim.core.backends.base import Backend
from sim.core.backends.interp import InterpBackend
from sim.core.backends.llvm import LlvmBackend
from sim.core.backends.native import Row, native
from sim.core.lang.errors import SimError, did_you_mean
from sim.core.runtime.buffer import Buffer, Strided, own_memory
from sim.core.runtime.interop import element

_BACKENDS = {"llvm": LlvmBackend, "interp": InterpBackend}


class DeviceError(SimError):
    """A device or backend that does not exist here."""


class Device:
    """The CPU, and the seam at which other devices join: memory, transfers and the backend are all asked here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._backend: Backend | None = None

    is_cpu = True
    is_cuda = False

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
        """Fresh memory; its content is undefined unless `zero`."""
        return own_memory(nbytes, self, zero)

    def numpy(self, view: Strided) -> np.ndarray:
        """The elements of `view` as a NumPy array of shape view.shape + component shape; here a view, not a copy."""
        dtype, inner, inner_strides = element(view.dtype)
        if 0 in view.shape:  # NumPy refuses strides that leave memory even where nothing is touched
            return np.empty(view.shape + inner, dtype)
        return np.ndarray(view.shape + inner, dtype, view.buffer.memory, view.offset, view.strides + inner_strides)

    def copy(self, dest: Strided, src: Strided) -> None:
        """Copies `src` to `dest`, of the same shape and type.  The two may overlap."""
        np.copyto(self.numpy(dest), src.buffer.device.numpy(src))

    def copy_row(self, dest: Strided, src: Strided) -> Row | None:
        """A copy as a row of a graph, or None where it has no such form."""
        if not (dest.is_contiguous and src.is_contiguous and src.buffer.device is self):
            return None
        return native().copy(dest.buffer.address + dest.offset, src.buffer.address + src.offset, dest.nbytes)

    def write_row(self, dest: Strided, value: np.ndarray) -> Row | None:
        """Stored host data as a row of a graph, or None: zeros, or as much data as there is room.  The caller keeps `value`."""
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
        if not (dest.is_contiguous and src.is_contiguous and src.buffer.device is self and kind.kind == "f" and kind.itemsize >= 4):
            return None
        to, source = dest.buffer.address + dest.offset, src.buffer.address + src.offset
        if to < source + src.nbytes and source < to + dest.nbytes:
            return None
        return native().give(to, source, dest.nbytes // kind.itemsize, kind)

    def write(self, dest: Strided, value: np.ndarray) -> None:
        """Stores host data in `dest`, broadcast over the leading dimensions."""
        np.copyto(self.numpy(dest), value)

    def synchronize(self) -> None:
        """Waits until everything that was launched has ended; on the CPU it has."""

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple:
        return get_device, (self.name,)


_CPU = Device("cpu")
_current = _CPU
DeviceLike = Device | str | None


def get_device(name: DeviceLike = None) -> Device:
    """The device of that name: "cpu", or "auto" for the best that this machine has; None means the current one."""
    if name is None:
        return _current
    if isinstance(name, Device):
        return name
    if name in ("cpu", "auto"):
        return _CPU
    if isinstance(name, str) and name.split(":")[0] == "cuda":
        raise DeviceError(f"device '{name}' is not available: this version has no CUDA backend yet; use device='cpu'")
    near = did_you_mean(str(name), ["cpu", "auto", "cuda"])
    raise DeviceError(f"there is no device {name!r}{near}; use 'cpu' or 'auto'")


def get_devices() -> list[Device]:
    """All devices of this machine that kernels can run on."""
    return [_CPU]


def set_device(device: DeviceLike) -> None:
    """Makes `device` the one that arrays and launches use when none is named."""
    global _current
    _current = get_device(device)


class ScopedDevice:
    """`with ScopedDevice("cpu"):` the current device inside the block."""

    def __init__(self, device: DeviceLike) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        self._before = _current
        set_device(self.device)
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_device(self._before)


def init() -> None:
    """Nothing to prepare: devices and backends start when first used.  Here so that ported programs run."""


def synchronize() -> None:
    """Waits for all devices."""
    for device in get_devices():
        device.synchronize()
