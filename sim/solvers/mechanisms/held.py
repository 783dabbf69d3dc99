"""Rigid constraints and contacts on the same movers: joints answer an impact within it.

See `sim.constraints.contact.impulses.held`.  Contacts see a prediction that these constraints have been projected on
once more, so that what swings is known to come along its circle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.constraints.contact.impulses.held import make_gains, make_velocity_kernels
from sim.constraints.particles import particle_layout
from sim.constraints.projection import value_type
from sim.core.lang.types import vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.base import Substep
from sim.solvers.batch import ConstraintBatch, Launches, swept
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
    """A batch, and what a step keeps of it: dC/dt of its rows, and their impulses on velocities, and on `gains`."""

    batch: ConstraintBatch
    rate: array
    impulse: array
    gained: array


@dataclass(eq=False)
class HeldVelocities:
    """The rigid constraints of a model in the sweeps over velocities; begins: see `SolverXPBD.begins`."""

    model: Model
    bodies: BodyStep
    batches: Sequence[ConstraintBatch]
    begins: Callable[[ConstraintBatch], bool]

    def __post_init__(self) -> None:
        model = self.model
        grad, device, vec3, spatial = model.requires_grad, model.device, vector(3, model.dtype), vector(6, model.dtype)
        self._held = [
            _Held(batch, *(zeros(batch.set.count, kind, device, grad) for _ in range(3)))
            for batch in self.batches
            for kind in [value_type(batch.set.constraint, model.dtype)]
        ]
        n, bodies = (model.particle_count, model.body_count) if self._held else (0, 0)
        self._dx, self._turn = (zeros(bodies, a.dtype, device, grad) for a in (self.bodies.dx, self.bodies.turn))
        self._particle = zeros(n, particle_layout(model.dtype).type(model.dtype), device, grad)
        self.gains, self.body_gains = zeros(n, vec3, device, grad), zeros(bodies, spatial, device, grad)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        own = [self._dx, self._turn, self._particle, self.gains, self.body_gains]
        return own + [a for held in self._held for a in (held.rate, held.impulse, held.gained)]

    @property
    def sweeps(self) -> int:
        """How many a step needs at least, 0 where nothing is coupled."""
        return COUPLED if self._held else 0

    def coupled(self, launches: Launches) -> Launches:
        """Those of contacts, and of what is rigid beside them."""
        return [(batch, rows) for batch, rows in launches if batch.set.surface or batch in self.batches]

    def keep_predicted(self, s: Substep) -> None:
        """Things are where they would come without contacts, and so are the rates of what holds them; `gains`: what
        forces add to velocities in a step, less what turns them on their way."""
        model, bodies, real = self.model, self.bodies, self.model.dtype
        gains, body_gains = make_gains(real)
        if model.particle_count:
            copy(self._particle, s.particle)
            launch(gains, model.particle_count, [s.particle, s.reference, s.before.particle_qd, s.dt], [self.gains])
        if model.body_count:
            copy(self._dx, bodies.dx)
            copy(self._turn, bodies.turn)
            given = [bodies.start, bodies.momentum, s.before.body_qd, s.dt, *bodies.moving]
            launch(body_gains, model.body_count, given, [self.body_gains])
        for held in self._held:
            data = [held.batch.set.points, held.batch.placing, held.batch.parameters_in(s.after), s.reference]
            moved = [bodies.start, bodies.momentum, s.dt, s.particle, *bodies.moving]
            launch(self._kernels(held)[0], held.batch.set.count, [*data, *moved], [held.rate, held.impulse])
            held.gained.zero_()
        for done in range(COUPLED // 2):  # what they are for is of the order of a step
            for held in self._there_and_back(done):
                made = held.batch.set
                data = [made.points, held.batch.placing, held.batch.parameters_in(s.after), made.compliance]
                at = [model.particle_inv_mass, bodies.start, s.dt, s.particle, bodies.dx, bodies.turn]
                for _, rows in swept([(held.batch, rows) for rows in held.batch.colors], done % 2 == 1):
                    moved = [self.gains, self.body_gains, held.gained]
                    launch(self._kernels(held)[1], rows.count, [rows.begin, *data, *at], moved)

    def _kernels(self, held: _Held) -> tuple[Kernel, Kernel, Kernel]:
        """Impulses on positions, 1 - s of an impact at s, act along rows at the start of a step (`direction`), the rest
        along those that it would end with: together along those at s."""
        made = held.batch.set
        return make_velocity_kernels(made.constraint, made.slots, self.model.dtype, self.begins(held.batch))

    def _there_and_back(self, done: int) -> list[_Held]:
        return self._held[::-1] if done % 2 == 1 else self._held

    def sweep(self, s: Substep, done: int) -> None:
        """One over the velocities of all of them, after so many."""
        model, bodies = self.model, self.bodies
        for held in self._there_and_back(done):
            made = held.batch.set
            data = [made.points, held.batch.placing, held.batch.parameters_in(s.after), made.compliance]
            masses = [model.particle_inv_mass, s.reference, bodies.start, model.gravity, s.dt]
            at = [s.particle, bodies.dx, bodies.turn, self._particle, self._dx, self._turn, held.rate]
            moved = [s.after.particle_qd, s.after.body_qd, held.impulse]
            for _, rows in swept([(held.batch, rows) for rows in held.batch.colors], done % 2 == 1):
                launch(self._kernels(held)[2], rows.count, [rows.begin, *data, *masses, *at], moved)
