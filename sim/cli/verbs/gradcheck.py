"""simopt gradcheck: compares back-propagated gradients with differences."""

from __future__ import annotations

import argparse
import warnings

from sim.cli.terminal.tables import print_columns
from sim.cli.verbs.base import Verb, load
from sim.cli.verbs.modules import UsageError
from sim.core.lang.types import float64
from sim.identify.assess.gradcheck import NEARBY, TOLERANCE, SlopeCheck, check_gradient
from sim.identify.report.contacts import contact_rows
from sim.identify.report.rows import growth_rows
from sim.io import to_json
from sim.rollout import ChaoticGradientWarning


def _run(options: argparse.Namespace) -> int:
    problem = load(options).build(options.device, float64)
    if not problem.sought:
        raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is no gradient to check")
    with problem.remembering(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ChaoticGradientWarning)
        rows = check_gradient(problem, seed=options.seed or 0)
        growth = problem.evaluate(problem.start).growth
        counts = contact_rows(problem.contacts(problem.start))
    good = all(row.ok for row in rows)
    if options.json:
        shown = [
            {**vars(row), **{k: getattr(row, k) for k in ("error", "resolution", "ok", "rough", "vanishes")}}
            for row in rows
        ]
        told = {"rows": shown, "ok": good, "gradient_growth": growth_rows(growth), "contacts": counts}
        print(to_json(told, indent=2))
        return 0 if good else 1
    print_columns(
        f"gradient of the loss by coordinates (tolerance {TOLERANCE:g})",
        rows,
        ("", lambda row: row.parameter),
        ("back-propagated", lambda row: f"{row.gradient:.10g}"),
        ("difference", lambda row: f"{row.difference:.10g}"),
        ("relative error", lambda row: f"{row.error:.1e}"),
        ("step", lambda row: f"{row.step:g}"),
        ("contacts switched", lambda row: str(row.switched)),
        ("scatter nearby", lambda row: f"{row.scatter:.1e}"),
        ("", _verdict),
    )
    for name, found in growth.items():
        print(
            f"experiment {name}: {found.message or f'the gradient grew {found.growth:.2g}-fold in {found.span:.3g} s'}"
        )
    for row in rows:
        if row.rough:
            print(
                f"the derivative by {row.parameter} scatters by {100 * row.scatter:.0f} % within {NEARBY[-1]:g} of its"
                " coordinate: contacts switch, or the motion is chaotic; its value at one point says little: make"
                " contacts softer or steps shorter, compare shorter pieces, or search without gradients"
            )
    for name, count in counts.items():
        if count["message"]:
            print(f"experiment {name}: {count['message']}")
    for row in rows:
        if row.sides is not None:
            print(f"differences by {row.parameter} to both sides: {row.sides[0]:.10g} below, {row.sides[1]:.10g} above")
    if straddling := [row.parameter for row in rows if row.switched]:
        print(
            f"the difference by {', '.join(straddling)} straddles a switch of contacts: the loss has a kink between its"
            " ends, and it says less of the gradient"
        )
    return 0 if good else 1


def _verdict(row: SlopeCheck) -> str:
    if row.vanishes:
        return "zero within rounding"
    if not row.ok:
        return "OFF"
    return "ok" if row.error <= TOLERANCE else f"ok within rounding, {row.resolution:.0e}"


GRADCHECK = Verb(
    "gradcheck", "compare gradients with differences, in float64, through the whole rollout", _run, takes_scene=True
)
