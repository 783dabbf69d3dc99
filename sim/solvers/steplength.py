"""Whether steps are short enough for the stiffness of solids: what one sweep of projections leaves undone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.constraints.warm_start import DAMPED, HALF_AT
from sim.solvers.base import Solver
from sim.solvers.batch import ConstraintBatch
from sim.solvers.xpbd import SolverXPBD

BIAS = 0.43
"""A solid is too soft by about this times its stiffness ratio (below) if multipliers start at 0: measured on a beam."""
WORTH_SAYING = 0.05
KEPT = 0.9
"""Start "elastic": fraction of the elastic forces, mean over the constraints, below which a solid is too soft."""


def stiffness_ratios(solver: Solver, batch: ConstraintBatch, dt: float, damped: float = 1.0) -> np.ndarray:
    """(constraints, rows): J W J^T (1 + damping / dt) over alpha~, of a tetrahedron at rest; about (dt c / size)^2.

    damped: how much more the damping part counts.

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
    weight = np.array(c.elastic)[None] + damped * np.array(c.damped)[None] * time[:, None] / dt
    return weight * inertia[:, None] / alpha


def forces_kept(solver: Solver, batch: ConstraintBatch, dt: float) -> float:
    """Fraction of their forces that constraints get at the start of a step, mean (see `sim.constraints.warm_start`)."""
    worst = stiffness_ratios(solver, batch, dt, DAMPED).max(axis=1)
    return float((1.0 / (1.0 + (worst / HALF_AT) ** 4)).mean())


def step_warnings(solver: Solver, steps: Sequence[float]) -> list[str]:
    """Sentences for people: solids whose stiffness the longest of these steps [s] does not resolve."""
    if not isinstance(solver, SolverXPBD) or not steps:
        return []
    out, dt = [], max(steps)
    for batch in solver.batches:
        c = batch.set.constraint
        if c.law is None or c.points != 4:
            continue
        ratios = stiffness_ratios(solver, batch, dt).mean(axis=0)
        shear = float(ratios[-1])
        if solver.start == "zero" and BIAS * shear > WORTH_SAYING:
            out.append(
                f"steps of {dt:.3g} s are long for `{c.name}`: at rest it will be too soft by about"
                f" {100 * BIAS * shear:.0f} %; use `start: elastic`, or {int(np.ceil(BIAS * shear / WORTH_SAYING))}"
                " times as many substeps"
            )
        elif solver.start == "elastic" and (kept := forces_kept(solver, batch, dt)) < KEPT:
            damped = ", or less damping" if batch.set.damping is not None else ""
            out.append(
                f"steps of {dt:.3g} s are long for `{c.name}`: only {100 * kept:.0f} % of its forces can act at the"
                f" start of a step, and it will be too soft by up to {100 * BIAS * shear * (1.0 - kept):.0f} %; use"
                f" more substeps{damped}"
            )
    return out
