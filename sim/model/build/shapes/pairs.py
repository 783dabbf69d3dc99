"""Contacts of shapes of bodies with each other, and with boxes, capsules and cylinders of the world.

Two shapes meet where a point of one is in the field of the other, both ways, or where two of their edges cross.  All
pairs of one kind are one block: their sizes and coefficients are those of the shapes, read from the model's arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from sim.constraints.base import REGISTRY, Constraint
from sim.constraints.slots.pattern import Slots
from sim.model.build.blocks import ConstraintBlock, FromShapes
from sim.model.build.bodies import SlotPlace
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.ridges import ridges_of
from sim.model.collision.surfaces import edges_of
from sim.model.errors import ModelError

FIELDS = {
    "box": "contact_box",
    "capsule": "contact_capsule",
    "cylinder": "contact_cylinder",
    "mesh": "contact_mesh",
    "sdf": "",
}
"""Shapes that see a point in their own frame, and the constraints; signed distances have one each."""
SURFACES = ("mesh", "sdf")
"""Shapes of any form, which are not looked for."""
FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
                  [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]])  # fmt: skip
"""The triangles of a box between its `CORNERS`."""
MOST_EDGES = 1 << 24
"""Pairs of edges that two shapes may have: every step looks at all of them."""
CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
POINTS = {"sphere": np.zeros((1, 3)), "capsule": np.array([[0.0, 0, -1], [0, 0, 1]]), "box": CORNERS}
"""Where a shape is met first, in units of its size."""
RIMS = np.array([[x, y, z] for z in (-1.0, 1.0) for x, y in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))])
"""What a cylinder stands on, in units of its size."""
EDGED = ("box", "capsule")
"""Shapes with edges, or a line of centres; the latter has one side."""
ROUND = ("sphere", "capsule")
"""Shapes whose points have a radius."""
HULLS = ({"mesh", "capsule"}, {"mesh", "box"}, {"mesh"}, {"mesh", "cylinder"})
"""Kinds that meet by the vertices and edges of a mesh; cylinders: see `mesh_cylinders`."""
NO_TURN = np.array([[0.0, 0, 0, 1]])


def pair_blocks(shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]], near: bool) -> list[ConstraintBlock]:
    """joined: pairs of bodies of the first world with a joint between them; near: without what every step looks for."""
    fields: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    crossings: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    hulls: list[tuple[int, int]] = []
    of_surfaces = np.array([shape.kind in SURFACES for shape in shapes], bool)
    for i, j in pairs_of(of_surfaces if near else np.ones(len(shapes), bool)):
        if not collide(shapes[i], shapes[j], joined):
            continue
        check_kinds(shapes[i], shapes[j])
        a, b = shapes[i], shapes[j]
        if rolls(a, b) or has_distance(a, b) or {a.kind, b.kind} == {"mesh", "cylinder"}:
            continue
        if {shapes[i].kind, shapes[j].kind} in HULLS:
            hulls.append((i, j) if shapes[i].kind == "mesh" else (j, i))
            continue
        for f, p in ((i, j), (j, i)):
            if seen(shapes[f].kind, shapes[p].kind, f < p):
                own = shapes[f].sdf
                kind = shapes[f].kind if own is None else own.name
                key = kind, shapes[p].kind, pattern_of(shapes[f], shapes[p])
                fields.setdefault(key, []).append((f, p))
        if shapes[i].kind in EDGED and shapes[j].kind in EDGED:
            e, f = (j, i) if shapes[j].kind == "capsule" else (i, j)
            key = shapes[e].kind, shapes[f].kind, pattern_of(shapes[e], shapes[f])
            crossings.setdefault(key, []).append((e, f))
    made = [field_block(*key, PairRows(shapes, pairs, len(POINTS[key[1]]))) for key, pairs in fields.items()]
    for key, pairs in crossings.items():
        made.append(_edge_block(*key, PairRows(shapes, pairs, len(crossings_of(*key[:2])))))
    for mesh, other in hulls:
        make = _mesh_and_capsule if shapes[other].kind == "capsule" else _mesh_and_angular
        made += make(shapes, mesh, other)
    return made


def pairs_of(some: np.ndarray) -> list[tuple[int, int]]:
    """The pairs of numbers, the lower one first, of which at least one is of some (n,) bool; in order."""
    first, second = np.nonzero(np.triu(some[:, None] | some, 1))
    return list(zip(first.tolist(), second.tolist(), strict=True))


def collide(a: ShapeBlock, b: ShapeBlock, joined: set[tuple[int, int]]) -> bool:
    """Whether constraints of this file keep two shapes apart.  Those of a joint do not collide, unless one names the
    other, nor do parts of one rod; planes and balls of the world have contacts of their own."""
    first, second = int(a.bodies[0]), int(b.bodies[0])
    if first == second or any(s.contact or s.kind == "plane" for s in (a, b)):
        return False
    if a.owner == b.owner:
        return a.touches is not None and a.owner in a.touches and second not in a.beside
    for s, other in ((a, b), (b, a)):
        if s.touches is not None and other.bodies[0] >= 0 and other.owner not in s.touches:
            return False
    named = any(s.touches is not None for s in (a, b))
    return named or (min(first, second), max(first, second)) not in joined


def check_kinds(a: ShapeBlock, b: ShapeBlock) -> None:
    for s, other in ((a, b), (b, a)):
        of = {s.kind, other.kind}
        if s.kind in SURFACES and other.kind != "sphere" and of not in HULLS and not ("sdf" in of and len(of) == 2):
            raise ModelError(
                f"{a.label} and {b.label}: a {a.kind} and a {b.kind} do not meet so far",
                f"Leave {other.owner!r} out of the `touches` of {s.owner!r}, or build {s.label!r} of boxes, capsules"
                " and balls",
            )


def rolls(a: ShapeBlock, b: ShapeBlock) -> bool:
    """Whether two shapes are a cylinder and one that meets its side and its rims: see `cylinders`."""
    return "cylinder" in (a.kind, b.kind) and not {"sphere", *SURFACES} & {a.kind, b.kind}


def has_distance(a: ShapeBlock, b: ShapeBlock) -> bool:
    """Whether two shapes are a signed distance and one that is more than a ball: see `distances`."""
    return "sdf" in (a.kind, b.kind) and "sphere" not in (a.kind, b.kind)


def seen(field: str, points: str, first: bool) -> bool:
    """Whether the field of one kind meets the points of another; of two balls that of the first."""
    if field == "sphere":
        return points == "sphere" and first
    return field in FIELDS and points in POINTS and (field not in SURFACES or points == "sphere")


def field_of(shape: ShapeBlock) -> Constraint:
    """The constraint of a point that a shape sees."""
    return shape.sdf or REGISTRY[FIELDS.get(shape.kind, "contact_points")]


def pattern_of(a: ShapeBlock, b: ShapeBlock) -> str:
    return Slots.of([None if s.bodies[0] < 0 else k for k, s in enumerate((a, b))]).kinds


def crossings_of(kind: str, other: str) -> list[tuple[float, float, float]]:
    """`axis`, `side` and `leaves` of the crossings of two kinds."""
    both, one = (1.0, -1.0), (1.0,)
    own = both if kind == "box" else one
    return list(product(own, own, both if other == "box" else one))


class PairRows:
    """The pairs of shapes of some constraints, `each` of a pair: numbers of shapes (n,) and bodies (n, 2), turns of
    shapes (n, 4), and shapes whose coefficients count."""

    def __init__(self, shapes: Sequence[ShapeBlock], pairs: Sequence[tuple[int, int]], each: int) -> None:
        worlds = len(shapes[0].bodies)
        number = np.array(pairs, np.int64)  # (pairs, 2); rows: world by world, pair by pair
        rows = np.tile(np.repeat(number, each, axis=0), (worlds, 1))
        world = np.repeat(np.arange(worlds), len(pairs) * each)
        bodies = np.array([s.bodies for s in shapes])
        turns = np.array([s.turn for s in shapes])
        self.count = len(rows)
        self.shapes = [rows[:, side] * worlds + world for side in (0, 1)]
        on = np.stack([bodies[rows[:, side], world] for side in (0, 1)], axis=1)
        self.bodies = np.maximum(on, 0).astype(np.int32)
        self.turns = [turns[rows[:, side]] for side in (0, 1)]
        self.surface = {}
        for key, name in (("friction", "mu"), ("restitution", "restitution")):
            has = np.array([name in s.values for s in shapes])
            for side, entry in ((0, key), (1, f"other_{key}")):
                own, other = rows[:, side], rows[:, 1 - side]
                of = np.where(has[own], own, np.where(has[other], other, -1))
                self.surface[entry] = FromShapes(name, np.where(of < 0, -1, of * worlds + world))

    def frame(self, side: int) -> SlotPlace:
        """The frame of a shape."""
        zero = np.zeros((self.count, 3))
        return SlotPlace(zero[:1], self.turns[side], shapes=self.shapes[side], units=zero)


def field_block(
    kind: str, points: str, pattern: str, rows: PairRows, places: np.ndarray | None = None, label: str = ""
) -> ConstraintBlock:
    """Points of some shapes in the fields of others.  places (n, 3): the points of each, in units of its size; label:
    where there is more than one block of such shapes."""
    if kind == points == "box":
        return _corner_block(pattern, rows)
    places = POINTS[points] if places is None else places
    units = np.tile(places, (rows.count // len(places), 1))
    along_z = 1 if points == "capsule" else 2
    at = SlotPlace(np.zeros((1, 3)), NO_TURN, shapes=rows.shapes[1], units=units, along_z=along_z)
    own: dict[str, FromShapes] = {}
    constants = {"compliance": np.zeros(rows.count)}
    if kind == "box":
        own["half"] = FromShapes("half", rows.shapes[0])
    elif kind in REGISTRY:
        own["scale"] = FromShapes("half", rows.shapes[0])
    elif kind == "mesh":
        own["scale"], constants["mesh"] = FromShapes("half", rows.shapes[0]), rows.shapes[0].astype(np.float64)
    else:
        own["radius"] = FromShapes(0, rows.shapes[0])
        if kind != "sphere":
            own["half_height"] = FromShapes(1, rows.shapes[0])
    around = "other_radius" if kind == "sphere" else "thickness"
    own[around] = FromShapes(0, rows.shapes[1] if points in ROUND else np.full(rows.count, -1))
    label, name = (
        label or f"{points} in {kind} ({pattern})",
        FIELDS.get(kind, kind if kind in REGISTRY else "contact_points"),
    )
    return ConstraintBlock(
        label, label, REGISTRY[name], rows.bodies, np.ones(rows.count), {},
        constants=constants, slots=Slots(pattern), places={0: rows.frame(0), 1: at}, from_shapes=own | rows.surface,
    )  # fmt: skip


def _mesh_and_capsule(shapes: Sequence[ShapeBlock], mesh: int, capsule: int) -> list[ConstraintBlock]:
    """The ends of a capsule in a mesh, the vertices of the mesh in the capsule, and its edges across the line of
    centres."""
    form, (a, b) = shapes[mesh].mesh, (shapes[mesh], shapes[capsule])
    assert form is not None
    vertices, edges = np.asarray(form.vertices, np.float64), edges_of(np.asarray(form.triangles))
    ends = PairRows(shapes, [(mesh, capsule)], len(POINTS["capsule"]))
    corners = PairRows(shapes, [(capsule, mesh)], len(vertices))
    lines = PairRows(shapes, [(capsule, mesh)], len(edges))
    worlds, points = len(a.bodies), POINTS["capsule"]
    on = [(0, points[:1], 1), (0, points[1:], 1), (1, vertices[edges[:, 0]], 2), (1, vertices[edges[:, 1]], 2)]
    places = {
        j: SlotPlace(np.zeros((1, 3)), NO_TURN, shapes=lines.shapes[side], along_z=along,
                     units=np.tile(np.broadcast_to(units, (len(edges), 3)), (worlds, 1)))
        for j, (side, units, along) in enumerate(on)
    }  # fmt: skip
    slots = Slots.of([None if s.bodies[0] < 0 else k for k, s in enumerate((b, a)) for _ in range(2)])
    label, zero = f"{b.label} across {a.label}", np.zeros(lines.count)
    across = ConstraintBlock(
        label, label, REGISTRY["contact_capsule_edge"], np.repeat(lines.bodies, 2, axis=1), np.ones(lines.count), {},
        constants={"compliance": zero, "thickness": zero, "side": zero}, slots=slots, places=places,
        from_shapes={"radius": FromShapes(0, lines.shapes[0])} | lines.surface,
    )  # fmt: skip
    return [
        field_block("mesh", "capsule", pattern_of(a, b), ends, None, f"{b.label} in {a.label}"),
        field_block("capsule", "mesh", pattern_of(b, a), corners, vertices, f"{a.label} in {b.label}"),
        across,
    ]


def _mesh_and_angular(shapes: Sequence[ShapeBlock], mesh: int, other: int) -> list[ConstraintBlock]:
    """The vertices of a mesh and of a box, or another mesh, in each other, and where their edges cross: each of the
    second twice, where it comes into a face of the first and where out of it."""
    (points, triangles), (places, faces) = (surface_of(shapes[k]) for k in (mesh, other))
    a, b = shapes[mesh], shapes[other]
    edges, count = ridges_of(places, faces), len(ridges_of(points, triangles))
    if 2 * len(edges) * count > MOST_EDGES:
        raise ModelError(
            f"{a.label} and {b.label}: {count} edges and {len(edges)} are {count * len(edges)} pairs, of which every"
            f" step would look at all; {MOST_EDGES // 2} are taken",
            "Take coarser meshes, or boxes and capsules for what is simple",
        )
    corners = PairRows(shapes, [(mesh, other)], len(places)), PairRows(shapes, [(other, mesh)], len(points))
    rows, worlds = PairRows(shapes, [(mesh, other)], 2 * len(edges)), len(a.bodies)
    ends = {name: np.tile(places[edges[:, j]], (2 * worlds, 1)) for j, name in enumerate("cdef")}
    zero, none = np.zeros(rows.count), np.zeros((rows.count, 3))
    leaves = np.tile(np.repeat([1.0, -1.0], len(edges)), worlds)
    label = f"edges of {b.label} across {a.label}"
    across = ConstraintBlock(
        label, label, REGISTRY["contact_mesh_edges"], rows.bodies, np.ones(rows.count), {},
        constants={"compliance": zero, "mesh": rows.shapes[0].astype(np.float64), "leaves": leaves, **ends,
                   "side": zero, "a": none, "b": none},
        slots=Slots(pattern_of(a, b)), places={0: rows.frame(0), 1: rows.frame(1)},
        from_shapes={"scale": FromShapes("half", rows.shapes[0]), "other_scale": FromShapes("half", rows.shapes[1])}
        | rows.surface,
    )  # fmt: skip
    return [
        field_block("mesh", b.kind, pattern_of(a, b), corners[0], places, f"{b.label} in {a.label}"),
        field_block(b.kind, "mesh", pattern_of(b, a), corners[1], points, f"{a.label} in {b.label}"),
        across,
    ]


def surface_of(shape: ShapeBlock) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3), in units of its size, and triangles (m, 3) of a mesh or a box."""
    if shape.mesh is None:
        return CORNERS, FACES
    return np.asarray(shape.mesh.vertices, np.float64), np.asarray(shape.mesh.triangles)


