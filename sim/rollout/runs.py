"""Running a rollout, from the start to the result.  There are three ways:

* `Run` replays captured steps and keeps nothing: no tape is open, or nothing on it has a gradient;
* `RecordedRun` (`recorded.py`) replays them too, and keeps what its way back needs, as one record of the tape;
* `ObservedRun` launches every kernel of every step, because somebody looks at each launch: forward mode moves tangents
  along, `detect_nonfinite` checks what was written.

A run is bound to arrays and settings when it is made.  Inside of `sim.capture()` it is one node: a replay runs it
again, from the content that the same arrays have then.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from sim.core.runtime.ambient import observers, open_graphs, recording
from sim.core.runtime.ambient.stacks import contained
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy
from sim.core.runtime.debug.nonfinite import NonFiniteError
from sim.core.runtime.devices import graph
from sim.core.runtime.memory.buffer import packed_at, rows_of
from sim.core.runtime.tape.tape import Tape
from sim.model.state import State
from sim.rollout.segments import Checkpoint, StepGraphs
from sim.rollout.steady import detects
from sim.rollout.step_tables import NEITHER, Rhythm
from sim.rollout.trajectory import NonFiniteState, Plan, Trajectory, is_finite
from sim.rollout.workspace import Workspace, WorkspacePool
from sim.solvers.mechanisms.swing import swing_warning

STACKS = recording.opened, open_graphs.opened, observers.opened

TOGETHER = 16
"""Frames that are looked at together, whether they are finite."""


@dataclass(eq=False)
class Run:
    """One rollout, of which nothing is kept.  shown: what the solver shows of it, see `Solver.shown`."""

    plan: Plan
    pool: WorkspacePool
    result: Trajectory
    shown: list[array]

    def execute(self, tape: Tape | None) -> None:
        """Fill the result, now and in replays of a graph that is being captured.  tape: the one that is open."""
        graph.add_whole_node(self.forward, self.plan.inputs, [*self.result.arrays, *self.shown])

    def forward(self) -> None:
        """Fill the result."""
        contained(self._forward, *STACKS)

    def _forward(self) -> None:
        with recording.paused(), self.pool.workspace() as w:
            w.take_forces(self.plan.start)
            w.solver.forget_reports()
            if w.pairs is not None:
                w.pairs.begin()
            self._take_steps(w)
            self._show(w)
            w.solver.refuse_incomplete()
            if w.pairs is not None:
                w.pairs.refuse_incomplete()
                self.result.penetration.take(w.pairs)

    def _take_steps(self, w: Workspace) -> None:
        plan, states = self.plan, w.steps.states
        states[0].overwrite(plan.start)
        self._advance(w.steps, plan.steps)
        self.result.final.overwrite(states[plan.steps % 2])

    def _show(self, w: Workspace) -> None:
        for shown, own in zip(self.shown, w.solver.shown, strict=True):
            copy(shown, own)

    def _advance(
        self, steps: StepGraphs, end: int, gap: int = 0, rooms: Mapping[int, Checkpoint] | None = None
    ) -> None:
        """All steps before step `end`; keeps the frames among them, and in `rooms` states after every `gap` steps."""
        done, every, rooms = 0, self.plan.frame_every, rooms or {}
        rhythms = steps.rhythms(end, every, gap if rooms else 0)
        while done < end:
            frame = done + every - done % every
            room = next((at for at in (done + gap - done % gap, end) if at in rooms), end) if rooms else end
            for rhythm in rhythms:
                stop = min(end if rhythm.frames else frame, end if rhythm.checkpoints else room, end)
                if (before := done) < (done := self._walk_table(steps, done, stop, rhythm, rooms)):
                    break
            else:
                before, rhythm, stop = done, NEITHER, min(frame, room, end)
                steps.run(done, stop - done)
                done = stop
            state = steps.states[done % 2]
            if rhythm.frames:
                self._check(done - 1, before // every, done // every)
            else:
                self.keep_frame(done - 1, state)
            if not rhythm.checkpoints and done in rooms:
                rooms[done].take(state)

    def _walk_table(
        self, steps: StepGraphs, first: int, end: int, rhythm: Rhythm, rooms: Mapping[int, Checkpoint]
    ) -> int:
        """Take steps from `first` on, up to step `end` at most, by one table that keeps what comes in this rhythm;
        where it ended: at `first` if there is no table."""
        table = steps.table(first, end - first, rhythm)
        if table is None:
            return first
        frames, checkpoints = list[tuple[int, int]](), list[tuple[int, int]]()
        for a in self.result.frames if rhythm.frames else ():
            stride = a.strides[0]
            frames.append((a.buffer.address + a.offset + first // rhythm.frames * stride, stride))
            a.buffer.version += 1
        if rhythm.checkpoints:
            at, then = (rooms.get(first + k * rhythm.checkpoints) for k in (1, 2))
            assert at is not None, "a state is kept after every so many steps"
            for k, part in enumerate(at.parts):
                stride = then.parts[k].offset - part.offset if then is not None else 0
                checkpoints.append((part.buffer.address + part.offset, stride))
        return first + table.run(end - first, frames, checkpoints)

    def keep_frame(self, step: int, state: State) -> None:
        """Keep the positions after a step, if they are to be kept.  Raises NonFiniteState."""
        frame = self.plan.frame_after(step)
        if frame is None:
            return
        for frames, positions in zip(self.result.frames, state.positions, strict=True):
            self._copy_frame(frames, frame, positions)
        if (frame + 1) % TOGETHER == 0 or step + self.plan.frame_every >= self.plan.steps:
            graph.add_node(partial(self._check, step, frame, frame + 1))

    def _copy_frame(self, frames: array, frame: int, positions: array) -> None:
        buffer = frames.buffer
        buffer.device.copy(packed_at(buffer, frames.offset + frame * positions.nbytes, positions), positions)
        buffer.version += 1

    def _check(self, step: int, frame: int, end: int) -> None:
        """Raise where a position is not finite in frames `frame` to `end - 1`, the last of them after `step`, or in
        those before that nobody has looked at yet.  Only frames are looked at: no step waits for the host."""
        first = frame // TOGETHER * TOGETHER
        if not all(is_finite(rows_of(frames, first, end)) for frames in self.result.frames):
            raise self._locate(step)

    def _locate(self, last: int) -> NonFiniteState:
        """Run again to find the first step, and the constraint and point where it happened."""
        plan, w = self.plan, self.pool.make()
        with recording.paused(), graph.suspend_capture():
            w.take_forces(plan.start)
            a, b = w.state(), w.state()
            a.copy_from(plan.start)
            swinging = ""
            for k in range(last + 1):
                w.step(a, b, detects(k, w.every))
                a, b = b, a
                if not all(map(is_finite, a.positions)):
                    place = w.solver.locate_nonfinite(b, a, w.step.control, w.step.dt)
                    return NonFiniteState(
                        f"the simulation became non-finite in step {k + 1} of {plan.steps} (t = {a.time:.6g} s), first"
                        f" {place}{swinging}; take shorter steps (more substeps), or check masses and compliances"
                    )
                if not swinging and (text := swing_warning(w.solver, a, w.step.dt)):
                    swinging = f"; from step {k + 1} on {text}"
        return NonFiniteState(f"the simulation became non-finite before step {last + 1} of {plan.steps}")


class ObservedRun(Run):
    """One rollout, launch by launch, on the open tape itself, if there is one.

    Nothing is replayed, and checkpoints are of no use: they hold values without their tangents.
    """

    def execute(self, tape: Tape | None) -> None:
        """See `Run`."""
        with tape.all_or_nothing() if tape is not None else nullcontext():
            contained(partial(self._launch_by_launch, tape), *STACKS)

    def _copy_frame(self, frames: array, frame: int, positions: array) -> None:
        copy(frames[frame], positions)

    def _launch_by_launch(self, tape: Tape | None) -> None:
        w, start = self.pool.make(), self.plan.start
        a, b = w.state(start), w.state(start)
        a.copy_from(start)
        for step in range(self.plan.steps):
            if tape is not None:
                tape.mark(self.plan.name(step), {"particle_q": a.particle_q, "particle_qd": a.particle_qd})
            try:
                w.step(a, b, detects(step, w.every))
            except NonFiniteError as problem:
                raise problem.at(self.plan.name(step)) from None
            a, b = b, a
            self.keep_frame(step, a)
        self.result.final.copy_from(a)
        self._show(w)
        if w.pairs is not None:
            self.result.penetration.take(w.pairs)
