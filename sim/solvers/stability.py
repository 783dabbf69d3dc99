"""Whether steps of start "elastic" are stable: those too long for the damping of a solid are refused.

One sweep over damped elements leaves so much of the damping undone that a step may gain energy, whatever the
multipliers begin with; with start "elastic" the next step begins with it.  What decides is how far an element would
relax within a step by its damping alone, r = damping / dt J W J^T / alpha~ of its damped rows, and k, the stiffness of
the stiffest of its rows over that of these: elements that hardly change their volume bear less.

Measured by the energy of blocks at nu = 0.3 and 0.45, with 5 to 50 ms of damping and steps of 0.1 to 0.4 ms, the median
over the elements (corners that a single tetrahedron holds are lighter, and do no harm): with one sweep over tetrahedra
steps rest up to r sqrt(k) = 15 and grow from 18 on; over hexahedra they rest at 33 and grow at 65.  With two sweeps
tetrahedra rest at 18 and grow at 70: every sweep counts as much as the first.  Where the change of shape has
constraints of its own (`deviatoric`, with `cell_volume`), k is 1, and up to 20 all rest.
"""

from __future__ import annotations

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
from sim.solvers.xpbd import SolverXPBD

MOST, MOST_ALONE = {4: 16.0, 8: 34.0}, 20.0
"""The largest r sqrt(k) of one sweep: by the points of an element, and where all of its rows are damped."""
_looked_at: WeakKeyDictionary[Solver, set[tuple[float, int]]] = WeakKeyDictionary()
"""Solvers whose steps of some length and number of sweeps have been looked at."""


def damping_number(solver: Solver, batch: ConstraintBatch, dt: float) -> float:
    """The median of r sqrt(k) of the elements at rest, see above; 0 without damping."""
    if batch.set.damping is None or not batch.set.count:
        return 0.0
    time = batch.set.damping.device.numpy(batch.set.damping).astype(float)
    stiffest = stiffness(solver, batch, dt, np.zeros_like(time))
    weight = DAMPED * time / dt
    damped = stiffness(solver, batch, dt, time) / np.maximum(weight, 1.0)
    k = np.maximum(stiffest / np.maximum(damped, 1e-300), 1.0)
    return float(np.median(time / dt * damped * np.sqrt(k)))


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
    """The error of steps of dt [s] that would gain energy, if they do."""
    if not isinstance(solver, SolverXPBD) or solver.start != "elastic":
        return None
    for batch in solver.batches:
        c = batch.set.constraint
        if c.law is None or c.internal_variables or c.points not in MOST:
            continue
        most = solver.iterations * (MOST_ALONE if all(c.damped) else MOST[c.points])
        times = damping_number(solver, batch, solver.effective_dt(dt)) / most
        if times > 1.0:
            return SolverError(
                f"steps of {dt:.3g} s are {times:.2g} times as long as `start: elastic` can take with the damping of"
                f" `{c.name}`: they would gain energy; take {int(np.ceil(times))} times as many substeps or iterations,"
                " less damping, or `branches` in place of `damping`"
            )
    return None


def refuse_growing(solver: Solver, dt: float) -> None:
    """Raises SolverError where steps of dt [s] would gain energy.  Looks once at each solver, dt, number of sweeps."""
    if not isinstance(solver, SolverXPBD) or solver.start != "elastic":
        return
    looked_at = _looked_at.setdefault(solver, set())
    if (dt, solver.iterations) in looked_at or capturing() is not None or observers.current() is not None:
        return
    with recording.paused():
        error = growing(solver, dt)
    if error is not None:
        raise error
    looked_at.add((dt, solver.iterations))
