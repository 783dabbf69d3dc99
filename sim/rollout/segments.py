"""Captured steps of a solver: replayed by rollouts, by reverse sweeps, and by later rollouts of the same pool.

A *segment* is a number of steps that were recorded on a tape of their own and captured as graphs, forward and
backward.  It owns the memory of its records, which every replay fills again, and the two states that the steps go
between: nobody else writes them.

What is captured is put in its place when it is complete.  Until then it is known only to the function that captures it:
where that is left by an exception, nothing of it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Protocol
from weakref import ref

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import Graph, add_native_node, capture, capture_only, joined
from sim.core.runtime.memory.buffer import Buffer, Strided, packed_at
from sim.core.runtime.memory.host_memory import ALIGNMENT
from sim.core.runtime.tape.memory_report import Remembered
from sim.core.runtime.tape.probes import passing, watched
from sim.model.state import State
from sim.rollout.steady import Frames, SteadyState, StepRecorder, StepSeries, TakeStep, detects, steady_state
from sim.rollout.step_tables import LONGEST, Rhythm, StepTable, checkpointed


def clear_all(arrays: Iterable[array]) -> None:
    """Sets arrays that nobody else knows of to zero, and captures that."""
    zero = np.zeros((), np.float32)
    for a in arrays:
        add_native_node(partial(a.device.clear, a), partial(a.device.write_row, a, zero), (a, zero))


class Beginning(Protocol):
    """From where steps can run."""

    def restore(self, state: State) -> None:
        """Into a state that nobody else knows of."""

    @property
    def nbytes(self) -> int:
        """Of memory that this takes."""


@dataclass(frozen=True, eq=False)
class Start:
    """The start of a rollout, which has its content whenever that is asked for: it is an input of the tape's record."""

    state: State
    nbytes = 0

    def restore(self, state: State) -> None:
        """See `Beginning`."""
        state.overwrite(self.state)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state of a workspace from which steps can run again: copies of its arrays, the clock last."""

    parts: list[Strided]

    @classmethod
    def several(cls, state: State, count: int) -> list[Checkpoint]:
        """Room for so many copies of a state, in one piece of memory: a run that takes many small ones gives them back
        to the system at its end, and has them cleared page by page for the next."""
        arrays = checkpointed(state)
        ends = list(accumulate(-(-a.nbytes // ALIGNMENT) * ALIGNMENT for a in arrays))
        memory = state.clock.device.allocate(count * ends[-1])
        made = list[Checkpoint]()
        for begin in range(0, count * ends[-1], ends[-1]):
            places = zip(arrays, (0, *ends), strict=False)
            made.append(cls([packed_at(memory, begin + at, a) for a, at in places]))
        return made

    def take(self, state: State) -> None:
        """What a state holds now."""
        for kept, a in zip(self.parts, checkpointed(state), strict=True):
            a.buffer.device.copy(kept, a)

    def restore(self, state: State) -> None:
        """See `Beginning`: no tape, no graph and no watcher has to hear of the write."""
        for target, values in zip(checkpointed(state), self.parts, strict=True):
            buffer = target.buffer
            buffer.device.copy(target, values)
            buffer.version += 1

    @property
    def nbytes(self) -> int:
        """See `Beginning`."""
        return sum(values.nbytes for values in self.parts)


@dataclass(eq=False)
class StepGraphs:
    """Steps between two states without a tape: one graph from the first to the second, one back again.

    Whatever their number, no more than two steps are captured: step k goes from `states[k % 2]` to the other one; and
    two more, where some of them look for pairs (see `detects`).
    """

    states: tuple[State, State]
    step: TakeStep
    every: int = 0
    _graphs: dict[tuple[int, bool], Graph] = field(default_factory=dict)
    _joined: dict[tuple[int, int, int], Graph] = field(default_factory=dict)
    _tables: dict[tuple[int, int, Rhythm], StepTable | None] = field(default_factory=dict)

    @property
    def graphs(self) -> list[Graph]:
        """What has been captured, one graph per direction."""
        return list(self._graphs.values())

    def run(self, first: int, count: int) -> None:
        """Take steps `first` to `first + count - 1`; step k begins in `states[k % 2]`."""
        done = 0
        while done < count:
            side, phase, taken = (first + done) % 2, done % self.every if self.every else 0, min(count - done, LONGEST)
            if (side, phase, taken) in self._joined:
                self._joined[side, phase, taken].rerun()
                done += taken
                continue
            keys = [((side + k) % 2, detects(phase + k, self.every)) for k in range(taken)]
            if keys[0] not in self._graphs:
                with capture() as graph:
                    self.step(self.states[side], self.states[1 - side], keys[0][1])
                self._graphs[keys[0]], taken = graph, 1
            elif any(key not in self._graphs for key in keys):
                self._graphs[keys[0]].rerun()
                taken = 1
            else:
                self._joined[side, phase, taken] = joined([self._graphs[key] for key in keys])
                self._joined[side, phase, taken].rerun()
            done += taken

    def rhythms(self, count: int, frames: int, checkpoints: int) -> list[Rhythm]:
        """In which tables of so many steps may keep frames and checkpoints; the first that there is one of is best."""
        found = dict.fromkeys((Rhythm(frames, checkpoints), Rhythm(frames, 0), Rhythm(0, checkpoints)))
        return [rhythm for rhythm in found if not self.every and rhythm.steps(count, 1)]

    def table(self, first: int, left: int, rhythm: Rhythm) -> StepTable | None:
        """The table for steps from `first` on, where there is one: the rhythm begins anew there, the steps have been
        captured, and several states would be kept."""
        side = first % 2
        captured = self._graphs.get((side, False))
        rows = None if captured is None else captured.rows
        if rows is None or any(every and first % every for every in rhythm):
            return None
        steps = rhythm.steps(left, len(rows.rows))
        if not steps:
            return None
        if (side, steps, rhythm) not in self._tables:
            graphs = [self._graphs.get(((side + k) % 2, False)) for k in range(steps)]
            known = [graph for graph in graphs if graph is not None]
            if len(known) < steps:
                return None
            ends = self.states[1 - side], self.states[side]
            self._tables[side, steps, rhythm] = StepTable.made(known, rhythm, ends)
        return self._tables[side, steps, rhythm]


@dataclass(eq=False)
class _GraphPerStep:
    """One graph per step in one direction, in the order of the steps.

    joined: by first step and step behind the last, those that longer and shorter series of the same steps share.
    """

    of_step: StepSeries
    backward: bool = False
    joined: dict[tuple[int, int], Graph] = field(default_factory=dict)
    _at_end: dict[tuple[int, int], Graph] = field(init=False, default_factory=dict)

    def replay(self, begin: int, end: int) -> None:
        """Steps `begin` to `end - 1`."""
        pieces = [(first, min(first + LONGEST, end)) for first in range(begin, end, LONGEST)]
        for piece in reversed(pieces) if self.backward else pieces:
            known = self.joined if self.of_step.shared(piece[1]) else self._at_end
            if piece not in known:
                part = [self.of_step[step] for step in range(*piece)]
                known[piece] = joined(part[::-1] if self.backward else part)
            known[piece].rerun()


@dataclass(frozen=True, eq=False)
class _RecordedSteps:
    """The steps of a segment as recorded: all of them, or those that stand for all, and the graphs of all forward."""

    recorder: StepRecorder
    steady: SteadyState | None
    forward: _GraphPerStep
    memory: list[Remembered]
    read: list[array]
    written: list[Buffer]


@dataclass(eq=False)
class Segment:
    """`count` steps from `states[0]`, with all that their gradient needs.

    The first way forward is recorded on a tape and captured, one graph for each step; later ones replay the graphs,
    which fill the memory of the same records again.  Likewise the first way back sweeps the tape, later ones replay.
    given: what the steps read that is not of the workspace, once that has been asked for.
    whole: in whose memory its steps leave what they leave, where that is another segment.
    _content: whose steps the memory holds, the number of the first, and the versions of all that they wrote: another
    rollout that has used the segment since, say, has raised them.  Its owner, with all frames of it, is not kept alive.
    """

    count: int
    states: tuple[State, State]
    step: TakeStep
    every: int = 0
    given: list[array] | None = None
    whole: Segment | None = None
    _recording: _RecordedSteps | None = None
    _back: _GraphPerStep | None = None
    _content: tuple[ref[object], int, list[int]] | None = None

    @property
    def memory(self) -> list[Remembered]:
        """What is kept for the way back."""
        return self._recording.memory if self._recording is not None else []

    @property
    def owner(self) -> object:
        """For whom it was filled."""
        return self._content[0]() if self._content is not None else None

    @property
    def graphs(self) -> list[Graph]:
        """What has been captured of the way forward, one graph per direction: all others are like these."""
        return self._recording.forward.of_step.ends() if self._recording is not None else []

    @property
    def outdated(self) -> bool:
        """Whether an array has got another gradient since the way back was captured."""
        return self._back is not None and any(graph.outdated for graph in self._back.of_step.ends())

    def part(self, count: int) -> Segment | None:
        """A segment of so many steps in the memory of this one, for which nothing is recorded; None where not all of
        its steps would be as here.  One at a time holds what its steps left."""
        recording, back = self._recording, self._back
        if recording is None or back is None or recording.steady is None or not recording.steady.serves(count):
            return None
        steady, forward = recording.steady, recording.forward
        made = Segment(count, self.states, self.step, self.every, self.given, self)
        of_step = replace(forward, of_step=steady.forward(count))
        made._recording = replace(recording, forward=of_step, memory=steady.memory(count))
        made._back = replace(back, of_step=steady.backward(count))
        return made

    def holds(self, owner: object, first: int) -> bool:
        """Whether the memory holds what `forward` of the same owner and first step left, not written to since."""
        of = self._content
        return of is not None and of[0]() is owner and of[1] == first and of[2] == self._versions()

    def _versions(self) -> list[int]:
        return [buffer.version for buffer in self._recording.written] if self._recording is not None else []

    def forward(self, owner: object, first: int, frames: Frames) -> None:
        """Take the steps, for `owner`, the first is number `first`; `frames[step]` looks at the state after one."""
        self._content = None
        recording = self._recording
        if recording is None:
            self._recording, self._back = self._record(frames)
        else:
            self._replay(recording.forward, 0, frames)
        self._content = ref(owner), first, self._versions()

    def _record(self, frames: Frames) -> tuple[_RecordedSteps, _GraphPerStep | None]:
        """Take the steps, and record them; the way back too, where it is known without going it."""
        recorder = StepRecorder(self.states, self.step, self.every)
        steady, tape, graphs = steady_state(recorder, self.count, frames), recorder.tape, recorder.graphs
        if steady is None:
            recorder.take(self.count - len(graphs), frames)
        tape.release()  # nobody else writes the states, and replays write the same again
        forward = _GraphPerStep(StepSeries(self.count, graphs) if steady is None else steady.forward(self.count))
        memory = list(tape.memory()) if steady is None else steady.memory(self.count)
        self._replay(forward, len(graphs), frames)
        written = dict.fromkeys(buffer for graph in graphs for buffer in graph.written)
        made = _RecordedSteps(recorder, steady, forward, memory, joined(graphs).read, list(written))
        return made, None if steady is None else _GraphPerStep(steady.backward(self.count), backward=True)

    def _replay(self, forward: _GraphPerStep, begin: int, frames: Frames) -> None:
        """Take the steps from `begin` on."""
        for stop in sorted(stop for stop in {*(step + 1 for step in frames), self.count} if stop > begin):
            forward.replay(begin, stop)
            begin = stop
            if stop - 1 in frames:
                frames[stop - 1](self.states[stop % 2])

    @cached_property
    def gradients(self) -> tuple[list[array], list[array]]:
        """Of the two states, in the order of `State.differentiable`.  Nobody else knows these states: they stay."""
        first, second = ([a.grad for a in state.differentiable] for state in self.states)
        return first, second

    @cached_property
    def turn(self) -> Graph:
        """Takes the gradients of the first state, which the way back has left, to the last state, where it begins."""
        first, last = self.gradients[0], self.gradients[self.count % 2]
        with capture_only() as graph:
            for to, source in zip(last, first, strict=True):
                if to is not source:
                    device = to.device
                    add_native_node(partial(device.copy, to, source), partial(device.copy_row, to, source), source)
            clear_all(self.gradients[1 - self.count % 2])
        return graph

    @property
    def read(self) -> list[array]:
        """What the steps read, and do not write before."""
        return self._recording.read if self._recording is not None else []

    def back(self, frames: Frames, name: Callable[[int], str]) -> None:
        """Take gradients back from last state to first; `frames[step]` first adds to that of the state after it."""
        recording = self._recording
        assert recording is not None, "a segment goes back before it went forward"
        if self._back is not None and not watched():
            done = self.count
            for step in sorted(frames, reverse=True):
                self._back.replay(step + 1, done)
                done = step + 1
                frames[step](self.states[done % 2])
            self._back.replay(0, done)
            return
        graphs = list[Graph]()
        for step in reversed(range(self.count)):
            if step in frames:
                frames[step](self.states[1 - step % 2])
            graphs.append(self._step_back(recording, step))
            before = self.states[step % 2]
            passing(name(step), {"particle_q": before.particle_q, "particle_qd": before.particle_qd})
        if self._back is None:
            self._back = _GraphPerStep(StepSeries(self.count, graphs[::-1]), backward=True)
            recording.recorder.tape.records.clear()  # the graphs keep what they need

    def _step_back(self, recording: _RecordedSteps, step: int) -> Graph:
        if self._back is not None:
            graph = self._back.of_step[step]
            graph.rerun()
            return graph
        return recording.recorder.take_back(step)
