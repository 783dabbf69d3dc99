"""The part of `ModelBuilder` that adds rigid bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim.model.build import checks
from sim.model.build.bodies import BodyBlock, BodyPoint, inertia_rows, pose
from sim.model.build.collection import Collection
from sim.model.build.objects import ORIGIN
from sim.model.errors import ModelError
from sim.model.groups import BodyGroup

WORLD = -1
"""In the place of a body: what does not move."""


class BodyBuilder(Collection):
    """Collects rigid bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: dict[str, BodyGroup] = {}
        self._bodies: list[BodyBlock] = []

    @property
    def body_count(self) -> int:
        """Number of rigid bodies so far."""
        return sum(block.group.count for block in self._bodies)

    def add_body(
        self,
        xform: Any = None,
        mass: float = 1.0,
        inertia: Any = None,
        com: Sequence[float] = ORIGIN,
        label: str | None = None,
        *,
        velocity: Sequence[float] = ORIGIN,
        spin: Sequence[float] = ORIGIN,
        held: bool = False,
    ) -> int:
        """A rigid body.  Returns its number.

        xform: pose of its origin, a transform or a position [m]; mass [kg], 0 holds it; inertia [kg m^2] about the
        centre of mass, in the axes of the body: principal moments (3,), xx yy zz xy xz yz (6,), or (3, 3); com: centre
        of mass [m] in its frame; velocity: of the centre of mass [m/s], spin: angular velocity [rad/s], in the world.
        held: it does not move.  Paths: `label.mass`, `.inertia`, `.com`, `.position`, `.rotation` (rotation vector
        about the given pose), `.velocity`, `.spin`.
        """
        self._open("add_body")
        base = pose("xform", xform)[None]
        weight = checks.number("mass", mass)
        if weight > 0.0 and inertia is None:
            raise ModelError("add_body needs an inertia", "Give moments of inertia about the centre of mass [kg m^2]")
        moments = np.ones((1, 3)) if inertia is None else inertia_rows("inertia", inertia, 1)
        group = BodyGroup(self._label(label, "body"), self.body_count, 1)
        block = BodyBlock(
            group,
            base,
            np.array([weight]),
            moments,
            com=checks.vec3("com", com)[None],
            velocity=checks.vec3("velocity", velocity)[None],
            spin=checks.vec3("spin", spin)[None],
            position=np.zeros((1, 3)),
            rotation=np.zeros((1, 3)),
            held=bool(held),
        )
        self._labels.add(group.name)
        self.bodies[group.name] = group
        self._bodies.append(block)
        return group.start

    def point_of(self, body: int, at: Sequence[float] = ORIGIN, rot: Any = None) -> BodyPoint:
        """A point of a body, for `add_constraints`: at (3,) [m] in its frame; rot: of a frame there.  body -1 is the
        world, whose frame does not move."""
        if isinstance(body, bool) or int(body) != body or not -1 <= body < self.body_count:
            raise ModelError(f"there is no body {body!r}", f"There are {self.body_count}, from 0 on; -1 is the world")
        turn = pose("rot", None if rot is None else np.concatenate([ORIGIN, np.ravel(rot)]))[3:]
        return BodyPoint(int(body), tuple(checks.vec3("at", at).tolist()), tuple(turn.tolist()))
