"""Symplectic Euler on the forces of the constraints: v += h f(x, v) / m, x += h v."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sim.constraints.warm_start import make_warm_start
from sim.core.lang.errors import entry_point
from sim.core.runtime.devices.graph import add_node
from sim.model.control import Contacts, Control
from sim.model.state import State
from sim.solvers.base import Solver, SolverError, Substep


@dataclass(eq=False)
class _Checked:
    """Versions of the compliances when last found positive.  An object, as it is no setting: see `Solver.settings`."""

    versions: list[int] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class SolverSemiImplicit(Solver, key="semi_implicit"):
    """Steps a model by the forces -J^T alpha^-1 (C + damping dC/dt) of its constraints, explicitly.

    The cross-check of XPBD, from the same constraints: both converge to the same motion as steps become shorter.  It
    needs positive compliances (a rigid constraint has no force) and steps below 2 / omega of the stiffest mode; damping
    shortens them further.  Attached points follow their motion as in XPBD.
    """

    about = "forces from the same constraints, symplectic Euler"

    def __post_init__(self) -> None:
        self._prepare(keeps=False)
        self._forces = {
            (b.set.name, disjoint): make_warm_start(
                b.set.constraint, b.set.slots, self.model.dtype, b.set.damping is not None, False, disjoint
            )
            for b in self.batches
            for disjoint in (False, True)
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

    def _advance(self, s: Substep) -> None:
        """x += h v + h^2 f / m: the multipliers h^2 f of all constraints, of the positions and velocities before."""
        self._predict(s)
        for batch in self.batches:
            for rows in batch.colors:
                kernel, none = self._forces[batch.set.name, rows.disjoint], self._no_damping
                self._warm_start(kernel, batch, rows, s, none, none)
        self._finish(s)

    def damping_time(self, omega: float, dt: float) -> float:
        """0: symplectic Euler neither damps nor excites."""
        return 0.0

    def check_model(self) -> None:
        """See `Solver`."""
        self.refuse_rigid()

    def refuse_rigid(self) -> None:
        """Raises SolverError where a compliance is zero; looks again only when a compliance was written."""
        versions = [b.set.compliance.buffer.version for b in self.batches]
        if versions == self._checked.versions:
            return
        for b in self.batches:
            rigid = np.argwhere(b.set.compliance.device.numpy(b.set.compliance) == 0.0)
            if len(rigid):
                row = int(rigid[0][0])
                label = next(label for label, rows in b.set.index_of.items() if row in rows)
                points = b.set.points.device.numpy(b.set.points)[row, list(b.set.slots.particles)].tolist()
                raise SolverError(
                    f"{label!r} ({b.set.constraint.name} on points {points}) has compliance 0, which no force can "
                    "hold; give it a positive compliance, or use SolverXPBD",
                    "planes, balls and attachments have a `compliance` too; of other shapes choose `xpbd`",
                )
        self._checked.versions = versions
