"""XPBD: position-based dynamics with compliance, in small steps.

M. Macklin, M. Mueller, N. Chentanez, "XPBD", MIG 2016 (the projection and its multipliers); M. Macklin, K. Storey, M.
Lu, P. Terdiman, N. Chentanez, S. Jeschke, M. Mueller, "Small Steps in Physics Simulation", SCA 2019 (substeps instead
of iterations).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from sim.constraints.projection import make_projection
from sim.constraints.slots.projection import make_slot_projection, make_split_projection
from sim.constraints.warm_start import make_softness, make_warm_start
from sim.core.lang.types import int32, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.graph import strand
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.fields import Field
from sim.model.model import Model
from sim.schema.containers import List
from sim.schema.kinds import Choice, Int, Text
from sim.schema.reading import SchemaLine
from sim.solvers.base import Solver, SolverError, Substep
from sim.solvers.batch import ConstraintBatch, Launches, Rows, swept
from sim.solvers.bodies import MassSplitting
from sim.solvers.direct.system import direct_rows, direct_systems
from sim.solvers.integrators.implicit import INTEGRATORS, QD_BEFORE, Integrator
from sim.solvers.mechanisms.held import FORESEEN, HeldVelocities, rigid_batches
from sim.solvers.mechanisms.impacts import ImpactsOnJoints
from sim.solvers.mechanisms.rank import refuse_dependent
from sim.solvers.mechanisms.rigid_particles import make_bodies
from sim.solvers.self_contact import SelfContactStep
from sim.solvers.touching import WIDE, FrictionStep


@dataclass(eq=False, repr=False)
class SolverXPBD(Solver, key="xpbd"):
    """Steps a model by XPBD.

    iterations: projections of every constraint per step; small steps with one iteration converge best.  With rigid
                bodies, sweeps go there and back: where three rigid joints meet at a body take an even number, or
                `direct`.
    order:      "colored": Gauss-Seidel over colours whose constraints share no free point; "jacobi": all constraints at
                once, corrections averaged by mass splitting.  Both conserve momentum.
    start:      the multipliers before the first projection.  "zero": as published.  "elastic": those of the elastic and
                damping forces at the start of the step, which act on the predicted positions; what is at rest then
                stays at rest exactly, and solids need far fewer steps (see `sim.constraints.warm_start`).  Contacts
                and what acts on bodies begin at zero.
    integrator: "euler": implicit Euler, as published; "bdf2": second order, see `sim.solvers.integrators.implicit`.
    direction:  along which gradients of C rows without compliance push: those at the start of the step, which conserves
                energy and momentum ("start", or "joints" for those of joints, and of particles that contacts with
                friction or restitution may touch and that are one body by them), or those at its end ("end"), as always
                with "bdf2", and with "jacobi" between particles.
    direct:     labels of constraints that are solved together in every iteration, after the others are projected, by an
                LU factorisation of blocks, O(n) for chains and trees: what is stiff or has large ratios of masses then
                needs no more substeps than what is soft.  One-sided constraints, friction and drives with a largest
                effort stay with the others.
    Pinned points (zero inverse mass) never move, unless their attachment prescribes a motion.
    All six may be changed between steps; what a tape or a graph has recorded stays as it is.
    """

    about = "extended position-based dynamics"
    schema = (
        SchemaLine("iterations", Int(1, 100_000), "sweeps over the constraints per substep", 1),
        SchemaLine("order", Choice(("colored", "jacobi")),
                   "colored: one after the other (Gauss-Seidel); jacobi: at once, averaged", "colored"),
        SchemaLine("start", Choice(("zero", "elastic")), "multipliers at the start of a step: zero, or those of the"
                   " forces at hand (solids need fewer steps)", "zero"),
        SchemaLine("integrator", Choice(tuple(INTEGRATORS)), "euler: first order, as published; bdf2: second order,"
                   " with less damping of its own", "euler"),
        SchemaLine("direction", Choice(("joints", "start", "end")), "where the directions of rigid rows are taken:"
                   " at the start of a step for joints, or for all; or at its end for all", "joints"),
        SchemaLine("direct", List(Text("a name of an object, a joint or other constraints")), "whose constraints are"
                   " solved together, chains and trees of them: stiff ones, or with large ratios of masses", ()),
    )  # fmt: skip

    iterations: int = 1
    order: str = "colored"
    start: str = "zero"
    integrator: str = "euler"
    direction: str = "joints"
    direct: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._prepared: tuple[int, str, str, str, str, tuple[str, ...]] | None = None
        self._bodies_of_particles: dict[str, bool] = {}
        self._ready()

    def _ready(self) -> None:
        named = tuple(self.direct)
        chosen = self.iterations, self.order, self.start, self.integrator, self.direction, named
        if self._prepared != chosen:
            self._check_settings()
            self._make_kernels()
            self._prepared = chosen

    def _make_kernels(self) -> None:
        model, averaged = self.model, self.order == "jacobi"
        more = any(made.surface or made.constraint.dry for made in model.constraint_sets.values())
        self._prepare(keeps=self.iterations > 1 or self.start == "elastic" or more)
        real, plain = model.dtype, self._plain()
        if plain and self.direction == "start":
            raise SolverError(
                f"direction='start' with {plain}: those push along the gradients at the end alone; use order='colored'"
                " and integrator='euler'",
                "Choose `order: colored` and `integrator: euler`, or leave `direction` out",
            )
        self._projections, self._warm_starts, self._on_slots = {}, {}, set[str]()
        self._bounds = leading_parts(self.batches) if self.start == "elastic" else {}
        for batch in self.batches:
            c, damped, slots = batch.set.constraint, batch.set.damping is not None, batch.set.slots
            begin = self.begins(batch)
            if batch.set.surface:
                continue
            on_slots = not slots.only_particles or (begin and not c.unilateral)
            for disjoint in (False, True):
                for first in (False, True):
                    if on_slots and averaged:
                        kernel = make_split_projection(c, slots, real, first, damped, begin)
                        self._on_slots.add(batch.set.name)
                    elif on_slots:
                        kernel = make_slot_projection(c, slots, real, first, damped, begin, disjoint)
                        self._on_slots.add(batch.set.name)
                    else:
                        kernel = make_projection(c, real, first, damped, averaged, disjoint)
                    self._projections[batch.set.name, first, disjoint] = kernel
                if self.start == "elastic" and not c.unilateral and slots.only_particles:
                    bounded = batch.set.name in self._bounds
                    self._warm_starts[batch.set.name, disjoint] = make_warm_start(
                        c, slots, real, damped, True, disjoint, bounded
                    )
        self._valence = self._no_damping if self._split is None else self._split.valence
        self._sharing = {b.set.name: self._sharing_of(b) for b in self.batches if self._is_warm(b)}
        self._no_correction = zeros(1, vector(3, real), model.device)

    def _check_settings(self) -> None:
        super()._check_settings()
        if isinstance(self.direct, str):
            raise SolverError(f"direct={self.direct!r} is one text; expected labels, as in direct=[{self.direct!r}]")
        if self.direct and self.order == "jacobi":
            raise SolverError(
                f"direct={self.direct!r} with order='jacobi': a direct solve needs order='colored'",
                "Choose `order: colored`",
            )

    def begins(self, batch: ConstraintBatch) -> bool:
        """Are the directions of the rigid rows of these constraints those at the start of a step?"""
        chosen = self.direction == "start"
        if self.direction == "joints":
            chosen = batch.set.constraint.from_start or self._make_bodies(batch)
        bodies = self.order == "jacobi" and not batch.set.slots.only_particles
        return chosen and (bodies or not self._plain()) and self.integrator == "euler"

    def _make_bodies(self, batch: ConstraintBatch) -> bool:
        """See `make_bodies`; once for each set."""
        known, name = self._bodies_of_particles, batch.set.name
        if name not in known:
            known[name] = make_bodies(self.model, batch, rigid_batches(self.batches))
        return known[name]

    def _own_scratch(self) -> None:
        super()._own_scratch()
        model = self.model
        self._split = MassSplitting(model, self.batches, self._bodies) if self.order == "jacobi" else None
        direct = direct_rows(self.batches, self.direct)
        refuse_dependent(model, self.direct)
        rigid = rigid_batches(self.batches)
        self.held = HeldVelocities(model, self._bodies, rigid, self.begins)
        gains = (self.held.gains, self.held.body_gains) if rigid else None
        self.friction = FrictionStep(model, self._bodies, self.batches, gains)
        self.impacts = ImpactsOnJoints(self.friction, self.held) if rigid else None
        self.surfaces = None if model.contact is None else SelfContactStep(model, model.contact, self.iterations > 1)
        self._direct = direct_systems(model, self.batches, direct, self.begins)
        self._swept = {
            b.set.name: self.friction.rows_of(b) if b.set.surface else list(b.colors_without(rows))
            for b, rows in zip(self.batches, direct, strict=True)
        }
        self._dry = [batch for batch in self.batches if batch.set.constraint.dry]
        self._joints = [batch for batch in self.batches if batch.set.constraint.holds_joint]
        self._soft = {
            b.set.name: zeros(b.set.count, model.dtype, model.device, model.requires_grad)
            for b in self.batches
            if self.start == "elastic" and b.set.constraint.law is not None
        }

    def renumbered(self, model: Model) -> SolverXPBD | None:
        """See `Solver`.  The order of a direct solve goes by numbers, and so may what a class of the user's adds."""
        return None if self.direct or type(self) is not SolverXPBD else replace(self, model=model)

    def forget_reports(self) -> None:
        """See `Solver`."""
        super().forget_reports()
        self.friction.forget_reports()
        self.held.turns.begin()

    def refuse_incomplete(self) -> None:
        """See `Solver`."""
        super().refuse_incomplete()
        self.friction.refuse_incomplete()

    def _no_bodies(self) -> str:
        return "" if self.integrator == "euler" else f"integrator={self.integrator!r}"

    def _no_friction(self) -> str:
        return self._plain()

    def _plain(self) -> str:
        """What of the settings pushes particles along gradients at the end of a step alone; "" for nothing."""
        named = (("order", self.order, "colored"), ("integrator", self.integrator, "euler"))
        return ", ".join(f"{name}={chosen!r}" for name, chosen, needed in named if chosen != needed)

    def _make_integrator(self) -> Integrator:
        return INTEGRATORS[self.integrator](self.model)

    def multipliers(self, constraint: str) -> array:
        """As of any solver; of `contact` those of pairs of surfaces, by row of their lists: 0 where one is open."""
        if constraint == "contact" and self.surfaces is not None:
            return self.surfaces.multiplier
        return super().multipliers(constraint)

    @property
    def history(self) -> tuple[Field, ...]:
        """Fields that this solver adds to the states that it steps."""
        return (*super().history, *self.friction.history)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        direct = [a for system in self._direct for a in system.scratch]
        averaged = [] if self._split is None else self._split.scratch
        surfaces = [] if self.surfaces is None else self.surfaces.scratch
        impacts = [] if self.impacts is None else self.impacts.scratch
        return [
            *super().scratch,
            *self.friction.scratch,
            *self.held.scratch,
            *impacts,
            *self._soft.values(),
            *averaged,
            *direct,
            *surfaces,
        ]

    @property
    def shown(self) -> list[array]:
        """See `Solver`."""
        return [*super().shown, self.held.turns.angle]

    def swept_count(self, batch: ConstraintBatch) -> int:
        """How many constraints of a batch are swept, not solved directly."""
        return sum(rows.count for rows in self._swept[batch.set.name])

    @property
    def sweeps(self) -> int:
        """How often a step goes over all constraints."""
        return self.iterations

    def _constraints_per_point(self, batches: Sequence[ConstraintBatch]) -> array:
        """(particles,) number of constraints on each point, as its mass is split among them."""
        count = np.zeros(self.model.particle_count)
        for batch in batches:
            np.add.at(count, batch.set.points.numpy(), 1.0)
        return array(np.maximum(count, 1.0), dtype=self.model.dtype, device=self.model.device)

    def _sharing_of(self, batch: ConstraintBatch) -> array:
        """(particles,) in how many parts a mass counts where forces at the start of a step are limited."""
        elements = batch.set.constraint.law is not None
        return self._constraints_per_point([] if elements else [batch])

    def _advance(self, s: Substep) -> None:
        """XPBD, algorithm 1."""
        self._predict(s)  # lines 1 to 3
        if self._split is not None:
            self._split.begin()
        self._hold_prediction(s)
        self.friction.find_impacts(s.before, s.reference, s.particle, s.dt)
        for batch in self.batches:  # line 4, where multipliers do not begin at zero
            if self._is_warm(batch):
                bound = self._bound(batch, s)
                for rows in self._swept[batch.set.name]:
                    kernel = self._warm_starts[batch.set.name, rows.disjoint]
                    self._warm_start(kernel, batch, rows, s, self._sharing[batch.set.name], bound)
        for t in self.friction.memory.pressing:  # contacts begin with the forces that the last step ended with
            for rows in self._swept[t.batch.set.name]:
                disjoint = rows.disjoint and rows.count >= WIDE
                self.friction.start(t.batch, rows, disjoint, s.dt)
        self.friction.push_at_once(s.dt)
        before = self.iterations if self.held.batches else 0
        for iteration in range(self.iterations):  # lines 5 to 13
            if self._split is None:
                back = iteration % 2 == 1 and self.model.body_count > 0
                launches = self._launches([batch for batch in self.batches if batch not in self._dry])
                for batch, rows in swept(launches, back):
                    self._project(batch, rows, iteration + before * (batch in self.held.batches), s)
                if self._dry:
                    self._rub(s, iteration, back, iteration + before == 0)
                for again in range(1, ceil(self.held.sweeps / self.iterations)):
                    # what contacts push joints pull at, and the other way round
                    for batch, rows in self.held.coupled(launches, back == (again % 2 == 0)):
                        self._project(batch, rows, iteration + again, s)
                for system in self._direct:
                    system.project(s, self._bodies, self._constraint_data, iteration + before == 0 and not self._dry)
                if self.surfaces is not None and s.pairs is not None:
                    self.surfaces.weigh(s.pairs, s.reference, s.particle, iteration == 0)
                    s.ahead(s, None, None, iteration, False)
                    speeds = [s.before.particle_qd, s.before.history[QD_BEFORE.name]]
                    self.surfaces.push(s.pairs, s.reference, speeds, s.dt, s.particle, iteration == 0)
                    s.watch(s.particle, None, None)
            else:
                self._split.clear()
                for batch in self.batches:
                    self._project(batch, batch.all_at_once, iteration, s)
                self._split.apply(s.particle)
        if self.surfaces is not None and s.pairs is not None:
            self.surfaces.measure(s.pairs, s.reference, s.particle)
        self._finish(s)  # lines 15 and 16
        self._rebound(s)
        self.friction.end(s.before, s.after, s.dt)
        self.held.turns.note(s.after.body_qd, s.dt)

    def _launches(self, batches: Sequence[ConstraintBatch]) -> Launches:
        return [(batch, rows) for batch in batches for rows in self._swept[batch.set.name]]

    def _rub(self, s: Substep, iteration: int, back: bool, first: bool) -> None:
        """Dry friction of joints, and what holds them once more; first: does no direct solve come before?

        It goes by how a joint would turn: before joints are held that is not how it does, and in a chain of bodies may
        be the other way round.  It may not pull them apart either.
        """
        for system in self._direct:
            system.project(s, self._bodies, self._constraint_data, first)
        for batch, rows in swept(self._launches(self._dry), back):
            self._project(batch, rows, iteration, s)
        for batch, rows in swept(self._launches(self._joints), back):
            self._project(batch, rows, iteration + 1, s)

    def _hold_prediction(self, s: Substep) -> None:
        """Rigid constraints on what contacts may touch come first: impacts are those of what they hold, and what sweeps
        over them leave is in how fast contacts close."""
        if not self.held.batches:
            return
        launches = self._launches(self.held.batches)
        sweeps = max(self.iterations, self.held.sweeps if launches else FORESEEN)
        for iteration in range(sweeps):
            back = (sweeps - iteration) % 2 == 1  # the last one ends where the next begins
            for batch, rows in swept(launches, back):
                self._project(batch, rows, iteration, s)
            for system in self._direct:
                system.project(s, self._bodies, self._constraint_data, iteration == 0)
        self.held.keep_predicted(s)

    def _rebound(self, s: Substep) -> None:
        """The velocities of what contacts with friction or restitution have pushed."""
        touching, held = list(self.friction.touching.values()), self.held
        launches = [(t.batch, rows) for t in touching for rows in self.friction.rows_of(t.batch)]
        self.friction.turn_to(s.after, s.dt)
        held.begin_velocities(s, [(t.batch, t.contacts.points, t.impacts.share) for t in touching])
        if self.impacts is not None:
            self.impacts.begin(s)
        sweeps = max(self.friction.velocity_sweeps(self.iterations), held.velocity_sweeps)
        for iteration in range(sweeps):
            back = iteration % 2 == 1 and not held.batches  # there each is to change as the one before
            for batch, rows in swept(launches, back):
                disjoint = rows.disjoint and rows.count >= WIDE
                s.ahead(s, batch, rows, iteration, True)
                self.friction.rebound(batch, rows, disjoint, s.dt)
            if self.impacts is not None:
                self.impacts.extrapolate(s, iteration, sweeps)
            held.sweep(s, iteration)
            if iteration == 1:  # there and back
                self.friction.loads.share_again(s.dt)
        if self.impacts is not None:
            self.impacts.place(s, self._finish)

    def _bound(self, batch: ConstraintBatch, s: Substep) -> array:
        """The softness of the leading part of the material of these constraints, for each; see `leading_parts`."""
        name = batch.set.name
        if name not in self._bounds:
            return self._no_damping
        of, leading = self._bounds[name]
        (batch,) = (b for b in self.batches if b.set.name == leading)
        kernel = make_softness(batch.set.constraint, self.model.dtype, batch.set.damping is not None)
        inputs = [of, *self._constraint_data(batch, s), s.before.particle_q, s.effective_dt]
        launch(kernel, of.size, inputs, [self._soft[name]])
        return self._soft[name]

    def _is_warm(self, batch: ConstraintBatch) -> bool:
        """Do the multipliers of these constraints start with those of the forces at the start of the step?"""
        return (batch.set.name, False) in self._warm_starts

    def _project(self, batch: ConstraintBatch, rows: Rows, iteration: int, s: Substep) -> None:
        """Lines 6 to 10: eq. 18 for d lambda, eq. 17 for d x."""
        correction = self._no_correction if self._split is None else self._split.correction
        first = iteration == 0 and not self._is_warm(batch)  # then the multipliers are zero, and not read
        s.ahead(s, batch, rows, iteration, False)
        if batch.set.surface:
            disjoint = rows.disjoint and rows.count >= WIDE
            first = first and not batch.set.slots.bodies
            self.friction.project(batch, rows, disjoint, first, s.dt)
            s.watch(s.particle, batch, rows)
            return
        if batch.set.name in self._on_slots:
            kernel = self._projections[batch.set.name, first, rows.disjoint and rows.count >= WIDE]
            project = self._project_slots if self._split is None else self._project_split
            project(kernel, batch, rows, s)
            return
        given = self._constraint_data(batch, s)[:-1]  # inverse masses come constraint by constraint
        with strand(rows.tile):
            launch(
                self._projections[batch.set.name, first, rows.disjoint],
                rows.count,
                [rows.begin, *given, batch.set.weights, self._valence, s.reference, s.effective_dt],
                [s.particle, correction, batch.multiplier],
            )
        s.watch(s.particle if self._split is None else correction, batch, rows)

    def _project_slots(self, kernel: Kernel, batch: ConstraintBatch, rows: Rows, s: Substep) -> None:
        """The same, where not all points are particles."""
        points, data, *rest = self._constraint_data(batch, s)
        bodies = self._bodies
        launch(
            kernel,
            rows.count,
            [rows.begin, points, batch.placing, data, *rest, s.reference, bodies.start, s.effective_dt],
            [s.particle, *bodies.moving, batch.multiplier],
        )
        s.watch(s.particle, batch, rows)

    def _project_split(self, kernel: Kernel, batch: ConstraintBatch, rows: Rows, s: Substep) -> None:
        """The same for all of them at once, on movers that are split among them."""
        points, data, compliance, damping, _ = self._constraint_data(batch, s)
        split, bodies = self._split, self._bodies
        assert split is not None
        values = [rows.begin, points, batch.placing, data, compliance, damping, split.w, s.reference, split.bodies]
        at = [s.effective_dt, s.particle, bodies.dx, bodies.turn, split.valence, split.body_valence]
        moved = [split.correction, split.shift, split.twist, bodies.impulse, batch.multiplier]
        launch(kernel, rows.count, [*values, *at], moved)
        s.watch(split.correction, batch, rows)


