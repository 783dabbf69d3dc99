"""Blocks of one constraint as one set: sorted by colour, with arrays that follow from material values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.constraints.contact.kernels.surface import OF_SURFACES, SURFACE
from sim.constraints.projection import weight_type
from sim.constraints.slots.bodies import slot_types
from sim.constraints.slots.pattern import PARTICLE, WORLD, Slots
from sim.core.lang.types import int32, vector
from sim.core.runtime.arrays.array import array
from sim.model.build.blocks import ConstraintBlock, FromShapes
from sim.model.build.bodies import derive_corner, derive_place
from sim.model.build.order.row_order import order_rows, order_rows_of_worlds
from sim.model.build.order.tiling import Tiling
from sim.model.constraint_set import ConstraintSet
from sim.model.derived.arrays import ArrayFactory, per_element
from sim.model.derived.derivation import Column, Derivation, broadcast
from sim.model.derived.law import law_derivations
from sim.model.derived.shape_kernels import shape_derivations
from sim.model.errors import ModelError
from sim.model.materials import FINITE, Materials

OF_MATERIAL = ("mu", "restitution")
SHAPES = ("half", "spine", "round")
"""Half lengths of a box, of a line of centres, and of the box around a cylinder."""


@dataclass(frozen=True, eq=False)
class Movers:
    """All that moves or is held: particles, then bodies, then the world.  free: what the solver may move; tiling: of
    the particles, where constraints are taken tile by tile."""

    free: np.ndarray
    particles: int
    tiling: Tiling | None = None

    @classmethod
    def over(cls, particles: np.ndarray, bodies: np.ndarray, tiling: Tiling | None) -> Movers:
        """From what is free of each."""
        return cls(np.concatenate([particles, bodies, [False]]), len(particles), tiling)

    def of(self, slots: Slots, numbers: np.ndarray) -> np.ndarray:
        """From numbers (n, k) of particles and bodies to those of movers."""
        if slots.only_particles:
            return numbers
        columns = [
            column if kind == PARTICLE else np.full_like(column, len(self.free) - 1) if kind == WORLD
            else column + self.particles
            for kind, column in zip(slots.kinds, numbers.T, strict=True)
        ]  # fmt: skip
        return np.stack(columns, axis=1)


def build_set(
    blocks: Sequence[ConstraintBlock],
    movers: Movers,
    materials: Materials,
    make: ArrayFactory,
    arrays: Mapping[str, array],
    worlds: int = 1,
) -> ConstraintSet:
    """Merges blocks of one constraint and one pattern of slots.  arrays: of the model; worlds: see
    `sim.model.build.worlds`.

    The material values of the blocks are added to `materials`; what follows from them is a derivation of the set.
    """
    constraint = blocks[0].constraint
    if any(block.constraint is not constraint for block in blocks):
        raise ModelError(f"two different constraints are called {constraint.name!r}", "Rename one of the two functions")
    slots, free = blocks[0].pattern, movers.free
    numbers = np.concatenate([block.points for block in blocks])
    points = movers.of(slots, numbers)
    owner = np.repeat(np.arange(len(blocks)), [block.count for block in blocks])
    kept = np.flatnonzero(free[points].any(axis=1))
    if worlds == 1:
        tiling = movers.tiling if slots.only_particles else None
        order, offsets, shared, tiles = order_rows(points[kept], owner[kept], free, tiling)
    else:
        counts = [block.count for block in blocks]
        order, offsets, shared, tiles = order_rows_of_worlds(points, kept, counts, free, worlds)
    row_of = np.full(len(points), -1, np.int64)
    row_of[kept[order]] = np.arange(len(kept))

    real, n = make.real, len(kept)
    kind = real if constraint.rows == 1 else vector(constraint.rows, real)
    made = ConstraintSet(
        constraint=constraint,
        points=make.constant(numbers[kept[order]].astype(np.int32), int32),
        compliance=make.zeros(n, kind),
        damping=None,
        weights=make.zeros(n, weight_type(constraint.points, real)) if slots.only_particles else None,
        parameters={name: make.zeros(n, p.type(real)) for name, p in constraint.parameters.items()},
        offsets=offsets, shared=shared, tiles=tiles, names=[], index_of={}, slots=slots,
        placing={name: make.zeros(n, kind) for name, kind in slot_types(constraint, slots, real).items()},
    )  # fmt: skip
    if any("damping" in block.values or "damping" in block.constants for block in blocks):
        made.damping = make.zeros(n, real)
    if any(f"other_{key}" in known for b in blocks for known in (b.values, b.from_shapes) for key in OF_SURFACES):
        made.surface = {name: make.zeros(n, real) for name in SURFACE}
    begin = 0
    turns = {f"frame_{j}": np.zeros((n, 4)) for j in slots.placed if j in constraint.frames}
    fixed = {name: np.zeros((n, *p.shape)) for name, p in constraint.parameters.items()}
    fixed |= {name: np.zeros(n) for block in blocks for name in block.constants if name not in fixed}
    for block in blocks:
        rows = row_of[begin : begin + block.count]
        begin += block.count
        made.names.append(block.label)
        made.index_of[block.label] = rows
        _bind(made, block, rows, materials, make)
        _place(made, block, rows, materials, make, arrays)
        chosen = np.flatnonzero(rows >= 0)
        for name, source in block.from_shapes.items() if len(chosen) else ():
            out = {**made.surface, **made.parameters}[name]
            made.derivations.append(derive_from_shapes(source, chosen, rows[chosen], arrays, out, make))
        for name, host in block.constants.items():
            fixed[name][rows[rows >= 0]] = host[rows >= 0]
        for j, place in block.places.items():
            if j in constraint.frames:
                turns[f"frame_{j}"][rows[rows >= 0]] = per_element(place.turn, block.count)[rows >= 0]
    own = {"compliance": made.compliance, "damping": made.damping, **made.parameters}
    for name, host in fixed.items():
        if (target := own[name]) is not None:
            target.assign(host)
    for name, host in turns.items():
        made.placing[name].assign(host)
    return made


def _place(
    made: ConstraintSet,
    block: ConstraintBlock,
    rows: np.ndarray,
    materials: Materials,
    make: ArrayFactory,
    arrays: Mapping[str, array],
) -> None:
    """Where the slots of a block are on their bodies, by derivations."""
    chosen = np.flatnonzero(rows >= 0)
    for j, place in block.places.items():
        bodies = None if made.slots.kinds[j] == WORLD else block.points[chosen, j]
        out, com = made.placing[f"offset_{j}"], arrays["body_com"]
        if len(chosen):
            made.derivations.append(
                derive_corner(place, bodies, chosen, rows[chosen], arrays, out, make)
                if place.shapes is not None
                else derive_place(
                    place, block.prefix, bodies, chosen, rows[chosen], com, out, materials, make, block.count
                )
            )


def _bind(
    made: ConstraintSet, block: ConstraintBlock, rows: np.ndarray, materials: Materials, make: ArrayFactory
) -> None:
    """Gives the values of a block to its rows of the set, by derivations."""
    chosen = np.flatnonzero(rows >= 0)
    law = made.constraint.law
    if law is not None and block.size is not None:
        paths = {name: f"{block.prefix}.{name}" for name in law.values}  # one value for all parts of an element
        values = {
            n: materials[p] if p in materials else materials.add(p, block.values[n], law.values[n].bounds)
            for n, p in paths.items()
        }
        outputs = {"compliance": made.compliance, **{name: made.parameters[name] for name in law.derived}}
        if len(chosen):
            made.derivations += law_derivations(
                made.constraint, values, block.count, chosen, rows[chosen], block.size[chosen], outputs, make
            )
    for key, host in block.values.items():
        if law is not None and key in law.values:
            continue
        path = block.path(key)
        # What is to be measured is 0 until then.
        soft = key.endswith("compliance")
        allowed = FINITE if soft or key == "damping" or key in made.surface else ""
        value = materials[path] if path in materials else materials.add(path, np.nan_to_num(host), allowed)
        out = made.compliance if soft else {"damping": made.damping, **made.surface, **made.parameters}[key]
        assert out is not None
        factor = block.factor[chosen] if soft else None
        if len(chosen):
            direction, entries = key in block.directions, made.constraint.rows_of(key) if soft else None
            made.derivations.append(
                broadcast(make, value, block.count, chosen, rows[chosen], out, factor=factor, direction=direction,
                          entries=entries)
            )  # fmt: skip


def derive_from_shapes(
    source: FromShapes, chosen: np.ndarray, target: np.ndarray, arrays: Mapping[str, array], out: array,
    make: ArrayFactory,
) -> Derivation:  # fmt: skip
    """`out[target]` of the chosen constraints."""
    shapes, to = Column(source.shapes[chosen], int), Column(target, int)
    own = shape_derivations(make.real)
    scaled = source.part not in OF_MATERIAL
    read = arrays["shape_scale" if scaled else f"shape_material_{source.part}"]
    column = source.part
    if isinstance(column, str):
        column = SHAPES.index(column) if scaled else 0
    kernel = own.material if not scaled else own.size if isinstance(source.part, int) else own.half
    inputs = [shapes, read, to] if not scaled else [shapes, column, read, to]
    return Derivation(kernel, len(chosen), inputs, [out], derived=[read])


def unmeasured(block: ConstraintBlock, name: str) -> np.ndarray:
    """(n,) bool: the constraints of a block whose parameter `name` nobody gave: measured on the rest shape."""
    host = block.values.get(name)
    if host is None:
        return np.ones(block.count, bool)
    return per_element(np.isnan(host).reshape(len(host), -1).any(axis=1), block.count)
