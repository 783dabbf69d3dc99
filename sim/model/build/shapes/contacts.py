"""Which contacts the shapes of a model make: with particles, and those of the world with those of bodies.

All pairs that could touch are constraints from the beginning, open or closed.  A shape is met where its surface can be
met first: at the centre of a ball, the ends of a capsule, the corners of a box, the vertices of a mesh.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sim.constraints.base import REGISTRY
from sim.constraints.slots.pattern import PARTICLE, Slots
from sim.model.build.blocks import ConstraintBlock, FromShapes
from sim.model.build.bodies import SlotPlace
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.pairs import CORNERS, FIELDS, RIMS, ROUND, field_of
from sim.model.errors import ModelError


def contact_blocks(
    shapes: Sequence[ShapeBlock],
    touched: Mapping[str, np.ndarray],
    thickness: np.ndarray,
    tied: set[tuple[int, int]],
) -> list[ConstraintBlock]:
    """touched: label of a shape -> particles that may meet it; thickness: of all particles [m]; tied: particles and
    bodies that a constraint holds together, which do not collide."""
    out = []
    for number, shape in enumerate(shapes):
        points = touched.get(shape.label, np.zeros(0, np.int32))
        _refuse_unmet(shape, shapes, len(points))
        if shape.contact and len(points):
            out.append(_with_plane_or_ball(shape, points, thickness[points]))
        elif len(points) and (shape.kind in FIELDS or shape.kind == "sphere"):
            out.append(_with_particles(shape, number, points, thickness, tied))
        if shape.bodies[0] < 0:
            for k, other in enumerate(shapes):
                if meets_world(shape, other):
                    out += _with_shape(shape, other, k)
    return out


def _refuse_unmet(shape: ShapeBlock, shapes: Sequence[ShapeBlock], points: int) -> None:
    """Raises ModelError where a shape would be passed through by what may touch it, because nothing sees it."""
    owner = shape.bodies[0]
    if shape.touches == ():
        return
    if shape.kind == "plane" and owner >= 0:
        others = {s.owner for s in shapes if s.bodies[0] != owner and s.kind != "plane"}
        others = others if shape.touches is None else others & set(shape.touches)
        if points or others:
            raise ModelError(
                f"{shape.label}: a plane on a body meets nothing so far, and {points or len(others)} may touch it",
                "Build it of a box, put the plane into the world, or give it `touches=()` to be seen only",
            )


def meets_world(of_world: ShapeBlock, other: ShapeBlock) -> bool:
    """Whether a shape of the world is there for that of a body."""
    if other.bodies[0] < 0 or other.kind == "plane" or of_world.kind not in ("plane", "sphere"):
        return False
    return of_world.touches is None or other.owner in of_world.touches


def tied_pairs(blocks: Sequence[ConstraintBlock]) -> set[tuple[int, int]]:
    """The pairs of a particle and a body that a constraint holds together."""
    out: set[tuple[int, int]] = set()
    for block in blocks:
        slots = block.pattern
        for p in slots.particles:
            for own in slots.bodies:
                out |= set(zip(block.points[:, p].tolist(), block.points[:, own[0]].tolist(), strict=True))
    return out


# ------------------------------------------------------------------------------------------ with particles
def _with_plane_or_ball(shape: ShapeBlock, points: np.ndarray, thickness: np.ndarray) -> ConstraintBlock:
    """What stands still in the world and has a constraint of its own."""
    constraint = REGISTRY[shape.contact]
    values = {key: shape.values[key] for key in ("compliance", *constraint.parameters) if key in shape.values}
    values, borrowed = _with_surface(values, shape, None)
    return ConstraintBlock(
        shape.label, shape.label, constraint, points[:, None], np.ones(len(points)), values,
        constants={"thickness": thickness}, directions=("normal",), borrowed=borrowed,
    )  # fmt: skip


def _with_particles(
    shape: ShapeBlock, number: int, points: np.ndarray, thickness: np.ndarray, tied: set[tuple[int, int]]
) -> ConstraintBlock:
    """A shape that carries its frame, or a ball on a body."""
    worlds, held = len(shape.bodies), shape.bodies[0] < 0
    world = np.repeat(np.arange(worlds), len(points) // worlds)
    bodies = np.zeros(len(points), np.int32) if held else shape.bodies[world]
    pairs = zip(points.tolist(), bodies.tolist(), strict=True)
    loose = np.array([held or pair not in tied for pair in pairs], bool)
    points, bodies, world = points[loose], bodies[loose], world[loose]
    constraint = field_of(shape)
    values, borrowed = _with_surface({key: shape.values[key] for key in _sizes(shape)}, shape, None)
    borrowed |= {key: path for key, path in shape.shared.items() if key in values}
    inside = "thickness" if shape.kind in FIELDS else "other_radius"
    constants = {inside: thickness[points], "compliance": np.zeros(len(points))}
    constants |= _of_mesh(shape, number * worlds + world)
    own = SlotPlace(
        np.zeros((1, 3)), shape.turn[None], shapes=number * worlds + world, units=np.zeros((len(points), 3))
    )
    return ConstraintBlock(
        shape.label, shape.label, constraint, np.stack([bodies, points], axis=1).astype(np.int32),
        np.ones(len(points)), values, constants, slots=Slots.of([None if held else 0, PARTICLE]), places={0: own},
        borrowed=borrowed, from_shapes=_smooth(shape, values, len(points)),
    )  # fmt: skip


def _of_mesh(shape: ShapeBlock, numbers: np.ndarray) -> dict[str, np.ndarray]:
    """Which shapes rows are about, of a mesh."""
    return {"mesh": numbers.astype(np.float64)} if shape.kind == "mesh" else {}


def _smooth(shape: ShapeBlock, values: Mapping[str, np.ndarray], count: int) -> dict[str, FromShapes]:
    """Coefficients of zero, where steps choose what rows are about, as they do of contacts with coefficients."""
    nobody = np.full(count, -1)
    given = {"mu": "friction", "restitution": "restitution"} if shape.kind == "mesh" else {}
    return {
        entry: FromShapes(name, nobody)
        for name, key in given.items()
        for entry in (key, f"other_{key}")
        if entry not in values
    }


# ------------------------------------------------------------------------------------------ with shapes of bodies
def _with_shape(of_world: ShapeBlock, other: ShapeBlock, number: int) -> list[ConstraintBlock]:
    """A plane or ball of the world, and a shape of a body."""
    label = f"{of_world.label}/{other.label}"
    if of_world.kind == "sphere":
        return [_ball_of_world(label, of_world, other, number)]
    if other.kind == "sdf":
        raise ModelError(
            f"{of_world.label} and {other.label}: a plane and a signed distance do not meet so far",
            f"Leave {other.owner!r} out of the `touches` of {of_world.label!r}, or take another shape",
        )
    points = _points_on_plane(label, of_world, other, number)
    return [points, _rims_on_plane(label, of_world, other, number)] if other.kind == "cylinder" else [points]


def _points_on_plane(label: str, of_world: ShapeBlock, other: ShapeBlock, number: int) -> ConstraintBlock:
    units = _points_of(other)
    count = len(other.bodies) * len(units)
    place = _places_on(other, number, units)
    values = {key: of_world.values[key] for key in ("compliance", "point", "normal")}
    constants = {}
    borrowed = {}
    if other.kind in ROUND:
        values["thickness"], borrowed["thickness"] = other.values["radius"], other.path("radius")
    else:
        constants["thickness"] = np.zeros(count)
    values, of_surface = _with_surface(values, of_world, other)
    return ConstraintBlock(
        label, of_world.label, REGISTRY["contact_plane"], np.repeat(other.bodies, len(units))[:, None], np.ones(count),
        values, constants, directions=("normal",), slots=Slots.of([0]), places={0: place},
        borrowed={**borrowed, **of_surface},
    )  # fmt: skip


def _rims_on_plane(label: str, of_world: ShapeBlock, other: ShapeBlock, number: int) -> ConstraintBlock:
    """The lowest places of both rims of a cylinder, which may roll."""
    ends = np.array([[0.0, 0, 1], [0, 0, -1]])
    values = {key: of_world.values[key] for key in ("compliance", "point", "normal")}
    values, borrowed = _with_surface(values | {"radius": other.values["radius"]}, of_world, other)
    count = 2 * len(other.bodies)
    return ConstraintBlock(
        label, of_world.label, REGISTRY["contact_rim"], np.repeat(other.bodies, 2)[:, None].repeat(2, axis=1),
        np.ones(count), values, directions=("normal",), slots=Slots.of([0, 0]),
        places={0: _places_on(other, number, ends), 1: _places_on(other, number, -ends)},
        borrowed={**borrowed, "radius": other.path("radius")},
    )  # fmt: skip


def _places_on(shape: ShapeBlock, number: int, units: np.ndarray) -> SlotPlace:
    """units (n, 3): places on a shape in units of its size, in every world."""
    worlds = len(shape.bodies)
    return SlotPlace(
        np.zeros((1, 3)), np.array([[0.0, 0, 0, 1]]),
        shapes=np.repeat(number * worlds + np.arange(worlds), len(units)), units=np.tile(units, (worlds, 1)),
        along_z=1 if shape.kind in ("capsule", "cylinder") else 2,
    )  # fmt: skip


def _ball_of_world(label: str, ball: ShapeBlock, other: ShapeBlock, number: int) -> ConstraintBlock:
    """A ball of the world and a shape of a body, which sees its centre."""
    worlds = len(other.bodies)
    radius = "thickness" if other.kind in FIELDS else "other_radius"
    values = {key: other.values[key] for key in _sizes(other)} | {radius: ball.values["radius"]}
    values, borrowed = _with_surface(values | {"compliance": ball.values["compliance"]}, ball, other)
    borrowed |= {key: other.path(key) for key in _sizes(other)}
    borrowed |= {radius: f"{ball.label}.radius"}
    own = SlotPlace(np.zeros((1, 3)), other.turn[None], shapes=number * worlds + np.arange(worlds),
                    units=np.zeros((worlds, 3)))  # fmt: skip
    constants = _of_mesh(other, number * worlds + np.arange(worlds))
    center = SlotPlace(ball.values["center"], np.array([[0.0, 0, 0, 1]]), key="center")
    return ConstraintBlock(
        label, ball.label, field_of(other),
        np.stack([other.bodies, np.zeros_like(other.bodies)], axis=1), np.ones(worlds), values,
        constants, slots=Slots.of([0, None]), places={0: own, 1: center}, borrowed=borrowed,
        from_shapes=_smooth(other, values, worlds),
    )  # fmt: skip


def _points_of(shape: ShapeBlock) -> np.ndarray:
    """Where a shape meets a plane first, in units of its size: (n, 3)."""
    if shape.kind == "sphere":
        return np.zeros((1, 3))
    if shape.kind == "capsule":
        return np.array([[0.0, 0, -1], [0, 0, 1]])
    if shape.kind == "box":
        return CORNERS
    if shape.kind == "cylinder":
        return RIMS
    assert shape.mesh is not None
    return np.asarray(shape.mesh.vertices, np.float64)


# ------------------------------------------------------------------------------------------ coefficients
def _sizes(shape: ShapeBlock) -> Iterator[str]:
    return (key for key in ("half", "radius", "half_height", "scale") if key in shape.values)


def _with_surface(
    values: dict[str, np.ndarray], shape: ShapeBlock, other: ShapeBlock | None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Values with the coefficients of both sides, and their paths: who has none takes those of the other; and nothing
    where none has any."""
    sides = [s for s in (shape, other) if s is not None]
    out: dict[str, np.ndarray] = dict(values)
    borrowed: dict[str, str] = {}
    found: dict[str, Any] = {
        key: [s for s in sides if name in s.values]
        for key, name in (("friction", "mu"), ("restitution", "restitution"))
    }
    if not any(found.values()):
        return out, borrowed
    for key, name in (("friction", "mu"), ("restitution", "restitution")):
        if not found[key]:
            continue
        for entry, side in ((key, found[key][0]), (f"other_{key}", found[key][-1])):
            out[entry], borrowed[entry] = side.values[name], side.path(name)
    return out, borrowed
