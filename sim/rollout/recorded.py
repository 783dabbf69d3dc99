"""A rollout on a tape: what it keeps on its way forward.

The steps before the last segment run without a tape; of them only checkpoints are kept, from which the reverse sweep
runs them again, segment by segment.  The last segment is recorded at once, because the sweep begins with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sim.core.lang.errors import GradientError
from sim.core.runtime.ambient.stacks import contained
from sim.core.runtime.arrays.array import array
from sim.core.runtime.devices.graph import Graph
from sim.core.runtime.tape.memory_report import Remembered
from sim.core.runtime.tape.tape import Tape
from sim.rollout.budget import CheckpointSchedule
from sim.rollout.reverse import ReverseSweep
from sim.rollout.runs import STACKS, Run
from sim.rollout.segments import Beginning, Checkpoint, Segment, Start
from sim.rollout.workspace import Workspace


@dataclass(eq=False)
class RecordedRun(Run):
    """One rollout of which as much is kept as a schedule says.

    inputs: what of the user's arrays the steps read; `back` is called while they have the content that they had then.
    kept: checkpoints by step, None while the way forward has not come to its end.  graphs: of the way forward: they
    tell whether the kernels of the steps would be the same today.
    """

    schedule: CheckpointSchedule
    inputs: list[array] = field(default_factory=list)
    kept: dict[int, Beginning] | None = None
    graphs: list[Graph] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The first step of the last segment, which is recorded at once: the reverse sweep begins with it."""
        return (self.plan.steps - 1) // self.schedule.every * self.schedule.every

    @property
    def outputs(self) -> list[array]:
        """What it writes, but for what is shown without a gradient."""
        return [*self.result.arrays, *(a for a in self.shown if a.requires_grad)]

    def execute(self, tape: Tape | None) -> None:
        """See `Run`; then the rollout is one record of the tape.  Where it raises, the tape knows of nothing."""
        super().execute(tape)
        assert tape is not None, "a recorded run needs a tape"
        detached = [a for a in self.shown if not a.requires_grad]
        tape.record_function(
            f"rollout of {self.plan.steps} steps",
            self.back,
            self.inputs,
            self.outputs,
            self.memory,
            detached,
        )

    def memory(self) -> list[Remembered]:
        """What is kept for the way back."""
        kept = [s.nbytes for s in (self.kept or {}).values() if s.nbytes]
        states = [Remembered(nbytes, "copy", "state between segments of a rollout") for nbytes in kept]
        return [*states, *self.pool.memory_of(self)]

    def _take_steps(self, w: Workspace) -> None:
        plan, steps, last = self.plan, w.steps, self.last
        self.kept, kept = None, dict[int, Beginning]({0: Start(plan.start)})
        if last:
            gap = self.schedule.gap(last + self.schedule.every, self.schedule.states)
            kept[0].restore(steps.states[0])
            ends = [*range(gap, last, gap), last]
            rooms = dict(zip(ends, Checkpoint.several(steps.states[0], len(ends)), strict=True))
            self._advance(steps, last, gap, rooms)
            kept |= rooms
        segment = w.segment(plan.steps - last)
        self.run_segment(segment, kept[last], last, frames=True)
        self.result.final.overwrite(segment.states[segment.count % 2])
        start = plan.start
        self.inputs = [*start.moving, start.clock, *start.forces, *w.given(segment)]
        self.kept, self.graphs = kept, segment.graphs

    def run_segment(self, segment: Segment, checkpoint: Beginning, first: int, frames: bool) -> None:
        """Run a segment, from its checkpoint, with all that the gradient needs."""
        checkpoint.restore(segment.states[0])
        steps = self.plan.frames_in(first, segment.count) if frames else ()
        segment.forward(self, first, {step - first: partial(self.keep_frame, step) for step in steps})

    def back(self) -> None:
        """The way back: from the gradients of the result to those of the start and of the model."""
        if self.kept is None:
            raise GradientError(
                "this rollout did not come to its end when its graph was replayed",
                hint="replay the graph again, or record again",
            )
        contained(self._back, *STACKS)

    def _back(self) -> None:
        with self.pool.workspace() as w:
            if any(graph.stale for graph in self.graphs) and not self._is_whole_in(w):
                raise GradientError(
                    f"a constant or function that a kernel of the rollout of {self.plan.steps} steps reads was changed"
                    " after that was recorded, and the way back has to run steps again: they would not be those of"
                    " then",
                    hint="go backward before the change, or record again",
                )
            ReverseSweep(self, w, dict(self.kept or {})).run()

    def _is_whole_in(self, w: Workspace) -> bool:
        """Whether a workspace still has all that was recorded, so that no step runs again."""
        segment = w.segments.get(self.plan.steps - self.last)
        return self.last == 0 and segment is not None and not segment.outdated and segment.holds(self, 0)
