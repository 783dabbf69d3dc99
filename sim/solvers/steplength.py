"""Whether steps are short enough for the stiffness of solids: what one sweep of projections leaves undone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.solvers.base import Solver
from sim.solvers.batch import ConstraintBatch
from sim.solvers.xpbd import SolverXPBD

BIAS = 0.43
"""A solid is too soft by about this times its stiffness ratio (below) if multipliers start at 0: measured on a beam."""
WORTH_SAYING = 0.05
EDGE = 2.0
"""Start "elastic": up to this mean ratio rows get all of their force; beyond about five times it steps break down."""


def stiffness_ratios(solver: Solver, batch: ConstraintBatch, dt: float) -> np.ndarray:
    """(constraints, rows): J W J^T (1 + damping / dt) over alpha~, of a tetrahedron at rest; about (dt c / size)^2.

    For the constraints of this project with a material law, whose rows are strains: |grad C| is that of a unit strain.
    """
    model, c = solver.model, batch.set.constraint
    points = batch.set.points.device.numpy(batch.set.points)
    x, w = model.particle_q.numpy().astype(float)[points], model.particle_inv_mass.numpy().astype(float)[points]
    gradients = np.linalg.inv(np.swapaxes(x[:, 1:] - x[:, :1], 1, 2))
    gradients = np.concatenate([-gradients.sum(axis=1, keepdims=True), gradients], axis=1)
    inertia = (w * (gradients**2).sum(axis=2)).sum(axis=1) / 3.0
    alpha = batch.set.compliance.numpy().astype(float) / dt**2
    time = np.zeros(len(points)) if batch.set.damping is None else batch.set.damping.numpy().astype(float)
    weight = np.array(c.elastic)[None] + np.array(c.damped)[None] * time[:, None] / dt
    return weight * inertia[:, None] / alpha


def step_warnings(solver: Solver, steps: Sequence[float]) -> list[str]:
    """Sentences for people: solids whose stiffness the longest of these steps [s] does not resolve."""
    if not isinstance(solver, SolverXPBD) or not steps:
        return []
    out, dt = [], max(steps)
    for batch in solver.batches:
        c = batch.set.constraint
        if not c.has_moduli or c.points != 4:
            continue
        ratios = stiffness_ratios(solver, batch, dt).mean(axis=0)
        shear = float(ratios[-1])
        if solver.start == "zero" and BIAS * shear > WORTH_SAYING:
            out.append(
                f"steps of {dt:.3g} s are long for `{c.name}`: at rest it will be too soft by about"
                f" {100 * BIAS * shear:.0f} %; use `start: elastic`, or {int(np.ceil(BIAS * shear / WORTH_SAYING))}"
                " times as many substeps"
            )
        elif solver.start == "elastic" and float(ratios.max()) > EDGE:
            out.append(
                f"steps of {dt:.3g} s are long for `{c.name}` (stiffness ratio {ratios.max():.1f}, should be below"
                f" {EDGE:g}): it will be too soft, or break down; use more substeps"
            )
    return out
