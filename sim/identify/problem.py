"""`Problem`: a model, its experiments, its parameters and its loss, as one function of a vector of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sim.core.lang.types import float64
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.tape.seeds import gradients_kept
from sim.core.runtime.tape.tape import Tape
from sim.identify.data.expectations import Expectation
from sim.identify.data.experiments import Experiment, Markers, Simulation, TimeGrid, group_by_rollout
from sim.identify.data.measures import Measure
from sim.identify.losses.jacobian import linearise
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.terms.base import PreparedTerm, Term, TrajectoryTerm, penalties, trajectory_terms
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import ParameterSpace
from sim.identify.search.horizon import Horizon
from sim.identify.search.method import Method
from sim.identify.search.results import Evaluation, Result, short
from sim.identify.search.search import Search, Stage, search
from sim.model import Model
from sim.rollout import Checkpointed, StoreAll, Trajectory, rollout
from sim.rollout.budget import gradient_bytes
from sim.rollout.trajectory import Plan
from sim.solvers import Solver

REMEMBERED = 64
"""Evaluations that are kept during a search: more than a line search makes between two log entries."""


_locks: WeakKeyDictionary[Model, RLock] = WeakKeyDictionary()
"""One for each model: problems write their values to it, and threads take turns."""


@dataclass(frozen=True)
class Description:
    """What people read about a problem, and what a run does besides searching.

    resolved: the scene as text, with all defaults; record_every: frames between recorded ones.  source: the scene's
    file; files: those that it names, as they are written there -> where they are.
    """

    name: str = "problem"
    about: str = ""
    resolved: str = ""
    record_every: int = 1
    report: bool = True
    notes: tuple[str, ...] = ()
    source: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)


@dataclass(eq=False)
class _Memory:
    """What a search need not compute again: evaluations by coordinates, terms made ready by their names and those of
    experiments."""

    evaluations: dict[bytes, Evaluation] = field(default_factory=dict)
    prepared: dict[tuple[str, str], PreparedTerm] = field(default_factory=dict)


@dataclass(eq=False)
class Problem:
    """Made by `scene.build()`, or by hand from plain pieces.

    value_and_grad takes and gives NumPy, in the coordinates of the optimiser (see `space`): it suits any optimiser.
    """

    model: Model
    solver: Solver
    experiments: list[Experiment]
    markers: dict[str, Markers] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    strategy: StoreAll | Checkpointed = field(default_factory=StoreAll)
    method: Method = field(default_factory=Method)
    expectations: list[Expectation] = field(default_factory=list)
    description: Description = field(default_factory=Description)
    measures: list[Measure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.space = ParameterSpace(
            {p.name: p.transform for p in self.parameters}, {p.name: p.start for p in self.parameters}
        )
        self.method = self.method.chosen(self.terms, self.space.size)
        # What a value is before any experiment or parameter changes it.
        self._base: dict[str, np.ndarray] = {}
        self._remembered: _Memory | None = None

    def __repr__(self) -> str:
        rows = [
            ("model", repr(self.model)),
            ("solver", type(self.solver).__name__),
            *(("experiment", repr(e)) for e in self.experiments),
        ]
        for p in self.parameters:
            low, high = ("open" if end is None else f"{end:g}" for end in p.bounds)
            rows.append(
                (
                    "parameter",
                    f"{p.name} = {short(p.start)} {p.unit}".strip() + f", {low} to {high}, transform {p.kind}",
                )
            )
        rows += [("loss", f"{t.name}, weight {t.weight:g}") for t in self.terms]
        if self.parameters:
            rows.append(("search", f"{self.method.name}, at most {self.method.limit} iterations"))
        return "\n".join([f"Problem {self.description.name}", *(f"  {word:<11} {text}" for word, text in rows)])

    # ------------------------------------------------------------------------------------------ what it is
    @property
    def start(self) -> np.ndarray:
        """Coordinates (n,) of the start."""
        return self.space.start.copy()

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of the coordinates, each (n,)."""
        return self.space.bounds()

    def physical(self, x: np.ndarray | None = None) -> dict[str, Any]:
        """Physical values by name: numbers, or arrays where a parameter has several."""
        values = self.space.unpack(self.start if x is None else np.asarray(x, dtype=np.float64))
        return {name: float(v) if v.ndim == 0 else v for name, v in values.items()}

    @property
    def fitted(self) -> list[Experiment]:
        """The experiments that a term of the loss counts."""
        terms = trajectory_terms(self.terms)
        return [e for e in self.experiments if any(t.counts(e) for t in terms)]

    # ------------------------------------------------------------------------------------------ the function
    def value_and_grad(self, x: Any) -> tuple[float, np.ndarray]:
        """Loss and gradient (n,) at coordinates x (n,).  Raises NonFiniteState where the simulation breaks down."""
        found = self.evaluate(x)
        return found.loss, found.gradient.copy()

    def evaluate(self, x: Any) -> Evaluation:
        """As `value_and_grad`, with everything that is known about it."""
        x = np.array(x, dtype=np.float64)
        if self._remembered is None:
            return self._evaluate(x, gradient=True)
        known, key = self._remembered.evaluations, x.tobytes()
        if key not in known:
            if len(known) >= REMEMBERED:
                del known[next(iter(known))]
            known[key] = self._evaluate(x, gradient=True)
        return known[key]

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """Inside, nothing is computed twice at the same coordinates: for a search, which asks for value, terms and
        gradient at different times.

        Model, solver, data, terms and weights must stay as they are until the block ends.  Outside, every call looks at
        them anew.
        """
        before, self._remembered = self._remembered, self._remembered or _Memory()
        try:
            yield
        finally:
            self._remembered = before

    def value(self, x: Any) -> float:
        """The loss alone: no tape, and less than half of the time."""
        return self._evaluate(np.array(x, dtype=np.float64), gradient=False).loss

    def simulate(self, x: Any = None, experiments: Sequence[Experiment] | None = None) -> dict[str, Simulation]:
        """Experiments (default: every one, fitted or predicted) at coordinates x (default: the start)."""
        values = self.space.unpack(self.start if x is None else np.asarray(x, dtype=np.float64))
        wanted = self.experiments if experiments is None else list(experiments)
        out = {}
        with self._values_kept():
            for group in self._groups(wanted):
                self._write(group[0], values)
                positions = self._rollout(group[0].schedule).particle_q.numpy()
                start = self.model.particle_q.numpy().astype(np.float64)
                for e in group:
                    out[e.name] = Simulation(e, e.schedule.times, np.array(positions, dtype=np.float64), start)
        return {e.name: out[e.name] for e in wanted}

    def start_positions(self, experiment: Experiment) -> np.ndarray:
        """Where all points (n, 3) [m] are at the start of an experiment, with the parameters at theirs; nothing is
        simulated."""
        with self._values_kept():
            self._write(experiment, self.space.unpack(self.start))
            return self.model.state().particle_q.numpy().astype(np.float64)

    def residuals(self, x: Any, simulations: Mapping[str, Simulation]) -> list[Residuals]:
        """What the loss at x is made of: the sum of their losses is the loss.  simulations: of the fitted
        experiments."""
        values = self.space.unpack(np.asarray(x, dtype=np.float64))
        parts = {term.name: [term.residuals(values).times(term.weight)] for term in penalties(self.terms)}
        for term in trajectory_terms(self.terms):
            counted = [e for e in self.fitted if term.counts(e)]
            parts[term.name] = [
                self._prepare(term, e).residuals(simulations[e.name].positions).times(term.weight / len(counted))
                for e in counted
            ]
        return [part for term in self.terms for part in parts[term.name]]

    def reaches(self, i: int, experiment: Experiment) -> bool:
        """Whether coordinate i can change an experiment: not that of a parameter with a value for each, in another
        one."""
        p = next(p for p in self.parameters if self.space.slices[p.name].start <= i < self.space.slices[p.name].stop)
        if not p.experiments:
            return True
        inside = i - self.space.slices[p.name].start
        return p.experiments[inside // (p.start.size // len(p.experiments))] == experiment.name

    def compare(self, simulation: Simulation) -> float | None:
        """The loss of a simulation against its recording, counted or not; None where there is nothing to compare."""
        e = simulation.experiment
        terms = [t for t in trajectory_terms(self.terms) if t.is_defined_for(e)]
        if not terms:
            return None
        q = array(simulation.positions, dtype=self.model.particle_q.dtype, device=self.model.device)
        out = zeros(len(terms), float64, self.model.device)
        for slot, term in enumerate(terms):
            self._prepare(term, e).launch(q, out, slot)
        return float(np.array([t.weight for t in terms]) @ out.numpy())

    def gauss_newton(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """J' W J (n, n) and -J' W r (n,) of the residuals at coordinates x: half the second and first derivative of the
        loss."""
        return linearise(self, x).step_matrix, -0.5 * self.evaluate(x).gradient  # exact, where the differences are not

    def measure(self, simulation: Simulation) -> dict[str, dict[str, Any]]:
        """Every measure of a simulation and of its recording: {simulated, measured, error: relative, unit}."""
        out: dict[str, dict[str, Any]] = {}
        for m in self.measures:
            places, target = self.markers[m.markers], simulation.experiment.targets.get(m.markers)
            simulated = m.take(simulation.times, places.at(simulation.positions), places.at(simulation.start))
            measured = None
            if target is not None and target.start is not None:
                measured = m.take(simulation.times, target.positions, target.start)
            error = (simulated - measured) / abs(measured) if simulated is not None and measured else None
            out[m.name] = {"simulated": simulated, "measured": measured, "error": error, "unit": m.unit}
        return out

    def measured(self, simulations: Mapping[str, Simulation]) -> dict[str, float]:
        """`experiment.measure` -> what the simulation gives; nan where it cannot be told."""
        return {
            f"{name}.{key}": np.nan if found["simulated"] is None else found["simulated"]
            for name, simulation in simulations.items()
            for key, found in self.measure(simulation).items()
        }

    def contact_patterns(self, x: Any) -> list[np.ndarray]:
        """Which contacts push, in every step of every fitted rollout: (steps, contacts) bool each."""
        values = self.space.unpack(np.asarray(x, dtype=np.float64))
        touching = [name for name, s in self.model.constraint_sets.items() if s.constraint.unilateral]
        patterns = []
        with self._values_kept():
            for group in self._groups(self.fitted) if touching else []:
                self._write(group[0], values)
                schedule, rows = group[0].schedule, []
                self.model.refresh(force=True)
                a, b = self.model.state(), self.model.state()
                for _ in range(schedule.steps):
                    self.solver.step(a, b, None, None, schedule.dt)
                    rows.append(np.concatenate([self.solver.multipliers(name).numpy() > 0 for name in touching]))
                    a, b = b, a
                patterns.append(np.array(rows))
        return patterns

    # ------------------------------------------------------------------------------------------ the search
    def optimize(
        self,
        iterations: int | None = None,
        *,
        log: Callable[[dict[str, Any]], Any] | None = None,
        save: Callable[[dict[str, Any]], Any] | None = None,
        resume_state: Mapping[str, Any] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Result:
        """Search as the scene asks.  The arguments are those of `sim.identify.search.search.search`.

        After it the model holds the best values.
        """
        starts = self.space.starts(self.method.starts, self.method.seed)
        problems = [self.up_to(h) for h in self.method.horizons]
        stages = [
            Stage(h.label, p.value_and_grad, p.gauss_newton, p.describe)
            for h, p in zip(self.method.horizons, problems, strict=True)
        ]
        with ExitStack() as memories:
            for p in {id(p): p for p in (*problems, self)}.values():
                memories.enter_context(p.remembering())
            found = search(
                stages,
                starts,
                self.bounds,
                self.method,
                iterations=iterations,
                log=log,
                save=save,
                resume_state=resume_state,
                should_stop=should_stop,
            )
            return self.result(found)

    def up_to(self, horizon: Horizon) -> Problem:
        """The problem on the first part of every experiment; itself where that is all of them."""
        if all(horizon.frames(e.schedule) == e.schedule.frames for e in self.experiments):
            return self
        return replace(
            self,
            experiments=[horizon.of(e) for e in self.experiments],
            terms=horizon.terms(self.terms, self.experiments),
        )

    def result(self, found: Search) -> Result:
        """The outcome of a search in physical terms; writes the best values into the model."""
        last = found.last
        whole = len(found.stages) == len(self.method.horizons)
        try:
            best = self.evaluate(last.x) if np.isfinite(last.loss) else None
        except FloatingPointError:
            if whole:
                raise
            best = None  # interrupted on a short horizon; beyond it the simulation breaks down
        if best is None:
            empty = {name: np.full(shape, np.nan) for name, shape in self.space.shapes.items()}
            return Result(self.physical(last.x), np.nan, {}, {}, empty, last, np.nan, found.chosen, found.stages)
        initial = self._initial_loss(found)
        with self._values_kept():
            values = self._values(self.space.unpack(last.x))
        for path, value in values.items():
            self.model[path].assign(value)
        return Result(
            self.physical(last.x),
            best.loss,
            best.terms,
            best.experiments,
            best.physical,
            last,
            initial,
            found.chosen,
            found.stages,
        )

    def _initial_loss(self, found: Search) -> float:
        """The loss at the stated start, which a search of several starts or horizons may not have met."""
        if len(self.method.horizons) > 1:
            try:
                return self.value(self.start)
            except FloatingPointError:
                return float("nan")
        return found.last.initial_loss if found.chosen is None else float(found.chosen.losses[0])

    def describe(self, x: np.ndarray) -> dict[str, Any]:
        """What a log entry says about a point: physical parameters and the terms of the loss."""
        return {"parameters": self.physical(x), "terms": self.evaluate(x).terms}

    def gradient_memory(self) -> float:
        """Bytes that the largest rollout needs for its gradient."""
        return max((self._memory(e.schedule) for e in self.fitted or self.experiments), default=0.0)

    # ------------------------------------------------------------------------------------------ inside
    def _evaluate(self, x: np.ndarray, gradient: bool) -> Evaluation:
        values = self.space.unpack(x)
        by_value = {name: np.zeros(shape) for name, shape in self.space.shapes.items()}
        sums: dict[str, list[float]] = {t.name: [] for t in self.terms}
        of_experiment = {e.name: 0.0 for e in self.fitted}
        loss = 0.0
        with self._values_kept(), gradients_kept(self._touched if gradient else ()):
            for group in self._groups(self.fitted):
                self._write(group[0], values)
                pairs = [(t, e) for e in group for t in trajectory_terms(self.terms) if t.counts(e)]
                shares = np.array([t.weight / sum(t.counts(other) for other in self.fitted) for t, _ in pairs])
                found = self._measure(group[0].schedule, pairs, shares if gradient else None)
                if gradient:
                    self._collect(group[0], by_value)
                loss += float(shares @ found)
                for (term, experiment), value in zip(pairs, found.tolist(), strict=True):
                    sums[term.name].append(value)
                    of_experiment[experiment.name] += term.weight * value
        terms = {t.name: t.weight * float(np.mean(sums[t.name])) for t in self.terms if sums[t.name]}
        for penalty in penalties(self.terms):
            value, slopes = penalty.value_and_grad(values)
            terms[penalty.name] = penalty.weight * value
            loss += penalty.weight * value
            for name, slope in slopes.items():
                by_value[name] = by_value[name] + penalty.weight * slope
        pulled = self.space.pull_back(x, by_value)
        return Evaluation(
            loss, pulled, by_value, {t.name: terms[t.name] for t in self.terms if t.name in terms}, of_experiment
        )

    def _measure(
        self, schedule: TimeGrid, pairs: Sequence[tuple[TrajectoryTerm, Experiment]], shares: np.ndarray | None
    ) -> np.ndarray:
        """The value of each (term, experiment) on one rollout; with `shares` the gradient of their sum as well."""
        wanted = [self._prepare(term, experiment) for term, experiment in pairs]
        out = zeros(len(pairs), float64, self.model.device, requires_grad=shares is not None)

        def run() -> None:
            q = self._rollout(schedule).particle_q
            for slot, measured in enumerate(wanted):
                measured.launch(q, out, slot)

        if shares is None:
            run()
        else:
            with self.model.gradients_of({b.path for p in self.parameters for b in p.bindings}):
                with Tape() as tape:
                    run()
                for grad in self._gradients():
                    grad.zero_()
                tape.backward(grads={out: array(shares, dtype=float64, device=self.model.device)})
        return out.numpy().copy()

    def _prepare(self, term: TrajectoryTerm, experiment: Experiment) -> PreparedTerm:
        if self._remembered is None:
            return term.prepare(self.model, self.markers, experiment)
        prepared, key = self._remembered.prepared, (term.name, experiment.name)
        if key not in prepared:
            prepared[key] = term.prepare(self.model, self.markers, experiment)
        return prepared[key]

    def _rollout(self, schedule: TimeGrid) -> Trajectory:
        return rollout(
            self.solver,
            self.model.state(),
            schedule.steps,
            schedule.dt,
            frame_every=schedule.substeps,
            strategy=self.strategy,
        )

    def _groups(self, experiments: Sequence[Experiment]) -> list[list[Experiment]]:
        return group_by_rollout(experiments, own=any(p.experiments for p in self.parameters))

    def _values(self, values: Mapping[str, np.ndarray], experiment: Experiment | None = None) -> dict[str, np.ndarray]:
        """Material path -> value in the array's shape, of what the experiment sets and the parameters reach.

        Without an experiment what differs from one to another is left out.
        """
        out = {} if experiment is None else dict(experiment.settings)
        for p in self.parameters:
            if p.experiments and experiment is None:
                continue
            value = values[p.name] if experiment is None else p.of(values[p.name], experiment.name)
            for b in p.bindings:
                out[b.path] = b.scatter(value, out.get(b.path, self._base[b.path]))
        return out

    def _write(self, experiment: Experiment, values: Mapping[str, np.ndarray]) -> None:
        """The model's values for one experiment."""
        for path, value in {**self._base, **self._values(values, experiment)}.items():
            self.model[path].assign(value)

    @contextmanager
    def _values_kept(self) -> Iterator[None]:
        """Inside, experiments and parameters may be written to the model, which has its values again afterwards,
        however the block ends.

        No other thread does so at the same time.
        """
        touched = {path for e in self.experiments for path in e.settings} | {
            b.path for p in self.parameters for b in p.bindings
        }
        with _locks.setdefault(self.model, RLock()):
            self._base = {
                path: np.array(a.device.numpy(a), dtype=np.float64)
                for path in sorted(touched)
                for a in (self.model[path],)
            }
            try:
                yield
            finally:
                for path, value in self._base.items():
                    self.model[path].assign(value)

    @property
    def _touched(self) -> list[array]:
        """Arrays of the model whose gradients a backward changes."""
        return [*self.model.materials.values(), *self.solver.inputs, *self.solver.scratch]

    def _gradients(self) -> list[array]:
        """Of the material values, which backward adds to."""
        return [a.grad for a in self.model.materials.values() if a.grad is not None]

    def _collect(self, experiment: Experiment, by_value: dict[str, np.ndarray]) -> None:
        """Adds what backward left in the gradients of the material values."""
        for p in self.parameters:
            target = p.of(by_value[p.name], experiment.name)
            for b in p.bindings:
                gradient = self.model[b.path].grad
                if gradient is None:
                    raise ValueError(f"{b.path!r} has no gradient; make the model with requires_grad=True")
                total = b.pull_back(gradient.numpy().astype(np.float64), target.shape)
                if p.experiments:
                    by_value[p.name][p.experiments.index(experiment.name)] += total
                else:
                    by_value[p.name] = by_value[p.name] + total

    def _memory(self, schedule: TimeGrid) -> float:
        plan = Plan(self.solver, self.model.state(), schedule.steps, schedule.dt, None, schedule.substeps)
        every = self.strategy.schedule(plan).every if isinstance(self.strategy, Checkpointed) else plan.steps
        return gradient_bytes(plan, every)
