"""The equations of a step: residual and matrix, from all sets of constraints.

    r1 = M (x - x~) - J^T lambda,   r2 = C + alpha~ lambda + gamma J dx

of the positions of free points and the multipliers of rigid rows; the other multipliers are eliminated.  M. Macklin,
M. Mueller, N. Chentanez, "XPBD", MIG 2016, eqs. 8, 9 and 26; XPBD solves them approximately, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.solvers.newton.elements import RowValues, StepElements, StepInputs, host
from sim.solvers.newton.sparse import Block, Pattern


@dataclass(frozen=True, eq=False)
class KktResidual:
    """The equations at some positions and multipliers.

    rows: of each set; residual: of all unknowns; potential: of inertia and outer forces; norm: of W r1 [m], and of r2
    over the root of J W J^T.
    """

    rows: list[RowValues]
    residual: np.ndarray
    potential: float
    norm: float


class StepSystem:
    """The equations of steps of one model, for one choice of free points and of sets whose multipliers are kept.

    inertia: masses in the matrix, over those that points have.
    """

    inertia: ClassVar[float] = 1.0

    def __init__(self, sets: Sequence[StepElements], inv_mass: np.ndarray) -> None:
        self.sets = sets
        self.free = np.flatnonzero(inv_mass > 0.0)
        self.unknown = np.full((len(inv_mass), 3), -1)
        self.unknown[self.free] = np.arange(3 * len(self.free)).reshape(-1, 3)
        self.positions = 3 * len(self.free)
        self.borders: list[np.ndarray] = []
        """Numbers of the kept multipliers of each set, (K, m); (K, 0) where they are eliminated."""
        size, blocks = self.positions, list[Block]()
        diagonal = np.arange(self.positions)[:, None]
        blocks.append((diagonal, diagonal))
        for s in sets:
            here = self.unknown[s.points].reshape(s.count, s.width)
            own = (
                np.arange(s.count * len(s.rows)).reshape(s.count, -1) + size if s.kept else np.zeros((s.count, 0), int)
            )
            size += own.size
            self.borders.append(own)
            blocks.append((here, here))
            if s.kept:
                each = own.reshape(-1, 1)
                blocks += [(here, own), (own, here), (each, each)]
        self.size = size
        self.pattern = Pattern.of(size, blocks, size == self.positions)

    def evaluate(self, x: array, predicted: np.ndarray, inputs: StepInputs, kept: np.ndarray) -> KktResidual:
        """The equations at positions x.  kept: the multipliers that are unknowns."""
        w = host(inputs.inv_mass)[self.free, None]
        unbalanced, potential = self.outer(host(x), predicted, inputs)
        residual = np.zeros(self.size)
        pulled = np.zeros((len(self.unknown), 3))
        scale = np.ones(self.size)
        scale[: self.positions] = np.repeat(w[:, 0], 3)
        rows = []
        for k, (s, own) in enumerate(zip(self.sets, self.borders, strict=True)):
            at = s.evaluate(x, k, inputs, kept[own - self.positions] if s.kept else None)
            rows.append(at)
            force = at.force.reshape(-1, 3)
            for c in range(3):
                pulled[:, c] += np.bincount(s.points.ravel(), force[:, c], len(pulled))
            if at.inertia is not None:
                residual[own] = np.where(at.acting, at.strain + s.alpha * at.multiplier, at.inertia * at.multiplier)
                scale[own] = 1.0 / np.sqrt(np.maximum(at.inertia, np.finfo(float).tiny))
        residual[: self.positions] = (unbalanced - pulled[self.free]).ravel()
        return KktResidual(rows, residual, potential, float(np.linalg.norm(residual * scale)))

    def outer(self, x: np.ndarray, predicted: np.ndarray, inputs: StepInputs) -> tuple[np.ndarray, float]:
        """What inertia and outer forces add to r1, (free, 3), and the potential of that."""
        w = host(inputs.inv_mass)[self.free, None]
        away = (x - predicted)[self.free] / w
        return away, 0.5 * float((away * away * w).sum())

    def merit(self, at: KktResidual, near: KktResidual, kept: np.ndarray) -> float:
        """The incremental potential, augmented for the multipliers `kept`; its gradient is the residual where `at` is
        `near` (see `StepElements.energy`)."""
        total = at.potential
        for s, rows, by, own in zip(self.sets, at.rows, near.rows, self.borders, strict=True):
            total += s.energy(rows, by, kept[own - self.positions] if s.kept else None)
        return total

    def pull(self, at: KktResidual, kept: np.ndarray) -> np.ndarray:
        """J^T of the multipliers `kept` on the free points."""
        pulled = np.zeros_like(self.unknown, float)
        for s, rows, own in zip(self.sets, at.rows, self.borders, strict=True):
            if s.kept:
                force = np.einsum("kmd,km->kd", rows.gradient, kept[own - self.positions])
                np.add.at(pulled, s.points, force.reshape(s.count, -1, 3))
        return np.asarray(pulled[self.free].ravel())

    def factor(
        self, x: array, inputs: StepInputs, at: KktResidual, definite: bool, shift: float = 0.0, give: float = 0.0
    ) -> tuple[Any, list[np.ndarray]]:
        """The factor of the matrix, and the slopes of the rows of each set.  shift: times the mass is added to it;
        give: times J W J^T to the compliance of rigid contacts.

        definite: every block is made positive semidefinite, so that a step goes downhill (J. Teran, E. Sifakis, G.
        Irving, R. Fedkiw, "Robust Quasistatic Finite Elements and Flesh Simulation", 2005).
        """
        values = [np.repeat((self.inertia + shift) / host(inputs.inv_mass)[self.free], 3)]
        slopes = []
        for k, (s, rows) in enumerate(zip(self.sets, at.rows, strict=True)):
            slopes.append(s.slopes(x, k, inputs, rows))
            block = s.stiffness(slopes[-1], s.curvature(x, k, inputs, rows), rows)
            values.append(positive(block) if definite else block)
            if rows.inertia is not None:
                values += [-rows.gradient.transpose(0, 2, 1), slopes[-1] * rows.acting[..., None]]
                soft = s.alpha + give * s.batch.set.constraint.unilateral * rows.inertia
                values.append(np.where(rows.acting, soft, rows.inertia))
        return self.pattern.factor(values), slopes


def positive(blocks: np.ndarray) -> np.ndarray:
    """The symmetric parts of blocks (K, D, D), with eigenvalues below zero set to zero."""
    size, axes = np.linalg.eigh(0.5 * (blocks + blocks.transpose(0, 2, 1)))
    return np.asarray((axes * np.maximum(size, 0.0)[:, None, :]) @ axes.transpose(0, 2, 1))
