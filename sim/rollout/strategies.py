"""How the gradient of a rollout finds its way back: everything stored, or checkpoints and short stretches run again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.core.lang.types import size_of, vector
from sim.core.runtime import recording, shadows
from sim.core.runtime.array import array
from sim.core.runtime.creation import copy
from sim.core.runtime.graph import Graph, capture
from sim.core.runtime.marks import passing
from sim.core.runtime.tape import Tape
from sim.model.state import State
from sim.rollout.trajectory import Plan, Trajectory


class Strategy(Protocol):
    """Runs a plan under a tape."""

    def run(self, plan: Plan, tape: Tape) -> Trajectory: ...


@dataclass(frozen=True)
class StoreAll:
    """Everything that the reverse sweep needs is kept, on the tape itself."""

    def run(self, plan: Plan, tape: Tape) -> Trajectory:
        result = plan.result()
        a, b = plan.scratch(), plan.scratch()
        a.follow(plan.start)
        for step in range(plan.steps):
            tape.mark(plan.name(step), {"particle_q": a.particle_q, "particle_qd": a.particle_qd})
            plan.step_of(step, a, b)
            a, b = b, a
            frame = plan.frame_after(step)
            if frame is not None:
                plan.check(a, step)
                copy(result.particle_q[frame], a.particle_q)
        result.final.follow(a)
        return result


@dataclass(eq=False)
class Replay:
    """Runs a plan without a tape: one step is captured in each direction between two states, the rest are replays."""

    plan: Plan

    def run(self, result: Trajectory, every: int = 0) -> list[Snapshot]:
        """Fill `result`; returns a snapshot before every `every`-th step (0: none)."""
        plan, kept = self.plan, []
        states = (plan.scratch(), plan.scratch())
        states[0].follow(plan.start)
        graphs: list[Graph] = []
        for step in range(plan.steps):
            before, after = states[step % 2], states[1 - step % 2]
            if every and step % every == 0:
                kept.append(Snapshot.of(before))
            if shadows.current() is not None:  # somebody looks at every launch
                plan.step_of(step, before, after)
            elif step < 2:
                with capture() as graph:
                    plan.step(before, after)
                graphs.append(graph)
            else:
                graphs[step % 2].replay()
            frame = plan.frame_after(step)
            if frame is not None:
                plan.check(after, step)
                copy(result.particle_q[frame], after.particle_q)
        result.final.follow(states[plan.steps % 2])
        return kept


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A state, as NumPy copies."""

    moving: list[np.ndarray]
    time: float

    @classmethod
    def of(cls, state: State) -> Snapshot:
        return cls([a.device.numpy(a).copy() for a in state.moving], state.time)

    def restore(self, state: State) -> None:
        for target, values in zip(state.moving, self.moving, strict=True):
            target.assign(values)
        state.time = self.time


@dataclass(frozen=True)
class Checkpointed:
    """The state is kept every `every` steps; the reverse sweep runs each stretch again and goes back through it.

    budget: instead of `every`, the memory that the gradient may take, in bytes or as "200 MB": the longest stretch that
        fits is chosen, or the one that takes least.
    """

    every: int | None = None
    budget: str | float | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.budget is None):
            raise ValueError("Checkpointed takes either every= or budget=")
        if self.every is not None and self.every < 1:
            raise ValueError(f"every={self.every}; expected at least 1")

    def stretch(self, plan: Plan) -> int:
        """Steps per stretch."""
        if self.every is not None:
            return min(self.every, plan.steps)
        assert self.budget is not None
        return choose_stretch(plan, parse_bytes(self.budget))

    def run(self, plan: Plan, tape: Tape) -> Trajectory:
        every, start = self.stretch(plan), plan.start
        result = plan.result()
        external = [start.particle_f] + ([plan.control.motion_vector] if plan.control is not None else [])
        inputs = [*start.moving, start.clock, *external, *plan.solver.inputs]
        outputs = [result.particle_q, *result.final.moving, result.final.clock]
        kept: list[Snapshot] = []
        tape.record_function(f"rollout of {plan.steps} steps", lambda: _Sweep(plan, result, every).run(kept), inputs, outputs)
        with recording.paused(), plan.solver.model.hold():
            kept += Replay(plan).run(result, every)
        return result


@dataclass(eq=False)
class _Stretch:
    """The captured steps of one stretch: how to run each forward, and how to take gradients back through it."""

    forward: list[Graph]
    back: list[Graph]
    tape: Tape
    marks: list[int]
    """Where the records of each step begin on the tape, and where the last one's end."""


