"""Contacts of cylinders with boxes, capsules and each other: which rows a pair has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sim.constraints.base import REGISTRY
from sim.constraints.slots.pattern import Slots
from sim.model.build.blocks import ConstraintBlock, FromShapes
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.pairs import PairRows, check_kinds, collide, field_block, pairs_of, pattern_of, rolls

DIAGONAL = float(np.sqrt(0.5))
PLACES = np.array(
    [
        [x, y, z]
        for z in (-1.0, 1.0)
        for x, y in (
            (1, 0), (DIAGONAL, DIAGONAL), (0, 1), (-DIAGONAL, DIAGONAL),
            (-1, 0), (-DIAGONAL, -DIAGONAL), (0, -1), (DIAGONAL, -DIAGONAL), (0, 0),
        )
    ]
)  # fmt: skip
"""Where rims meet faces: eight places of each, in radii and half heights, and the lowest one, which moves."""
EDGES = np.array(
    [np.roll([0.0, one, other], axis) for axis in range(3) for one in (-1.0, 1.0) for other in (-1.0, 1.0)]
)
"""The edges of a box, by the signs of the faces that they lie on."""
SPINE = np.array([[1.0, 1.0, 0.0]])
"""What a line of centres is among the edges of a box without width."""


def rim_blocks(shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]]) -> list[ConstraintBlock]:
    """joined: pairs of bodies of the first world with a joint between them."""
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for i, j in pairs_of(np.array([shape.kind == "cylinder" for shape in shapes], bool)):
        if rolls(shapes[i], shapes[j]) and collide(shapes[i], shapes[j], joined):
            check_kinds(shapes[i], shapes[j])
            for a, b in ((i, j), (j, i)):
                if shapes[a].kind == "cylinder":
                    pairs.setdefault((shapes[b].kind, pattern_of(shapes[a], shapes[b])), []).append((a, b))
    out = []
    for (kind, pattern), both in pairs.items():
        edges = EDGES if kind == "box" else SPINE
        # Two cylinders are in both patterns where one is of the world: their sides meet once.
        straight = [pair for pair in both if pair[0] < pair[1]] if kind == "cylinder" else both
        if straight:
            rows = PairRows(shapes, straight, len(edges))
            out.append(_edge_rows("contact_side", kind, pattern, rows, {"edge": edges}))
        each = np.repeat(edges, 2, axis=0), np.tile([1.0, -1.0], len(edges))
        rows = PairRows(shapes, both, len(each[0]))
        out.append(_edge_rows("contact_rim_edge", kind, pattern, rows, {"edge": each[0], "root": each[1]}))
        if kind != "cylinder":
            out.append(field_block("cylinder", kind, pattern, PairRows(shapes, both, 8 if kind == "box" else 2)))
        if kind != "capsule":
            turned = [(b, a) for a, b in both]
            back = pattern if pattern == "ab" else pattern[::-1]
            out.append(_face_rows(kind, back, PairRows(shapes, turned, len(PLACES))))
    return out


def _edge_rows(name: str, kind: str, pattern: str, rows: PairRows, each: Mapping[str, np.ndarray]) -> ConstraintBlock:
    """A cylinder, and straight edges of the second shape, `each` of a pair."""
    own = {
        "radius": FromShapes(0, rows.shapes[0]),
        "half_height": FromShapes(1, rows.shapes[0]),
        "other_half": FromShapes("half" if kind == "box" else "spine", rows.shapes[1]),
        "thickness": FromShapes(0, np.full(rows.count, -1) if kind == "box" else rows.shapes[1]),
    }
    flat = {"flat": np.array([float(kind != "capsule")])}
    return row_block(name, f"cylinder and {kind} ({name})", pattern, rows, own, {**each, **flat})


def _face_rows(kind: str, pattern: str, rows: PairRows) -> ConstraintBlock:
    """The rims of cylinders, the second shapes, on boxes or the ends of cylinders."""
    own = {
        "half": FromShapes("half" if kind == "box" else "round", rows.shapes[0]),
        "radius": FromShapes(0, rows.shapes[1]),
        "half_height": FromShapes(1, rows.shapes[1]),
    }
    each = {"round": np.array([float(kind != "box")]), "corner": PLACES}
    return row_block("contact_rim_face", f"cylinder on {kind} (contact_rim_face)", pattern, rows, own, each)


def row_block(
    name: str,
    label: str,
    pattern: str,
    rows: PairRows,
    own: Mapping[str, FromShapes],
    each: Mapping[str, np.ndarray],
) -> ConstraintBlock:
    """Contacts of cylinders.  own: parameters from the shapes; each: those of the rows of one pair, again for every
    pair; what is neither is chosen by steps."""
    constraint = REGISTRY[name]
    given = {key: np.concatenate([values] * (rows.count // len(values))) for key, values in each.items()}
    chosen = {key: np.zeros((rows.count, *p.shape)) for key, p in constraint.parameters.items() if key not in own}
    return ConstraintBlock(
        label, label, constraint, rows.bodies, np.ones(rows.count), {},
        constants={"compliance": np.zeros(rows.count), **chosen, **given},
        slots=Slots(pattern), places={0: rows.frame(0), 1: rows.frame(1)}, from_shapes={**own, **rows.surface},
    )  # fmt: skip
