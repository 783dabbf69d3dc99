"""What the steps of a problem leave undone, by kind of constraint: `sim.solvers.residual`, at a few times."""

from __future__ import annotations

import numpy as np

from sim.identify.problem import Problem
from sim.solvers import SolverXPBD, StepResidual, residual_warning, step_residuals

SAMPLES = 3
"""Times of every experiment at which the residual is taken, the last step among them."""


def residuals_of_steps(problem: Problem, x: np.ndarray) -> dict[str, StepResidual]:
    """Constraint -> the largest residual met in the fitted experiments (in all, if none is) at coordinates x (n,).

    Costs a simulation of each.  Nothing of a solver that makes no sweeps.
    """
    if not isinstance(problem.solver, SolverXPBD):
        return {}
    worst: dict[str, StepResidual] = {}
    for dt, state in problem.states(x, problem.fitted or problem.experiments, SAMPLES):
        for name, found in step_residuals(problem.solver, state, dt).items():
            before = worst.get(name, found)
            worst[name] = StepResidual(max(before.force, found.force), max(before.strain, found.strain))
    return worst


def residual_note(problem: Problem, found: dict[str, StepResidual]) -> str:
    """What to know of residuals; "" where there is nothing."""
    steps = max(e.schedule.dt for e in problem.experiments)
    return residual_warning(problem.solver, found, steps)
