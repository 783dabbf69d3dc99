"""How residuals change over a stretch that is wider than derivatives are: secants.

Where contacts change what they do, a loss may be rough: right derivatives everywhere, and a jump by little every
ten-thousandth of a coordinate, as where a rim rolls from one place that touches to the next.  Derivatives, and
differences as short as that, tell of the jumps, secants of what lies under them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sim.identify.data.experiments import Simulation
from sim.identify.losses.jacobian import Linearised, Simulated

REACH = 0.02
"""How far a search looks to each side, in coordinates: 2 % of a quantity with a logarithm."""

Changes = list[np.ndarray]
"""Of the values of each of the residuals."""


def has_switches(problem: Simulated) -> bool:
    """Whether contacts, or the dry friction of joints, may change what they do between one value of a parameter and the
    next."""
    sets = problem.model.constraint_sets.values()
    return problem.model.contact is not None or any(
        s.surface or s.constraint.unilateral or s.constraint.dry for s in sets
    )


def changes_within(problem: Simulated, found: Linearised, i: int, reach: float) -> dict[int, Changes]:
    """How recordings change where coordinate i goes as far as `reach` to each side of x, -1 and 1, that lies within the
    bounds and does not break down."""
    lower, upper = problem.bounds
    out = {}
    for side in (-1, 1):
        moved = found.x.copy()
        moved[i] += side * reach
        if not lower[i] <= moved[i] <= upper[i]:
            continue
        try:
            there = problem.residuals(moved, problem.simulate(moved, problem.fitted))
        except FloatingPointError:
            continue
        out[side] = [
            other.in_units_of(part).values - part.values for part, other in zip(found.residuals, there, strict=True)
        ]
    return out


def put_secants(jacobians: list[np.ndarray], i: int, changes: Mapping[int, Changes], reach: float) -> None:
    """Makes column i that of the sides that were looked at; where there is none it stays."""
    for k, jacobian in enumerate(jacobians if changes else ()):
        jacobian[..., i] = np.mean([side * change[k] / reach for side, change in changes.items()], axis=0)


def by_secants(problem: Simulated, x: np.ndarray, at_x: Mapping[str, Simulation] | None = None) -> Linearised:
    """Residuals at x (n,), and secants in place of their derivatives; 0 for a coordinate that can go to no side.

    Two rollouts for each coordinate.  Raises FloatingPointError where the one at x breaks down."""
    residuals = problem.residuals(x, problem.simulate(x, problem.fitted) if at_x is None else at_x)
    here = Linearised(np.array(x, dtype=np.float64), residuals, [])
    jacobians = [np.zeros((*part.values.shape, here.x.size)) for part in residuals]
    for i in range(here.x.size):
        put_secants(jacobians, i, changes_within(problem, here, i, REACH), REACH)
    return replace(here, jacobians=jacobians)
