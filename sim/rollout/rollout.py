"""`rollout`: the steps of a solver from a start state, on the tape if one is open."""

from __future__ import annotations

from contextlib import nullcontext
from numbers import Real

from sim.core.lang.collector import uncollected
from sim.core.lang.errors import SimError, entry_point
from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.tape.tape import Tape
from sim.model.control import Control
from sim.model.state import State
from sim.rollout.recorded import RecordedRun
from sim.rollout.renumbered import renumbered
from sim.rollout.runs import ObservedRun, Run
from sim.rollout.strategies import StoreAll, Strategy
from sim.rollout.trajectory import Plan, Trajectory
from sim.rollout.workspace import pool_of
from sim.solvers import Solver, refuse_growing, warn_of_steps


class RolloutError(SimError, ValueError):
    """A rollout that cannot be run as asked."""


@entry_point
def rollout(
    solver: Solver,
    state: State,
    steps: int,
    dt: float,
    control: Control | None = None,
    frame_every: int | None = None,
    strategy: Strategy | None = None,
) -> Trajectory:
    """Take `steps` steps of `dt` seconds from `state`, which is not changed.

    frame_every: keep the positions after every so many steps (None: after the last one only).
    strategy:    how a gradient finds its way back: `StoreAll()` or `Checkpointed(every=k)`; both give the same bits.
                 In forward mode (`sim.autograd.jvp`, `hvp`) everything is stored.
    Velocities are those of the middle of the step before, with steps of first order; what begins with those at the time
    of its positions flies to first order, unless `LeapfrogStart` has taken them back.
    The forces `state.particle_f` act during all steps.  Without an open tape nothing is kept but the frames.
    A rollout is bound to the arrays and settings that it was called with: what is set or put in their place later does
    not matter to it, nor to its gradient.  Inside of `sim.capture()` it is one node, and a replay runs it again on the
    present content of these arrays.
    Warns (NumericsWarning, once for a solver and a dt) where the last step leaves much of the forces undone,
    steps are too short for the precision, or may be too long for the damping of a solid.
    Raises SolverError where they certainly are too long for it and would gain energy, NonFiniteState where the
    simulation breaks down; then, and if it is interrupted, a tape knows nothing of it.
    """
    _check_arguments(solver, state, steps, dt, frame_every, strategy)
    solver.begin()
    refuse_growing(solver, float(dt))
    recorder, every = recording.current(), int(steps if frame_every is None else frame_every)
    tape = recorder if isinstance(recorder, Tape) else None

    def run(taking: Solver, start: State) -> Trajectory:
        return _run(Plan(taking, start, int(steps), float(dt), control, every), strategy, tape)

    inner = None if observers.current() is not None else renumbered(solver, int(steps))
    if inner is None:
        result = run(solver, state)
    else:
        with tape.all_or_nothing() if tape is not None else nullcontext():
            result = inner.rollout(solver, state, run)
    if observers.current() is None:
        warn_of_steps(solver, result.final, int(steps), float(dt))
    return result


def _run(plan: Plan, strategy: Strategy | None, tape: Tape | None) -> Trajectory:
    """Take the steps of a plan, on a tape if there is one."""
    solver = plan.solver
    wanted = tape is not None and any(a.requires_grad for a in plan.inputs)
    if wanted and not solver.model.requires_grad:
        raise RolloutError(
            "the model was made without gradients, but an input of this rollout (the state, its forces, the control)"
            " requires one; make the model with finalize(requires_grad=True), or leave the `with` block of the tape"
        )
    pool = pool_of(plan)
    result = plan.result(pool.like)
    parts = plan, pool, result.bound(), solver.shown
    run: Run
    if observers.current() is not None:
        run = ObservedRun(*parts)
    elif wanted:
        run = RecordedRun(*parts, (strategy or StoreAll()).schedule(plan))
    else:
        run = Run(*parts)
    with uncollected() if wanted else nullcontext():  # its records stay, one for each launch of each step
        run.execute(tape)
    return result


def _check_arguments(
    solver: Solver, state: State, steps: int, dt: float, frame_every: int | None, strategy: Strategy | None
) -> None:
    for name, count in (("steps", steps), ("frame_every", frame_every)):
        if count is not None and not hasattr(count, "__index__"):
            raise RolloutError(f"{name}={count!r}; expected a whole number")
    if steps < 1:
        raise RolloutError(f"steps={steps}; expected at least 1")
    if not isinstance(dt, Real) or not dt > 0.0:
        raise RolloutError(f"dt={dt!r}; expected a positive time step in seconds")
    if strategy is not None and not hasattr(strategy, "schedule"):
        raise RolloutError(f"strategy={strategy!r}; expected StoreAll(), Checkpointed(every=k), or None")
    if frame_every is not None and not 1 <= frame_every <= steps:
        raise RolloutError(f"frame_every={frame_every}; expected 1 to steps={steps}, or None")
    if state.model is not solver.model:
        raise RolloutError("the state belongs to another model; make it with solver.model.state()")
    if state.internal_variables.keys() != (expected := solver.model.internal_variables).keys():
        raise RolloutError(
            f"the internal variables of the state are {sorted(state.internal_variables)}; expected {sorted(expected)};"
            " make it with solver.model.state()"
        )
