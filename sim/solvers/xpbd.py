"""XPBD: position-based dynamics with compliance, in small steps.

M. Macklin, M. Mueller, N. Chentanez, "XPBD", MIG 2016 (the projection and its multipliers); M. Macklin, K. Storey, M.
Lu, P. Terdiman, N. Chentanez, S. Jeschke, M. Mueller, "Small Steps in Physics Simulation", SCA 2019 (substeps instead
of iterations).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.constraints.projection import make_projection
from sim.constraints.push import make_push
from sim.core.lang.errors import did_you_mean
from sim.core.lang.types import vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.launch import launch
from sim.model.state import State
from sim.solvers.base import Pass, Solver, SolverError


@dataclass(eq=False, repr=False)
class SolverXPBD(Solver):
    """Steps a model by XPBD.

    iterations: projections of every constraint per step; small steps with one iteration converge best.
    order:      "colored": Gauss-Seidel over colours whose constraints share no free point; "jacobi": all constraints at
                once, corrections averaged by mass splitting.  Both conserve momentum.
    start:      the multipliers before the first projection.  "zero": as published.  "elastic": those of the elastic and
                damping forces at the start of the step, which act on the predicted positions; what is at rest then
                stays at rest exactly, and solids need far fewer steps (see `sim.constraints.push`).  Contacts begin at
                zero.
    Pinned points (zero inverse mass) never move, unless their attachment prescribes a motion.
    All three may be changed between steps; what a tape or a graph has recorded stays as it is.
    """

    iterations: int = 1
    order: str = "colored"
    start: str = "zero"

    def __post_init__(self) -> None:
        self._prepared: tuple[int, str, str] | None = None
        self._ready()

    def _ready(self) -> None:
        chosen = self.iterations, self.order, self.start
        if self._prepared != chosen:
            self._prepare_settings()
            self._prepared = chosen

    def _prepare_settings(self) -> None:
        if int(self.iterations) < 1:
            raise SolverError(f"iterations={self.iterations}; expected at least 1")
        for name, known in (("order", ("colored", "jacobi")), ("start", ("zero", "elastic"))):
            given = getattr(self, name)
            if given not in known:
                raise SolverError(
                    f"{name}={given!r}{did_you_mean(str(given), known)}; expected {known[0]!r} or {known[1]!r}"
                )
        model, averaged = self.model, self.order == "jacobi"
        self._prepare(keeps=self.iterations > 1 or self.start == "elastic")
        real = model.dtype
        self._project_by, self._push_by = {}, {}
        for p in self.passes:
            c, damped = p.set.constraint, p.set.damping is not None
            for own in (False, True):
                for first in (False, True):
                    self._project_by[c, first, own] = make_projection(c, real, first, damped, averaged, own)
                if self.start == "elastic" and not c.unilateral:
                    self._push_by[c, own] = make_push(c, real, damped, True, own)
        self._share = self._shares() if averaged else self._no_damping
        self._no_correction = zeros(1, vector(3, real), model.device)

    def _own_scratch(self) -> None:
        super()._own_scratch()
        model, averaged = self.model, self.order == "jacobi"
        kind = vector(3, model.dtype)
        self._correction = (
            zeros(model.particle_count, kind, model.device, requires_grad=model.requires_grad) if averaged else None
        )

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [*super().scratch, *([self._correction] if self._correction is not None else [])]

    @property
    def sweeps(self) -> int:
        """How often a step goes over all constraints."""
        return self.iterations

    def _shares(self) -> array:
        """(particles,) number of constraints on each point, as its mass is split among them."""
        count = np.zeros(self.model.particle_count)
        for p in self.passes:
            np.add.at(count, p.set.points.numpy(), 1.0)
        return array(np.maximum(count, 1.0), dtype=self.model.dtype, device=self.model.device)

    def _stages(
        self, state_in: State, state_out: State, motion: array, dt: float
    ) -> Iterator[tuple[array, Pass | None, int, int]]:
        """The step, bit by bit: yields what was just written, and by which rows of which constraints (if by any)."""
        x = state_out.particle_q
        self._predict(state_in, state_out, motion, dt)
        yield x, None, 0, 0
        for p in self.passes:
            if self._pushed(p):
                for begin, count, own in p.colors:
                    self._push(self._push_by[p.set.constraint, own], p, begin, count, state_in, state_out, dt)
                    yield x, p, begin, begin + count

        # constraint projections (lines 5 to 13)
        for iteration in range(self.iterations):
            if self._correction is None:
                for p in self.passes:
                    for begin, count, own in p.colors:
                        self._project(p, iteration, begin, count, own, state_in, state_out, dt)
                        yield x, p, begin, begin + count
            else:
                self._correction.zero_()
                for p in self.passes:
                    self._project(p, iteration, 0, p.set.count, False, state_in, state_out, dt)
                    yield self._correction, p, 0, p.set.count
                launch(self._kernels.correct, self.model.particle_count, [self._correction], [x])

        self._finish(state_in, state_out, dt)

    def _pushed(self, p: Pass) -> bool:
        """Do the multipliers of these constraints start with those of the forces at the start of the step?"""
        return (p.set.constraint, False) in self._push_by

    def _project(
        self, p: Pass, iteration: int, start: int, count: int, own: bool, state_in: State, state_out: State, dt: float
    ) -> None:
        kernel = self._project_by[p.set.constraint, iteration == 0 and not self._pushed(p), own]
        damping = p.set.damping if p.set.damping is not None else self._no_damping
        correction = self._correction if self._correction is not None else self._no_correction
        data = [p.set.points, p.of(state_out), p.set.compliance, damping, self.model.particle_inv_mass, self._share]
        launch(kernel, count, [start, *data, state_in.particle_q, dt], [state_out.particle_q, correction, p.multiplier])
