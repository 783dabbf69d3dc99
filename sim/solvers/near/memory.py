"""What contacts keep from step to step, in the state: the forces with which they end one, and what they have slid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.constraints.contact.positions.resting import make_averaged, make_contact_end, make_parted_end, make_slid
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.launch import launch
from sim.model.fields import Field
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch
from sim.solvers.near.lanes import REMEMBERED, NearContacts, NearLanes, kept_field, over_all


@dataclass(eq=False)
class Touching:
    """What a step keeps of the contacts of one set.

    contacts: all that kernels are given of them, see `contact_struct`; surface and impacts, structs of arrays, `along`
    (n,) vec3, the multipliers of friction, and `late` (n,), the normal ones of the velocities, are in there as well.
    """

    batch: ConstraintBatch
    contacts: Any
    surface: Any
    impacts: Any
    along: array
    late: array
    still: array


@dataclass(eq=False)
class ContactMemory:
    """Of the contacts of a model, by name of their set.  crowded: may something have two of them?"""

    model: Model
    near: NearContacts | None
    crowded: bool
    touching: Mapping[str, Touching]

    def lanes(self, t: Touching) -> NearLanes | None:
        """Where the contacts of a set are those of near pairs."""
        return None if self.near is None else self.near.sets.get(t.batch.set.name)

    @property
    def pressing(self) -> list[Touching]:
        """The contacts whose forces a step begins with: those of bodies, which are held by several at once.  Without
        them a box that stands on four corners is pushed up by one after the other, and creeps."""
        return [t for t in self.touching.values() if t.batch.set.slots.bodies]

    @property
    def _stacks(self) -> bool:
        """Whether bodies touch bodies: then sweeps leave errors that others have to take back."""
        return any(len(t.batch.set.slots.bodies) > 1 for t in self.touching.values())

    def _kept(self, t: Touching) -> list[str]:
        """What the contacts of a set keep, of `REMEMBERED`."""
        bodies = bool(t.batch.set.slots.bodies)
        pressed, slid = bodies or self.crowded, bodies and self._stacks
        wanted = {"pressed": pressed, "averaged": bodies, "slid": slid, "pulled": self.crowded}
        return [what for what in REMEMBERED if wanted[what]]

    @property
    def history(self) -> tuple[Field, ...]:
        """The fields of the state."""
        fields = () if self.near is None else self.near.history
        for t in self.touching.values():
            made = t.batch.set
            if not made.lane:
                fields += tuple(kept_field(made.name, what, made.count) for what in self._kept(t))
        return fields

    def recall(self, t: Touching, state: State) -> None:
        """What contacts keep in a state is what kernels read and write."""
        lanes, name = self.lanes(t), t.batch.set.name
        kept = {what: state.history[f"{name}.{what}"] for what in self._kept(t)} if lanes is None else lanes.kept
        for what, values in kept.items():
            setattr(t.contacts, what, values)

    def all_of(self, t: Touching) -> list[object]:
        """What kernels read first of all contacts of a set: where they begin."""
        lanes = self.lanes(t)
        return [0] if lanes is None else [lanes.offsets]

    def keep(self, before: State, after: State, moving: Any, dt: float) -> None:
        """The forces of contacts for the next step, and what they have slid."""
        for t in self.touching.values():
            made, lanes, kept = t.batch.set, self.lanes(t), self._kept(t)
            self.recall(t, after)
            if "slid" in kept:
                form, threads = over_all(made)
                kernel = make_slid(made.constraint, made.slots, self.model.dtype, form)
                launch(kernel, threads, [*self.all_of(t), t.contacts, moving, dt])
            if lanes is not None:
                lanes.keep(t.contacts, after, dt)
            elif kept:
                self._end(t, before, dt)

    def _end(self, t: Touching, before: State, dt: float) -> None:
        """With what contacts that are no near pairs end a step."""
        of, real, n = t.contacts, self.model.dtype, t.batch.set.count
        if self.crowded:
            inputs = [t.batch.multiplier, t.late, t.along, of.cut, of.rubbed, t.impacts.rests, dt]
            launch(make_parted_end(real), n, inputs, [of.pressed, of.pulled])
        else:
            launch(make_contact_end(real), n, [t.batch.multiplier, t.late, t.impacts.rests, dt], [of.pressed])
        if t.batch.set.slots.bodies:
            slow = before.history[f"{t.batch.set.name}.averaged"]
            launch(make_averaged(real), n, [of.pressed, slow], [of.averaged])
