"""The state at rest under the loads: where what elements, contacts and outer forces do adds up to nothing.

    r1 = -f - J^T lambda = 0,   r2 = C + alpha lambda = 0

of positions and multipliers: the equations of a step without inertia and damping, with alpha the compliance and f the
outer forces at t = 0.  Newton's method alone rarely gets there from where nothing is loaded.  So implicit steps from
rest come first, each longer than the one before (pseudo-transient continuation: C. T. Kelley, D. E. Keyes, SIAM J.
Numer. Anal. 35, 1998): short ones follow the way down as slowly as it takes, long ones are Newton's method with a line
search.  It ends with full steps of Newton's method on the equations themselves.

Where that ended is forgotten: the gradient is that of the solution, by the implicit function theorem (see `adjoint`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from sim.constraints.damping.branches import BranchedConstraint
from sim.core.lang.errors import GradientError, SimError
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array, clone
from sim.model.constraint_set import ConstraintSet
from sim.model.state import State
from sim.solvers.base import SolverError, Substep
from sim.solvers.newton.adjoint import pull_back
from sim.solvers.newton.branches import RelaxedBranches
from sim.solvers.newton.elements import StepElements, StepInputs, host
from sim.solvers.newton.iteration import MOST_MERIT, RESTING, Iteration
from sim.solvers.newton.solver import SolverNewton, Systems
from sim.solvers.newton.sparse import SingularStep
from sim.solvers.newton.system import KktResidual, StepSystem

MOST_STEPS, MOST_POLISH = 80, 20
"""Implicit steps on the way, and steps of Newton's method at its end."""
FIRST, LONGER, SHORTER = 0.02, 4.0, 8.0
"""The way of the first step over the size of what is held; by how much steps grow, and shrink where one fails."""
ALMOST, INNER = 0.1, 20
"""A step of this part of the whole way is near enough to the end to look for it; Newton steps within one."""
ROUNDED_HERE = 1e-7
"""Corrections below this, relative, that stop shrinking are taken for rounding errors."""
BEGIN_AS_GIVEN = "begin as given (`start: given`) and let it come to rest: simulate longer, and compare from then on"
FAR = 100.0
"""Sizes of the scene from which on something has fallen."""


class RestSystem(StepSystem):
    """The equations of rest, for a `predicted` that is where outer forces alone would move points from where they
    began in a second."""

    inertia: ClassVar[float] = 0.0

    def outer(self, x: np.ndarray, predicted: np.ndarray, inputs: StepInputs) -> tuple[np.ndarray, float]:
        """Minus the outer forces, and their potential."""
        begin = host(inputs.x_before)[self.free]
        minus = (begin - predicted[self.free]) / host(inputs.inv_mass)[self.free, None]
        return minus, float((minus * (x[self.free] - begin)).sum())


