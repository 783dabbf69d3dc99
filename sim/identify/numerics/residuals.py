"""What the steps of a problem leave undone, by kind of constraint: `sim.solvers.residual`, at a few times."""

from __future__ import annotations

import numpy as np

from sim.identify.problem import Problem
from sim.solvers import SolverXPBD, StepResidual, growing, growth_warning, residual_warning, step_residuals

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


def growth_note(problem: Problem, x: np.ndarray) -> str:
    """What to know of the damping at coordinates x (n,): that steps gain energy with it, or may; "" where they do not.

    A search may move damping, stiffness and masses away from where the problem was looked at when it was built.
    """
    for experiment in problem.experiments:
        dt = experiment.schedule.dt
        with problem.holding(x, experiment):
            text = str(growing(problem.solver, dt) or growth_warning(problem.solver, dt))
        if text:
            return f"with the values found, {text}"
    return ""
