"""`Problem`: a model, its experiments, its parameters and its loss, as one function of a vector of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.core.lang.errors import SimError
from sim.display import html_table
from sim.identify.data.expectations import Expectation
from sim.identify.data.experiments import Experiment, Markers, Simulation
from sim.identify.data.measures import Measure
from sim.identify.data.registration import Alignment
from sim.identify.evaluate.alignment import InnerProblem
from sim.identify.evaluate.evaluator import ContactLook, Evaluator, Onlooker, Prepared, Rolled
from sim.identify.losses.jacobian import Linearised, linearise
from sim.identify.losses.residuals import Residuals
from sim.identify.losses.secants import by_secants, has_switches
from sim.identify.losses.terms.base import Term, TrajectoryTerm
from sim.identify.parameters.parameters import Parameter
from sim.identify.parameters.transforms import ParameterSpace
from sim.identify.search.horizon import Horizon
from sim.identify.search.method import Method
from sim.identify.search.results import Evaluation, Result, short
from sim.identify.search.search import Search, Stage, search
from sim.model import Model, State
from sim.rollout import Checkpointed, StoreAll
from sim.rollout.growth import warn_user
from sim.solvers import RestSolver, Solver

REMEMBERED = 64
"""Evaluations that are kept during a search: more than a line search makes between two log entries."""


@dataclass(frozen=True)
class Description:
    """What people read about a problem, and what a run does besides searching.

    resolved: the scene as text, with all defaults; record_every: frames between recorded ones.  source: the scene's
    file; files: those that it names, as they are written there -> where they are.  causes: those of the numerical error
    that a run estimates, of `step`, `iterations`, `mesh`.  recordings: place in the scene -> how that file was read.
    """

    name: str = "problem"
    about: str = ""
    resolved: str = ""
    record_every: int = 1
    report: bool = True
    notes: tuple[str, ...] = ()
    source: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    causes: tuple[str, ...] = ("step", "iterations", "mesh")
    recordings: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class _Memory:
    """What a search need not compute again: evaluations by coordinates, the last of a loss alone and the last
    derivatives and secants of residuals, the rollouts of the last evaluation, terms made ready."""

    evaluations: dict[bytes, Evaluation] = field(default_factory=dict)
    value: tuple[bytes, Evaluation] | None = None
    changes: dict[Callable[..., Linearised], tuple[bytes, Linearised]] = field(default_factory=dict)
    last: tuple[bytes, list[Rolled]] = field(default_factory=lambda: (b"", []))
    prepared: Prepared = field(default_factory=dict)


class NotRefined(SimError, ValueError):
    """A mesh that cannot be made finer: says why not."""


@dataclass(eq=False)
class Problem:
    """Made by `scene.build()`, or by hand from plain pieces.

    value_and_grad takes and gives NumPy, in the coordinates of the optimiser (see `space`): it suits any optimiser.
    reference: another solver, with which a run simulates its result once more.
    rest: finds where experiments begin that are `relaxed`.
    finer_mesh: makes the same problem on a mesh of half the edge length, markers at their material places; raises
    NotRefined where that cannot be.  None: nobody knows how.
    onlooker: is shown what is simulated.
    inside: shape, object -> a sentence, where points of the object begin inside of the shape with the values that the
    model has now.
    """

    model: Model
    solver: Solver
    experiments: list[Experiment]
    markers: dict[str, Markers] = field(default_factory=dict)
    sought: list[Parameter] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    strategy: StoreAll | Checkpointed = field(default_factory=StoreAll)
    method: Method = field(default_factory=Method)
    expectations: list[Expectation] = field(default_factory=list)
    description: Description = field(default_factory=Description)
    measures: list[Measure] = field(default_factory=list)
    reference: Solver | None = None
    rest: RestSolver | None = None
    finer_mesh: Callable[[], Problem] | None = None
    onlooker: Onlooker | None = None
    inside: Callable[[], dict[tuple[str, str], str]] = dict

    def __post_init__(self) -> None:
        self.space = ParameterSpace({p.name: p.transform for p in self.sought}, {p.name: p.start for p in self.sought})
        self.method = self.method.chosen(self.terms, sum(p.reach for p in self.sought))
        if any(target.estimated for e in self.experiments for target in e.targets.values()):
            self.method = replace(self.method, objective="likelihood")
        self._remembered: _Memory | None = None
        self._told_of_chaos = False

    def _rows(self) -> list[tuple[str, str]]:
        """What it consists of, in words."""
        rows = [
            ("model", repr(self.model)),
            ("solver", type(self.solver).__name__),
            *(("experiment", repr(e)) for e in self.experiments),
        ]
        for p in self.sought:
            low, high = ("open" if end is None else f"{end:g}" for end in p.bounds)
            value = f"{p.name} = {short(p.start)} {p.unit}".strip()
            rows.append(("parameter", f"{value}, {low} to {high}, transform {p.transform.name}"))
        rows += [("loss", f"{t.name}, weight {t.weight:g}") for t in self.terms]
        if self.sought:
            rows.append(("search", f"{self.method.name}, at most {self.method.limit} iterations"))
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        return "\n".join([f"Problem {self.description.name}", *(f"  {word:<11} {text}" for word, text in rows)])

    def _repr_html_(self) -> str:
        """In a notebook: the same as a table."""
        return html_table(f"Problem {self.description.name}", self._rows())

    # ------------------------------------------------------------------------------------------ what it is
    @property
    def parameters(self) -> list[str]:
        """Names of what is sought."""
        return [p.name for p in self.sought]

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
        values = self._values(self.start if x is None else x)
        return {name: float(v) if v.ndim == 0 else v for name, v in values.items()}

    @property
    def fitted(self) -> list[Experiment]:
        """The experiments that a term of the loss counts."""
        return self._evaluator.fitted

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
        """Inside, nothing is computed twice at the same coordinates: a search asks for value, terms, gradient in turn.

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
        values = self._values(self.start if x is None else x)
        return self._evaluator.simulate(values, self.experiments if experiments is None else experiments)

    def states(self, x: Any, experiments: Sequence[Experiment], count: int) -> Iterator[tuple[float, State]]:
        """Steps of experiments at coordinates x, `count` of each, the last among them: their length [s], the state
        after it; the solver holds its multipliers."""
        return self._evaluator.states(self._values(x), experiments, count)

    def holding(self, x: Any, experiment: Experiment) -> AbstractContextManager[None]:
        """Inside, model and solver have the values of an experiment at coordinates x; nothing is simulated."""
        return self._evaluator.holding(self._values(x), experiment)

    def start_positions(self, experiment: Experiment) -> np.ndarray:
        """Where all points (n, 3) [m] are at the start of an experiment, parameters at theirs; nothing is simulated.

        Raises NoStateAtRest."""
        return self._evaluator.start_positions(self._values(self.start), experiment)

    def residuals(self, x: Any, simulations: Mapping[str, Simulation]) -> list[Residuals]:
        """What the loss at x is made of: it is the sum of their losses.  simulations: of the fitted experiments."""
        return self._evaluator.residuals(self._values(x), simulations)

    def reaches(self, i: int, experiment: Experiment) -> bool:
        """Whether coordinate i can change an experiment: not if it is a parameter's value for another one."""
        p = next(p for p in self.sought if self.space.slices[p.name].start <= i < self.space.slices[p.name].stop)
        if not p.experiments:
            return True
        inside = i - self.space.slices[p.name].start
        return p.experiments[inside // (p.start.size // len(p.experiments))] == experiment.name

    def residuals_of(self, term: TrajectoryTerm, simulation: Simulation, found: Alignment | None) -> Residuals:
        """Those of one term, counted or not, with an alignment of the recording (None: it is known)."""
        return self._evaluator.residuals_of(term, simulation, found)

    def alignment(self, simulation: Simulation) -> Alignment | None:
        """How an experiment's recording lies beside a simulation: where the loss is least; None where it is known."""
        return self._evaluator.alignment(simulation)

    def inner_problem(self, simulation: Simulation) -> InnerProblem | None:
        """Whose solution that is."""
        return self._evaluator.inner_problem(simulation)

    def seen_by(self, simulation: Simulation, markers: str, lying: Alignment | None) -> np.ndarray:
        """Places (frames, markers, 3) [m] of markers as a recording that lies like this has them."""
        return self._evaluator.seen_by(simulation, markers, lying)

    def placed(self, simulation: Simulation) -> Experiment:
        """The experiment with its recording in the clock and frame of a simulation, as people want to see it."""
        e, found = simulation.experiment, self.alignment(simulation)
        if e.registration is None or found is None:
            return e
        targets = {}
        for name, target in e.targets.items():
            start = np.full(target.positions.shape[1:], np.nan) if target.start is None else target.start
            path = np.concatenate([start[None], target.positions])
            seen = e.registration.in_model(path, e.schedule.fps, found)
            targets[name] = replace(target, start=seen[0], positions=seen[1:])
        return replace(e, targets=targets, registration=None)

    def compare(self, simulation: Simulation) -> float | None:
        """The loss of a simulation against its recording, counted or not; None where there is nothing to compare."""
        return self._evaluator.compare(simulation)

    def gauss_newton(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """J' W J (n, n), -J' W r (n,) of the residuals at x: half the second and first derivative of the loss."""
        gradient = self.evaluate(x).gradient  # exact, where the differences are not
        return self._linearised(x).step_matrix, -0.5 * gradient

    def approximate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss, as `value`, and gradient (n,) by differences: of use far from the minimum, and cheaper.

        Raises FloatingPointError where a rollout breaks down."""
        return self._loss_alone(x), -2.0 * self._linearised(x).descent

    def approximate_gauss_newton(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `gauss_newton`, of differences alone."""
        found = self._linearised(x)
        return found.step_matrix, found.descent

    def secant(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """As `approximate`, the gradient by secants of a wide stretch: the slope of what is rough."""
        return self._loss_alone(x), -2.0 * self._by_secants(x).descent

    def secant_gauss_newton(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `approximate_gauss_newton`, of secants."""
        found = self._by_secants(x)
        return found.step_matrix, found.descent

    def _loss_alone(self, x: np.ndarray) -> float:
        x = np.array(x, dtype=np.float64)
        found = self._evaluate(x, gradient=False)
        if self._remembered is not None:
            self._remembered.value = x.tobytes(), found
        return found.loss

    def _linearised(self, x: np.ndarray) -> Linearised:
        """Residuals at x and their derivatives."""
        return self._changes(linearise, x)

    def _by_secants(self, x: np.ndarray) -> Linearised:
        """Residuals at x and secants."""
        return self._changes(by_secants, x)

    def _changes(self, by: Callable[..., Linearised], x: np.ndarray) -> Linearised:
        """Residuals at x and how they change, by `linearise` or `by_secants`: the last of each is remembered."""
        key, memory = np.array(x, dtype=np.float64).tobytes(), self._remembered
        if memory is None:
            return by(self, x)
        known = memory.changes.get(by)
        if known is None or known[0] != key:
            at_x = self._evaluator.simulated(memory.last[1]) if memory.last[0] == key else None
            known = memory.changes[by] = key, by(self, x, at_x)
        return known[1]

    def measure(self, simulation: Simulation) -> dict[str, dict[str, Any]]:
        """Every measure of a simulation and of its recording: {simulated, measured, error: relative, unit}."""
        out: dict[str, dict[str, Any]] = {}
        targets, found = self.placed(simulation).targets, self._simulated(simulation)
        for m in self.measures:
            simulated, measured, target = found[m.name], None, targets.get(m.markers)
            if target is not None and target.start is not None:
                measured = m.take(simulation.times, target.positions, target.start)
            error = (simulated - measured) / abs(measured) if simulated is not None and measured else None
            out[m.name] = {"simulated": simulated, "measured": measured, "error": error, "unit": m.unit}
        return out

    def _simulated(self, s: Simulation) -> dict[str, float | None]:
        """Every measure of a simulation, None where it cannot be told."""
        watched = {m.markers: self.markers[m.markers] for m in self.measures}
        paths = {name: (places.at(s.positions), places.at(s.start)) for name, places in watched.items()}
        return {m.name: m.take(s.times, *paths[m.markers]) for m in self.measures}

    def measured(self, simulations: Mapping[str, Simulation]) -> dict[str, float]:
        """`experiment.measure` -> what the simulation gives, nan where it cannot be told; and how recordings lie."""
        out = {
            f"{name}.{key}": np.nan if found is None else found
            for name, simulation in simulations.items()
            for key, found in self._simulated(simulation).items()
        }
        for name, simulation in simulations.items():
            lying = self.alignment(simulation)
            out |= {} if lying is None else {f"{name}.{key}": value for key, value in lying.numbers.items()}
        return out

    def contacts(self, x: Any, experiments: Sequence[Experiment] | None = None) -> Iterator[ContactLook]:
        """For each rollout of experiments (default: the fitted ones) what its contacts do at coordinates x.  Steps are
        taken one by one and looked at: it costs several rollouts."""
        return self._evaluator.contacts(self._values(x), self.fitted if experiments is None else experiments)

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
            Stage(
                h.label,
                p.value_and_grad,
                p.gauss_newton,
                p.describe,
                p.approximate,
                p.approximate_gauss_newton,
                *((p.secant, p.secant_gauss_newton) if has_switches(p) else ()),
            )
            for h, p in zip(self.method.horizons, problems, strict=True)
        ]
        with ExitStack() as memories:
            for p in {id(p): p for p in (*problems, self)}.values():
                memories.enter_context(p.remembering())
            found = search(
                stages, starts, self.bounds, self.method, iterations=iterations, log=log, save=save,
                resume_state=resume_state, should_stop=should_stop,
            )  # fmt: skip
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
        physical, end = self.physical(last.x), (found.chosen, found.stages)
        if best is None:
            empty = {name: np.full(shape, np.nan) for name, shape in self.space.shapes.items()}
            return Result(physical, np.nan, {}, {}, empty, last, np.nan, *end)
        initial = self._initial_loss(found)
        materials = self._evaluator.materials
        with materials.kept():
            values = materials.of(self._values(last.x))
        for path, value in values.items():
            self.model[path].assign(value)
        return Result(
            physical, best.loss, best.terms, best.experiments, best.physical, last, initial, *end, best.growth
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
        known = None if self._remembered is None else self._remembered.value
        found = known[1] if known is not None and known[0] == x.tobytes() else self.evaluate(x)
        return {"parameters": self.physical(x), "terms": found.terms}

    def gradient_memory(self) -> float:
        """Bytes that the largest rollout needs for its gradient."""
        evaluator = self._evaluator
        return max((evaluator.gradient_memory(e.schedule) for e in self.fitted or self.experiments), default=0.0)

    # ------------------------------------------------------------------------------------------ inside
    @property
    def _evaluator(self) -> Evaluator:
        """Made anew for every call, which sees what the user changed since the last one."""
        prepared = None if self._remembered is None else self._remembered.prepared
        return Evaluator(
            self.model, self.solver, self.strategy, self.experiments, self.markers, self.sought, self.terms,
            self.space, self.rest, prepared, self.onlooker,
        )  # fmt: skip

    def _values(self, x: Any) -> dict[str, np.ndarray]:
        return self.space.unpack(np.asarray(x, dtype=np.float64))

    def _evaluate(self, x: np.ndarray, gradient: bool) -> Evaluation:
        evaluator = self._evaluator
        found = evaluator.evaluate(x, gradient)
        if self._remembered is not None:
            self._remembered.last = x.tobytes(), evaluator.rolled
        chaotic = [f"experiment `{name}`: {g.message}" for name, g in found.growth.items() if not g.useful]
        if chaotic and not self._told_of_chaos:
            self._told_of_chaos = True
            warn_user("; ".join(chaotic))
        return found
