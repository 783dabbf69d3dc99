"""simopt likelihood: how far each parameter of a run can go while the others make up for it."""

from __future__ import annotations

import argparse

from sim.cli.assess.finished import add_run_argument, read_finished
from sim.cli.terminal.tables import number_text, print_columns
from sim.cli.verbs.base import Verb
from sim.cli.verbs.modules import UsageError
from sim.identify.assess.estimate import estimate
from sim.identify.assess.likelihood import QUANTILES, ProfileLikelihood, profile_likelihood
from sim.identify.run import OK
from sim.io import Curve, ReportData, RunFolder, to_json, write_report

LIKELIHOOD_JSON, LIKELIHOOD_PAGE = "likelihood.json", "likelihood.html"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--of", action="append", metavar="PARAMETER", help="default: all; may be repeated")
    parser.add_argument(
        "--level", type=float, default=0.95, choices=tuple(QUANTILES), help="of the intervals; default 0.95"
    )


def _run(options: argparse.Namespace) -> int:
    run = read_finished(options)
    known = estimate(run.problem, run.x, run.problem.simulate(run.x))
    if isinstance(known, str):
        raise UsageError(f"{run.folder}: {known}")
    try:
        found = profile_likelihood(run.problem, run.x, known, options.of, options.level)
    except ValueError as error:
        raise UsageError(str(error)) from error
    rows = {name: _row(p) for name, p in found.items()}
    folder = RunFolder(run.folder)
    folder.write_json(LIKELIHOOD_JSON, {"level": options.level, "parameters": rows})
    page = write_report(folder.file(LIKELIHOOD_PAGE), _page(run.result["scene"], options.level, found))
    if options.json:
        print(to_json({"level": options.level, "parameters": rows, "page": page}, indent=2))
        return OK
    percent = f"{100 * options.level:g} %"
    print_columns(
        f"profile likelihoods, {percent}",
        found.values(),
        ("", lambda p: p.name),
        ("from", lambda p: number_text(p.interval[0])),
        ("to", lambda p: number_text(p.interval[1])),
        ("by standard error, from", lambda p: number_text(p.wald[0])),
        ("to", lambda p: number_text(p.wald[1])),
        ("rollouts", lambda p: str(p.rollouts)),
        ("", lambda p: p.verdict),
    )
    print(page)
    return OK


def _row(p: ProfileLikelihood) -> dict[str, object]:
    return {
        "interval": p.interval, "standard_error_interval": p.wald, "verdict": p.verdict, "values": p.values,
        "deviances": p.deviances, "rollouts": p.rollouts,
    }  # fmt: skip


def _page(scene: str, level: float, found: dict[str, ProfileLikelihood]) -> ReportData:
    about = (
        "How much worse the recordings are met (deviance) where one parameter is held and the others are at their"
        f" best; dashed: the limit of {100 * level:g} %."
    )
    curves = [
        Curve(name, p.values.tolist(), p.deviances.tolist(), reference=p.quantile, over=name)
        for name, p in found.items()
    ]
    return ReportData(f"{scene}: profile likelihoods", about, curves=curves, status="ok")


LIKELIHOOD = Verb(
    "likelihood", "how far each parameter of a run can go while the others make up for it", _run, _add_arguments
)