def _corner_block(pattern: str, rows: PairRows) -> ConstraintBlock:
    """Corners of boxes on faces of others."""
    own = {name: FromShapes("half", rows.shapes[side]) for side, name in enumerate(("half", "other_half"))}
    corners = np.tile(CORNERS, (rows.count // len(CORNERS), 1))
    label = f"corner on box ({pattern})"
    return ConstraintBlock(
        label, label, REGISTRY["contact_corner"], rows.bodies, np.ones(rows.count), {},
        constants={"compliance": np.zeros(rows.count), "corner": corners, "face": np.zeros((rows.count, 3))},
        slots=Slots(pattern), places={0: rows.frame(0), 1: rows.frame(1)}, from_shapes=own | rows.surface,
    )  # fmt: skip


def _edge_block(kind: str, other: str, pattern: str, rows: PairRows) -> ConstraintBlock:
    """Crossings of edges."""
    own = {}
    for side, (of, size, around) in enumerate(((kind, "half", "thickness"), (other, "other_half", "other_thickness"))):
        own[size] = FromShapes("spine" if of == "capsule" else "half", rows.shapes[side])
        own[around] = FromShapes(0, rows.shapes[side] if of == "capsule" else np.full(rows.count, -1))
    each, none = np.array(crossings_of(kind, other)), np.zeros((rows.count, 3))
    signs = dict(zip(("axis", "side", "leaves"), np.tile(each, (rows.count // len(each), 1)).T, strict=True))
    label = f"{kind} across {other} ({pattern})"
    return ConstraintBlock(
        label, label, REGISTRY["contact_edges"], rows.bodies, np.ones(rows.count), {},
        constants={"compliance": np.zeros(rows.count), **signs, "edge": none, "other_edge": none},
        slots=Slots(pattern), places={0: rows.frame(0), 1: rows.frame(1)}, from_shapes=own | rows.surface,
    )  # fmt: skip
