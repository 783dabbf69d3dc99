"""What all solvers share: the frame of a step, and who is to blame where one breaks down."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import ClassVar

from sim.constraints.damping.evolution import make_evolution
from sim.constraints.projection import parameter_struct, value_type
from sim.core.lang.errors import SimError, did_you_mean, entry_point
from sim.core.lang.types import vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros, zeros_like
from sim.core.runtime.devices.graph import capturing
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.collision.detection import PairLists
from sim.model.control import Contacts, Control
from sim.model.fields import Field
from sim.model.model import Model
from sim.model.state import State
from sim.schema.kinds import Choice, Int
from sim.schema.reading import SchemaLine
from sim.solvers.air import FaceDrag
from sim.solvers.batch import ConstraintBatch, Rows, placing_of
from sim.solvers.blame import Blame
from sim.solvers.bodies import BodyStep
from sim.solvers.fingerprint import copy_containers, fingerprint
from sim.solvers.integrators.implicit import Euler, Integrator
from sim.solvers.integrators.step_kernels import step_kernels, tracks_of
from sim.solvers.joints import JointDrives
from sim.solvers.near.passing import PointPassingCheck


class SolverError(SimError, ValueError):
    """A step that cannot be taken as asked.  hint: what to do in a scene, beside what the message says."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


Watch = Callable[[array, ConstraintBatch | None, Rows | None], None]
"""Is told after a launch that moves points or bodies: the points (or corrections of them), and for which constraints,
None where they are not the cause."""


def _unwatched(written: array, batch: ConstraintBatch | None, rows: Rows | None) -> None:
    pass


_OF_ATTACHMENTS = ("target", "hold")  # what a step writes of attachments: where they hold, and whether

Ahead = Callable[["Substep", ConstraintBatch | None, Rows | None, int, bool], None]
"""Is told before some constraints are projected, or surfaces that collide with themselves (None): how many sweeps there
were before; True for one over velocities."""


def _unforeseen(s: Substep, batch: ConstraintBatch | None, rows: Rows | None, done: int, velocities: bool) -> None:
    pass


@dataclass(frozen=True, eq=False)
class Substep:
    """One step that is being taken.

    motion: displacements of attachments and held bodies; control: None where all is as the model has it; effective_dt,
    reference, particle: see `integrators.implicit`; watch: told after each launch that moves points; ahead: before
    those that project; pairs: of surfaces that collide with themselves, None where none do.
    """

    before: State
    after: State
    motion: array
    dt: float
    effective_dt: float
    reference: array
    particle: array
    watch: Watch = _unwatched
    control: Control | None = None
    ahead: Ahead = _unforeseen
    pairs: PairLists | None = None


SOLVERS: dict[str, type[Solver]] = {}
"""The solvers that a scene can name, by key."""


