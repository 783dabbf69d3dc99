"""The same problem with shorter steps, more iterations, or a finer mesh."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from sim.identify.problem import NotRefined, Problem
from sim.solvers import SolverNewton, SolverXPBD
from sim.solvers.batch import ConstraintBatch
from sim.solvers.stability import stiffness

MOST_CONSTRAINTS = 20_000
"""Of a finer mesh that a run still evaluates; `simopt check --converge` evaluates any."""

HARMLESS = 1.5
"""J W J^T / alpha~ of a damped constraint that a sweep still resolves, as it does 98 % of the force (`warm_start`)."""
MOST_PARTS = 32
"""Of a step of a finer mesh."""


def shorter_steps(problem: Problem, factor: int = 2) -> Problem:
    """Every step in so many parts."""
    schedules = {e.name: replace(e.schedule, substeps=factor * e.schedule.substeps) for e in problem.experiments}
    return replace(problem, experiments=[replace(e, schedule=schedules[e.name]) for e in problem.experiments])


def more_iterations(problem: Problem, factor: int = 2) -> Problem:
    """So many times as many sweeps over the constraints in every step.  Raises NotRefined without sweeps."""
    solver = problem.solver
    if isinstance(solver, SolverNewton):
        raise NotRefined("SolverNewton solves every step to its tolerance; nothing of it depends on iterations")
    if not isinstance(solver, SolverXPBD):
        raise NotRefined(f"{type(solver).__name__} does not iterate a number of times")
    return replace(problem, solver=replace(solver, iterations=factor * solver.iterations))


def finer_mesh(problem: Problem, most: float = MOST_CONSTRAINTS) -> Problem:
    """Half the edge length.  Raises NotRefined where that cannot be, or makes more than so many constraints."""
    if problem.finer_mesh is None:
        raise NotRefined("nobody says how to make a finer mesh (`finer_mesh` of the problem)")
    growth = 8 if any(len(group.tets) for group in problem.model.groups.values()) else 4
    count = growth * sum(s.count for s in problem.model.constraint_sets.values())
    if count > most:
        raise NotRefined(f"a finer mesh has about {count:,} constraints; `simopt check --converge` evaluates it")
    return problem.finer_mesh()


def steps_of_finer(problem: Problem, finer: Problem) -> int:
    """Parts of a step in which the stiffest constraints of a finer mesh are as stiff as they were, J W J^T / alpha~: 2
    for springs, membranes and solids, 4 where a surface bends, 1 for a solver that converges whatever the step.

    Damping adds stiffness that falls with the step, not with its square: it takes more parts, where it counts.
    """
    if isinstance(problem.solver, SolverNewton):
        return 1
    dt = problem.solver.effective_dt(max(e.schedule.dt for e in problem.experiments))
    parts = 1
    for batch, fine in zip(problem.solver.batches, finer.solver.batches, strict=True):
        made = batch.set
        if made.constraint.internal and made.count and made.slots.only_particles:
            growth = _typical(finer, fine, 1.0, False) / _typical(problem, batch, 1.0, False)
            parts = max(parts, int(2 ** round(math.log2(max(growth, 1.0)) / 2.0)))
            allowed = max(_typical(problem, batch, dt, True), HARMLESS)
            while made.damping is not None and _typical(finer, fine, dt / parts, True) > allowed and parts < MOST_PARTS:
                parts *= 2
    return parts


def _typical(problem: Problem, batch: ConstraintBatch, dt: float, damped: bool) -> float:
    """Median of J W J^T / alpha~ over constraints, with what their damping adds or without."""
    times = np.zeros(batch.set.count)
    if damped and batch.set.damping is not None:
        times += batch.set.damping.numpy()
    return float(np.median(stiffness(problem.solver, batch, dt, times)))


CAUSES: Mapping[str, Callable[[Problem], Problem]] = {
    "step": shorter_steps,
    "iterations": more_iterations,
    "mesh": finer_mesh,
}
"""What a result may depend on that is not the material, and the problem with less of it."""
