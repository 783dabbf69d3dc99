"""Rollouts of experiments, the loss that they make, and its gradient by the parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sim.core.lang.types import float64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.tape.seeds import gradients_kept
from sim.core.runtime.tape.tape import Tape
from sim.identify.data.experiments import Experiment, Markers, Simulation, TimeGrid, group_by_rollout
from sim.identify.data.registration import Alignment
from sim.identify.evaluate.alignment import InnerProblem, as_recorded
from sim.identify.evaluate.values import MaterialValues
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.base import PreparedTerm, Term, TrajectoryTerm, Values, penalties, trajectory_terms
from sim.identify.losses.terms.match import Match, PreparedMatch, compared_by
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import ParameterSpace
from sim.identify.search.results import Evaluation
from sim.model import Model, State
from sim.model.sites import point_positions
from sim.rollout import AdjointGrowth, Checkpointed, StoreAll, Trajectory, rollout
from sim.rollout.budget import gradient_bytes
from sim.rollout.trajectory import Plan
from sim.solvers import ContactCount, ContactWatch, LeapfrogStart, RestSolver, Solver, Touched, leave_to_others

Prepared = dict[tuple[str, str], PreparedTerm]
"""Terms made ready, by their names and those of experiments."""


@dataclass(frozen=True, eq=False)
class ContactLook:
    """What contacts did in a rollout of experiments: in all; step by step (steps, contacts), 0 where one did not push,
    see `ContactWatch.step`; and where they pushed at the end of each frame."""

    experiments: Sequence[Experiment]
    count: ContactCount
    does: np.ndarray
    frames: Sequence[Touched]


@dataclass(frozen=True, eq=False)
class Rolled:
    """A rollout that experiments share: its start and its motion, on the device."""

    experiments: Sequence[Experiment]
    begin: State
    made: Trajectory


class Onlooker(Protocol):
    """Watches the experiments of a search: `saw` is given them where `wants` says so."""

    def wants(self) -> bool:
        """Whether the next ones should be copied."""

    def saw(self, simulations: Sequence[Simulation]) -> None:
        """Experiments that share a rollout, as they move now."""


@dataclass(eq=False)
class Evaluator:
    """Computes losses at coordinates of `space`, and what they are made of at physical values of the parameters.

    rest: finds where experiments begin that are `relaxed`. prepared: terms that are ready, None: they are made ready
    anew for every call. leapfrog: takes velocities back to where steps have them. growth: of the gradients that were
    computed, by the first experiment of each rollout. onlooker: is shown what is simulated. rolled: what losses were
    computed on, in order.
    """

    model: Model
    solver: Solver
    strategy: StoreAll | Checkpointed
    experiments: Sequence[Experiment]
    markers: Mapping[str, Markers]
    parameters: Sequence[Parameter]
    terms: Sequence[Term]
    space: ParameterSpace
    rest: RestSolver | None = None
    prepared: Prepared | None = None
    onlooker: Onlooker | None = None
    materials: MaterialValues = field(init=False)
    leapfrog: LeapfrogStart = field(init=False)
    growth: dict[str, AdjointGrowth] = field(init=False, default_factory=dict)
    rolled: list[Rolled] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.materials = MaterialValues(self.model, self.parameters, self.experiments)
        self.leapfrog = LeapfrogStart(self.solver)

    @property
    def fitted(self) -> list[Experiment]:
        """The experiments that a term of the loss counts."""
        terms = trajectory_terms(self.terms)
        return [e for e in self.experiments if any(t.counts(e) for t in terms)]

    def groups(self, experiments: Sequence[Experiment]) -> list[list[Experiment]]:
        """Experiments that can share a rollout."""
        return group_by_rollout(experiments, own=any(p.experiments for p in self.parameters))

    def begin(self, experiment: Experiment) -> State:
        """Where an experiment begins with the values that the model has now: as its steps take it, see `leapfrog`."""
        if not experiment.relaxed:
            state = self.model.state()
            self.leapfrog.apply(state, experiment.schedule.dt)
            return state
        assert self.rest is not None, "a problem with relaxed experiments has what finds their start"
        return self.rest.state()

    def rollout(self, experiment: Experiment) -> tuple[State, Trajectory]:
        """Start and motion of the model with the values that it has now."""
        schedule, state = experiment.schedule, self.begin(experiment)
        leave_to_others(self.solver, schedule.dt)  # to the report of a run, at the values that were found
        every, strategy = schedule.substeps, self.strategy
        made = rollout(self.solver, state, schedule.steps, schedule.dt, frame_every=every, strategy=strategy)
        return state, made

    def simulate(self, values: Values, experiments: Sequence[Experiment]) -> dict[str, Simulation]:
        """Experiments by name."""
        out: dict[str, Simulation] = {}
        with self.materials.kept():
            for group in self.groups(experiments):
                self.materials.write(group[0], values)
                found = self._simulations(group, *self.rollout(group[0]))
                out |= {e.name: simulation for e, simulation in zip(group, found, strict=True)}
                if self.onlooker is not None and self.onlooker.wants():
                    self.onlooker.saw(found)
        return {e.name: out[e.name] for e in experiments}

    def simulated(self, rolled: Sequence[Rolled]) -> dict[str, Simulation]:
        """Experiments by name, as `simulate` would give them."""
        found = [s for r in rolled for s in self._simulations(r.experiments, r.begin, r.made)]
        return {simulation.experiment.name: simulation for simulation in found}

    def _simulations(self, group: Sequence[Experiment], begin: State, made: Trajectory) -> list[Simulation]:
        """Experiments that share a rollout."""
        frames, start = self._seen(made), self._seen(begin)
        return [Simulation(e, e.schedule.times, frames[0], start[0], frames[1], start[1]) for e in group]

    def states(self, values: Values, experiments: Sequence[Experiment], count: int) -> Iterator[tuple[float, State]]:
        """The length of a step [s], and the state after it, at `count` times of every experiment, the end among them;
        the solver has the multipliers of that step."""
        with self.materials.kept():
            for group in self.groups(experiments):
                self.materials.write(group[0], values)
                schedule, state, done = group[0].schedule, self.begin(group[0]), 0
                leave_to_others(self.solver, schedule.dt)
                for end in sorted({max(1, schedule.steps * (k + 1) // count) for k in range(count)}):
                    state = rollout(self.solver, state, end - done, schedule.dt).final
                    done = end
                    yield schedule.dt, state

    def start_positions(self, values: Values, experiment: Experiment) -> np.ndarray:
        """Where all points (n, 3) [m] are at the start of an experiment; nothing is simulated."""
        with self.materials.kept():
            self.materials.write(experiment, values)
            return self._points(self.begin(experiment)).numpy().astype(np.float64)

    @contextmanager
    def holding(self, values: Values, experiment: Experiment) -> Iterator[None]:
        """The model, and what the solver derives from it, have these values inside; nothing is simulated."""
        with self.materials.kept():
            self.materials.write(experiment, values)
            self.solver.begin()
            yield

    # ------------------------------------------------------------------------------------------ the loss
    def evaluate(self, x: np.ndarray, gradient: bool) -> Evaluation:
        """The loss at coordinates x (n,), a sum over terms of weight * mean over the experiments that the term counts,
        and its gradient; without `gradient` only that of penalties."""
        values = self.space.unpack(x)
        fitted, terms = self.fitted, trajectory_terms(self.terms)
        gradients = {name: np.zeros(np.shape(value)) for name, value in values.items()}
        by_term: dict[str, list[float]] = {t.name: [] for t in self.terms}
        by_experiment = {e.name: 0.0 for e in fitted}
        loss = 0.0
        with self.materials.kept(), gradients_kept(self._touched if gradient else ()):
            for group in self.groups(fitted):
                self.materials.write(group[0], values)
                pairs = [(t, e) for e in group for t in terms if t.counts(e)]
                shares = np.array([t.weight / sum(t.counts(other) for other in fitted) for t, _ in pairs])
                found = self.measure(group[0], pairs, shares if gradient else None)
                if gradient:
                    self.materials.add_gradients(group[0], gradients)
                loss += float(shares @ found)
                for (term, experiment), value in zip(pairs, found.tolist(), strict=True):
                    by_term[term.name].append(value)
                    by_experiment[experiment.name] += term.weight * value
        weighted = {t.name: t.weight * float(np.mean(by_term[t.name])) for t in terms if by_term[t.name]}
        for penalty in penalties(self.terms):
            value, slopes = penalty.value_and_grad(values)
            weighted[penalty.name] = penalty.weight * value
            loss += penalty.weight * value
            for name, slope in slopes.items():
                gradients[name] = gradients[name] + penalty.weight * slope
        in_order = {t.name: weighted[t.name] for t in self.terms if t.name in weighted}
        by_coordinates = self.space.pull_back(x, gradients)
        return Evaluation(loss, by_coordinates, gradients, in_order, by_experiment, dict(self.growth))

    def measure(
        self, experiment: Experiment, pairs: Sequence[tuple[TrajectoryTerm, Experiment]], shares: np.ndarray | None
    ) -> np.ndarray:
        """The value of each (term, experiment) on one rollout; with `shares`, their weights in the loss, the gradient
        of the weighted sum is left in those of the model."""
        ready = [self.prepare(term, experiment) for term, experiment in pairs]
        out = zeros(len(pairs), float64, self.model.device, requires_grad=shares is not None)

        def run() -> tuple[State, Trajectory]:
            begin, made = self.rollout(experiment)
            q, start = self._points(made), self._points(begin)
            recorded = {
                e.name: self._as_recorded(e, q, start) for e in {e.name: e for _, e in pairs}.values() if e.registration
            }
            for slot, (prepared, (_, e)) in enumerate(zip(ready, pairs, strict=True)):
                aligned = isinstance(prepared, PreparedMatch)
                prepared.launch(recorded.get(e.name, q) if aligned else q, out, slot)
            return begin, made

        if shares is None:
            self._look(pairs, *run())
            return out.numpy().copy()
        with self.model.gradients_of(self.materials.bound):
            with Tape() as tape:
                begin, made = run()
            self._look(pairs, begin, made)
            growth = made.adjoint_growth
            growth.quiet = True
            if pairs:
                self.growth[pairs[0][1].name] = growth
            for material in self.model.materials.values():
                if material.grad is not None:
                    material.grad.zero_()
            tape.backward(grads={out: array(shares, dtype=float64, device=self.model.device)})
        return out.numpy().copy()

    def _look(self, pairs: Sequence[tuple[TrajectoryTerm, Experiment]], begin: State, made: Trajectory) -> None:
        experiments = list({e.name: e for _, e in pairs}.values())
        self.rolled.append(Rolled(experiments, begin, made))
        if self.onlooker is not None and pairs and self.onlooker.wants():
            self.onlooker.saw(self._simulations(experiments, begin, made))

    def prepare(self, term: TrajectoryTerm, experiment: Experiment) -> PreparedTerm:
        """A term made ready for an experiment."""
        if self.prepared is None:
            return term.prepare(self.model, self.markers, experiment)
        key = term.name, experiment.name
        if key not in self.prepared:
            self.prepared[key] = term.prepare(self.model, self.markers, experiment)
        return self.prepared[key]

    def residuals(self, values: Values, simulations: Mapping[str, Simulation]) -> list[Residuals]:
        """What the loss is made of, term by term: the sum of their losses is the loss."""
        parts = {term.name: [term.residuals(values).times(term.weight)] for term in penalties(self.terms)}
        fitted = self.fitted
        found = {e.name: self.alignment(simulations[e.name]) for e in fitted if e.registration}
        for term in trajectory_terms(self.terms):
            counted = [e for e in fitted if term.counts(e)]
            parts[term.name] = [
                self.residuals_of(term, simulations[e.name], found.get(e.name)).times(term.weight / len(counted))
                for e in counted
            ]
        return [part for term in self.terms for part in parts[term.name]]

    def residuals_of(self, term: TrajectoryTerm, simulation: Simulation, found: Alignment | None) -> Residuals:
        """Those of one term, of a simulation that is aligned like this."""
        prepared = self.prepare(term, simulation.experiment)
        if found is None or not isinstance(prepared, PreparedMatch):
            return prepared.residuals(simulation.positions)
        inner = self._inner(simulation.experiment, [(prepared, term.weight)], simulation.start, simulation.positions)
        return inner.residuals(found)[0]

    def alignment(self, simulation: Simulation) -> Alignment | None:
        """That of an experiment's recording, at which the loss is least; None where it is known."""
        inner = self.inner_problem(simulation)
        return None if inner is None else inner.solve()

    def inner_problem(self, simulation: Simulation) -> InnerProblem | None:
        """Of which the alignment of an experiment's recording is the solution."""
        e = simulation.experiment
        if e.registration is None:
            return None
        return self._inner(e, self._compared(e), simulation.start, simulation.positions)

    def seen_by(self, simulation: Simulation, markers: str, lying: Alignment | None) -> np.ndarray:
        """Places (frames, markers, 3) of markers as a recording that lies like this has them."""
        e, places = simulation.experiment, self.markers[markers]
        if lying is None or e.registration is None:
            return places.at(simulation.positions)
        path = np.concatenate([places.at(simulation.start)[None], places.at(simulation.positions)])
        return InnerProblem(e.registration, e.schedule, [], [path]).seen(lying)[0][0]

    def _compared(self, e: Experiment) -> list[tuple[PreparedMatch, float]]:
        """What the alignment of an experiment is found by, with its weight: what the loss compares, else all there
        is."""
        matching = [t for t in trajectory_terms(self.terms) if isinstance(t, Match) and t.is_defined_for(e)]
        terms = [t for t in matching if t.counts(e)] or matching or [compared_by([], e, name) for name in e.targets]
        found = [(self.prepare(t, e), t.weight) for t in terms]
        return [(prepared, weight) for prepared, weight in found if isinstance(prepared, PreparedMatch)]

    def _inner(
        self, e: Experiment, parts: Sequence[tuple[PreparedMatch, float]], start: np.ndarray, positions: np.ndarray
    ) -> InnerProblem:
        assert e.registration is not None
        paths = [np.concatenate([p.markers.at(start)[None], p.markers.at(positions)]) for p, _ in parts]
        return InnerProblem(e.registration, e.schedule, parts, paths)

    def _as_recorded(self, e: Experiment, q: array, start: array) -> array:
        """All points (frames, points) as the recording of an experiment sees them."""
        assert e.registration is not None
        at_start, positions = (a.device.numpy(a).astype(np.float64) for a in (start, q))
        found = self._inner(e, self._compared(e), at_start, positions).solve()
        return as_recorded(e.registration, e.schedule, found, q, start)

    def compare(self, simulation: Simulation) -> float | None:
        """The loss of one simulation, counted or not; None where no term can be computed for it."""
        e = simulation.experiment
        terms = [t for t in trajectory_terms(self.terms) if t.is_defined_for(e)]
        if not terms:
            return None
        real, device = self.model.particle_q.dtype, self.model.device
        q = seen = array(simulation.positions, dtype=real, device=device)
        if e.registration is not None:
            seen = self._as_recorded(e, q, array(simulation.start, dtype=real, device=device))
        out = zeros(len(terms), float64, device)
        for slot, term in enumerate(terms):
            prepared = self.prepare(term, e)
            prepared.launch(seen if isinstance(prepared, PreparedMatch) else q, out, slot)
        return float(np.array([t.weight for t in terms]) @ out.numpy())

    def _points(self, of: State | Trajectory) -> array:
        """Positions of particles and sites."""
        return point_positions(self.model, of.particle_q, of.body_q)

    def _seen(self, of: State | Trajectory) -> tuple[np.ndarray, np.ndarray]:
        """Positions of particles and sites, and poses of bodies."""
        q, body_q = self._points(of), of.body_q
        return q.numpy().astype(np.float64), body_q.numpy().astype(np.float64)

    @property
    def _touched(self) -> list[array]:
        """Arrays of the model whose gradients a backward changes."""
        return [*self.model.materials.values(), *self.solver.inputs, *self.solver.scratch]

    # ------------------------------------------------------------------------------------------ about rollouts
    def contacts(self, values: Values, experiments: Sequence[Experiment]) -> Iterator[ContactLook]:
        """For each rollout of experiments what its contacts did; nothing where nothing in the model is one-sided."""
        sets = self.model.constraint_sets.values()
        if self.model.contact is None and not any(s.constraint.unilateral and s.count for s in sets):
            return
        with self.materials.kept():
            for group in self.groups(experiments):
                self.materials.write(group[0], values)
                schedule, watch = group[0].schedule, ContactWatch(self.solver)
                a, b = self.begin(group[0]), self.model.state()
                does, frames = [], []
                for step in range(1, schedule.steps + 1):
                    does.append(watch.step(a, b, schedule.dt))
                    a, b = b, a
                    if step % schedule.substeps == 0:
                        frames.append(watch.touched())
                yield ContactLook(group, watch.count, np.array(does), frames)

    def gradient_memory(self, schedule: TimeGrid) -> float:
        """Bytes that a rollout needs for its gradient."""
        plan = Plan(self.solver, self.model.state(), schedule.steps, schedule.dt, None, schedule.substeps)
        every = self.strategy.schedule(plan).every if isinstance(self.strategy, Checkpointed) else plan.steps
        return gradient_bytes(plan, every)
