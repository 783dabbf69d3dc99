"""simopt run: simulates a scene, and identifies its parameters."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from sim.cli.many.starts import add_starts_arguments, search_starts
from sim.cli.terminal.page import PageWatcher
from sim.cli.terminal.result import show_result
from sim.cli.terminal.tables import print_columns
from sim.cli.terminal.watch import LiveWatcher, PlainWatcher
from sim.cli.verbs.base import Verb, load, positive
from sim.cli.verbs.folds import add_folds_argument, fold_takes, folds_row, refuse_folds, show_folds
from sim.cli.verbs.modules import UsageError
from sim.identify.run import INTERRUPTED, REPORT, Watcher, run_problem
from sim.io import STATE, to_json
from sim.scene.build.problem import PRECISION
from sim.solvers import SolverNewton


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="only simulate, with the parameters at their start; recordings are shown beside it",
    )
    parser.add_argument(
        "--iterations", type=positive, help="iterations in all (on every horizon), instead of the scene's"
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run in this folder")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run folder; default runs/<scene>/<time>")
    parser.add_argument(
        "--reference",
        action="store_true",
        help="simulate the result once more with SolverNewton, or what the scene names as its reference, compare, and"
        " say what would be found with it",
    )
    parser.add_argument(
        "--no-numerics", action="store_true", help="do not estimate the numerical error of what is found"
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="show the run in a browser while it goes on, on a page of this machine alone",
    )
    parser.add_argument("--profile", action="store_true", help="measure the time of every kernel, for the report")
    add_folds_argument(parser)
    add_starts_arguments(parser)


def _run(options: argparse.Namespace) -> int:
    if options.simulate and (options.resume or options.iterations or options.folds):
        raise UsageError("--simulate searches nothing: --resume, --iterations and --folds do not go with it")
    if options.on and not options.starts:
        raise UsageError("--on says what runs several starts: give --starts")
    if options.starts and (options.simulate or options.resume):
        raise UsageError("--starts does not go with --simulate or --resume: what is in its folder is not done again")
    scene = load(options)
    problem = scene.build(options.device, options.dtype)
    if options.folds:
        refuse_folds(problem)
    if options.starts:
        if not problem.sought:
            raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is nothing to search for")
        problem, options.out = search_starts(options, scene, problem)
    if options.reference and problem.reference is None:
        problem.reference = SolverNewton.reference_of(problem.solver)
        problem.reference.check_model()
    if options.no_numerics:
        problem.description = replace(problem.description, causes=())
    watcher: Watcher = Watcher()
    if not (options.json or options.quiet):
        watcher = LiveWatcher() if sys.stdout.isatty() else PlainWatcher()
    if options.live:
        watcher = PageWatcher(problem, watcher)
    try:
        outcome = run_problem(
            problem, options.out, options.resume, options.iterations, watcher, options.profile, not options.simulate
        )
    except BaseException:
        watcher.close(None)
        raise
    watcher.close(outcome.folder / REPORT)
    folds = fold_takes(problem, outcome) if options.folds and outcome.status != INTERRUPTED else None
    if options.json:
        more = {} if folds is None else {"folds": folds_row(folds)}
        print(to_json({**outcome.result, **more, "folder": str(outcome.folder)}, indent=2))
    elif not options.quiet:
        show_result(outcome.result, outcome.folder)
        if folds is not None:
            show_folds(folds)
        if options.profile and "profile" in outcome.result:
            print_columns(
                "kernels",
                outcome.result["profile"],
                ("", lambda row: row["kernel"]),
                ("launches", lambda row: str(row["calls"])),
                ("time [s]", lambda row: f"{row['seconds']:.3f}"),
                ("share", lambda row: f"{row['share']:.1%}"),
                ("GB/s", lambda row: f"{row['bytes'] / row['seconds'] / 1e9:.1f}"),
            )
    if outcome.status == INTERRUPTED and (outcome.folder / STATE).exists():
        print(f"continue with: {resume_command(options, outcome.folder)}", file=sys.stderr)
    return outcome.status


def resume_command(options: argparse.Namespace, folder: Path) -> str:
    """The command that goes on with an interrupted run, for a shell."""
    words = ["simopt", "run", str(options.scene), "--resume", str(folder)]
    words += [word for setting in options.set for word in ("--set", setting)]
    words += [word for module in options.modules for word in ("--import", module)]
    if options.dtype is not PRECISION:
        words += ["--dtype", str(options.dtype)]
    for name in ("device", "seed", "threads", "iterations"):
        if getattr(options, name) is not None:
            words += [f"--{name}", str(getattr(options, name))]
    words += ["--reference"] if options.reference else []
    return shlex.join([*words, *(["--allow-outside"] if options.allow_outside else [])])


RUN = Verb("run", "simulate, and identify what the scene seeks", _run, _add_arguments, takes_scene=True)
