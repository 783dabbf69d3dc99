"""A rollout on a tape: what it keeps on its way forward, and its way back."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient.stacks import contained
from sim.core.runtime.arrays.array import array, clone
from sim.core.runtime.devices.graph import Graph
from sim.core.runtime.tape.memory_report import Remembered
from sim.core.runtime.tape.tape import Tape
from sim.model.state import State
from sim.rollout.budget import Schedule
from sim.rollout.runs import STACKS, Run
from sim.rollout.stretches import Snapshot, Stretch
from sim.rollout.workspace import Workspace


@dataclass(eq=False)
class RecordedRun(Run):
    """One rollout of which as much is kept as a schedule says.

    inputs: what of the user's arrays the steps read; `back` is called while they have the content that they had then.
    graphs: of the way forward: they tell whether the kernels of the steps would be the same today.
    """

    schedule: Schedule
    inputs: list[array] = field(default_factory=list)
    kept: dict[int, Snapshot] | None = None
    graphs: list[Graph] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The first step of the last stretch, which is recorded at once: the reverse sweep begins with it."""
        return (self.plan.steps - 1) // self.schedule.every * self.schedule.every

    @property
    def outputs(self) -> list[array]:
        """What it writes that has a gradient."""
        return [*self.result.arrays[:-1], *(a for a in self.multipliers if a.requires_grad)]

    def record(self, tape: Tape) -> None:
        """Put the rollout on a tape, after `forward`: where that raises, the tape knows of nothing."""
        detached = [a for a in self.multipliers if not a.requires_grad]
        tape.record_function(
            f"rollout of {self.plan.steps} steps",
            self.back,
            self.inputs,
            [*self.outputs, self.result.final.clock],
            self.memory,
            detached,
        )

    def memory(self) -> list[Remembered]:
        """What is kept for the way back."""
        states = [
            Remembered(s.nbytes, "copy", "state between stretches of a rollout") for s in (self.kept or {}).values()
        ]
        return [*states, *self.kind.memory_of(self)]

    def _take_steps(self, w: Workspace) -> None:
        plan, steps, last = self.plan, w.steps, self.last
        self.kept, kept = None, dict[int, Snapshot]()
        steps.states[0].follow(plan.start)
        gap = self.schedule.gap(last + self.schedule.every, self.schedule.states)
        for first in range(0, last, gap):
            kept[first] = Snapshot.of(steps.states[first % 2])
            self._advance(steps, first, min(gap, last - first), frames=True)
        kept[last] = Snapshot.of(steps.states[last % 2])
        stretch = self.fill(w, kept[last], last, plan.steps - last, frames=True)
        self.result.final.follow(stretch.states[stretch.count % 2])
        own = {*w.buffers, *(a.buffer for state in stretch.states for a in (*state.moving, state.clock))}
        start = plan.start
        read = [a for a in stretch.read if a.buffer not in own]
        self.inputs = [*start.moving, start.clock, start.particle_f, *read]
        self.kept, self.graphs = kept, stretch.graphs

    def fill(self, w: Workspace, snapshot: Snapshot, first: int, count: int, frames: bool) -> Stretch:
        """Run a stretch, from its snapshot, with all that the gradient needs."""
        stretch = w.stretch(count)
        snapshot.restore(stretch.states[0])
        steps = self.plan.frames_in(first, count) if frames else ()
        stretch.fill(self, first, {step - first: partial(self.keep_frame, step) for step in steps})
        return stretch

    def back(self) -> None:
        """The reverse sweep: from the gradients of the result to those of the start and of the model."""
        if self.kept is None:
            raise GradientError(
                "this rollout did not come to its end when its graph was replayed",
                hint="replay the graph again, or record again",
            )
        contained(self._back, *STACKS)

    def _back(self) -> None:
        with self.kind.workspace() as w:
            if any(graph.stale for graph in self.graphs) and not self._is_whole_in(w):
                raise GradientError(
                    f"a constant or function that a kernel of the rollout of {self.plan.steps} steps reads was changed"
                    " after that was recorded, and the way back has to run steps again: they would not be those of"
                    " then",
                    hint="go backward before the change, or record again",
                )
            _Sweep(self, w, dict(self.kept or {})).run()

    def _is_whole_in(self, w: Workspace) -> bool:
        """Whether a workspace still has all that was recorded, so that no step runs again."""
        stretch = w.stretches.get(self.plan.steps - self.last)
        return self.last == 0 and stretch is not None and not stretch.outdated and stretch.holds(self, 0)


