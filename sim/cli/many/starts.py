"""`simopt run --starts 32 --on local:2`: searches from many starts, then a run from the best of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.many.board import TaskBoard
from sim.cli.many.engines import Engine, engine
from sim.cli.terminal.tables import number_text, print_columns
from sim.cli.verbs.base import positive
from sim.identify.many.ensemble import Ensemble, ensemble
from sim.identify.many.tasks import Task
from sim.identify.problem import Problem
from sim.io import Curve, ReportData, default_run_path, write_report
from sim.scene import Scene

PAGE = "ensemble.html"
SHOWN = 12
"""Starts that a table in the terminal has."""


def add_starts_arguments(parser: argparse.ArgumentParser) -> None:
    """Of the verb `run`."""
    parser.add_argument(
        "--starts", type=positive, metavar="N", help="search from so many starts to the end, each in its own folder"
    )
    parser.add_argument("--on", type=engine, metavar="ENGINE", help="what runs the starts: local:2, dask://host:8786")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="wall time of one start")


def search_starts(options: argparse.Namespace, scene: Scene, problem: Problem) -> tuple[Problem, Path]:
    """Searches from all starts; the problem that begins where the best ended, and the folder for its run."""
    folder = options.out or default_run_path(problem.description.name)
    on: Engine | None = options.on
    shown = not (options.json or options.quiet)
    told: set[int] = set()

    def progress(tasks: Sequence[Task]) -> None:
        for task in tasks:
            if shown and task.start not in told and (found := task.result) is not None:
                told.add(task.start)
                loss, count = number_text(found["loss"]["final"]), found["iterations"]
                print(
                    f"start {task.start}: loss {loss} in {count} iterations ({len(told)} of {len(tasks)})", flush=True
                )

    with TaskBoard() if shown and sys.stdout.isatty() else nullcontext(progress) as told_of:
        found = ensemble(
            scene, options.starts, None if on is None else on.make, folder,
            device=options.device, dtype=str(options.dtype), iterations=options.iterations, limit=options.limit,
            progress=told_of,
        )  # fmt: skip
    write_report(folder / PAGE, _page(problem.description.name, found))
    if shown:
        show_ensemble(found)
    return from_best(problem, found), folder


def from_best(problem: Problem, found: Ensemble) -> Problem:
    """The problem, beginning where the best search ended."""
    best = found.best.found
    groups = found.clusters()
    note = (
        f"begun where the best of {len(found.members)} starts ended (number {found.best.start});"
        f" {len(groups[0]) if groups else 0} of them ended there, {len(groups)} optima in all"
    )
    return replace(
        problem,
        sought=[replace(p, start=np.asarray(best[p.name], np.float64)) for p in problem.sought],
        method=replace(problem.method, starts=1),
        description=replace(problem.description, notes=(*problem.description.notes, note)),
    )


def show_ensemble(found: Ensemble) -> None:
    """The optima, best first."""
    groups = found.clusters()
    print_columns(
        f"{len(found.members)} starts, {len(groups)} optima",
        groups[:SHOWN],
        ("loss", lambda group: number_text(group[0].loss)),
        ("starts that end there", lambda group: str(len(group))),
        *((name, _value(name)) for name in found.members[0].found),
    )


def _value(name: str) -> Any:
    return lambda group: number_text(group[0].found[name])


def _page(scene: str, found: Ensemble) -> ReportData:
    """Waterfall, and every parameter against the loss."""
    order = [m for m in found.waterfall() if np.isfinite(m.loss)]
    ranks, losses = list(range(1, len(order) + 1)), [m.loss for m in order]
    curves = [Curve("loss of the starts, sorted", ranks, losses, log=True, over="start")]
    for name, value in found.members[0].found.items():
        if np.ndim(value) == 0:
            curves.append(Curve(f"{name}, by the loss", ranks, [float(m.found[name]) for m in order], over="start"))
    groups = found.clusters()
    about = f"{len(found.members)} starts, {len(groups)} optima; {len(groups[0]) if groups else 0} found the best one."
    return ReportData(f"{scene}: starts", about, curves=curves, status="ok")