class _Sweep:
    """The reverse sweep over the stretches of one rollout."""

    def __init__(self, plan: Plan, result: Trajectory, every: int) -> None:
        self.plan, self.result, self.every = plan, result, every
        self.states = (plan.scratch(), plan.scratch())
        self.captured: dict[int, _Stretch] = {}

    def run(self, kept: list[Snapshot]) -> None:
        plan, result = self.plan, self.result
        at_end = [_take(a) for a in result.final.moving]
        of_frames = _take(result.particle_q)
        with plan.solver.model.hold():
            for number in reversed(range(len(kept))):
                first = number * self.every
                kept[number].restore(self.states[0])
                at_end = self.stretch(first, min(self.every, plan.steps - first), at_end, of_frames)
        for target, values in zip(plan.start.moving, at_end, strict=True):
            if target.grad is not None:
                _gradient(target)[...] += values

    def stretch(self, first: int, count: int, at_end: list[np.ndarray], of_frames: np.ndarray) -> list[np.ndarray]:
        """Gradient at the start of a stretch from the one at its end; adds to the gradients of the model."""
        known = self.captured.get(count)
        if known is None:
            known = self.captured[count] = self.capture_forward(count)
        else:
            for graph in known.forward:
                graph.replay()
        for state in self.states:
            for a in state.moving:
                _take(a)
        end = self.states[count % 2]
        for target, values in zip(end.moving, at_end, strict=True):
            _gradient(target)[...] = values
        new = not known.back
        for step in reversed(range(count)):
            frame = self.plan.frame_after(first + step)
            if frame is not None:
                _gradient(self.states[(step + 1) % 2].particle_q)[...] += of_frames[frame]
            if new:
                begin, stop = known.marks[step], known.marks[step + 1]
                with capture() as graph:
                    known.tape.sweep(begin, stop)
                known.back.insert(0, graph)
            else:
                known.back[step].replay()
            before = self.states[step % 2]
            passing(self.plan.name(first + step), {"particle_q": before.particle_q, "particle_qd": before.particle_qd})
        if new:
            known.tape.release()  # the captured steps write the same again
        return [_take(a) for a in self.states[0].moving]

    def capture_forward(self, count: int) -> _Stretch:
        """Run the steps under a tape of their own, noting what each does to memory."""
        tape, forward, marks = Tape(), [], []
        with tape:
            for step in range(count):
                marks.append(len(tape.records))
                with capture() as graph:
                    self.plan.step(self.states[step % 2], self.states[1 - step % 2])
                forward.append(graph)
        marks.append(len(tape.records))
        return _Stretch(forward, [], tape, marks)


def _gradient(a: array) -> np.ndarray:
    assert a.grad is not None
    return a.grad.device.numpy(a.grad)


def _take(a: array) -> np.ndarray:
    """The gradient of an array, which is cleared."""
    view = _gradient(a)
    values = view.copy()
    view[...] = 0
    assert a.grad is not None
    a.grad.buffer.left_by_backward = False
    return values


# ------------------------------------------------------------------------------------------------ memory
def parse_bytes(budget: str | float) -> float:
    """Bytes from a number or text like "200 MB"."""
    if not isinstance(budget, str):
        return float(budget)
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kMG]?)i?B?\s*", budget)
    if not match:
        raise ValueError(f"budget={budget!r}; expected bytes, or text like '200 MB'")
    return float(match[1]) * {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}[match[2]]


def bytes_per_step(plan: Plan) -> float:
    """Bytes that a tape keeps for one step: the recorded loads of every projection, and copies of positions."""
    model = plan.solver.model
    recorded = sum(p.set.count * 3 * p.set.constraint.points for p in plan.solver.passes) * model.dtype.size
    return plan.solver.sweeps * recorded + model.particle_count * size_of(vector(3, model.dtype))


def gradient_bytes(plan: Plan, every: int) -> float:
    """Memory of a gradient with stretches of `every` steps: the snapshots, and one stretch at a time."""
    model = plan.solver.model
    snapshot = 2.0 * model.particle_count * size_of(vector(3, model.dtype))
    return snapshot * (-(-plan.steps // every)) + bytes_per_step(plan) * every


def choose_stretch(plan: Plan, budget: float) -> int:
    """The longest stretch that fits into the budget, or the one that takes least memory."""
    lengths = range(1, plan.steps + 1)
    fitting = [k for k in lengths if gradient_bytes(plan, k) <= budget]
    return max(fitting) if fitting else min(lengths, key=lambda k: gradient_bytes(plan, k))
