"""Which point or body first became non-finite in a step, and what moved it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.constraints.particles import particle_layout
from sim.constraints.slots.pattern import PARTICLE, WORLD
from sim.core.runtime.arrays.array import array
from sim.model.constraint_set import ConstraintSet
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch, Rows
from sim.solvers.bodies import BodyStep


@dataclass(eq=False)
class Blame:
    """Looks at a step while it is taken.  found: who, and by what; "" where all has been finite so far."""

    model: Model
    bodies: BodyStep
    before: State
    dt: float
    found: str = ""

    def look(self, written: array, batch: ConstraintBatch | None, rows: Rows | None) -> None:
        """After a launch that wrote particles or their corrections, and bodies: for these constraints, or the start."""
        if self.found:
            return
        bad_points, bad_bodies = self._points(written), self._bodies()
        if len(bad_points) + len(bad_bodies) == 0:
            return
        who = f"point {min(map(self.model.user_number, bad_points))}" if len(bad_points) else self._name(bad_bodies[0])
        if batch is None or rows is None:
            self.found = f"at {who}, {self._start(bad_bodies) if not len(bad_points) else PREDICTED}"
            return
        made = batch.set
        numbers = made.points.numpy()[slice(None) if made.lane else slice(rows.begin, rows.begin + rows.count)]
        is_bad = [np.isin(numbers[:, j], bad_points if kind == PARTICLE else bad_bodies if kind != WORLD else [])
                  for j, kind in enumerate(made.slots.kinds)]  # fmt: skip
        of_it = np.flatnonzero(np.any(is_bad, axis=0))
        if not len(of_it):  # another of the sets that are solved together
            return
        k = int(of_it[0])
        self.found = f"at {who}, moved by the constraint '{made.name}' on {self._movers(made, numbers[k])}"
        if made.constraint.from_start and not made.slots.only_particles:
            label = next(label for label, at in made.index_of.items() if rows.begin + k in at)
            self.found += f" ('{label}'); rigid joints hold in steps that turn them by less than 90 degrees"

    def _points(self, written: array) -> np.ndarray:
        host, layout = written.numpy(), particle_layout(self.model.dtype)
        moved = layout.host_positions(host) if host.shape[1] == layout.size else host
        return np.flatnonzero(~np.isfinite(moved).all(axis=1))

    def _bodies(self) -> np.ndarray:
        return np.flatnonzero(~np.isfinite(np.hstack([a.numpy() for a in self.bodies.moving])).all(axis=1))

    def _start(self, bad: np.ndarray) -> str:
        """What is wrong with a body as it is predicted."""
        angular = np.linalg.norm(self.before.body_qd.numpy()[bad[0], 3:])
        if not np.isfinite(self.model.body_inv_inertia.numpy()[bad[0]]).all():
            return "whose inertia is not positive definite"
        turning = f"which turns by pi or more in one step of {self.dt:g} s"
        if bad[0] in self.model.motion_body.numpy():
            return f"{turning}, as its motion says"
        if np.isfinite(self.bodies.dx.numpy()[bad[0]]).all() and np.isfinite(angular):
            return f"{turning}, from {angular:.4g} rad/s"
        return PREDICTED

    def _movers(self, made: ConstraintSet, numbers: np.ndarray) -> str:
        if made.slots.only_particles:
            return f"points {[*map(self.model.user_number, numbers)]}"
        names = [
            f"point {self.model.user_number(number)}"
            if kind == PARTICLE
            else "the world"
            if kind == WORLD
            else self._name(number)
            for kind, number in zip(made.slots.kinds, numbers, strict=True)
        ]
        return " and ".join(dict.fromkeys(names))

    def _name(self, body: int) -> str:
        group = next(g for g in self.model.bodies.values() if g.start <= body < g.start + g.count)
        return f"body {body} ('{group.name}')"


PREDICTED = "as predicted from its velocity and the forces on it"
