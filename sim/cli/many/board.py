"""All tasks in one table, redrawn in place while they run, wherever they do: what their folders say."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sim.cli.terminal.tables import console, make_table, number_text
from sim.identify.many.tasks import Task

SHOWN = 24
"""Tasks that have a line: those that run, then the best that are done."""
OFTEN = 2.0
"""Redrawn so many times in a second."""
Row = tuple[str, str, str, str, str]


class TaskBoard:
    """Told of tasks as a `Progress`; within its `with` a terminal shows them."""

    def __init__(self) -> None:
        self._tasks: Sequence[Task] = ()
        self._done: dict[Path, dict[str, Any]] = {}
        self._begun = time.monotonic()
        self._live: Any = None

    def __call__(self, tasks: Sequence[Task]) -> None:
        """These are the tasks."""
        self._tasks = tasks

    def __enter__(self) -> Self:
        from rich.live import Live

        # drawn by a thread of its own: a task of this process lets nobody else draw
        self._live = Live(get_renderable=self.table, console=console(), refresh_per_second=OFTEN)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._live.stop()

    def table(self) -> Any:
        """As it is now."""
        from rich import box

        rows, done = self.rows()
        passed = f"{time.monotonic() - self._begun:.0f} s"
        table = make_table(
            f"{done} of {len(self._tasks)} done, {passed}", ["", "state", "iteration", "loss", "time"], box.SIMPLE_HEAD
        )
        for row in rows[:SHOWN]:
            table.add_row(*row)
        if len(rows) > SHOWN:
            table.add_row("", f"and {len(rows) - SHOWN} more", "", "", "")
        return table

    def rows(self) -> tuple[list[Row], int]:
        """A line for each task that has begun: those that run, then the others, the best first; how many are done."""
        running, done = list[Row](), list[tuple[float, Row]]()
        for task in self._tasks:
            if task.folder not in self._done and (result := task.result) is not None:
                self._done[task.folder] = result
            name, found = task.folder.name, self._done.get(task.folder)
            if found is not None:
                loss, took = found["loss"]["final"], found["wall_s"]
                row = (name, "done", str(found["iterations"]), number_text(loss), f"{took:.1f} s")
                done.append((float("inf") if loss is None else float(loss), row))
            elif (entry := task.last_entry) is not None:
                now = f"{entry['wall_s']:.1f} s"
                running.append((name, "runs", str(entry["iteration"]), number_text(entry["loss"]), now))
            elif task.folder.exists():
                running.append((name, "begins", "", "", ""))
        return running + [row for _, row in sorted(done, key=lambda pair: pair[0])], len(done)
