"""What another solver makes of a result: how much of it belongs to the numerics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sim.identify.data.experiments import Simulation
from sim.identify.losses.jacobian import Linearised
from sim.identify.numerics.numerical_error import nearby_optimum, physical_shift, share_text
from sim.identify.problem import Problem
from sim.identify.report.rows import finite
from sim.identify.search.results import short
from sim.solvers import SolverNewton


def reference_row(
    problem: Problem, x: np.ndarray, found: Mapping[str, Simulation], known: Linearised | None = None
) -> dict[str, Any]:
    """The experiments at coordinates x simulated by the problem's reference, beside what its own solver `found`.

    solver: the reference's key; loss: {found, reference}; parameters: name -> {found, reference: the optimum of the
    reference, to first order, from what is `known` there, unit}; experiments: name -> moved, the largest difference of
    any point in any frame [m], size, the extent of all points at the start [m], and measures: name -> {found,
    reference, difference: relative, unit}; unconverged: share of the reference's steps that did not converge.  Raises
    NonFiniteState where the reference breaks down.
    """
    assert problem.reference is not None, "a problem without a reference"
    other = replace(problem, solver=problem.reference, reference=None)
    again = other.simulate(x)
    losses = [_loss(p, x, of) if p.terms else None for p, of in ((problem, found), (other, again))]
    return {
        "solver": problem.reference.key,
        "loss": dict(zip(("found", "reference"), losses, strict=True)),
        "parameters": _parameters(problem, other, known, again) if known is not None else {},
        "experiments": {name: _experiment(problem, found[name], again[name]) for name in found},
        "unconverged": _unconverged(problem),
    }


def reference_note(row: Mapping[str, Any]) -> str:
    """The same in a sentence."""
    parts = []
    if row["loss"]["reference"] is not None:
        parts.append(f"the loss is {row['loss']['reference']:.4g} instead of {row['loss']['found']:.4g}")
    parts += [f"`{name}` would be {reference_text(p)}" for name, p in row["parameters"].items()]
    for name, e in row["experiments"].items():
        parts.append(f"points of `{name}` move by up to {e['moved']:.3g} m ({e['moved'] / e['size']:.2%} of its size)")
        parts += [f"`{name}.{m}` by {v['difference']:+.2%}" for m, v in e["measures"].items() if v["difference"]]
    said = f"with the reference solver `{row['solver']}` {', '.join(parts)}: that much belongs to the numerics"
    if row["unconverged"]:
        said += f"; {row['unconverged']:.1%} of its own steps have not converged, so that it is none there"
    return said


def reference_text(parameter: Mapping[str, Any]) -> str:
    """What the reference would find of a parameter, and by how much that is off: `0.012 (+20 %)`."""
    found, there = (np.asarray(parameter[key]) for key in ("found", "reference"))
    if not found.all():
        return short(there)
    shares = ((there - found) / np.abs(found)).ravel()
    worst = float(shares[np.argmax(np.abs(shares))])
    return f"{short(there)} ({'up to ' if shares.size > 1 else ''}{share_text(worst)})"


def _parameters(
    problem: Problem, other: Problem, known: Linearised, again: Mapping[str, Simulation]
) -> dict[str, dict[str, Any]]:
    """What the reference would find; nothing where it breaks down on the way there."""
    try:
        moved, _ = nearby_optimum(problem, other, known, other.residuals(known.x, again))
    except FloatingPointError:
        return {}
    values, shifts = problem.physical(known.x), physical_shift(problem, known.x, moved)
    return {
        p.name: {"found": values[p.name], "reference": values[p.name] + shifts[p.name], "unit": p.unit}
        for p in problem.sought
    }


def _loss(problem: Problem, x: np.ndarray, simulations: Mapping[str, Simulation]) -> float | None:
    if not all(term.has_residuals for term in problem.terms):
        return finite(problem.value(x))
    of = {e.name: simulations[e.name] for e in problem.fitted}
    return finite(float(sum(r.loss for r in problem.residuals(x, of))))


def _unconverged(problem: Problem) -> float:
    """The share of its steps, so far."""
    if not isinstance(problem.reference, SolverNewton):
        return 0.0
    made = problem.reference.convergence
    return made.unconverged / max(made.steps, 1)


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
