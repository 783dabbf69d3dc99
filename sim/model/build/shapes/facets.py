"""Contacts of balls, capsules and boxes with triangles of surfaces that they could pass through between the points.

A ball meets them by its centre, a capsule by both ends of its line of centres and, at edges, by that line, a box by
its corners and edges.  All pairs are constraints from the beginning, beside those with the points.  A surface that a
shape begins through meets it by its points alone: which side it is to be on nobody can say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sim.constraints.base import REGISTRY
from sim.constraints.slots.pattern import PARTICLE, Slots
from sim.geometry import quaternion_about, quaternion_product, rotated
from sim.model.build.blocks import ConstraintBlock, FromShapes, PointBlock
from sim.model.build.bodies import BodyBlock, SlotPlace
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.overlaps import PlacedSolid, comes_through, distances_from_triangles
from sim.model.build.shapes.pairs import CORNERS, NO_TURN, POINTS, ROUND
from sim.model.collision.surfaces import edges_of
from sim.model.groups import Group

LINES = {
    "capsule": POINTS["capsule"][None],
    "box": np.array([[a, b] for a in CORNERS for b in CORNERS if (b - a).max() == 2.0 and (a != b).sum() == 1]),
}
"""The edges of shapes, or their lines of centres, by both ends (n, 2, 3) in units of their size."""
MOST = 8192
"""Contacts of a shape and a surface, each of which costs some tenths of a microsecond in a sweep: of more, a surface
meets it by its points alone, as one that it begins through."""
ALONG = 17
"""Places of a line of centres that are looked at."""
CLOSER = 0.1
"""Part of its radius by which a shape may be too close in the beginning: contacts push it out."""


def facet_blocks(
    shapes: Sequence[ShapeBlock],
    touched: Mapping[str, np.ndarray],
    groups: Mapping[str, Group],
    blocks: Sequence[PointBlock],
    bodies: Sequence[BodyBlock],
    thickness: np.ndarray,
    tied: set[tuple[int, int]],
) -> list[ConstraintBlock]:
    """touched, thickness, tied: as `contact_blocks` takes them; blocks, bodies: all points and bodies."""
    out = []
    starts = _first_places(blocks, len(thickness))
    for number, shape in enumerate(shapes):
        points = touched.get(shape.label, np.zeros(0, np.int32))
        if shape.kind not in POINTS or np.any(shape.values.get("compliance", 0.0)):
            continue
        sizes = shape.values["radius" if shape.kind in ROUND else "half"]
        for group in groups.values():
            triangles = group.triangles[np.isin(group.triangles, points).all(axis=1)]
            if not len(triangles) or 2.0 * sizes.min() >= longest_side(group, triangles):
                continue
            if shape.kind not in ROUND and not thickness[triangles].all():  # nothing would tell the sides apart
                continue
            rows = len(POINTS[shape.kind]) * len(triangles)
            if shape.kind in LINES:
                rows += len(LINES[shape.kind]) * len(edges_of(triangles))
            if rows > MOST * group.worlds:
                continue
            if _begins_through(shape, bodies, starts[_of_first_world(group, triangles)], thickness[triangles[0, 0]]):
                continue
            make = _Facets(facet_label(shape.label, group.name), shape, number, thickness, tied)
            out.append(make.block("contact_ball_triangle", triangles, POINTS[shape.kind][:, None]))
            if shape.kind in LINES:
                out.append(make.block("contact_capsule_edge", edges_of(triangles), LINES[shape.kind]))
    return out


def facet_label(shape: str, surface: str) -> str:
    """Of the contacts of a shape with the triangles of an object."""
    return f"{shape}/{surface}"


def longest_side(group: Group, triangles: np.ndarray) -> float:
    """Of some triangles (m, 3) of a group at rest [m]."""
    corners = group.positions[triangles - group.start]
    return float(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max())


def _of_first_world(group: Group, triangles: np.ndarray) -> np.ndarray:
    return triangles[: len(triangles) // group.worlds]


def _first_places(blocks: Sequence[PointBlock], count: int) -> np.ndarray:
    """(count, 3) where particles of the first world begin [m]; of the other worlds zero."""
    out = np.zeros((count, 3))
    for block in blocks:
        n = block.group.count // block.group.worlds
        position = block.position[:n] if len(block.position) == block.group.count else block.position[:1]
        out[block.group.of_world(0)] = rotated(_quaternion(block.rotation[0]), block.base[:n]) + position
    return out


def _begins_through(shape: ShapeBlock, bodies: Sequence[BodyBlock], triangles: np.ndarray, thickness: float) -> bool:
    """Whether a shape of the first world begins within triangles (n, 3, 3), not on one side of them."""
    at = np.concatenate([shape.values[shape.place][0], shape.turn])
    solid = PlacedSolid(shape.kind, _size(shape), at, _pose(int(shape.bodies[0]), bodies))
    if shape.kind in ROUND:
        ends = solid.points[[0, -1]]
        line = [(1.0 - s) * ends[0] + s * ends[1] for s in np.linspace(0.0, 1.0, ALONG)]
        least = (1.0 - CLOSER) * (solid.radius + thickness)
        return any(distances_from_triangles(p, triangles)[0].min() < least for p in line)
    lines = solid.at + (LINES[shape.kind] * solid.size) @ solid.axes.T
    return any(len(comes_through(a, b, triangles)) for a, b in lines)


def _size(shape: ShapeBlock) -> np.ndarray:
    """As in `shape_scale`."""
    if shape.kind == "box":
        return np.asarray(shape.values["half"][0])
    return np.array([shape.values["radius"][0], shape.values.get("half_height", np.zeros(1))[0], 0.0])


def _pose(body: int, bodies: Sequence[BodyBlock]) -> np.ndarray | None:
    """Where a body begins (7,); None for the world."""
    if body < 0:
        return None
    block = next(b for b in bodies if b.group.start <= body < b.group.start + b.group.count)
    pose = block.poses[body - block.group.start]
    return np.concatenate([pose[:3], quaternion_product(_quaternion(block.rotation[0]), pose[3:])])


def _quaternion(vector: np.ndarray) -> np.ndarray:
    """Of a rotation vector (3,)."""
    angle = float(np.linalg.norm(vector))
    return np.asarray(quaternion_about(vector, angle) if angle else [0.0, 0.0, 0.0, 1.0])


class _Facets:
    """Makes the contacts of one shape with parts of a surface."""

    def __init__(
        self, label: str, shape: ShapeBlock, number: int, thickness: np.ndarray, tied: set[tuple[int, int]]
    ) -> None:
        self.label, self.shape, self.number = label, shape, number
        self.thickness, self.tied = thickness, tied

    def block(self, name: str, parts: np.ndarray, places: np.ndarray) -> ConstraintBlock:
        """parts (m, k): particles of triangles or edges, world by world; places (e, j, 3): for every one of e contacts
        of each part where j points of the shape are, in units of its size."""
        shape, worlds, (each, on_shape, _) = self.shape, len(self.shape.bodies), places.shape
        held = shape.bodies[0] < 0
        body = np.repeat(shape.bodies, len(parts) // worlds)
        loose = np.array([held or not any((p, b) in self.tied for p in part) for part, b in
                          zip(parts.tolist(), body.tolist(), strict=True)], bool)  # fmt: skip
        world = np.repeat(np.repeat(np.arange(worlds), len(parts) // worlds)[loose], each)
        rows = np.repeat(parts[loose], each, axis=0)
        bodies, numbers = np.maximum(shape.bodies, 0)[world], self.number * worlds + world
        units = np.tile(places, (len(rows) // each, 1, 1))
        along = 1 if shape.kind == "capsule" else 2
        own = {
            j: SlotPlace(np.zeros((1, 3)), NO_TURN, shapes=numbers, units=units[:, j], along_z=along)
            for j in range(on_shape)
        }
        constants = {
            "thickness": self.thickness[rows[:, 0]], "side": np.zeros(len(rows)), "compliance": np.zeros(len(rows))
        }  # fmt: skip
        mover, around = None if held else 0, numbers if shape.kind in ROUND else np.full(len(rows), -1)
        return ConstraintBlock(
            self.label, self.label, REGISTRY[name],
            np.concatenate([np.repeat(bodies[:, None], on_shape, axis=1), rows], axis=1).astype(np.int32),
            np.ones(len(rows)), {}, constants, slots=Slots.of([mover] * on_shape + [PARTICLE] * parts.shape[1]),
            places=own, from_shapes={"radius": FromShapes(0, around)} | self._surface(numbers),
        )  # fmt: skip

    def _surface(self, numbers: np.ndarray) -> dict[str, FromShapes]:
        """The coefficients of the shape; round ones that have none make contacts without them, and boxes with those of
        zero, of which a step chooses the sides: their corners are on no side else."""
        keys = {"friction": "mu", "restitution": "restitution"}
        if self.shape.kind in ROUND and not any(name in self.shape.values for name in keys.values()):
            return {}
        none = np.full(len(numbers), -1)
        return {
            entry: FromShapes(name, numbers if name in self.shape.values else none)
            for key, name in keys.items()
            for entry in (key, f"other_{key}")
        }
