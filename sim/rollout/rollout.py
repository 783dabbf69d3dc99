"""`rollout`: the steps of a solver from a start state, on the tape if one is open."""

from __future__ import annotations

from numbers import Real

from sim.core.lang.errors import SimError, entry_point
from sim.core.runtime import recording, shadows
from sim.core.runtime.tape import Tape
from sim.model.control import Control
from sim.model.state import State
from sim.rollout.strategies import StoreAll, Strategy, run_plain
from sim.rollout.trajectory import Plan, Trajectory
from sim.solvers.base import Solver


class RolloutError(SimError, ValueError):
    """A rollout that cannot be run as asked."""


@entry_point
def rollout(
    solver: Solver, state: State, steps: int, dt: float, control: Control | None = None, frame_every: int | None = None,
    strategy: Strategy | None = None,
) -> Trajectory:
    """Take `steps` steps of `dt` seconds from `state`, which is not changed.

    frame_every: keep the positions after every so many steps (None: after the last one only).
    strategy:    how a gradient finds its way back: `StoreAll()` or `Checkpointed(every=k)`; both give the same bits.
                 In forward mode (`sim.autograd.jvp`, `hvp`) everything is stored.
    The forces `state.particle_f` act during all steps.  Without an open tape nothing is kept but the frames.
    Raises NonFiniteState where the simulation breaks down.
    """
    for name, count in (("steps", steps), ("frame_every", frame_every)):
        if count is not None and not hasattr(count, "__index__"):
            raise RolloutError(f"{name}={count!r}; expected a whole number")
    if steps < 1:
        raise RolloutError(f"steps={steps}; expected at least 1")
    if not isinstance(dt, Real) or not dt > 0.0:
        raise RolloutError(f"dt={dt!r}; expected a positive time step in seconds")
    if strategy is not None and not hasattr(strategy, "run"):
        raise RolloutError(f"strategy={strategy!r}; expected StoreAll(), Checkpointed(every=k), or None")
    every = steps if frame_every is None else frame_every
    if not 1 <= every <= steps:
        raise RolloutError(f"frame_every={frame_every}; expected 1 to steps={steps}, or None")
    if state.model is not solver.model:
        raise RolloutError("the state belongs to another model; make it with solver.model.state()")
    solver.model.refresh(force=True)
    plan = Plan(solver, state, int(steps), float(dt), control, int(every))
    recorder = recording.current()
    if isinstance(recorder, Tape):
        # Checkpoints hold values without their tangents.
        chosen = StoreAll() if strategy is None or shadows.current() is not None else strategy
        return chosen.run(plan, recorder)
    result = plan.result()
    with recording.paused(), solver.model.hold():
        run_plain(plan, result)
    return result
