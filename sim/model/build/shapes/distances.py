"""Contacts of signed distances with capsules, boxes, cylinders and meshes: which patches of these meet.

Patches are places (ends, corners, vertices, places of rims), and what lies between them, of which each step looks for
the deepest place.  Lines and faces are parted, since each patch has one such place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.contact.solids.distance_patches import DISC, FLAT, RIM, patches_with
from sim.constraints.slots.pattern import Slots
from sim.core.lang.types import int32
from sim.model.build.blocks import ConstraintBlock, FromShapes
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.cylinders import EDGES, PLACES
from sim.model.build.shapes.pairs import (
    CORNERS,
    POINTS,
    PairRows,
    check_kinds,
    collide,
    has_distance,
    pairs_of,
    pattern_of,
)
from sim.model.collision.near.declared import WatchedFaces
from sim.model.derived.arrays import ArrayFactory

PARTS = 3
"""Of every line, and of every side of a face: an odd number, so that what is met in the middle is within one."""
PARTED = np.linspace(-1.0, 1.0, 2 * PARTS + 1)[1::2]
NONE = np.zeros(3)

Patch = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, float]
"""Middle, both half sides, where it is at a border, in units of a size; kind, and whether it stands for the one across
from it, too: every row of a body costs about as much as any other, whether it touches or not."""


def distance_blocks(shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]]) -> list[ConstraintBlock]:
    """joined: pairs of bodies of the first world with a joint between them."""
    found: dict[tuple[str, str, str, int], list[tuple[int, int]]] = {}
    for i, j in pairs_of(np.array([shape.kind == "sdf" for shape in shapes], bool)):
        if has_distance(shapes[i], shapes[j]) and collide(shapes[i], shapes[j], joined):
            check_kinds(shapes[i], shapes[j])
            first, second = (i, j) if shapes[i].kind == "sdf" else (j, i)
            a, b = shapes[first], shapes[second]
            assert a.sdf is not None
            key = a.sdf.name, b.kind, pattern_of(a, b), second if b.kind == "mesh" else -1
            found.setdefault(key, []).append((first, second))
    out = []
    for (_, kind, pattern, _), pairs in found.items():
        a, b = (shapes[k] for k in pairs[0])
        assert a.sdf is not None
        for size, patches in _patches(b):
            label = f"{b.label if kind == 'mesh' else kind} on {a.sdf.name} ({pattern}, {size})"
            out.append(_patch_block(label, a.sdf, size, pattern, PairRows(shapes, pairs, len(patches)), patches))
    return out


def watched_faces(shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]], make: ArrayFactory) -> list[WatchedFaces]:
    """The triangles of meshes that signed distances may come into between vertices; joined: see `distance_blocks`."""
    worlds, found = len(shapes[0].bodies) if shapes else 1, dict[Constraint, list[np.ndarray]]()
    counts = [0 if shape.mesh is None else len(shape.mesh.triangles) for shape in shapes]
    first = np.cumsum([0, *counts])
    for i, j in pairs_of(np.array([shape.kind == "sdf" for shape in shapes], bool)):
        if {shapes[i].kind, shapes[j].kind} == {"sdf", "mesh"} and collide(shapes[i], shapes[j], joined):
            a, b = (i, j) if shapes[i].kind == "sdf" else (j, i)
            own, of = np.arange(first[b], first[b + 1]), shapes[a].sdf
            assert of is not None
            for world in range(worlds):
                pair = [np.full(len(own), k * worlds + world) for k in (a, b)]
                found.setdefault(of, []).append(np.stack([*pair, own], axis=1))
    return [WatchedFaces(of, make.constant(np.concatenate(rows).astype(np.int32), int32)) for of, rows in found.items()]


def _patches(shape: ShapeBlock) -> list[tuple[str, list[Patch]]]:
    """The patches of a shape, by what they are in units of (see `FromShapes`); of a mesh its vertices."""
    z = np.array([0.0, 0.0, 1.0])
    ends = [up * z for up in (1.0, -1.0)]
    if shape.mesh is not None:
        vertices = np.asarray(shape.mesh.vertices, np.float64)
        return [("half", [(at, NONE, NONE, NONE, FLAT, 0.0) for at in vertices])]
    if shape.kind == "capsule":
        return [("spine", _places(POINTS["capsule"]) + _parts_of_line(NONE, z))]
    axes = np.eye(3)
    if shape.kind == "cylinder":
        rims: list[Patch] = [(end, axes[0], axes[1], end, RIM, 0.0) for end in ends]
        faces = _parts_of_face(z, axes[0], axes[1], DISC)
        return [("spine", _parts_of_line(NONE, z)), ("round", _places(PLACES) + rims + faces)]
    lines = [p for edge in EDGES for p in _parts_of_line(edge, 1.0 - np.abs(edge)) if tuple(edge) > (0.0, 0.0, 0.0)]
    sides = [(axes[k], axes[(k + 1) % 3], axes[(k + 2) % 3]) for k in range(3)]
    return [("half", _places(CORNERS) + lines + [p for side in sides for p in _parts_of_face(*side, FLAT)])]


def _places(at: np.ndarray) -> list[Patch]:
    return [(place, NONE, NONE, place, FLAT, 0.0) for place in at]


def _parts_of_line(middle: np.ndarray, along: np.ndarray) -> list[Patch]:
    return [(middle + s * along, along / PARTS, NONE, middle, FLAT, float(middle.any())) for s in PARTED]


def _parts_of_face(middle: np.ndarray, u: np.ndarray, v: np.ndarray, kind: float) -> list[Patch]:
    return [(middle + s * u + t * v, u / PARTS, v / PARTS, middle, kind, 1.0) for s in PARTED for t in PARTED]


def _patch_block(
    label: str, of: Constraint, size: str, pattern: str, rows: PairRows, patches: list[Patch]
) -> ConstraintBlock:
    times, zero, none = rows.count // len(patches), np.zeros(rows.count), np.zeros((rows.count, 3))
    parts = {name: np.tile([p[k] for p in patches], (times, 1)) for k, name in enumerate(("origin", "u", "v", "out"))}
    around = rows.shapes[1] if size == "spine" else np.full(rows.count, -1)
    return ConstraintBlock(
        label, label, patches_with(of), rows.bodies, np.ones(rows.count), {},
        constants={"compliance": zero, **parts, "round": np.tile([p[4] for p in patches], times),
                   "both": np.tile([p[5] for p in patches], times), "at": none, "inverse": none,
                   "sharp": zero},
        slots=Slots(pattern), places={0: rows.frame(0), 1: rows.frame(1)},
        from_shapes={"scale": FromShapes("half", rows.shapes[0]), "size": FromShapes(size, rows.shapes[1]),
                     "thickness": FromShapes(0, around)} | rows.surface,
    )  # fmt: skip