class NoStateAtRest(SimError, FloatingPointError):
    """There is no state at rest, or none was found.  hint: what to do in a scene."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what, self.hint = what, hint


@dataclass(eq=False, repr=False)
class RestSolver(SolverNewton):
    """Finds the state of a model at rest, under gravity, loads and attachments as they are at t = 0.

    It starts where the points of the model are.  tolerance: the last correction of any point, over the longest way from
    there.  iterations: not used.  Works on particles, on the CPU in float64, with the constraints of `SolverNewton`.
    Raises SolverError for a model with rigid bodies, friction, surfaces that collide with themselves, or internal
    variables that yield.
    """

    tolerance: float = 1e-11

    def state(self) -> State:
        """The state at rest, on the tape if one is open; velocities are those of the model, its time is 0.

        Raises NoStateAtRest where there is none, where it is one that a small push would leave (a column that buckles;
        seen where no constraint is rigid), or where it is not found.
        """
        self.begin()
        if self.model.in_wind and np.any(host(self.model.wind) != 0.0):
            raise NoStateAtRest("the state at rest is not found in a wind", BEGIN_AS_GIVEN)
        before, made = self.model.state(), self.model.state()
        before.particle_qd.zero_()
        before.time = -1.0  # attachments and loads are those at the end of the second
        for branched in self._branched.values():
            branched.derive()
        self._advance(self._substep(before, made, None, 1.0))
        still = before.particle_qd
        for branched in self._branched.values():
            branched.relax(before, made.particle_q, still, made)
        return made

    def _refuse_unknown(self) -> None:
        """Raises SolverError for what a model has whose rest is not found: all at once."""
        model = self.model
        found = []
        if model.body_count:
            found.append(f"rigid bodies ({model.body_count}; hold points by attachments without `to`)")
        if any(s.surface for s in model.constraint_sets.values()):
            found.append("friction or restitution (where it sticks there is no single state at rest)")
        if model.contact is not None:
            found.append("contact of surfaces with themselves")
        if any(s.constraint.internal_variables and not _relaxes(s) for s in model.constraint_sets.values()):
            found.append("branches that yield, or another law with a memory that does not fade")
        if found:
            raise SolverError(
                f"the state at rest is not found for a model with {'; '.join(found)}",
                BEGIN_AS_GIVEN,
            )

    def _own_scratch(self) -> None:
        super()._own_scratch()
        self._branched = {k: RelaxedBranches(b, self._bodies) for k, b in enumerate(self.batches) if _relaxes(b.set)}
        self.batches = [self._branched[k].lasting if k in self._branched else b for k, b in enumerate(self.batches)]
        self._sets = [StepElements(batch, moving=False) for batch in self.batches]
        self._resting = Systems(RestSystem)

    def _rest_system(self, inputs: StepInputs) -> StepSystem:
        for k in self._sets:
            k.begin(inputs)
        return self._resting.of(self._sets, host(self.model.particle_inv_mass))

    def _depends_on_start(self) -> bool:
        """Of predicted positions only the way from the start counts."""
        return True

    def _solve(self, inputs: StepInputs, s: Substep) -> None:
        with recording.paused():
            resting = self._rest_system(inputs)
            found = _Relaxation(self, resting, self._system(inputs), s.particle, inputs)
            found.run()
            at = resting.evaluate(s.particle, found.predicted, inputs, found.kept)
            for made_of, rows in zip(self._sets, at.rows, strict=True):
                made_of.batch.multiplier.assign(made_of.of_all_rows(rows.multiplier))

    def _finish(self, s: Substep) -> None:
        s.after.particle_q.assign(s.particle)

    def _back(self, inputs: StepInputs, s: Substep) -> None:
        assert s.reference.grad is not None and s.particle.grad is not None
        with recording.paused():
            system = self._rest_system(inputs)
            kept = np.zeros(system.size - system.positions)
            for of, own in zip(self._sets, system.borders, strict=True):
                if of.kept:
                    kept[own - system.positions] = of.of_active_rows(host(of.batch.multiplier))
            try:
                pull_back(system, s.particle, self._here, self._moved, inputs, kept, [None] * len(self._sets))
            except SingularStep as error:
                raise GradientError(
                    f"the state at rest has no gradient: {error}; a small change moves it far, or nothing holds"
                    " a part of it in some direction",
                    hint="hold it there, or give rigid constraints a small compliance",
                ) from None
            of_start = host(s.reference.grad).copy()
            of_start[system.free] -= host(s.particle.grad)[system.free]
            s.reference.grad.assign(of_start)

    def object_of(self, point: int) -> str:
        """What the object of a point is called."""
        return next(
            (f"`{name}`" for name, group in self.model.groups.items() if point in group.points), f"point {point}"
        )


def _relaxes(made: ConstraintSet) -> bool:
    """Whether all that a set of constraints remembers fades."""
    c = made.constraint
    return isinstance(c, BranchedConstraint) and all(way == "time" for way in c.gives)


@dataclass(eq=False)
class _LongStep(Iteration):
    """An implicit step from rest, however long: corrections are measured by where points are, not by where they would
    have fallen to."""

    ahead: np.ndarray
    guess: np.ndarray

    def __post_init__(self) -> None:
        self.predicted, self.kept = self.ahead, self.guess
        self.at = self.system.evaluate(self.x, self.predicted, self.inputs, self.kept)
        self.least, self.ceiling = self.at.norm, MOST_MERIT * self.unsupported(self.at)

    @property
    def way(self) -> float:
        before = host(self.inputs.x_before)
        way = float(np.abs(host(self.x) - before).max(initial=0.0))
        return max(way, RESTING * float(np.abs(before).max(initial=0.0)), np.finfo(float).tiny)


@dataclass(eq=False)
class _Relaxation:
    """Points on their way to rest.

    resting, stepping: the equations of rest and of steps; x: positions, `place` those that were reached; predicted:
    where outer forces and prescribed motions alone would have points after a second; kept: the multipliers that are
    unknowns, in newton.
    """

    solver: RestSolver
    resting: StepSystem
    stepping: StepSystem
    x: array
    inputs: StepInputs
    predicted: np.ndarray = field(init=False)
    kept: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.predicted, self.begin = host(self.x).copy(), host(self.inputs.x_before).copy()
        self.kept = np.zeros(self.resting.size - self.resting.positions)
        self.free = self.resting.free
        self.place = self.predicted.copy()
        self.place[self.free] = self.begin[self.free]
        self.before = clone(self.inputs.x_before, requires_grad=False)
        extent = float(np.ptp(self.place, axis=0).max(initial=0.0)) if len(self.place) else 0.0
        self.size = extent or float(np.abs(self.place).max(initial=0.0)) or 1.0

    def run(self) -> None:
        """Moves x to rest.  Raises NoStateAtRest."""
        h = first = self._first()
        if h == np.inf:
            if self._ended(0.0):
                return
            h = first = 1.0
        for _ in range(MOST_STEPS):
            place = self._step(h)
            if place is None:
                h /= SHORTER
                if h < 1e-6 * first:
                    break
                continue
            change, self.place = float(np.abs(place - self.place).max(initial=0.0)), place
            self._refuse_falling()
            if self._ended(change):
                return
            h *= LONGER
        raise NoStateAtRest(
            f"no state at rest was found within {MOST_STEPS} implicit steps",
            "hold what can swing freely, soften what is very stiff, give a shape nearer to that at rest, or begin as"
            " given (`start: given`)",
        )

    @property
    def way(self) -> float:
        """How far points have come, or what rounding leaves to be seen of it."""
        return max(float(np.abs(host(self.x) - self.begin).max(initial=0.0)), RESTING * self.size)

    def _first(self) -> float:
        """A step in which nothing gets far [s]; inf where nothing is pushed."""
        n = self.resting.positions
        at = self._evaluate()
        w = np.repeat(host(self.inputs.inv_mass)[self.free], 3)
        outer = np.abs(self.predicted - self.begin)[self.free].max(initial=0.0)
        fastest = max(float(np.abs(at.residual[:n] * w).max(initial=0.0)), float(outer))
        return float(np.sqrt(FIRST * self.size / fastest)) if fastest > 0.0 else np.inf

    def _evaluate(self) -> KktResidual:
        """The equations of rest at `place`."""
        for s in self.resting.sets:
            s.begin(self.inputs)
        self.x.assign(self.place)
        return self.resting.evaluate(self.x, self.predicted, self.inputs, self.kept)

    def _step(self, h: float) -> np.ndarray | None:
        """Where an implicit step of h [s] from rest leads; None where it is not solved."""
        self.before.assign(self.place)
        inputs = replace(self.inputs, dt=h, x_before=self.before)
        for s in self.stepping.sets:
            s.begin(inputs)
        ahead = self.predicted.copy()
        ahead[self.free] = self.place[self.free] + h * h * (self.predicted - self.begin)[self.free]
        self.x.assign(self.place)
        step = _LongStep(self.stepping, self.x, inputs, ahead, h * h * self.kept)
        if not step.run(1e-3, INNER).converged:
            return None
        self.kept = step.kept / (h * h)
        return host(self.x).copy()

    def _ended(self, change: float) -> bool:
        """Whether rest is near enough for Newton's method on its equations, and it gets there."""
        if change > ALMOST * self.way:
            return False
        n, last = self.resting.positions, np.inf
        at, begun = self._evaluate(), self.kept.copy()
        for _ in range(MOST_POLISH):
            try:
                factor, _ = self.resting.factor(self.x, self.inputs, at, definite=False)
                step = -factor.solve(at.residual)
            except SingularStep:
                break
            correction = float(np.abs(step[:n]).max(initial=0.0)) / self.way
            if not correction < max(min(last, 1.0), self.solver.tolerance):
                break
            moved = host(self.x).copy()
            moved[self.free] += step[:n].reshape(-1, 3)
            self.x.assign(moved)
            self.kept = self.kept + step[n:]
            if correction <= self.solver.tolerance or 0.5 * last < correction <= ROUNDED_HERE:
                self._refuse_unstable(factor)
                return True
            at, last = self.resting.evaluate(self.x, self.predicted, self.inputs, self.kept), correction
        self.kept = begun
        return False

    def _refuse_falling(self) -> None:
        gone = np.abs(self.place - self.begin).max(axis=1, initial=0.0)
        if gone.max(initial=0.0) > FAR * self.size:
            raise NoStateAtRest(
                f"there is no state at rest: nothing holds {self.solver.object_of(int(np.argmax(gone)))}",
                "attach it, put something below it, or begin as given (`start: given`)",
            )

    def _refuse_unstable(self, factor: Any) -> None:
        """A symmetric matrix that was not pivoted has as many negative eigenvalues as its factor has pivots."""
        if self.resting.pattern.symmetric and np.array_equal(factor.perm_r, factor.perm_c):
            if (factor.U.diagonal() < 0.0).any():
                raise NoStateAtRest(
                    "the state at rest that was found is none that lasts: a small push, and it would buckle",
                    "give a shape that leans to the side to which it buckles, or begin as given (`start: given`)",
                )
