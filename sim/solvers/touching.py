"""Contacts with friction and restitution during a step: impacts found, positions projected, velocities afterwards.

See `sim.constraints.contact` for the kernels.  A step finds the impacts of its prediction, projects contacts with the
other constraints, and goes over their velocities once all positions are done: as often as over the positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sim.constraints.contact.forms import (
    Form,
    InTurn,
    SideBySide,
    contact_struct,
    moving_struct,
)
from sim.constraints.contact.hitting import two_sided
from sim.constraints.contact.impact import make_impact
from sim.constraints.contact.impulses.at_once import (
    make_answer,
    make_hit_at_once,
    make_pushed_at_once,
    make_struck,
    make_unstruck,
)
from sim.constraints.contact.impulses.gains import make_gains
from sim.constraints.contact.impulses.rebound import make_inertias, make_meeting, make_rebound
from sim.constraints.contact.impulses.restitution import Answered, NoRebound, Rebounding, Restitution
from sim.constraints.contact.impulses.rows import RowLayout, row_struct
from sim.constraints.contact.parted import make_approaching, make_carried, make_cleared, make_parting
from sim.constraints.contact.projection import make_contact_projection
from sim.constraints.contact.resting import make_contact_start
from sim.constraints.contact.surface import impact_kinds, impact_struct, surface_struct
from sim.core.lang.types import matrix, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.fields import Field
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch, Rows
from sim.solvers.bodies import BodyStep
from sim.solvers.integrators.implicit import BODY_QD_BEFORE, QD_BEFORE
from sim.solvers.joints import DryJoints
from sim.solvers.near.choices import Choices
from sim.solvers.near.crowded import crowded, make_room, make_split
from sim.solvers.near.lanes import NearContacts, over_all
from sim.solvers.near.memory import ContactMemory, Touching
from sim.solvers.near.passing import PassingCheck
from sim.solvers.near.sharing import LoadSharing

WIDE = 32
"""Constraints on bodies of one colour from which on their kernel is compiled to wide loads and stores as well: fewer of
them are done before it would be ready."""
FEW = 16
"""So many contacts of a colour, or less, are taken one after the other, where no gradient is asked for: for that each
launch keeps what it overwrites, in one thread a log of all of its stores."""
STACKED = 4
"""Sweeps over velocities for one over positions, where bodies touch bodies or particles, or have several contacts: the
arms of two sides are shifted to one place (`meeting_of`), and each sweep leaves a part of the order of the step."""
AT_LEAST = 8
"""Sweeps over velocities of bodies with several contacts.  With two a box that fell on a face as it slid, e = .5, had
three times the derivative of its height and spun; eight are 2 % off, for a tenth of the time of a step."""
REBOUNDING = 16
"""The same where something may rebound: what is left of a rebound depends on when in its step the impact was, and its
derivative is as many times larger as steps are short."""


@dataclass(eq=False)
class FrictionStep:
    """The contacts with friction or restitution of a model, by name of their set; gains: where joints
    hold what they touch, what forces add to velocities in a step, of particles and of bodies."""

    model: Model
    bodies: BodyStep
    batches: Sequence[ConstraintBatch]
    gains: tuple[array, array] | None = None

    def __post_init__(self) -> None:
        near = self.model.near
        by_name = {batch.set.name: batch for batch in self.batches}
        self.near = None if near is None else NearContacts(self.model, self.bodies, near, by_name)
        model, real = self.model, self.model.dtype
        self.passing = PassingCheck(model, self.bodies, self.near)
        self.moving = moving_struct(real)()
        self.moving.inertia = zeros(model.body_count, matrix((3, 3), real), model.device, model.requires_grad)
        self._rebounds = any(path.rpartition(".")[2] == "restitution" for path in model.materials)
        bounded = Rebounding() if self.gains is None else Answered()
        self.restitution: Restitution = bounded if self._rebounds else NoRebound()
        self.crowded = self.near is not None or crowded(model, self.batches)
        self._added = self._make_added(self._rebounds)
        self._gains = self._make_gains(isinstance(self.restitution, Rebounding))
        self._parts = make_room(model, self.moving, self.crowded)
        self.choices = Choices(model, self.bodies, [batch for batch in self.batches if batch.set.surface], self.near)
        self.touching: dict[str, Touching] = {}
        self.memory = ContactMemory(model, self.near, self.crowded, self.touching)
        self.dry = DryJoints(model, self.bodies, list(self.batches))
        rough = any(batch.set.surface for batch in self.batches)
        self._rubs = rough or model.contact is not None or bool(self.dry.batches)
        for batch in self.batches:
            if not batch.set.surface:
                continue
            surface, impacts = surface_struct(real)(), impact_struct(real)()
            for name, values in batch.set.surface.items():
                setattr(surface, name, values)
            n, grad = batch.set.count, model.requires_grad
            for name, kind in impact_kinds(real).items():
                setattr(impacts, name, zeros(n, kind, model.device, grad))
            along, turned = (zeros(n, vector(3, real), model.device, grad) for _ in range(2))
            late = zeros(n, real, model.device, grad)
            still = zeros(n, vector(3, real), model.device, requires_grad=False)
            rows, layout = row_struct(real)(), RowLayout(batch.set.constraint, batch.set.slots)
            rows.vectors = zeros((n, layout.shape[0]), vector(3, real), model.device, grad)
            rows.numbers = zeros((n, layout.shape[1]), real, model.device, grad)
            contacts = contact_struct(batch.set.constraint, batch.set.slots, real)(
                points=batch.set.points,
                placing=batch.placing,
                data=batch.parameters,
                surface=surface,
                impacts=impacts,
                compliance=batch.set.compliance,
                slid=still,
                multiplier=batch.multiplier,
                along=along,
                turned=turned,
                late=late,
                rows=rows,
            )
            self._parts += make_split(model, contacts, n if self.crowded else 0)
            self.touching[batch.set.name] = Touching(batch, contacts, surface, impacts, along, late, still)
        self.loads = LoadSharing(model, self.touching if self.crowded else {})

    def _make_added(self, counts: bool) -> list[array]:
        """Room for the energy that impacts have added to what moves."""
        model, made = self.model, []
        for name, n in {"added": model.particle_count, "body_added": model.body_count}.items():
            made.append(zeros(n if counts else 0, model.dtype, model.device, model.requires_grad))
            setattr(self.moving, name, made[-1])
        return made

    def _make_gains(self, counts: bool) -> list[array]:
        """Room for the velocities of the step without contacts, and for what forces add to them."""
        model, real = self.model, self.model.dtype
        n, bodies = (model.particle_count, model.body_count) if counts else (0, 0)
        kinds = (n, vector(3, real)), (bodies, vector(6, real))
        made = [zeros(size, kind, model.device, model.requires_grad) for size, kind in kinds for _ in range(2)]
        _, self.moving.gains, _, self.moving.body_gains = made
        return made

    def _find_gains(self, before: State, dt: float) -> None:
        """What forces, and motions of what is held, add to velocities in the step that was predicted."""
        model, bodies, moving = self.model, self.bodies, self.moving
        v, gained, qd, body_gained = self._gains
        gains, body_gains = make_gains(model.dtype)
        if v.size:
            given = [moving.particle, moving.x_ref, before.particle_qd, dt]
            launch(gains, v.size, given, [v, gained])
        if qd.size:
            given = [bodies.start, bodies.momentum, before.body_qd, dt, *bodies.moving]
            launch(body_gains, qd.size, given, [qd, body_gained])

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        near = [] if self.near is None else self.near.scratch
        own = [self.moving.inertia, *self._parts, *self._added, *self._gains]
        made = [*self.passing.scratch, *self.dry.scratch, *self.choices.scratch, *self.loads.scratch]
        return [*near, *made, *own] + [
            a
            for t in self.touching.values()
            for a in (
                *(getattr(t.impacts, name) for name in impact_kinds(self.model.dtype)),
                t.along,
                t.late,
                t.contacts.turned,
                t.contacts.rows.vectors,
                t.contacts.rows.numbers,
            )
        ]

    def forget_reports(self) -> None:
        """Before steps that `refuse_incomplete` is to look at."""
        if self.near is not None:
            self.near.begin()
        self.passing.begin()

    def refuse_incomplete(self) -> None:
        """Raises ContactError where bodies may have met that were not looked at since `forget_reports`."""
        if self.near is not None:
            self.near.refuse_incomplete()
        self.passing.refuse_passed()

    def find_impacts(self, before: State, reference: array, particle: array, dt: float) -> None:
        """When contacts close in the step that was predicted; first of all, which bodies are near each other."""
        bodies, model, moving = self.bodies, self.model, self.moving
        if self.near is not None:
            self.near.detect()
        moving.w, moving.x_ref, moving.particle, moving.gravity = (
            model.particle_inv_mass,
            reference,
            particle,
            model.gravity,
        )
        moving.bodies, moving.dx, moving.turn, moving.impulse = bodies.start, *bodies.moving
        moving.momentum = bodies.momentum
        moving.v, moving.body_qd = before.particle_qd, before.body_qd
        moving.v_before, moving.body_qd_before = before.particle_qd, before.body_qd
        if self._rubs:
            moving.v_last, moving.body_qd_last = before.history[QD_BEFORE.name], before.history[BODY_QD_BEFORE.name]
            self.dry.find(before.body_qd, moving.body_qd_last, dt)
        if self.gains is not None:
            moving.gains, moving.body_gains = self.gains
        else:
            self._find_gains(before, dt)
        for values in self._added:
            values.zero_()
        self.choices.begin(before, dt)
        for t in self.touching.values():
            made, lanes = t.batch.set, self.memory.lanes(t)
            if lanes is not None:
                t.batch.multiplier.zero_()
                t.along.zero_()
                t.late.zero_()
            form, threads = over_all(made)
            self.choices.make(t.batch, particle, reference)
            if lanes is not None and self.near is not None:
                lanes.list_chosen(self.near.left_over)
                lanes.recall(before)
            self.memory.recall(t, before)
            kernel = make_impact(made.constraint, made.slots, model.dtype, form, self.gains is not None, self.crowded)
            launch(kernel, threads, [*self.memory.all_of(t), t.contacts, moving, dt])
        if self.crowded:
            self._part(dt)

    def _part(self, dt: float) -> None:
        """What impacts part, of all contacts."""
        model = self.model
        counts = model.particle_count, model.body_count
        launch(make_cleared(model.dtype), max(counts), [*counts, self.moving])
        each = [(make, t) for make in (make_parting, make_carried, make_approaching) for t in self.touching.values()]
        for make, t in each:
            self.by_color(t, make, dt)

    def form(self, t: Touching, rows: Rows, wide: bool) -> Form:
        """How a launch goes over contacts of a set.  wide: compiled for many side by side."""
        lanes = self.memory.lanes(t)
        if lanes is not None:
            return lanes.form(rows, wide)
        return InTurn() if rows.in_turn else SideBySide(wide)

    def _span(self, t: Touching, rows: Rows) -> list[object]:
        """What kernels read first of some rows: where they begin."""
        lanes = self.memory.lanes(t)
        if lanes is not None:
            return lanes.span(rows)
        return [rows.begin, rows.count, int(rows.back)] if rows.in_turn else [rows.begin]

    def rows_of(self, batch: ConstraintBatch) -> list[Rows]:
        """The launches that go over the contacts of a set."""
        lanes = self.memory.lanes(self.touching[batch.set.name])
        if lanes is not None:
            return list(lanes.rows)
        few = batch.set.count <= FEW * batch.set.color_count
        if few and self.model.device.is_cpu and not self.model.requires_grad:
            return [Rows(0, batch.set.count, False, in_turn=True)]
        return list(batch.colors)

    def velocity_sweeps(self, iterations: int) -> int:
        """How often velocities are swept, where positions are so often: what stands on something else rattles where
        those that one contact leaves behind reach the others, and what hits on a face, with friction, spins."""
        many = self.crowded and bool(self.memory.pressing)
        pairs = any(two_sided(t.batch.set.slots) for t in self.touching.values())
        each = STACKED if many or pairs else 1 + self.crowded
        least = REBOUNDING if self._rebounds else AT_LEAST
        return max(each * iterations, least if many else 1)

    @property
    def history(self) -> tuple[Field, ...]:
        """What states keep of contacts."""
        return self.memory.history + ((QD_BEFORE, BODY_QD_BEFORE) if self._rubs else ())

    def start(self, batch: ConstraintBatch, rows: Rows, wide: bool, dt: float) -> None:
        """Contacts that share no mover push as they did at the end of the last step.  wide: see `project`."""
        made, t = batch.set, self.touching[batch.set.name]
        form = self.form(t, rows, wide)
        kernel = make_contact_start(made.constraint, made.slots, self.model.dtype, self.restitution, form)
        launch(kernel, rows.threads, [*self._span(t, rows), t.contacts, self.moving, dt])

    def end(self, before: State, after: State, dt: float) -> None:
        """Keeps the forces of contacts for the next step, and what they have slid."""
        if self.near is not None:
            self.near.check()
        self.passing.check()
        if self._rubs:
            copy(after.history[QD_BEFORE.name], before.particle_qd)
            copy(after.history[BODY_QD_BEFORE.name], before.body_qd)
        self.memory.keep(before, after, self.moving, dt)

    def project(self, batch: ConstraintBatch, rows: Rows, wide: bool, first: bool, dt: float) -> None:
        """One projection of contacts that share no mover.  wide: compiled for many side by side."""
        made, t = batch.set, self.touching[batch.set.name]
        form, real = self.form(t, rows, wide), self.model.dtype
        kernel = make_contact_projection(made.constraint, made.slots, real, first, self.restitution, form)
        launch(kernel, rows.threads, [*self._span(t, rows), t.contacts, self.moving, dt])

    def turn_to(self, after: State, dt: float) -> None:
        """Velocities are those after the step from now on; finds where contacts touch."""
        model, moving = self.model, self.moving
        moving.v, moving.body_qd = after.particle_qd, after.body_qd
        self._turn_inertias()
        for t in self.touching.values():
            form, threads = over_all(t.batch.set)
            kernel = make_meeting(t.batch.set.constraint, t.batch.set.slots, model.dtype, form, self.crowded)
            launch(kernel, threads, [*self.memory.all_of(t), t.contacts, moving, dt])
        self.loads.share(dt)
        if self._hit_at_once:
            self._at_once(make_hit_at_once, dt)

    def push_at_once(self, dt: float) -> None:
        """The first guess for what hits bodies."""
        if self._hit_at_once:
            self._turn_inertias()
            self._at_once(make_pushed_at_once, dt)

    def _turn_inertias(self) -> None:
        """Inverse inertias in the world, as bodies are now."""
        model, moving = self.model, self.moving
        if self.touching and model.body_count:
            launch(make_inertias(model.dtype), model.body_count, [moving.bodies, moving.turn], [moving.inertia])

    @property
    def _hit_at_once(self) -> list[Touching]:
        """The contacts that a first guess is made for."""
        return [t for t in self.touching.values() if self.crowded and not t.batch.set.slots.particles]

    def _at_once(self, make: Callable[..., Kernel], dt: float) -> None:
        model = self.model
        launch(make_unstruck(model.dtype), model.body_count, [self.moving])
        for t in self._hit_at_once:
            self.by_color(t, make_struck, dt)
        launch(make_answer(model.dtype), model.body_count, [self.moving])
        for t in self._hit_at_once:
            self.by_color(t, make, dt, self.restitution)

    def by_color(self, t: Touching, make: Callable[..., Kernel], dt: float, *more: object) -> None:
        """Launches over all contacts of a set, those at once that share no mover.  make: gives the kernel of a form."""
        made = t.batch.set
        for rows in self.rows_of(t.batch):
            form = self.form(t, rows, rows.disjoint and rows.count >= WIDE)
            kernel = make(made.constraint, made.slots, self.model.dtype, *more, form)
            launch(kernel, rows.threads, [*self._span(t, rows), t.contacts, self.moving, dt])

    def rebound(self, batch: ConstraintBatch, rows: Rows, wide: bool, dt: float) -> None:
        """One sweep over the velocities after the step, of the same."""
        made, t = batch.set, self.touching[batch.set.name]
        form = self.form(t, rows, wide)
        kernel = make_rebound(made.constraint, made.slots, self.model.dtype, self.restitution, form, self.crowded)
        launch(kernel, rows.threads, [*self._span(t, rows), t.contacts, self.moving, dt])
