"""Loggers in Warp's names.

sim tells errors and warnings by exceptions and `warnings`; a logger gets what `config.print_launches` prints, and what
a program itself tells it.
"""

from __future__ import annotations

import sys
import warnings
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from sim.core import config


@runtime_checkable
class Logger(Protocol):
    """What takes messages of four levels."""

    def debug(self, message: str) -> None: ...

    def info(self, message: str) -> None: ...

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None: ...

    def error(self, message: str) -> None: ...


class BasicLogger:
    """The logger while no other is set: prints, and warns by Python's `warnings`."""

    def debug(self, message: str) -> None:
        """Prints."""
        print(message)

    def info(self, message: str) -> None:
        """Prints."""
        print(message)

    def warning(self, message: str, category: Any = None, stacklevel: int = 1) -> None:
        """Warns whoever calls it."""
        warnings.warn(message, category or UserWarning, stacklevel + 1)

    def error(self, message: str) -> None:
        """Prints to the standard error."""
        print(message, file=sys.stderr)


_loggers: list[Logger] = [BasicLogger()]
"""The one that is set, in a list of its own for whoever sets it."""


def set_logger(logger: Logger | None) -> None:
    """Keeps a logger (None: the basic one).  Raises TypeError for what has not the four methods of `Logger`."""
    if logger is not None and not isinstance(logger, Logger):
        raise TypeError(f"a {type(logger).__name__} is no logger; it needs debug, info, warning and error")
    _loggers[0] = BasicLogger() if logger is None else logger


def get_logger() -> Logger:
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
