"""The part of `ModelBuilder` that adds rigid bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.model.build import checks
from sim.model.build.bodies import BodyBlock, BodyPoint, inertia_rows, pose
from sim.model.build.collection import Collection
from sim.model.build.objects import ORIGIN
from sim.model.errors import ModelError
from sim.model.groups import BodyGroup
from sim.model.visuals import BoxForm, CapsuleForm, CylinderForm, Form, MeshForm, SphereForm, Visual

WORLD = -1
"""In the place of a body: what does not move."""


class BodyBuilder(Collection):
    """Collects rigid bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, BodyGroup] = {}
        self._bodies: list[BodyBlock] = []
        self._visuals: list[Visual] = []

    @property
    def body_count(self) -> int:
        """Number of rigid bodies so far."""
        return sum(block.group.count for block in self._bodies)

    def add_body(
        self,
        xform: Any = None,
        mass: float = 1.0,
        inertia: Any = None,
        com: Sequence[float] = ORIGIN,
        label: str | None = None,
        *,
        velocity: Sequence[float] = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        held: bool = False,
    ) -> int:
        """A rigid body.  Returns its number.

        xform: pose of its origin, a transform or a position [m]; mass [kg], 0 holds it; inertia [kg m^2] about the
        centre of mass, in the axes of the body: principal moments (3,), xx yy zz xy xz yz (6,), or (3, 3); com: centre
        of mass [m] in its frame; velocity: of the centre of mass [m/s], spin: angular velocity [rad/s], in the world.
        held: it does not move.  Paths: `label.mass`, `.inertia`, `.com`, `.position`, `.rotation` (rotation vector
        about the given pose), `.velocity`, `.spin`.
        """
        self._open("add_body")
        base = pose("xform", xform)[None]
        weight = checks.number("mass", mass)
        if weight > 0.0 and inertia is None:
            raise ModelError("add_body needs an inertia", "Give moments of inertia about the centre of mass [kg m^2]")
        moments = np.ones((1, 3)) if inertia is None else inertia_rows("inertia", inertia, 1)
        group = BodyGroup(self._label(label, "body"), self.body_count, 1)
        block = BodyBlock(
            group,
            base,
            np.array([weight]),
            moments,
            com=checks.vec3("com", com)[None],
            velocity=checks.vec3("velocity", velocity)[None],
            spin=checks.vec3("spin", spin)[None],
            position=np.zeros((1, 3)),
            rotation=np.zeros((1, 3)),
            held=bool(held),
        )
        self._labels.add(group.name)
        self.bodies[group.name] = group
        self._bodies.append(block)
        return group.start

    def point_of(self, body: int, at: Sequence[float] = ORIGIN, rot: Any = None) -> BodyPoint:
        """A point of a body, for `add_constraints`: at (3,) [m] in its frame; rot: of a frame there.  body -1 is the
        world, whose frame does not move."""
        self._known_body(body)
        turn = pose("rot", None if rot is None else np.concatenate([ORIGIN, np.ravel(rot)]))[3:]
        return BodyPoint(int(body), tuple(checks.vec3("at", at).tolist()), tuple(turn.tolist()))

    # ------------------------------------------------------------------------------------------ what is seen of them
    def add_visual_box(self, body: int, xform: Any = None, hx: float = 0.5, hy: float = 0.5, hz: float = 0.5) -> None:
        """A box that is drawn on a body (-1: in the world): half of its lengths [m].

        xform: pose of its middle in the frame of the body, a transform or a position [m].  Bodies on which nothing is
        drawn appear as one of equal inertia.
        """
        half = [checks.number(name, value, positive=True) for name, value in (("hx", hx), ("hy", hy), ("hz", hz))]
        self._add_visual("box", body, xform, BoxForm((half[0], half[1], half[2])))

    def add_visual_sphere(self, body: int, xform: Any = None, radius: float = 1.0) -> None:
        """A sphere that is drawn on a body.  Otherwise as `add_visual_box`."""
        self._add_visual("sphere", body, xform, SphereForm(checks.number("radius", radius, positive=True)))

    def add_visual_capsule(self, body: int, xform: Any = None, radius: float = 1.0, half_height: float = 0.5) -> None:
        """A capsule along z that is drawn on a body; half_height: without its round ends.  Otherwise as
        `add_visual_box`."""
        size = checks.number("radius", radius, positive=True), checks.number("half_height", half_height)
        self._add_visual("capsule", body, xform, CapsuleForm(*size))

    def add_visual_cylinder(self, body: int, xform: Any = None, radius: float = 1.0, half_height: float = 0.5) -> None:
        """A cylinder along z that is drawn on a body.  Otherwise as `add_visual_box`."""
        names = ("radius", radius), ("half_height", half_height)
        self._add_visual("cylinder", body, xform, CylinderForm(*(checks.number(*n, positive=True) for n in names)))

    def add_visual_mesh(self, body: int, xform: Any = None, *, vertices: Any, indices: Any) -> None:
        """A surface that is drawn on a body: vertices (n, 3) [m], indices (m, 3) of triangles.  Otherwise as
        `add_visual_box`."""
        points = checks.vec3s("vertices", vertices)
        triangles = checks.point_table("indices", indices, 3, len(points))
        self._add_visual("mesh", body, xform, MeshForm(points, triangles))

    def _add_visual(self, kind: str, body: int, xform: Any, form: Form) -> None:
        self._open(f"add_visual_{kind}")
        self._known_body(body)
        self._visuals.append(Visual(int(body), pose("xform", xform), form))

    def _known_body(self, body: int) -> None:
        if isinstance(body, bool) or int(body) != body or not -1 <= body < self.body_count:
            raise ModelError(f"there is no body {body!r}", f"There are {self.body_count}, from 0 on; -1 is the world")
