"""simopt gradcheck: compares back-propagated gradients with differences."""

from __future__ import annotations

import argparse

from sim.cli.terminal.tables import print_table
from sim.cli.verbs.base import Verb, load
from sim.cli.verbs.modules import UsageError
from sim.core.lang.types import float64
from sim.identify.assess.gradcheck import TOLERANCE, check_gradient
from sim.io import to_json


def _run(options: argparse.Namespace) -> int:
    problem = load(options).build(options.device, float64)
    if not problem.parameters:
        raise UsageError(f"{options.scene}: the scene has no `parameters`, so there is no gradient to check")
    rows = check_gradient(problem, seed=options.seed or 0)
    good = all(row.ok for row in rows)
    if options.json:
        shown = [{**vars(row), "error": row.error, "ok": row.ok} for row in rows]
        print(to_json({"rows": shown, "ok": good}, indent=2))
        return 0 if good else 1
    print_table(
        f"gradient of the loss by coordinates (tolerance {TOLERANCE:g})",
        ["", "back-propagated", "difference", "relative error", "step", "contacts switched", ""],
        [
            [
                r.parameter,
                f"{r.gradient:.10g}",
                f"{r.difference:.10g}",
                f"{r.error:.1e}",
                f"{r.step:g}",
                str(r.switched),
                "ok" if r.ok else "OFF",
            ]
            for r in rows
        ],
    )
    if not good and any(r.switched for r in rows):
        print("contacts switch within a step: the loss has a kink there, and the difference does not see the gradient")
    return 0 if good else 1


GRADCHECK = Verb(
    "gradcheck", "compare gradients with differences, in float64, through the whole rollout", _run, takes_scene=True
)
