"""Tasks on an executor: resubmitted where a worker dies, until each has a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait

from sim.core.lang.errors import SimError
from sim.identify.many.tasks import Task, run_task

POLL = 0.5
"""Seconds between looks at how far tasks are."""

MakeExecutor = Callable[[], Executor]
Progress = Callable[[Sequence[Task]], None]
"""Told of all tasks, now and then."""


class TaskFailed(SimError, RuntimeError):
    """A task that did not come to an end, as often as it was tried."""


def run_tasks(
    tasks: Sequence[Task],
    executor: Executor | MakeExecutor | None = None,
    retries: int = 3,
    progress: Progress = lambda tasks: None,
) -> None:
    """Run all that have no result yet.  executor: of `concurrent.futures`, or what makes one, so that it can be made
    again where it breaks; None: one after the other, in this process.

    Raises TaskFailed where a task lost its worker more than `retries` times, and what a task raised itself.
    """
    progress(tasks)
    if executor is None:
        for task in tasks:
            run_task(task)
            progress(tasks)
        return
    lost: dict[int, int] = {}
    while remaining := [k for k, task in enumerate(tasks) if task.result is None]:
        owned = not isinstance(executor, Executor)
        pool = executor if isinstance(executor, Executor) else executor()
        try:
            broken = _round(pool, tasks, remaining, lost, progress)
        finally:
            if owned:
                pool.shutdown(wait=True, cancel_futures=True)
        worst = max(lost, key=lambda k: lost[k], default=None)
        if worst is not None and lost[worst] > retries:
            raise TaskFailed(
                f"start {tasks[worst].start} lost its worker {lost[worst]} times; what it has done is in"
                f" {tasks[worst].folder}",
                "Look for what kills workers (memory?), and call again with the same folder: it goes on from there",
            )
        if broken and not owned:
            raise TaskFailed(
                "the executor is broken: a worker died, and its other tasks with it",
                "Give a function that makes executors: a new one goes on from what is done",
            )
    progress(tasks)


def _round(
    pool: Executor, tasks: Sequence[Task], remaining: Sequence[int], lost: dict[int, int], progress: Progress
) -> bool:
    """Submits what remains and waits; counts the tasks that were running when a worker died.  Is the pool broken?"""
    futures: dict[Future[int], int] = {}
    broken = False
    try:
        for k in remaining:
            futures[pool.submit(run_task, tasks[k])] = k
    except BrokenExecutor:
        broken = True
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=POLL, return_when=FIRST_COMPLETED)
        for future in done:
            problem = future.exception()
            if problem is None or tasks[futures[future]].result is not None:
                continue
            if isinstance(problem, BrokenExecutor):
                broken = True
            elif not _is_lost_worker(problem):
                for other in waiting:
                    other.cancel()
                raise problem
            if tasks[futures[future]].folder.exists():  # it had begun
                lost[futures[future]] = lost.get(futures[future], 0) + 1
        progress(tasks)
    return broken


def _is_lost_worker(problem: BaseException) -> bool:
    """Whether an engine says so in its own words: Dask's KilledWorker, Ray's WorkerCrashedError."""
    return type(problem).__name__ in ("KilledWorker", "WorkerCrashedError", "CancelledError", "CommClosedError")
