"""What the sweeps of a step leave undone: the residual of the implicit step, by kind of constraint.

A step asks for M (x - x~) = J^T lambda and C + alpha~ lambda + gamma dC = 0, with alpha~ = alpha / dt^2, gamma =
damping / dt and dC = J (x - x_before) (XPBD eqs. 8, 9 and 26).  A projection keeps the first of the two to the last
digit, and iterations that were not taken show in the second, r = C + alpha~ lambda + gamma dC.  Its two measures:

* force, sqrt(sum r^2 / alpha) / sqrt(sum (alpha~ lambda)^2 / alpha): the force that the material would exert where the
  points are, beyond the one that moved them there, over that one, in the norm of energy.  At rest a material is too
  soft by as much.  Rigid constraints, of alpha = 0, have none.
* strain, the root mean square of r / (|J| l), l the largest distance of two points of the constraint: how far points
  are off, over the size of an element.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors
from dataclasses import dataclass

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.projection import constraint_at, parameter_struct, value_type
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel
from sim.core.runtime.launch.launch import launch
from sim.model.state import State
from sim.solvers.base import Solver, SolverError
from sim.solvers.batch import ConstraintBatch
from sim.solvers.xpbd import SolverXPBD

FORCE, STRAIN = 0.1, 2e-3
"""A step counts as unresolved from these residuals on, both of them: less of the force, or of an element, passes."""


@dataclass(frozen=True)
class StepResidual:
    """What a step leaves undone of one kind of constraint.

    force: relative, see above; infinite where nothing has a compliance.  strain: of an element.
    """

    force: float
    strain: float

    @property
    def unresolved(self) -> bool:
        """Whether a result shows it."""
        return self.force > FORCE and self.strain > STRAIN


def step_residuals(solver: Solver, after: State, dt: float) -> dict[str, StepResidual]:
    """Constraint -> residual of the step that a solver took last, which led to `after`.

    Attachments, contacts and what acts on bodies aside, which hold as far as they are compliant.  Nothing is recorded
    on a tape.  Raises SolverError for a solver that does not sweep.
    """
    if not isinstance(solver, SolverXPBD):
        raise SolverError(f"{type(solver).__name__} makes no sweeps that could leave anything; give a SolverXPBD")
    solved = solver.effective_dt(dt)
    with recording.paused():
        return {
            batch.set.name: _residual(solver, batch, after, solved)
            for batch in solver.batches
            if batch.set.constraint.internal and not batch.set.constraint.unilateral
            if batch.set.count and batch.set.slots.only_particles
        }


def _residual(solver: Solver, batch: ConstraintBatch, after: State, dt: float) -> StepResidual:
    made, model = batch.set, solver.model
    c, damped = made.constraint, made.damping is not None
    value = value_type(c, model.dtype)
    left, size = (zeros(made.count, value, model.device, requires_grad=False) for _ in range(2))
    damping = made.damping if damped else zeros(1, model.dtype, model.device, requires_grad=False)
    given = [made.points, batch.parameters_in(after), made.compliance, damping, model.particle_inv_mass]
    inputs = [*given, after.particle_q, after.particle_qd, batch.multiplier, dt]
    launch(make_residual(c, model.dtype, damped), made.count, inputs, [left, size])
    r, length, lam, alpha = (
        a.device.numpy(a).astype(np.float64).reshape(made.count, -1)
        for a in (left, size, batch.multiplier, made.compliance)
    )
    rows = [row for row in range(c.rows) if c.elastic[row]]
    r, length, lam, alpha = (a[:, rows] for a in (r, length, lam, alpha))
    strain = float(np.sqrt(np.mean(np.divide(r, length, out=np.zeros_like(r), where=length > 0) ** 2)))
    soft = alpha > 0
    if not soft.any():
        return StepResidual(np.inf if strain > 0 else 0.0, strain)
    exerted = float(np.sum((lam[soft] / dt**2) ** 2 * alpha[soft]))
    missing = float(np.sum(r[soft] ** 2 / alpha[soft]))
    return StepResidual(float(np.sqrt(missing / exerted)) if exerted > 0 else 0.0, strain)


@memoize
def make_residual(c: Constraint, real: Scalar, damped: bool) -> Kernel:
    """A kernel, one thread per constraint, that writes r of every row, and |J| l, the change of C where points move by
    the size of the constraint; 0 where no point of it is free."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    n_points, rows = c.points, c.rows
    at = constraint_at(c, real, gradient=True)
    resists = tuple(damped and acts for acts in c.damped)

    @kernel(name=f"residual_{c.name}")
    def residual_of(
        points: array2d[int],
        data: Data,
        compliance: array[value],
        damping: array[real],
        w: array[real],
        x: array[vec3],
        v: array[vec3],
        multiplier: array[value],
        dt: real,
        left: array[value],
        size: array[value],
    ):
        k = tid()
        C, J = at([x[points[k, j]] for j in static(range(n_points))], data, k)
        longest = real(0.0)
        free = real(0.0)
        for i in static(range(n_points)):
            free = max(free, w[points[k, i]])
            for j in static(range(i)):
                d = x[points[k, i]] - x[points[k, j]]
                longest = max(longest, dot(d, d))
        r, scale = value(), value()
        for row in static(range(rows)):
            lam = multiplier[k] if rows == 1 else multiplier[k][row]
            alpha = compliance[k] if rows == 1 else compliance[k][row]
            left_over = C[row] + alpha / (dt * dt) * lam
            if resists[row]:
                left_over += damping[k] * sum([dot(J[row][j], v[points[k, j]]) for j in static(range(n_points))])
            slope = sum([dot(J[row][j], J[row][j]) for j in static(range(n_points))])
            whole = (slope * longest) ** 0.5 if free > 0.0 else real(0.0)
            if rows == 1:
                r = left_over
                scale = whole
            else:
                r[row] = left_over
                scale[row] = whole
        left[k] = r
        size[k] = scale

    return residual_of
