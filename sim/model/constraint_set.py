"""All constraints of one kind in a model: merged, sorted by colour, with arrays for the projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sim.constraints.base import Constraint
from sim.core.lang.types import int32, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.geometry import check_coloring, color_constraints
from sim.model.blocks import ConstraintBlock
from sim.model.derive import Derivation, spreading
from sim.model.errors import ModelError
from sim.model.law import law_derivations
from sim.model.materials import Materials
from sim.model.place import Place, per_element


@dataclass(eq=False)
class ConstraintSet:
    """The n constraints of one declaration.  Colour c is rows `offsets[c]` to `offsets[c + 1]`; its constraints share
    no free point, so that they may be projected side by side; those before row `shared[c]` nor a pinned one.

    points: (n, k) int32; compliance: (n,) real, or vectors of `rows` entries; damping: (n,) [s], None where nothing is
    damped; parameters: name -> (n,); names: labels of those who added constraints; index_of[label]: for the k-th
    constraint that was added there its row here, -1 where all of its points are pinned and it was left out.
    """

    constraint: Constraint
    points: array
    compliance: array
    damping: array | None
    parameters: dict[str, array]
    offsets: list[int]
    shared: list[int]
    names: list[str]
    index_of: dict[str, np.ndarray]
    derivations: list[Derivation] = field(repr=False, default_factory=list)

    @property
    def name(self) -> str:
        return self.constraint.name

    @property
    def count(self) -> int:
        """Number of constraints."""
        return self.points.shape[0]

    @property
    def color_count(self) -> int:
        """Number of colours."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"ConstraintSet({self.name}: {self.count} constraints in {self.color_count} colours)"


def build_set(
    blocks: Sequence[ConstraintBlock], free: np.ndarray, materials: Materials, place: Place, worlds: int = 1
) -> ConstraintSet:
    """Merges blocks of one constraint.  free: (particles,) bool, what the solver may move.  worlds: see
    `sim.model.worlds`.

    The material values of the blocks are added to `materials`; what follows from them is a derivation of the set.
    """
    constraint = blocks[0].constraint
    if any(block.constraint is not constraint for block in blocks):
        raise ModelError(f"two different constraints are called {constraint.name!r}", "Rename one of the two functions")
    points = np.concatenate([block.points for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), [block.count for block in blocks])
    kept = np.flatnonzero(free[points].any(axis=1))
    if worlds == 1:
        order, offsets = _colors(constraint, points[kept], owner[kept], free)
        order, shared = _alone_first(points[kept], order, offsets)
    else:
        order, offsets, shared = _colors_of_worlds(constraint, blocks, kept, points, free, worlds)
    row_of = np.full(len(points), -1, np.int64)
    row_of[kept[order]] = np.arange(len(kept))

    real, n = place.real, len(kept)
    kind = real if constraint.rows == 1 else vector(constraint.rows, real)
    made = ConstraintSet(
        constraint=constraint,
        points=place.constant(points[kept[order]].astype(np.int32), int32),
        compliance=zeros(n, kind, place.device, place.requires_grad),
        damping=None,
        parameters={name: zeros(n, p.type(real), place.device, place.requires_grad)
                    for name, p in constraint.parameters.items()},
        offsets=offsets, shared=shared, names=[], index_of={},
    )  # fmt: skip
    if any("damping" in block.values for block in blocks):
        made.damping = zeros(n, real, place.device, place.requires_grad)
    begin = 0
    fixed = {name: np.zeros((n, *(() if p.kind == "float" else (3,)))) for name, p in constraint.parameters.items()}
    for block in blocks:
        rows = row_of[begin : begin + block.count]
        begin += block.count
        made.names.append(block.label)
        made.index_of[block.label] = rows
        _bind(made, block, rows, materials, place)
        for name, host in block.constants.items():
            fixed[name][rows[rows >= 0]] = host[rows >= 0]
    for name, host in fixed.items():
        made.parameters[name].assign(host)
    return made


