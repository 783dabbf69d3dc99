"""Where tasks run: `local:2`, processes of this machine; `dask://host:8786`, the workers of a Dask cluster."""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.core.lang.errors import SimError


@dataclass(frozen=True)
class Engine:
    """What `--on` names: `make` gives an executor, `text` is what was written."""

    text: str
    make: Callable[[], concurrent.futures.Executor]


class NoEngine(SimError, RuntimeError):
    """An engine that is not installed, or not there."""


def engine(text: str) -> Engine:
    """An argument `--on`."""
    kind, _, rest = text.partition(":")
    if kind == "local":
        count = int(rest) if rest.isdigit() else (os.cpu_count() or 1) if not rest else 0
        if count >= 1:
            return Engine(text, lambda: _processes(count))
    elif kind == "dask" and rest.startswith("//") and len(rest) > 2:
        return Engine(text, lambda: _dask(rest[2:]))
    raise argparse.ArgumentTypeError(f"`{text}` is no engine; expected local:2, or dask://host:8786")


def _processes(count: int) -> concurrent.futures.Executor:
    # Not by fork: threads of compiled code would not come along.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    return concurrent.futures.ProcessPoolExecutor(count, mp_context=context)


def _dask(address: str) -> concurrent.futures.Executor:
    try:
        import distributed  # type: ignore[import-not-found]  # an extra
    except ImportError as error:
        raise NoEngine(
            "Dask is not installed", 'Install it: pip install "simopt-xpbd[cluster]", here and where the workers are'
        ) from error
    try:
        client: Any = distributed.Client(f"tcp://{address}", timeout=10)
    except (OSError, TimeoutError) as error:
        raise NoEngine(f"no Dask scheduler answers at {address}: {error}", "Start one: dask scheduler") from error
    executor: concurrent.futures.Executor = client.get_executor(pure=False)
    return executor
