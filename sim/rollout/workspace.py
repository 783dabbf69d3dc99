"""What the steps of rollouts need beside the user's arrays, and the pools from which they take it.

A *workspace* is memory and captured steps for one rollout at a time.  Who uses one takes it out of its pool, and gives
it back when it has come to its end.  Where it does not come to its end (an error, Ctrl-C at any instruction) the
workspace is gone with it, whatever state it was in; and two threads never use the same.

Captured steps are specialised, as what `jit` compiles is: to a solver with its settings, a control, the arrays that
both read, and a time step, all as they were when the first such rollout was made.  There is a *pool* for each of these
specialisations: what is set or replaced on the user's objects later leads to another one, and does not show in this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros_like
from sim.core.runtime.devices.graph import Graph, any_stale, capture_only
from sim.core.runtime.memory.buffer import Buffer
from sim.core.runtime.tape.memory_report import Remembered
from sim.model.collision.detection import ContactError, PairLists
from sim.model.control import Contacts, Control
from sim.model.state import State
from sim.rollout.segments import Segment, StepGraphs, clear_all
from sim.rollout.trajectory import NonFiniteState, Plan, blank_state
from sim.solvers.base import Solver
from sim.solvers.fingerprint import Likeness, copy_containers, fingerprint

MOST_POOLS = 8
"""Of each solver; the one not used for longest goes."""
MOST_SEGMENTS = 4
"""Segments of different lengths that a workspace keeps, each with memory of its own."""
MOST_PARTS = 32
"""Parts of these, and short ones."""
SHORT = 16
"""Steps of a segment that has memory of its own wherever it is wanted."""


@dataclass(eq=False)
class CapturedStep:
    """A step of a workspace.  It does not know the workspace: what captures it is part of that, and the memory of
    rollouts would wait for Python to look for cycles.

    every: how many steps look for pairs that may touch together, 0 where there are none.
    """

    solver: Solver
    control: Control | None
    dt: float

    def __post_init__(self) -> None:
        contact = self.solver.model.contact
        self.every = 0 if contact is None else contact.every
        self.contacts = None if contact is None else Contacts(self.solver.model, {}, PairLists(contact))

    def __call__(self, before: State, after: State, detect: bool) -> None:
        """Take it.  detect: look for pairs that may touch until the next step that does."""
        if detect:
            self.solver.model.collide(before, self.contacts, self.every * self.dt)
        self.solver.step(before, after, self.control, self.contacts, self.dt)


@dataclass(eq=False)
class Workspace:
    """A solver with scratch of its own, room for the external forces, and captured steps."""

    step: CapturedStep
    particle_f: array
    body_f: array
    steps: StepGraphs = field(init=False)
    segments: dict[int, Segment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.solver, self.every = self.step.solver, self.step.every
        self.steps = StepGraphs((self.state(), self.state()), self.step, self.every)

    @property
    def pairs(self) -> PairLists | None:
        """The pairs that may touch, where something collides with itself."""
        return None if self.step.contacts is None else self.step.contacts.pairs

    def state(self, forced: State | None = None) -> State:
        """A state in memory of its own, under the workspace's forces or those of another state."""
        return blank_state(self.solver, self if forced is None else forced)

    @property
    def forces(self) -> list[array]:
        """The external forces, in the order of `State.forces`."""
        return [a for a in (self.particle_f, self.body_f) if a.size]

    def take_forces(self, state: State) -> None:
        """The external forces of a state."""
        for mine, theirs in zip(self.forces, state.forces, strict=True):
            mine.device.copy(mine, theirs)
            mine.buffer.version += 1

    @cached_property
    def clearing(self) -> Graph:
        """Clears the gradients of what is not of a state."""
        with capture_only() as graph:
            clear_all([a.grad for a in (*self.forces, *self.solver.scratch) if a.grad is not None])
        return graph

    @property
    def buffers(self) -> set[Buffer]:
        """Memory that nobody else knows of, that of the segments aside."""
        states = [a for state in self.steps.states for a in (*state.moving, state.clock)]
        pairs = [] if self.pairs is None else self.pairs.arrays
        return {a.buffer for a in (*self.forces, *states, *self.solver.scratch, *pairs)}

    @property
    def stale(self) -> bool:
        """Whether a kernel of the steps, a constraint say, reads another constant or function than when captured."""
        graphs = self.steps.graphs
        for segment in self.segments.values():
            graphs += segment.graphs
        return any_stale(graphs)

    def given(self, segment: Segment) -> list[array]:
        """What the steps of a segment read that is not its own, nor the workspace's."""
        if segment.given is None:
            own = {*self.buffers, *(a.buffer for state in segment.states for a in (*state.moving, state.clock))}
            segment.given = [a for a in segment.read if a.buffer not in own]
        return segment.given

    def segment(self, count: int) -> Segment:
        """The segment of so many steps.  Those not used for longest are freed where there are too many; before that, a
        shorter one begins to share the memory of a longer."""
        found, kept = self.segments.pop(count, None), self.segments
        if found is None or found.outdated:
            found = self._part(count) or Segment(count, (self.state(), self.state()), self.step, self.every)
        if found.whole is not None:  # is used, too
            kept[found.whole.count] = kept.pop(found.whole.count)
        kept[count] = found
        own = [s for s in kept.values() if s.whole is None and s.count > SHORT]
        others = [s for s in kept.values() if s not in own]
        for gone in (*own[:-MOST_SEGMENTS], *others[:-MOST_PARTS]):
            kept = {length: s for length, s in kept.items() if gone not in (s, s.whole)}
        self.segments = kept
        return found

    def _part(self, count: int) -> Segment | None:
        """A part of the longest segment that has one of so many steps, where there are as many as there may be."""
        own = [s for s in self.segments.values() if s.whole is None and s.count > SHORT]
        if count <= SHORT or len(own) < MOST_SEGMENTS:
            return None
        longest_first = sorted(own, key=lambda segment: segment.count, reverse=True)
        return next((part for s in longest_first if not s.outdated and (part := s.part(count)) is not None), None)


