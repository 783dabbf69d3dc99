"""Standard errors at an optimum: by the derivatives there, and held against a wider stretch where things touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.identify.assess.uncertainty import MOST, Uncertainty, assess, held_by_bounds, least_told
from sim.identify.assess.wider import held_against_wider
from sim.identify.data.experiments import Simulation
from sim.identify.losses.jacobian import Linearised, Numbers, central, linearise, step_of
from sim.identify.losses.secants import has_switches
from sim.identify.losses.terms.base import trajectory_terms
from sim.identify.problem import Problem

BLURRED = 100.0
"""Relative error of one-sided differences, in their steps, that a motion of some vibrations has."""


def estimate(
    problem: Problem, x: np.ndarray, at_x: Mapping[str, Simulation] | None = None, numbers: Numbers | None = None
) -> Uncertainty | str:
    """Standard errors at the optimum x (n,), or a sentence that says why there are none.

    at_x: all experiments there, if they have been simulated; numbers: what else to know the errors of.  It takes n
    rollouts of each fitted experiment, n more where some numbers are hardly told apart, and where contacts may switch
    two more for each number at least.
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
    return standard_errors(problem, found, at_x, numbers)


def sharpened(
    problem: Problem,
    found: Linearised,
    at_x: Mapping[str, Simulation] | None = None,
    numbers: Numbers | None = None,
) -> Linearised:
    """Derivatives by differences to both sides where coordinates are so much alike that the error of one-sided ones may
    be all that tells them apart.  at_x, numbers: see `estimate`."""
    free = ~held_by_bounds(problem, found.x)
    if least_told(found.matrix, free) > (BLURRED * step_of(problem)) ** 2:
        return found
    try:
        return central(problem, found, at_x, numbers)
    except FloatingPointError:
        return found


def standard_errors(
    problem: Problem,
    found: Linearised,
    at_x: Mapping[str, Simulation] | None = None,
    numbers: Numbers | None = None,
) -> Uncertainty:
    """Standard errors by residuals and derivatives at an optimum, and by secants where contacts may switch.

    at_x, numbers: see `estimate`.
    """
    sharp = sharpened(problem, found, at_x, numbers)
    known = assess(problem, sharp)
    if sharp is not found:
        known = replace(known, rollouts=2 * known.rollouts)
    return held_against_wider(problem, known) if has_switches(problem) else known
