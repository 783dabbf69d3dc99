"""The part of `ModelBuilder` that adds rigid bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.geometry import UNPLACED, Placed, rotated
from sim.model.build import checks
from sim.model.build.bodies import BodyBlock, BodyPoint, inertia_rows, pose
from sim.model.build.collection import Collection
from sim.model.build.motions import read_motions
from sim.model.build.points.objects import ORIGIN
from sim.model.build.rigid.forces import BodyForce, read_body_force
from sim.model.build.rigid.inertia import GivenInertia, Inertia, OfShapes
from sim.model.errors import ModelError
from sim.model.groups import BodyGroup, Group
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
        self._body_forces: list[BodyForce] = []

    @property
    def body_count(self) -> int:
        """Number of rigid bodies so far."""
        return sum(block.group.count for block in self._bodies)

    def add_body(
        self,
        xform: Any = None,
        mass: float | None = None,
        inertia: Any = None,
        com: Sequence[float] = ORIGIN,
        label: str | None = None,
        *,
        velocity: Sequence[float] = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        held: bool = False,
        motion: Sequence[Mapping[str, Any]] | None = None,
    ) -> int:
        """A rigid body.  Returns its number.

        xform: pose of its origin, a transform or a position [m]; mass [kg] of its own, beside that of shapes (None: it
        has only theirs); a body without any is held; inertia [kg m^2] about the
        centre of mass, in the axes of the body: principal moments (3,), xx yy zz xy xz yz (6,), or (3, 3); com: centre
        of mass [m] in its frame; velocity: of the centre of mass [m/s], spin: angular velocity [rad/s], in the world.
        held: it does not move, but by its motion: displacements and turns that are added up, as in `add_attachment`,
        and `{"turn": (3,) [rad], "start": 0, "end": s, "ease": "smooth" | "linear"}`, a rotation vector, about its
        origin; a recording, `{"follow": ...}`, moves and turns it.  Paths: `label.mass`, `.inertia`, `.com`,
        `.position`, `.rotation` (rotation vector about the given
        turn), `.velocity`, `.spin`, `.motion.0.move`, ...
        """
        self._open("add_body")
        base = pose("xform", xform)[None]
        own, weight = _own_inertia(mass, inertia, com), 0.0 if mass is None else float(mass)
        motions = read_motions(motion, of_body=True)
        if motions and weight > 0.0 and not held:
            raise ModelError("motion of a body that is free", "Hold it: held=True, or mass=0")
        group = BodyGroup(self._label(label, "body"), self.body_count, 1)
        block = BodyBlock(
            group,
            np.concatenate([np.zeros((1, 3)), base[:, 3:]], axis=1),
            own,
            velocity=checks.vec3("velocity", velocity)[None],
            spin=checks.vec3("spin", spin)[None],
            position=base[:, :3],
            held=bool(held),
            motions=motions,
        )
        self._labels.add(group.name)
        self.bodies[group.name] = group
        self._bodies.append(block)
        return group.start

    def add_body_force(
        self,
        body: int,
        *,
        force: tuple[Any, Any] | None = None,
        torque: tuple[Any, Any] | None = None,
        at: Sequence[float] | None = None,
        label: str | None = None,
    ) -> str:
        """What acts on a body over time, along the axes of the world.  Returns the label.

        force: times (k,) [s] and forces (k, 3) [N]; torque: times (k,) and torques (k, 3) [N m]; linear between them,
        held before and behind.  at: where the force acts, in the frame of the body (None: its centre of mass).
        """
        self._open("add_body_force")
        if not 0 <= int(body) < self.body_count:
            raise ModelError(f"body {body} does not exist", f"There are {self.body_count} of them")
        label = self._label(label, "force")
        self._body_forces.append(read_body_force(label, int(body), force, torque, at))
        self._labels.add(label)
        return label

    def _sites_of(self, bodies: Sequence[int], at: Any, edges: Any, particles: int, label: str | None) -> Group:
        """See `ModelBuilder.add_sites`."""
        places = checks.vec3s("at", at)
        if len(places) != len(bodies):
            raise ModelError(f"there are {len(bodies)} bodies and {len(places)} places", "Give a body for each place")
        for body in bodies:
            self.point_of(body)
        start = particles + sum(block.group.count for block in self._sites)
        poses = np.concatenate([block.poses for block in self._bodies])[np.asarray(bodies, int)]
        positions = np.array([p[:3] + rotated(p[3:], x) for p, x in zip(poses, places, strict=True)])
        links = np.zeros((0, 2), np.int32) if edges is None else np.asarray(edges, np.int32).reshape(-1, 2) + start
        name = label if label in self.bodies else self._label(label, "sites")
        return Group(name, "sites", start, len(places), positions, edges=links.astype(np.int32))

    def pose_of(self, body: int) -> Placed:
        """Where a body begins."""
        self.point_of(body)
        if body < 0:
            return UNPLACED
        own = np.concatenate([b.poses for b in self._bodies])[body]
        return Placed(own[:3], own[3:])

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

    def _block_of_body(self, body: int) -> BodyBlock:
        return next(b for b in self._bodies if b.group.start <= body < b.group.start + b.group.count)

    def _known_body(self, body: int) -> None:
        number = isinstance(body, (int, np.integer)) and not isinstance(body, bool)
        if not number or not -1 <= body < self.body_count:
            raise ModelError(f"there is no body {body!r}", f"There are {self.body_count}, from 0 on; -1 is the world")


def _own_inertia(mass: float | None, inertia: Any, com: Sequence[float]) -> Inertia:
    """What a body has without its shapes."""
    place = checks.vec3("com", com)
    if mass is None:
        for name, given in (("inertia", inertia is not None), ("com", place.any())):
            if given:
                raise ModelError(f"{name} of a body without a mass", "Give mass too, or leave both to its shapes")
        return OfShapes()
    weight = checks.number("mass", mass)
    if weight > 0.0 and inertia is None:
        raise ModelError("add_body needs an inertia", "Give moments of inertia about the centre of mass [kg m^2], or "
                         "leave out mass too and add shapes with a density")  # fmt: skip
    moments = np.ones((1, 3)) if inertia is None else inertia_rows("inertia", inertia, 1)
    return GivenInertia(np.array([weight]), place[None], moments)
