"""`ContactWatch`: steps taken with a look at every one-sided constraint, for reports and checks of gradients.

A step that is watched gives the same as one that is not.  It launches a few kernels more, and the host waits for it:
what a search or a rollout repeats is never watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.constraints.contact.diagnostics.ends import make_gap, make_touched
from sim.constraints.contact.diagnostics.predicted import make_foresight
from sim.constraints.contact.diagnostics.sweeps import make_look, make_look_at_velocities
from sim.constraints.contact.diagnostics.switches import CLOSING, GROWS, NEAR, OPEN, SLIPS, TOGETHER
from sim.constraints.contact.kernels.surface import impact_kinds, impact_struct, surface_struct
from sim.constraints.slots.pattern import PARTICLE, WORLD
from sim.core.lang.types import int32
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.graph import Graph, capture
from sim.core.runtime.launch.launch import launch
from sim.model.build.shapes.facets import facet_label
from sim.model.collision.detection import PairLists
from sim.model.constraint_set import ConstraintSet
from sim.model.control import Contacts
from sim.model.state import State
from sim.solvers.base import Solver, Substep
from sim.solvers.batch import ConstraintBatch, Rows
from sim.solvers.contacts.count import SWITCHES, ContactCount, Deepest
from sim.solvers.contacts.surfaces import SurfaceWatch
from sim.solvers.xpbd import SolverXPBD

PARTS = {1: "points", 2: "edges", 3: "triangles"}
"""What of an object meets a shape, by how many of its particles a contact has."""


@dataclass(frozen=True, eq=False)
class Touched:
    """The contacts that push at the end of a step: places (n, 3) [m], normal and friction forces there (n, 3) [N] on
    the particle, or the body that is not a shape's; depth (n,) [m], how far they are inside."""

    places: np.ndarray
    normal: np.ndarray
    friction: np.ndarray
    depth: np.ndarray

    @classmethod
    def nothing(cls) -> Touched:
        """No contact."""
        return cls(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))


@dataclass(eq=False)
class _Looked:
    """What is kept of one set: arrays that kernels write, and by mover (n, k) who is free, -1 who is not."""

    batch: ConstraintBatch
    rough: bool
    surface: Any
    impacts: Any
    along: array
    late: array
    travel: array
    impact: array
    kind: array
    does: array
    switching: array
    gap: array
    movers: np.ndarray


