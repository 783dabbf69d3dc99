"""What a rollout leaves behind, and the plan of its steps."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from sim.core.lang.errors import SimError
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import empty, empty_like
from sim.core.runtime.memory.buffer import Strided
from sim.display import painter
from sim.model.collision.detection import SurfaceOverlap
from sim.model.control import Control
from sim.model.state import State
from sim.rollout.growth import AdjointGrowth
from sim.solvers.base import Solver
from sim.solvers.fingerprint import copy_containers


class Forced(Protocol):
    """What has external forces: a state, or a workspace."""

    particle_f: array
    body_f: array


class NonFiniteState(SimError, FloatingPointError):
    """A forward run became NaN or infinite: names step, time and point."""


@dataclass(eq=False)
class Trajectory:
    """Result of a rollout.

    particle_q: (frames, points) vec3 [m], positions after every `frame_every` steps (the last step alone if None).
    body_q:     (frames, bodies) transforms [m], poses of the origins of the bodies after the same steps.
    final:      the state after the last step.
    adjoint_growth: how the gradient grew on its way back, after `Tape.backward`; `useful`, and up to which `horizon`.
    penetration: of surfaces that collide with themselves.
    interval: time [s] from one frame to the next.
    """

    particle_q: array
    body_q: array
    final: State
    adjoint_growth: AdjointGrowth
    penetration: SurfaceOverlap = field(default_factory=SurfaceOverlap)
    interval: float = 0.0

    def __repr__(self) -> str:
        frames, points = self.particle_q.shape
        bodies = f" and {self.body_q.shape[1]} bodies" if self.body_q.size else ""
        return f"Trajectory({frames} frames of {points} points{bodies}, up to t={self.final.time:g} s)"

    def _repr_html_(self) -> str | None:
        """In a notebook: the player."""
        return None if painter.trajectory is None else painter.trajectory(self)

    @property
    def frames(self) -> list[array]:
        """The positions of the frames, in the order of `State.positions`."""
        return [a for a in (self.particle_q, self.body_q) if a.size]

    @property
    def arrays(self) -> list[array]:
        """All that a rollout writes, the clock last."""
        return [*self.frames, *self.final.moving, self.final.clock]

    def bound(self) -> Trajectory:
        """The same arrays under another object, where those stay that this one has now."""
        return replace(self, final=self.final.bound())


@dataclass(eq=False)
class Plan:
    """The steps of one rollout: from the arrays that the start and the control have now.

    What the user puts in their place later is no part of it, so that the reverse sweep takes the same steps.
    used: arrays beside the state that the steps read.
    """

    solver: Solver
    start: State
    steps: int
    dt: float
    control: Control | None
    frame_every: int
    used: list[array] = field(init=False)

    def __post_init__(self) -> None:
        self.used = self.solver.inputs
        self.start, self.control = self.start.bound(), copy.copy(self.control)
        history = self.start.history
        self.start.history = {f.name: history[f.name] for f in self.solver.history if f.name in history}
        if self.control is not None:
            vars(self.control).update({name: copy_containers(value) for name, value in vars(self.control).items()})

    @property
    def inputs(self) -> list[array]:
        """Arrays of the user's that the steps read."""
        given = [a for a in vars(self.control).values() if isinstance(a, array)] if self.control is not None else []
        return [*self.start.moving, self.start.clock, *self.start.forces, *given, *self.used]

    def result(self, like: State | None = None) -> Trajectory:
        """Room for the result.  like: a state of the same kind, if there is one."""
        model = self.solver.model
        of_particles, of_bodies = map(self._frames_of, (model.particle_q, model.body_q))
        eps = float(np.finfo(f"float{8 * model.dtype.size}").eps)
        final = blank_state(self.solver, self.start) if like is None else like.sibling(self.start)
        return Trajectory(of_particles, of_bodies, final, AdjointGrowth(eps), interval=self.dt * self.frame_every)

    def _frames_of(self, q: array) -> array:
        shape = (self.steps // self.frame_every, *q.shape)
        if not q.size:
            return q.reshape(shape)
        return empty(shape, q.dtype, q.device, requires_grad=self.solver.model.requires_grad)

    def name(self, step: int) -> str:
        """What a step is called in messages; the first is 1."""
        return f"step {step + 1} of {self.steps}"

    def frame_after(self, step: int) -> int | None:
        """Number of the frame that is kept after a step, or None."""
        return (step + 1) // self.frame_every - 1 if (step + 1) % self.frame_every == 0 else None

    def frames_in(self, first: int, count: int) -> Iterable[int]:
        """Those of `count` steps from `first` on after which a frame is kept."""
        every = self.frame_every
        return range((first + every) // every * every - 1, first + count, every)


def blank_state(solver: Solver, forced: Forced) -> State:
    """A state for a solver in memory of its own, of undefined content, under the external forces of another."""
    model = solver.model
    grad = model.requires_grad
    moving = (model.particle_q, model.particle_qd, model.body_q, model.body_qd)
    q, qd, body_q, body_qd = (empty_like(a, requires_grad=grad) for a in moving)
    internal = {
        name: empty(a.shape, a.dtype, model.device, requires_grad=model.requires_grad)
        for name, a in model.internal_variables.items()
    }
    made = State(model, q, qd, forced.particle_f, body_q, body_qd, forced.body_f, time=0.0, internal_variables=internal)
    made.carry(solver.history)
    return made


def is_finite(a: Strided) -> bool:
    """Whether all numbers of an array are finite."""
    return bool(np.isfinite(a.buffer.device.numpy(a)).all())
