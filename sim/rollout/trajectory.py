"""What a rollout leaves behind, and the plan of its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.core.lang.errors import SimError
from sim.core.lang.types import vector
from sim.core.runtime import recording
from sim.core.runtime.array import array
from sim.core.runtime.creation import empty
from sim.core.runtime.nonfinite import NonFiniteError
from sim.model.control import Control
from sim.model.state import State
from sim.solvers.base import Solver


class NonFiniteState(SimError, FloatingPointError):
    """A forward run became NaN or infinite: names step, time and point."""


@dataclass(eq=False)
class Trajectory:
    """Result of a rollout.

    particle_q: (frames, points) vec3 [m], positions after every `frame_every` steps (the last step alone if None).
    final:      the state after the last step.
    """

    particle_q: array
    final: State

    def __repr__(self) -> str:
        frames, points = self.particle_q.shape
        return f"Trajectory({frames} frames of {points} points, up to t={self.final.time:g} s)"


@dataclass(eq=False)
class Plan:
    """The steps of one rollout."""

    solver: Solver
    start: State
    steps: int
    dt: float
    control: Control | None
    frame_every: int

    def result(self) -> Trajectory:
        model = self.solver.model
        frames = empty((self.steps // self.frame_every, model.particle_count), vector(3, model.dtype), model.device, requires_grad=model.requires_grad)
        return Trajectory(frames, self.scratch())

    def scratch(self, forces: array | None = None) -> State:
        """A state of its own memory, under the external forces of the start, or others."""
        model = self.solver.model
        kind = vector(3, model.dtype)
        q, qd = (empty(model.particle_count, kind, model.device, requires_grad=model.requires_grad) for _ in range(2))
        memory = {name: empty(a.shape, a.dtype, model.device, requires_grad=model.requires_grad) for name, a in self.start.memory.items()}
        return State(model, q, qd, self.start.particle_f if forces is None else forces, self.start.time, memory)

    def step(self, before: State, after: State) -> None:
        self.solver.step(before, after, self.control, None, self.dt)

    def name(self, step: int) -> str:
        """What a step is called in messages; the first is 1."""
        return f"step {step + 1} of {self.steps}"

    def step_of(self, step: int, before: State, after: State) -> None:
        """The step of this number; says so where a launch makes a number that is not finite."""
        try:
            self.step(before, after)
        except NonFiniteError as problem:
            raise problem.at(self.name(step)) from None

    def frame_after(self, step: int) -> int | None:
        """Number of the frame that is kept after a step, or None."""
        return (step + 1) // self.frame_every - 1 if (step + 1) % self.frame_every == 0 else None

    def frames_in(self, first: int, count: int) -> range:
        """Those of `count` steps from `first` on after which a frame is kept."""
        every = self.frame_every
        return range((first + every) // every * every - 1, first + count, every)

    def check(self, state: State, step: int) -> None:
        """Raise where a position is no longer finite."""
        q = state.particle_q.device.numpy(state.particle_q)
        if np.isfinite(np.dot(q.ravel(), np.zeros(q.size, q.dtype))):
            return
        raise self.locate(step)

    def locate(self, step: int) -> NonFiniteState:
        """Run again to find the first step, and the constraint and point where it happened."""
        with recording.paused():
            a, b = self.scratch(), self.scratch()
            a.follow(self.start)
            for k in range(step + 1):
                self.step(a, b)
                a, b = b, a
                if not np.isfinite(a.particle_q.device.numpy(a.particle_q)).all():
                    return NonFiniteState(
                        f"the simulation became non-finite in step {k + 1} of {self.steps} (t = {a.time:.6g} s), first "
                        f"{self.solver.blame(b, a, self.control, self.dt)}; take shorter steps (more substeps), or check masses and compliances"
                    )
        return NonFiniteState(f"the simulation became non-finite before step {step + 1} of {self.steps}")