@dataclass(eq=False)
class ContactWatch:
    """Takes steps of a solver, and looks at its one-sided constraints; count: of all steps so far.

    Other solvers than SolverXPBD have no branches to look at: what pushes is all that is seen of theirs.
    """

    solver: Solver

    def __post_init__(self) -> None:
        self.count = ContactCount()
        solver, model = self.solver, self.solver.model
        solver.begin()
        self._sets = [b for b in solver.batches if b.set.constraint.unilateral and b.set.count]
        self._looked = [self._prepare(solver, b) for b in self._sets] if isinstance(solver, SolverXPBD) else []
        self._contacts: Contacts | None = None
        self._steps = 0
        self._graphs: dict[tuple[int, int, float], tuple[Graph, State, State]] = {}
        own = solver.surfaces if isinstance(solver, SolverXPBD) else None
        self._surfaces = None if own is None else SurfaceWatch(own)
        self._at = {id(looked.batch): looked for looked in self._looked}
        host = model.particle_q.numpy()
        size = max(1.0, float(np.abs(host).max(initial=0.0)), float(np.abs(model.body_q.numpy()).max(initial=0.0)))
        self._rounding = float(np.finfo(host.dtype).eps) * size

    def step(self, before: State, after: State, dt: float) -> np.ndarray:
        """One step, and what each contact did in it: (contacts,) int, 0 where it did not push."""
        with recording.paused():
            if not isinstance(self.solver, SolverXPBD):
                self.solver.step(before, after, None, None, dt)
                codes = [np.sign(np.maximum(b.multiplier.numpy(), 0.0)).astype(np.int32) for b in self._sets]
                return np.concatenate(codes) if codes else np.zeros(0, np.int32)
            key = id(before), id(after), dt
            pairs = self._detected(before, dt)
            if key in self._graphs:
                self._graphs[key][0].replay()
            else:
                for state in (before, after):
                    state.carry(self.solver.history)
                self._before, self._dt, self._foreseen = before, dt, False
                with capture() as graph:
                    self.solver.watched_step(before, after, pairs, dt, self._foresee, self._look)
                    self._find_gaps()
                self._graphs[key] = graph, before, after
            return self._add_up(after.time)

    def depths(self, state: State) -> Iterator[tuple[str, str, str, np.ndarray, np.ndarray]]:
        """How deep contacts of particles with shapes that have frames are inside in a state: label of the shape, name
        of the object, what of it meets the shape, depths (n,) [m] of each such part from the surfaces, and of these
        what is more than the thickness of particles."""
        solver = self.solver
        for looked in self._looked:
            made, kinds = looked.batch.set, looked.batch.set.slots.kinds
            if not made.constraint.name.startswith("contact_") or PARTICLE not in kinds or not kinds.strip(PARTICLE):
                continue
            with recording.paused():
                solver._bodies.predict(state, state.body_f, 0.0, solver.model.motion_vector)
                solver._integrator.predict(state, 0.0)
                self._find_gaps()
            depth = -looked.gap.numpy().astype(np.float64)
            name = next((key for key in ("thickness", "other_radius") if key in made.parameters), "")
            thickness = made.parameters[name].numpy() if name else np.zeros(made.count)
            parts = made.points.numpy()[:, [j for j, kind in enumerate(kinds) if kind == PARTICLE]]
            numbers, of = parts[:, 0], PARTS[parts.shape[1]]
            for label, rows in made.index_of.items():
                rows = rows[rows >= 0]
                for group in solver.model.groups.values():
                    own = rows[(numbers[rows] >= group.start) & (numbers[rows] < group.start + group.count)]
                    if len(own):  # a shape with corners meets a triangle by each of them: the deepest counts
                        own = own[np.argsort(-depth[own], kind="stable")]
                        own = own[np.unique(parts[own], axis=0, return_index=True)[1]]
                        shape = label.removesuffix(facet_label("", group.name))
                        yield shape, group.name, of, depth[own], depth[own] - thickness[own]

    def touched(self) -> Touched:
        """Where contacts push at the end of the last step, and how hard; of shapes and points, not limits of joints."""
        model, parts = self.solver.model, []
        for looked in self._looked:
            made = looked.batch.set
            pushing = np.flatnonzero(looked.batch.multiplier.numpy() > 0)
            if not made.constraint.name.startswith("contact_") or not len(pushing):
                continue
            solver, bodies = self.solver, self.solver._bodies
            found = [zeros(made.count, model.gravity.dtype, model.device, requires_grad=False) for _ in range(3)]
            dt = solver.effective_dt(self._dt)
            at = [bodies.start, dt, solver._integrator.particle, bodies.dx, bodies.turn, looked.batch.multiplier]
            inputs = [*self._declared(looked), *at, looked.late, looked.along, looked.rough]
            with recording.paused():
                launch(make_touched(made.constraint, made.slots, model.dtype), made.count, inputs, found)
            depth = np.maximum(-looked.gap.numpy()[pushing, None], 0.0)
            parts.append([*(a.numpy()[pushing].astype(np.float64) for a in found), depth])
        if not parts:
            return Touched.nothing()
        places, normal, friction, depths = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Touched(places, normal, friction, depths[:, 0])

    # ------------------------------------------------------------------------------------------ during a step
    @staticmethod
    def _prepare(solver: SolverXPBD, batch: ConstraintBatch) -> _Looked:
        model, made = solver.model, batch.set
        real, n, rough = model.dtype, made.count, bool(made.surface)

        def new(kind: Any) -> array:
            return zeros(n, kind, model.device, requires_grad=False)

        if rough:
            t = solver.friction.touching[made.name]
            parts = t.surface, t.impacts, t.along, t.late
        else:
            none = zeros(1, model.gravity.dtype, model.device, requires_grad=False)
            one = zeros(1, real, model.device, requires_grad=False)
            surface, impacts = surface_struct(real)(), impact_struct(real)()
            for name in surface_struct(real).fields:
                setattr(surface, name, one)
            for name, kind in impact_kinds(real).items():
                setattr(impacts, name, one if kind is real else none)
            parts = surface, impacts, none, one
        movers = _movers(solver, made)
        travel, impact, gap = new(real), new(real), new(real)
        return _Looked(batch, rough, *parts, travel, impact, new(int32), new(int32), new(int32), gap, movers)

    def _declared(self, looked: _Looked) -> list[object]:
        return [looked.batch.set.points, looked.batch.placing, looked.batch.parameters]

    def _foresee(self, particle: array, batch: ConstraintBatch | None, rows: Rows | None) -> None:
        """After the prediction, which is what moves points first."""
        if self._foreseen:
            return
        self._foreseen = True
        solver, before = self.solver, self._before
        model, bodies, reference = solver.model, solver._bodies, solver._integrator.reference(before)
        for looked in self._looked:
            made = looked.batch.set
            moving = [reference, before.particle_qd, bodies.start, before.body_qd, model.gravity, self._dt]
            at = [particle, bodies.dx, bodies.turn]
            written = [looked.travel, looked.impact, looked.kind, looked.switching]
            kernel = make_foresight(made.constraint, made.slots, model.dtype, looked.rough)
            given = [*self._declared(looked), looked.surface, made.compliance, model.particle_inv_mass]
            launch(kernel, made.count, [*given, *moving, *at], written)

    def _look(self, s: Substep, batch: ConstraintBatch | None, rows: Rows | None, done: int, velocities: bool) -> None:
        """Before the projection of some constraints, or the sweep over their velocities."""
        if batch is None or rows is None:
            if self._surfaces is not None and s.pairs is not None:
                speed = s.before.particle_qd
                self._surfaces.look(s.pairs, s.reference, speed, s.dt, s.particle, done == 0, self._rounding)
            return
        looked = self._at.get(id(batch))
        if looked is None:
            return
        solver, made = self.solver, batch.set
        if made.lane:  # once in a sweep, whatever the order of near pairs in it
            if rows.begin:
                return
            rows = Rows(0, made.count, False)
        model, bodies = solver.model, solver._bodies
        first = [rows.begin, *self._declared(looked), looked.surface]
        begun = looked.rough and bool(made.slots.bodies)  # with the forces of the last step
        marks = [done + begun, self._rounding, looked.travel]
        if velocities:
            assert isinstance(solver, SolverXPBD)
            friction = solver.friction
            kernel = make_look_at_velocities(made.constraint, made.slots, model.dtype, friction.crowded)
            inputs = [rows.begin, friction.touching[made.name].contacts, friction.moving, s.dt, *marks[1:]]
            launch(kernel, rows.count, inputs, [looked.does, looked.switching])
            return
        begun_at = [s.reference, self._before.particle_qd, bodies.start, self._before.body_qd]
        values = [made.compliance, looked.impacts, model.particle_inv_mass, *begun_at, s.effective_dt]
        at = [s.particle, bodies.dx, bodies.turn, batch.multiplier, looked.along]
        kernel = make_look(made.constraint, made.slots, model.dtype, looked.rough)
        launch(kernel, rows.count, [*first, *values, *at, *marks], [looked.does, looked.switching])

    # ------------------------------------------------------------------------------------------ after a step
    def _add_up(self, time: float) -> np.ndarray:
        """Counts what was seen; the codes of all contacts."""
        codes, switching = [], []
        for looked in self._looked:
            does, bits, live = _on_host(looked.does).copy(), _on_host(looked.switching).copy(), self._live(looked)
            does[live:], bits[live:] = OPEN, 0
            if looked.batch.set.lane:
                looked.movers = _movers(self.solver, looked.batch.set)
            codes.append(np.where(does == OPEN, 0, does + _on_host(looked.kind)))
            switching.append(bits)
        self._mark_together(codes, switching)
        for looked, code, bits in zip(self._looked, codes, switching, strict=True):
            self._measure(looked, time)
            counted = (code > 0) | (bits & CLOSING > 0)
            bits = np.where(counted, bits, 0)
            self.count.pushing += int(np.count_nonzero(counted))
            switched = bits[bits != 0]
            self.count.switching += len(switched)
            for name, bit in SWITCHES.items() if len(switched) else ():
                self.count.kinds[name] += int(np.count_nonzero(switched & bit))
            for label, rows in looked.batch.set.index_of.items():
                own = code[rows[rows >= 0]]
                most, any_bits = int(own.max(initial=0)), int(np.bitwise_or.reduce(own))
                before = self.count.used.get(label, [0, 0, 0])
                seen = most > 0, any_bits & SLIPS > 0, most >= GROWS
                self.count.used[label] = [n + s for n, s in zip(before, seen, strict=True)]
        if self._surfaces is not None and self._contacts is not None and self._contacts.pairs is not None:
            self._surfaces.add_up(self._contacts.pairs, self.count, time)
        return np.concatenate(codes) if codes else np.zeros(0, np.int32)

    def _mark_together(self, codes: list[np.ndarray], switching: list[np.ndarray]) -> None:
        """Impacts of one mover within `NEAR` of a step of each other."""
        found = [
            (mover, at, number, k)
            for number, (looked, code) in enumerate(zip(self._looked, codes, strict=True))
            for k, at, mover in _impacts(looked, code)
        ]
        found.sort()
        for (mover, at, *one), (other, later, *two) in zip(found, found[1:], strict=False):
            if mover == other and later - at <= NEAR and one != two:
                for number, k in (one, two):
                    switching[number][k] |= TOGETHER

    def _detected(self, before: State, dt: float) -> PairLists | None:
        """Pairs of surfaces that collide with themselves, looked for as often as in a rollout."""
        model = self.solver.model
        if model.contact is None:
            return None
        if self._steps % model.contact.every == 0:
            self._contacts = model.collide(before, self._contacts, model.contact.every * dt)
        self._steps += 1
        return None if self._contacts is None else self._contacts.pairs

    def _live(self, looked: _Looked) -> int:
        """How many rows of a set there are: of near pairs those that the step has found."""
        made = looked.batch.set
        if not made.lane or not isinstance(self.solver, SolverXPBD) or self.solver.friction.near is None:
            return made.count
        return int(self.solver.friction.near.sets[made.name].offsets.numpy()[-1])

    def _find_gaps(self) -> None:
        """C at the end of the step, of contacts."""
        bodies, model = self.solver._bodies, self.solver.model
        for looked in self._looked:
            made = looked.batch.set
            if made.constraint.name.startswith("contact_"):
                at = [bodies.start, self.solver._integrator.particle, bodies.dx, bodies.turn]
                kernel = make_gap(made.constraint, made.slots, model.dtype)
                launch(kernel, made.count, [*self._declared(looked), *at], [looked.gap])

    def _measure(self, looked: _Looked, time: float) -> None:
        """The worst penetration, of contacts; of others the gap stays zero."""
        made, gap = looked.batch.set, _on_host(looked.gap)[: self._live(looked)]
        k = int(np.argmin(gap)) if len(gap) else 0
        if len(gap) and -gap[k] > max(self.count.worst.depth, self._rounding):
            label = next((label for label, rows in made.index_of.items() if k in rows), made.name)
            self.count.worst = Deepest(-float(gap[k]), label, self._name(looked, k), time)

    def _name(self, looked: _Looked, k: int) -> str:
        """What one of the contacts of a set is of."""
        model, numbers = self.solver.model, looked.batch.set.points.numpy()[k]
        kinds = looked.batch.set.slots.kinds or PARTICLE * len(numbers)
        names = []
        for kind, number in zip(kinds, numbers, strict=True):
            groups = model.groups if kind == PARTICLE else model.bodies
            owner = next((g for g in groups.values() if g.start <= number < g.start + g.count), None)
            if kind != WORLD and owner is not None:
                names.append(f"particle {number - owner.start} of {owner.name}" if kind == PARTICLE else owner.name)
        return " and ".join(dict.fromkeys(names)) or "the world"


