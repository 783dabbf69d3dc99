"""Blocks of one constraint as one set: sorted by colour, with arrays that follow from material values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim.core.lang.types import int32, vector
from sim.model.build.blocks import ConstraintBlock
from sim.model.build.row_order import order_rows, order_rows_of_worlds
from sim.model.constraint_set import ConstraintSet
from sim.model.derived.arrays import ArrayFactory, per_element
from sim.model.derived.derivation import broadcast
from sim.model.derived.law import law_derivations
from sim.model.errors import ModelError
from sim.model.materials import Materials


def build_set(
    blocks: Sequence[ConstraintBlock], free: np.ndarray, materials: Materials, make: ArrayFactory, worlds: int = 1
) -> ConstraintSet:
    """Merges blocks of one constraint.  free: (particles,) bool, what the solver may move.  worlds: see
    `sim.model.build.worlds`.

    The material values of the blocks are added to `materials`; what follows from them is a derivation of the set.
    """
    constraint = blocks[0].constraint
    if any(block.constraint is not constraint for block in blocks):
        raise ModelError(f"two different constraints are called {constraint.name!r}", "Rename one of the two functions")
    points = np.concatenate([block.points for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), [block.count for block in blocks])
    kept = np.flatnonzero(free[points].any(axis=1))
    if worlds == 1:
        order, offsets, shared = order_rows(points[kept], owner[kept], free)
    else:
        order, offsets, shared = order_rows_of_worlds(points, kept, [block.count for block in blocks], free, worlds)
    row_of = np.full(len(points), -1, np.int64)
    row_of[kept[order]] = np.arange(len(kept))

    real, n = make.real, len(kept)
    kind = real if constraint.rows == 1 else vector(constraint.rows, real)
    made = ConstraintSet(
        constraint=constraint,
        points=make.constant(points[kept[order]].astype(np.int32), int32),
        compliance=make.zeros(n, kind),
        damping=None,
        parameters={name: make.zeros(n, p.type(real)) for name, p in constraint.parameters.items()},
        offsets=offsets, shared=shared, names=[], index_of={},
    )  # fmt: skip
    if any("damping" in block.values for block in blocks):
        made.damping = make.zeros(n, real)
    begin = 0
    fixed = {name: np.zeros((n, *p.shape)) for name, p in constraint.parameters.items()}
    for block in blocks:
        rows = row_of[begin : begin + block.count]
        begin += block.count
        made.names.append(block.label)
        made.index_of[block.label] = rows
        _bind(made, block, rows, materials, make)
        for name, host in block.constants.items():
            fixed[name][rows[rows >= 0]] = host[rows >= 0]
    for name, host in fixed.items():
        made.parameters[name].assign(host)
    return made


def _bind(
    made: ConstraintSet, block: ConstraintBlock, rows: np.ndarray, materials: Materials, make: ArrayFactory
) -> None:
    """Gives the values of a block to its rows of the set, by derivations."""
    chosen = np.flatnonzero(rows >= 0)
    law = made.constraint.law
    if law is not None and block.size is not None:
        values = {name: materials.add(f"{block.prefix}.{name}", block.values[name]) for name in law.values}
        outputs = {"compliance": made.compliance, **{name: made.parameters[name] for name in law.derived}}
        if len(chosen):
            made.derivations += law_derivations(
                made.constraint, values, block.count, chosen, rows[chosen], block.size[chosen], outputs, make
            )
    for key, host in block.values.items():
        if law is not None and key in law.values:
            continue
        path = f"{block.prefix}.{key}"
        # What is to be measured is 0 until then.
        value = materials[path] if path in materials else materials.add(path, np.nan_to_num(host))
        out = {"compliance": made.compliance, "damping": made.damping, **made.parameters}[key]
        assert out is not None
        factor = block.factor[chosen] if key == "compliance" else None
        if len(chosen):
            direction = key in block.directions
            made.derivations.append(
                broadcast(make, value, block.count, chosen, rows[chosen], out, factor=factor, direction=direction)
            )


def unmeasured(block: ConstraintBlock, name: str) -> np.ndarray:
    """(n,) bool: the constraints of a block whose parameter `name` nobody gave: measured on the rest shape."""
    host = block.values.get(name)
    if host is None:
        return np.ones(block.count, bool)
    return per_element(np.isnan(host).reshape(len(host), -1).any(axis=1), block.count)
