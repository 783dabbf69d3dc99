"""Shapes as a builder collects them, until `finalize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sim.constraints.base import Constraint
from sim.geometry import SolidMoments
from sim.model.groups import Group
from sim.model.visuals import MeshForm

ONE_BOX = SolidMoments(8.0, np.zeros(3), 8.0 / 3.0 * np.eye(3))
"""Of a box with half lengths of one."""


@dataclass(slots=True)
class ShapeConfig:
    """What a shape is made of: density [kg/m^3], or its mass [kg] instead; mu: coefficient of friction; restitution:
    speed after a collision over that before.

    Of two surfaces the mean counts; one without takes that of the other, and where neither has any contact neither rubs
    nor bounces.  touches: the objects (labels or groups) that a shape of a body collides with; None: all, but bodies
    that a joint holds to its own.  Other settings of Newton's (ke, kd, margin, ...) are not there: contact has no
    stiffness of its own.
    """

    density: float = 1000.0
    mu: float | None = None
    restitution: float | None = None
    mass: float | None = None
    touches: Sequence[str | Group] | str | Group | None = None


@dataclass(frozen=True)
class NearBlock:
    """How near pairs of shapes are looked for: see `ShapeBuilder.detect_bodies`."""

    margin: float | None = None
    capacity: int | None = None


@dataclass(eq=False)
class ShapeBlock:
    """A shape.  bodies (worlds,): -1 is the world; values: material values, (1,) or (1, 3), of each world.

    place: which of the values is its position; turn: quaternion (4,) in the frame of the body; extent: of a plane, as
    it is drawn.  contact: name of the constraint that keeps particles out, "" for none; touches: the objects whose
    particles they are, None: all.  moments, mesh: of a mesh.  shared: the whole paths of values that are those of
    something else; sdf: of a signed distance; beside: bodies of the first world, parts of the same rod, that it does
    not touch.
    """

    label: str
    kind: str
    bodies: np.ndarray
    values: dict[str, np.ndarray]
    place: str
    turn: np.ndarray
    contact: str = ""
    touches: tuple[str, ...] | None = None
    extent: tuple[float, float] = (0.0, 0.0)
    moments: SolidMoments = field(default_factory=lambda: ONE_BOX)
    mesh: MeshForm | None = None
    sdf: Constraint | None = None
    shared: Mapping[str, str] = field(default_factory=dict)
    beside: frozenset[int] = frozenset()

    def path(self, key: str) -> str:
        """Of one of its values among those of the model."""
        return self.shared.get(key, f"{self.label}.{key}")

    @property
    def owner(self) -> str:
        """The body that it is on; in the world the shape itself."""
        return self.label.split(".")[0]

    @property
    def weighs(self) -> bool:
        """Whether it adds to the mass of its body."""
        return "density" in self.values or "mass" in self.values

    def copied(self, number_bodies: Callable[[np.ndarray], np.ndarray], worlds: int) -> ShapeBlock:
        """Those of all worlds, one world after the other."""
        values = {key: np.concatenate([value] * worlds) for key, value in self.values.items()}
        bodies = np.full(worlds, -1, np.int32) if self.bodies[0] < 0 else number_bodies(self.bodies)
        beside = number_bodies(np.array(sorted(self.beside), np.int32))[: len(self.beside)]
        return replace(self, values=values, bodies=bodies, beside=frozenset(beside.tolist()))
