"""What of a model is to be looked for in every step: solids, who may touch whom, and which constraints keep them apart.

A *lane* is a near pair: as many rows of a set, one after the other, as two shapes of these kinds can have contacts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.core.runtime.arrays.array import array


@dataclass(frozen=True, eq=False)
class NearSet:
    """The near pairs that one set of constraints is for.

    name: of the set; roles: (classes, classes) int32, by the classes of two solids, the first of which was added before
    the second: 0 the set is not for them, 1 as they come, 2 the other way round, 3 both, the second half of the rows of
    a lane the other way round.
    sizes: parameter -> side (0, 1) and part of its shape, see `FromShapes`; units: (rows of a lane,) vec3, where the
    points of the second side are, None where it is a frame; along_z: see `SlotPlace`.
    """

    name: str
    lane: int
    roles: array
    both: bool
    sizes: Mapping[str, tuple[int, int | str]]
    units: array | None
    along_z: int


@dataclass(frozen=True, eq=False)
class BodyContact:
    """The shapes of a model that are looked for in every step, world by world.

    margin [m]: how far projections may take a shape from where it is predicted at most, beside half of what it has
    come; least_margin [m]: the same where contacts alone push shapes, and none is predicted inside of another one.
    capacity: room for pairs, of each set, and of all; colors: in which pairs may be taken, the others after these.
    solids: (n,) int32 shapes; each: how many of a world; planes: (worlds, p) int32 shapes; classes: (each,) int32,
    of kind and whether it is on a body;
    may: (each, each) int32, 1 where a solid and a later one touch, if they meet; rubs, bounces: (shapes,) int32, 1
    where a shape has a coefficient of friction, of restitution.
    """

    margin: float
    least_margin: float
    capacity: int
    colors: int
    each: int
    solids: array
    planes: array
    classes: array
    may: array
    rubs: array
    bounces: array
    sets: tuple[NearSet, ...]

    @property
    def arrays(self) -> list[array]:
        """All that detection reads."""
        own = [self.solids, self.planes, self.classes, self.may, self.rubs, self.bounces]
        return [*own, *(a for s in self.sets for a in (s.roles, s.units) if a is not None)]


@dataclass(frozen=True, eq=False)
class MeetingShapes:
    """Pairs of shapes that are constraints from the beginning, in all worlds: (n, 2) int32, of which total (1,) = n;
    solids: (shapes,) int32, their numbers."""

    pairs: array
    total: array
    solids: array


@dataclass(frozen=True, eq=False)
class WatchedFaces:
    """Triangles of meshes that meet a signed distance at vertices alone: constraint of its points; rows (n, 3) int32,
    the numbers of the shape of the distance, of the mesh and of the triangle."""

    constraint: Constraint
    rows: array
