"""Rigid constraints and contacts on the same movers: joints answer an impact within it.

See `sim.constraints.slots.velocities`.  Contacts see a prediction that these constraints have been projected on once
more, so that what swings is known to come along its circle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.constraints.projection import value_type
from sim.constraints.slots.velocities import make_velocity_kernels
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, zeros, zeros_like
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.base import Substep
from sim.solvers.batch import ConstraintBatch, Launches, Rows, swept
from sim.solvers.bodies import BodyStep

COUPLED = 8
"""Sweeps over contacts and what is rigid on the same movers, over positions and over velocities, at least: with a bob
on a rod that meets a wall at 60 degrees to its way each leaves a quarter of what is left to do."""


def rigid_batches(batches: Sequence[ConstraintBatch]) -> list[ConstraintBatch]:
    """Constraints without compliance that hold what contacts with friction or restitution may touch.

    One-sided ones and drives are not among them, nor what has a largest force.
    """
    touched: list[set[int]] = [set(), set()]
    for batch in batches:
        if batch.set.surface:
            for kind, own in enumerate(_movers(batch)):
                touched[kind] |= own
    held = []
    for batch in batches:
        c, made = batch.set.constraint, batch.set
        if made.surface or c.unilateral or c.driven or c.limited or not any(c.elastic) or not made.count:
            continue
        soft = np.asarray(made.compliance.numpy()).reshape(made.count, -1)[
            :, [r for r in range(c.rows) if c.elastic[r]]
        ]
        if (soft == 0.0).any() and any(own & seen for own, seen in zip(_movers(batch), touched, strict=True)):
            held.append(batch)
    return held


def _movers(batch: ConstraintBatch) -> tuple[set[int], set[int]]:
    """The numbers of its particles, and of its bodies."""
    points, slots = batch.set.points.numpy(), batch.set.slots
    owners = [own[0] for own in slots.bodies]
    return set(points[:, list(slots.particles)].ravel().tolist()), set(points[:, owners].ravel().tolist())


@dataclass(eq=False)
class _Held:
    """A batch, and what a step keeps of it: dC/dt of its rows, and their impulses."""

    batch: ConstraintBatch
    rate: array
    impulse: array


@dataclass(eq=False)
class HeldVelocities:
    """The rigid constraints of a model in the sweeps over velocities; begins: see `SolverXPBD.begins`."""

    model: Model
    bodies: BodyStep
    batches: Sequence[ConstraintBatch]
    begins: Callable[[ConstraintBatch], bool]

    def __post_init__(self) -> None:
        model = self.model
        self._held = [
            _Held(batch, *(zeros(batch.set.count, kind, model.device, model.requires_grad) for _ in range(2)))
            for batch in self.batches
            for kind in [value_type(batch.set.constraint, model.dtype)]
        ]
        self._dx, self._turn = (zeros_like(a) for a in (self.bodies.dx, self.bodies.turn))

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self._dx, self._turn] + [a for held in self._held for a in (held.rate, held.impulse)]

    @property
    def sweeps(self) -> int:
        """How many a step needs at least, 0 where nothing is coupled."""
        return COUPLED if self._held else 0

    def coupled(self, launches: Launches) -> Launches:
        """Those of contacts, and of what is rigid beside them."""
        return [(batch, rows) for batch, rows in launches if batch.set.surface or batch in self.batches]

    def keep_predicted(self, s: Substep) -> None:
        """Things are where they would come without contacts, and so are the rates of what holds them."""
        if self.model.body_count:
            copy(self._dx, self.bodies.dx)
            copy(self._turn, self.bodies.turn)
        for held in self._held:
            batch, bodies = held.batch, self.bodies
            rates, _ = make_velocity_kernels(batch.set.constraint, batch.set.slots, self.model.dtype)
            data = [batch.set.points, batch.placing, batch.parameters_in(s.after), s.reference, bodies.start]
            moved = [bodies.momentum, s.dt, s.particle, *bodies.moving]
            launch(rates, batch.set.count, [*data, *moved], [held.rate, held.impulse])

    def _places(self, batch: ConstraintBatch) -> list[array]:
        """Where rows are taken.  Impulses on positions, 1 - s of an impact at s, act along those at the start of a step
        (`direction`), the rest of it along those that it would end with: together along those at s."""
        return [self._dx, self._turn] if self.begins(batch) else [self.bodies.dx, self.bodies.turn]

    def sweep(self, s: Substep, back: bool) -> None:
        """One over all of them."""
        for held in reversed(self._held) if back else self._held:
            batch, model = held.batch, self.model
            made, bodies = batch.set, self.bodies.start
            _, hold = make_velocity_kernels(made.constraint, made.slots, model.dtype)
            data = [made.points, batch.placing, batch.parameters_in(s.after), made.compliance]
            at = [model.particle_inv_mass, bodies, s.dt, s.particle, *self._places(batch), held.rate]
            moved = [s.after.particle_qd, s.after.body_qd, held.impulse]
            rows: list[Rows] = list(batch.colors)
            for _, row in swept([(batch, row) for row in rows], back):
                launch(hold, row.count, [row.begin, *data, *at], moved)
