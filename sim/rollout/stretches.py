"""Captured steps of a solver: replayed by rollouts, by reverse sweeps, and by later rollouts of the same solver.

A *stretch* is a number of steps that were recorded on a tape of their own and captured as graphs, forward and backward.  It owns the
memory of its records, which every replay fills again, and the two states that the steps go between: nobody else writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.core.runtime.array import array, clone
from sim.core.runtime.creation import empty_like
from sim.core.runtime.graph import Graph, capture, joined
from sim.core.runtime.marks import passing, watched
from sim.core.runtime.tape import Remembered, Tape
from sim.model.state import State
from sim.rollout.trajectory import Plan

KEPT = 8
"""Kinds of rollouts (time step, forces, motions) that a solver remembers the steps of; the one not used for longest goes."""
LONGEST = 64
"""Steps that are joined to one table."""
LENGTHS = 4
"""Stretches of different lengths that are kept for one kind of rollout."""
Frames = Mapping[int, Callable[[State], None]]
"""What to do with the state after a step, by step."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A state, as copies of its arrays."""

    moving: list[array]
    clock: array

    @classmethod
    def of(cls, state: State) -> Snapshot:
        return cls([clone(a, requires_grad=False) for a in state.moving], clone(state.clock, requires_grad=False))

    def restore(self, state: State) -> None:
        for target, values in zip([*state.moving, state.clock], [*self.moving, self.clock], strict=True):
            target.assign(values)

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.moving) + self.clock.nbytes


@dataclass(eq=False)
class Steps:
    """Steps between two states, captured in each direction without a tape."""

    states: tuple[State, State]
    _graphs: dict[int, Graph] = field(default_factory=dict)
    _joined: dict[tuple[int, int], Graph] = field(default_factory=dict)

    @property
    def stale(self) -> bool:
        """See `Graph.stale`."""
        return any(graph.stale for graph in self._graphs.values())

    def run(self, plan: Plan, first: int, count: int) -> None:
        """Take steps `first` to `first + count - 1`; step k begins in `states[k % 2]`."""
        plan.solver.turn += 1
        while count:
            side = first % 2
            if side not in self._graphs:
                with capture() as graph:
                    plan.step(self.states[side], self.states[1 - side])
                self._graphs[side], taken = graph, 1
            elif 1 - side not in self._graphs:
                self._graphs[side].replay()
                taken = 1
            else:
                taken = min(count, LONGEST)
                if (side, taken) not in self._joined:
                    self._joined[side, taken] = joined([self._graphs[(side + k) % 2] for k in range(taken)])
                self._joined[side, taken].replay()
            first, count = first + taken, count - taken


@dataclass(eq=False)
class Stretch:
    """`count` steps from `states[0]`, with all that their gradient needs.  `content`: whose steps the memory holds now."""

    count: int
    states: tuple[State, State]
    content: object = None
    memory: list[Remembered] = field(default_factory=list)
    _forward: list[Graph] = field(default_factory=list)
    _back: list[Graph] = field(default_factory=list)
    _tape: Tape = field(default_factory=Tape)
    _marks: list[int] = field(default_factory=list)
    _joined: dict[tuple[bool, int, int], Graph] = field(default_factory=dict)

    @property
    def outdated(self) -> bool:
        """Whether an array has got another gradient since the way back was captured."""
        return any(graph.outdated for graph in self._back[:2])  # the others go between the same two states

    @property
    def stale(self) -> bool:
        """See `Graph.stale`."""
        return any(graph.stale for graph in self._forward[:2])  # the others go between the same two states

    def run(self, plan: Plan, frames: Frames) -> None:
        """Take the steps."""
        plan.solver.turn += 1
        if self._forward:
            done = 0
            for stop in sorted({*(step + 1 for step in frames), self.count}):
                self._replay(True, done, stop)
                done = stop
                if stop - 1 in frames:
                    frames[stop - 1](self.states[stop % 2])
            return
        graphs = []
        for step in range(self.count):
            self._marks.append(len(self._tape.records))
            with capture() as graph, self._tape:
                plan.step(self.states[step % 2], self.states[1 - step % 2])
            graphs.append(graph)
            if step in frames:
                frames[step](self.states[1 - step % 2])
        self._marks.append(len(self._tape.records))
        self._forward, self.memory = graphs, list(self._tape.memory())
        self._tape.release()  # nobody else writes the states, and replays write the same again

    def back(self, frames: Frames, name: Callable[[int], str]) -> None:
        """Take gradients back from the last state to the first; `frames[step]` first adds to the gradient of the state after it."""
        if self._back and not watched():
            done = self.count
            for step in sorted(frames, reverse=True):
                self._replay(False, step + 1, done)
                done = step + 1
                frames[step](self.states[done % 2])
            self._replay(False, 0, done)
            return
        graphs = self._back or [Graph() for _ in range(self.count)]
        for step in reversed(range(self.count)):
            if step in frames:
                frames[step](self.states[1 - step % 2])
            if self._back:
                graphs[step].replay()
            else:
                with capture() as graphs[step]:
                    self._tape.sweep(self._marks[step], self._marks[step + 1])
            before = self.states[step % 2]
            passing(name(step), {"particle_q": before.particle_q, "particle_qd": before.particle_qd})
        if not self._back:
            self._back = graphs
            self._tape.records.clear()  # the graphs keep what they need

    def _replay(self, forward: bool, begin: int, end: int) -> None:
        for first in range(begin, end, LONGEST) if forward else reversed(range(begin, end, LONGEST)):
            key = (forward, first, min(first + LONGEST, end))
            if key not in self._joined:
                part = (self._forward if forward else self._back)[key[1] : key[2]]
                self._joined[key] = joined(part if forward else part[::-1])
            self._joined[key].replay()


@dataclass(eq=False)
class Captured:
    """What is remembered of one kind of rollout of a solver.

    forces: external forces, copied from the start of a rollout.  holds: keeps alive what its key is made of.
    """

    steps: Steps
    forces: array
    holds: list[array]
    stretches: dict[int, Stretch] = field(default_factory=dict)

    @property
    def stale(self) -> bool:
        """Whether a kernel of the steps, a constraint of the user say, reads another constant or function now than when it was captured."""
        return self.steps.stale or any(stretch.stale for stretch in self.stretches.values())

    def stretch(self, plan: Plan, count: int) -> Stretch:
        """The stretch of so many steps; of at most `LENGTHS`, so that memory of rollouts with other ones is freed."""
        found = self.stretches.pop(count, None)
        if found is None or found.outdated:
            found = Stretch(count, (plan.scratch(self.forces), plan.scratch(self.forces)))
        self.stretches[count] = found
        while len(self.stretches) > LENGTHS:
            self.stretches.pop(next(iter(self.stretches)))
        return found


def captured(plan: Plan) -> Captured:
    """What is remembered of rollouts like this one: of the same arrays, time step and settings."""
    arrays = [*([plan.control.motion_vector] if plan.control is not None else []), *plan.solver.inputs]
    key = (plan.dt, plan.solver.settings, plan.control is None, plan.start.particle_f.requires_grad, *((id(a.buffer), a.ptr, a.requires_grad) for a in arrays))
    known: dict[Any, Captured] = plan.solver.captured
    found = known.pop(key, None)
    if found is None or found.stale:
        forces = empty_like(plan.start.particle_f)
        found = Captured(Steps((plan.scratch(forces), plan.scratch(forces))), forces, arrays)
    known[key] = found
    while len(known) > KEPT:
        known.pop(next(iter(known)))
    return found
