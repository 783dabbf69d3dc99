"""Slots: which mover each point of a constraint belongs to, fixed at build time.

A slot is a particle, a point of a rigid body, or a constant place in the world.  C does not know: the same declaration
works on any mixture.  What a mixture needs is its *pattern*, one letter for each point:

    p          a particle
    a, b, ...  a point of a body; the same letter, the same body
    w          a constant place in the world

`distance` between a particle and a body is the set `distance@pa`; a vertex against a triangle of one body is `paaa`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sim.constraints.base import Constraint

PARTICLE, WORLD = "p", "w"
BODIES = "abcdefghijklmno"
"""Letters of bodies, in the order of their first appearance."""


@dataclass(frozen=True)
class Slots:
    """A pattern.  kinds: a letter for each point of the constraint."""

    kinds: str

    @classmethod
    def of(cls, movers: Sequence[int | None | str]) -> Slots:
        """The pattern of slots: `"p"` for a particle, the number of a body, None for the world."""
        letters: dict[int, str] = {}
        kinds = [
            PARTICLE if m == PARTICLE else WORLD if m is None else letters.setdefault(int(m), BODIES[len(letters)])
            for m in movers
        ]
        return cls("".join(kinds))

    @classmethod
    def of_particles(cls, points: int) -> Slots:
        """The pattern of so many particles."""
        return cls(PARTICLE * points)

    @property
    def only_particles(self) -> bool:
        """Is there neither a body nor a place in the world?"""
        return set(self.kinds) == {PARTICLE}

    @cached_property
    def particles(self) -> tuple[int, ...]:
        """The slots that are particles."""
        return tuple(j for j, kind in enumerate(self.kinds) if kind == PARTICLE)

    @cached_property
    def bodies(self) -> tuple[tuple[int, ...], ...]:
        """For each body its slots."""
        letters = [letter for letter in BODIES if letter in self.kinds]
        return tuple(tuple(j for j, kind in enumerate(self.kinds) if kind == letter) for letter in letters)

    @cached_property
    def body_of(self) -> tuple[int, ...]:
        """For each slot the place of its body in `bodies`, -1 for none."""
        return tuple(BODIES.index(kind) if kind in BODIES else -1 for kind in self.kinds)

    @cached_property
    def placed(self) -> tuple[int, ...]:
        """The slots that have an offset: of a body from its centre of mass, of the world from its origin."""
        return tuple(j for j, kind in enumerate(self.kinds) if kind != PARTICLE)

    def key(self, c: Constraint) -> str:
        """What a set of constraints on such slots is called: the name of C alone where all are particles."""
        return c.name if self.only_particles else f"{c.name}@{self.kinds}"