def _bind(made: ConstraintSet, block: ConstraintBlock, rows: np.ndarray, materials: Materials, place: Place) -> None:
    """Gives the values of a block to its rows of the set, by derivations."""
    chosen = np.flatnonzero(rows >= 0)
    law = made.constraint.law
    if law is not None and block.size is not None:
        values = {name: materials.add(f"{block.prefix}.{name}", block.values[name]) for name in law.values}
        outputs = {"compliance": made.compliance, **{name: made.parameters[name] for name in law.derived}}
        if len(chosen):
            made.derivations += law_derivations(
                made.constraint, values, block.count, chosen, rows[chosen], block.size[chosen], outputs, place
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
            made.derivations.append(spreading(
                place.real, value, block.count, chosen, rows[chosen], out, factor=factor,
                direction=key in block.directions, make=place.constant))  # fmt: skip


def unmeasured(block: ConstraintBlock, name: str) -> np.ndarray:
    """(n,) bool: the constraints of a block whose parameter `name` nobody gave: measured on the rest shape."""
    host = block.values.get(name)
    if host is None:
        return np.ones(block.count, bool)
    return per_element(np.isnan(host).reshape(len(host), -1).any(axis=1), block.count)


def _colors(
    constraint: Constraint, points: np.ndarray, owner: np.ndarray, free: np.ndarray
) -> tuple[np.ndarray, list[int]]:
    """The order of the constraints by colour, and where each colour begins."""
    if constraint.points == 1 and _once_each(points, owner):
        # Contacts: a shape meets each point once, so its constraints have one colour, and the shapes come in turn.
        order = np.argsort(owner, kind="stable")
        sizes = np.unique(owner, return_counts=True)[1]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        color = np.repeat(np.arange(len(sizes)), sizes)
    else:
        coloring = color_constraints(points, free)
        order, offsets, color = coloring.order, coloring.offsets, coloring.color[coloring.order]
    check_coloring(points[order], color, free)
    return order, [int(o) for o in offsets]


def _colors_of_worlds(
    constraint: Constraint,
    blocks: Sequence[ConstraintBlock],
    kept: np.ndarray,
    points: np.ndarray,
    free: np.ndarray,
    worlds: int,
) -> tuple[np.ndarray, list[int], list[int]]:
    """The order, the colours and where their shared rows begin: every world has the colours that it would have alone.

    Of one colour first come those that share no point, world by world, then the others, world by world.
    """
    sizes = np.array([block.count // worlds for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), sizes)
    begin = np.concatenate([[0], np.cumsum(worlds * sizes)])
    row = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + begin[owner]  # in world 0
    here = np.isin(row, kept)
    own = points[row[here]]
    alone, offsets = _colors(constraint, own, owner[here], free)
    alone, shared = _alone_first(own, alone, offsets)
    first, step = row[here][alone], sizes[owner[here][alone]]
    place = np.full(len(points), -1)
    place[kept] = np.arange(len(kept))
    spans = [span for a, b, c in zip(offsets, shared, offsets[1:], strict=False) for span in ((a, b), (b, c))]
    parts = [place[first[a:b] + world * step[a:b]] for a, b in spans for world in range(worlds)]
    order = np.concatenate([np.zeros(0, np.int64), *parts])
    color = np.repeat(np.arange(len(offsets) - 1), worlds * np.diff(offsets))
    check_coloring(points[kept[order]], color, free)
    everywhere = [worlds * o for o in offsets]
    return order, everywhere, [a + worlds * (b - o) for a, b, o in zip(everywhere, shared, offsets, strict=False)]


def _alone_first(points: np.ndarray, order: np.ndarray, offsets: Sequence[int]) -> tuple[np.ndarray, list[int]]:
    """Within each colour, constraints with a point, pinned or not, that an earlier one has too go to its end: the
    order, and where they begin."""
    parts, shared = [], []
    for begin, end in zip(offsets, offsets[1:], strict=False):
        part = order[begin:end]
        flat = points[part].ravel()
        _, first, which = np.unique(flat, return_index=True, return_inverse=True)
        alone = (first[which] == np.arange(len(flat))).reshape(len(part), -1).all(axis=1)
        parts += [part[alone][_in_turn(points[part[alone]])], part[~alone]]
        shared.append(begin + int(alone.sum()))
    return np.concatenate([order[:0], *parts]), shared


def _in_turn(points: np.ndarray) -> np.ndarray:
    """An order of constraints (n, k) without points in common in which wide loads seldom wait.

    A point is loaded together with the first number of the next one.  Where that one was stored a moment before, by the
    group of constraints before this one, the load has to wait; taking every second or fourth constraint first avoids it
    on regular meshes.
    """
    n, group = len(points), 8
    best, least = np.arange(n), n + 1
    for stride in (1, 2, 4):
        order = np.argsort(np.arange(n) % stride, kind="stable")
        turn = np.full(points.max(initial=0) + 2, -group)
        turn[points[order]] = (np.arange(n) // group)[:, None]
        waits = turn[points] - turn[points + 1]
        count = int(((waits > 0) & (waits <= 2)).sum())
        if count < least:
            best, least = order, count
    return best


def _once_each(points: np.ndarray, owner: np.ndarray) -> bool:
    pairs = np.stack([owner, points[:, 0]], axis=1)
    return len(np.unique(pairs, axis=0)) == len(pairs)
