"""One set of constraints in a step of Newton's method: forces, rows of the residual, blocks of the matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.lang.types import float64, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.launch import launch
from sim.solvers.batch import ConstraintBatch
from sim.solvers.newton.kernels import element_kernels

ALIKE = 1e-12
"""Over J W J^T: the softness that a rigid contact has beside its compliance.  Triangles that meet a ball at a corner of
theirs ask for the same, and the forces that do are those of least squares then; what that gives way is below what a
step is solved to."""


def host(a: array) -> np.ndarray:
    """The content of an array of the solver's own, to be read at once."""
    found: np.ndarray = a.device.numpy(a)
    return found


@dataclass(frozen=True, eq=False)
class StepInputs:
    """What the residual of a step depends on, the predicted positions aside.

    data: parameters of the constraints by set; no_damping: stands for the damping of a set without.
    """

    x_before: array
    inv_mass: array
    data: list[Any]
    no_damping: array
    dt: float


@dataclass(frozen=True, eq=False)
class RowValues:
    """The active rows of all K constraints of a set at some positions, m of each; D components of their points.

    C: its elastic part, (K, m); moved: dx, (K, D), of sets with damping; strain: C + gamma J dx; gradient: J,
    (K, m, D); multiplier: lambda; acting: whether a row can have a force: not that of a contact that is open; inertia:
    J W J^T of rows whose multipliers are unknowns.
    """

    C: np.ndarray
    moved: np.ndarray | None
    strain: np.ndarray
    gradient: np.ndarray
    multiplier: np.ndarray
    acting: np.ndarray
    inertia: np.ndarray | None = None

    @property
    def force(self) -> np.ndarray:
        """J^T lambda of each constraint, (K, D)."""
        found: np.ndarray = np.einsum("kmd,km->kd", self.gradient, self.multiplier)
        return found


