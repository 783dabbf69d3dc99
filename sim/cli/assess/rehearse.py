"""simopt rehearse: fits recordings that the scene makes itself, before an experiment is made."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from sim.cli.terminal.tables import number_text, print_columns
from sim.cli.verbs.base import Verb, load, positive
from sim.cli.verbs.modules import UsageError
from sim.identify.assess.rehearsal import Rehearsal, rehearse
from sim.identify.run import OK
from sim.io import to_json


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--takes", type=positive, default=50, metavar="N", help="recordings to fit; default 50")


def _run(options: argparse.Namespace) -> int:
    problem = load(options).build(options.device, options.dtype)
    if not problem.sought:
        raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is nothing to find")
    shown = not (options.json or options.quiet) and sys.stderr.isatty()

    def progress(done: int, takes: int) -> None:
        if shown:
            print(f"\r{done} of {takes} takes", end="" if done < takes else "\n", file=sys.stderr, flush=True)

    try:
        found = rehearse(problem, takes=options.takes, seed=options.seed or 0, progress=progress)
    except ValueError as error:
        raise UsageError(f"{options.scene}: {error}") from error
    if options.json:
        rows = [asdict(row) for row in found.rows]
        print(to_json({"takes": found.takes, "failed": found.failed, "parameters": rows}, indent=2))
        return OK
    print_columns(
        f"fits of {found.takes} recordings made with the values of the scene",
        found.rows,
        ("", lambda row: row.name),
        ("true", lambda row: number_text(row.true)),
        ("found, mean", lambda row: number_text(row.mean)),
        ("spread", lambda row: f"{row.spread:.3g}"),
        ("bias / spread", lambda row: f"{row.bias:+.2f}"),
        ("standard error / spread", lambda row: f"{row.predicted:.2f}"),
        ("in 95 % intervals", lambda row: f"{row.coverage:.0%}"),
    )
    print(_words(found))
    return OK


def _words(found: Rehearsal) -> str:
    """What is wrong, or that nothing is."""
    if not found.rows:
        return f"{found.failed} of {found.takes} fits broke down: too few are left to count"
    low = [row.name for row in found.rows if row.coverage < 0.95 - found.sure]
    failed = f"; {found.failed} fits broke down" if found.failed else ""
    if low:
        return (
            f"the standard errors of {', '.join(low)} are too small: their intervals hold the truth too rarely{failed}"
        )
    return f"the intervals hold the truth as often as they should, within {found.sure:.0%} by chance{failed}"


REHEARSE = Verb(
    "rehearse", "fit recordings that the scene makes itself: what an experiment would tell", _run, _add_arguments,
    takes_scene=True,
)  # fmt: skip
