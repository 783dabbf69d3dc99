"""The gradient of a step by the implicit function theorem: one linear solve, nothing of the iteration.

At r(x, lambda; theta) = 0, a change of theta moves (x, lambda) by -A^-1 dr, so that gradients by (x, lambda) become
those by theta through A^T (mu, nu) = gradient, and -(mu, nu)^T dr/dtheta.  M. Geilinger, D. Hahn, J. Zehnder, M.
Baecher, B. Thomaszewski, S. Coros, "ADD: Analytically Differentiable Dynamics", 2020, sec. 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.solvers.newton.elements import StepInputs, host
from sim.solvers.newton.system import StepSystem


def pull_back(
    system: StepSystem,
    x: array,
    here: array,
    moved: array,
    inputs: StepInputs,
    kept: np.ndarray,
    of_multipliers: Sequence[np.ndarray | None],
) -> None:
    """Turn the gradients of positions x and multipliers into those of the predicted positions, which take the place of
    the gradient of x, and add those of everything else that the step depends on.

    here, moved: scratch with gradients.  kept: the multipliers that are unknowns; of_multipliers: gradients of those of
    each set, (K, m), None for zero.  Raises SingularStep.
    """
    assert x.grad is not None and here.grad is not None and moved.grad is not None
    given = host(x.grad).copy()
    at = system.evaluate(x, host(x), inputs, kept)
    factor, slopes = system.factor(x, inputs, at, definite=False)
    # 1. The right-hand side: eliminated multipliers pass their gradient on to the positions.
    right, points = np.zeros(system.size), given.copy()
    for s, rows, slope, own, weights in zip(system.sets, at.rows, slopes, system.borders, of_multipliers, strict=True):
        if weights is None:
            continue
        if s.kept:
            right[own] = weights
        else:
            np.add.at(points, s.points, _on_points(slope, -weights * rows.acting / s.alpha))
    right[: system.positions] = points[system.free].ravel()
    # 2. The adjoint equations.
    solution = factor.solve(right, trans="T")
    mu = np.zeros_like(given)
    mu[system.free] = solution[: system.positions].reshape(-1, 3)
    # 3. What the residual depends on, in the form x - x~ - W J^T lambda: weighted by M mu.
    mass = np.zeros(len(mu))
    mass[system.free] = 1.0 / host(inputs.inv_mass)[system.free]
    here.assign(x)
    here.grad.zero_()
    moved.grad.assign(-mass[:, None] * mu)
    for k, (s, rows, own, weights) in enumerate(zip(system.sets, at.rows, system.borders, of_multipliers, strict=True)):
        if s.kept:
            nu = solution[own]
        else:
            pulled = np.einsum("kmd,kd->km", rows.gradient, mu[s.points].reshape(s.count, s.width))
            nu = (pulled + (0.0 if weights is None else weights)) / s.alpha
        s.pull_back(here, inputs, k, rows, moved, -nu * rows.acting)
    # 4. Pinned points are where they are predicted to be, and the others feel that.
    out = given + host(here.grad)
    out[system.free] = (mass[:, None] * mu)[system.free]
    x.grad.assign(out)


def _on_points(slopes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(K, points, 3) from derivatives of rows (K, m, D) and their weights (K, m)."""
    found: np.ndarray = np.einsum("kmd,km->kd", slopes, weights).reshape(len(slopes), -1, 3)
    return found
