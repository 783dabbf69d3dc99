"""What is shown while a search runs: a live view, or plain lines where nobody watches."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from sim.cli.terminal.tables import console, few_digits, make_table
from sim.identify.problem import Problem
from sim.identify.run import Watcher
from sim.io import RunFolder

SHOWN = 12
"""Iterations that the live table holds."""


SLOW = 5.0
"""Seconds of a run from which it says what it works out after the search, which may take as long again."""


class _Telling(Watcher):
    """Answers Ctrl-C at once, and says what a slow run does after its search."""

    def __init__(self) -> None:
        self.begun = time.monotonic()

    def stage(self, what: str) -> None:
        if time.monotonic() - self.begun > SLOW:
            print(f"now: {what}", flush=True)

    def interrupted(self) -> None:
        # Not by print: within a signal handler its buffer may be half written.
        os.write(2, b"\nstopping after this evaluation, and saving... (Ctrl-C again stops at once)\n")


class PlainWatcher(_Telling):
    """One line per iteration."""

    def begin(self, problem: Problem, folder: RunFolder, iterations: int) -> None:
        print(f"{problem.description.name}: {folder.path}", flush=True)

    def iteration(self, entry: Mapping[str, Any]) -> None:
        found = ", ".join(f"{name} {few_digits(value)}" for name, value in entry["parameters"].items())
        until = f"  horizon {entry['horizon']}" if "horizon" in entry else ""
        print(
            f"{entry['iteration']:4d}{until}  loss {entry['loss']:.6g}  gradient {entry['gradient_norm']:.2e}  {found} "
            f" ({entry['wall_s']:.1f} s)",
            flush=True,
        )

    def note(self, text: str) -> None:
        print(f"note: {text}", flush=True)


class LiveWatcher(_Telling):
    """A progress bar and the last iterations, redrawn in place."""

    def begin(self, problem: Problem, folder: RunFolder, iterations: int) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._names = [p.name for p in problem.sought]
        self._rows: list[list[str]] = []
        self._console = console()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        total = iterations if problem.sought else None
        self._task = self._progress.add_task(problem.description.name, total=total)
        self._console.print(str(folder.path))
        self._live = Live(self._view(), console=self._console, refresh_per_second=8)
        self._live.start()

    def iteration(self, entry: Mapping[str, Any]) -> None:
        until = f" ({entry['horizon']})" if "horizon" in entry else ""
        row = [f"{entry['iteration']}{until}", f"{entry['loss']:.6g}", f"{entry['gradient_norm']:.2e}"]
        row += [few_digits(entry["parameters"][name]) for name in self._names]
        self._rows = [*self._rows, [*row, f"{entry['wall_s']:.1f} s"]][-SHOWN:]
        self._progress.update(self._task, completed=entry["iteration"])
        self._live.update(self._view())

    def note(self, text: str) -> None:
        from rich.markup import escape

        self._console.print(f"[yellow]note:[/yellow] {escape(text)}")

    def end(self) -> None:
        self._live.update(self._view(), refresh=True)
        self._live.stop()

    def _view(self) -> Any:
        from rich import box
        from rich.console import Group

        table = make_table("", ["iteration", "loss", "gradient", *self._names, "time"], box.SIMPLE_HEAD)
        for row in self._rows:
            table.add_row(*row)
        return Group(table, self._progress) if self._rows else Group(self._progress)
