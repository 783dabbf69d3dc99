"""Which devices there are, and which one is used when none is named."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from types import TracebackType

from sim.core.lang.errors import did_you_mean
from sim.core.runtime.devices.base_device import Device, DeviceError
from sim.core.runtime.devices.cpu_device import CpuDevice
from sim.core.runtime.devices.cuda_device import CudaDevice, cuda_devices, cuda_missing

__all__ = [
    "Device",
    "DeviceError",
    "DeviceLike",
    "ScopedDevice",
    "cuda_missing",
    "get_device",
    "get_devices",
    "init",
    "set_device",
    "synchronize",
]

_CPU = CpuDevice()
_current: Device = _CPU
DeviceLike = Device | str | None


def get_device(ident: DeviceLike = None) -> Device:
    """The device named "cpu", "cuda" or "cuda:1", or "auto": the first GPU, else the CPU.  None: the current one.

    Raises DeviceError, with what is missing, where there is no such device.
    """
    if ident is None:
        return _current
    if isinstance(ident, Device):
        return ident
    if ident == "cpu":
        return _CPU
    if ident == "auto":
        return next(iter(cuda_devices()), _CPU)
    if isinstance(ident, str) and ident.split(":")[0] == "cuda":
        return _cuda(ident)
    near = did_you_mean(str(ident), ["cpu", "auto", "cuda"])
    raise DeviceError(f"there is no device {ident!r}{near}; use 'cpu', 'cuda' or 'auto'")


def _cuda(name: str) -> Device:
    found = cuda_devices()
    if not found:
        raise DeviceError(f"device '{name}' is not available: {cuda_missing()}; or use device='cpu'")
    number = name.partition(":")[2] or "0"
    if not number.isdigit() or int(number) >= len(found):
        raise DeviceError(f"there is no device '{name}'; this machine has {', '.join(d.name for d in found)}")
    return found[int(number)]


def get_devices() -> list[Device]:
    """All devices of this machine that kernels can run on, the CPU first."""
    return [_CPU, *cuda_devices()]


def set_device(ident: DeviceLike) -> None:
    """Makes `ident` the one that arrays and launches use when none is named."""
    global _current
    _current = get_device(ident)


class ScopedDevice:
    """`with ScopedDevice("cuda"):` the current device inside the block."""

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
        device.synchronize(everything=True)


def _pickled(device: Device) -> tuple[Callable[[str], Device], tuple[str]]:
    return get_device, (device.name,)


for _kind in (CpuDevice, CudaDevice):
    copyreg.pickle(_kind, _pickled)
