"""What several contacts of a body press it with, shared in a step: see `sim.constraints.contact.impulses.sharing`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sim.constraints.contact.impulses.sharing import LEAST, make_loads, sharing_kernels
from sim.core.lang.types import int32, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.near.memory import Touching

FACES = frozenset(
    ("contact_plane", "contact_corner", "contact_edges", "contact_box", "contact_mesh", "contact_mesh_edges")
)
"""Contacts of corners and edges.  Places of a rim come and go as it rolls: with a share of the load they brake it."""


@dataclass(eq=False)
class LoadSharing:
    """The contacts of a model, in groups: those of a body with all that is held, where they are of faces alone."""

    model: Model
    touching: Mapping[str, Touching]

    def __post_init__(self) -> None:
        model, device, grad = self.model, self.model.device, self.model.requires_grad
        free = model.body_inv_mass.numpy() > 0.0
        members: dict[int, list[tuple[str, int, int]]] = {}
        round_ones = set[int]()
        for name, t in self.touching.items():
            made = t.batch.set
            if made.lane or made.slots.particles:
                continue
            on = made.points.numpy()[:, [own[0] for own in made.slots.bodies]]
            for k, bodies in enumerate(on.tolist()):
                moving = {b for b in bodies if free[b]}
                if len(moving) == 1:
                    (body,) = moving
                    members.setdefault(body, []).append((name, k, bodies.index(body)))
                    if made.constraint.name not in FACES:
                        round_ones.add(body)
        groups = [group for b, group in members.items() if b not in round_ones and len(group) >= LEAST]
        self._seats = {
            name: np.full(self.touching[name].batch.set.count, -1) for group in groups for name, _, _ in group
        }
        sides = {name: np.zeros(len(seats), int) for name, seats in self._seats.items()}
        for at, (name, k, side) in enumerate(one for group in groups for one in group):
            self._seats[name][k], sides[name][k] = at, side
        self._known = {
            name: tuple(array(values, dtype=int32, device=device) for values in (seats, sides[name]))
            for name, seats in self._seats.items()
        }
        offset = np.cumsum([0, *(len(group) for group in groups)])
        n, self._groups = int(offset[-1]), len(groups)
        self._offset = array(offset, dtype=int32, device=device)
        self._row = zeros(n, vector(6, model.dtype), device, grad)
        self._load, self._part, self._shared = (zeros(n, model.dtype, device, grad) for _ in range(3))
        self._takes, self._shares = (zeros(size, int32, device, requires_grad=False) for size in (n, self._groups))

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self._row, self._load, self._part, self._shared, self._takes, self._shares]

    def share(self, dt: float) -> None:
        """Shares the multipliers of contacts that rest, once positions are done."""
        if self._groups:
            self._take(dt, late=False)
            inputs = [self._offset, self._row, self._load, self._part]
            with recording.paused():
                launch(sharing_kernels(self.model.dtype).choose, self._groups, inputs, [self._takes, self._shares])
            self._share(late=False)

    def share_again(self, dt: float) -> None:
        """The same of what sweeps over velocities have made of them: friction that goes by other loads leans a body
        another way, which these have found by then."""
        if self._groups:
            self._take(dt, late=True)
            self._share(late=True)

    def _loads(self, late: bool) -> Iterator[tuple[Touching, tuple[Kernel, Kernel], array, array]]:
        for name, (seats, sides) in self._known.items():
            t = self.touching[name]
            made = t.batch.set
            yield t, make_loads(made.constraint, made.slots, self.model.dtype, late), seats, sides

    def _take(self, dt: float, late: bool) -> None:
        for t, (take, _), seats, sides in self._loads(late):
            launch(take, seats.size, [seats, sides, t.contacts, dt], [self._row, self._load, self._part])

    def _share(self, late: bool) -> None:
        share = sharing_kernels(self.model.dtype).share
        inputs = [self._offset, self._row, self._load, self._part, self._takes, self._shares]
        launch(share, self._groups, inputs, [self._shared])
        for t, (_, put), seats, _ in self._loads(late):
            launch(put, seats.size, [seats, t.contacts, self._part, self._shared])
