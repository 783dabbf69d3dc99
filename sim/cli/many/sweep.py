"""`simopt sweep SCENE --vary PATH=1,2,4`: the same scene with other values, each in its own folder."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.many.board import TaskBoard
from sim.cli.many.engines import engine
from sim.cli.terminal.tables import number_text, print_columns
from sim.cli.verbs.base import Verb, load
from sim.identify.many.pool import run_tasks
from sim.identify.many.tasks import Task
from sim.io import RunFolder, default_run_path, to_json

SWEEP_JSON = "sweep.json"
Variation = tuple[str, tuple[str, ...]]
"""A path of the scene, and the values to give it, as texts."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vary", type=variation, action="append", required=True, metavar="PATH=VALUES",
        help="1,2,4 or 0.1..10:log:5 or 0..1:3; may be repeated: all combinations",
    )  # fmt: skip
    parser.add_argument("--on", type=engine, metavar="ENGINE", help="what runs them: local:2, dask://host:8786")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder; default runs/<scene>-sweep/<time>")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="wall time of one")


def variation(text: str) -> Variation:
    """An argument `--vary`."""
    path, equals, values = text.partition("=")
    span, *how = values.split(":")
    try:
        if ".." in span and equals:
            low, high = (float(end) for end in span.split("..", 1))
            count, spacing = int(how[-1]), np.geomspace if how[:-1] == ["log"] else np.linspace
            if how[:-1] not in ([], ["log"]) or count < 1:
                raise ValueError
            return path, tuple(repr(float(v)) for v in spacing(low, high, count))
    except (ValueError, IndexError):
        raise argparse.ArgumentTypeError(f"`{text}` is no range; write PATH=0.1..10:log:5 or PATH=0..1:3") from None
    found = tuple(word.strip() for word in values.split(",") if word.strip())
    if not (equals and path and found):
        raise argparse.ArgumentTypeError(f"`{text}` varies nothing; write PATH=1,2,4")
    return path, found


def _run(options: argparse.Namespace) -> int:
    paths = [path for path, _ in options.vary]
    given = list(options.set)
    variants = list(itertools.product(*(values for _, values in options.vary)))
    scenes = []
    for values in variants:
        options.set = [*given, *(f"{path}={value}" for path, value in zip(paths, values, strict=True))]
        scenes.append(load(options))  # everything that is wrong with any of them is said before anything runs
    folder = options.out or default_run_path(f"{scenes[0].name}-sweep")
    width = max(3, len(str(len(scenes) - 1)))
    tasks = [
        Task(scene, folder / f"{k:0{width}d}", device=options.device, dtype=str(options.dtype), limit=options.limit)
        for k, scene in enumerate(scenes)
    ]
    shown, told = not (options.json or options.quiet), set[Path]()

    def progress(tasks: Sequence[Task]) -> None:
        for task in tasks:
            if shown and task.folder not in told and task.result is not None:
                told.add(task.folder)
                print(f"{len(told)} of {len(tasks)}: {task.folder}", flush=True)

    with TaskBoard() if shown and sys.stdout.isatty() else nullcontext(progress) as told_of:
        run_tasks(tasks, None if options.on is None else options.on.make, progress=told_of)
    rows = [_row(paths, values, task) for values, task in zip(variants, tasks, strict=True)]
    RunFolder(folder).write_json(SWEEP_JSON, {"rows": rows})
    if options.json:
        print(to_json({"rows": rows, "folder": folder}, indent=2))
        return 0
    columns: list[Any] = [(path, lambda row, path=path: row["values"][path]) for path in paths]
    for name in dict.fromkeys(name for row in rows for name in row["numbers"]):
        columns.append((name, lambda row, name=name: number_text(row["numbers"].get(name))))
    print_columns("", rows, *columns)
    print(folder)
    return 0


def _row(paths: Sequence[str], values: Sequence[str], task: Task) -> dict[str, Any]:
    """What was varied, and what came of it: parameters, measures, loss."""
    result = task.result
    assert result is not None, "it is done"
    numbers: dict[str, Any] = {name: row["final"] for name, row in result["parameters"].items()}
    for experiment, row in result["experiments"].items():
        for name, measure in row.items():
            if isinstance(measure, dict) and "simulated" in measure:
                numbers[f"{experiment}.{name}"] = measure["simulated"]
    numbers["loss"] = result["loss"]["final"]
    return {"values": dict(zip(paths, values, strict=True)), "numbers": numbers, "folder": task.folder.name}


SWEEP = Verb("sweep", "run a scene with other values, all combinations of them", _run, _add_arguments, takes_scene=True)