@dataclass(eq=False)
class Solver:
    """Steps a model from one state to the next.  What happens to predicted positions is up to the kind of solver.

    A subclass with a `key` can be chosen in a scene: `class SolverXPBD(Solver, key="xpbd")`.  Its `about` is one
    sentence for the reference; `schema` has a line for each of its fields that a scene may set.
    """

    key: ClassVar[str] = ""
    about: ClassVar[str] = ""
    schema: ClassVar[tuple[SchemaLine, ...]] = ()

    model: Model
    batches: list[ConstraintBatch] = field(init=False, default_factory=list)

    def __init_subclass__(cls, key: str = "") -> None:
        if key:
            cls.key = key
            SOLVERS[key] = cls

    def __repr__(self) -> str:
        own = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.init and f.name != "model")
        return f"{type(self).__name__}({own}{'; ' if own else ''}{self.model!r})"

    # ------------------------------------------------------------------------------------------ settings and memory
    def _check_settings(self) -> None:
        """Raises SolverError where a field is not what its line of the schema allows."""
        for line in self.schema:
            given, kind = getattr(self, line.name), line.kind
            if isinstance(kind, Int) and not hasattr(given, "__index__"):
                raise SolverError(f"{line.name}={given!r}; expected a whole number, at least {kind.least}")
            if isinstance(kind, Int) and given < kind.least:
                raise SolverError(f"{line.name}={given}; expected at least {kind.least}")
            if isinstance(kind, Choice) and given not in kind.options:
                near = did_you_mean(str(given), map(str, kind.options))
                raise SolverError(f"{line.name}={given!r}{near}; expected {' or '.join(map(repr, kind.options))}")

    def _prepare(self, keeps: bool) -> None:
        """Kernels and scratch for a step.  keeps: gradients flow through the multipliers."""
        model = self.model
        self._refuse_unknown()
        self._kernels, self._keeps = step_kernels(model.dtype, model.in_air), keeps
        self._tracks = tracks_of(model)
        self._no_damping = zeros(1, model.dtype, model.device)
        self._prescribes = (
            model.attachment_point.size if "attachment" in model.constraint_sets or model.motion_kind.size else 0
        )
        self._own_scratch()

    def _refuse_unknown(self) -> None:
        """Raises SolverError where the model has bodies or contacts that this solver does not step: all at once."""
        model = self.model
        labels = (name.split("/")[0] for s in model.constraint_sets.values() if s.surface for name in s.names)
        rough = ", ".join(dict.fromkeys(labels))
        found, needed = [], []
        if model.body_count and (why := self._no_bodies()):
            found.append(f"{why} steps no rigid bodies, and the model has {model.body_count}")
            needed.append("integrator='euler'")
        if rough and (why := self._no_friction()):
            found.append(f"{why} has no friction and no restitution, and contacts of {rough} have")
            needed = ["order='colored'", "integrator='euler'"]
        if model.contact is not None and (why := self._no_friction()):
            found.append(
                f"{why} has no contact of surfaces with themselves, and {', '.join(model.contact.labels)} has it"
            )
            needed = ["order='colored'", "integrator='euler'"]
        if found:
            settings = " and ".join(needed)
            in_scene = " and ".join(f"`{text.replace('=', ': ').replace(chr(39), '')}`" for text in needed)
            raise SolverError(f"{'; '.join(found)}; use SolverXPBD with {settings}", f"Choose `xpbd` with {in_scene}")

    def _no_bodies(self) -> str:
        """What of this solver steps no rigid bodies; "" where it does."""
        return type(self).__name__

    def _no_friction(self) -> str:
        """The same of contacts with friction or restitution."""
        return self._no_bodies()

    def _own_scratch(self) -> None:
        """Makes arrays for all that a step writes before it reads it."""
        model = self.model
        real, grad = model.dtype, model.requires_grad
        self.batches = []
        self._drives = JointDrives(model)
        for declared in model.constraint_sets.values():
            with recording.paused():
                constraints = declared.with_own_rows() if declared.lane else declared
            c = constraints.constraint
            parameters = parameter_struct(c, real)()
            for name, values in constraints.parameters.items():
                setattr(parameters, name, values)
            multiplier = zeros(constraints.count, value_type(c, real), model.device, grad and self._keeps)
            evolutions = {name: make_evolution(c, constraints.slots, real, name) for name in c.internal_variables}
            batch = ConstraintBatch(constraints, parameters, multiplier, evolutions, placing_of(constraints, real))
            self._drives.take(batch)
            self.batches.append(batch)
        self._face_drag = FaceDrag(model) if model.in_wind else None
        self._integrator = self._make_integrator()
        self._bodies = BodyStep(model)
        self._passing = PointPassingCheck(model, self._bodies, self.batches)
        self._contacts: Contacts | None = None
        soft = model.constraint_sets.get("attachment")
        none = [zeros(1, kind, model.device, grad) for kind in (vector(3, real), real)]
        self._held = none if soft is None else [soft.parameters[name] for name in _OF_ATTACHMENTS]

    def _make_integrator(self) -> Integrator:
        """How a step begins and ends."""
        return Euler(self.model)

    def _ready(self) -> None:
        """Prepares anew where settings were changed."""

    def bound(self) -> Solver:
        """A solver that takes the same steps, now and later: with this one's settings and arrays, its own scratch."""
        self._ready()
        made = copy.copy(self)
        made.__dict__.update({name: copy_containers(value) for name, value in vars(self).items()})
        made.model = self.model.bound()
        soft = made.model.constraint_sets.get("attachment")
        if soft is not None:
            soft.parameters.update({name: zeros_like(soft.parameters[name]) for name in _OF_ATTACHMENTS})
        made._own_scratch()
        return made

    def renumbered(self, model: Model) -> Solver | None:
        """The same solver for the same model under other numbers of its particles (`sim.model.renumbered`); None where
        its results depend on these numbers."""
        return None

    @property
    def settings(self) -> Hashable:
        """What a step depends on beside the content of arrays: all attributes, objects but containers by identity."""
        return tuple((name, fingerprint(value)) for name, value in vars(self).items())

    @property
    def sweeps(self) -> int:
        """How often a step goes over all constraints."""
        return 1

    @property
    def inputs(self) -> list[array]:
        """Arrays beside the state that a step reads, not written before: derived data and parameters of the model."""
        sets = [
            a
            for b in self.batches
            if not b.set.lane
            for a in (
                b.set.points,
                b.set.compliance,
                b.set.damping,
                b.set.weights,
                *b.set.parameters.values(),
                *b.set.placing.values(),
                *b.set.surface.values(),
            )
            if a is not None and not (any(a is held for held in self._held) and self._prescribes)
        ]
        air = [] if self._face_drag is None else self._face_drag.inputs
        own = [a for of in (self.model.contact, self.model.near) if of is not None for a in of.arrays]
        own += [b.set.compliance for b in self.batches if b.set.lane]
        return [*self.model.arrays.values(), self.model.gravity, *air, *sets, *own]

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        air = [] if self._face_drag is None else self._face_drag.scratch
        own = [*self._integrator.scratch, *self._bodies.scratch, *self._drives.scratch, *self._passing.scratch]
        return [*(b.multiplier for b in self.batches), *self._held, *air, *own]

    @property
    def shown(self) -> list[array]:
        """What a rollout shows of its steps: the multipliers of the batches in the last one, and reports."""
        return [batch.multiplier for batch in self.batches]

    @property
    def history(self) -> tuple[Field, ...]:
        """Fields that this solver adds to the states that it steps."""
        return (*self._integrator.history, *self._bodies.history)

    @property
    def convergence_order(self) -> int:
        """Of convergence of a converged step, by its length."""
        return self._integrator.order

    def effective_dt(self, dt: float) -> float:
        """h~ [s] of a step of dt: a force F moves a free point by h~^2 F / m."""
        return self._integrator.effective(dt)

    def damping_time(self, omega: float, dt: float) -> float:
        """Damping time [s] that converged steps of dt add to a vibration of angular frequency omega [rad/s], as if the
        material had it besides: a damping ratio of omega / 2 times that.  omega = 0: the limit for slow motions."""
        return self._integrator.damping_time(omega, dt)

    def multipliers(self, constraint: str) -> array:
        """Multipliers lambda of the last step for a type, in its set's order; force = gradient lambda / h~^2, with h~
        as `effective_dt` gives it."""
        for batch in self.batches:
            if batch.set.name == constraint:
                return batch.multiplier
        raise SolverError(
            "the model has no constraint"
            f" '{constraint}'{did_you_mean(constraint, [batch.set.name for batch in self.batches])}"
        )

    def outer_forces(self, state: State, dt: float) -> array:
        """(bodies,) spatial [N, N m]: what pulls at bodies from outside in a step of `dt` from `state`, gravity apart;
        memory that the next step writes."""
        return self._drives.push(state, None, dt)

    # ------------------------------------------------------------------------------------------ steps
    def check_model(self) -> None:
        """Raises SolverError where the model has what this kind of solver cannot step."""

    def begin(self) -> None:
        """Before many steps at once: settings and derived data are brought up to date, also on an open tape."""
        self._ready()
        self.model.renew()

    @entry_point
    def step(
        self, state_in: State, state_out: State, control: Control | None, contacts: Contacts | None, dt: float
    ) -> None:
        """One step of `dt` seconds from `state_in` (never written) to `state_out`.

        contacts: what `model.collide` has found; None: the step looks for pairs of surfaces itself.  Raises
        ContactError where a pair may have been missed, or a point has come through a shape; in a graph that is being
        captured nobody looks.
        """
        self._check_step(state_in, state_out, dt)
        self._ready()
        self.model.refresh()
        for state in (state_in, state_out):
            state.carry(self.history)
        pairs = self._pairs(contacts, state_in, dt)
        if capturing() is None:
            self.forget_reports()
        substep = replace(self._substep(state_in, state_out, control, dt), pairs=pairs)
        self._advance(substep)
        self._passing.check(state_in.particle_q, state_out.particle_q, substep.particle)
        if capturing() is None:
            self.refuse_incomplete()
            if pairs is not None:
                pairs.refuse_incomplete()

    def forget_reports(self) -> None:
        """Before steps that `refuse_incomplete` is to look at."""
        self._passing.begin()

    def refuse_incomplete(self) -> None:
        """Raises ContactError where the steps since `forget_reports` may have missed what met, or came through."""
        self._passing.refuse_passed()

    def _pairs(self, contacts: Contacts | None, before: State, dt: float) -> PairLists | None:
        if self.model.contact is None:
            return None
        if contacts is None or contacts.pairs is None:
            contacts = self.model.collide(before, self._contacts, dt)
            self._contacts = contacts
        assert contacts is not None
        return contacts.pairs

    def locate_nonfinite(self, before: State, after: State, control: Control | None, dt: float) -> str:
        """Takes the step from `before` again, into `after`, and says which position or pose first became non-finite."""
        blame = Blame(self.model, self._bodies, before, dt)
        pairs = self._pairs(None, before, dt)
        self._advance(replace(self._substep(before, after, control, dt, blame.look), pairs=pairs))
        return blame.found or "in no single projection"

    def watched_step(
        self, before: State, after: State, pairs: PairLists | None, dt: float, watch: Watch, ahead: Ahead
    ) -> None:
        """A step of a solver that has begun, told to `watch` and `ahead`."""
        self._check_step(before, after, dt)
        for state in (before, after):
            state.carry(self.history)
        self._advance(replace(self._substep(before, after, None, dt, watch, ahead), pairs=pairs))

    def _advance(self, s: Substep) -> None:
        """Takes the step."""
        raise NotImplementedError(f"{type(self).__name__} takes no steps")

    def _predict(self, s: Substep) -> None:
        """Positions by inertia and outer forces (XPBD, alg. 1, lines 1 to 3), and positions that attachments prescribe.

        Internal variables evolve by the positions and velocities at the start of the step.
        """
        model, before = self.model, s.before
        self._integrator.predict(before, s.dt)
        if model.push_point.size:
            forces = [model.push_point, model.push_load, model.push_share, model.push_offset, model.push_time]
            step = [model.push_force, before.clock, s.dt, s.effective_dt, model.particle_inv_mass]
            launch(self._kernels.push, model.push_point.size, [*forces, *step], [s.particle])
        self._bodies.predict(before, self._drives.push(before, s.control, s.dt), s.dt, s.motion)
        for batch in self.batches:
            for name, evolution in batch.evolutions.items():
                after = s.after.internal_variables[f"{batch.set.name}.{name}"]
                start = [before.particle_q, before.particle_qd, self._bodies.start, before.body_qd]
                inputs = [batch.set.points, batch.placing, batch.parameters_in(before), *start, s.dt]
                launch(evolution, batch.set.count, inputs, [after])
        self._drives.aim(before, s.control, s.dt)
        if self._face_drag is not None:
            moving, ahead = self._integrator.at_end(before, s.dt), self._integrator.order > 1
            self._face_drag.slow(moving, ahead, s.effective_dt, s.reference, s.particle)
        if self._prescribes:
            held = [model.attachment_point, model.attachment_anchor, model.attachment_group, model.attachment_slot]
            moved = [model.motion_offset, model.motion_kind, s.motion, model.motion_a, model.motion_b]
            inputs = [*held, *moved, self._tracks, model.release_time, before.clock, s.dt, s.reference]
            launch(self._kernels.prescribe, self._prescribes, inputs, [s.particle, *self._held])
        s.watch(s.particle, None, None)

    def _warm_start(
        self, kernel: Kernel, batch: ConstraintBatch, rows: Rows, s: Substep, sharing: array, bound: array
    ) -> None:
        """Elastic and damping forces at the start of a step, applied to the predicted positions.

        sharing: (particles,) parts that each mass counts as where the forces are limited; bound: see `make_warm_start`.
        """
        before = s.before
        points, *given = self._constraint_data(batch, s)
        moving = [before.particle_q, before.particle_qd, sharing, bound]
        launch(
            kernel,
            rows.count,
            [rows.begin, points, batch.placing, *given, *moving, s.effective_dt],
            [s.particle, batch.multiplier],
        )
        s.watch(s.particle, batch, rows)

    def _constraint_data(self, batch: ConstraintBatch, s: Substep) -> list[object]:
        """What the kernels of constraints read first: points, parameters, compliance, damping, inverse masses."""
        damping = batch.set.damping if batch.set.damping is not None else self._no_damping
        return [
            batch.set.points,
            batch.parameters_in(s.after),
            batch.set.compliance,
            damping,
            self.model.particle_inv_mass,
        ]

    def _finish(self, s: Substep) -> None:
        """Positions and velocities (lines 15 and 16), and the time."""
        for batch in self.batches:
            if batch.set.constraint.unilateral:
                self._integrator.touch(batch.set.points, batch.set.slots, batch.multiplier)
        self._integrator.finish(s.before, s.after, s.dt)
        self._bodies.finish(s.before, s.after, s.dt)

    def _substep(
        self,
        before: State,
        after: State,
        control: Control | None,
        dt: float,
        watch: Watch = _unwatched,
        ahead: Ahead = _unforeseen,
    ) -> Substep:
        i, motion = self._integrator, self._motion(control)
        at = i.effective(dt), i.reference(before), i.particle
        return Substep(before, after, motion, dt, *at, watch, control, ahead)

    def _motion(self, control: Control | None) -> array:
        return self.model.motion_vector if control is None else control.motion_vector

    def _check_step(self, state_in: State, state_out: State, dt: float) -> None:
        if not isinstance(dt, Real) or not dt > 0.0:
            raise SolverError(f"dt={dt!r}; expected a positive time step in seconds")
        for name, state in (("state_in", state_in), ("state_out", state_out)):
            if state.model is not self.model:
                raise SolverError(f"{name} belongs to another model; make it with solver.model.state()")
        if state_in is state_out:
            raise SolverError("state_in and state_out are the same state; use two and let them change places")
