"""A task: one search, in a folder of its own.  It may run anywhere, and again: what is done is not done twice.

A task may be killed at any moment.  Where its folder has a result it is done; where it has a saved state it goes on
from there, to the same bits; where it has neither it begins anew.
"""

from __future__ import annotations

import _thread
import json
import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sim.core.runtime.ambient.threads import set_num_threads
from sim.identify.problem import Problem
from sim.identify.run import RESULT, run_problem
from sim.io import STATE
from sim.io.run_folder import LOG

TAIL = 2**20
"""Bytes of a log in which its last line is: it has the values of all parameters."""


class Buildable(Protocol):
    """A scene: it is sent to workers as its resolved text (it can be pickled), and built there."""

    def build(self, device: Any = None, dtype: Any = None) -> Problem:
        """The problem that it states."""

    def resolved_yaml(self) -> str:
        """All that it says, as text."""


@dataclass(frozen=True, eq=False)
class Task:
    """A search of a scene from start number `start` of `starts` (see `ParameterSpace.starts`), into `folder`.

    device, dtype: where and how it is computed.  iterations: instead of the scene's.  limit: wall time [s] after which
    it stops and keeps what it has.
    """

    scene: Buildable
    folder: Path
    start: int = 0
    starts: int = 1
    device: str | None = None
    dtype: str = "float64"
    iterations: int | None = None
    limit: float | None = None

    @property
    def result(self) -> dict[str, Any] | None:
        """What stands in its result.json; None where it is not done."""
        try:
            found: dict[str, Any] = json.loads((self.folder / RESULT).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    @property
    def last_entry(self) -> dict[str, Any] | None:
        """The last whole line of its log; None where no iteration has ended."""
        try:
            with open(self.folder / LOG, "rb") as file:
                file.seek(max(0, file.seek(0, 2) - TAIL))
                *lines, _ = file.read().split(b"\n")  # what stands behind the last newline is being written
            found: dict[str, Any] = json.loads(lines[-1])
        except (OSError, IndexError, ValueError):
            return None
        return found


def run_task(task: Task) -> int:
    """Runs a task unless it is done; returns its start.  One thread: the others belong to other tasks."""
    if task.result is None:
        set_num_threads(1)
        problem = from_start(_built(_Key(task)), task.start, task.starts)
        resume = task.folder if (task.folder / STATE).is_file() else None
        if resume is None and task.folder.exists():
            shutil.rmtree(task.folder)  # killed before the first iteration was saved
        with _time_limit(task.limit), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run of the best start says them again
            run_problem(problem, None if resume else task.folder, resume, task.iterations)
    return task.start


def from_start(problem: Problem, start: int, starts: int) -> Problem:
    """The problem with one start, number `start` of `starts`, and nothing written but the result."""
    values = problem.space.unpack(problem.space.starts(starts, problem.method.seed)[start])
    return replace(
        problem,
        sought=[replace(p, start=values[p.name]) for p in problem.sought],
        method=replace(problem.method, starts=1),
        expectations=[],
        description=replace(problem.description, report=False, causes=()),
    )


class _Key:
    """A task as far as its problem depends on it: tasks of one worker share a build."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.words = task.scene.resolved_yaml(), task.device, task.dtype

    def __hash__(self) -> int:
        return hash(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.words == other.words


@lru_cache(maxsize=4)
def _built(key: _Key) -> Problem:
    return key.task.scene.build(key.task.device, key.task.dtype)


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Inside, Ctrl-C is pressed after so long: a search stops before its next evaluation, and saves."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    timer = threading.Timer(seconds, _thread.interrupt_main)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def finite(value: Any) -> float:
    """A number of a result.json; nan where it is null."""
    return float("nan") if value is None else float(np.asarray(value, np.float64))
