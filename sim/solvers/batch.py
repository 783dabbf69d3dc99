"""One set of constraints, as a solver works on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import slot_struct
from sim.core.lang.types import Scalar
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel
from sim.model.constraint_set import ConstraintSet
from sim.model.state import State


@dataclass(frozen=True)
class Rows:
    """The constraints of one launch, `begin` to `begin + count - 1`.  disjoint: they share no point, pinned or not.
    in_turn: one thread takes all of them, one after the other; back: in the opposite order.  tile: that of all of their
    points, which those of other tiles do not touch."""

    begin: int
    count: int
    disjoint: bool
    in_turn: bool = False
    back: bool = False
    tile: int | None = None

    @property
    def threads(self) -> int:
        """Of the launch."""
        return 1 if self.in_turn else self.count


Launches = Sequence[tuple["ConstraintBatch", Rows]]


def swept(launches: Launches, back: bool) -> Launches:
    """The launches of a sweep, there or back."""
    return [(batch, replace(rows, back=True)) for batch, rows in reversed(launches)] if back else launches


def placing_of(made: ConstraintSet, real: Scalar) -> Any:
    """Where the points of constraints are on bodies and in the world, as kernels take it: `slot_struct`."""
    placing = slot_struct(made.constraint, made.slots, real)()
    for name, values in made.placing.items():
        setattr(placing, name, values)
    return placing


@dataclass(eq=False)
class ConstraintBatch:
    """What a solver needs to work on one set of constraints.

    parameters: those of C, a struct of arrays; multiplier: lambda of each; evolutions: internal variable -> the kernel
    of its evolution law; placing: where its points are on bodies, a struct of arrays.
    """

    set: ConstraintSet
    parameters: Any
    multiplier: array
    evolutions: dict[str, Kernel] = field(default_factory=dict)
    placing: Any = None

    def parameters_in(self, state: State) -> Any:
        """The parameters of C with the internal variables of a state."""
        if not self.evolutions:
            return self.parameters
        made = parameter_struct(self.set.constraint, state.model.dtype)()
        for name, values in self.set.parameters.items():
            internal = name in self.evolutions
            setattr(made, name, state.internal_variables[f"{self.set.name}.{name}"] if internal else values)
        return made

    @property
    def colors(self) -> Iterator[Rows]:
        """The launches that go over all constraints, colour by colour: of each first those that share no point at all,
        whose kernel need not be careful, then those that have a pinned point in common."""
        offsets, tiles = self.set.offsets, self.set.tiles or [None] * self.set.color_count
        for begin, shared, end, tile in zip(offsets, self.set.shared, offsets[1:], tiles, strict=False):
            if shared > begin:
                yield Rows(begin, shared - begin, True, tile=tile)
            if end > shared:
                yield Rows(shared, end - shared, False, tile=tile)

    def colors_without(self, left_out: np.ndarray) -> Iterator[Rows]:
        """The same without some of the rows."""
        if not len(left_out):
            yield from self.colors
            return
        for rows in self.colors:
            stays = np.ones(rows.count, bool)
            stays[left_out[(left_out >= rows.begin) & (left_out < rows.begin + rows.count)] - rows.begin] = False
            chosen = rows.begin + np.flatnonzero(stays)
            for run in np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1):
                if len(run):
                    yield replace(rows, begin=int(run[0]), count=len(run))

    @property
    def all_at_once(self) -> Rows:
        """One launch for all constraints."""
        return Rows(0, self.set.count, False)
