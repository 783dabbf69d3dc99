"""Whether steps are short enough for the stiffness of a model: what the sweeps of a step leave undone, in words."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import numpy as np

from sim.constraints.base import REGISTRY, Constraint
from sim.constraints.damping.branches import BranchedConstraint
from sim.constraints.warm_start import DAMPED, HALF_AT
from sim.core.runtime.devices.graph import capturing
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.base import Solver
from sim.solvers.batch import ConstraintBatch
from sim.solvers.mechanisms.joint_errors import joint_warning
from sim.solvers.mechanisms.swing import swing_warning
from sim.solvers.residual import StepResidual, step_residuals
from sim.solvers.xpbd import SolverXPBD


class NumericsWarning(UserWarning):
    """Results that are the numerics' as much as the model's."""


BIAS = 0.43
"""With one sweep and multipliers that start at 0 a solid is too soft by about this times its stiffness ratio (below).

Measured by the drop of cantilevers of 1 x 1 x 3 to 2 x 2 x 6 cells: tetrahedra 0.43 to 0.56, hexahedra 0.14 to 0.53,
quadratic tetrahedra 0.36 to 0.49, and hanging membranes 0.49 to 0.61.
"""
WORTH_SAYING = 0.05
MOST_SUBSTEPS = 1000
"""Times as many substeps as there are that are proposed at most."""
KEPT = 0.9
"""Start "elastic": fraction of the elastic forces, mean over the constraints, below which a solid is too soft."""


def too_soft(ratio: float, sweeps: int) -> float:
    """By how much sweeps from multipliers of 0 leave an element of this stiffness ratio too soft.

    A sweep that finds all forces but a share s leaves s of what the one before has left: s^n of the force is missing
    after n sweeps, s^n / (1 - s^n) of the stiffness.  Measured with 3 to 30 sweeps, where this is more than 1 %:
    hexahedra within a tenth, quadratic tetrahedra within a third, linear tetrahedra up to 3 times as much.
    """
    share = BIAS * ratio
    if share <= 0.0:
        return 0.0
    found = sweeps * math.log1p(1.0 / share)  # s^n = exp(-found), which may be 1 up to rounding
    return math.exp(-found) / -math.expm1(-found)


FEW_JOINTS = 2
"""So many joints of a rod a sweep settles."""


def stiffness_ratios(solver: Solver, batch: ConstraintBatch, dt: float, damped: float = 1.0) -> np.ndarray:
    """(constraints, rows): J W J^T (1 + damping / dt) over alpha~, of an element at rest; about (dt c / size)^2.

    damped: how much more the damping part counts.

    For the constraints of this project whose rows are mean strains of an element: |grad C| is that of a unit strain.
    Rows without elasticity count by their damping alone.
    """
    c = batch.set.constraint
    alpha = batch.set.compliance.numpy().astype(float).reshape(batch.set.count, -1) / dt**2
    weight = np.array(c.elastic)[None] + damped * np.array(c.damped)[None] * _relaxing(batch)[:, None] / dt
    return weight * _inertia(solver, batch)[:, None] / alpha


def shear_ratio(solver: Solver, batch: ConstraintBatch, dt: float) -> float:
    """The same for shear, the last row of a mean strain, mean over the elements; elastic by another row or by this."""
    alpha = batch.set.compliance.numpy().astype(float).reshape(batch.set.count, -1)[:, -1] / dt**2
    return float(((1.0 + _relaxing(batch) / dt) * _inertia(solver, batch) / alpha).mean())


def _relaxing(batch: ConstraintBatch) -> np.ndarray:
    """(constraints,) damping times."""
    made = batch.set
    return np.zeros(made.count) if made.damping is None else made.damping.numpy().astype(float)


def _inertia(solver: Solver, batch: ConstraintBatch) -> np.ndarray:
    """(constraints,) J W J^T of a unit strain: the sum of w |G|^2 over the points, over the dimensions of the element.

    G are the gradients of the mean F: those of the affine map that fits the points best, in a quadratic tetrahedron the
    middles of its edges.
    """
    points = batch.set.points.device.numpy(batch.set.points)
    points = points[:, 4:] if points.shape[1] == 10 else points
    x, w = (a.numpy().astype(float)[points] for a in (solver.model.particle_q, solver.model.particle_inv_mass))
    gradients = np.linalg.pinv(x - x.mean(axis=1, keepdims=True), rcond=1e-6)
    return np.einsum("kj,kaj,kaj->k", w, gradients, gradients) / min(3, points.shape[1] - 1)


def measures_mean_strain(c: Constraint) -> bool:
    """Are the rows of a constraint the mean strain of an element, shear the last?

    Those of solids and membranes with Young's modulus.  Not of plates, whose rows are curvatures, of fabrics, where
    what is soft in one direction is stiff in another, of volumes, nor of the modes that bend an element, which are
    softer than its mean strain.
    """
    own = c.own if isinstance(c, BranchedConstraint) else c
    modes = {mode.name for other in REGISTRY.values() for part in other.on_element.values() for mode in part[1:]}
    strains = own.law is not None and not own.frames and own.rows > 1 and "young" in own.law.values
    return strains and own.name not in modes


def step_warnings(solver: Solver, steps: Sequence[float]) -> list[str]:
    """Sentences for people: solids and membranes whose stiffness the longest of these steps [s] does not resolve, and
    rods that are swept."""
    if not isinstance(solver, SolverXPBD) or not steps:
        return []
    longest = max(steps)
    told = (_too_long(solver, batch, longest) for batch in solver.batches if measures_mean_strain(batch.set.constraint))
    return [text for text in (*told, *(_swept_rod(solver, batch) for batch in solver.batches)) if text]


def _swept_rod(solver: SolverXPBD, batch: ConstraintBatch) -> str:
    """A rod hardly stretches or shears: what one sweep settles of it is a few segments."""
    c, count = batch.set.constraint, solver.swept_count(batch)
    if not (c.frames and c.law is not None) or count <= FEW_JOINTS * solver.iterations:
        return ""
    return (
        f"{count} joints of rods are solved by {solver.iterations} sweep(s) in a step, which leave most of their forces"
        " undone: they will be far too soft; name them in `direct`, which solves them exactly"
    )


def _too_long(solver: SolverXPBD, batch: ConstraintBatch, longest: float) -> str:
    c, solid, sweeps = batch.set.constraint, batch.set.constraint.points > 3, solver.iterations
    dt = solver.effective_dt(longest)
    bias = too_soft(shear_ratio(solver, batch, dt), sweeps)
    begin = f"steps of {longest:.3g} s are long for `{c.name}`:"
    if solver.start == "zero" and bias > WORTH_SAYING:
        factor = 2
        while factor < MOST_SUBSTEPS and too_soft(shear_ratio(solver, batch, dt / factor), sweeps) > WORTH_SAYING:
            factor += 1
        softer = f"{begin} at rest it will be too soft by about {100 * bias:.3g} %"
        if factor == MOST_SUBSTEPS:
            less = "less damping, " if batch.set.damping is not None else ""
            return f"{softer}; no number of substeps mends that: give it {less}less stiffness or more mass"
        return (
            f"{softer}; use {'`start: elastic`, ' if solid else ''}{factor} times as many substeps, or more iterations"
        )
    if solver.start == "elastic":
        left_out = 1.0 - forces_kept(solver, batch, dt)
        if left_out > 1.0 - KEPT:
            return (
                f"{begin} only {100 * (1.0 - left_out):.0f} % of its forces can act at the start of a step, and it will"
                f" be too soft by up to {100 * bias * left_out:.0f} %; use more substeps"
                f"{', or less damping' if batch.set.damping is not None else ''}"
            )
    return ""


def forces_kept(solver: Solver, batch: ConstraintBatch, dt: float) -> float:
    """Fraction of their forces that constraints get at the start of a step, mean (see `sim.constraints.warm_start`)."""
    worst = stiffness_ratios(solver, batch, dt, DAMPED).max(axis=1)
    return float((1.0 / (1.0 + (worst / HALF_AT) ** 4)).mean())


# ------------------------------------------------------------------------------------------------ rounding
ROUNDING, ALLOWED = 0.05, 1e-3
"""Relative error of a motion, in units of the precision's epsilon for each step, and how much of it is allowed.

