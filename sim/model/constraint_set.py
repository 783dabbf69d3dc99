"""All constraints of one kind in a model: merged, sorted by colour, with arrays for the projection."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sim.constraints.base import Constraint
from sim.constraints.slots.pattern import Slots
from sim.core.runtime.arrays.array import array, clone
from sim.model.derived.derivation import Derivation


@dataclass(eq=False)
class ConstraintSet:
    """The n constraints of one declaration.  Colour c is rows `offsets[c]` to `offsets[c + 1]`; its constraints share
    no free point, so that they may be projected side by side; those before row `shared[c]` nor a pinned one.  Of a
    large model each tile of points has colours of its own; tiles[c]: that of all points of colour c, None where they
    are of several; empty where there are no tiles.

    slots: to what the points belong; points: (n, k) int32, numbers of particles, or of bodies where the slot is one;
    placing: where on their bodies, or in the world: entry of `slot_struct` -> (n,); compliance: (n,) real, or vectors
    of `rows` entries; weights: (n,) inverse masses of the points, vectors of k entries, where all are particles;
    surface: of contacts with friction or restitution, entry of `surface_struct` -> (n,); damping:
    (n,) [s], None where nothing is damped; parameters: name -> (n,); names: labels of those who added constraints;
    index_of[label]: for the k-th constraint that was added there its row here, -1 where all of its points are pinned
    and it was left out.
    near, lane: of pairs that every step looks for, their kinds, and how many rows each has; else "" and 0.  Rows are
    then room for them, which solvers fill: see `sim.model.collision.near`.
    """

    constraint: Constraint
    points: array
    compliance: array
    damping: array | None
    weights: array | None
    parameters: dict[str, array]
    offsets: list[int]
    shared: list[int]
    names: list[str]
    index_of: dict[str, np.ndarray]
    slots: Slots = field(default_factory=lambda: Slots(""))
    placing: dict[str, array] = field(default_factory=dict)
    surface: dict[str, array] = field(default_factory=dict)
    near: str = ""
    lane: int = 0
    tiles: list[int | None] = field(default_factory=list)
    derivations: list[Derivation] = field(repr=False, default_factory=list)

    @property
    def name(self) -> str:
        """That of the constraint, and of the pattern of its slots where they are not all particles."""
        key = self.slots.key(self.constraint)
        return f"{key}:{self.near}" if self.near else key

    def with_own_rows(self) -> ConstraintSet:
        """The same with room of its own for near pairs, for a solver that fills it."""
        return replace(
            self,
            points=clone(self.points),
            parameters={name: clone(a, requires_grad=a.requires_grad) for name, a in self.parameters.items()},
            placing={name: clone(a, requires_grad=a.requires_grad) for name, a in self.placing.items()},
            surface={name: clone(a, requires_grad=a.requires_grad) for name, a in self.surface.items()},
        )

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
