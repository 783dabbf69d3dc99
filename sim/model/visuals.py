"""What rigid bodies look like: forms at poses in their frames, each with a surface of triangles.

Physics does not see them.  A form has points (n, 3) [m] and triangles (m, 3), counterclockwise from outside; along a
sharp edge its points stand twice, so that normals of points are those of the faces.  Shapes are drawn in these forms
too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.geometry import rotated

Surface = tuple[np.ndarray, np.ndarray]
"""Points (n, 3) and triangles (m, 3)."""

SIDES = 24
"""Of what is round, around its axis; from pole to pole it has half as many."""

SLENDER = 0.25
"""A body whose least moment of inertia is this part of two equal ones, or less, is drawn as a capsule."""

THINNEST = 0.02
"""A box of equal inertia is nowhere thinner than this part of its length."""


class Form(ABC):
    """A body's outside, in a frame of its own, the origin in its middle."""

    @abstractmethod
    def surface(self, sides: int = SIDES) -> Surface:
        """Points and triangles; sides: of what is round, around its axis."""


@dataclass(frozen=True)
class BoxForm(Form):
    """half: half of its lengths along x, y, z [m]."""

    half: tuple[float, float, float]

    def surface(self, sides: int = SIDES) -> Surface:
        """Four points for each of the six faces."""
        points, square = [], np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1]])
        for axis in range(3):
            for side in (-1.0, 1.0):
                face = np.empty((4, 3))
                face[:, axis] = side
                face[:, [axis - 2, axis - 1]] = square[::-1] if side < 0 else square
                points.append(face)
        corner = np.arange(0, 24, 4)[:, None, None]
        return np.concatenate(points) * self.half, (corner + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3)


@dataclass(frozen=True)
class SphereForm(Form):
    """radius: [m]."""

    radius: float

    def surface(self, sides: int = SIDES) -> Surface:
        """Rings about z."""
        return _turned(self.radius * _arc(0.0, np.pi, sides // 2), sides)


@dataclass(frozen=True)
class CapsuleForm(Form):
    """A cylinder about z with half a sphere on each end; half_height: half of the cylinder's length [m]."""

    radius: float
    half_height: float

    def surface(self, sides: int = SIDES) -> Surface:
        """Rings about z."""
        upper, lower = (self.radius * _arc(a, a + np.pi / 2, max(sides // 4, 1)) for a in (0.0, np.pi / 2))
        upper[:, 1] += self.half_height
        lower[:, 1] -= self.half_height
        return _turned(np.concatenate([upper, lower]), sides)


@dataclass(frozen=True)
class CylinderForm(Form):
    """A cylinder about z; half_height: half of its length [m]."""

    radius: float
    half_height: float

    def surface(self, sides: int = SIDES) -> Surface:
        """Two ends and what is between them."""
        r, z = self.radius, self.half_height
        return _turned(np.array([[0.0, z], [r, z], [r, z], [r, -z], [r, -z], [0.0, -z]]), sides)


@dataclass(frozen=True, eq=False)
class MeshForm(Form):
    """Any surface: vertices (n, 3) [m], triangles (m, 3)."""

    vertices: np.ndarray
    triangles: np.ndarray

    def surface(self, sides: int = SIDES) -> Surface:
        """As it was given."""
        return self.vertices, self.triangles


@dataclass(frozen=True, eq=False)
class Visual:
    """A form on a body: number of the body, -1 for the world; pose (7,) in its frame, position and quaternion."""

    body: int
    pose: np.ndarray
    form: Form

    def surface(self, sides: int = SIDES) -> Surface:
        """In the frame of the body."""
        points, triangles = self.form.surface(sides)
        return rotated(self.pose[3:], points) + self.pose[:3], triangles


def form_of(kind: str, scale: np.ndarray, surface: Surface | None) -> Form:
    """What a shape looks like that is not a plane.  kind: of `SHAPE_TYPES`, scale (3,): as in `shape_scale` [m];
    surface: of a mesh."""
    x, y, z = scale.tolist()
    if kind == "mesh":
        assert surface is not None
        return MeshForm(surface[0] * scale, surface[1])
    if kind == "box":
        return BoxForm((x, y, z))
    return SphereForm(x) if kind == "sphere" else {"capsule": CapsuleForm, "cylinder": CylinderForm}[kind](x, y)


def equal_inertia(mass: float, inertia: np.ndarray) -> tuple[Form, np.ndarray]:
    """A homogeneous body with this mass [kg] and inertia (3, 3) [kg m^2], in its axes (3, 3), the columns: a capsule as
    long and as thick as the cylinder that has them where it is slender and round, else a box."""
    moments, axes = np.linalg.eigh(inertia)  # the longest side goes with the least moment, along the first axis
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    least, middle, most = moments / mass
    if most <= 1.01 * middle and least <= SLENDER * middle:
        radius = np.sqrt(2.0 * least)
        half = 0.5 * np.sqrt(12.0 * 0.5 * (middle + most) - 6.0 * least)
        form: Form = CapsuleForm(float(max(radius, THINNEST * half)), float(max(half - radius, 0.0)))
        return form, axes[:, [1, 2, 0]]
    half_sides = np.sqrt(np.maximum(1.5 * (least + middle + most - 2.0 * moments / mass), 0.0))
    x, y, z = np.maximum(half_sides, THINNEST * half_sides.max()).tolist()
    return BoxForm((x, y, z)), axes


def _arc(begin: float, end: float, steps: int) -> np.ndarray:
    """Distances from the z axis and heights (steps + 1, 2) on a unit circle, by angles from the z axis."""
    angle = np.linspace(begin, end, steps + 1)
    out = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    out[np.abs(out) < 1e-12] = 0.0
    return out


def _turned(profile: np.ndarray, sides: int) -> Surface:
    """The surface that a profile (k, 2), distances from the z axis and heights from the top down, makes around it."""
    turn = 2.0 * np.pi * np.arange(sides) / sides
    r, z = profile.T
    rings = [r[:, None] * np.cos(turn), r[:, None] * np.sin(turn), np.broadcast_to(z[:, None], (len(z), sides))]
    return np.stack(rings, axis=-1).reshape(-1, 3), np.concatenate(_bands(profile, sides))


def _bands(profile: np.ndarray, sides: int) -> Sequence[np.ndarray]:
    """The triangles between neighbouring rings that are apart; a ring on the axis is a point."""
    here, there = np.arange(sides), (np.arange(sides) + 1) % sides
    out = []
    for k, (upper, lower) in enumerate(zip(profile, profile[1:], strict=False)):
        if np.array_equal(upper, lower):
            continue
        a, b, c, d = (ring * sides + side for ring in (k, k + 1) for side in (here, there))
        if lower[0] > 0.0:
            out.append(np.stack([a, c, d], axis=1))
        if upper[0] > 0.0:
            out.append(np.stack([a, d, b], axis=1))
    return out
