"""What another solver makes of a result: how much of it belongs to the numerics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sim.identify.data.experiments import Simulation
from sim.identify.problem import Problem
from sim.identify.report.rows import finite


def reference_row(problem: Problem, x: np.ndarray, found: Mapping[str, Simulation]) -> dict[str, Any]:
    """The experiments at coordinates x simulated by the problem's reference, beside what its own solver `found`.

    solver: the reference's key; loss: {found, reference}; experiments: name -> moved, the largest difference of any
    point in any frame [m], size, the extent of all points at the start [m], and measures: name -> {found, reference,
    difference: relative, unit}.  Raises NonFiniteState where the reference breaks down.
    """
    assert problem.reference is not None, "a problem without a reference"
    other = replace(problem, solver=problem.reference, reference=None)
    again = other.simulate(x)
    losses = [_loss(p, x, of) if p.terms else None for p, of in ((problem, found), (other, again))]
    return {
        "solver": problem.reference.key,
        "loss": dict(zip(("found", "reference"), losses, strict=True)),
        "experiments": {name: _experiment(problem, found[name], again[name]) for name in found},
    }


def reference_note(row: Mapping[str, Any]) -> str:
    """The same in a sentence."""
    parts = []
    if row["loss"]["reference"] is not None:
        parts.append(f"the loss is {row['loss']['reference']:.4g} instead of {row['loss']['found']:.4g}")
    for name, e in row["experiments"].items():
        parts.append(f"points of `{name}` move by up to {e['moved']:.3g} m ({e['moved'] / e['size']:.2%} of its size)")
        parts += [f"`{name}.{m}` by {v['difference']:+.2%}" for m, v in e["measures"].items() if v["difference"]]
    return f"with the reference solver `{row['solver']}` {', '.join(parts)}: that much belongs to the numerics"


def _loss(problem: Problem, x: np.ndarray, simulations: Mapping[str, Simulation]) -> float | None:
    of = {e.name: simulations[e.name] for e in problem.fitted}
    return finite(float(sum(r.loss for r in problem.residuals(x, of))))


def _experiment(problem: Problem, found: Simulation, again: Simulation) -> dict[str, Any]:
    here, there = problem.measure(found), problem.measure(again)
    measures = {}
    for name, one in here.items():
        own, other = one["simulated"], there[name]["simulated"]
        known = own is not None and other is not None and own != 0.0
        difference = (other - own) / abs(own) if known else None
        measures[name] = {"found": own, "reference": other, "difference": difference, "unit": one["unit"]}
    moved = float(np.linalg.norm(again.positions - found.positions, axis=-1).max())
    return {"moved": moved, "size": float(np.linalg.norm(np.ptp(found.start, axis=0))), "measures": measures}
