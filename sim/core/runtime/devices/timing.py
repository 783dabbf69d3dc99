"""Timers in Warp's names: of a piece of the program, and of every kernel that runs meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import Any, ClassVar

from sim.core.lang.errors import SimError
from sim.core.runtime.ambient.profile import Profile, open_profiles
from sim.core.runtime.devices.base_device import Device
from sim.core.runtime.devices.device import get_device, synchronize

TIMING_KERNEL, TIMING_KERNEL_BUILTIN, TIMING_MEMCPY, TIMING_MEMSET, TIMING_GRAPH = 1, 2, 4, 8, 16
TIMING_ALL = 0xFFFFFFFF
"""What to time.  Copies and fills inside of captured graphs count as kernels of ours."""
_OURS = "copies and fills"


@dataclass(frozen=True)
class TimingResult:
    """One activity: where (the device that was the present one), what, of which kind, how long [ms]."""

    device: Device
    name: str
    filter: int
    elapsed: float


class _Activities(Profile):
    """Keeps every activity of the kinds of a filter."""

    def __init__(self, kinds: int) -> None:
        super().__init__()
        self.kinds, self.results = kinds, list[TimingResult]()

    def add(self, name: str, seconds: float, nbytes: int) -> None:
        kind = TIMING_KERNEL_BUILTIN if name == _OURS else TIMING_KERNEL
        if kind & self.kinds:
            self.results.append(TimingResult(get_device(), name, kind, 1e3 * seconds))


def timing_begin(cuda_filter: int = TIMING_ALL, synchronize: bool = True) -> None:
    """Begins to time every kernel that runs, on GPUs and on the CPU.  Each is waited for.

    cuda_filter: a sum of TIMING_... that says which.  synchronize: taken for Warp's programs.
    """
    open_profiles.append(_Activities(cuda_filter))


def timing_end(synchronize: bool = True) -> list[TimingResult]:
    """Ends what the last `timing_begin` began.  Raises SimError without."""
    last = next((p for p in reversed(open_profiles) if isinstance(p, _Activities)), None)
    if last is None:
        raise SimError("timing_end without timing_begin")
    open_profiles[:] = [p for p in open_profiles if p is not last]
    return last.results


def timing_print(results: Sequence[TimingResult], indent: str = "") -> None:
    """Prints activities, and their sums by name."""
    sums: dict[str, tuple[int, float]] = {}
    for result in results:
        count, elapsed = sums.get(result.name, (0, 0.0))
        sums[result.name] = count + 1, elapsed + result.elapsed
        print(f"{indent}{result.elapsed:12.6f} ms  {result.device}  {result.name}")
    print(f"{indent}{'sum [ms]':>12} {'calls':>7}  name")
    for name, (count, elapsed) in sorted(sums.items(), key=lambda entry: -entry[1][1]):
        print(f"{indent}{elapsed:12.6f} {count:7}  {name}")


class ScopedTimer:
    """`with sim.ScopedTimer("solve") as t: ...` prints how long the block took; `t.elapsed` [ms] afterwards.

    active: False does nothing.  print: False is silent.  dict: name -> list of times [ms], to which this one is added.
    detailed: the functions of Python that took longest, too.  synchronize: wait for all devices, before and after.
    cuda_filter: also time the kernels that run inside, `t.timing_results`; report_func(results, indent) prints them
    (None: `timing_print`).  use_nvtx, color, skip_tape: taken for Warp's programs.
    """

    enabled: ClassVar[bool] = True
    """Whether timers do anything: `ScopedTimer.enabled = False` silences those of a whole program."""
    depth: ClassVar[int] = 0
    """How many timers are open: the lines of inner ones are indented."""

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: dict[str, list[float]] | None = None,
        use_nvtx: bool = False,
        color: int | str = "rapids",
        synchronize: bool = False,
        cuda_filter: int = 0,
        report_func: Callable[[list[TimingResult], str], None] | None = None,
        skip_tape: bool = False,
    ) -> None:
        self.name, self.active, self.print, self.times, self.elapsed = name, active and self.enabled, print, dict, 0.0
        self.detailed, self.synchronize, self.cuda_filter, self.report = detailed, synchronize, cuda_filter, report_func
        self.timing_results: list[TimingResult] = []
        self._profiler: Any = None

    def __enter__(self) -> ScopedTimer:
        if self.active:
            ScopedTimer.depth += 1
            if self.synchronize:
                synchronize()
            if self.cuda_filter:
                timing_begin(self.cuda_filter)
            if self.detailed:  # loaded where it is asked for: it takes as long as much else of `import sim`
                self._profiler = import_module("cProfile").Profile()
                self._profiler.enable()
        self._begun = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.active:
            return
        if self.synchronize:
            synchronize()
        self.elapsed = 1e3 * (time.perf_counter() - self._begun)
        if self._profiler is not None:
            self._profiler.disable()
            self._profiler.print_stats(sort="tottime")
        if self.cuda_filter:
            self.timing_results = timing_end()
        ScopedTimer.depth -= 1
        if self.times is not None:
            self.times.setdefault(self.name, []).append(self.elapsed)
        if self.print:
            indent = "    " * ScopedTimer.depth
            print(f"{indent}{self.name} took {self.elapsed:.2f} ms")
            if self.cuda_filter:
                (self.report or timing_print)(self.timing_results, indent)