Measured on swinging chains of 20 links, of compliances 1e-3 and 1e-6 m/N, a swinging sheet (0.025 to 0.07) and a block
that turns (0.02), with steps down to 1e-6 s: the displacement of a step, and so the velocity, is rounded in every step,
and the errors add up.
"""
JITTER = 0.2
"""Velocity that the rounding of positions may give to the ends of a link, over what bends its path: eps |x| / h is that
of a rigid link, and acts like a centrifugal force.  Measured: 0.12 is 2e-4 of the motion, 1.2 is 2e-2."""
PLACES = 3.0
"""Relative error of a motion, over the rounding of the places in it: measured on a sheet 100 m to 3 km away."""


def resolved_step(model: Model, duration: float) -> float:
    """The shortest step [s] with which the precision of a model resolves a motion of so many seconds to 1e-3: shorter
    ones lose more by rounding, step by step, than they gain."""
    epsilon = float(np.finfo(model.dtype.np).eps)
    return max(ROUNDING * epsilon * duration / ALLOWED, _step_without_jitter(model, epsilon))


def _step_without_jitter(model: Model, epsilon: float) -> float:
    """Of links that a step of this length takes for rigid; 0 where there are none."""
    x, v, w = (a.numpy().astype(float) for a in (model.particle_q, model.particle_qd, model.particle_inv_mass))
    gravity, fastest = float(np.linalg.norm(model.gravity.numpy())), float(np.linalg.norm(v, axis=1).max(initial=0.0))
    least = 0.0
    for made in model.constraint_sets.values():
        if made.constraint.points != 2 or not made.constraint.internal or not made.slots.only_particles:
            continue
        a, b = made.points.device.numpy(made.points).T
        length, away = np.linalg.norm(x[a] - x[b], axis=1), np.abs(x[a]).max(axis=1, initial=0.0)
        speed = np.sqrt(gravity * length + fastest**2)
        step = np.divide(epsilon * away, JITTER * speed, out=np.zeros(len(a)), where=speed > 0.0)
        rigid = made.compliance.numpy().astype(float).ravel() < step**2 * (w[a] + w[b])
        least = max(least, float(step[rigid].max(initial=0.0)))
    return least


def rounding_warning(model: Model, duration: float, dt: float) -> str:
    """A sentence for people on steps of dt [s] over a duration [s] that are too short for the precision, or on objects
    that lie too far from the origin for it; else ""."""
    least, epsilon = resolved_step(model, duration), float(np.finfo(model.dtype.np).eps)
    if dt < least:
        return (
            f"{model.dtype} resolves {duration:.3g} s of this scene down to h = {least:.2g} s, and steps are"
            f" {dt:.2g} s: rounding adds up to more than 0.1 % of the motion; take longer steps, or float64"
        )
    for name, group in model.groups.items():
        x = np.asarray(group.positions, float)
        away, size = float(np.abs(x).max(initial=0.0)), float(np.ptp(x, axis=0).max(initial=0.0)) if len(x) else 0.0
        if size > 0.0 and PLACES * epsilon * away > ALLOWED * size:
            return (
                f"`{name}` lies {away:.3g} m from the origin, where {model.dtype} tells places {epsilon * away:.2g} m"
                " apart: rounding is more than 0.1 % of its motion; move the scene to the origin, or take float64"
            )
    return ""


# ------------------------------------------------------------------------------------------------ what steps have left
_looked_at: WeakKeyDictionary[Solver, set[float]] = WeakKeyDictionary()
"""Solvers whose steps of some length have been looked at."""


def residual_warning(solver: Solver, found: Mapping[str, StepResidual], dt: float) -> str:
    """A sentence for people on steps of dt that leave forces undone; "" where they do not."""
    left = [
        f"{_share(residual)} of `{name}` ({residual.strain:.2g} of an element)"
        for name, residual in found.items()
        if residual.unresolved
    ]
    if not left:
        return ""
    times = f"{solver.sweeps} iteration{'s' * (solver.sweeps > 1)}"
    return (
        f"steps of {dt:.3g} s with {times} leave forces undone, {', '.join(left)}: what they act on gives way by as"
        " much more than its compliance says; take shorter steps, more iterations, or higher compliances"
    )


def _share(residual: StepResidual) -> str:
    return f"{100 * residual.force:.2g} % of the force" if np.isfinite(residual.force) else "a part of the force"


def leave_to_others(solver: Solver, dt: float) -> None:
    """Who calls this tells what steps of dt leave undone: `warn_of_steps` does not."""
    _looked_at.setdefault(solver, set()).add(dt)


def left_to_others(solver: Solver, dt: float) -> bool:
    """Whether steps of dt have been told of, or left to others to tell of."""
    return dt in _looked_at.get(solver, ())


def warn_of_steps(solver: Solver, after: State, steps: int, dt: float) -> None:
    """Emits a NumericsWarning if the last of so many steps of dt, which led to `after`, left forces undone, or if they
    are too short for the precision.

    Looks once at each solver and dt; not while a graph is captured, when nothing has run yet.
    """
    looked_at = _looked_at.setdefault(solver, set())
    if dt in looked_at or capturing() is not None:
        return
    looked_at.add(dt)
    texts = [rounding_warning(solver.model, steps * dt, dt)]
    if isinstance(solver, SolverXPBD):
        texts.append(residual_warning(solver, step_residuals(solver, after, dt), dt))
        texts.append(solver.held.turns.warning(dt))
    texts += [joint_warning(solver, after), swing_warning(solver, after, dt)]
    for text in filter(None, texts):
        warnings.warn(text, NumericsWarning, stacklevel=4)