def leading_parts(batches: Sequence[ConstraintBatch]) -> dict[str, tuple[array, str]]:
    """Part of a solid -> for each of its constraints one of a stiffer part of that solid, and the name of that part.

    The parts of a solid have to begin with like fractions of their forces: where the change of shape is damped and
    begins with a third of them, and the change of volume with all, a body of both swells.  So what is not damped
    follows what is, and the modes of a quadratic tetrahedron its mean strain.  Of the constraints of the leading part
    the one with the most points in common is taken.
    """
    parts = [b.set for b in batches if b.set.constraint.law is not None and b.set.slots.only_particles]
    found = {}
    for part in parts:
        for leading in parts:
            damped = part.damping is None and leading.damping is not None
            mode = part.constraint.points == leading.constraint.points == 10 and part.count > leading.count
            if part.name in found or not (damped or mode):
                continue
            nearest = _nearest(*(s.points.device.numpy(s.points) for s in (part, leading)))
            if (nearest >= 0).all():
                found[part.name] = array(nearest, dtype=int32, device=part.points.device), leading.name
    return found


def _nearest(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each row of points (n, k) the row of others (m, l) with most of them; -1 where none has any."""
    holding: dict[int, list[int]] = {}
    for k, row in enumerate(others.tolist()):
        for p in row:
            holding.setdefault(p, []).append(k)
    common = [Counter(k for p in row for k in holding.get(p, ())) for row in points.tolist()]
    return np.array([c.most_common(1)[0][0] if c else -1 for c in common], np.int32)
