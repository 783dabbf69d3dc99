"""The part of `ModelBuilder` that adds elastic rods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.model.build import checks
from sim.model.build.bodies import BodyBlock
from sim.model.build.points.objects import ORIGIN
from sim.model.build.rigid.inertia import RoundSegments, positive
from sim.model.build.rigid.rods import RodEnd, Segments, rod_joints
from sim.model.build.shapes.blocks import ShapeBlock, ShapeConfig
from sim.model.build.shapes.shape_builder import ShapeBuilder, coefficients, touched_names
from sim.model.errors import ModelError
from sim.model.groups import BodyGroup

Z_ALONG_X = np.array([0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)])
"""Turns a capsule, which is along z, along the first axis of a segment."""


class RodBuilder(ShapeBuilder):
    """Collects rods, which are bodies with elastic joints."""

    def add_rod(
        self,
        positions: Any,
        *,
        radius: float,
        density: float,
        young: float | None = None,
        poisson: float | None = None,
        stiffness: Mapping[str, float] | None = None,
        damping: float = 0.0,
        normal: Sequence[float] | None = None,
        closed: bool = False,
        clamp_start: int | None = None,
        clamp_end: int | None = None,
        twist_rate: float = 0.0,
        curvature: Sequence[float] = (0.0, 0.0),
        pos: Sequence[float] = ORIGIN,
        velocity: Sequence[float] = ORIGIN,
        cfg: ShapeConfig | None = None,
        label: str | None = None,
    ) -> BodyGroup:
        """A rod along `positions` (n + 1, 3): n rigid segments with elastic joints.  Returns its bodies.

        radius [m], density [kg/m^3]; the material is young [Pa] and poisson, or, for any section, `stiffness`: stretch
        = E A and shear = k G A [N] (`inf`, the default of shear, is none), torsion = G J, bend_2 and bend_3 = E I [N
        m^2].  Axis 1 of a segment is along it, axis 2 of the first is along `normal`, and from there on without twist.
        The given shape is that at rest; twist_rate and curvature (about axes 2 and 3) [1/m] are added to it.  damping
        [s]: elastic forces are those of C + damping dC/dt.  closed: the last segment joins the first.
        clamp_start, clamp_end: the body, or the world (-1), in which an end is clamped.  pos [m]: moves all of
        it; velocity [m/s]: with which all of it begins.
        cfg: what its surface is like (its `density` does not count); None: it has none, and nothing collides with it.
        With one each segment is a capsule, which does not touch the others, unless `touches` names the rod itself.
        Paths: `label.young`, `.poisson`, `.radius`, `.density`, `.damping`, `.twist_rate`, `.curvature_2`,
        `.curvature_3`, or those of `stiffness`; `.position`, `.rotation`, `.velocity`, `.spin`; of its surface `.mu`,
        `.restitution`.
        """
        self._open("add_rod")
        position = checks.vec3("pos", pos)
        points = checks.vec3s("positions", positions) + position
        if closed:
            points = np.concatenate([points, points[:1]])
        lengths = np.linalg.norm(np.diff(points, axis=0), axis=1)
        if len(points) < 2 or not (lengths > 0.0).all():
            raise ModelError(
                "positions of a rod are fewer than two, or two of them in a row are one", "Move them apart"
            )
        if (stiffness is None) == (young is None or poisson is None):
            raise ModelError("add_rod needs a material", "Give young and poisson, or stiffness")
        rest = {"twist_rate": twist_rate, "curvature_2": curvature[0], "curvature_3": curvature[1], "damping": damping}
        thickness = positive("radius", radius)
        if float(np.max(thickness)) > lengths.sum():
            what = f"radius = {float(np.max(thickness)):g} m is more than the whole rod measures, {lengths.sum():.3g} m"
            raise ModelError(what, "Check its unit: 0.004 is 4 mm")
        inertia = RoundSegments(positive("density", density), thickness, lengths)
        label = self._label(label, "rod")
        law: str = "cable"
        given: dict[str, Any] = {**(stiffness or {}), **rest}
        if stiffness is None:
            law, given = "rod", {"young": young, "poisson": poisson, "radius": radius, **rest}
        across = None if normal is None else checks.vec3("normal", normal)
        segments = Segments.along(self.body_count, points, across, closed)
        joints = rod_joints(label, law, segments, given, self._rod_end(clamp_start), self._rod_end(clamp_end))
        moving = checks.vec3("velocity", velocity)[None]
        group = BodyGroup(label, segments.start, len(lengths), lengths=lengths)
        self._labels.add(label)
        self.bodies[label] = group
        base = np.concatenate([segments.base[:, :3] - position, segments.base[:, 3:]], axis=1)
        self._bodies.append(BodyBlock(group, base, inertia, moving, np.zeros((1, 3)), position[None]))
        self._constraints += joints
        if cfg is not None:
            self._add_surface(label, segments, thickness, cfg)
        return group

    def _add_surface(self, label: str, segments: Segments, radius: np.ndarray, cfg: ShapeConfig) -> None:
        """A capsule on each segment, of the radius and the coefficients of the rod."""
        if cfg.mass is not None:
            raise ModelError("the surface of a rod has a mass", "Its mass is that of `radius` and `density` of add_rod")
        own, touches = coefficients(cfg), touched_names(cfg.touches)
        for k, length in enumerate(segments.lengths):
            name = f"{label}.segment{k}"
            values = {"at": np.zeros((1, 3)), "radius": radius, "half_height": np.array([0.5 * length]), **own}
            self._shapes.append(
                ShapeBlock(
                    name, "capsule", np.array([segments.start + k], np.int32), values, "at", Z_ALONG_X, touches=touches,
                    shared={key: f"{label}.{key}" for key in ("radius", *own)},
                    beside=segments.beside(k, float(radius[0])),
                )
            )  # fmt: skip
            self._labels.add(name)

    def _rod_end(self, body: int | None) -> RodEnd | None:
        if body is None:
            return None
        return RodEnd(body, self.pose_of(body))