@dataclass(eq=False)
class WorkspacePool:
    """The workspaces of one specialisation.  forced: do external forces have a gradient?

    holds: keeps alive what its key is made of, since a key knows objects by their identity.
    latest: the attributes of the solver and the arrays that it was last looked up for, where those can be recognised.
    like: a state of these steps, after whose form others can be made; None as long as there is none.
    """

    solver: Solver
    control: Control | None
    dt: float
    forced: bool
    holds: list[Any]
    latest: Likeness | None = None
    like: State | None = None
    _idle: list[Workspace] = field(default_factory=list)

    def make(self) -> Workspace:
        """A new workspace."""
        model = self.solver.model
        made = Workspace(
            CapturedStep(self.solver.bound(), self.control, self.dt),
            zeros_like(model.particle_qd, requires_grad=self.forced),
            zeros_like(model.body_qd, requires_grad=self.forced),
        )
        self.like = made.steps.states[0]
        return made

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """`with pool.workspace() as w:` takes one, and gives it back if the block comes to its end.

        A simulation that breaks down between two steps has come to its end too.
        """
        try:
            taken = self._idle.pop()
        except IndexError:
            taken = self.make()
        try:
            yield taken
        except (NonFiniteState, ContactError):
            self._give(taken)
            raise
        self._give(taken)

    @property
    def stale(self) -> bool:
        """See `Workspace.stale`."""
        return any(w.stale for w in self._idle)

    def serves_again(self, plan: Plan, forced: bool) -> bool:
        """Whether it is plain that it is the pool of these steps: no control, and nothing else than the last time."""
        return (
            plan.control is None is self.control
            and self.dt == plan.dt
            and self.forced == forced
            and self.latest is not None
            and self.latest.holds(vars(plan.solver), plan.used)
            and not self.stale
        )

    def memory_of(self, owner: object) -> list[Remembered]:
        """What the segments of an owner keep."""
        return [entry for w in self._idle for s in w.segments.values() if s.owner is owner for entry in s.memory]

    def _give(self, workspace: Workspace) -> None:
        if not self._idle:
            self._idle.append(workspace)


_pools: WeakKeyDictionary[Solver, dict[Hashable, WorkspacePool]] = WeakKeyDictionary()
"""Of each solver, the last used last."""
_lock = Lock()


def pool_of(plan: Plan) -> WorkspacePool:
    """The pool for the steps of a rollout: one that there is, or new."""
    solver, control, forced = plan.solver, plan.control, any(a.requires_grad for a in plan.start.forces)
    with _lock:
        known = _pools.setdefault(solver, {})
        there = list(known.items())
    for key, pool in reversed(there):  # gradients and forward runs of one search take turns
        if pool.serves_again(plan, forced):
            if pool is not there[-1][1]:
                with _lock:
                    known[key] = known.pop(key, pool)
            return pool
    fields = list(vars(control).items()) if control is not None else []
    used = plan.used
    key = (
        plan.dt,
        forced,
        type(control),
        tuple((name, fingerprint(value)) for name, value in fields),
        solver.settings,
        tuple(map(fingerprint, used)),
    )
    with _lock:
        found = known.pop(key, None)
        if found is None or found.stale:
            found = WorkspacePool(
                solver.bound(),
                control,
                plan.dt,
                forced,
                [*used, *map(copy_containers, vars(solver).values()), *(copy_containers(value) for _, value in fields)],
            )
        found.latest = Likeness.of(vars(solver), used)
        known[key] = found
        while len(known) > MOST_POOLS:
            known.pop(next(iter(known)))
    return found
