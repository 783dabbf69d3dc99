"""What runs here: versions, switches and devices, for reports of errors."""

from __future__ import annotations

import platform
import sys
from typing import Any

import numpy as np

from sim.core import config
from sim.core.runtime.devices.cuda_device import cuda_devices
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.devices.queries import get_cuda_driver_version, get_cuda_toolkit_version


def print_diagnostics() -> dict[str, Any]:
    """Prints versions, switches and devices, and returns them under Warp's keys.

    `warp_python` and `warp_native` are the version of this package, `warp_clang` and `llvm` that of llvmlite; what
    Warp is built with and this package is not (MathDx, cuBQL, NanoVDB, a host compiler) is None or False.
    """
    found = {name: _version(name) for name in ("torch", "jax", "jaxlib")}
    llvm = _version("llvmlite")
    software = {
        "warp_python": config.version,
        "warp_native": config.version,
        "warp_clang": llvm,
        "llvm": llvm,
        "numpy": np.__version__,
        **{name: known for name, known in found.items() if known is not None},
        "python": sys.version,
        "platform": platform.platform(),
    }
    libraries = {
        "cuda_enabled": bool(cuda_devices()),
        "cuda_toolkit": _dotted(get_cuda_toolkit_version()),
        "cuda_driver": _dotted(get_cuda_driver_version()),
        "nvrtc": _version("nvidia-cuda-nvrtc") or _version("nvidia-cuda-nvrtc-cu12"),
        "cuda_compatibility": False,
        "mathdx_enabled": False,
        "libmathdx": None,
        "cubql_enabled": False,
        "nanovdb": None,
        "host_compiler": None,
    }
    switches = {"debug": config.mode == "debug", "verify_fp": bool(config.verify_fp), "fast_math": False}
    cpu = get_device("cpu")
    devices: list[dict[str, Any]] = [{"alias": cpu.alias, "name": cpu.name}]
    for gpu in cuda_devices():
        devices.append(
            {
                "alias": gpu.alias,
                "name": gpu.name,
                "arch": f"sm_{gpu.arch}",
                "sm_count": gpu.sm_count,
                "memory_gb": round(gpu.total_memory / 2**30, 1),
            }
        )
    for title, part in (("Software", software), ("Libraries", libraries), ("Switches", switches)):
        _show(title, part)
    for device in devices:
        _show(f"Device {device['alias']}", device)
    return {**software, **libraries, **switches, "devices": devices}


def get_suggested_block_size(kernel: Any, device: DeviceLike = None) -> tuple[int, int]:
    """(threads of a block, blocks at least): (1, 1) on the CPU, on GPUs what `launch` takes by itself."""
    if not hasattr(kernel, "func"):
        raise TypeError(f"get_suggested_block_size takes a kernel, not a {type(kernel).__name__}")
    return (256, 1) if get_device(device).is_cuda else (1, 1)


def _show(title: str, part: dict[str, Any]) -> None:
    print(title)  # noqa: T201
    for key, value in part.items():
        print(f"  {key + ':':20} {value}")


def _version(package: str) -> str | None:
    from importlib import metadata  # slow to import, and needed for this alone

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _dotted(number: tuple[int, int] | None) -> str | None:
    return None if number is None else f"{number[0]}.{number[1]}"
