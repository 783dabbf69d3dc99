"""Standard errors at an optimum: by the derivatives there, and held against a wider stretch where things touch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sim.identify.assess.uncertainty import MOST, Uncertainty, assess
from sim.identify.assess.wider import held_against_wider
from sim.identify.data.experiments import Simulation
from sim.identify.losses.jacobian import Linearised, Numbers, linearise
from sim.identify.losses.secants import has_switches
from sim.identify.losses.terms.base import trajectory_terms
from sim.identify.problem import Problem


def estimate(
    problem: Problem, x: np.ndarray, at_x: Mapping[str, Simulation] | None = None, numbers: Numbers | None = None
) -> Uncertainty | str:
    """Standard errors at the optimum x (n,), or a sentence that says why there are none.

    at_x: all experiments there, if they have been simulated; numbers: what else to know the errors of.  It takes n
    rollouts of each fitted experiment, where contacts may switch two more for each number at least.
    """
    if not any(term.compares_recordings for term in trajectory_terms(problem.terms)):
        return "no standard errors: no term of the loss compares with a recording"
    for term in problem.terms:
        if not term.has_residuals:
            return f"no standard errors: `{term.label}` is a loss without residuals"
    if x.size > MOST:
        return f"no standard errors: they are estimated for up to {MOST} numbers, and {x.size} are sought"
    try:
        found = linearise(problem, x, at_x, numbers)
    except FloatingPointError as error:
        return f"no standard errors: beside the optimum the simulation breaks down ({error})"
    return standard_errors(problem, found)


def standard_errors(problem: Problem, found: Linearised) -> Uncertainty:
    """Standard errors by residuals and derivatives at an optimum, and by secants where contacts may switch."""
    known = assess(problem, found)
    return held_against_wider(problem, known) if has_switches(problem) else known
