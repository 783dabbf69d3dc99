"""How recordings lie beside their simulations, for people: with standard errors, and put where the simulation is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sim.identify.assess.misfit import Misfit
from sim.identify.assess.uncertainty import Uncertainty, noise_matrix, residual_matrix
from sim.identify.data.experiments import Simulation
from sim.identify.data.registration import Alignment
from sim.identify.evaluate.alignment import InnerProblem, pseudo_inverse
from sim.identify.problem import Problem

UNITS = {"time": "s", "turn": "rad", "shift": "m"}
SHOWN = {"time": (1e3, "ms"), "turn": (math.degrees(1.0), "deg"), "shift": (1e3, "mm")}
"""Factors and units for people."""


def alignment_row(problem: Problem, simulation: Simulation, known: Uncertainty | None) -> dict[str, Any]:
    """`alignment` of an experiment in result.json: what was sought of it, values with standard errors; {} if nothing.

    Standard errors are those of the joint fit: of the alignment at known parameters, and of what it changes with them.
    """
    inner = problem.inner_problem(simulation)
    if inner is None:
        return {}
    found = inner.solve()
    own = dict(zip(found.numbers, _errors(inner, found), strict=True))
    whole = {}
    for name, error in own.items():
        by_parameters = 0.0
        if known is not None:
            by_parameters = known.measures.get(f"{simulation.experiment.name}.{name}", (0.0, {}))[0]
        whole[name] = math.hypot(error, by_parameters) if known is not None else None
    out: dict[str, Any] = {}
    sought = {"time": inner.registration.time > 0.0, "turn": inner.registration.frame,
              "shift": inner.registration.frame}  # fmt: skip
    for word, unit in UNITS.items():
        if not sought[word]:
            continue
        keys = [name for name in found.numbers if name.split(".")[1] == word]
        values, errors = ([table[key] for key in keys] for table in (found.numbers, whole))
        single = word == "time"
        out[word] = {
            "value": values[0] if single else values,
            "standard_error": errors[0] if single else errors,
            "unit": unit,
        }
    return {"alignment": out}


def alignment_note(problem: Problem, simulation: Simulation, known: Uncertainty | None) -> str:
    """How the recording of an experiment lies, in a sentence; "" where nothing of it was sought."""
    row = alignment_row(problem, simulation, known).get("alignment", {})
    e, words = simulation.experiment, []
    for word, (factor, unit) in SHOWN.items():
        if word not in row:
            continue
        value, error = row[word]["value"], row[word]["standard_error"]
        size = factor * float(np.linalg.norm(value))
        # of a vector the length, and the largest error of its components
        text = f"{factor * value:+.3g}" if word == "time" else f"{size:.3g}"
        spread = "" if known is None else f" ± {factor * float(np.max(error)):.2g}"
        words.append(f"{word} {text}{spread} {unit}")
    if not words:
        return ""
    note = f"experiment `{e.name}`: found how its recording lies: {', '.join(words)}"
    assert e.registration is not None
    if "time" in row and abs(row["time"]["value"]) >= e.registration.time * (1.0 - 1e-9):
        note += (
            "; the offset of its clock stands on its bound, and standard errors hold for that: check `start`, or give a"
            " larger `align.time`"
        )
    return note


def _errors(inner: InnerProblem, found: Alignment) -> np.ndarray:
    """Standard errors (7,) at known parameters: the larger of those by the stated noise and by the residuals."""
    A, noise, residual = np.zeros((7, 7)), np.zeros((7, 7)), np.zeros((7, 7))
    for (_, weight), part, J in zip(inner.parts, inner.residuals(found), inner.jacobians(found), strict=True):
        r = part.times(weight)
        A += np.einsum("fmai,fma,fmaj->ij", J, r.curvature, J)
        noise += noise_matrix(r, J)[0]
        residual += residual_matrix(r, J)
    sought = np.repeat([inner.registration.time > 0.0, inner.registration.frame, inner.registration.frame], [1, 3, 3])
    inverse = np.zeros((7, 7))
    inverse[np.ix_(sought, sought)] = pseudo_inverse(A[np.ix_(sought, sought)])
    return np.sqrt(np.maximum(*(np.maximum(np.diagonal(inverse @ B @ inverse), 0.0) for B in (noise, residual))))


def as_people_see(
    problem: Problem,
    before: Mapping[str, Simulation],
    after: Mapping[str, Simulation] | None,
    misfit: Sequence[Misfit] = (),
) -> tuple[Problem, dict[str, Simulation], dict[str, Simulation] | None]:
    """Problem and simulations with recordings in clock and frame of the last simulations, and with the noise that the
    misfit says."""
    last = before if after is None else after
    placed = {name: problem.placed(simulation) for name, simulation in last.items()}
    for m in (m for m in misfit if m.estimated is not None and m.experiment in placed):
        e = placed[m.experiment]
        known = replace(e.targets[m.markers], noise=m.deviations, estimated="")
        placed[m.experiment] = replace(e, targets={**e.targets, m.markers: known})
    experiments = [placed.get(e.name, e) for e in problem.experiments]
    shown = [
        None if some is None else {name: replace(s, experiment=placed[name]) for name, s in some.items()}
        for some in (before, after)
    ]
    assert shown[0] is not None
    return replace(problem, experiments=experiments), shown[0], shown[1]
