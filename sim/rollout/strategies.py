"""How the gradient of a rollout finds its way back: everything stored, or checkpoints and short stretches run again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.core.lang.types import size_of, vector
from sim.core.runtime import recording
from sim.core.runtime.array import array
from sim.core.runtime.creation import copy, empty
from sim.core.runtime.tape import Tape
from sim.model.state import State
from sim.rollout.trajectory import Plan, Trajectory


class Strategy(Protocol):
    """Runs a plan under a tape."""

    def run(self, plan: Plan, tape: Tape) -> Trajectory: ...


def run_plainly(plan: Plan) -> Trajectory:
    """No tape: two buffers that change places."""
    result = plan.result()
    a, b = plan.scratch(), plan.scratch()
    _assign(a, plan.start)
    last = plan.run(a, b, 0, plan.steps, lambda frame, state: copy(result.particle_q[frame], state.particle_q))
    _assign(result.final, last)
    return result


def _assign(target: State, source: State) -> None:
    """Position, velocity and time; the forces of a rollout stay those of its start."""
    target.particle_q.assign(source.particle_q)
    target.particle_qd.assign(source.particle_qd)
    target.time = source.time


@dataclass(frozen=True)
class StoreAll:
    """Everything that the reverse sweep needs is kept."""

    def run(self, plan: Plan, tape: Tape) -> Trajectory:
        return run_plainly(plan)


@dataclass(frozen=True)
class Checkpointed:
    """The state is kept every `every` steps; the reverse sweep runs each stretch again under a tape of its own.

    budget: instead of `every`, the memory that the gradient may take, as bytes or "200 MB": picks the shortest stretch
    count that fits.
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
        every, model = self.stretch(plan), plan.solver.model
        result = plan.result()
        start = plan.start
        external = [start.particle_f] + ([plan.control.motion_vector] if plan.control is not None else [])
        inputs = [start.particle_q, start.particle_qd, *external, *plan.solver.inputs]
        outputs = [result.particle_q, result.final.particle_q, result.final.particle_qd]
        firsts = range(0, plan.steps, every)
        kept: list[tuple[np.ndarray, np.ndarray, float]] = []

        def backward() -> None:
            _Sweep(plan, result, every).run(kept)

        tape.record_function(f"rollout of {plan.steps} steps", backward, inputs, outputs)
        with recording.paused(), model.hold():
            a, b = plan.scratch(), plan.scratch()
            _assign(a, start)
            for first in firsts:
                kept.append((np.array(a.particle_q.numpy()), np.array(a.particle_qd.numpy()), a.time))
                count = min(every, plan.steps - first)
                last = plan.run(a, b, first, count, lambda frame, state: copy(result.particle_q[frame], state.particle_q))
                a, b = (last, b) if last is a else (last, a)
            _assign(result.final, a)
        return result


class _Sweep:
    """The reverse sweep over the stretches of one rollout."""

    def __init__(self, plan: Plan, result: Trajectory, every: int) -> None:
        model = plan.solver.model
        self.plan, self.result, self.every = plan, result, every
        self.begin, self.ping, self.pong = plan.scratch(), plan.scratch(), plan.scratch()
        frames = every // plan.frame_every + 1
        self.frames = empty((frames, model.particle_count), vector(3, model.dtype), model.device, requires_grad=True)

    def run(self, kept: list[tuple[np.ndarray, np.ndarray, float]]) -> None:
        plan = self.plan
        at_end = [_take(self.result.final.particle_q), _take(self.result.final.particle_qd)]
        of_frames = _take(self.result.particle_q)
        for number in reversed(range(len(kept))):
            first = number * self.every
            q, qd, self.begin.time = kept[number]
            self.begin.particle_q.assign(q)
            self.begin.particle_qd.assign(qd)
            at_end = self.stretch(first, min(self.every, plan.steps - first), at_end, of_frames)
        for target, values in zip((plan.start.particle_q, plan.start.particle_qd), at_end, strict=True):
            _add(target, values)

    def stretch(self, first: int, count: int, at_end: list[np.ndarray], of_frames: np.ndarray) -> list[np.ndarray]:
        """Gradient at the start of a stretch from the one at its end; adds to the gradients of the model."""
        scratch = [s for state in (self.begin, self.ping, self.pong) for s in (state.particle_q, state.particle_qd)]
        for a in (*scratch, self.frames):
            _take(a)
        seen: list[int] = []

        def on_frame(frame: int, state: State) -> None:
            copy(self.frames[len(seen)], state.particle_q)
            seen.append(frame)

        with self.plan.solver.model.hold(), Tape() as tape:
            _assign(self.ping, self.begin)
            last = self.plan.run(self.ping, self.pong, first, count, on_frame)
        seeds: dict[array, array] = {}
        for target, values in zip((last.particle_q, last.particle_qd), at_end, strict=True):
            seeds[target] = array(values, dtype=target.dtype, copy=False)
        for row, frame in enumerate(seen):
            seeds[self.frames[row]] = array(np.ascontiguousarray(of_frames[frame]), dtype=self.frames.dtype, copy=False)
        tape.backward(grads=seeds)
        return [_take(self.begin.particle_q), _take(self.begin.particle_qd)]


def _take(a: array) -> np.ndarray:
    """The gradient of an array, which is cleared."""
    assert a.grad is not None
    view = a.grad.device.numpy(a.grad)
    values = view.copy()
    view[...] = 0
    a.grad.buffer.left_by_backward = False
    return values


def _add(a: array, values: np.ndarray) -> None:
    if a.grad is not None:
        a.grad.device.numpy(a.grad)[...] += values


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
    """Bytes that a tape keeps for one step: the recorded loads of every projection."""
    real = plan.solver.model.dtype.size
    per_iteration = sum(p.set.count * (3 * p.set.constraint.points + p.set.constraint.rows) * real for p in plan.solver.passes)
    return plan.solver.iterations * per_iteration + plan.solver.model.particle_count * size_of(vector(3, plan.solver.model.dtype))


def gradient_bytes(plan: Plan, every: int) -> float:
    """Memory of a gradient with stretches of `every` steps: the checkpoints, and one stretch at a time."""
    state = 2.0 * plan.solver.model.particle_count * size_of(vector(3, plan.solver.model.dtype))
    return state * (-(-plan.steps // every)) + bytes_per_step(plan) * every


def choose_stretch(plan: Plan, budget: float) -> int:
    """The longest stretch that fits into the budget, or the one that takes least memory."""
    best = min(range(1, plan.steps + 1), key=lambda k: gradient_bytes(plan, k))
    fitting = [k for k in _candidates(plan.steps) if gradient_bytes(plan, k) <= budget]
    return max([*fitting, best] if gradient_bytes(plan, best) > budget or fitting else [best])


def _candidates(steps: int) -> Iterator[int]:
    yield from range(1, steps + 1)
