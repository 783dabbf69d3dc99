"""How a problem converges: what it gives with shorter steps, more iterations and a finer mesh, level by level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.identify.data.experiments import Simulation
from sim.identify.losses.jacobian import Linearised, linearise
from sim.identify.numerics.finer import finer_mesh, more_iterations, shorter_steps, steps_of_finer
from sim.identify.numerics.numerical_error import ROUNDING, cannot, linear_shift, physical_shift
from sim.identify.problem import NotRefined, Problem


def _with_its_steps(problem: Problem, finer: Problem) -> Problem:
    return shorter_steps(finer, steps_of_finer(problem, finer))


LEVELS = {
    "step": (("h / 2", lambda p: shorter_steps(p, 2)), ("h / 4", lambda p: shorter_steps(p, 4))),
    "iterations": (("x 2", lambda p: more_iterations(p, 2)), ("x 4", lambda p: more_iterations(p, 4))),
    "mesh": (("2 n", lambda p: _with_its_steps(p, finer_mesh(p, math.inf))),),
}
"""Cause -> levels of refinement, each by two from the one before; the mesh with steps that are as much shorter as its
constraints are stiffer."""


@dataclass(frozen=True, eq=False)
class Level:
    """What one level of refinement gives.

    label: of the level; moved: how far what is observed (markers at frames, without any all points) lies from where the
    level before has it, root mean square [m]; loss: None where nothing is compared; shifts: parameter -> its optimum
    minus the present value, linearised; measures: number -> its value.  missing: why there is nothing of it.
    """

    cause: str
    label: str
    moved: float = math.nan
    loss: float | None = None
    shifts: Mapping[str, Any] | None = None
    measures: Mapping[str, float] | None = None
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Convergence:
    """The levels of every cause, the base first.  order: that observed of the step, log2 of how much less its second
    level moves than the first; nan where nothing moves but by rounding."""

    levels: list[Level]
    order: float


def convergence(problem: Problem, x: np.ndarray | None = None) -> Convergence:
    """The table at coordinates x (default: the start).  Costs about 2 + 4 + 2 + 4 + 8 simulations, and one for each
    coordinate.

    Raises NonFiniteState where the problem itself breaks down.
    """
    x = problem.start if x is None else x
    base = problem.simulate(x)
    known = linearise(problem, x, base) if problem.sought and problem.terms and not cannot(problem) else None
    levels = [Level("", "as it is", loss=_loss(problem, x, base), measures=problem.measured(base))]
    order = math.nan
    for cause, refinements in LEVELS.items():
        before, moves = _observed(problem, base), []
        for label, refine in refinements:
            try:
                level, before = _level(problem, refine(problem), cause, label, x, before, known)
            except NotRefined as error:
                levels.append(Level(cause, label, missing=str(error)))
                break
            except FloatingPointError as error:
                levels.append(Level(cause, label, missing=f"the simulation breaks down ({error})"))
                break
            levels.append(level)
            moves.append(level.moved)
        if cause == "step" and len(moves) == 2 and min(moves) > ROUNDING * np.abs(before).max(initial=0.0):
            order = math.log2(moves[0] / moves[1])
    return Convergence(levels, order)


def _level(
    problem: Problem, finer: Problem, cause: str, label: str, x: np.ndarray, before: np.ndarray,
    known: Linearised | None,
) -> tuple[Level, np.ndarray]:  # fmt: skip
    there = finer.simulate(x)
    observed = _observed(finer, there)
    alike = observed.shape == before.shape  # without markers another mesh has other points
    moved = float(np.sqrt(3.0 * np.mean((observed - before) ** 2))) if alike else math.nan
    shifts = None
    if known is not None:
        shifts = physical_shift(problem, x, linear_shift(problem, known, finer.residuals(x, there)))
    return Level(cause, label, moved, _loss(finer, x, there), shifts, finer.measured(there)), observed


def _observed(problem: Problem, simulations: Mapping[str, Simulation]) -> np.ndarray:
    """Coordinates (n,) of the markers, without any of all points, in all frames of all experiments."""
    parts = []
    for s in simulations.values():
        parts += [m.at(s.positions).ravel() for m in problem.markers.values()] or [s.positions.ravel()]
    return np.concatenate(parts)


def _loss(problem: Problem, x: np.ndarray, simulations: Mapping[str, Simulation]) -> float | None:
    if not problem.terms:
        return None
    if all(term.has_residuals for term in problem.terms):
        return float(sum(part.loss for part in problem.residuals(x, simulations)))
    return problem.value(x)
