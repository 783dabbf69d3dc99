"""simopt compare: what several runs found, side by side, and which of their models the recordings prefer."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim.cli.assess.finished import read_result
from sim.cli.terminal.tables import number_text, print_table
from sim.cli.verbs.base import Verb
from sim.cli.verbs.modules import UsageError
from sim.identify.assess.criteria import Fit, criteria, fit_of
from sim.identify.run import OK
from sim.io import to_json


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN", help="run folders, two or more")


def _run(options: argparse.Namespace) -> int:
    if len(options.folders) < 2:
        raise UsageError("compare takes two runs or more\n  simopt compare runs/a runs/b")
    runs = [read_result(path) for path in options.folders]
    results = [result for _, result in runs]
    names = _names(runs)
    fits = [fit_of(result) for result in results]
    scores = criteria(fits)
    if options.json:
        rows = [
            {"run": folder, "parameters": _values(result), "loss": result["loss"]["final"],
             **({} if fit is None else fit.row), **score}
            for (folder, result), fit, score in zip(runs, fits, scores, strict=True)
        ]  # fmt: skip
        print(to_json({"runs": rows}, indent=2))
        return OK
    parameters = list(dict.fromkeys(name for result in results for name in result["parameters"]))
    body = [[name, *(_cell(result["parameters"].get(name)) for result in results)] for name in parameters]
    experiments = list(dict.fromkeys(name for result in results for name in result["experiments"]))
    body += [[f"{name} [x noise]", *(_misfit(result, name) for result in results)] for name in experiments]
    body += [
        ["loss", *(number_text(result["loss"]["final"]) for result in results)],
        ["numbers sought", *("-" if fit is None else str(fit.sought) for fit in fits)],
        ["observations, as independent ones", *(_count(fit) for fit in fits)],
        ["AICc, above the best", *(number_text(score["aicc"]) for score in scores)],
        ["BIC, above the best", *(number_text(score["bic"]) for score in scores)],
    ]
    print_table("", ["", *names], body)
    print(_words(names, fits, scores))
    return OK


def _names(runs: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[str]:
    """Short names that differ: those of the scenes, or the last parts of the paths."""
    names = [str(result["scene"]) for _, result in runs]
    for length in range(1, max(len(folder.parts) for folder, _ in runs) + 1):
        if len(set(names)) == len(names):
            break
        names = ["/".join(folder.parts[-length:]) for folder, _ in runs]
    return names


def _values(result: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("final", "standard_error", "unit")
    return {name: {key: row.get(key) for key in keys} for name, row in result["parameters"].items()}


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "-"
    error = np.ravel(np.asarray(np.nan if row.get("standard_error") is None else row["standard_error"], np.float64))
    spread = f" ± {error[0]:.2g}" if error.size == 1 and math.isfinite(error[0]) else ""
    return f"{number_text(row['final'])}{spread} {row['unit']}".strip()


def _misfit(result: Mapping[str, Any], name: str) -> str:
    row = result["experiments"].get(name, {})
    parts = [
        f"{1e3 * r['noise']['typical']:.3g} mm, estimated" if r["in_noise"] is None else f"{r['in_noise']:.3g}"
        for r in row.get("residuals", {}).values()
    ]
    return f"{', '.join(parts)} ({row['use']})" if parts else "-"


def _count(fit: Fit | None) -> str:
    return "-" if fit is None else f"{fit.numbers}, {fit.effective:.3g}"


def _words(names: Sequence[str], fits: Sequence[Fit | None], scores: Sequence[Mapping[str, float | None]]) -> str:
    """Which run is to be preferred, and by how much."""
    known = [k for k, score in enumerate(scores) if score["aicc"] is not None]
    if len(known) < 2:
        missing = [names[k] for k in range(len(names)) if fits[k] is None]
        reason = (
            f"{', '.join(missing)} compare with no recording" if missing else "they were fitted to other recordings"
        )
        return f"no criterion compares these runs: {reason}"
    order = sorted(known, key=lambda k: float(scores[k]["aicc"] or 0.0))
    best, second = order[0], float(scores[order[1]]["aicc"] or 0.0)
    if second < 2.0:
        return f"the recordings do not tell {names[best]} and {names[order[1]]} apart (AICc differs by {second:.2g})"
    how = "clearly" if second > 10.0 else "somewhat"
    return f"the recordings prefer {names[best]} {how}: by {second:.3g} in AICc to {names[order[1]]}"


COMPARE = Verb("compare", "what several runs found, side by side, and which model is preferred", _run, _add_arguments)
