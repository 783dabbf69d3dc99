"""Running a rollout forward, from the start to the result.

A run is bound to arrays and settings when it is made.  Inside of `sim.capture()` it is noted as a whole: a replay runs
it again, from the content that the same arrays have then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sim.core.runtime.ambient import observers, recording
from sim.core.runtime.ambient.stacks import contained
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy
from sim.core.runtime.debug.nonfinite import NonFiniteError
from sim.core.runtime.devices import graph
from sim.core.runtime.tape.tape import Tape
from sim.model.state import State
from sim.rollout.stretches import Steps
from sim.rollout.trajectory import NonFiniteState, Plan, Trajectory, is_finite
from sim.rollout.workspace import Kind, Workspace

STACKS = recording.opened, graph.opened, observers.opened


@dataclass(eq=False)
class Run:
    """One rollout, of which nothing is kept.  multipliers: the solver's own, which show those of the last step."""

    plan: Plan
    kind: Kind
    result: Trajectory
    multipliers: list[array]

    def forward(self) -> None:
        """Fill the result."""
        contained(self._forward, *STACKS)

    def _forward(self) -> None:
        with recording.paused(), self.kind.workspace() as w:
            w.forces.assign(self.plan.start.particle_f)
            self._take_steps(w)
            for mine, p in zip(self.multipliers, w.solver.passes, strict=True):
                copy(mine, p.multiplier)

    def _take_steps(self, w: Workspace) -> None:
        plan, states = self.plan, w.steps.states
        states[0].follow(plan.start)
        self._advance(w.steps, 0, plan.steps, frames=True)
        self.result.final.follow(states[plan.steps % 2])

    def _advance(self, steps: Steps, first: int, count: int, frames: bool) -> None:
        """Steps `first` to `first + count - 1`; keeps the frames among them, if asked to."""
        done, end = first, first + count
        for step in self.plan.frames_in(first, count) if frames else ():
            steps.run(done, step + 1 - done)
            done = step + 1
            self.keep_frame(step, steps.states[done % 2])
        steps.run(done, end - done)

    def keep_frame(self, step: int, state: State) -> None:
        """Keep the positions after a step, if they are to be kept.  Raises NonFiniteState."""
        frame = self.plan.frame_after(step)
        if frame is not None:
            graph.add_node(partial(self._check, step, state))
            copy(self.result.particle_q[frame], state.particle_q)

    def _check(self, step: int, state: State) -> None:
        """Raise where a position is no longer finite."""
        if not is_finite(state.particle_q):
            raise self._locate(step)

    def _locate(self, last: int) -> NonFiniteState:
        """Run again to find the first step, and the constraint and point where it happened."""
        plan, w = self.plan, self.kind.make()
        with recording.paused(), graph.suspend_capture():
            w.forces.assign(plan.start.particle_f)
            a, b = w.state(), w.state()
            a.follow(plan.start)
            for k in range(last + 1):
                w.step(a, b)
                a, b = b, a
                if not is_finite(a.particle_q):
                    return NonFiniteState(
                        f"the simulation became non-finite in step {k + 1} of {plan.steps} (t = {a.time:.6g} s), first"
                        f" {w.solver.blame(b, a, w.control, w.dt)}; take shorter steps (more substeps), or check masses"
                        " and compliances"
                    )
        return NonFiniteState(f"the simulation became non-finite before step {last + 1} of {plan.steps}")

    def launch_by_launch(self, tape: Tape | None) -> None:
        """Fill the result where somebody looks at every launch: on the open tape itself, if there is one."""
        w = self.kind.make()
        a, b = w.state(self.plan.start.particle_f), w.state(self.plan.start.particle_f)
        a.follow(self.plan.start)
        for step in range(self.plan.steps):
            if tape is not None:
                tape.mark(self.plan.name(step), {"particle_q": a.particle_q, "particle_qd": a.particle_qd})
            try:
                w.step(a, b)
            except NonFiniteError as problem:
                raise problem.at(self.plan.name(step)) from None
            a, b = b, a
            self.keep_frame(step, a)
        self.result.final.follow(a)
        for mine, p in zip(self.multipliers, w.solver.passes, strict=True):
            copy(mine, p.multiplier)
