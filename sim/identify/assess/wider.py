"""Whether derivatives hold as far as standard errors rely on them: secants over a wider stretch around the optimum.

A standard error follows from derivatives at one place.  Where contacts change what they do, as where two corners come
to hit together, the loss may be far steeper within a thousandth than on either side of it: then the derivative is
right, searches like to stop there, and a standard error by it is far too small.  Or recordings stop changing just
beside it, to one side: a friction from which on something sticks is known to be at least that, and no more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.core.lang.types import float64
from sim.identify.assess.uncertainty import Uncertainty, coordinate_names
from sim.identify.losses.jacobian import STEPS, Linearised, Simulated
from sim.identify.problem import Problem

WIDE, FURTHEST = 30.0, 0.05
"""The stretch: so many standard errors, and so many coordinates at most (5 % of a quantity with a logarithm)."""
NEAREST = 10.0
"""The same in steps of the differences that derivatives are: less would look at the same place."""
LESS = 0.25
"""Part of what the derivatives tell, by squares, below which the stretch has the word."""
SILENT = 1e-12
"""The same where nothing changes, or by rounding alone."""


def has_switches(problem: Problem) -> bool:
    """Whether contacts may change what they do, between one value of a parameter and the next."""
    sets = problem.model.constraint_sets.values()
    return problem.model.contact is not None or any(s.surface or s.constraint.unilateral for s in sets)


def held_against_wider(problem: Problem, known: Uncertainty) -> Uncertainty:
    """Standard errors by the derivatives, or by secants over a wider stretch where these tell much less to one side, or
    to both, with notes.

    Two rollouts for each coordinate that has a standard error, and two more for each time that this grows.  The errors
    by noise and by residuals stay as they are.
    """
    found, rollouts = known.linearised, 0
    assert found is not None
    told, factors, notes = np.diagonal(found.matrix), np.ones(found.x.size), []
    nearest = min(NEAREST * STEPS["float64" if problem.model.dtype is float64 else "float32"], FURTHEST)
    for i in np.flatnonzero(np.isfinite(known.deviations) & (known.deviations > 0)):
        wanted, reach, one = nearest, 0.0, False
        sides: list[int] = []
        while wanted > 2.0 * reach:  # as wide as the error that follows from it
            reach = float(np.clip(wanted, WIDE * known.deviations[i], FURTHEST))
            wider, rollouts = told_within(problem, found, int(i), reach), rollouts + 2
            weak = [side for side, tells in wider.items() if tells < LESS * told[i]]
            if weak:
                sides, one = weak, len(weak) < len(wider)
                least = max(min(wider.values()), SILENT * told[i])
                factors[i] = max(factors[i], float(np.sqrt(told[i] / least)))
            wanted = min(WIDE * known.deviations[i] * factors[i], FURTHEST)
        if factors[i] > 1.0:
            towards = f"towards {'larger' if sides[0] > 0 else 'smaller'} values, " if one else ""
            why = "what slides begins to stick" if one else "contacts come together"
            but = f", and it is hardly {'smaller' if sides[0] > 0 else 'larger'}" if one else ""
            notes.append(
                f"`{coordinate_names(problem)[i]}`: {towards}within {reach:.2g} of its coordinate, recordings change"
                f" {factors[i]:.2g} times less than the derivative at the optimum says, as where {why}: its standard"
                f" error is taken from there, {factors[i]:.2g} times as large{but}; look for it from other starts"
                " (`--starts`), and at steps of another length"
            )
    return replace(
        known,
        errors={name: error * _largest(problem, name, factors) for name, error in known.errors.items()},
        measures={
            name: (error * float(np.max(factors[found.slopes[name] != 0.0], initial=1.0)), by_value)
            for name, (error, by_value) in known.measures.items()
        },
        deviations=known.deviations * factors,
        widened=known.widened * factors,
        notes=(*known.notes, *notes),
        rollouts=known.rollouts + rollouts,
    )


def told_within(problem: Simulated, found: Linearised, i: int, reach: float) -> dict[int, float]:
    """What the recordings tell of coordinate i, J' W J, by secants as far as `reach` to each side of x, -1 and 1, that
    lies within the bounds and does not break down."""
    lower, upper = problem.bounds
    told = {}
    for side in (-1, 1):
        h = side * reach
        moved = found.x.copy()
        moved[i] += h
        if not lower[i] <= moved[i] <= upper[i]:
            continue
        try:
            there = problem.residuals(moved, problem.simulate(moved, problem.fitted))
        except FloatingPointError:
            continue
        changes = [other.in_units_of(part).values - part.values
                   for part, other in zip(found.residuals, there, strict=True)]  # fmt: skip
        told[side] = sum(float(np.sum(part.curvature * change**2))
                         for part, change in zip(found.residuals, changes, strict=True)) / h**2  # fmt: skip
    return told


def _largest(problem: Problem, name: str, factors: np.ndarray) -> float:
    """Of the coordinates of a parameter."""
    return float(np.max(factors[problem.space.slices[name]], initial=1.0))
