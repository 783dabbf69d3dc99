"""Whether shapes of bodies have come through each other within a step, or points through shapes, as it ends: an error.

See `sim.model.collision.near.passing` and `sim.constraints.contact.solids.passing` for the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.shapes import contact_cylinder
from sim.constraints.contact.solids.cylinders.ridge_choice import RIDGE_CONTACTS, make_ridge_passing
from sim.constraints.contact.solids.cylinders.rim_mesh import contact_rim_mesh
from sim.constraints.contact.solids.cylinders.rim_mesh_choice import make_rim_mesh_passing
from sim.constraints.contact.solids.distance_patches import PATCHES, make_patch_passing
from sim.constraints.contact.solids.distances import DISTANCES, make_distance_passing
from sim.constraints.contact.solids.facets import FACETS, make_facet_passing
from sim.constraints.contact.solids.mesh_edges import contact_mesh_edges, make_mesh_edge_passing
from sim.constraints.contact.solids.meshes import contact_mesh
from sim.constraints.contact.solids.passing import WIDTHS, make_mesh_passing, make_point_passing
from sim.constraints.slots.pattern import Slots
from sim.core.lang.types import Scalar, int32
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.collision.detection import ContactError
from sim.model.collision.near.face_watch import make_face_watch
from sim.model.collision.near.passing import make_passing
from sim.model.constraint_set import ConstraintSet
from sim.model.model import Model
from sim.solvers.batch import ConstraintBatch
from sim.solvers.bodies import BodyStep
from sim.solvers.near.choices import meshes_of
from sim.solvers.near.lanes import NearContacts


@dataclass(eq=False)
class PassingCheck:
    """Of the pairs of a model that are constraints from the beginning, and of those that steps find; and of faces of
    meshes and signed distances."""

    model: Model
    bodies: BodyStep
    near: NearContacts | None

    def __post_init__(self) -> None:
        model = self.model
        self._furthest = zeros(1, model.dtype, model.device, requires_grad=False)
        self._last = zeros(1, int32, model.device, requires_grad=False)
        self._faces = zeros(max(1, len(model.watched)), int32, model.device, requires_grad=False)

    @property
    def scratch(self) -> list[array]:
        """What steps report."""
        return [self._furthest, self._last, self._faces]

    def begin(self) -> None:
        """Forgets what was reported."""
        if self.model.watched:
            self._faces.zero_()
        if self.model.meeting is None and self.near is None:
            return
        self._furthest.zero_()
        self._last.zero_()

    def check(self) -> None:
        """Notes what has come through something else in a step that ends."""
        declared, near = self.model.meeting, self.near
        if declared is not None:
            self._find(declared.total, declared.pairs, declared.solids, False)
        if near is not None:
            self._find(near.total, near.pairs, near.of.solids, True)
        model, bodies = self.model, self.bodies
        for index, faces in enumerate(model.watched):
            shapes = [model.shape_body, model.shape_transform, model.shape_scale, model.body_com]
            inputs = [index, faces.rows, *shapes, bodies.start, bodies.dx, bodies.turn]
            meshes = [model.mesh_vertices, model.mesh_triangles]
            with recording.paused():
                watch = make_face_watch(faces.constraint, model.dtype)
                launch(watch, faces.rows.shape[0], [*inputs, *meshes], [self._faces])

    def _find(self, total: array, pairs: array, solids: array, near: bool) -> None:
        model, bodies = self.model, self.bodies
        shapes = [model.shape_body, model.shape_type, model.shape_transform, model.shape_scale, model.body_com]
        inputs = [total, pairs, solids, *shapes, bodies.start, bodies.dx, bodies.turn]
        with recording.paused():
            launch(make_passing(model.dtype, near), pairs.shape[0], inputs, [self._furthest, self._last])

    def refuse_passed(self) -> None:
        """Raises ContactError where something has since `begin`.  Waits for the device."""
        self._refuse_faces()
        if self.model.meeting is None and self.near is None:
            return
        last = int(self._last.numpy()[0])
        if not last:
            return
        shape = next(s for s in self.model.shapes if last - 1 in s.numbers)
        world = f" of world {int((shape.numbers == last - 1).argmax())}" if self.model.worlds > 1 else ""
        raise ContactError(
            f"contact: {shape.label!r}{world} and another shape have come through each other in a step, one by"
            f" {float(self._furthest.numpy()[0]):.3g} m as the other sees it: more than contacts look at",
            "Take shorter steps, in which shapes come less far than a quarter of their least widths, or slower starts",
        )

    def _refuse_faces(self) -> None:
        if not self.model.watched:
            return
        for faces, last in zip(self.model.watched, self._faces.numpy().tolist(), strict=True):
            if last:
                numbers = faces.rows.numpy()[last - 1, :2]
                of, mesh = (next(s.label for s in self.model.shapes if n in s.numbers) for n in numbers)
                raise ContactError(
                    f"contact: {of!r} has come into a triangle of {mesh!r} between its vertices, which alone it meets,"
                    " by more than a tenth of the longest side, or with its middle",
                    "Take finer triangles where the distance is narrow, or build the mesh of boxes and capsules",
                )


MAKES = {
    contact_mesh: make_mesh_passing,
    contact_mesh_edges: make_mesh_edge_passing,
    contact_rim_mesh: make_rim_mesh_passing,
    **dict.fromkeys(RIDGE_CONTACTS, make_ridge_passing),
    **dict.fromkeys(FACETS, make_facet_passing),
}
"""What makes the kernel that looks whether a constraint has been come through."""
EDGES = (*FACETS, *RIDGE_CONTACTS, contact_mesh_edges, contact_rim_mesh)
"""What of one shape is met by edges of another."""


def passing_of(c: Constraint) -> Callable[[Constraint, Slots, Scalar], Kernel]:
    """The same, also of functions of the user and of convex shapes."""
    if c in DISTANCES.values():
        return make_distance_passing
    return make_patch_passing if c in PATCHES.values() else MAKES.get(c, make_point_passing)


@dataclass(eq=False)
class PointPassingCheck:
    """Of the contacts of particles with shapes, and of all points with meshes."""

    model: Model
    bodies: BodyStep
    batches: Sequence[ConstraintBatch]

    def __post_init__(self) -> None:
        self._checked = [batch for batch in self.batches if batch.set.count and self._is_checked(batch.set)]
        self._last = zeros(max(1, len(self._checked)), int32, self.model.device, requires_grad=False)
        self._meshes = meshes_of(self.model)

    def _is_checked(self, made: ConstraintSet) -> bool:
        c = made.constraint
        if c in MAKES or c in (*DISTANCES.values(), *PATCHES.values()):
            return True
        # Of two solids others see that they have come through each other: not of the corners of a mesh.
        of_mesh = c is contact_cylinder and bool(self.model.mesh_triangles.shape[0])
        return of_mesh or (c.name in WIDTHS and bool(made.slots.particles))

    @property
    def scratch(self) -> list[array]:
        """What steps report."""
        return [self._last] if self._checked else []

    def begin(self) -> None:
        """Forgets what was reported."""
        if self._checked:
            self._last.zero_()

    def check(self, before: array, after: array, particle: array) -> None:
        """Notes which points have come through a shape in a step that ends; before, after: places of particles."""
        bodies = self.bodies
        with recording.paused():
            for index, batch in enumerate(self._checked):
                made = batch.set
                find = passing_of(made.constraint)(made.constraint, made.slots, self.model.dtype)
                moved = [bodies.start, particle, bodies.dx, bodies.turn, before, after]
                inputs = [index, made.points, batch.placing, batch.parameters, *moved, self._meshes]
                launch(find, made.count, inputs, [self._last])

    def refuse_passed(self) -> None:
        """Raises ContactError where one has since `begin`.  Waits for the device."""
        if not self._checked:
            return
        for batch, last in zip(self._checked, self._last.numpy().tolist(), strict=True):
            if not last:
                continue
            made = batch.set
            if last > made.count:
                label = next(label for label, rows in made.index_of.items() if last - made.count - 1 in rows)
                raise ContactError(
                    f"contact: {label!r}: an edge or a corner of the signed distance has come onto a side or an edge,"
                    " and has no normal there",
                    "Round the function off: the distance from what is smaller by a radius, less the radius",
                )
            label = next(label for label, rows in made.index_of.items() if last - 1 in rows)
            who = "an edge" if made.constraint in EDGES else "a corner, a ball or an end"
            if made.slots.particles:
                number = self.model.user_number(made.points.numpy()[last - 1, made.slots.particles[0]])
                name = next((g.name for g in self.model.groups.values() if g.start <= number < g.start + g.count), "")
                who = f"point {number} of {name!r}" if name else f"point {number}"
                if made.constraint in FACETS:
                    who, label = f"a triangle or an edge at {who}", label.partition("/")[0]
            raise ContactError(
                f"contact: {who} has come through {label!r} in a step, from one side of it to another",
                "Take shorter steps, in which points come less far than a shape is thick, or slower starts",
            )
