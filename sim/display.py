"""What the command shows in a terminal: tables, a live view of a search, plain lines where nobody watches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.identify.loop import ENDED
from sim.identify.problem import Problem
from sim.identify.run import Watcher
from sim.io import RunFolder

SHOWN = 12
"""Iterations that the live table holds."""


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output; plain text where that is no terminal."""
    from rich import box
    from rich.text import Text

    console = _console()
    if not console.is_terminal:
        console = _console(width=160)
    table = _table(title, head, box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)


def print_starts(found: Mapping[str, Any]) -> None:
    """Where each of several starts stood, and how far it came before the search went on from one; `found`: as in result.json."""
    names = list(found["rows"][0]["start"])
    rows = [[f"{k + 1}{' *' if row['chosen'] else ''}", *(f"{_short(row['start'][name])} -> {_short(row['end'][name])}" for name in names),
             _loss(row["loss"]), _loss(row["reached"])] for k, row in enumerate(found["rows"])]
    print_table(f"starts (* chosen; horizon {found['horizon']})", ["", *names, "loss", "reached"], rows)


def print_horizons(found: Sequence[Mapping[str, Any]]) -> None:
    """How the search went from horizon to horizon; `found`: as in result.json."""
    print_table("horizons", ["", "loss before", "after", "last iteration", "ended because"], [
        [row["horizon"], _loss(row["initial"]), _loss(row["final"]), str(row["iteration"]), ENDED[row["stopped_because"]]] for row in found])


def _loss(value: float | None) -> str:
    return "breaks down" if value is None else f"{value:.5g}"


def size_text(nbytes: float) -> str:
    """Bytes for people: `24 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} B"


def _console(**options: Any) -> Any:
    """A console for standard output, which leaves a reader that went away to the command: rich would exit by itself."""
    from rich.console import Console

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Ours(highlight=False, **options)


class _Telling(Watcher):
    """Answers Ctrl-C at once."""

    def interrupted(self) -> None:
        # Not by print: within a signal handler its buffer may be half written.
        os.write(2, b"\nstopping after this evaluation, and saving... (Ctrl-C again stops at once)\n")


class PlainWatcher(_Telling):
    """One line per iteration."""

    def begin(self, problem: Problem, folder: RunFolder, iterations: int) -> None:
        print(f"{problem.description.name}: {folder.path}", flush=True)

    def iteration(self, entry: Mapping[str, Any]) -> None:
        found = ", ".join(f"{name} {_short(value)}" for name, value in entry["parameters"].items())
        until = f"  horizon {entry['horizon']}" if "horizon" in entry else ""
        print(f"{entry['iteration']:4d}{until}  loss {entry['loss']:.6g}  gradient {entry['gradient_norm']:.2e}  {found}  "
              f"({entry['wall_s']:.1f} s)", flush=True)

    def note(self, text: str) -> None:
        print(f"note: {text}", flush=True)


class LiveWatcher(_Telling):
    """A progress bar and the last iterations, redrawn in place."""

    def begin(self, problem: Problem, folder: RunFolder, iterations: int) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._names = problem.parameters
        self._rows: list[list[str]] = []
        self._console = _console()
        self._progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                                  TimeElapsedColumn(), console=self._console)
        total = iterations if problem.sought else None
        self._task = self._progress.add_task(problem.description.name, total=total)
        self._console.print(str(folder.path))
        self._live = Live(self._view(), console=self._console, refresh_per_second=8)
        self._live.start()

    def iteration(self, entry: Mapping[str, Any]) -> None:
        until = f" ({entry['horizon']})" if "horizon" in entry else ""
        row = [f"{entry['iteration']}{until}", f"{entry['loss']:.6g}", f"{entry['gradient_norm']:.2e}"]
        row += [_short(entry["parameters"][name]) for name in self._names]
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

        table = _table("", ["iteration", "loss", "gradient", *self._names, "time"], box.SIMPLE_HEAD)
        for row in self._rows:
            table.add_row(*row)
        return Group(table, self._progress) if self._rows else Group(self._progress)


def _table(title: str, head: Sequence[str], style: Any) -> Any:
    from rich.table import Table

    table = Table(title=title or None, box=style, title_justify="left", show_header=any(head))
    for k, name in enumerate(head):
        numeric = k > 0 and name not in ("unit", "want", "")
        table.add_column(name, justify="right" if numeric else "left")
    return table


def _short(value: Any) -> str:
    flat = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if flat.size > 4:
        return f"{flat.min():.4g} ... {flat.max():.4g}"
    return ", ".join(f"{item:.5g}" for item in flat)
