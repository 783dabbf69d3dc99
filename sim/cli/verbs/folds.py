"""`simopt run --folds takes`: each take is predicted by a fit to the others."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import numpy as np

from sim.cli.terminal.tables import number_text, print_columns
from sim.cli.verbs.modules import UsageError
from sim.identify.assess.folds import Folds, cannot_leave_out, cross_validate
from sim.identify.problem import Problem
from sim.identify.run import Outcome
from sim.io import RunFolder

FOLDS = "folds.json"


def refuse_folds(problem: Problem) -> None:
    """Raises UsageError where no take can be left out, before anything is searched."""
    if why := cannot_leave_out(problem):
        raise UsageError(f"--folds takes: {why}")


def fold_takes(problem: Problem, outcome: Outcome) -> Folds | None:
    """Leaves out the takes of a run, and writes folds.json into its folder; None where it found nothing."""
    values = {name: row["final"] for name, row in outcome.result["parameters"].items()}
    if not values or any(value is None for value in values.values()):
        return None
    found = cross_validate(problem, problem.space.pack({name: np.asarray(v) for name, v in values.items()}))
    RunFolder(outcome.folder).write_json(FOLDS, folds_row(found))
    return found


def folds_row(found: Folds) -> dict[str, Any]:
    """As plain data."""
    return {
        "predicted": found.predicted, "fitted": found.fitted, "verdict": found.verdict,
        "takes": [asdict(fold) for fold in found.folds],
    }  # fmt: skip


def show_folds(found: Folds) -> None:
    """A table of them, and what they say."""
    names = list(found.folds[0].parameters)
    print_columns(
        "each take left out: what the others give, and how well they predict it",
        found.folds,
        ("left out", lambda fold: fold.take),
        *((name, _value(name)) for name in names),
        ("predicted [x noise]", lambda fold: number_text(fold.predicted)),
        ("fitted", lambda fold: number_text(fold.fitted)),
    )
    print(found.verdict)


def _value(name: str) -> Any:
    return lambda fold: number_text(fold.parameters[name])


def add_folds_argument(parser: argparse.ArgumentParser) -> None:
    """The option of `run`."""
    parser.add_argument(
        "--folds", choices=("takes",), help="leave out each fitted take once: how well do the others predict it?"
    )
