"""Where time goes, kernel by kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sim.core import config
from sim.core.runtime.ambient.loggers import get_logger


@dataclass(eq=False)
class KernelTime:
    """Launches of one kernel: number, time [s], bytes that loads and stores name (an upper bound of traffic)."""

    name: str
    calls: int = 0
    seconds: float = 0.0
    nbytes: int = 0


@dataclass(eq=False)
class Profile:
    """Time by kernel.  Prints as a table, the most expensive first."""

    kernels: dict[str, KernelTime] = field(default_factory=dict)
    wall: float = 0.0
    """Seconds between the beginning and the end."""

    def add(self, name: str, seconds: float, nbytes: int) -> None:
        entry = self.kernels.setdefault(name, KernelTime(name))
        entry.calls += 1
        entry.seconds += seconds
        entry.nbytes += nbytes

    @property
    def seconds(self) -> float:
        """Time in kernels, copies and fills."""
        return sum(k.seconds for k in self.kernels.values())

    def rows(self) -> list[dict[str, Any]]:
        """The table as plain data: kernel, calls, seconds, share of the time in kernels, bytes."""
        order = sorted(self.kernels.values(), key=lambda k: -k.seconds)
        return [
            {
                "kernel": k.name,
                "calls": k.calls,
                "seconds": k.seconds,
                "share": k.seconds / self.seconds if k.seconds else 0.0,
                "bytes": k.nbytes,
            }
            for k in order
        ]

    def __str__(self) -> str:
        lines = [f"{'kernel':36}{'calls':>9}{'time [ms]':>12}{'share':>8}{'MB':>10}{'GB/s':>8}"]
        for row in self.rows():
            rate = row["bytes"] / row["seconds"] / 1e9 if row["seconds"] else 0.0
            counts = f"{row['calls']:9}{1e3 * row['seconds']:12.3f}{row['share']:8.1%}"
            lines.append(f"{row['kernel']:36}{counts}{row['bytes'] / 1e6:10.1f}{rate:8.1f}")
        return "\n".join([*lines, f"{1e3 * self.seconds:.3f} ms in kernels, {1e3 * self.wall:.3f} ms in all"])


open_profiles: list[Profile] = []
"""The open profiles; launches count in the innermost, the last one."""


@contextmanager
def profile() -> Iterator[Profile]:
    """`with sim.profile() as p: ...; print(p)`: calls, time, bytes and rate of every kernel that runs inside.

    Captured graphs run row by row meanwhile, and each row is timed on one thread: the shares are right, the sum is
    above what an undisturbed run takes.
    """
    found = Profile()
    open_profiles.append(found)
    begun = time.perf_counter()
    try:
        yield found
    finally:
        found.wall = time.perf_counter() - begun
        open_profiles.remove(found)


class _Printed(Profile):
    """(`sim.config.print_launches`) Tells the logger, which prints it, of every kernel that runs."""

    def add(self, name: str, seconds: float, nbytes: int) -> None:
        get_logger().info(f"kernel: {name:30} {1e3 * seconds:10.3f} ms {nbytes:12d} bytes")


class _Awaited(Profile):
    """(`sim.config.verify_cuda`) Counts nothing: a launch that is timed is waited for."""

    def add(self, name: str, seconds: float, nbytes: int) -> None:
        """Nothing to count."""


def _follow(name: str, kind: type[Profile]) -> None:
    """While a setting is on, such a profile is open below those of the user."""

    def changed(on: bool) -> None:
        if on:
            open_profiles.insert(0, kind())
        else:
            open_profiles[:] = [p for p in open_profiles if not isinstance(p, kind)]

    config.follow(name, changed)


_follow("verify_cuda", _Awaited)
_follow("print_launches", _Printed)


def timed(name: str, nbytes: int, action: Callable[[], None]) -> None:
    """Do something, and add to the open profile how long it took."""
    begun = time.perf_counter()
    action()
    open_profiles[-1].add(name, time.perf_counter() - begun, nbytes)
