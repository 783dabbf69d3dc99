"""What of two shapes touches in a step: corners, edges, faces and rims of boxes, cylinders and meshes, as predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.box_choice import make_choice, make_unforced, rows_at_once
from sim.constraints.contact.primitives.boxes import contact_corner, contact_edges
from sim.constraints.contact.solids.cylinders.ridge_choice import RIDGE_CONTACTS, make_ridge_choice
from sim.constraints.contact.solids.cylinders.rim_choice import make_rim_choice
from sim.constraints.contact.solids.cylinders.rim_mesh import contact_rim_mesh
from sim.constraints.contact.solids.cylinders.rim_mesh_choice import make_rim_mesh_choice
from sim.constraints.contact.solids.cylinders.rims import RIM_CONTACTS
from sim.constraints.contact.solids.distance_patches import CHOOSES, PATCHES
from sim.constraints.contact.solids.facets import FACETS, make_side_choice
from sim.constraints.contact.solids.mesh_edges import contact_mesh_edges, make_mesh_edge_choice
from sim.constraints.contact.solids.meshes import contact_mesh, make_mesh_choice
from sim.constraints.contact.solids.patch_choice import make_patch_choice
from sim.constraints.contact.solids.row_kernels import mesh_struct
from sim.constraints.slots.pattern import Slots
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.model.state import State
from sim.solvers.batch import ConstraintBatch
from sim.solvers.bodies import BodyStep
from sim.solvers.near.lanes import NearContacts, NearLanes

CHOSEN = {
    contact_corner: ("face",),
    contact_edges: ("edge", "other_edge"),
    contact_mesh: ("side", "a", "b", "c", "d", "e", "f"),
    contact_mesh_edges: ("side", "a", "b"),
    contact_rim_mesh: ("live", "a", "b", "c"),
    **RIM_CONTACTS,
    **RIDGE_CONTACTS,
    **FACETS,
}
"""Parameters that every step chooses."""


MAKES = {
    contact_mesh: make_mesh_choice,
    contact_mesh_edges: make_mesh_edge_choice,
    contact_rim_mesh: make_rim_mesh_choice,
    **dict.fromkeys(FACETS, make_side_choice),
    **dict.fromkeys(RIM_CONTACTS, make_rim_choice),
    **dict.fromkeys(RIDGE_CONTACTS, make_ridge_choice),
}
"""What makes the kernel that chooses, but for boxes."""
FOLLOWED = (contact_mesh, contact_mesh_edges, *FACETS)
"""Whose choice a tape records: vertices of meshes are copied from the model, and may have a gradient there."""


def choosing_of(c: Constraint) -> Callable[[Constraint, Slots, Scalar], Kernel] | None:
    """What of `MAKES` is for a constraint; None for those of boxes."""
    return make_patch_choice if c in PATCHES.values() else MAKES.get(c)


def meshes_of(model: Model) -> Any:
    """The meshes of a model as `mesh_struct` has them."""
    meshes = mesh_struct(model.dtype)()
    meshes.vertices, meshes.corners = model.mesh_vertices, model.shape_corners
    meshes.triangles, meshes.beside, meshes.of_triangles = (
        model.mesh_triangles,
        model.mesh_beside,
        model.shape_triangles,
    )
    meshes.hinges, meshes.of_hinges = model.mesh_hinges, model.shape_hinges
    return meshes


def chosen_by(c: Constraint) -> tuple[str, ...]:
    """The same, of a constraint; those of `PATCHES` are made by models."""
    return CHOOSES if c in PATCHES.values() else CHOSEN.get(c, ())


@dataclass(eq=False)
class Choices:
    """The integers that contacts choose anew in every step."""

    model: Model
    bodies: BodyStep
    batches: Sequence[ConstraintBatch]
    near: NearContacts | None

    def __post_init__(self) -> None:
        model = self.model
        made = [batch.set.constraint for batch in self.batches]
        boxes = {contact_corner, contact_edges} & set(made)
        self._unforced = zeros(model.body_count if boxes else 0, vector(3, model.dtype), model.device)
        self._chosen: list[array] = []
        self._meshes = meshes_of(model)
        for batch in self.batches:
            for name in chosen_by(batch.set.constraint):  # integers: without a gradient
                kind, lanes = batch.set.constraint.parameters[name].type(model.dtype), self._lanes(batch)
                for parameters in [batch.parameters] if lanes is None else [batch.parameters, lanes.data]:
                    self._chosen.append(zeros(batch.set.count, kind, model.device))
                    setattr(parameters, name, self._chosen[-1])

    def _lanes(self, batch: ConstraintBatch) -> NearLanes | None:
        """Where the contacts of a set are those of near pairs."""
        return None if self.near is None else self.near.sets.get(batch.set.name)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self._unforced, *self._chosen]

    def begin(self, before: State, dt: float) -> None:
        """Where boxes would come without forces: what touches is chosen there."""
        if self._unforced.size:
            inputs = [before.body_qd, self.model.body_inv_mass, self.bodies.dx, dt]
            launch(make_unforced(self.model.dtype), self._unforced.size, inputs, [self._unforced])

    def make(self, batch: ConstraintBatch, particle: array, reference: array) -> None:
        """What the contacts of a set choose; of near pairs all rows of these."""
        made, model, bodies = batch.set, self.model, self.bodies
        c, slots, real = made.constraint, made.slots, model.dtype
        if not chosen_by(c):
            return
        moved = [made.points, batch.placing, bodies.start, particle, bodies.dx, bodies.turn]
        make = choosing_of(c)
        if make is not None:
            # Which triangle, rim or patch is an integer, or where a place is looked for, not where it is found.
            with recording.paused() if c not in FOLLOWED else nullcontext():
                launch(make(c, slots, real), made.count, [*moved, reference, self._meshes], [batch.parameters])
        else:
            moved = [bodies.start, particle, self._unforced, bodies.turn]
            of, placing, data, given, threads = made, batch.placing, batch.parameters, list[object](), made.count
            lanes = self._lanes(batch)
            if lanes is not None and self.near is not None:
                of, placing, data, given = lanes.made, lanes.placing, lanes.data, self.near.looked_for(lanes)
                threads = made.count // rows_at_once(c)
            with recording.paused():  # signs have no gradient
                launch(make_choice(c, slots, real, made.lane), threads, [*given, of.points, placing, *moved], [data])
