"""`ensemble`: searches of one scene from many starts, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim.identify.many.pool import MakeExecutor, Progress, run_tasks
from sim.identify.many.tasks import Buildable, Task, finite
from sim.io import RunFolder

ENSEMBLE = "ensemble.json"


@dataclass(frozen=True, eq=False)
class Member:
    """One search: number of its start, values there and at the end, the losses, why it ended, its folder.

    loss: nan where the simulation broke down.
    """

    start: int
    begun: Mapping[str, Any]
    found: Mapping[str, Any]
    initial_loss: float
    loss: float
    iterations: int
    stopped_because: str
    folder: Path


@dataclass(frozen=True, eq=False)
class Ensemble:
    """All searches, by number of their start."""

    members: tuple[Member, ...]
    folder: Path

    def __repr__(self) -> str:
        groups = self.clusters()
        return f"Ensemble({len(self.members)} starts, {len(groups)} optima; best loss {self.best.loss:.6g})"

    def waterfall(self) -> list[Member]:
        """Members by their loss, the best first; those that broke down last."""
        return sorted(self.members, key=lambda m: (not math.isfinite(m.loss), m.loss, m.start))

    @property
    def best(self) -> Member:
        """The one with the least loss."""
        return self.waterfall()[0]

    def clusters(self, rtol: float = 1e-2) -> list[list[Member]]:
        """Members that found the same, up to `rtol` of each value and of the loss; by loss, the best first."""
        groups: list[list[Member]] = []
        for member in self.waterfall():
            if not math.isfinite(member.loss):
                continue
            home = next((g for g in groups if _alike(g[0], member, rtol)), None)
            if home is None:
                groups.append([member])
            else:
                home.append(member)
        return groups

    def row(self) -> dict[str, Any]:
        """As plain data, without times: the same whatever ran it."""
        return {
            "members": [
                {
                    "start": m.start, "begun": m.begun, "found": m.found, "initial_loss": m.initial_loss,
                    "loss": m.loss, "iterations": m.iterations, "stopped_because": m.stopped_because,
                }
                for m in self.members
            ],
            "best": self.best.start,
            "clusters": [[m.start for m in group] for group in self.clusters()],
        }  # fmt: skip


def ensemble(
    scene: Buildable,
    starts: int,
    executor: Executor | MakeExecutor | None = None,
    folder: str | Path = "runs/ensemble",
    retries: int = 3,
    *,
    device: str | None = None,
    dtype: str = "float64",
    iterations: int | None = None,
    limit: float | None = None,
    progress: Progress = lambda tasks: None,
) -> Ensemble:
    """Search a scene from `starts` starts: its own, then random ones between the bounds, by `optimize.seed`.

    executor: any of `concurrent.futures` (Dask's `Client.get_executor()`, say), or what makes one: then it is made
    again where workers die; None: in this process, one after the other.  folder: a folder for each start below it; what
    is done there already is not done again, what was begun goes on.  limit: wall time [s] of one start.
    Writes ensemble.json, the same bytes whatever ran it, in whatever order, however often it was interrupted (but by
    `limit`).  Raises TaskFailed where a start lost its worker more than `retries` times.
    """
    if starts < 1:
        raise ValueError(f"starts={starts}; expected at least 1")
    folder = Path(folder)
    width = max(3, len(str(starts - 1)))
    tasks = [
        Task(scene, folder / "starts" / f"{k:0{width}d}", k, starts, device, dtype, iterations, limit)
        for k in range(starts)
    ]
    run_tasks(tasks, executor, retries, progress)
    found = Ensemble(tuple(member_of(task) for task in tasks), folder)
    RunFolder(folder).write_json(ENSEMBLE, found.row())
    return found


def member_of(task: Task) -> Member:
    """What a task found."""
    result = task.result
    assert result is not None, "it is done"
    begun, found = ({name: row[key] for name, row in result["parameters"].items()} for key in ("start", "final"))
    initial, final = (finite(result["loss"][key]) for key in ("initial", "final"))
    ended = result["iterations"], result["stopped_because"]
    return Member(task.start, begun, found, initial, final, *ended, task.folder)


def _alike(a: Member, b: Member, rtol: float) -> bool:
    if not math.isclose(a.loss, b.loss, rel_tol=rtol, abs_tol=1e-12):
        return False
    for name in a.found:
        x, y = (np.ravel(np.asarray(m.found[name], np.float64)) for m in (a, b))
        if float(np.linalg.norm(x - y)) > rtol * max(float(np.linalg.norm(x)), float(np.linalg.norm(y))):
            return False
    return True
