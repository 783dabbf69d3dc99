"""`SolverNewton`: implicit Euler or BDF2, solved to a tolerance."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.lang.types import float64, vector
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.devices.graph import add_whole_node
from sim.core.runtime.memory.buffer import before_write
from sim.core.runtime.tape.tape import Tape
from sim.schema.kinds import Choice, Int, Number
from sim.schema.reading import SchemaLine
from sim.solvers.base import Solver, SolverError, Substep
from sim.solvers.integrators.implicit import INTEGRATORS, Integrator
from sim.solvers.newton.adjoint import pull_back
from sim.solvers.newton.elements import StepElements, StepInputs, host
from sim.solvers.newton.iteration import Iteration
from sim.solvers.newton.sparse import SingularStep
from sim.solvers.newton.system import StepSystem


@dataclass(eq=False)
class NewtonConvergence:
    """How the steps of a solver have ended so far, those of its rollouts included."""

    steps: int = 0
    iterations: int = 0
    unconverged: int = 0
    worst: float = 0.0


@dataclass(eq=False, repr=False)
class SolverNewton(Solver, key="newton"):
    """Steps a model by implicit Euler or BDF2, each step solved to a tolerance by Newton's method: XPBD's reference.

    The same constraints with the same compliances, damping, contacts, attachments and internal variables, without what
    unconverged projections leave out.  Its gradient is that of the solution, by one linear solve a step; nothing of the
    iteration is recorded, and a gradient keeps about two states a step.

    tolerance:  the last Newton step of any point, over the longest way of a point in the step.  What is left after that
                is about the square of it.
    iterations: at most so many; a step that has not converged by then has no gradient (GradientError).
    integrator: "euler" or "bdf2", see `sim.solvers.integrators.implicit`; chosen when the solver is made.
    convergence: how the steps have ended so far.

    It works on the CPU in float64 (SolverError otherwise), and needs SciPy.  Rigid constraints are solved exactly, as
    long as no two of them ask for the same or for what cannot be.  Forward mode does not go through it.
    """

    about = "implicit steps solved to a tolerance by Newton's method, with an implicit gradient: slow, for reference"
    schema = (
        SchemaLine("tolerance", Number("1", "(0, 0.01]"), "where a step ends: the last correction of any point over the"
                   " longest way of a point", 1e-8),
        SchemaLine("iterations", Int(1, 100_000), "at most so many in a step: few where little bends", 200),
        SchemaLine("integrator", Choice(tuple(INTEGRATORS)), "euler: first order; bdf2: second order", "euler"),
    )  # fmt: skip

    tolerance: float = 1e-8
    iterations: int = 200
    integrator: str = "euler"
    convergence: NewtonConvergence = field(default_factory=NewtonConvergence, init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_settings()
        self._prepare(keeps=True)

    @classmethod
    def reference_of(cls, solver: Solver) -> SolverNewton:
        """The reference of another solver: it steps the same model, with the same integrator."""
        return cls(solver.model, integrator=getattr(solver, "integrator", "euler"))

    def _ready(self) -> None:
        """See `Solver`.  Raises SolverError where it cannot work on this model."""
        self._check_settings()
        model = self.model
        if model.dtype is not float64:
            raise SolverError(
                f"SolverNewton works in float64, and the model is in {model.dtype}; finalize(dtype=sim.float64)",
                "leave `--dtype` out, or use another solver",
            )
        if not model.device.is_cpu:
            raise SolverError(
                f"SolverNewton works on the CPU, and the model is on {model.device.name}; finalize(device='cpu')",
                "leave `--device` out, or use another solver",
            )

    def check_model(self) -> None:
        """See `Solver`."""
        self._ready()

    def _own_scratch(self) -> None:
        super()._own_scratch()
        model = self.model
        kind = vector(3, float64)
        self._here, self._moved = (zeros(model.particle_count, kind, model.device, True) for _ in range(2))
        self._status = zeros(3, float64, model.device)
        self._sets = [StepElements(batch) for batch in self.batches]
        self._systems = Systems()

    def _make_integrator(self) -> Integrator:
        return INTEGRATORS[self.integrator](self.model)

    # ------------------------------------------------------------------------------------------ a step
    def _advance(self, s: Substep) -> None:
        """Predict, solve, finish: the first and the last are launches; the solution is one record of a tape."""
        observer, x = observers.current(), s.particle
        self._predict(s)
        data = [b.parameters_in(s.after) for b in self.batches]
        inputs = StepInputs(s.reference, self.model.particle_inv_mass, data, self._no_damping, s.effective_dt)
        reads = [self.model.particle_inv_mass, *self._read_by_sets(s)]
        if observer is not None and any(observer.tracks(a.buffer) for a in (x, *reads)):
            raise GradientError(
                "forward mode does not go through SolverNewton, whose derivative is a linear solve for reverse mode",
                hint="use sim.Tape and backward, or another solver",
            )
        written = [x, self._status, *(b.multiplier for b in self.batches)]
        for a in written:  # here, where a graph that is open captures the snapshots that are taken
            before_write(a, "SolverNewton")
        add_whole_node(partial(self._solve, inputs, s), [x, s.reference, s.before.clock, *reads], written)
        tape = recording.current()
        if isinstance(tape, Tape) and any(a.requires_grad for a in (x, *reads)):
            if self._depends_on_start():
                reads.append(s.reference)
            back = partial(self._back, inputs, s)
            tape.record_function("step of SolverNewton", back, reads, [], finals=written)
        s.watch(x, None, None)
        self._finish(s)

    def _depends_on_start(self) -> bool:
        """Whether positions before a step count, beside what follows from the predicted ones."""
        return any(b.set.damping is not None for b in self.batches)

    def _read_by_sets(self, s: Substep) -> list[array]:
        """Arrays of the constraints that a step depends on."""
        made = list[array]()
        for b in self.batches:
            internal = {name: s.after.internal_variables[f"{b.set.name}.{name}"] for name in b.evolutions}
            made += [internal.get(name, values) for name, values in b.set.parameters.items()]
            made += b.set.placing.values()
            made += [b.set.compliance, *([b.set.damping] if b.set.damping is not None else [])]
        return made

    def _system(self, inputs: StepInputs) -> StepSystem:
        """The equations with compliances, damping and masses as they are now."""
        for k in self._sets:
            k.begin(inputs)
        return self._systems.of(self._sets, host(self.model.particle_inv_mass))

    def _solve(self, inputs: StepInputs, s: Substep) -> None:
        with recording.paused():
            made = Iteration(self._system(inputs), s.particle, inputs)
            outcome = made.run(self.tolerance, self.iterations)
            for made_of, at in zip(self._sets, made.at.rows, strict=True):
                made_of.batch.multiplier.assign(made_of.of_all_rows(at.multiplier))
            self._status.assign([outcome.correction, float(outcome.converged), host(s.before.clock)[0]])
        found = self.convergence
        found.steps, found.iterations = found.steps + 1, found.iterations + outcome.iterations
        found.worst = max(found.worst, outcome.correction)
        if not outcome.converged:
            found.unconverged += 1
            if found.unconverged == 1:
                warnings.warn(
                    f"a step of SolverNewton has not converged (t = {host(s.before.clock)[0]:.6g} s, last correction"
                    f" {outcome.correction:.3g} of the way of the points): take shorter steps, or more iterations",
                    stacklevel=2,
                )

    # ------------------------------------------------------------------------------------------ its gradient
    def _back(self, inputs: StepInputs, s: Substep) -> None:
        correction, converged, time = host(self._status).tolist()
        if not converged:
            raise GradientError(
                f"the step of SolverNewton from t = {time:.6g} s to {time + s.dt:.6g} s has not converged: after"
                f" {self.iterations} iterations its last correction was {correction:.3g} of the way of the points, and"
                f" the tolerance is {self.tolerance:.3g}",
                hint="take shorter steps or more iterations; a gradient needs the solution",
            )
        with recording.paused():
            system = self._system(inputs)
            kept, weights = np.zeros(system.size - system.positions), list[np.ndarray | None]()
            for of, own in zip(self._sets, system.borders, strict=True):
                multiplier = of.batch.multiplier
                if of.kept:
                    kept[own - system.positions] = of.of_active_rows(host(multiplier))
                given = of.of_active_rows(host(multiplier.grad)) if multiplier.grad is not None else None
                weights.append(given if given is not None and given.any() else None)
            try:
                pull_back(system, s.particle, self._here, self._moved, inputs, kept, weights)
            except SingularStep as error:
                raise GradientError(
                    f"the step of SolverNewton from t = {time:.6g} s has no gradient: {error}; where it ends a small"
                    " change moves it far (buckling, or constraints that ask for the same)",
                    hint="take shorter steps, or give rigid constraints a small compliance",
                ) from None
            for b in self.batches:
                if b.multiplier.grad is not None:
                    b.multiplier.grad.zero_()


@dataclass(eq=False)
class Systems:
    """The last system of equations of a kind; made anew where other points are free, or other multipliers kept."""

    kind: type[StepSystem] = StepSystem
    _known: tuple[bytes, ...] = ()
    _system: StepSystem | None = None

    def of(self, sets: list[StepElements], inv_mass: np.ndarray) -> StepSystem:
        key = ((inv_mass > 0.0).tobytes(), bytes(s.kept for s in sets))
        if self._system is None or key != self._known:
            self._known, self._system = key, self.kind(sets, inv_mass)
        return self._system
