"""Steps that are looked at: the pairs of surfaces that collide with themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.constraints.contact.diagnostics.switches import CLOSING
from sim.core.lang.types import int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.model.collision.detection import PairLists
from sim.solvers.contacts.count import SWITCHES, ContactCount, Deepest
from sim.solvers.self_contact import SelfContactStep


@dataclass(eq=False)
class SurfaceWatch:
    """Looks at the sweeps of a step, and adds them up after it."""

    step: SelfContactStep

    def __post_init__(self) -> None:
        rows = self.step.multiplier.size
        self._switching = zeros(rows, int32, self.step.multiplier.device, requires_grad=False)

    def look(
        self,
        pairs: PairLists,
        reference: array,
        speed: array,
        dt: float,
        particle: array,
        first: bool,
        rounding: float,
    ) -> None:
        """Before a sweep moves anything; speed: as the step began."""
        self.step.look(pairs, reference, speed, dt, particle, first, rounding, self._switching)

    def add_up(self, pairs: PairLists, count: ContactCount, time: float) -> None:
        """Pairs that push, those that are near a switch, and the worst penetration so far."""
        of, found = self.step.of, pairs.count.numpy()
        pushes, bits = self.step.multiplier.numpy() > 0, self._switching.numpy()
        for kind in range(2):
            own = slice(kind * of.capacity, kind * of.capacity + int(found[kind]))
            counted = pushes[own] | (bits[own] & CLOSING > 0)
            seen = np.where(counted, bits[own], 0)
            count.pushing += int(np.count_nonzero(counted))
            count.switching += int(np.count_nonzero(seen))
            for name, bit in SWITCHES.items():
                count.kinds[name] += int(np.count_nonzero(seen & bit))
        if pairs.worst > count.worst.depth:
            count.worst = Deepest(pairs.worst, "contact", ", ".join(of.labels), time)
