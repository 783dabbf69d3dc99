"""Questions of Warp's programs about devices: which there are, and what they can do.

Memory pools, access from device to device and memory shared between processes are not there: the questions after them
are answered with False, and to switch them on is an error.
"""

from __future__ import annotations

from types import TracebackType

from sim.core.runtime.devices.base_device import Device, DeviceError
from sim.core.runtime.devices.cuda_device import cuda_devices
from sim.core.runtime.devices.device import DeviceLike, get_device


def is_cpu_available() -> bool:
    """Whether kernels can run on the CPU: always."""
    return True


def is_cuda_available() -> bool:
    """Whether there is a GPU that kernels can run on."""
    return bool(cuda_devices())


def is_device_available(device: DeviceLike) -> bool:
    """Whether there is a device of this name."""
    try:
        get_device(device)
    except DeviceError:
        return False
    return True


def get_cuda_devices() -> list[Device]:
    """All GPUs that kernels can run on."""
    return list(cuda_devices())


def get_cuda_device_count() -> int:
    """How many GPUs there are that kernels can run on."""
    return len(cuda_devices())


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The GPU of this number; None: the current device if it is one, else the first.  Raises DeviceError without."""
    current = get_device()
    return current if ordinal is None and current.is_cuda else get_device(f"cuda:{ordinal or 0}")


def get_preferred_device() -> Device:
    """The first GPU, else the CPU."""
    return get_device("auto")


def get_cuda_driver_version() -> tuple[int, int] | None:
    """The version of CUDA that the driver of the GPUs knows; None where there is none."""
    found = cuda_devices()
    return (found[0].driver.version // 1000, found[0].driver.version % 1000 // 10) if found else None


def get_cuda_toolkit_version() -> tuple[int, int] | None:
    """None: kernels are compiled by NVRTC, whichever is installed."""
    return None


def get_cuda_supported_archs() -> list[int]:
    """The compute capabilities of the GPUs of this machine (90 for 9.0): kernels are compiled for no others."""
    return sorted({d.arch for d in cuda_devices()})


def is_conditional_graph_supported() -> bool:
    """Whether `capture_if` and `capture_while` can be captured: always."""
    return True


def is_graph_capture_allocation_supported(device: DeviceLike) -> bool:
    """Whether arrays can be made while a graph is captured: of every device."""
    return get_device(device).is_cpu or get_device(device).is_cuda


# ------------------------------------------------------------------------------------------------ not there
def check_p2p() -> bool:
    """Whether GPUs reach each other's memory: False, as of `is_peer_access_supported`."""
    return False


def is_mempool_supported(device: DeviceLike) -> bool:
    """False, of every device."""
    return get_device(device).is_mempool_supported


def is_mempool_enabled(device: DeviceLike) -> bool:
    """False, of every device."""
    return get_device(device).is_mempool_enabled


def is_mempool_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """False, of all devices."""
    return _no_access(target_device, peer_device)


def is_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """False, of all devices."""
    return _no_access(target_device, peer_device)


def is_peer_access_supported(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """False, of all devices: a copy from one GPU to another does not need it."""
    return _no_access(target_device, peer_device)


def is_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    """False, of all devices."""
    return _no_access(target_device, peer_device)


def _no_access(target_device: DeviceLike, peer_device: DeviceLike) -> bool:
    get_device(target_device), get_device(peer_device)
    return False


def set_mempool_enabled(device: DeviceLike, enable: bool) -> None:
    """Raises DeviceError where `enable` is true."""
    _refuse(enable, f"a memory pool of {get_device(device)}")


def set_mempool_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Raises DeviceError where `enable` is true."""
    _refuse(enable, f"access of {get_device(peer_device)} to the memory pool of {get_device(target_device)}")


def set_peer_access_enabled(target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
    """Raises DeviceError where `enable` is true."""
    _refuse(enable, f"access of {get_device(peer_device)} to memory of {get_device(target_device)}")


def _refuse(enable: bool, what: str) -> None:
    if enable:
        raise DeviceError(f"{what} is not supported; memory is kept by the device itself: leave the call out")


class ScopedMempool:
    """`with ScopedMempool(device, False):` changes nothing; True is an error, as of `set_mempool_enabled`."""

    def __init__(self, device: DeviceLike, enable: bool) -> None:
        set_mempool_enabled(device, enable)

    def __enter__(self) -> None:
        """Nothing to change."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""


class ScopedMempoolAccess(ScopedMempool):
    """`with ScopedMempoolAccess(target, peer, False):` changes nothing; True is an error."""

    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        set_mempool_access_enabled(target_device, peer_device, enable)


class ScopedPeerAccess(ScopedMempool):
    """`with ScopedPeerAccess(target, peer, False):` changes nothing; True is an error."""

    def __init__(self, target_device: DeviceLike, peer_device: DeviceLike, enable: bool) -> None:
        set_peer_access_enabled(target_device, peer_device, enable)
