"""Contacts of many bodies: sets with room for those that are near, which every step looks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from sim.constraints.base import REGISTRY, Constraint
from sim.constraints.contact.kernels.surface import SURFACE
from sim.constraints.slots.bodies import slot_types
from sim.constraints.slots.pattern import Slots
from sim.core.lang.types import int32, vector
from sim.model.build.shapes.blocks import NearBlock, ShapeBlock
from sim.model.build.shapes.contacts import meets_world
from sim.model.build.shapes.pairs import (
    CORNERS,
    EDGED,
    FIELDS,
    POINTS,
    ROUND,
    SURFACES,
    collide,
    crossings_of,
    rolls,
    seen,
)
from sim.model.collision.near.declared import BodyContact, MeetingShapes, NearSet
from sim.model.constraint_set import ConstraintSet
from sim.model.derived.arrays import ArrayFactory
from sim.model.errors import ModelError

MANY = 64
"""So many pairs of shapes in a world are all constraints from the beginning; of more those that are near."""
ROOM, LEAST_ROOM = 8, 64
"""Pairs of a kind for each shape, and those beside, where no capacity is given."""
COLORS, MOST_COLORS = 8, 16
"""Of near pairs that are taken side by side; what has none of them is taken one after the other;
with gradients all have one of the most."""
IN_TURN = 128
"""Room for so many pairs of one world: all are taken one after the other, which costs the fewest launches."""
MOST = 2**31 - 1
"""Pairs and rows have numbers of 32 bits."""
MARGIN = 0.1
"""In least half widths of the shapes of bodies, where none is given."""
LEAST_MARGIN = 0.01
"""The same of a step in which no shape is predicted inside of another one."""


@dataclass(frozen=True)
class _Kind:
    """Constraints of two kinds of shapes: which is the first side, and of how many rows."""

    constraint: Constraint
    first: str
    second: str
    slots: Slots
    rows: int


def _colors(solids: int, worlds: int, capacity: int, recorded: bool) -> int:
    """In which pairs may be taken; with gradients all need one."""
    if recorded:
        return min(MOST_COLORS, 2 * solids - 3)
    return COLORS if worlds > 1 or capacity > IN_TURN else 0


def is_solid(shape: ShapeBlock) -> bool:
    """Whether it is looked for: planes and balls of the world have contacts of their own, and meshes and signed
    distances of all kinds."""
    return not shape.contact and shape.kind not in ("plane", *SURFACES)


def near_pairs(shapes: Sequence[ShapeBlock], joined: set[tuple[int, int]]) -> np.ndarray:
    """(n, n) int32 of the solids among the shapes: 1 where one and a later one touch, if they meet."""
    solids = [shape for shape in shapes if is_solid(shape)]
    body = np.array([shape.bodies[0] for shape in solids], int)
    may = np.triu(body[:, None] != body[None], 1)
    if joined or any(shape.touches is not None or shape.beside for shape in solids):
        for i, j in combinations(range(len(solids)), 2):
            may[i, j] = collide(solids[i], solids[j], joined)
    return may.astype(np.int32)


def rolling_pairs(shapes: Sequence[ShapeBlock]) -> np.ndarray:
    """(n, n) int32 of the solids among the shapes: 1 for pairs that are constraints from the beginning anyway."""
    kinds = [shape.kind for shape in shapes if is_solid(shape)]
    one = {shape.kind: shape for shape in shapes if is_solid(shape)}
    roll = np.array([[rolls(a, b) for b in one.values()] for a in one.values()], np.int32).reshape(len(one), len(one))
    number = np.array([list(one).index(kind) for kind in kinds], int)
    return roll[np.ix_(number, number)]


def meeting_shapes(
    shapes: Sequence[ShapeBlock], may: np.ndarray, worlds: int, make: ArrayFactory
) -> MeetingShapes | None:
    """The pairs that are not looked for: of solids that may meet (`near_pairs`), and with balls of the world."""
    number = np.array([k for k, shape in enumerate(shapes) if is_solid(shape)], int)
    pairs = [(number[i], number[j]) for i, j in zip(*np.nonzero(may), strict=True)]
    balls = [k for k, shape in enumerate(shapes) if shape.bodies[0] < 0 and shape.kind == "sphere"]
    pairs += [(i, k) for i in balls for k, shape in enumerate(shapes) if meets_world(shapes[i], shape)]
    if not pairs:
        return None
    rows = np.concatenate([np.array(pairs) * worlds + world for world in range(worlds)]).astype(np.int32)
    everyone = np.arange(len(shapes) * worlds, dtype=np.int32)
    return MeetingShapes(
        make.constant(rows, int32),
        make.constant(np.array([len(rows)], np.int32), int32),
        make.constant(everyone, int32),
    )


def check_numbers(solids: int, worlds: int, capacity: int, lane: int) -> None:
    """Raises ModelError where numbers of pairs, or of the rows of as many lanes, are more than an int32 has.

    A pair of solids t < u of all worlds has the number t solids + u mod solids.
    """
    if worlds * solids**2 > MOST:
        raise ModelError(
            f"contact: {solids} shapes that may touch in each of {worlds} worlds are {worlds * solids**2} pairs, more"
            f" than the {MOST} that have numbers",
            f"Take at most {MOST // solids**2} worlds at once, or leave shapes out of each other's `touches`",
        )
    if capacity * lane > MOST:
        raise ModelError(
            f"contact: room for {capacity} near pairs of {lane} contacts each is more than {MOST} numbers",
            f"Set a capacity of at most {MOST // lane}",
        )


def near_contact(
    block: NearBlock, shapes: Sequence[ShapeBlock], may: np.ndarray, worlds: int, make: ArrayFactory
) -> tuple[BodyContact, dict[str, ConstraintSet]]:
    """What is looked for, and sets with room for it.  may: as of `near_pairs`."""
    meets = may.any(axis=0) | may.any(axis=1)  # what meets nothing is not looked for, and may be of any kind
    number = np.array([k for k, shape in enumerate(shapes) if is_solid(shape)])[meets]
    may = may[np.ix_(meets, meets)]
    solids = [shapes[k] for k in number]
    known = sorted({(shape.kind, bool(shape.bodies[0] >= 0)) for shape in solids})
    classes = np.array([known.index((shape.kind, bool(shape.bodies[0] >= 0))) for shape in solids])
    meeting = np.zeros((len(known), len(known)), bool)
    rows, columns = np.nonzero(may)
    meeting[classes[rows], classes[columns]] = True
    roles: dict[_Kind, np.ndarray] = {}
    for i, j in product(range(len(known)), repeat=2):
        if meeting[i, j]:
            for kind, way in _kinds_of(known[i], known[j]):
                roles.setdefault(kind, np.zeros((len(known), len(known)), np.int32))[i, j] |= way
    least = min(_least(shape) for shape in solids if shape.bodies[0] >= 0)
    capacity = min(int(may.sum()), LEAST_ROOM + ROOM * len(solids)) * worlds
    capacity = capacity if block.capacity is None else block.capacity
    rows_of = [kind.rows * (2 if (of == 3).any() else 1) for kind, of in roles.items()]
    check_numbers(len(solids), worlds, capacity, max(rows_of, default=1))
    sets, made = [], {}
    for kind, of in roles.items():
        both = bool((of == 3).any())
        sets.append(_near_set(kind, of, both, make))
        made[sets[-1].name] = _set_with_room(kind, sets[-1], capacity, make)
    everyone = np.concatenate([worlds * number + world for world in range(worlds)]).astype(np.int32)
    has = [np.repeat([key in s.values for s in shapes], worlds).astype(np.int32) for key in ("mu", "restitution")]
    planes = [k for k, shape in enumerate(shapes) if shape.kind == "plane"]
    contact = BodyContact(
        MARGIN * least if block.margin is None else block.margin,
        LEAST_MARGIN * least if block.margin is None else block.margin,
        capacity,
        _colors(len(solids), worlds, capacity, make.requires_grad),
        len(solids),
        make.constant(everyone, int32),
        make.constant(np.array(planes, np.int32) * worlds + np.arange(worlds, dtype=np.int32)[:, None], int32),
        make.constant(classes.astype(np.int32), int32),
        make.constant(may, int32),
        make.constant(has[0], int32),
        make.constant(has[1], int32),
        tuple(sets),
    )
    return contact, made


def _kinds_of(a: tuple[str, bool], b: tuple[str, bool]) -> list[tuple[_Kind, int]]:
    """The constraints of two classes of solids, the first of which was added before the second, and which way round."""
    out = []
    for way, (f, p) in ((1, (a, b)), (2, (b, a))):
        if seen(f[0], p[0], way == 1):
            constraint = REGISTRY["contact_corner" if f[0] == p[0] == "box" else FIELDS.get(f[0], "contact_points")]
            out.append((_Kind(constraint, f[0], p[0], _pattern(f, p), len(POINTS[p[0]])), way))
    if a[0] in EDGED and b[0] in EDGED:
        way, e, f = (2, b, a) if b[0] == "capsule" else (1, a, b)
        out.append((_Kind(REGISTRY["contact_edges"], e[0], f[0], _pattern(e, f), len(crossings_of(e[0], f[0]))), way))
    return out


def _pattern(a: tuple[str, bool], b: tuple[str, bool]) -> Slots:
    return Slots.of([k if on_body else None for k, (_, on_body) in enumerate((a, b))])


def _least(shape: ShapeBlock) -> float:
    """The least half width."""
    return float(min(np.min(shape.values[key]) for key in ("half", "radius") if key in shape.values))


def _near_set(kind: _Kind, roles: np.ndarray, both: bool, make: ArrayFactory) -> NearSet:
    c, units, along_z = kind.constraint, None, 2
    sizes: dict[str, tuple[int, int | str]] = {}
    if c.name == "contact_corner":
        sizes = {"half": (0, "half"), "other_half": (1, "half")}
    elif c.name == "contact_edges":
        for side, of, size, around in (
            (0, kind.first, "half", "thickness"),
            (1, kind.second, "other_half", "other_thickness"),
        ):
            sizes[size] = side, "spine" if of == "capsule" else "half"
            if of == "capsule":
                sizes[around] = side, 0
    else:
        if kind.first == "box":
            sizes["half"] = 0, "half"
        else:
            sizes["radius"] = 0, 0
            if kind.first != "sphere":
                sizes["half_height"] = 0, 1
        if kind.second in ROUND:
            sizes["other_radius" if kind.first == "sphere" else "thickness"] = 1, 0
        points = np.tile(POINTS[kind.second], (2 if both else 1, 1))
        units, along_z = make.constant(points, vector(3, make.real)), 1 if kind.second == "capsule" else 2
    name = f"{kind.slots.key(c)}:{kind.first}-{kind.second}"
    return NearSet(
        name, kind.rows * (2 if both else 1), make.constant(roles, int32), both, sizes, units, along_z
    )  # fmt: skip


def _set_with_room(kind: _Kind, near: NearSet, capacity: int, make: ArrayFactory) -> ConstraintSet:
    """Rows for so many pairs, with what does not depend on which they are."""
    c, real, n = kind.constraint, make.real, capacity * near.lane
    made = ConstraintSet(
        constraint=c,
        points=make.constant(np.zeros((n, c.points), np.int32), int32),
        compliance=make.zeros(n, real),
        damping=None,
        weights=None,
        parameters={name: make.zeros(n, p.type(real)) for name, p in c.parameters.items()},
        offsets=[0, n],
        shared=[0],
        names=[f"{kind.first} and {kind.second}"],
        index_of={f"{kind.first} and {kind.second}": np.arange(n)},
        slots=kind.slots,
        placing={name: make.zeros(n, of) for name, of in slot_types(c, kind.slots, real).items()},
        surface={name: make.zeros(n, real) for name in SURFACE},
        near=near.name.partition(":")[2],
        lane=near.lane,
    )
    times = capacity * (2 if near.both else 1)
    if c.name == "contact_corner":
        made.parameters["corner"].assign(np.tile(CORNERS, (times, 1)))
    elif c.name == "contact_edges":
        signs = np.tile(np.array(crossings_of(kind.first, kind.second)), (times, 1)).T
        for name, values in zip(("axis", "side", "leaves"), signs, strict=True):
            made.parameters[name].assign(values)
    return made
