"""Impacts on what joints hold: impulses that sweeps find too slowly are extrapolated, and lead where they are to lead.

See `sim.constraints.contact.impulses.extrapolation` and `afterwards`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.constraints.contact.impulses.afterwards import afterwards_kernels, make_since
from sim.constraints.contact.impulses.extrapolation import (
    WINDOW,
    make_extrapolated,
    make_noted,
    make_stretch,
    make_trend,
)
from sim.core.lang.types import int32, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import copy, zeros
from sim.core.runtime.launch.launch import launch
from sim.solvers.base import Substep
from sim.solvers.mechanisms.held import HeldVelocities
from sim.solvers.near.lanes import over_all
from sim.solvers.touching import FrictionStep


@dataclass(eq=False)
class ImpactsOnJoints:
    """The contacts of a model whose joints hold what they touch."""

    friction: FrictionStep
    held: HeldVelocities

    def __post_init__(self) -> None:
        model, moving = self.friction.model, self.friction.moving
        real, device, grad = model.dtype, model.device, model.requires_grad
        n, bodies, count = model.particle_count, model.body_count, self.held.hit.size
        self._since, self._body_since = (zeros(size, vector(5, real), device, grad) for size in (n, bodies))
        self._trend, self._body_trend = (zeros(size, vector(5, real), device, grad) for size in (n, bodies))
        self._stretch = zeros(count, real, device, grad)
        self._v, self._qd = zeros(n, vector(3, real), device, grad), zeros(bodies, vector(6, real), device, grad)
        self._members = [a for own in self.held.of_movers for a in members(own, count)]
        moving.mechanism, moving.body_mechanism = self.held.of_movers
        moving.reached, moving.stretch = self.held.reached, self._stretch
        moving.trend, moving.body_trend = self._trend, self._body_trend
        moving.since, moving.body_since = self._since, self._body_since
        self._changes = list[array]()
        for t in self.friction.touching.values():
            for name in ("given", "change", "earlier"):
                self._changes.append(zeros(t.batch.set.count, vector(3, real), device, grad))
                setattr(t.contacts, name, self._changes[-1])

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        own = [self._since, self._body_since, self._trend, self._body_trend, self._stretch, self._v, self._qd]
        return [*own, *self._changes]

    def extrapolate(self, s: Substep, done: int, sweeps: int) -> None:
        """After so many sweeps over velocities, of so many: goes on to where they lead, if it is time to.  Those that
        follow the last time take back what was too much."""
        if done + WINDOW >= sweeps:
            return
        friction, real, due = self.friction, self.friction.model.dtype, done % WINDOW == WINDOW - 1
        if not due:
            for t in friction.touching.values():
                c, slots = t.batch.set.constraint, t.batch.set.slots
                form, threads = over_all(t.batch.set)
                kernel = make_noted(c, slots, real, friction.crowded, form, done % WINDOW == 0)
                launch(kernel, threads, [*friction.memory.all_of(t), t.contacts, friction.moving, s.dt])
            return
        self._trend.zero_()
        self._body_trend.zero_()
        for t in friction.touching.values():
            friction.by_color(t, make_trend, s.dt, friction.crowded)
        given = [*self._members, self.held.hit, self._trend, self._body_trend]
        launch(make_stretch(real), self._stretch.size, given, [self._stretch])
        for t in friction.touching.values():
            friction.by_color(t, make_extrapolated, s.dt, friction.crowded)
        self.held.settle(s)

    def begin(self, s: Substep) -> None:
        """Finds when mechanisms were hit: `since`, of them and of what they hold, and hit."""
        kernels = afterwards_kernels(self.friction.model.dtype)
        self._since.zero_()
        self._body_since.zero_()
        for t in self.friction.touching.values():
            self.friction.by_color(t, make_since, s.dt)
        since = [self._since, self._body_since, self.held.since]
        launch(kernels.shared, self._stretch.size, self._members, since)
        self.held.realign(s)

    def place(self, s: Substep, finish: Callable[[Substep], None]) -> None:
        """Moves what impacts lead to where velocities say; finish: takes places, and velocities, from displacements."""
        bodies, after, kernels = self.held.bodies, s.after, afterwards_kernels(self.friction.model.dtype)
        particle, dx, turn, v, qd = self.held.predicted
        given = [self._since, s.reference, particle, v, after.particle_qd, s.dt]
        launch(kernels.particles, self._since.size, given, [s.particle])
        given = [bodies.start, self._body_since, dx, turn, qd, s.dt]
        launch(kernels.bodies, self._body_since.size, given, [bodies.dx, bodies.turn, after.body_qd])
        self.held.close(s)
        velocities = (self._v, after.particle_qd), (self._qd, after.body_qd)
        for kept, own in velocities:
            copy(kept, own)
        finish(s)
        for kept, own in velocities:
            copy(own, kept)


def members(of: array, count: int) -> list[array]:
    """The movers of mechanisms one behind the other: where each begins, and their numbers."""
    host = of.numpy()
    order = np.argsort(host, kind="stable").astype(np.int32)
    order = order[host[order] >= 0]
    first = np.searchsorted(host[order], np.arange(count + 1)).astype(np.int32)
    return [array(first, dtype=int32, device=of.device), array(order, dtype=int32, device=of.device)]
