"""Whether derivatives hold as far as standard errors rely on them: secants over a wider stretch around the optimum.

A standard error follows from derivatives at one place.  Where contacts change what they do, as where two corners come
to hit together, the loss may be far steeper within a thousandth than on either side of it: then the derivative is
right, searches like to stop there, and a standard error by it is far too small.  Or recordings stop changing just
beside it, to one side: a friction from which on something sticks is known to be at least that, and no more.  Or they
jump a little every ten-thousandth, as where a rim rolls from one place that touches to the next: then differences as
short as that are jumps as much as derivatives, and what two parameters do looks unlike though it is alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sim.identify.assess.uncertainty import Uncertainty, assess, coordinate_names
from sim.identify.losses.jacobian import Linearised, step_of
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
SAID = 1.1
"""How many times larger a standard error is than by the derivatives, from where on a note says so."""
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
    told = np.diagonal(found.matrix)
    narrow: dict[int, _Narrow] = {}
    nearest = min(NEAREST * step_of(problem), FURTHEST)
    # of the sides that tell less, for errors; of both sides, for where the optimum is
    weakest, both = ([jacobian.copy() for jacobian in found.jacobians] for _ in range(2))
    usual = np.isfinite(known.deviations) & (known.deviations > 0)
    for i in map(int, np.flatnonzero(usual)):
        wanted, reach = nearest, 0.0
        while wanted > 2.0 * reach:  # as wide as the error that follows from it
            reach = float(np.clip(wanted, WIDE * known.deviations[i], FURTHEST))
            changes, rollouts = changes_within(problem, found, i, reach), rollouts + 2
            wider = {side: told_by(found, change, reach) for side, change in changes.items()}
            weak = [side for side, tells in wider.items() if tells < LESS * told[i]]
            if weak:
                least = max(min(wider.values()), SILENT * told[i])
                place = _Narrow(float(np.sqrt(told[i] / least)), reach, weak[0] if len(weak) < len(wider) else 0)
                narrow[i] = max(place, narrow.get(i, place), key=lambda p: p.factor)
            agreed = changes if _agree(found, changes, wider, reach) else _least(changes, wider)
            put_secants(both, i, agreed, reach)
            if not weak and i not in narrow:
                put_secants(weakest, i, agreed, reach)
            elif weak and narrow[i] is place:
                put_secants(weakest, i, _least(changes, wider) if place.side else agreed, reach)
                if min(wider.values()) < SILENT * told[i]:  # nothing at all: hardly anything, rather than not known
                    for made, own in zip(weakest, found.jacobians, strict=True):
                        made[..., i] = own[..., i] * np.sqrt(SILENT)
            wanted = min(WIDE * known.deviations[i] * (narrow[i].factor if i in narrow else 1.0), FURTHEST)
    by_all = assess(problem, replace(found, jacobians=weakest))
    ratio = np.divide(by_all.deviations, known.deviations, out=np.ones(usual.shape), where=usual)
    known = replace(known, rollouts=known.rollouts + rollouts)
    more = np.array([usual[i] and ratio[i] > (1.0 if i in narrow else TOGETHER) for i in range(usual.size)], bool)
    if not more.any() and not narrow:
        return known
    factors = np.where(more, ratio, 1.0)
    central = assess(problem, replace(found, jacobians=both))
    return replace(
        known,
        errors={
            name: np.where(_any(problem, name, more), np.fmax(error, by_all.errors[name]), error)
            for name, error in known.errors.items()
        },
        measures={
            name: (max(error, by_all.measures[name][0]), by_value) for name, (error, by_value) in known.measures.items()
        },
        deviations=known.deviations * factors,
        widened=known.widened * factors,
        notes=(*known.notes, *_remarks(coordinate_names(problem), narrow, ratio, more)),
        # what goes by derivatives, as the numerical error does, would be as much too small as the standard error
        linearised=central.linearised,
        correlation=central.correlation,
        away=central.away,
    )


@dataclass(frozen=True)
class _Narrow:
    """A place where the derivative says `factor` times as much as secants of `reach`, to one side alone or to both
    (0)."""

    factor: float
    reach: float
    side: int


def _remarks(names: tuple[str, ...], narrow: dict[int, _Narrow], ratio: np.ndarray, more: np.ndarray) -> list[str]:
    """What was found, in words: of narrow places, and of what tells parameters apart less."""
    notes = []
    for i, place in narrow.items():
        if not ratio[i] > SAID:
            continue
        towards = f"towards {'larger' if place.side > 0 else 'smaller'} values, " if place.side else ""
        why = "what slides begins to stick" if place.side else "contacts come together"
        but = f", and it is hardly {'smaller' if place.side > 0 else 'larger'}" if place.side else ""
        notes.append(
            f"`{names[i]}`: {towards}within {place.reach:.2g} of its coordinate, recordings change"
            f" {place.factor:.2g} times less than the derivative at the optimum says, as where {why}: its standard"
            f" error is taken from there, {ratio[i]:.2g} times as large{but}; look for it from other starts"
            " (`--starts`), and at steps of another length"
        )
    others = [f"`{names[i]}` {ratio[i]:.2g} times" for i in np.flatnonzero(more) if i not in narrow]
    if others:
        notes.append(
            f"differences over a wider stretch, of up to {FURTHEST:g} of a coordinate, tell the parameters apart less"
            " than the derivatives at the optimum do, as where recordings jump by little from one value to the next:"
            f" standard errors are taken from there ({', '.join(others)} as large); look from other starts"
            " (`--starts`), and at shorter steps"
        )
    return notes


def _agree(found: Linearised, changes: dict[int, Changes], wider: dict[int, float], reach: float) -> bool:
    """Whether the secants of both sides go the same way, so that their mean tells about what each of them does."""
    if len(changes) < 2:
        return True
    mean = [0.5 * (above - below) for above, below in zip(changes[1], changes[-1], strict=True)]
    return told_by(found, mean, reach) > LESS * min(wider.values())


def _least(changes: dict[int, Changes], wider: dict[int, float]) -> dict[int, Changes]:
    """The side that tells less."""
    side = min(wider, key=lambda s: wider[s], default=0)
    return {side: changes[side]} if changes else {}


def told_by(found: Linearised, changes: Changes, reach: float) -> float:
    """What recordings that change so tell of a coordinate that went so far: J' W J by a secant."""
    return sum(float(np.sum(part.curvature * change**2))
               for part, change in zip(found.residuals, changes, strict=True)) / reach**2  # fmt: skip


def _any(problem: Problem, name: str, chosen: np.ndarray) -> bool:
    """Whether a coordinate of a parameter is among those chosen (n,)."""
    return bool(chosen[problem.space.slices[name]].any())
