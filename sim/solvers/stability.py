"""Whether steps gain energy: those too long for the damping of a solid are refused, or warned of.

One sweep over damped elements leaves so much of the damping undone that a step may gain energy, whatever the
multipliers begin with; with start "elastic" the next step begins with it.  What decides is how far an element would
relax within a step by its damping alone, r = damping / dt J W J^T / alpha~ of its damped rows, and k, the stiffness of
the stiffest of its rows over that of these: elements that hardly change their volume bear less.

Measured by the energy of blocks at nu = 0.3 and 0.45, with 5 to 50 ms of damping and steps of 0.1 to 0.4 ms, the median
over the elements (corners that a single tetrahedron holds are lighter, and do no harm): with one sweep over tetrahedra
steps rest up to r sqrt(k) = 15 and grow from 18 on; over hexahedra they rest at 33 and grow at 65.  With two sweeps
tetrahedra rest at 18 and grow at 70: every sweep counts as much as the first.  Where the change of shape has
constraints of its own (`deviatoric`, with `cell_volume`), k is 1, and up to 20 all rest.

From multipliers of zero the same steps rest, and longer ones do not all grow: the elements' own elasticity holds some.
With damping of 40 steps or more all grew from r k = 66 on over tetrahedra and 250 over hexahedra with one sweep, from
256 with two over tetrahedra, and 1020 with four.  Damping of 12 steps or less does no harm from either start, however
stiff the elements are; that of 17 does.  So between the limit above and this one there is a warning.  The pair rests
throughout, up to 42.  Quadratic tetrahedra rest up to r sqrt(k) = 93 and grow at 141, at some lengths of steps only,
from either start: there is a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from sim.constraints.warm_start import DAMPED, HALF_AT, make_softness
from sim.core.lang.types import int32
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.launch import launch
from sim.solvers.base import Solver, SolverError
from sim.solvers.batch import ConstraintBatch
from sim.solvers.mechanisms.growth import growth_of_joints
from sim.solvers.steplength import NumericsWarning, left_to_others
from sim.solvers.xpbd import SolverXPBD

MOST, MOST_ALONE = {4: 16.0, 8: 34.0, 10: 100.0}, 20.0
"""The largest r sqrt(k) of one sweep: by the points of an element, and where all of its rows are damped."""
SHORT = 13.0
"""Damping times in steps up to which nothing grows."""
CERTAIN, LASTING = {4: 64.0, 8: 256.0}, 40.0
"""From multipliers of zero: r k of one sweep from which on, and damping time in steps with which, steps always grow."""
_looked_at: WeakKeyDictionary[Solver, set[tuple[float, int, str]]] = WeakKeyDictionary()
"""Solvers whose steps of some length, number of sweeps and start have been looked at."""


@dataclass(frozen=True)
class Relaxation:
    """What a step does to damped elements, medians: r and k as above; lasting: the damping time in steps."""

    r: float
    k: float
    lasting: float


def relaxation(solver: Solver, batch: ConstraintBatch, dt: float) -> Relaxation | None:
    """Of the elements at rest, in steps of dt [s]; None without damping."""
    if batch.set.damping is None or not batch.set.count:
        return None
    time = batch.set.damping.device.numpy(batch.set.damping).astype(float)
    stiffest = stiffness(solver, batch, dt, np.zeros_like(time))
    weight = DAMPED * time / dt
    damped = stiffness(solver, batch, dt, time) / np.maximum(weight, 1.0)
    k = np.maximum(stiffest / np.maximum(damped, 1e-300), 1.0)
    middle = np.argsort(time * damped * np.sqrt(k))[len(time) // 2]
    return Relaxation(float(time[middle] / dt * damped[middle]), float(k[middle]), float(time[middle] / dt))


def stiffness(solver: Solver, batch: ConstraintBatch, dt: float, time: np.ndarray) -> np.ndarray:
    """(constraints,) J W J^T (1 + 2 time / dt) / alpha~ of the row where that is largest, at rest."""
    model, made = solver.model, batch.set
    real, device = model.dtype, model.device
    found = zeros(made.count, real, device, requires_grad=False)
    every, damping = array(np.arange(made.count), dtype=int32, device=device), array(time, dtype=real, device=device)
    given = [every, made.points, batch.parameters, made.compliance, damping, model.particle_inv_mass]
    launch(make_softness(made.constraint, real, True), made.count, [*given, model.particle_q, dt], [found])
    t = np.maximum(found.numpy().astype(float), 1e-30)
    return HALF_AT * (1.0 / t - 1.0)


def growing(solver: Solver, dt: float) -> SolverError | None:
    """The error of steps of dt [s] that would gain energy, if they certainly do."""
    for batch, step, most in _damped_solids(solver, dt):
        points, sweeps = batch.set.constraint.points, solver.sweeps
        if points not in CERTAIN:
            continue
        times = step.r * np.sqrt(step.k) / most
        certain = times > 1.0
        if getattr(solver, "start", "") == "zero":
            certain &= step.lasting > LASTING and step.r * step.k > CERTAIN[points] * sweeps**2
        if certain:
            return SolverError(_said(batch, dt, times, "would gain energy"))
    return None


def growth_warning(solver: Solver, dt: float) -> str:
    """A sentence for people on steps of dt [s] that may gain energy, of solids or of joints, and are not refused; else
    ""."""
    for batch, step, most in _damped_solids(solver, dt):
        times = step.r * np.sqrt(step.k) / most
        if times > 1.0:
            return _said(batch, dt, times, "may gain energy")
    return growth_of_joints(solver)


def _damped_solids(solver: Solver, dt: float) -> Iterator[tuple[ConstraintBatch, Relaxation, float]]:
    """What steps of dt do to the damped elements of a solver, and the r sqrt(k) up to which they rest."""
    if not isinstance(solver, SolverXPBD):
        return
    for batch in solver.batches:
        c = batch.set.constraint
        alone = all(c.damped)
        if c.law is None or c.internal_variables or c.points not in MOST or (alone and solver.start == "zero"):
            continue
        step = relaxation(solver, batch, solver.effective_dt(dt))
        if step is not None and step.lasting > SHORT:
            yield batch, step, solver.iterations * (MOST_ALONE if alone else MOST[c.points])


def _said(batch: ConstraintBatch, dt: float, times: float, what: str) -> str:
    return (
        f"steps of {dt:.3g} s are {times:.2g} times as long as the damping of `{batch.set.constraint.name}` allows:"
        f" they {what}; take {int(np.ceil(times))} times as many substeps or iterations, less damping, or `branches` in"
        " place of `damping`"
    )


def refuse_growing(solver: Solver, dt: float) -> None:
    """Raises SolverError where steps of dt [s] would gain energy, warns (NumericsWarning) where they may.

    Looks once at each solver, dt, number of sweeps and start; not while a graph is captured or observed.
    """
    if not isinstance(solver, SolverXPBD):
        return
    looked_at, this = _looked_at.setdefault(solver, set()), (dt, solver.iterations, solver.start)
    if this in looked_at or capturing() is not None or observers.current() is not None:
        return
    with recording.paused():
        error, warning = growing(solver, dt), growth_warning(solver, dt)
    if error is not None:
        raise error
    looked_at.add(this)
    if warning and not left_to_others(solver, dt):
        warnings.warn(warning, NumericsWarning, stacklevel=4)
