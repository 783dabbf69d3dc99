"""What the `add_*` methods return and a model lists: groups of points, joints, shapes, attachments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sim.core.runtime.arrays.array import array
from sim.geometry import EmbeddedSurface, choose_points

NO_EDGES = np.zeros((0, 2), np.int32)
NO_TRIANGLES = np.zeros((0, 3), np.int32)
NO_TETS = np.zeros((0, 4), np.int32)


@dataclass(frozen=True, eq=False)
class Group:
    """The points of one object: particles `start` to `start + count - 1`.  All indices are particle numbers.

    positions: (count, 3) float64 rest positions [m]; triangles (m, 3), edges (e, 2), tets (t, 4) int32; boundary:
    (count,) bool, None where the object is no surface; file_to_point: (vertices of the mesh file,) int32, the particle
    that each of them became, None without a file; elements: for each constraint of the material the points (n, k) of
    its constraints, in the order in which a value per element is given; surface: one that a solid carries along,
    counted from its own first point.  worlds: how many copies of the object these are, one after the other.
    """

    name: str
    kind: str
    start: int
    count: int
    positions: np.ndarray
    triangles: np.ndarray = field(default_factory=NO_TRIANGLES.copy)
    edges: np.ndarray = field(default_factory=NO_EDGES.copy)
    tets: np.ndarray = field(default_factory=NO_TETS.copy)
    boundary: np.ndarray | None = None
    file_to_point: np.ndarray | None = None
    surface: EmbeddedSurface | None = None
    elements: Mapping[str, np.ndarray] = field(default_factory=dict)
    worlds: int = 1

    def of_world(self, world: int) -> np.ndarray:
        """The particle numbers of the group in one world, (count / worlds,) int32."""
        return self.points.reshape(self.worlds, -1)[world]

    @property
    def points(self) -> np.ndarray:
        """The particle numbers of the group, (count,) int32."""
        return np.arange(self.start, self.start + self.count, dtype=np.int32)

    def choose(self, where: Mapping[str, Any]) -> np.ndarray:
        """Particle numbers (k,) int32 of the points that satisfy a rule; see `sim.geometry.choose_points`."""
        of_file = (
            None
            if self.file_to_point is None
            else np.where(self.file_to_point < 0, -1, self.file_to_point - self.start)
        )
        return choose_points(self.positions, where, self.boundary, of_file) + np.int32(self.start)

    def __repr__(self) -> str:
        return f"Group({self.name!r}, {self.kind}, points {self.start}..{self.start + self.count - 1})"


@dataclass(frozen=True, eq=False)
class BodyGroup:
    """The rigid bodies of one object: numbers `start` to `start + count - 1`.

    worlds: as in `Group`; lengths: (n,) [m] of the segments of a rod in one world, None for others.
    """

    name: str
    start: int
    count: int
    worlds: int = 1
    lengths: np.ndarray | None = None

    @property
    def bodies(self) -> np.ndarray:
        """The numbers of the bodies, (count,) int32."""
        return np.arange(self.start, self.start + self.count, dtype=np.int32)

    def of_world(self, world: int) -> np.ndarray:
        """The numbers of the bodies in one world, (count / worlds,) int32."""
        return self.bodies.reshape(self.worlds, -1)[world]

    def __repr__(self) -> str:
        return f"BodyGroup({self.name!r}, bodies {self.start}..{self.start + self.count - 1})"


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint.  kind: `revolute`, ...; parents, children: (worlds,) int32, numbers of its bodies in each world, -1 for
    the world itself; coordinates, velocities: how many it has; sets: names of the constraint sets with its rows, of
    which those that hold it come last; q_starts, qd_starts: (worlds,) where its coordinates and velocities begin.
    """

    label: str
    kind: str
    parents: np.ndarray
    children: np.ndarray
    coordinates: int
    velocities: int
    sets: tuple[str, ...] = ()
    q_starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))
    qd_starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int32))

    @property
    def parent(self) -> int:
        """The number of the parent, in the first world."""
        return int(self.parents[0])

    @property
    def child(self) -> int:
        """The number of the child, in the first world."""
        return int(self.children[0])

    def __repr__(self) -> str:
        return f"Joint({self.label!r}, {self.kind}, body {self.child} on {self.parent})"


@dataclass(frozen=True, eq=False)
class CollisionShape:
    """What can be collided with: a shape of a body, or one in the world.

    label: with a body `body.shape`; kind: of `SHAPE_TYPES`; numbers (worlds,): of it among the arrays `shape_*` of the
    model, in each world; bodies (worlds,): -1 for the world.  values: key -> material value (`radius`, `density`, ...).
    points: the particles that may touch it; None: so far none do.  surface: of a mesh, before it is scaled, points
    (n, 3) [m] and triangles (m, 3).
    """

    label: str
    kind: str
    numbers: np.ndarray
    bodies: np.ndarray
    values: Mapping[str, array]
    points: np.ndarray | None = None
    surface: tuple[np.ndarray, np.ndarray] | None = None

    def __repr__(self) -> str:
        return f"CollisionShape({self.label!r}, {self.kind})"


@dataclass(frozen=True, eq=False)
class Attachment:
    """Points (n,) int32 that are held or moved; pinned if nothing gives way, else by constraints with a compliance."""

    label: str
    points: np.ndarray
    pinned: bool
    motions: int
