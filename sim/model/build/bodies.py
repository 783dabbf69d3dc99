"""Rigid bodies, and the places on them that constraints act on, until `finalize`; and the derivations of their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sim.constraints.slots.pattern import PARTICLE, WORLD, Slots
from sim.core.lang.types import transformation, vector
from sim.core.runtime.arrays.array import array
from sim.model.build import checks
from sim.model.build.motions import PrescribedMotion
from sim.model.build.rigid.inertia import Inertia
from sim.model.build.shapes.blocks import ShapeBlock
from sim.model.build.shapes.derive import derive_shapes, derive_weights
from sim.model.derived.arrays import ArrayFactory, source_of
from sim.model.derived.body_kernels import body_derivations
from sim.model.derived.derivation import Column, Derivation, Picked
from sim.model.derived.kernels import kernels
from sim.model.derived.shape_kernels import shape_derivations
from sim.model.errors import ModelError
from sim.model.groups import BodyGroup, Group
from sim.model.materials import Materials


@dataclass(eq=False)
class BodyBlock:
    """Bodies that were added together.

    base (n, 7): poses of their origins before `position` and `rotation` (1, 3); velocity of the centre of mass, spin
    (., 3): one for all, one for each world or one for each body.  held: they do not move, but by their motions.
    weighed: shapes add to their mass.
    """

    group: BodyGroup
    base: np.ndarray
    inertia: Inertia
    velocity: np.ndarray
    spin: np.ndarray
    position: np.ndarray = field(default_factory=lambda: np.zeros((1, 3)))
    rotation: np.ndarray = field(default_factory=lambda: np.zeros((1, 3)))
    held: bool = False
    motions: list[PrescribedMotion] = field(default_factory=list)
    weighed: bool = False

    @property
    def label(self) -> str:
        return self.group.name

    @property
    def worlds(self) -> int:
        return self.group.worlds

    @property
    def poses(self) -> np.ndarray:
        """Where their origins begin (n, 7)."""
        out = self.base.copy()
        out[:, :3] += np.repeat(self.position, len(out) // len(self.position), axis=0)  # of all, or of each world
        return out

    @property
    def free(self) -> np.ndarray:
        """(n,) bool: the bodies that the solver may move."""
        return ((self.inertia.masses(self.group.count) > 0) | self.weighed) & (not self.held)

    def copied(self, worlds: int) -> BodyBlock:
        """Those of all worlds, one world after the other."""
        group = replace(self.group, start=self.group.start * worlds, count=self.group.count * worlds, worlds=worlds)
        motions = [motion._replace(vector=np.concatenate([motion.vector] * worlds)) for motion in self.motions]
        made = replace(self, group=group, inertia=self.inertia.copied(worlds), motions=motions)
        for name in ("base", "velocity", "spin", "position", "rotation"):
            setattr(made, name, np.concatenate([getattr(self, name)] * worlds))
        return made


@dataclass(frozen=True, eq=False)
class SiteBlock:
    """Points of bodies that are observed: group, numbered behind the particles; bodies (n,) and at (n, 3) [m]."""

    group: Group
    bodies: np.ndarray
    at: np.ndarray


@dataclass(frozen=True, eq=False)
class SlotPlace:
    """Where the constraints of a block have a point on their bodies, or in the world.

    at: (1, 3) or (n, 3) [m], in the frame of the body; turn: (1, 4) or (n, 4), the rotation of a frame there; key: the
    name of `at` among the material values, "" for a constant.  shapes (n,), units (n, 3): instead of `at` the place in
    the frame of a shape, as multiples of its `shape_scale`, along z of that with the number `along_z`.
    """

    at: np.ndarray
    turn: np.ndarray
    key: str = ""
    shapes: np.ndarray | None = None
    units: np.ndarray | None = None
    along_z: int = 2

    def copied(self, worlds: int) -> SlotPlace:
        return replace(self, at=np.concatenate([self.at] * worlds), turn=np.concatenate([self.turn] * worlds))


@dataclass(frozen=True)
class BodyPoint:
    """A point of a body, for a constraint or a joint: `ModelBuilder.point_of`.

    body: its number, -1 for a constant place in the world; at: (3,) [m] in its frame, whose origin is that of the body;
    turn: quaternion (4,) of a frame there.
    """

    body: int
    at: tuple[float, float, float]
    turn: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)


def slots_of_rows(
    name: str,
    rows: Sequence[Sequence[int | BodyPoint]],
    width: int,
    frames: Sequence[int],
    particles: int,
    bodies: int,
) -> tuple[Slots, np.ndarray, dict[int, SlotPlace]]:
    """Pattern, numbers (n, k) of particles and bodies, and places, of constraints on particles and `BodyPoint`s.

    Raises ModelError where the rows differ in what their points belong to.
    """
    patterns = {Slots.of([_mover(entry) for entry in row]) for row in rows}
    if len(patterns) > 1:
        found = ", ".join(sorted(p.kinds for p in patterns))
        raise ModelError(
            f"{name}: the points of the constraints belong to different movers ({found}; p a particle, w the world,"
            " other letters a body each)",
            "Add the constraints of each of these patterns by a call of its own",
        )
    (slots,) = patterns
    if len(slots.kinds) != width:
        raise ModelError(f"{name} has rows of {len(slots.kinds)} points", f"The constraint takes {width}")
    for j in frames:
        if slots.kinds[j] == PARTICLE:
            raise ModelError(f"{name}: point {j} is a particle; the constraint takes a frame", "Give a point_of a body")
    numbers = np.zeros((len(rows), width), np.int32)
    places = {}
    for j, kind in enumerate(slots.kinds):
        column = [row[j] for row in rows]
        if kind == PARTICLE:
            numbers[:, j] = checks.point_table(name, np.array(column)[:, None], 1, particles)[:, 0]
            continue
        numbers[:, j] = [max(entry.body, 0) for entry in column if isinstance(entry, BodyPoint)]
        if kind != WORLD and numbers[:, j].max() >= bodies:
            raise ModelError(f"{name}: there is no body {numbers[:, j].max()}", f"There are {bodies}, from 0 on")
        at, turn = (np.array([getattr(entry, part) for entry in column]) for part in ("at", "turn"))
        places[j] = SlotPlace(at, turn)
    return slots, numbers, places


def _mover(entry: int | BodyPoint) -> int | str | None:
    if not isinstance(entry, BodyPoint):
        return PARTICLE
    return entry.body if entry.body >= 0 else None


def pose(name: str, value: Any) -> np.ndarray:
    """A transform as (7,): position and a unit quaternion (x, y, z, w).  None is the identity; (3,) a position."""
    if value is None:
        return np.array([0.0, 0, 0, 0, 0, 0, 1])
    wanted = "Give a transform, `sim.transform(p, q)`, or its 7 numbers: position and quaternion (x, y, z, w)"
    try:
        given = value.data if hasattr(value, "data") and hasattr(value, "type") else value
        host = np.asarray(given, np.float64).ravel()
    except (TypeError, ValueError):
        raise ModelError(f"{name} is {value!r}", wanted) from None
    if host.shape == (3,):
        host = np.concatenate([host, [0, 0, 0, 1]])
    if host.shape != (7,) or not np.isfinite(host).all():
        raise ModelError(f"{name} is {value!r}", wanted)
    length = np.linalg.norm(host[3:])
    if not length:
        raise ModelError(f"{name} has a quaternion of length 0", "(0, 0, 0, 1) is no rotation")
    return np.concatenate([host[:3], host[3:] / length])


def inertia_rows(name: str, value: Any, count: int) -> np.ndarray:
    """Inertia as the user gives it, (1, 3) of principal moments or (1, 6): a number, 3, 6, or a symmetric 3 x 3.

    Raises ModelError where no distribution of mass has it: where a principal moment is not positive or larger than the
    sum of the others.
    """
    try:
        host = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ModelError(f"{name} is {value!r}", "Give 3 moments, 6 numbers xx yy zz xy xz yz, or a matrix") from None
    if host.ndim == 0:
        host = np.full(3, float(host))
    if host.shape == (3, 3):
        if not np.allclose(host, host.T, rtol=1e-9, atol=1e-12 * np.abs(host).max()):
            raise ModelError(f"{name} is not symmetric", "Give a symmetric matrix")
        host = host[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    rows = host[None] if host.ndim == 1 else host
    if rows.ndim != 2 or rows.shape[0] not in (1, count) or rows.shape[1] not in (3, 6) or not np.isfinite(rows).all():
        raise ModelError(f"{name} has shape {host.shape}", "Give 3 moments, 6 numbers xx yy zz xy xz yz, or a matrix")
    for row in rows:
        moments = np.linalg.eigvalsh(inertia_matrix(row))
        if moments[0] <= 0.0:
            raise ModelError(f"{name} has a moment of {moments[0]:.3g}", "Moments of inertia are positive")
        if moments[2] > (moments[0] + moments[1]) * (1 + 1e-9):
            raise ModelError(
                f"{name} has the principal moments {', '.join(f'{m:.4g}' for m in moments)}: no body has one larger"
                " than the sum of the others",
                "Check units and the point that they are about: it is the centre of mass",
            )
    return rows


def inertia_matrix(row: np.ndarray) -> np.ndarray:
    """(3, 3) of principal moments (3,) or of xx yy zz xy xz yz (6,)."""
    if len(row) == 3:
        return np.diag(row)
    xx, yy, zz, xy, xz, yz = row
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


# ------------------------------------------------------------------------------------------ derivations
def derive_bodies(
    blocks: Sequence[BodyBlock],
    shapes: Sequence[ShapeBlock],
    arrays: Mapping[str, array],
    materials: Materials,
    make: ArrayFactory,
) -> list[Derivation]:
    """Masses, centres, inertia, initial poses and velocities of bodies, from their material values and shapes."""
    own, made = body_derivations(make.real), derive_shapes(shapes, arrays, materials, make)
    inertia = {name: arrays[name] for name in ("body_mass", "body_com", "body_inertia")}
    if weighed := any(shape.weighs for shape in shapes):
        inertia = {name: make.zeros(a.size, a.dtype) for name, a in inertia.items()}
    for block in blocks:
        made += block.inertia.derive(block.group, inertia, materials, make)
    if weighed:
        made += derive_weights(shapes, inertia, arrays, materials, make)
    for block in blocks:
        name, count = block.group.name, block.group.count
        everyone, target = np.arange(count), Column(block.group.bodies, int)
        picked = [
            Picked.of(materials.add(f"{name}.{key}", value), everyone, count)
            for key, value in (("position", block.position), ("rotation", block.rotation),
                               ("velocity", block.velocity), ("spin", block.spin))
        ]  # fmt: skip
        inputs = [Column(block.base, transformation(make.real)), *picked, arrays["body_free"], target]
        made.append(Derivation(own.place_bodies, count, inputs, [arrays["body_q"], arrays["body_qd"]]))
    if blocks:
        n, free = arrays["body_free"].size, arrays["body_free"]
        for name in ("mass", "inertia"):
            value, kernel = arrays[f"body_{name}"], getattr(own, f"invert_{name}")
            made.append(Derivation(kernel, n, [value, free], [arrays[f"body_inv_{name}"]], derived=[value]))
    return made


def derive_corner(
    place: SlotPlace,
    bodies: np.ndarray | None,
    chosen: np.ndarray,
    target: np.ndarray,
    arrays: Mapping[str, array],
    out: array,
    make: ArrayFactory,
) -> Derivation:
    """As `derive_place`, of points of shapes, whose poses and sizes are arrays of the model."""
    assert place.shapes is not None and place.units is not None
    read = [arrays[name] for name in ("shape_transform", "shape_scale", "body_com")]
    body = np.full(len(chosen), -1) if bodies is None else bodies
    of_shapes = [Column(place.shapes[chosen], int), Column(place.units[chosen], vector(3, make.real))]
    inputs = [*of_shapes, place.along_z, *read, Column(body, int), Column(target, int)]
    kernel = shape_derivations(make.real).corner
    return Derivation(kernel, len(chosen), inputs, [out], derived=read)


def derive_place(
    place: SlotPlace,
    prefix: str,
    bodies: np.ndarray | None,
    chosen: np.ndarray,
    target: np.ndarray,
    com: array,
    out: array,
    materials: Materials,
    make: ArrayFactory,
    count: int,
) -> Derivation:
    """The derivation of offsets `out[target]` of constraints `chosen` of `count` from where their points are.

    bodies: (n,) of the chosen constraints, None where the points are in the world.
    """
    path = f"{prefix}.{place.key}"
    value: array | Column = Column(place.at, vector(3, make.real))
    if place.key:
        value = materials[path] if path in materials else materials.add(path, place.at)
    picked, to = Picked(value, source_of(chosen, value.size, count)), Column(target, int)
    if bodies is None:
        return Derivation(kernels(make.real).broadcast_vec3, len(chosen), [picked, to], [out])
    kernel = body_derivations(make.real).offset_from_com
    return Derivation(kernel, len(chosen), [picked, Column(bodies, int), com, to], [out], derived=[com])
