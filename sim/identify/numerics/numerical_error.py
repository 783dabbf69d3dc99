"""How far identified values would move with shorter steps, more iterations and a finer mesh, to first order.

With residuals r, their derivatives J and their weights W in the loss, the optimum of another discretisation, whose
residuals at the same values are r + d, lies at

    dx = -(J' W J)^-1 J' W d

from here (Gauss-Newton).  One evaluation gives d for half the step, twice the iterations or half the edge length, and
J is that of the standard errors; where dx is large, further steps from there follow.

An error that falls like h^p is 2^p / (2^p - 1) times what halving h changes (L. F. Richardson, 1911; P. Roache,
"Perspective: A Method for Uniform Reporting of Grid Refinement Studies", 1994), counted in coordinates, where factors
are: twice with the first order of implicit Euler, 4 / 3 with a second-order integrator and with linear elements.  What
twice the iterations change is counted 3 / 2 times: it is all of it where a step is nearly converged, and half of it
where the error falls like 1 / iterations.

Sweeps converge less on a finer mesh.  It is evaluated with steps so short that its constraints are as stiff as those of
the mesh at hand (`steps_of_finer`), and with half of these: where that leads in the limit, against where shorter steps
lead on the mesh at hand, is the error by the mesh.

Step and iterations are two views of one error: as steps get shorter, any number of iterations converges.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.identify.assess.uncertainty import (
    MOST,
    coordinate_names,
    directions_among,
    held_by_bounds,
    inverse_among,
)
from sim.identify.data.experiments import Simulation
from sim.identify.losses.jacobian import Linearised, linearise
from sim.identify.losses.residuals import Residuals
from sim.identify.numerics.finer import CAUSES, finer_mesh, shorter_steps, steps_of_finer
from sim.identify.problem import NotRefined, Problem
from sim.identify.search.results import Result, short
from sim.solvers import NumericsWarning, Solver, SolverXPBD

EVALUATIONS, SMALL, BOLD = 4, 0.1, 2.0
"""Evaluations of a finer problem at most: a further one where the last one moves coordinates by more than `SMALL` of
their sizes (10 % of a quantity with a logarithm), by `BOLD` at most along each direction that they tell."""

NONE = 0.01
"""Share of the error by steps below which more iterations are no remedy for it."""

ROUNDING = 1e-9
"""Relative changes below which there are only rounding errors."""

SAID_FROM = 1e-3
"""Relative numerical error from which a note is made of it where there is no standard error to compare it with."""


@dataclass(frozen=True, eq=False)
class Shift:
    """What one cause of numerical error does.

    errors: parameter -> its value without this error minus the value found, in the parameter's shape and unit, to first
    order.  by_refining: the same for what was evaluated, without extrapolation.  whole: what an error is taken to be,
    over what refining changes of it.  compared: how far what the loss compares moves by refining, root mean square, in
    units of its noise.  measures: number -> how far it moves by refining.  evaluations: of the refined problem.
    """

    cause: str
    errors: dict[str, np.ndarray]
    by_refining: dict[str, np.ndarray]
    whole: float
    compared: float
    measures: dict[str, float] = field(default_factory=dict)
    evaluations: int = 1


@dataclass(frozen=True, eq=False)
class Refined:
    """A finer problem at the values found: its residuals, measures, and how far its optimum lies from here (n,)."""

    residuals: Sequence[Residuals]
    measures: dict[str, float]
    moved: np.ndarray
    evaluations: int = 0


@dataclass(frozen=True, eq=False)
class NumericalError:
    """The numerical error of identified values by cause.

    shifts: by `step`, `iterations`, `mesh`, as far as estimated; missing: the others, and why.  values: what was found.
    evaluations: of refined problems.  held: parameters that stand on a bound, from where no estimate moves them.
    """

    values: dict[str, np.ndarray]
    shifts: dict[str, Shift]
    missing: dict[str, str]
    evaluations: int = 0
    held: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return "\n".join(["NumericalError", *(f"  {name} {self.line(name)}" for name in self.values)])

    @property
    def errors(self) -> dict[str, np.ndarray]:
        """Parameter -> size of its numerical error: of step and iterations, two views of one, the larger; and mesh."""
        zero = {name: np.zeros(np.shape(value)) for name, value in self.values.items()}
        by = {cause: self.shifts[cause].errors if cause in self.shifts else zero for cause in CAUSES}
        return {
            name: np.maximum(np.abs(by["step"][name]), np.abs(by["iterations"][name])) + np.abs(by["mesh"][name])
            for name in self.values
        }

    def relative(self, cause: str, name: str) -> np.ndarray:
        """Shift of a parameter over its value."""
        value = np.asarray(self.values[name])
        moved = self.shifts[cause].errors[name]
        return np.divide(moved, np.abs(value), out=np.full(value.shape, np.inf), where=value != 0)

    def line(self, name: str) -> str:
        """`step -1.2 %, iterations +0.1 %, mesh not estimated`; of a parameter of many numbers the largest."""
        if name in self.held:
            return "not estimated on a bound"
        parts = []
        for cause in CAUSES:
            if cause not in self.shifts:
                parts.append(f"{cause} not estimated")
                continue
            share = self.relative(cause, name).ravel()
            worst = float(share[np.argmax(np.abs(share))])
            most = "up to " if share.size > 1 else ""
            if not np.isfinite(worst):
                parts.append(f"{cause} {short(self.shifts[cause].errors[name])}")
            else:
                parts.append(f"{cause} {most}{share_text(worst)}")
        return ", ".join(parts)

    def notes(self, problem: Problem, errors: Mapping[str, np.ndarray] | None = None) -> list[str]:
        """Sentences for people: the parameters that numerics moves further than their standard errors (without these:
        than `SAID_FROM`), those with the same remedy together."""
        moved: dict[tuple[bool, str], dict[str, list[str]]] = {}  # noise known, remedy -> parameter -> coordinates
        names = iter(coordinate_names(problem))
        for name, size in self.errors.items():
            value, noise = np.abs(np.ravel(self.values[name])), np.zeros(size.size)
            if errors is not None and name in errors:
                noise = np.nan_to_num(np.ravel(errors[name]), nan=0.0, posinf=np.inf)
            for k, label in zip(range(size.size), names, strict=False):
                if size.ravel()[k] > (noise[k] or SAID_FROM * value[k]):
                    remedy = (errors is not None, self._advice(problem, name))
                    moved.setdefault(remedy, {}).setdefault(name, []).append(label)
        notes = []
        for (against, advice), by_name in moved.items():
            one = len(by_name) == 1
            shown = [
                f"`{labels[0]}`{f' and {len(labels) - 1} more' if len(labels) > 1 else ''}"
                + ("" if one else f" ({self.line(name)})")
                for name, labels in by_name.items()
            ]
            than = (", more than its standard error" if one else ", more than their standard errors") if against else ""
            by = f" ({self.line(next(iter(by_name)))})" if one else ""
            notes.append(
                f"{', '.join(shown)}: the numerics moves what was found{than}{by}:"
                f" {'it is a value' if one else 'these are values'} of this discretisation as much as of what was"
                f" recorded; {advice}, and see `simopt check --converge`"
            )
        return notes

    def _advice(self, problem: Problem, name: str) -> str:
        largest = max(self.shifts, key=lambda cause: float(np.max(np.abs(self.shifts[cause].errors[name]))))
        if largest == "mesh":
            return "take a finer mesh"
        solver, shorter = problem.solver, "shorter steps (`time.substeps`)"
        by = {cause: float(np.max(np.abs(shift.errors[name]))) for cause, shift in self.shifts.items()}
        if not isinstance(solver, SolverXPBD) or by.get("iterations", np.inf) < NONE * by.get("step", 0.0):
            return f"take {shorter}"
        # One sweep from multipliers of zero leaves damping undone, however short the step (decision 19).
        swept = any(batch.set.slots.only_particles for batch in solver.batches)  # else there is nothing that it is for
        first = "`start: elastic`, " if solver.start == "zero" and swept else ""
        return f"take {first}more iterations or {shorter}"


def numerical_error(
    problem: Problem, found: Result | np.ndarray, causes: Sequence[str] = tuple(CAUSES)
) -> NumericalError:
    """The numerical error of what a search found, or of coordinates x (n,), by each of the causes.

    Takes a rollout of the fitted experiments per coordinate, and one to four of every refined problem.  Emits a
    NumericsWarning where the numerics moves a value by more than 0.1 %.  Raises ValueError where a term of the loss has
    no residuals.
    """
    x = np.asarray(found.search.x if isinstance(found, Result) else found, dtype=np.float64)
    missing = cannot(problem)
    if missing:
        raise ValueError(missing)
    error = estimate_shifts(problem, linearise(problem, x), causes=causes)
    for note in error.notes(problem):
        warnings.warn(note, NumericsWarning, stacklevel=2)
    return error


def cannot(problem: Problem) -> str:
    """Why there is no numerical error to be told, if there is none."""
    for term in problem.terms:
        if not term.has_residuals:
            return f"no numerical error: `{term.label}` is a loss without residuals"
    if problem.space.size > MOST:
        return f"no numerical error: it is estimated for up to {MOST} numbers, and {problem.space.size} are sought"
    return ""


def estimate_shifts(
    problem: Problem,
    found: Linearised,
    base: Mapping[str, Simulation] | None = None,
    causes: Sequence[str] = tuple(CAUSES),
) -> NumericalError:
    """The numerical error at the point that was linearised.  base: the simulations there, for shifts of measures."""
    study = _Study(problem, found, base)
    shifts, missing = {}, {}
    for cause in causes:
        try:
            shifts[cause] = study.of_mesh() if cause == "mesh" else study.of(cause)
        except NotRefined as error:
            missing[cause] = str(error)
        except FloatingPointError as error:
            missing[cause] = f"the simulation breaks down ({error})"
    on_bounds = held_by_bounds(problem, found.x)
    held = frozenset(name for name, part in problem.space.slices.items() if on_bounds[part].all())
    return NumericalError(problem.space.unpack(found.x), shifts, missing, study.evaluations, held)


class _Study:
    """The refined problems of an estimate, each evaluated once."""

    def __init__(self, problem: Problem, found: Linearised, base: Mapping[str, Simulation] | None) -> None:
        self.problem, self.found, self.base = problem, found, base
        measures = {} if base is None else problem.measured(base)
        self.present = Refined(found.residuals, measures, np.zeros(found.x.size))
        self.refined: dict[str, Refined] = {}

    @property
    def evaluations(self) -> int:
        """Of refined problems."""
        return sum(r.evaluations for r in self.refined.values())

    def of(self, cause: str) -> Shift:
        """What refining by a cause makes of the values, extrapolated to the end of refinement."""
        whole = whole_over_change(self.problem.solver, cause)
        after = self.refine(cause, lambda: CAUSES[cause](self.problem))
        return self.shift(cause, self.present, after, after.moved, whole)

    def of_mesh(self) -> Shift:
        """As `of`, both meshes in the limit of short steps."""
        finer, order = finer_mesh(self.problem), self.problem.solver.convergence_order
        parts, whole = steps_of_finer(self.problem, finer), whole_over_change(self.problem.solver, "mesh")
        if parts == 1:
            after = self.refine("mesh", lambda: finer)
            return self.shift("mesh", self.present, after, after.moved, whole)
        coarse = self.refine("step", lambda: shorter_steps(self.problem))
        fine = self.refine("mesh", lambda: shorter_steps(finer, parts))
        finest = self.refine("mesh, half the step", lambda: shorter_steps(finer, 2 * parts))
        limits = [
            before.moved + (after.moved - before.moved) * 2.0**order / (2.0**order - 1.0)
            for before, after in ((self.present, coarse), (fine, finest))
        ]
        return self.shift("mesh", coarse, finest, limits[1] - limits[0], whole)

    def refine(self, name: str, make: Callable[[], Problem]) -> Refined:
        """What a finer problem has at the values found, and where its optimum lies."""
        if name not in self.refined:
            finer, x = make(), self.found.x
            names = {e.name for e in self.problem.fitted} | set(self.base or {})
            there = finer.simulate(x, [e for e in finer.experiments if e.name in names])
            fine = finer.residuals(x, there)
            moved, evaluations = nearby_optimum(self.problem, finer, self.found, fine)
            measures = {} if self.base is None else finer.measured(there)
            self.refined[name] = Refined(fine, measures, moved, evaluations)
        return self.refined[name]

    def shift(self, cause: str, before: Refined, after: Refined, moved: np.ndarray, whole: float) -> Shift:
        """What lies between two of them."""
        measures = {name: value - before.measures[name] for name, value in after.measures.items()}
        errors, by_refining = (physical_shift(self.problem, self.found.x, f * moved) for f in (whole, 1.0))
        compared = _compared(before.residuals, after.residuals)
        return Shift(cause, errors, by_refining, whole, compared, measures, after.evaluations)


def nearby_optimum(
    problem: Problem, finer: Problem, found: Linearised, fine: Sequence[Residuals]
) -> tuple[np.ndarray, int]:
    """Where the optimum of the finer problem lies from here (n,), and evaluations: Gauss-Newton steps along what the
    recordings tell, whose derivatives are the coarse problem's, brought up to date by what a step changed (C. Broyden,
    1965).

    fine: the residuals of the finer problem here.
    """
    told = directions_among(found.matrix, ~held_by_bounds(problem, found.x))
    # What the recordings do not tell stays: a step along it would be any length, and leave none to the others.
    sizes = problem.space.sizes(found.x)
    most = BOLD / np.max(np.abs(told) / sizes[:, None], axis=0, initial=1e-300)
    low, high = problem.bounds
    jacobian = np.concatenate([j.reshape(-1, found.x.size) for j in found.jacobians]) @ told
    parts, back = found.residuals, np.linalg.pinv(told)
    x, r, weight = found.x, _flat(fine, parts), np.concatenate([p.curvature.ravel() for p in parts])
    for evaluations in range(1, EVALUATIONS + 1):
        tells = directions_among(jacobian.T @ (weight[:, None] * jacobian), np.ones(told.shape[1], bool))
        along = -tells @ (tells.T @ (jacobian.T @ (weight * r) + told.T @ found.descent))
        step = np.clip(x + told @ np.clip(along, -most, most), low, high) - x
        x = x + step
        if np.max(np.abs(step) / sizes, initial=0.0) < SMALL or evaluations == EVALUATIONS:
            break
        new, along = _flat(finer.residuals(x, finer.simulate(x, finer.fitted)), parts), back @ step
        jacobian += np.outer(new - r - jacobian @ along, along / (along @ along))
        r = new
    return x - found.x, evaluations


def _flat(parts: Sequence[Residuals], units: Sequence[Residuals]) -> np.ndarray:
    return np.concatenate([part.in_units_of(unit).score.ravel() for part, unit in zip(parts, units, strict=True)])


def share_text(share: float) -> str:
    """A relative change in words: in percent, or as a factor."""
    if abs(share) < ROUNDING:
        return "0 %"
    return f"{100 * share:+.2g} %" if -0.5 < share < 1.0 else f"times {1.0 + share:.2g}"


def whole_over_change(solver: Solver, cause: str) -> float:
    """An error over what refining by two changes of it."""
    if cause == "iterations":
        return 1.5
    order = 2 if cause == "mesh" else solver.convergence_order
    return 2.0**order / (2.0**order - 1.0)


def linear_shift(problem: Problem, found: Linearised, fine: Sequence[Residuals]) -> np.ndarray:
    """dx (n,) from the residuals of another discretisation at the same x; 0 for what a bound holds."""
    slope = found.descent
    for part, other, jacobian in zip(found.residuals, fine, found.jacobians, strict=True):
        slope += np.einsum("fmai,fm,fma->i", jacobian, part.weight, other.in_units_of(part).score)
    inverse, _ = inverse_among(found.matrix, ~held_by_bounds(problem, found.x))
    return -inverse @ slope


def physical_shift(problem: Problem, x: np.ndarray, moved: np.ndarray) -> dict[str, np.ndarray]:
    """Changes of physical values, from those of coordinates."""
    low, high = problem.bounds
    before, after = problem.space.unpack(x), problem.space.unpack(np.clip(x + moved, low, high))
    return {name: after[name] - before[name] for name in before}


def _compared(base: Sequence[Residuals], fine: Sequence[Residuals]) -> float:
    """Root mean square of what refining changes, over all that is compared with recordings, in units of the noise."""
    total = count = 0.0
    for part, other in zip(base, fine, strict=True):
        used = (part.weight > 0)[..., None]
        total += float(np.sum(used * (other.in_units_of(part).values - part.values) ** 2))
        count += 3.0 * float(used.sum())
    return float(np.sqrt(total / count)) if count else 0.0
