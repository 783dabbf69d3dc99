"""Contact of surfaces with themselves during a step: one sweep over all closed pairs an iteration.

See `sim.constraints.contact.positions.sweep` for the kernels, `sim.model.collision` for the lists of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim.constraints.contact.positions.sweep import (
    EDGE_EDGE,
    PIECES,
    POINT_TRIANGLE,
    particle_kernels,
    report_kernel,
    sweep_kernels,
)
from sim.core.lang.types import vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.launch import launch
from sim.model.collision.detection import PairLists
from sim.model.collision.surfaces import SelfContact
from sim.model.model import Model


@dataclass(eq=False)
class SelfContactStep:
    """What a step keeps of the pairs of a model, by the rows of their lists.

    share: (8 capacity,) parts |b C| of their points; total: (particles,) their sums S; multiplier, along: lambda and
    lambda_t of each; slid_before: what each slid before it hit; correction: (8 capacity,) what they move
    their points by.  keeps: multipliers go on from one iteration to the next.
    """

    model: Model
    of: SelfContact
    keeps: bool

    def __post_init__(self) -> None:
        model, rows = self.model, 2 * self.of.capacity
        real, vec3, device, grad = model.dtype, vector(3, model.dtype), model.device, model.requires_grad
        self.share = zeros(4 * rows, real, device, grad)
        self.total = zeros(model.particle_count, real, device, grad)
        self.multiplier = zeros(rows, real, device, grad and self.keeps)
        self.along = zeros(rows, vec3, device, grad and self.keeps)
        self.slid_before = zeros(rows, vec3, device, grad and self.keeps)
        self.correction = zeros(4 * rows, vec3, device, grad)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self.share, self.total, self.multiplier, self.along, self.slid_before, self.correction]

    def weigh(self, pairs: PairLists, reference: array, particle: array, first: bool) -> None:
        """The shares with which pairs begin a sweep; first: multipliers begin at zero."""
        of, model, room = self.of, self.model, self.of.capacity
        add_shares, _ = particle_kernels(model.dtype)
        pairs.check(particle)
        for kind in (POINT_TRIANGLE, EDGE_EDGE):
            inputs = [kind * room, pairs.count, pairs.rows, pairs.limit, of.half_thickness]
            moving = [reference, particle, self.multiplier]
            launch(sweep_kernels(kind, model.dtype, first).weigh, room, [*inputs, *moving], [self.share])
        launch(add_shares, model.particle_count, [pairs.offset, pairs.slots, self.share], [self.total])

    def look(
        self,
        pairs: PairLists,
        reference: array,
        speed: array,
        dt: float,
        particle: array,
        first: bool,
        rounding: float,
        switching: array,
    ) -> None:
        """How near pairs are to where they switch, in a sweep that has been weighed: bits (2 capacity,).

        speed: as the step began.
        """
        of, model, room = self.of, self.model, self.of.capacity
        for kind in (POINT_TRIANGLE, EDGE_EDGE):
            inputs = [kind * room, pairs.count, pairs.rows, pairs.limit, of.half_thickness, of.friction, self.total]
            moving = [model.particle_inv_mass, reference, particle, self.multiplier, self.along, self.slid_before]
            given = [*inputs, *moving, speed, model.gravity, dt, rounding]
            launch(sweep_kernels(kind, model.dtype, first).look, room, given, [switching])

    def push(
        self, pairs: PairLists, reference: array, speeds: Sequence[array], dt: float, particle: array, first: bool
    ) -> None:
        """What a weighed sweep moves; speeds: as the step began, and the one before it."""
        of, model, room = self.of, self.model, self.of.capacity
        _, gather = particle_kernels(model.dtype)
        for kind in (POINT_TRIANGLE, EDGE_EDGE):
            inputs = [kind * room, pairs.count, pairs.rows, pairs.limit, of.half_thickness, of.friction]
            moving = [model.particle_inv_mass, self.total, reference, *speeds, model.gravity, dt, particle]
            outputs = [self.multiplier, self.along, self.slid_before, self.correction]
            launch(sweep_kernels(kind, model.dtype, first).project, room, [*inputs, *moving], outputs)
        launch(gather, model.particle_count, [pairs.offset, pairs.slots, self.total, self.correction], [particle])

    def measure(self, pairs: PairLists, reference: array, particle: array) -> None:
        """Notes how deep surfaces are in each other as the step ends, and whether lists held."""
        of, room = self.of, self.of.capacity
        pairs.check(particle)
        with recording.paused():
            for kind in (POINT_TRIANGLE, EDGE_EDGE):
                inputs = [kind * room, pairs.count, pairs.rows, pairs.limit, of.half_thickness, reference, particle]
                launch(sweep_kernels(kind, self.model.dtype, True).measure, room, inputs, [pairs.deep])
                given = [kind * room, kind, pairs.count, pairs.deep]
                launch(report_kernel(self.model.dtype), PIECES, given, [pairs.report])
