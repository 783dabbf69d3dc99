"""Whether derivatives hold as far as standard errors rely on them: secants over a wider stretch around the optimum.

A standard error follows from derivatives at one place.  Where contacts change what they do, as where two corners come
to hit together, the loss may be far steeper within a thousandth than on either side of it: then the derivative is
right, searches like to stop there, and a standard error by it is far too small.  Or recordings stop changing just
beside it, to one side: a friction from which on something sticks is known to be at least that, and no more.  Or they
jump a little every ten-thousandth, as where a rim rolls from one place that touches to the next: then differences as
short as that are jumps as much as derivatives, and what two parameters do looks unlike though it is alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.core.lang.types import float64
from sim.identify.assess.uncertainty import Uncertainty, assess, coordinate_names
from sim.identify.losses.jacobian import STEPS, Linearised
from sim.identify.losses.secants import Changes, changes_within, put_secants
from sim.identify.problem import Problem

WIDE, FURTHEST = 30.0, 0.05
"""The stretch: so many standard errors, and so many coordinates at most (5 % of a quantity with a logarithm)."""
NEAREST = 10.0
"""The same in steps of the differences that derivatives are: less would look at the same place."""
LESS = 0.25
"""Part of what the derivatives tell, by squares, below which the stretch has the word."""
SILENT = 1e-12
"""The same where nothing changes, or by rounding alone."""
TOGETHER = 2.0
"""How many times larger a standard error by all secants at once has to be to have the word: these are curved by their
stretch, and what nearly make up for each other tell by differences of it."""


def held_against_wider(problem: Problem, known: Uncertainty) -> Uncertainty:
    """Standard errors by the derivatives, or by secants over a wider stretch where these tell much less to one side, or
    to both, or of coordinates together, with notes.

    Two rollouts for each coordinate that has a standard error, and two more for each time that this grows.  The errors
    by noise and by residuals stay as they are; what follows from derivatives (`linearised`, correlations, how far the
    optimum is away) goes by the secants wherever they tell less.
    """
    found, rollouts = known.linearised, 0
    assert found is not None
    told, factors, notes = np.diagonal(found.matrix), np.ones(found.x.size), []
    nearest = min(NEAREST * STEPS["float64" if problem.model.dtype is float64 else "float32"], FURTHEST)
    secants = [jacobian.copy() for jacobian in found.jacobians]
    for i in np.flatnonzero(np.isfinite(known.deviations) & (known.deviations > 0)):
        wanted, reach, one = nearest, 0.0, False
        sides: list[int] = []
        while wanted > 2.0 * reach:  # as wide as the error that follows from it
            reach = float(np.clip(wanted, WIDE * known.deviations[i], FURTHEST))
            changes, rollouts = changes_within(problem, found, int(i), reach), rollouts + 2
            wider = {side: told_by(found, change, reach) for side, change in changes.items()}
            weak = [side for side, tells in wider.items() if tells < LESS * told[i]]
            if weak:
                sides, one = weak, len(weak) < len(wider)
                least = max(min(wider.values()), SILENT * told[i])
                factors[i] = max(factors[i], float(np.sqrt(told[i] / least)))
            wanted = min(WIDE * known.deviations[i] * factors[i], FURTHEST)
            put_secants(secants, int(i), changes, reach)
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
    alone = replace(
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
    return _together(problem, known, alone, replace(found, jacobians=secants))


def _together(problem: Problem, known: Uncertainty, alone: Uncertainty, wide: Linearised) -> Uncertainty:
    """What secants tell of all coordinates at once, where that is much less: by each of them alone recordings may
    change as the derivatives say, and two of them still do the same, which derivatives on a jump do not show.

    known: by the derivatives; alone: with what secants tell of each coordinate; wide: the secants.
    """
    by_all = assess(problem, wide)
    usual = np.isfinite(known.deviations) & (known.deviations > 0)
    ratio = np.divide(by_all.deviations, known.deviations, out=np.ones(usual.shape), where=usual)
    more = usual & (ratio > TOGETHER * alone.widened)
    if not more.any() and np.all(alone.widened <= known.widened):
        return alone
    # what goes by derivatives, as the numerical error does, would be as much too small as the standard error
    out = replace(alone, linearised=wide, correlation=by_all.correlation, away=by_all.away)
    if not more.any():
        return out
    names = coordinate_names(problem)
    listed = ", ".join(f"`{names[i]}` {ratio[i]:.2g} times" for i in np.flatnonzero(more))
    note = (
        f"differences over a wider stretch, of up to {FURTHEST:g} of a coordinate, tell the parameters apart less than"
        f" the derivatives at the optimum do, as where recordings jump by little from one value to the next: standard"
        f" errors are taken from there ({listed} as large); look from other starts (`--starts`), and at shorter steps"
    )
    factors = np.where(more, ratio, alone.widened)
    return replace(
        out,
        errors={name: np.fmax(error, by_all.errors[name]) for name, error in alone.errors.items()},
        measures={
            name: (max(error, by_all.measures[name][0]), by_value) for name, (error, by_value) in alone.measures.items()
        },
        deviations=known.deviations * factors,
        widened=known.widened * factors,
        notes=(*by_all.notes, *(n for n in alone.notes if n not in known.notes), note),
    )


def told_by(found: Linearised, changes: Changes, reach: float) -> float:
    """What recordings that change so tell of a coordinate that went so far: J' W J by a secant."""
    return sum(float(np.sum(part.curvature * change**2))
               for part, change in zip(found.residuals, changes, strict=True)) / reach**2  # fmt: skip


def _largest(problem: Problem, name: str, factors: np.ndarray) -> float:
    """Of the coordinates of a parameter."""
    return float(np.max(factors[problem.space.slices[name]], initial=1.0))
