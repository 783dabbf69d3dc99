"""What the command shows in a terminal: tables, a live view of a search, plain lines where nobody watches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.identify.problem import Problem
from sim.identify.run import REPORT, Watcher
from sim.identify.search.loop import ENDED
from sim.io import ParameterRow, RunFolder
from sim.io.report_parameters import MOST_ROWS, number_cells

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


def show_result(result: Mapping[str, Any], folder: Path) -> None:
    """What a run found, in tables that fit into 80 columns, and where everything else is."""
    rows = [
        ParameterRow(name, p["start"], p["final"], p["unit"], error=p.get("standard_error"), labels=p.get("labels", ()))
        for name, p in result["parameters"].items()
    ]
    if rows:
        print_table(
            "parameters",
            ["", "start", "found", "standard error", "unit"],
            [line for row in rows for line in _parameter(row)],
        )
    for row in rows:
        if row.size > MOST_ROWS:
            print(
                f"{row.name}: {row.size} numbers, lowest ... median ... highest; all of them: {folder / 'result.json'}"
            )
    if result["starts"]:
        print_starts(result["starts"])
    if result["horizons"]:
        print_horizons(result["horizons"])
    measures = [
        [
            experiment,
            name,
            number_text(m["simulated"]),
            number_text(m["measured"]),
            m["unit"],
            "-" if m["error"] is None else f"{m['error']:+.1%}",
        ]
        for experiment, e in result["experiments"].items()
        for name, m in e.items()
        if isinstance(m, Mapping) and "simulated" in m
    ]
    if measures:
        print_table("measures", ["", "", "simulated", "measured", "unit", "error"], measures)
    if result["expect"]:
        print_table(
            "expected",
            ["", "want", "got", ""],
            [
                [
                    row["path"].removeprefix("experiments."),
                    row["want"].replace(", as measured,", " measured,"),
                    f"{number_text(row['got'])} {_unit(result, row['path'])}".strip(),
                    "ok" if row["ok"] else "NOT MET",
                ]
                for row in result["expect"]
            ],
        )
    loss = result["loss"]
    if loss["final"] is not None:
        print(
            f"loss {number_text(loss['initial'])} -> {number_text(loss['final'])} in {result['iterations']} iterations"
            f" of {result['method']}, {result['evaluations']} evaluations, {result['wall_s']:.1f} s; ended:"
            f" {ENDED[result['stopped_because']]}"
        )
    else:
        print(f"{result['stopped_because']} in {result['wall_s']:.1f} s")
    print(f"{folder / REPORT if (folder / REPORT).exists() else folder}")


def _parameter(row: ParameterRow) -> list[list[str]]:
    """A line for each number, or one with the range of many."""
    if row.size > MOST_ROWS:
        return [[row.name, _range(row.start), _range(row.final), _range(row.error), row.unit]]
    numbers = [row] if row.size == 1 else list(row.numbers())
    return [
        [
            one.name,
            number_text(one.start),
            *(cell.replace("−", "-").replace("–", "-") for cell in number_cells(one)),
            one.unit,
        ]
        for one in numbers
    ]


def _unit(result: Mapping[str, Any], path: str) -> str:
    """The unit of a parameter or of a measure; empty for other numbers of the result."""
    kind, _, rest = path.removesuffix(".final").removesuffix(".simulated").partition(".")
    experiment, _, measure = rest.partition(".")
    found = (
        result["parameters"].get(rest)
        if kind == "parameters"
        else result["experiments"].get(experiment, {}).get(measure)
    )
    return (
        found["unit"]
        if kind in ("parameters", "experiments") and isinstance(found, Mapping) and "unit" in found
        else ""
    )


def _range(value: Any) -> str:
    """Lowest, median and highest of many numbers."""
    flat = np.zeros(0) if value is None else np.ravel(np.asarray(value, dtype=np.float64))
    flat = flat[np.isfinite(flat)]
    if not flat.size:
        return "-"
    low, middle, high = (f"{v:.3g}" for v in (flat.min(), np.median(flat), flat.max()))
    return low if low == high else f"{low} ... {middle} ... {high}"


def number_text(value: Any) -> str:
    """A number or a few of them for a table; the lowest and highest of more than four; a dash for what is missing."""
    if value is None:
        return "-"
    flat = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if flat.size > 4:
        return f"{flat.min():.5g} ... {flat.max():.5g} ({flat.size})"
    return ", ".join(f"{item:.5g}" for item in flat)


def print_starts(found: Mapping[str, Any]) -> None:
    """Where each of several starts stood, and how far it came before the search went on from one; `found`: as in
    result.json."""
    names = list(found["rows"][0]["start"])
    rows = [
        [
            f"{k + 1}{' *' if row['chosen'] else ''}",
            *(f"{_short(row['start'][name])} -> {_short(row['end'][name])}" for name in names),
            _loss(row["loss"]),
            _loss(row["reached"]),
        ]
        for k, row in enumerate(found["rows"])
    ]
    print_table(f"starts (* chosen; horizon {found['horizon']})", ["", *names, "loss", "reached"], rows)


def print_horizons(found: Sequence[Mapping[str, Any]]) -> None:
    """How the search went from horizon to horizon; `found`: as in result.json."""
    print_table(
        "horizons",
        ["", "loss before", "after", "last iteration", "ended because"],
        [
            [
                row["horizon"],
                _loss(row["initial"]),
                _loss(row["final"]),
                str(row["iteration"]),
                ENDED[row["stopped_because"]],
            ]
            for row in found
        ],
    )


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

        self._names = [p.name for p in problem.parameters]
        self._rows: list[list[str]] = []
        self._console = _console()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        total = iterations if problem.parameters else None
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
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    return table


def _short(value: Any) -> str:
    flat = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if flat.size > 4:
        return f"{flat.min():.4g} ... {flat.max():.4g}"
    return ", ".join(f"{item:.5g}" for item in flat)
