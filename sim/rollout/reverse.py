"""The way back through a rollout, segment by segment from the last.

Binomial checkpointing keeps log(steps) states at the price of log(steps) forward runs (A. Griewank, A. Walther,
"Algorithm 799: Revolve", 2000).  Here an interval is split more simply, into about states / 2 equal parts whose first
states are kept, and each part in the same way with half as many (`CheckpointSchedule.gap`); what is left at the end are
not steps but segments, which are replayed as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from sim.core.lang.errors import GradientError
from sim.core.runtime.arrays.array import array
from sim.model.state import State
from sim.rollout.budget import CheckpointSchedule
from sim.rollout.growth import GrowthMeter, magnitude, squares
from sim.rollout.segments import Beginning, Checkpoint, Segment
from sim.rollout.step_tables import LONGEST
from sim.rollout.trajectory import Plan, Trajectory
from sim.rollout.workspace import Workspace


class ReversibleRun(Protocol):
    """The run that goes back: what it has done and kept on its way forward."""

    plan: Plan
    result: Trajectory
    shown: list[array]
    schedule: CheckpointSchedule

    @property
    def last(self) -> int:
        """The first step of the last segment."""

    def run_segment(self, segment: Segment, checkpoint: Beginning, first: int, frames: bool) -> None:
        """Run a segment, from its checkpoint, with all that the gradient needs."""


@dataclass(eq=False)
class ReverseSweep:
    """One way back through a rollout.

    kept: checkpoints by step.  at_end: gradients of the state where what is left ends, wherever they lie: those of the
    result, then of the first state of the segment that it went through last.  of_frames: of the frames.
    """

    of: ReversibleRun
    w: Workspace
    kept: dict[int, Beginning]
    at_end: list[array] = field(init=False)
    of_frames: list[array] = field(init=False)
    meter: GrowthMeter = field(init=False)
    _segments: dict[int, Segment] = field(default_factory=dict)

    def run(self) -> None:
        """Turn the gradients of the result into those of the start, the forces and the model."""
        run, w, start = self.of, self.w, self.of.plan.start
        of_result = self.at_end = [_gradient(a) for a in run.result.final.differentiable]
        self.of_frames = [_gradient(a) for a in run.result.frames]
        shown = [a.grad for a in run.shown if a.grad is not None]
        self.meter = _meter(run.plan, self.of_frames, self.at_end, shown)
        w.clearing.rerun()
        w.take_forces(start)
        first = sorted(self.kept)
        self._reverse_segment(run.last, run.plan.steps - run.last, run.shown)
        for begin, end in reversed(list(zip(first, first[1:], strict=False))):
            self._reverse_interval(begin, end - begin, run.schedule.states)
        for a in (*of_result, *self.of_frames):
            a.device.clear(a)
        # a start without a history of its own gets no gradient for one: the history comes last
        for target, values in zip(start.differentiable, self.at_end, strict=False):
            if (gradient := target.grad) is not None:
                gradient.device.add(gradient, values)
        for mine, theirs in zip(w.forces, start.forces, strict=True):
            if mine.grad is not None and theirs.grad is not None:
                mine.device.add(theirs.grad, mine.grad)
        self.meter.tell(run.result.adjoint_growth)

    def _reverse_interval(self, first: int, count: int, states: int | None) -> None:
        """Back from step `first + count` to `first`, whose state is kept; with at most so many more states at once."""
        schedule, steps = self.of.schedule, self.w.steps
        if count <= schedule.every:
            self._reverse_segment(first, count)
            return
        gap = schedule.gap(count, states)
        self.kept[first].restore(steps.states[first % 2])
        made = list(range(first + gap, first + count, gap))
        for at, kept in zip(made, Checkpoint.several(steps.states[0], len(made)), strict=True):
            steps.run(at - gap, gap)
            kept.take(steps.states[at % 2])
            self.kept[at] = kept
        for at in [*reversed(made), first]:
            self._reverse_interval(at, min(gap, first + count - at), None if states is None else states // 2)
            if at != first:
                del self.kept[at]

    def _reverse_segment(self, first: int, count: int, multipliers: list[array] | None = None) -> None:
        """Back through one segment.  multipliers: those that show what was left at its end."""
        plan, kinds = self.of.plan, len(self.of_frames)
        segment = self._segments.get(count)
        if segment is None:
            segment = self._segments[count] = self.w.segment(count)
        if not segment.holds(self.of, first):
            self.of.run_segment(segment, self.kept[first], first, frames=False)
        self._seed(segment, multipliers or [])

        def arrive(step: int, state: State) -> None:
            gradients, frame = segment.gradients[(step + 1 - first) % 2][:kinds], plan.frame_after(step)
            if frame is not None:
                for gradient, put_in in zip(gradients, self.of_frames, strict=True):
                    gradient.device.add(gradient, put_in[frame])
            self.meter.look(step + 1, gradients)

        stops = {*plan.frames_in(first, count)}
        if plan.frame_every > LONGEST:  # where the graphs of steps are joined
            stops |= {*range(first + LONGEST - 1, first + count, LONGEST)}
        segment.back({step - first: partial(arrive, step) for step in stops}, lambda step: plan.name(first + step))
        self.at_end = segment.gradients[0]
        self.meter.look(first, self.at_end[:kinds])

    def _seed(self, segment: Segment, multipliers: list[array]) -> None:
        """The gradients with which the way back through a segment begins."""
        if self.at_end is segment.gradients[0]:
            segment.turn.rerun()
        else:
            last, other = segment.gradients[segment.count % 2], segment.gradients[1 - segment.count % 2]
            for to, values in zip(last, self.at_end, strict=True):
                to.device.copy(to, values)
            for a in other:
                a.device.clear(a)
        for shown, batch in zip(multipliers, self.w.solver.batches, strict=False):
            if shown.requires_grad and batch.multiplier.requires_grad:
                values = _gradient(shown)
                values.device.copy(_gradient(batch.multiplier), values)
                values.device.clear(values)


def _meter(plan: Plan, of_frames: list[array], at_end: list[array], shown: list[array]) -> GrowthMeter:
    """What looks at the gradient on its way back: it knows all that is put in on this way.  shown: the gradients of
    what is shown of the last step."""

    def of(arrays: list[array]) -> list[np.ndarray]:
        return [a.device.numpy(a) for a in arrays]

    kinds = len(of_frames)
    frame_after = [step + 1 for step in plan.frames_in(0, plan.steps)]
    if len(frame_after) == 1:
        put_in = np.array([magnitude(of(of_frames))])
    else:
        put_in = np.sqrt(sum(squares(a.reshape(len(a), -1)) for a in of(of_frames)))
    parts = at_end[:kinds], at_end[kinds : 2 * kinds], [*at_end[2 * kinds :], *shown]
    by_positions, by_velocities, by_others = (magnitude(of(part)) for part in parts)
    return GrowthMeter(plan.dt, frame_after, put_in, (by_positions, by_velocities, by_others))


def _gradient(a: array) -> array:
    """The gradient of an array that has one."""
    if a.grad is None:
        raise GradientError(
            f"an array of shape {a.shape} of a rollout has no gradient any more",
            hint="leave requires_grad as it was when recording",
        )
    return a.grad
