"""The part of `ModelBuilder` that adds shapes, with Newton's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.constraints.contact.solids.distances import contact_with
from sim.core.lang.frontend.function import Function
from sim.geometry import MeshFile, merge_positions, quaternion_between, rotated, solid_moments
from sim.model.build import checks
from sim.model.build.bodies import pose
from sim.model.build.body_builder import WORLD, BodyBuilder
from sim.model.build.points.objects import index_table
from sim.model.build.shapes.blocks import NearBlock, ShapeBlock, ShapeConfig
from sim.model.errors import ModelError
from sim.model.groups import Group
from sim.model.visuals import MeshForm

UP = np.array([0.0, 0.0, 1.0])
"""The free side of a plane, in the frame of a shape."""

Touches = Sequence[str | Group] | None


class ShapeBuilder(BodyBuilder):
    """Collects shapes of bodies, and of the world (-1).  default_shape_cfg: of shapes without a `cfg`."""

    def __init__(self) -> None:
        super().__init__()
        self.default_shape_cfg = ShapeConfig()
        self._shapes: list[ShapeBlock] = []
        self._near: NearBlock | None = None

    @property
    def shape_count(self) -> int:
        """Number of shapes so far."""
        return len(self._shapes)

    def detect_bodies(self, margin: float | None = None, capacity: int | None = None) -> None:
        """Every step looks for the shapes of bodies that are near each other, and has contacts of these alone, as it
        does by itself where there are more than 64 pairs of shapes in a world; of fewer all are constraints.

        margin [m]: how far a step may push a shape beyond where it would go without contacts, and half of its way;
        default: a tenth of the least half width at most, and less where contacts alone push and nothing is deep.
        capacity: room for near pairs of shapes, of all worlds and of each two kinds; default: 64, and 8 for each shape.
        What does not suffice is an error.  Called once.
        """
        self._open("detect_bodies")
        if self._near is not None:
            raise ModelError("detect_bodies is called twice", "Call it once")
        self._near = NearBlock(
            None if margin is None else checks.number("margin", margin, positive=True),
            None if capacity is None else checks.whole("capacity", capacity),
        )

    def add_shape_box(
        self,
        body: int,
        xform: Any = None,
        hx: float = 0.5,
        hy: float = 0.5,
        hz: float = 0.5,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
    ) -> str:
        """A box on a body, -1 the world: half of its lengths [m].  Returns its label, `body.label`.

        xform: pose of its middle in the frame of the body, a transform or a position [m].  cfg: what it is made of;
        None: `default_shape_cfg`.  The mass of a body is its own, and those of its shapes; likewise centre of mass and
        inertia.  Bodies are drawn as their shapes, where they have no visuals.
        Paths: `body.label.half` (3,), `.at` (3,), `.density` or `.mass` where it adds to the body, `.mu`,
        `.restitution`; of shapes in the world without the body.
        """
        half = np.array([checks.number(name, h, positive=True) for name, h in (("hx", hx), ("hy", hy), ("hz", hz))])
        return self._add_shape("box", body, xform, {"half": half[None]}, cfg, label)

    def add_shape_sphere(
        self,
        body: int | Sequence[float] | None = None,
        xform: Any = None,
        radius: float = 1.0,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
        *,
        center: Sequence[float] | None = None,
        pos: Sequence[float] | None = None,
        compliance: float = 0.0,
        touches: Touches = None,
    ) -> str:
        """A ball on a body; in the world one that particles stay out of.  Otherwise as `add_shape_box`.

        In the world: `add_shape_sphere(center, radius)` for short, `pos` being another name of `center`; its path is
        `label.center`.  compliance [m/N] of the contact with one particle, touches: see `add_ground_plane`.
        Paths: `.radius`, ...
        """
        self._open("add_shape_sphere")
        size = {"radius": np.array([checks.number("radius", radius, positive=True)])}
        if isinstance(body, int):
            if center is not None or pos is not None:
                raise ModelError("add_shape_sphere has a body and a center", "Give its place in the body by xform")
            place = xform
        else:
            places = [place for place in (body, center, pos) if place is not None]
            if len(places) != 1:
                raise ModelError("add_shape_sphere needs its center", "Give a body, center, or pos, which is the same")
            if xform is not None:  # add_shape_sphere(center, radius)
                size["radius"][:] = checks.number("radius", xform, positive=True)
            body, place = WORLD, checks.vec3("center", places[0])
        return self._add_shape("sphere", body, place, size, cfg, label, compliance, touches, "contact_sphere")

    def add_shape_capsule(
        self,
        body: int,
        xform: Any = None,
        radius: float = 1.0,
        half_height: float = 0.5,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
    ) -> str:
        """A capsule along z; half_height: without its round ends.  Paths: `.radius`, `.half_height`, ...  Otherwise as
        `add_shape_box`."""
        size = checks.number("radius", radius, positive=True), checks.number("half_height", half_height)
        return self._add_shape("capsule", body, xform, _round(*size), cfg, label)

    def add_shape_cylinder(
        self,
        body: int,
        xform: Any = None,
        radius: float = 1.0,
        half_height: float = 0.5,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
    ) -> str:
        """A cylinder along z.  Paths: `.radius`, `.half_height`, ...  Otherwise as `add_shape_box`."""
        names = ("radius", radius), ("half_height", half_height)
        size = _round(*(checks.number(*n, positive=True) for n in names))
        return self._add_shape("cylinder", body, xform, size, cfg, label)

    def add_shape_mesh(
        self,
        body: int,
        xform: Any = None,
        mesh: MeshFile | None = None,
        scale: Any = None,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
        *,
        vertices: Any = None,
        indices: Any = None,
    ) -> str:
        """What a closed surface encloses: `mesh` (of `sim.geometry.load_mesh`), or `vertices` (n, 3) [m] and `indices`
        (m, 3) of triangles that look outward.  Vertices at one place are one.

        scale: (3,), factors along its axes, or one for all.  Paths: `.scale`, ...  Otherwise as `add_shape_box`.
        Raises ModelError where the surface is open, not wound alike, or looks inward.
        """
        if (mesh is None) == (vertices is None) or (mesh is not None and indices is not None):
            raise ModelError("add_shape_mesh needs either mesh, or vertices and indices", "Give one of the two")
        if mesh is not None:
            if not isinstance(mesh, MeshFile):
                raise ModelError(
                    f"mesh is {type(mesh).__name__}; expected what sim.geometry.load_mesh gives",
                    "Give vertices=(n, 3) and indices=(m, 3): of trimesh, vertices=mesh.vertices, indices=mesh.faces",
                )
            points, triangles = mesh.positions, mesh.triangles
        else:
            given = checks.vec3s("vertices", vertices)
            points, rank = merge_positions(given)
            triangles = rank[checks.point_table("indices", index_table(indices, 3, "triangles"), 3, len(given))]
        moments = checks.geometry(solid_moments, points, triangles)
        factors = np.broadcast_to(np.asarray(1.0 if scale is None else scale, np.float64), 3).copy()
        if not (factors > 0.0).all():
            raise ModelError(f"scale = {scale!r} is not positive", "To mirror a mesh turn its triangles round too")
        return self._add_shape(
            "mesh", body, xform, {"scale": factors[None]}, cfg, label,
            moments=moments, mesh=MeshForm(points, triangles),
        )  # fmt: skip

    def add_shape_sdf(
        self,
        body: int,
        xform: Any = None,
        sdf: Function | Callable[..., Any] | None = None,
        scale: Any = None,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
    ) -> str:
        """What is inside of a surface that a function of the language tells: `sdf(p, scale)` is the distance [m] of a
        point p (3,), in the frame of the shape, from it, negative inside.  Otherwise as `add_shape_box`.

        It meets particles, balls, capsules, boxes, cylinders and vertices of meshes, at the zero of the function less
        their thickness or radius; its slope is to be 1 there, away from kinks.  Capsules, boxes and cylinders meet it
        anywhere on their sides, a mesh at its vertices alone: what is narrower than these are apart comes in between.
        An edge of the distance itself that comes onto a side or an edge is an error: round it off.  Derivatives are
        those of the function, by `scale` too.  It has no mass and is not drawn.  scale: (3,) numbers that it takes, or
        one for all, default 1.  Paths: `.scale`, `.at`, `.mu`, ...
        Raises ModelError where no function is given, or scale is not finite; KernelError where its text is none of the
        language.
        """
        if sdf is None or not callable(getattr(sdf, "python", sdf)):
            raise ModelError(f"sdf is {sdf!r}", "Give a function of the language: sdf(p, scale)")
        numbers = np.broadcast_to(np.asarray(1.0 if scale is None else scale, np.float64), 3).copy()
        if not np.isfinite(numbers).all():
            raise ModelError(f"scale = {scale!r} is not finite", "Give one number, or three")
        return self._add_shape("sdf", body, xform, {"scale": numbers[None]}, cfg, label, sdf=contact_with(sdf))

    def add_shape_plane(
        self,
        plane: Sequence[float] | None = (0.0, 0.0, 1.0, 0.0),
        xform: Any = None,
        width: float = 10.0,
        length: float = 10.0,
        body: int = WORLD,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
        *,
        compliance: float = 0.0,
        touches: Touches = None,
    ) -> str:
        """A half space: a x + b y + c z + d = 0 of `plane` (a, b, c, d), whose normal (a, b, c) points to the free
        side; or the plane z = 0 of `xform`, which goes before.  It has no mass.

        In the world it is an `add_ground_plane`, with its paths, arguments and label.  width, length [m]: kept in
        `shape_scale`; the plane has no end.
        """
        if xform is None:
            equation = np.asarray(plane, np.float64)
            if equation.shape != (4,) or not np.isfinite(equation).all() or not equation[:3].any():
                raise ModelError(f"plane is {plane!r}", "Give (a, b, c, d) with a normal (a, b, c) that has a length")
            normal = equation[:3] / np.linalg.norm(equation[:3])
            at = -equation[3] / np.linalg.norm(equation[:3]) * normal
        else:
            frame = pose("xform", xform)
            at, normal = frame[:3], rotated(frame[3:], UP)
        extent = checks.number("width", width), checks.number("length", length)
        return self._add_plane("add_shape_plane", body, at, normal, cfg, label, compliance, touches, extent)

    def add_ground_plane(
        self,
        height: float = 0.0,
        *,
        point: Sequence[float] | None = None,
        normal: Sequence[float] = (0.0, 1.0, 0.0),
        cfg: ShapeConfig | None = None,
        compliance: float = 0.0,
        touches: Touches = None,
        label: str | None = None,
    ) -> str:
        """A half space of the world that particles stay out of.  Returns the label.

        Through `point`, or `height` along the normal, which points to the free side.  compliance [m/N] of the contact
        with one point, which is a spring then, and has no restitution; touches: the objects (labels or groups) that
        collide with it, default all.
        Paths: `label.point`, `.normal`, `.compliance`, `.mu`, `.restitution`.
        """
        direction = checks.vec3("normal", normal)
        if not direction.any():
            raise ModelError("normal has no length", "Give the direction to the free side")
        if point is not None and height != 0.0:
            raise ModelError("height and point both say where the plane is", "Give one of them")
        unit = direction / np.linalg.norm(direction)
        at = checks.vec3("point", point) if point is not None else unit * float(height)
        return self._add_plane("add_ground_plane", WORLD, at, direction, cfg, label, compliance, touches)

    # ------------------------------------------------------------------------------------------ inside
    def _add_plane(
        self,
        method: str,
        body: int,
        at: np.ndarray,
        normal: np.ndarray,
        cfg: ShapeConfig | None,
        label: str | None,
        compliance: float,
        touches: Touches,
        extent: tuple[float, float] = (0.0, 0.0),
    ) -> str:
        self._open(method)
        if body == WORLD:
            values = {"normal": normal[None]}
            return self._add_shape(
                "plane", body, at, values, cfg, label, compliance, touches, "contact_plane", extent=extent
            )
        turn = quaternion_between(UP, normal)
        frame = np.concatenate([at, (1.0, 0.0, 0.0, 0.0) if turn is None else turn])
        return self._add_shape("plane", body, frame, {}, cfg, label, extent=extent)

    def _add_shape(
        self,
        kind: str,
        body: int,
        xform: Any,
        size: dict[str, np.ndarray],
        cfg: ShapeConfig | None,
        label: str | None,
        compliance: float = 0.0,
        touches: Touches = None,
        contact: str = "",
        **more: Any,
    ) -> str:
        self._open(f"add_shape_{kind}")
        self._known_body(body)
        made_of, frame = self.default_shape_cfg if cfg is None else cfg, pose("xform", xform)
        in_world = body == WORLD
        place = {"sphere": "center", "plane": "point"}.get(kind, "at") if in_world else "at"
        values = {place: frame[None, :3], **size, **_weight(made_of, in_world or kind in ("plane", "sdf"))}
        values |= coefficients(made_of)
        if in_world and contact:
            values["compliance"] = np.array([checks.number("compliance", compliance)])
        elif compliance:
            raise ModelError("compliance of a shape of a body", "It is that of shapes in the world, with particles")
        names = touched_names(made_of.touches if touches is None else touches)
        name = self._shape_label(label, "ground" if kind == "plane" else kind, body)
        block = ShapeBlock(
            name, kind, np.array([body], np.int32), values, place, frame[3:], contact if in_world else "", names, **more
        )
        self._labels.add(name)
        self._shapes.append(block)
        if block.weighs:
            self._block_of_body(body).weighed = True
        return name

    def _shape_label(self, label: str | None, default: str, body: int) -> str:
        """A free label, on a body behind that of the body."""
        if body == WORLD:
            return self._label(label, default)
        prefix = f"{self._block_of_body(body).label}."
        own = {name.removeprefix(prefix) for name in self._labels if name.startswith(prefix)}
        return prefix + self._label_among(own, label, default)


def coefficients(cfg: ShapeConfig) -> dict[str, np.ndarray]:
    """The material values of what a surface does in contact, of those that are given."""
    given = {key: getattr(cfg, key) for key in ("mu", "restitution")}
    if given["restitution"] is not None and given["restitution"] > 1.0:
        raise ModelError(f"restitution = {cfg.restitution:g} is more than 1", "1 keeps all of the speed")
    return {key: np.array([checks.number(key, value)]) for key, value in given.items() if value is not None}


def touched_names(touches: Touches | str | Group) -> tuple[str, ...] | None:
    """The labels of objects; None: all of them."""
    listed = [touches] if isinstance(touches, str | Group) else touches
    return None if listed is None else tuple(t.name if isinstance(t, Group) else t for t in listed)


def _round(radius: float, half_height: float) -> dict[str, np.ndarray]:
    return {"radius": np.array([radius]), "half_height": np.array([half_height])}


def _weight(cfg: ShapeConfig, weightless: bool) -> dict[str, np.ndarray]:
    """The material value of what a shape weighs; none where it weighs nothing."""
    density = checks.number("density", cfg.density)
    mass = None if cfg.mass is None else checks.number("mass", cfg.mass)
    if weightless or not (density if mass is None else mass):
        return {}
    return {"density": np.array([density])} if mass is None else {"mass": np.array([mass])}