@dataclass(eq=False)
class _Sweep:
    """One way back through a rollout.  at_end: gradients of the state where what is left ends; of_frames: of the
    frames."""

    of: RecordedRun
    w: Workspace
    kept: dict[int, Snapshot]
    at_end: list[array] = field(init=False)
    of_frames: array = field(init=False)

    def run(self) -> None:
        run, w, start = self.of, self.w, self.of.plan.start
        self.at_end = [_take(a) for a in run.result.final.moving]
        self.of_frames = _take(run.result.particle_q)
        for a in (w.forces, *w.solver.scratch):
            if a.grad is not None:
                _forget(a)
        w.forces.assign(start.particle_f)
        first = sorted(self.kept)
        self._through(run.last, run.plan.steps - run.last, run.multipliers)
        for begin, end in reversed(list(zip(first, first[1:], strict=False))):
            self._over(begin, end - begin, run.schedule.states)
        for target, values in zip(start.moving, self.at_end, strict=True):
            if target.grad is not None:
                target.device.add(target.grad, values)
        if w.forces.grad is not None:
            w.forces.device.add(_gradient(start.particle_f), w.forces.grad)

    def _over(self, first: int, count: int, states: int | None) -> None:
        """Back from step `first + count` to `first`, whose state is kept; with at most so many more states at once."""
        schedule, steps = self.of.schedule, self.w.steps
        if count <= schedule.every:
            self._through(first, count)
            return
        gap = schedule.gap(count, states)
        self.kept[first].restore(steps.states[first % 2])
        made = list(range(first + gap, first + count, gap))
        for at in made:
            steps.run(at - gap, gap)
            self.kept[at] = Snapshot.of(steps.states[at % 2])
        for at in [*reversed(made), first]:
            self._over(at, min(gap, first + count - at), None if states is None else states // 2)
            if at != first:
                del self.kept[at]

    def _through(self, first: int, count: int, multipliers: list[array] | None = None) -> None:
        """Back through one stretch.  multipliers: those that show what was left at its end."""
        plan = self.of.plan
        stretch = self.w.stretch(count)
        if not stretch.holds(self.of, first):
            stretch = self.of.fill(self.w, self.kept[first], first, count, frames=False)
        for state in stretch.states:
            for a in state.moving:
                _forget(a)
        end = [*stretch.states[count % 2].moving]
        for target, values in zip(end, self.at_end, strict=True):
            target.device.copy(_gradient(target), values)
        for shown, p in zip(multipliers or (), self.w.solver.passes, strict=False):
            if shown.requires_grad and p.multiplier.requires_grad:
                shown.device.copy(_gradient(p.multiplier), _take(shown))

        def add(frame: int, state: State) -> None:
            state.particle_q.device.add(_gradient(state.particle_q), self.of_frames[frame])

        frames = {
            step - first: partial(add, frame)
            for step in plan.frames_in(first, count)
            if (frame := plan.frame_after(step)) is not None
        }
        stretch.back(frames, lambda step: plan.name(first + step))
        for a, values in zip(stretch.states[0].moving, self.at_end, strict=True):
            values.device.copy(values, _gradient(a))
            _forget(a)


def _gradient(a: array) -> array:
    """The gradient of an array that has one."""
    if a.grad is None:
        raise GradientError(
            f"an array of shape {a.shape} of a rollout has no gradient any more",
            hint="leave requires_grad as it was when recording",
        )
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
