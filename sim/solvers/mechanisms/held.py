"""Rigid constraints and contacts on the same movers: joints answer an impact within it.

See `sim.constraints.contact.impulses.held`.  Contacts see a prediction that these constraints have been projected on
once more, so that what swings is known to come along its circle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from sim.constraints.contact.impulses.afterwards import make_closed
from sim.constraints.contact.impulses.gains import make_gains
from sim.constraints.contact.impulses.held import (
    HeldKernels,
    HeldLayout,
    held_row_struct,
    make_pushed,
    make_velocity_kernels,
)
from sim.constraints.contact.impulses.joints_at_impact import ImpactKernels, make_impact_kernels
from sim.constraints.contact.impulses.limits import make_reached, make_relieved
from sim.constraints.particles import particle_layout
from sim.constraints.projection import value_type
from sim.core.lang.types import int32, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, full, zeros
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.base import Substep
from sim.solvers.batch import ConstraintBatch, Launches, swept
from sim.solvers.bodies import BodyStep
from sim.solvers.mechanisms.turning import FurthestTurns

COUPLED = 8
"""Sweeps over contacts and what is rigid on the same movers, over positions, at least, and before that over the latter
alone: with a bob on a rod that meets a wall at 60 degrees to its way each leaves a quarter of what is left to do."""

FORESEEN = 2
"""Direct solves of what is rigid before contacts are looked at, where nothing of it is swept: what the first leaves is
of the order of how far things turn in a step, squared, and the next squares that."""

COUPLED_VELOCITIES = 32
"""The same over velocities: seven times on to where they lead, see `extrapolation`."""

ANSWERED = 4
"""Sweeps over joints that an impact pushes for one over velocities of contacts, besides two, so that contacts see all
that these answer: along a chain of eight equal links an impact is .1 % off with them, .6 % with two, 13 % without."""

CLOSED = 4
"""Sweeps over joints that bring back what an impact has moved beside them."""

LIMITED = 7
"""Sweeps over joints with limits for one over positions of contacts."""

MEETINGS = (0, 1, 2, 4, 8, 16)
"""The sweeps over velocities before which the rows of what is held are found: where they are at the time of impact,
which is known the better the less there is left to do."""


def rigid_batches(batches: Sequence[ConstraintBatch]) -> list[ConstraintBatch]:
    """Joints of bodies, and other constraints without compliance, that hold what contacts with friction or restitution
    may touch, or what others of them hold together with that.

    Limits of joints are among them; drives and what has a largest force are not.  A joint of any compliance is, so that
    impacts are a smooth function of it: what gives way by next to nothing answers an impact as what does not.
    """
    touched: tuple[set[int], set[int]] = (set(), set())
    rigid = [batch for batch in batches if _is_rigid(batch)]
    found, more = list[ConstraintBatch](), [batch for batch in batches if batch.set.surface]
    while more:
        for batch in more:
            for seen, own in zip(touched, _movers(batch), strict=True):
                seen |= own
        more = [
            batch
            for batch in rigid
            if batch not in found and any(own & seen for own, seen in zip(_movers(batch), touched, strict=True))
        ]
        found += more
    return [batch for batch in rigid if batch in found]


def _is_rigid(batch: ConstraintBatch) -> bool:
    """See `rigid_batches`."""
    c, made = batch.set.constraint, batch.set
    if (
        made.surface
        or (c.unilateral and not c.of_joint)
        or c.driven
        or c.limited
        or not any(c.elastic)
        or not made.count
    ):
        return False
    if c.of_joint:
        return True
    soft = np.asarray(made.compliance.numpy()).reshape(made.count, -1)[:, [r for r in range(c.rows) if c.elastic[r]]]
    return bool((soft == 0.0).any())


def mechanisms(model: Model, batches: Sequence[ConstraintBatch]) -> tuple[tuple[array, array], list[array], int]:
    """What constraints make one, over movers that are free: the number of that of each particle and each body, -1 of
    none; that of each constraint of each batch; and how many there are."""
    host, device = model.device.numpy, model.device
    free = np.concatenate([host(model.particle_free), host(model.body_free)]) != 0
    touched, sizes = list[list[int]](), [batch.set.count for batch in batches]
    for batch in batches:
        points, slots = host(batch.set.points), batch.set.slots
        movers = [points[:, list(slots.particles)], points[:, [g[0] for g in slots.bodies]] + model.particle_count]
        touched += [[v for v in row if free[v]] for row in np.concatenate(movers, axis=1).tolist()]
    root = list(range(len(free)))

    def found(v: int) -> int:
        while root[v] != v:
            root[v] = v = root[root[v]]
        return v

    for own in touched:
        for v in own[1:]:
            root[found(v)] = found(own[0])
    number: dict[int, int] = {}
    of_constraint = np.array(
        [number.setdefault(found(own[0]) if own else -1, len(number)) for own in touched], np.int32
    )
    of_mover = np.array([number.get(found(v), -1) for v in range(len(free))], np.int32)
    n = model.particle_count
    of_particle, of_body = (array(part, dtype=int32, device=device) for part in (of_mover[:n], of_mover[n:]))
    of_batches = np.split(of_constraint, np.cumsum(sizes)[:-1]) if batches else []
    return (of_particle, of_body), [array(part, dtype=int32, device=device) for part in of_batches], len(number)


def _movers(batch: ConstraintBatch) -> tuple[set[int], set[int]]:
    """The numbers of its particles, and of its bodies."""
    points, slots = batch.set.points.numpy(), batch.set.slots
    owners = [own[0] for own in slots.bodies]
    return set(points[:, list(slots.particles)].ravel().tolist()), set(points[:, owners].ravel().tolist())


@dataclass(eq=False)
class _Held:
    """A batch, with the mechanism of each of its constraints, and what a step keeps of it: dC/dt of its rows, their
    impulses on velocities, and on `gains`, their multipliers of the step without contacts, and the rows themselves, a
    struct of arrays."""

    batch: ConstraintBatch
    kernels: HeldKernels
    at_impact: ImpactKernels
    mechanism: array
    rate: array
    impulse: array
    gained: array
    foreseen: array
    rows: Any
    begun: array


@dataclass(eq=False)
class HeldVelocities:
    """The rigid constraints of a model in the sweeps over velocities.

    of_movers: the mechanism of each particle and each body, -1 of none.  Of each mechanism, as velocities begin: hit,
    has it an impact; reached, is there a limit that it has come to in this step; and since, see `afterwards`.  begins:
    see `SolverXPBD.begins`; it is asked at once: kept, it would keep its solver alive in what is remembered of that,
    for good.
    """

    model: Model
    bodies: BodyStep
    batches: Sequence[ConstraintBatch]
    begins: InitVar[Callable[[ConstraintBatch], bool]]

    def __post_init__(self, begins: Callable[[ConstraintBatch], bool]) -> None:
        model = self.model
        grad, device, vec3, spatial = model.requires_grad, model.device, vector(3, model.dtype), vector(6, model.dtype)
        self.of_movers, of_batches, count = mechanisms(model, self.batches)
        self._pushed, self.hit, self.reached = (zeros(count, int32, device) for _ in range(3))
        self._all = full(count, 1, int32, device)
        self.turns = FurthestTurns(model, self.of_movers[1], bool(self.batches))
        self.since = zeros(count, vector(5, model.dtype), device, grad)
        self._held = [
            _Held(
                batch,
                make_velocity_kernels(batch.set.constraint, batch.set.slots, model.dtype),
                make_impact_kernels(batch.set.constraint, batch.set.slots, model.dtype, begins(batch)),
                of_batch,
                rate,
                impulse,
                gained,
                foreseen,
                self._rows(batch),
                begun,
            )
            for batch, of_batch in zip(self.batches, of_batches, strict=True)
            for kind in [value_type(batch.set.constraint, model.dtype)]
            for rate, impulse, gained, foreseen in [[zeros(batch.set.count, kind, device, grad) for _ in range(4)]]
            for begun in [zeros(batch.set.count if batch.set.constraint.unilateral else 0, model.dtype, device, grad)]
        ]
        limits = [batch.set.count for batch in self.batches if batch.set.constraint.unilateral]
        self._no_impact = zeros(max(limits, default=0), model.dtype, device)
        self._reliefs = self._relief()
        n, bodies = (model.particle_count, model.body_count) if self._held else (0, 0)
        self._dx, self._turn = (zeros(bodies, a.dtype, device, grad) for a in (self.bodies.dx, self.bodies.turn))
        self._particle = zeros(n, particle_layout(model.dtype).type(model.dtype), device, grad)
        self._v, self.gains = (zeros(n, vec3, device, grad) for _ in range(2))
        self._body_qd, self.body_gains = (zeros(bodies, spatial, device, grad) for _ in range(2))

    def _rows(self, batch: ConstraintBatch) -> Any:
        made, model = batch.set, self.model
        rows, (vectors, numbers) = held_row_struct(model.dtype)(), HeldLayout(made.constraint, made.slots).shape
        real, device, grad = model.dtype, model.device, model.requires_grad
        rows.vectors = zeros((made.count, vectors), vector(3, real), device, grad)
        rows.numbers = zeros((made.count, numbers), real, device, grad)
        return rows

    def _relief(self) -> list[tuple[_Held, _Held, array]]:
        """Limits, joints that hold the same bodies, and of each of the former the number of one of the latter."""
        found = []
        for limits in self._held:
            slots, points = limits.batch.set.slots, limits.batch.set.points.numpy()
            if not limits.batch.set.constraint.unilateral or slots.particles:
                continue
            own = [tuple(row) for row in points[:, [g[0] for g in slots.bodies]].tolist()]
            for joints in self._held:
                made = joints.batch.set
                if made.constraint.unilateral or made.slots.particles or len(made.slots.bodies) != len(slots.bodies):
                    continue
                pairs = made.points.numpy()[:, [g[0] for g in made.slots.bodies]].tolist()
                number = {tuple(row): k for k, row in enumerate(pairs)}
                of = np.array([number.get(bodies, -1) for bodies in own], np.int32)
                if (of >= 0).any():
                    found.append((limits, joints, array(of, dtype=int32, device=self.model.device)))
        return found

    def _relieve(self) -> None:
        """Limits move what their joints let them, see `make_relieved`."""
        for limits, joints, of in self._reliefs:
            kernel = make_relieved(HeldLayout(joints.batch.set.constraint, joints.batch.set.slots), self.model.dtype)
            launch(kernel, of.size, [of, joints.rows], [limits.rows])

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        own = [self._pushed, self.hit, self.reached, self.since, *self.predicted, self.gains, self.body_gains]
        own.append(self.turns.angle)
        return own + [a for held in self._held for a in self._kept(held)]

    @staticmethod
    def _kept(held: _Held) -> list[array]:
        return [held.begun, held.foreseen, held.rate, held.impulse, held.gained, held.rows.vectors, held.rows.numbers]

    @property
    def predicted(self) -> list[array]:
        """Of the step without contacts: where particles are, dx and turn of bodies, and the velocities of both."""
        return [self._particle, self._dx, self._turn, self._v, self._body_qd]

    @property
    def sweeps(self) -> int:
        """How many over positions a step needs at least, 0 where nothing is coupled."""
        return COUPLED if self._held else 0

    @property
    def velocity_sweeps(self) -> int:
        """The same over velocities."""
        return COUPLED_VELOCITIES if self._held else 0

    def coupled(self, launches: Launches, back: bool) -> Launches:
        """One sweep over contacts and what is rigid beside them, and `inner` ones over the latter, there and back."""
        out = swept([(batch, rows) for batch, rows in launches if batch.set.surface or batch in self.batches], back)
        alone = [(batch, rows) for batch, rows in launches if batch in self.batches]
        return [*out, *(one for again in range(self.inner) for one in swept(alone, back == (again % 2 == 1)))]

    @property
    def inner(self) -> int:
        """Sweeps over joints for one over contacts, which cost more; a limit and the joint that it is of push each
        other: with a door each leaves four fifths."""
        return LIMITED if any(batch.set.constraint.unilateral for batch in self.batches) else 1

    def keep_predicted(self, s: Substep) -> None:
        """Things are where they would come without contacts, and so are the rates of what holds them; `gains`: what
        forces add to velocities in a step, less what turns them on their way."""
        model, bodies, real = self.model, self.bodies, self.model.dtype
        gains, body_gains = make_gains(real)
        if model.particle_count:
            copy(self._particle, s.particle)
            given = [s.particle, s.reference, s.before.particle_qd, s.dt]
            launch(gains, model.particle_count, given, [self._v, self.gains])
        if model.body_count:
            copy(self._dx, bodies.dx)
            copy(self._turn, bodies.turn)
            given = [bodies.start, bodies.momentum, s.before.body_qd, s.dt, *bodies.moving]
            launch(body_gains, model.body_count, given, [self._body_qd, self.body_gains])
        for held in self._held:
            made = held.batch.set
            data = [made.points, held.batch.placing, held.batch.parameters_in(s.after), made.compliance]
            moved = [model.particle_inv_mass, bodies.start, s.dt, s.particle, bodies.dx, bodies.turn]
            out = [held.gained, held.rows, held.begun]
            copy(held.foreseen, held.batch.multiplier)
            launch(held.kernels.foresee, made.count, [*data, *moved, s.reference], out)
        self._relieve()
        for done in range(COUPLED // 2):  # what they are for is of the order of a step
            for held in self._there_and_back(done):
                for _, rows in swept([(held.batch, rows) for rows in held.batch.colors], done % 2 == 1):
                    given = [rows.begin, held.batch.set.points, held.mechanism, self._all, held.rows]
                    out = [self.gains, self.body_gains, held.gained]
                    launch(held.kernels.hold, rows.count, [*given, held.batch.multiplier, 0.0], out)

    def _there_and_back(self, done: int) -> list[_Held]:
        return self._held[::-1] if done % 2 == 1 else self._held

    def begin_velocities(self, s: Substep, contacts: Sequence[tuple[ConstraintBatch, array, array]]) -> None:
        """Velocities are those after the step from now on, and so are rates: of what rests they stay.  contacts: those
        of what may touch, with their points, and how much of an impact each is; what none of them pushes, nor a limit,
        is left as it is."""
        if self._held:
            with recording.paused():  # whole numbers have no gradient
                self._pushed.zero_()
                self.hit.zero_()
                limits = [held.batch for held in self._held if held.batch.set.constraint.unilateral]
                for batch, points, share in [*contacts, *((own, own.set.points, self._no_impact) for own in limits)]:
                    kernel = make_pushed(batch.set.slots, self.model.dtype)
                    given = [points, batch.multiplier, share, *self.of_movers]
                    launch(kernel, batch.set.count, given, [self._pushed, self.hit])
        for held in self._held:
            given = [held.batch.set.points, held.rows, s.after.particle_qd, s.after.body_qd]
            launch(held.kernels.rates, held.batch.set.count, given, [held.rate, held.impulse])
        with recording.paused():
            self.reached.zero_()
            for held in self._held:
                if held.batch.set.constraint.unilateral:
                    given = [held.batch.multiplier, held.rows, held.begun, held.mechanism]
                    launch(make_reached(self.model.dtype), held.batch.set.count, given, [self.reached])

    def realign(self, s: Substep) -> None:
        """What joints gave to velocities while positions were swept, they give at the time of the impact, `since`."""
        model, bodies = self.model, self.bodies
        for held in self._held:
            made, kernel = held.batch.set, held.at_impact.realign
            given = [made.points, held.mechanism, held.batch.placing, held.batch.parameters_in(s.after)]
            given += [made.compliance, model.particle_inv_mass, s.reference, bodies.start, s.dt, self.since]
            given += [held.batch.multiplier, held.foreseen, s.particle, bodies.dx, bodies.turn]
            given += [self._particle, self._dx, self._turn]
            for rows in held.batch.colors:
                launch(kernel, rows.count, [rows.begin, *given], [s.after.particle_qd, s.after.body_qd])

    def sweep(self, s: Substep, done: int) -> None:
        """One over the velocities of all of them there and back, after so many: they have more to tell each other than
        contacts do."""
        if done in MEETINGS:
            self._meet(s, done > 0)
        self._hold(s, self._pushed, 2)
        self._hold(s, self.hit, ANSWERED)

    def _meet(self, s: Substep, again: bool) -> None:
        """Finds their rows at the time of the impact."""
        model, bodies = self.model, self.bodies
        for held in self._held:
            made = held.batch.set
            data = [made.points, held.mechanism, self._pushed, held.batch.placing, held.batch.parameters_in(s.after)]
            masses = [made.compliance, model.particle_inv_mass, s.reference, bodies.start, model.gravity, s.dt]
            at = [s.particle, bodies.dx, bodies.turn, self._particle, self._dx, self._turn, self._v, self._body_qd]
            velocities = [held.rate, s.after.particle_qd, s.after.body_qd]
            launch(held.at_impact.meet, made.count, [*data, *masses, self.since, again, *at, *velocities], [held.rows])
        self._relieve()

    def close(self, s: Substep) -> None:
        """Brings what an impact has moved to where joints hold it."""
        model, bodies = self.model, self.bodies
        joints = [held for held in self._held if not held.batch.set.constraint.unilateral]
        for again in range(CLOSED):
            for held in joints[::-1] if again % 2 == 1 else joints:
                made, kernel = held.batch.set, make_closed(held.batch.set.constraint, held.batch.set.slots, model.dtype)
                given = [made.points, held.mechanism, held.batch.placing, held.batch.parameters_in(s.after)]
                for _, rows in swept([(held.batch, rows) for rows in held.batch.colors], again % 2 == 1):
                    inputs = [rows.begin, *given, bodies.start, self.since, held.batch.multiplier, held.rows]
                    launch(kernel, rows.count, inputs, [s.particle, bodies.dx, bodies.turn])

    def settle(self, s: Substep) -> None:
        """More of them, where impulses of contacts have been extrapolated."""
        self._hold(s, self.hit, ANSWERED)

    def _hold(self, s: Substep, which: array, sweeps: int) -> None:
        """Sweeps over the mechanisms that `which` is 1 of."""
        velocities = [s.after.particle_qd, s.after.body_qd]
        for again in range(sweeps):
            for held in self._there_and_back(again):
                made, hold = held.batch.set, held.kernels.hold
                for _, rows in swept([(held.batch, rows) for rows in held.batch.colors], again % 2 == 1):
                    given = [rows.begin, made.points, held.mechanism, which, held.rows, held.batch.multiplier]
                    launch(hold, rows.count, [*given, 1.0 / s.dt], [*velocities, held.impulse])