class StepElements:
    """A set of constraints, and what it takes to linearise it.

    moving: whether it damps, as in a step.  kept: whether its multipliers are unknowns of a step, because a compliance
    is zero.  Otherwise they follow from the positions, lambda = -(C + gamma J dx) / alpha~, and the rows are
    eliminated.
    alpha, gamma: compliance / dt^2 and damping / dt of every row in a step, (K, m).
    """

    def __init__(self, batch: ConstraintBatch, moving: bool = True) -> None:
        made = batch.set
        c, device = made.constraint, made.points.device
        self.batch, self.damping = batch, made.damping if moving else None
        damped = self.damping is not None
        self.kernels = element_kernels(c, made.slots, float64, damped)
        self.rows = np.array(c.active(damped))
        self.elastic = np.array(c.elastic, float)[self.rows]
        self.resists = np.array([damped and acts for acts in c.damped], float)[self.rows]
        self.points = np.array(host(made.points)[:, list(made.slots.particles)])
        self.count, n = self.points.shape
        self.width = 3 * n
        self.kept = False
        self.alpha = self.gamma = np.zeros((self.count, len(self.rows)))
        self._C = zeros((self.count, c.rows), float64, device)
        self._J = zeros((self.count, c.rows * n), vector(3, float64), device)
        self._H = zeros((self.count * self.width, n), vector(3, float64), device)
        self._row = zeros((self.count, c.rows), float64, device, requires_grad=True)
        self._multiplier = zeros(self.count, batch.multiplier.dtype, device)

    @property
    def _where(self) -> list[object]:
        """What kernels read first: the points, and where those lie that are no particles."""
        return [self.batch.set.points, self.batch.placing]

    def begin(self, inputs: StepInputs) -> None:
        """Read compliances and damping for steps of some length."""
        made = self.batch.set
        self.alpha = self.of_active_rows(host(made.compliance)) / inputs.dt**2
        self.kept = bool((self.alpha == 0.0).any())
        if self.kept and made.constraint.unilateral:
            self.alpha = self.alpha + ALIKE * host(inputs.inv_mass)[self.points].sum(axis=1)[:, None]
        if self.damping is not None:
            self.gamma = host(self.damping)[:, None] * self.resists / inputs.dt

    def evaluate(self, x: array, k: int, inputs: StepInputs, multiplier: np.ndarray | None) -> RowValues:
        """The rows at positions x.  k: the number of this set; multiplier: of kept rows."""
        c = self.batch.set.constraint
        launch(self.kernels.linearize, self.count, [*self._where, inputs.data[k], x], [self._C, self._J])
        J = host(self._J).reshape(self.count, c.rows, self.width)[:, self.rows]
        C = host(self._C)[:, self.rows] * self.elastic
        moved = None
        if self.damping is not None:
            moved = (host(x) - host(inputs.x_before))[self.points].reshape(self.count, self.width)
        strain = C + self.gamma * _rate(J, moved)
        if not self.kept:
            multiplier = -strain / self.alpha
            acting = multiplier > 0.0 if c.unilateral else np.ones_like(strain, bool)
            return RowValues(C, moved, strain, J, multiplier * acting, acting)
        assert multiplier is not None
        inertia = np.einsum("kmd,kd->km", J**2, np.repeat(host(inputs.inv_mass)[self.points], 3, axis=1))
        acting = np.ones_like(strain, bool)
        if c.unilateral:  # the active set (M. Hintermueller, K. Ito, K. Kunisch, 2002, eq. 2.3)
            acting = inertia * multiplier - strain > 0.0
        return RowValues(C, moved, strain, J, multiplier, acting, inertia)

    def energy(self, at: RowValues, near: RowValues, multiplier: np.ndarray | None) -> float:
        """Of the rows, C^2 / (2 alpha~), and gamma (J dx)^2 / (2 alpha~) for damping with the J `near` by: damping has
        no potential, but at those positions this has its force.  multiplier: of kept rows, whose augmented Lagrangian
        is taken instead (J. Nocedal, S. Wright, "Numerical Optimization", 2006, ch. 17.3)."""
        rate = _rate(near.gradient, at.moved)
        if multiplier is None:
            return 0.5 * float(((at.C**2 + self.gamma * rate**2) * at.acting / self.alpha).sum())
        assert at.inertia is not None
        soft = self.alpha + at.inertia
        pushed = soft * multiplier - (at.C + self.gamma * rate + self.alpha * multiplier)
        if self.batch.set.constraint.unilateral:
            pushed = np.maximum(pushed, 0.0)
        return 0.5 * float((pushed**2 / np.where(soft > 0.0, soft, 1.0)).sum())

    def slopes(self, x: array, k: int, inputs: StepInputs, at: RowValues) -> np.ndarray:
        """The derivative of `strain` by the points, (K, m, D)."""
        c = self.batch.set.constraint
        found = at.gradient * (self.elastic + self.gamma)[..., None]
        if self.damping is not None:
            launch(
                self.kernels.turning,
                (self.count, c.rows),
                [*self._where, inputs.data[k], x, inputs.x_before],
                [self._J],
            )
            turned = host(self._J).reshape(self.count, c.rows, self.width)[:, self.rows]
            found = found + self.gamma[..., None] * turned
        return found

    def curvature(self, x: array, k: int, inputs: StepInputs, at: RowValues) -> np.ndarray:
        """sum_r lambda_r d2C_r/dx2 of each constraint, (K, D, D)."""
        self._multiplier.assign(self.of_all_rows(at.multiplier))
        inner = [*self._where, inputs.data[k], x, self._multiplier]
        launch(self.kernels.curvature, (self.count, self.width), inner, [self._H])
        return host(self._H).reshape(self.count, self.width, self.width)

    def stiffness(self, slopes: np.ndarray, curvature: np.ndarray, at: RowValues) -> np.ndarray:
        """The block of each constraint, (K, D, D): the derivative of -J^T lambda by the points, lambda eliminated."""
        if self.kept:
            return -curvature
        weighted = slopes * (at.acting / self.alpha)[..., None]
        found: np.ndarray = np.einsum("kmd,kme->kde", at.gradient, weighted) - curvature
        return found

    def pull_back(self, x: array, inputs: StepInputs, k: int, at: RowValues, moved: array, of_rows: np.ndarray) -> None:
        """Adds to gradients: those of the residual, weighted by the gradient of `moved` for positions, `of_rows` for
        rows, by all that it depends on."""
        made = self.batch.set
        self._multiplier.assign(self.of_all_rows(at.multiplier))
        seeds = np.zeros((self.count, made.constraint.rows))
        seeds[:, self.rows] = of_rows
        assert self._row.grad is not None
        self._row.grad.assign(seeds)
        damping = self.damping if self.damping is not None else inputs.no_damping
        given = [*self._where, inputs.data[k], made.compliance, damping, inputs.inv_mass, inputs.x_before, inputs.dt]
        launch(self.kernels.residual, self.count, [*given, x, self._multiplier], [moved, self._row], adjoint=True)

    def of_all_rows(self, of_active: np.ndarray) -> np.ndarray:
        """(K,) or (K, rows) from the active rows (K, m); zero in the others."""
        rows = self.batch.set.constraint.rows
        if rows == 1:
            return of_active[:, 0] if len(self.rows) else np.zeros(self.count)
        found = np.zeros((self.count, rows))
        found[:, self.rows] = of_active
        return found

    def of_active_rows(self, of_all: np.ndarray) -> np.ndarray:
        """(K, m) of the active rows from (K,) or (K, rows)."""
        return np.asarray(of_all.reshape(self.count, -1)[:, self.rows])


def _rate(gradient: np.ndarray, moved: np.ndarray | None) -> np.ndarray:
    """J dx of each row, (K, m)."""
    if moved is None:
        return np.zeros(gradient.shape[:2])
    found: np.ndarray = np.einsum("kmd,kd->km", gradient, moved)
    return found
