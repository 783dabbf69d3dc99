"""Symplectic Euler on the forces of the constraints: v += h f(x, v) / m, x += h v."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sim.constraints.push import make_push
from sim.core.lang.errors import entry_point
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import add_node
from sim.model.control import Contacts, Control
from sim.model.state import State
from sim.solvers.base import Pass, Solver, SolverError


@dataclass(eq=False)
class _Checked:
    """Versions of the compliances when they were last found positive.  An object, since it is no setting: see
    `Solver.settings`."""

    versions: list[int] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class SolverSemiImplicit(Solver):
    """Steps a model by the forces -J^T alpha^-1 (C + damping dC/dt) of its constraints, explicitly.

    The cross-check of XPBD, from the same constraints: both converge to the same motion as steps become shorter.  It
    needs positive compliances (a rigid constraint has no force) and steps below 2 / omega of the stiffest mode; damping
    shortens them further.  Attached points follow their motion as in XPBD.
    """

    def __post_init__(self) -> None:
        self._prepare(keeps=False)
        self._push_by = {
            (p.set.constraint, own): make_push(
                p.set.constraint, self.model.dtype, p.set.damping is not None, False, own
            )
            for p in self.passes
            for own in (False, True)
        }
        self._checked = _Checked()

    @entry_point
    def step(
        self, state_in: State, state_out: State, control: Control | None, contacts: Contacts | None, dt: float
    ) -> None:
        """One step of `dt` seconds from `state_in` (never written) to `state_out`."""
        if not self.model.held:
            self.model.refresh()
            add_node(self.refuse_rigid)
        super().step(state_in, state_out, control, contacts, dt)

    def begin(self) -> None:
        """See `Solver`.  Raises SolverError where a compliance is zero."""
        super().begin()
        add_node(self.refuse_rigid)

    def _stages(
        self, state_in: State, state_out: State, motion: array, dt: float
    ) -> Iterator[tuple[array, Pass | None, int, int]]:
        x = state_out.particle_q
        self._predict(state_in, state_out, motion, dt)
        yield x, None, 0, 0
        for p in self.passes:
            for begin, count, own in p.colors:
                self._push(self._push_by[p.set.constraint, own], p, begin, count, state_in, state_out, dt)
                yield x, p, begin, begin + count
        self._finish(state_in, state_out, dt)

    def refuse_rigid(self) -> None:
        """Raises SolverError where a compliance is zero; looks again only when a compliance was written."""
        versions = [p.set.compliance.buffer.version for p in self.passes]
        if versions == self._checked.versions:
            return
        for p in self.passes:
            rigid = np.argwhere(p.set.compliance.device.numpy(p.set.compliance) == 0.0)
            if len(rigid):
                points = p.set.points.device.numpy(p.set.points)[rigid[0][0]].tolist()
                raise SolverError(
                    f"the constraint '{p.set.constraint.name}' on points {points} has compliance 0, which no force can "
                    "hold; give it a positive compliance, or use SolverXPBD"
                )
        self._checked.versions = versions
