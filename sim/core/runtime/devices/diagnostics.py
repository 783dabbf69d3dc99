"""What is told of the program in Warp's names: its environment, and where messages go.

sim tells errors and warnings by exceptions and `warnings`; a logger is kept for the programs that set one.
"""

from __future__ import annotations

import platform
import sys
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from sim.core import config
from sim.core.runtime.devices.device import DeviceLike, get_device
from sim.core.runtime.devices.queries import get_cuda_devices, get_cuda_driver_version


@runtime_checkable
class Logger(Protocol):
    """What takes messages of four levels."""

    def debug(self, message: str) -> None: ...

    def info(self, message: str) -> None: ...

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None: ...

    def error(self, message: str) -> None: ...


_loggers: list[Logger | None] = [None]
"""The one that is set, in a list of its own for whoever sets it."""


def set_logger(logger: Logger | None) -> None:
    """Keeps a logger (None: forgets it).  Raises TypeError for what has not the four methods of `Logger`."""
    if logger is not None and not isinstance(logger, Logger):
        raise TypeError(f"a {type(logger).__name__} is no logger; it needs debug, info, warning and error")
    _loggers[0] = logger


def get_logger() -> Logger | None:
    """The logger that is kept."""
    return _loggers[0]


class ScopedLogger:
    """`with ScopedLogger(logger):` it is the one that is kept."""

    def __init__(self, logger: Logger | None) -> None:
        self.logger = logger

    def __enter__(self) -> ScopedLogger:
        self._before = get_logger()
        set_logger(self.logger)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_logger(self._before)


class ScopedLogLevel:
    """`with ScopedLogLevel(LOG_WARNING):` it is the value of `config.log_level`."""

    def __init__(self, log_level: int) -> None:
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self._before = vars(config)["log_level"]
        setattr(config, "log_level", self.log_level)  # noqa: B010  one of the names that are only kept
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        setattr(config, "log_level", self._before)  # noqa: B010


def print_diagnostics() -> dict[str, Any]:
    """Prints versions and devices, for reports of errors, and returns them."""
    found: dict[str, Any] = {
        "version": config.version,
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "platform": platform.platform(),
        "cuda_driver": get_cuda_driver_version(),
        "devices": [device.name for device in (get_device("cpu"), *get_cuda_devices())],
        "kernel_cache_dir": config.kernel_cache_dir,
    }
    for name, value in found.items():
        print(f"{name:18}{value}")
    return found


def get_suggested_block_size(kernel: Any, device: DeviceLike = None) -> tuple[int, int]:
    """(threads of a block, blocks at least): (1, 1) on the CPU, on GPUs what `launch` takes by itself."""
    if not hasattr(kernel, "func"):
        raise TypeError(f"get_suggested_block_size takes a kernel, not a {type(kernel).__name__}")
    return (256, 1) if get_device(device).is_cuda else (1, 1)
