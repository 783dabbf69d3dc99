"""How the gradient of a rollout finds its way back: everything stored, or checkpoints and short stretches run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from sim.core.runtime import recording, shadows
from sim.core.runtime.array import array, clone
from sim.core.runtime.creation import copy
from sim.core.runtime.tape import Remembered, Tape
from sim.model.state import State
from sim.rollout.budget import Schedule, parse_bytes, schedule_within
from sim.rollout.stretches import Snapshot, captured
from sim.rollout.trajectory import Plan, Trajectory


class Strategy(Protocol):
    """Runs a plan under a tape."""

    def run(self, plan: Plan, tape: Tape) -> Trajectory: ...


@dataclass(frozen=True)
class StoreAll:
    """Everything that the reverse sweep needs is kept."""

    def run(self, plan: Plan, tape: Tape) -> Trajectory:
        if shadows.current() is None:
            return _Recorded(plan, Schedule(plan.steps)).run(tape)
        return _run_on_tape(plan, tape)


@dataclass(frozen=True)
class Checkpointed:
    """The state is kept every `every` steps; the reverse sweep runs each stretch again and goes back through it.

    budget: instead of `every`, the memory that the gradient may take, in bytes or as "200 MB".  If everything fits it is
        stored; else checkpoints take as little as they can, and where that is still too much, fewer of them are kept and made anew
        on the way back (for very long rollouts).
    """

    every: int | None = None
    budget: str | float | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.budget is None):
            raise ValueError("Checkpointed takes either every= or budget=")
        if self.every is not None and self.every < 1:
            raise ValueError(f"every={self.every}; expected at least 1")

    def schedule(self, plan: Plan) -> Schedule:
        """How many steps per stretch, and how many states at once."""
        if self.every is not None:
            return Schedule(min(self.every, plan.steps))
        assert self.budget is not None
        return schedule_within(plan, parse_bytes(self.budget))

    def run(self, plan: Plan, tape: Tape) -> Trajectory:
        return _Recorded(plan, self.schedule(plan)).run(tape)


def _run_on_tape(plan: Plan, tape: Tape) -> Trajectory:
    """Launch by launch, on the tape itself: where somebody looks at every launch."""
    result = plan.result()
    a, b = plan.scratch(), plan.scratch()
    a.follow(plan.start)
    for step in range(plan.steps):
        tape.mark(plan.name(step), {"particle_q": a.particle_q, "particle_qd": a.particle_qd})
        plan.step_of(step, a, b)
        a, b = b, a
        _keep_frame(plan, result, step, a)
    result.final.follow(a)
    return result


def run_plain(plan: Plan, result: Trajectory) -> None:
    """Run a plan without a tape, and fill `result`."""
    if shadows.current() is None:
        known = captured(plan)
        known.forces.assign(plan.start.particle_f)
        _run_between(plan, known.steps.states, partial(known.steps.run, plan), result)
        return
    states = (plan.scratch(), plan.scratch())

    def one_by_one(first: int, count: int) -> None:
        """Somebody looks at every launch."""
        for step in range(first, first + count):
            plan.step_of(step, states[step % 2], states[1 - step % 2])

    _run_between(plan, states, one_by_one, result)


def _run_between(plan: Plan, states: tuple[State, State], run: Callable[[int, int], None], result: Trajectory) -> None:
    states[0].follow(plan.start)
    _advance(plan, run, states, 0, plan.steps, result)
    result.final.follow(states[plan.steps % 2])


def _advance(plan: Plan, run: Callable[[int, int], None], states: tuple[State, State], first: int, count: int, result: Trajectory | None) -> None:
    """Steps `first` to `first + count - 1` by `run(first, count)`; keeps the frames among them in `result`, if there is one."""
    done, end = first, first + count
    for step in plan.frames_in(first, count) if result is not None else ():
        run(done, step + 1 - done)
        done = step + 1
        _keep_frame(plan, result, step, states[done % 2])
    run(done, end - done)


def _keep_frame(plan: Plan, result: Trajectory | None, step: int, state: State) -> None:
    frame = plan.frame_after(step)
    if frame is not None and result is not None:
        plan.check(state, step)
        copy(result.particle_q[frame], state.particle_q)


@dataclass(eq=False)
class _Recorded:
    """One rollout under a tape: forward with snapshots, and the reverse sweep."""

    plan: Plan
    schedule: Schedule
    result: Trajectory = field(init=False)
    kept: dict[int, Snapshot] = field(default_factory=dict)

    def run(self, tape: Tape) -> Trajectory:
        plan, start = self.plan, self.plan.start
        self.result = result = plan.result()
        external = [start.particle_f] + ([plan.control.motion_vector] if plan.control is not None else [])
        inputs = [*start.moving, start.clock, *external, *plan.solver.inputs]
        outputs = [result.particle_q, *result.final.moving, result.final.clock]
        tape.record_function(f"rollout of {plan.steps} steps", self.back, inputs, outputs, self.memory)
        with recording.paused(), plan.solver.model.hold():
            self._forward()
        return result

    def memory(self) -> list[Remembered]:
        """What is kept for the reverse sweep."""
        states = [Remembered(s.nbytes, "copy", "state between stretches of a rollout") for s in self.kept.values()]
        return states + [m for s in captured(self.plan).stretches.values() if isinstance(s.content, tuple) and s.content[0] is self for m in s.memory]

    def _forward(self) -> None:
        plan, every = self.plan, self.schedule.every
        captured(plan).forces.assign(plan.start.particle_f)
        steps = captured(plan).steps
        steps.states[0].follow(plan.start)
        last = (plan.steps - 1) // every * every  # the last stretch is recorded at once: the reverse sweep begins with it
        gap = self.schedule.gap(last + every, self.schedule.states)
        for first in range(0, last, gap):
            self.kept[first] = Snapshot.of(steps.states[first % 2])
            _advance(plan, partial(steps.run, plan), steps.states, first, min(gap, last - first), self.result)
        self.kept[last] = Snapshot.of(steps.states[last % 2])
        self._record(last, plan.steps - last, self.result)
        end = captured(plan).stretch(plan, plan.steps - last).states[(plan.steps - last) % 2]
        self.result.final.follow(end)

    def _record(self, first: int, count: int, result: Trajectory | None) -> None:
        """Run a stretch, from its snapshot, with all that the gradient needs."""
        plan = self.plan
        stretch = captured(plan).stretch(plan, count)
        stretch.content = None
        self.kept[first].restore(stretch.states[0])
        frames = plan.frames_in(first, count) if result is not None else ()
        stretch.run(plan, {step - first: partial(_keep_frame, plan, result, step) for step in frames})
        stretch.content = (self, first, plan.solver.turn)

    def back(self) -> None:
        """The reverse sweep: from the gradients of the result to those of the start and of the model."""
        plan, result = self.plan, self.result
        self.at_end = [_take(a) for a in result.final.moving]
        self.of_frames = _take(result.particle_q)
        last = (plan.steps - 1) // self.schedule.every * self.schedule.every
        given = sorted(self.kept)
        forces = captured(plan).forces
        if forces.grad is not None:
            _forget(forces)
        with plan.solver.model.hold():
            forces.assign(plan.start.particle_f)
            self._back_through(last, plan.steps - last)
            for first, end in reversed(list(zip(given, given[1:], strict=False))):
                self._back_over(first, end - first, self.schedule.states)
        for target, values in zip(plan.start.moving, self.at_end, strict=True):
            if target.grad is not None:
                target.device.add(target.grad, values)
        if forces.grad is not None:
            forces.device.add(_gradient(plan.start.particle_f), forces.grad)

    def _back_over(self, first: int, count: int, states: int | None) -> None:
        """Back from step `first + count` to `first`, whose state is kept; with at most so many more states at once."""
        every = self.schedule.every
        if count <= every:
            self._back_through(first, count)
            return
        gap = self.schedule.gap(count, states)
        steps = captured(self.plan).steps
        self.kept[first].restore(steps.states[first % 2])
        made = list(range(first + gap, first + count, gap))
        for at in made:
            _advance(self.plan, partial(steps.run, self.plan), steps.states, at - gap, gap, None)
            self.kept[at] = Snapshot.of(steps.states[at % 2])
        for at in [*reversed(made), first]:
            self._back_over(at, min(gap, first + count - at), None if states is None else states // 2)
            if at != first:
                del self.kept[at]

    def _back_through(self, first: int, count: int) -> None:
        """Back through one stretch."""
        plan = self.plan
        stretch = captured(plan).stretch(plan, count)
        if stretch.content != (self, first, plan.solver.turn):
            self._record(first, count, None)
        for state in stretch.states:
            for a in state.moving:
                _forget(a)
        for target, values in zip(stretch.states[count % 2].moving, self.at_end, strict=True):
            target.device.copy(_gradient(target), values)

        def add(step: int, state: State) -> None:
            frame = plan.frame_after(step)
            assert frame is not None
            state.particle_q.device.add(_gradient(state.particle_q), self.of_frames[frame])

        stretch.back({step - first: partial(add, step) for step in plan.frames_in(first, count)}, lambda step: plan.name(first + step))
        for a, values in zip(stretch.states[0].moving, self.at_end, strict=True):
            values.device.copy(values, _gradient(a))
            _forget(a)


def _gradient(a: array) -> array:
    assert a.grad is not None
    return a.grad


def _take(a: array) -> array:
    """The gradient of an array, which is cleared."""
    values = clone(_gradient(a), requires_grad=False)
    _forget(a)
    return values


def _forget(a: array) -> None:
    """Clear the gradient of an array."""
    grad = _gradient(a)
    grad.device.clear(grad)
