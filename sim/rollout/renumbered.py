"""Rollouts of models whose points are in disorder: under numbers that go along memory, on copies of what is per point.

The user's numbers stay what they are everywhere else.  Copies to and fro are launches like others: a tape records them
around the rollout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from sim.core.runtime.arrays.array import array
from sim.model.renumbered import Renumbering
from sim.model.state import State
from sim.rollout.trajectory import Trajectory
from sim.solvers.base import Solver

LEAST = 8
"""Steps from which on copies to and fro pay: they take about as long as three."""


@dataclass(eq=False)
class RenumberedSolver:
    """What takes the place of a solver inside of a rollout.  reads: the arrays of the user's that it was made for."""

    solver: Solver
    renumbering: Renumbering
    reads: list[array]

    def fits(self, reads: list[array]) -> bool:
        """Are these the arrays that it was made for?  Each may have got or lost its gradient."""
        return len(reads) == len(self.reads) and all(
            mine is theirs or (mine.buffer is theirs.buffer and mine.offset == theirs.offset)
            for mine, theirs in zip(self.reads, reads, strict=True)
        )

    def follow(self, solver: Solver) -> None:
        """Takes over settings, the present content of the model, and where multipliers are shown."""
        for setting in fields(solver):
            if setting.init and setting.name != "model":
                setattr(self.solver, setting.name, getattr(solver, setting.name))
        self.renumbering.follow_gradients()
        self.solver.begin()
        for mine, theirs in zip(self.solver.batches, solver.batches, strict=True):
            mine.multiplier = theirs.multiplier

    def rollout(self, solver: Solver, state: State, run: Callable[[Solver, State], Trajectory]) -> Trajectory:
        """What `run` gives for a solver that has begun, and a state."""
        self.follow(solver)
        made = run(self.solver, self.renumbering.inside(state))
        frames = self.renumbering.frames_outside(made.particle_q)
        return replace(made, particle_q=frames, final=self.renumbering.outside(made.final, state.particle_f))


_known: WeakKeyDictionary[Solver, RenumberedSolver] = WeakKeyDictionary()
_lock = Lock()


def renumbered(solver: Solver, steps: int) -> RenumberedSolver | None:
    """For so many steps of a solver that has begun; None where they are few, its points are in order, or its results
    depend on their numbers."""
    model = solver.model
    if model.along is None or steps < LEAST or model.contact is not None or model.near is not None:
        return None
    reads = solver.inputs
    with _lock:
        found = _known.get(solver)
        if found is None or not found.fits(reads):
            renumbering = Renumbering(model, model.along)
            made: Any = solver.renumbered(renumbering.model)
            if made is None:
                return None
            found = _known[solver] = RenumberedSolver(made, renumbering, reads)
    return found
