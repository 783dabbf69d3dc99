"""The parts of result.json that follow from a search: parameters, loss, starts, horizons, uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from sim.identify.assess.uncertainty import Uncertainty
from sim.identify.data.experiments import Simulation
from sim.identify.numerics.numerical_error import NumericalError
from sim.identify.numerics.own_damping import OwnDamping, damps, own_damping_line
from sim.identify.problem import Problem
from sim.identify.search.results import Result
from sim.rollout import AdjointGrowth
from sim.solvers import joint_errors

MOST_TIMES = 100
"""Times at which the growth of a gradient is kept."""


def parameter_rows(
    problem: Problem,
    found: Result | None,
    uncertainty: Uncertainty | None,
    notes: list[str],
    numerics: NumericalError | None = None,
    own: OwnDamping | None = None,
) -> dict[str, Any]:
    """Parameter -> start, final value, unit, gradient of the loss, standard errors, numerical error by cause, the
    integrator's own damping beside a damping, first note that names it."""
    out = {}
    start = problem.physical()
    about = [note for note in notes if not note.startswith("experiment")]  # these name markers, called alike perhaps
    for p in problem.sought:
        row: dict[str, Any] = {"start": start[p.name], "final": None, "unit": p.unit, "gradient": None}
        if np.ndim(start[p.name]):
            row["labels"] = p.labels
        if found is not None:
            row |= {"final": found.parameters[p.name], "gradient": found.gradient[p.name]}
        if uncertainty is not None:
            by = {"noise": uncertainty.by_noise[p.name], "residuals": uncertainty.by_residuals[p.name]}
            row |= {"standard_error": uncertainty.errors[p.name], "standard_error_by": by}
        if numerics is not None:
            by_cause = {cause: shift.errors[p.name] for cause, shift in numerics.shifts.items()}
            row |= {"numerical_error": by_cause, "numerics": numerics.line(p.name)}
        if own is not None and found is not None and damps(p):
            said = own_damping_line(p, found.parameters[p.name], own)
            row["numerics"] = "; ".join(filter(None, (row.get("numerics"), said)))
            row["own_damping"] = {
                "experiment": own.experiment,
                "frequency": finite(own.frequency),
                "time": own.time,
                "ratio": finite(own.ratio),
            }
        remark = next((note for note in about if any(f"`{label}`" in note for label in (p.name, *p.labels))), "")
        out[p.name] = row | ({"note": remark} if remark else {})
    return out


def loss_row(found: Result | None) -> dict[str, Any]:
    """The loss at the stated start and at what was found, with its terms there."""
    if found is None:
        return {"initial": None, "final": None, "best_iteration": None, "terms": {}}
    return {
        "initial": finite(found.initial_loss),
        "final": finite(found.loss),
        "best_iteration": found.search.best_iteration,
        "terms": found.terms,
    }


def start_rows(problem: Problem, found: Result | None) -> dict[str, Any] | None:
    """Every start of several: its parameters and loss, how far it came in the tournament and where, whether chosen.

    The losses are those on the first horizon.  None where there was one start.
    """
    if found is None or found.chosen is None:
        return None
    chosen = found.chosen
    rows = [
        {
            "start": problem.physical(chosen.starts[k]),
            "loss": finite(chosen.losses[k]),
            "end": problem.physical(chosen.ends[k]),
            "reached": finite(chosen.reached[k]),
            "iterations": int(chosen.iterations[k]),
            "chosen": k == chosen.index,
        }
        for k in range(len(chosen.starts))
    ]
    return {
        "chosen": chosen.index,
        "losses": [row["loss"] for row in rows],
        "reached": [row["reached"] for row in rows],
        "rows": rows,
        "horizon": found.stages[0].label if found.stages else None,
        "evaluations": chosen.evaluations,
    }


def horizon_rows(found: Result | None) -> list[dict[str, Any]] | None:
    """Every horizon of several: its label, its loss before and after (on this one), last iteration, why it ended."""
    if found is None or len(found.stages) < 2:
        return None
    return [
        {
            "horizon": s.label,
            "initial": finite(s.initial_loss),
            "final": finite(s.loss),
            "iteration": s.iteration,
            "stopped_because": s.stopped_because,
        }
        for s in found.stages
    ]


def growth_rows(growth: Mapping[str, AdjointGrowth]) -> dict[str, Any]:
    """Rollout, by its first experiment -> how the gradient grew on its way back, and up to which horizon it is of
    use."""
    out = {}
    for name, g in growth.items():
        some = slice(None, None, max(1, -(-len(g.times) // MOST_TIMES)))
        gains = [finite(gain) for gain in g.gains[some]]
        said = {"useful": g.useful, "growth": finite(g.growth), "rate": finite(g.rate), "horizon": g.horizon}
        out[name] = {**said, "times": g.times[some], "gains": gains}
    return out


def joint_rows(problem: Problem, x: np.ndarray, simulations: Mapping[str, Simulation]) -> dict[str, Any]:
    """Experiment -> how far its rigid joints come apart over its frames: largest and root mean square of distances [m]
    and angles [rad], which joint and when [s], advice where that is much.  Empty without any."""
    out = {}
    for e in problem.experiments if problem.model.joint_count else ():
        if e.name not in simulations:
            continue
        with problem.holding(x, e):
            found = joint_errors(problem.solver, simulations[e.name].body_q)
        if found.worst:
            row = asdict(found)
            frame = row.pop("frame")
            out[e.name] = {**row, "time": float(simulations[e.name].times[frame])}
    return out


def uncertainty_row(known: Uncertainty | None) -> dict[str, Any] | None:
    """What the standard errors have in common: names of the coordinates, correlation, residuals over noise, cost."""
    if known is None:
        return None
    return {
        "names": list(known.names),
        "correlation": known.correlation,
        "scatter": known.scatter,
        "away": known.away,
        "rollouts": known.rollouts,
    }


def numerics_row(error: NumericalError | None) -> dict[str, Any] | None:
    """What numerical errors have in common: causes, what was not estimated and why, how far what is compared moves."""
    if error is None:
        return None
    return {
        "missing": error.missing,
        "evaluations": error.evaluations,
        **{
            cause: {"whole": shift.whole, "compared": finite(shift.compared), "measures": shift.measures}
            for cause, shift in error.shifts.items()
        },
    }


def finite(value: float | None) -> float | None:
    """A number for JSON; None for what is none."""
    return float(value) if value is not None and np.isfinite(value) else None