def inside_at_start(solver: Solver, touching: float = 1e-9) -> Iterator[tuple[str, str, str, bool]]:
    """Where particles begin inside of shapes of bodies, or of shapes of the world that have frames: label of the shape,
    name of the object, a sentence, and whether they are deeper than their thickness."""
    sets = solver.model.constraint_sets.values()
    mixed = [s for s in sets if s.constraint.unilateral and s.count and PARTICLE in s.slots.kinds]
    if not isinstance(solver, SolverXPBD) or all(s.slots.only_particles for s in mixed):
        return
    for label, name, of, depth, beyond in ContactWatch(solver).depths(solver.model.state()):
        inside = depth[depth > touching]
        if len(inside):
            what = f"{len(inside)} {of} of `{name}` start inside the shape `{label}`, at most {inside.max():.3g} m deep"
            yield label, name, what, bool(beyond.max() > touching)


def _movers(solver: Solver, made: ConstraintSet) -> np.ndarray:
    """Of each constraint who is free, by number of particles, then bodies; -1 who is not."""
    model, n = solver.model, made.count
    movers = made.points.numpy().astype(np.int64)
    free = model.particle_inv_mass.numpy() > 0, model.body_inv_mass.numpy() > 0
    for j, kind in enumerate(made.slots.kinds or PARTICLE * made.points.shape[1]):
        column, on_particle = movers[:, j], kind == PARTICLE
        known = np.zeros(n, bool) if kind == WORLD else free[0 if on_particle else 1][column]
        movers[:, j] = np.where(known, column + (0 if on_particle else model.particle_count), -1)
    return movers


def _on_host(a: array) -> np.ndarray:
    """The elements of an array of the watch's own, which nobody else is shown and nobody writes to."""
    return a.device.numpy(a)


def _impacts(looked: _Looked, code: np.ndarray) -> Iterator[tuple[int, float, int]]:
    """Contact, time over the step, free mover, of what hits in a step."""
    at = _on_host(looked.impact)
    for k in np.flatnonzero((code > 0) & (at >= 0.0)):
        for mover in set(looked.movers[k].tolist()) - {-1}:
            yield int(k), float(at[k]), mover
