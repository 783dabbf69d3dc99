"""Many copies of what a builder has collected, side by side in one model: worlds that do not touch each other.

The copies of an object stand together: points `start` to `start + count - 1` of its group are those of world 0, then
come those of world 1, and so on, and likewise its constraints.  So one launch works on a colour of all worlds.  A value
that was one for the object becomes one for each world; one for each element, one for each element of each world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.constraints.slots.pattern import PARTICLE, WORLD
from sim.model.build.blocks import AttachmentBlock, ConstraintBlock, LoadBlock, PointBlock
from sim.model.build.bodies import SiteBlock
from sim.model.groups import BodyGroup, Group
from sim.model.visuals import Visual


class Numbering:
    """From the numbers of points (or bodies) in one world to those in all of them."""

    def __init__(self, groups: Sequence[Group | BodyGroup], worlds: int) -> None:
        self.worlds = worlds
        self._starts = np.array([g.start for g in groups])
        self._counts = np.array([g.count for g in groups])

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Rows of points (n, ...) of one world as (worlds n, ...): those of world 0, then of world 1, ..."""
        at = np.searchsorted(self._starts, points, side="right") - 1
        first = points + (self.worlds - 1) * self._starts[at]
        return np.concatenate([(first + world * self._counts[at]).astype(np.int32) for world in range(self.worlds)])


def repeated(values: np.ndarray, worlds: int) -> np.ndarray:
    """Values (n, ...) for each world, (worlds n, ...)."""
    return np.concatenate([values] * worlds)


def copied_group(group: Group, number: Numbering) -> Group:
    """A group with the points of all worlds."""
    n = number.worlds
    return replace(
        group,
        start=group.start * n,
        count=group.count * n,
        positions=repeated(group.positions, n),
        triangles=number(group.triangles),
        edges=number(group.edges),
        tets=number(group.tets),
        boundary=None if group.boundary is None else repeated(group.boundary, n),
        file_to_point=None if group.file_to_point is None else _first_world(group, n),
        elements={name: number(points) for name, points in group.elements.items()},
        worlds=n,
    )


def _first_world(group: Group, worlds: int) -> np.ndarray:
    """Where the vertices of a mesh file are in world 0."""
    found = group.file_to_point
    assert found is not None
    return np.where(found < 0, -1, found + (worlds - 1) * group.start).astype(np.int32)


def copied_sites(block: SiteBlock, number_bodies: Numbering, particles: int) -> SiteBlock:
    """Sites of all worlds; particles: how many there are in one."""
    n, group = number_bodies.worlds, block.group
    start = n * particles + n * (group.start - particles)
    edges = [group.edges - group.start + start + world * group.count for world in range(n)]
    made = replace(
        group,
        start=start,
        count=group.count * n,
        positions=repeated(group.positions, n),
        edges=np.concatenate(edges).astype(np.int32),
        worlds=n,
    )
    return SiteBlock(made, number_bodies(block.bodies), repeated(block.at, n))


def copied_points(block: PointBlock, group: Group, worlds: int) -> PointBlock:
    return replace(
        block,
        group=group,
        base=repeated(block.base, worlds),
        position=repeated(block.position, worlds),
        velocity=repeated(block.velocity, worlds),
        spin=repeated(block.spin, worlds),
        rotation=repeated(block.rotation, worlds),
        weight=repeated(block.weight, worlds),
        factor=repeated(block.factor, worlds),
    )


def copied_constraints(block: ConstraintBlock, number: Numbering, number_bodies: Numbering) -> ConstraintBlock:
    n, kinds = number.worlds, block.pattern.kinds
    columns = [
        number(column) if kind == PARTICLE else repeated(column, n) if kind == WORLD else number_bodies(column)
        for kind, column in zip(kinds, block.points.T, strict=True)
    ]
    return replace(
        block,
        points=number(block.points) if block.slots is None else np.stack(columns, axis=1),
        places={j: place.copied(n) for j, place in block.places.items()},
        factor=repeated(block.factor, n),
        values={k: repeated(v, n) for k, v in block.values.items()},
        constants={k: repeated(v, n) for k, v in block.constants.items()},
        size=None if block.size is None else repeated(block.size, n),
    )


def copied_attachment(block: AttachmentBlock, number: Numbering) -> AttachmentBlock:
    n = number.worlds
    motions = [motion._replace(vector=repeated(motion.vector, n)) for motion in block.motions]
    displaced = {key: repeated(value, n) for key, value in block.displaced.items()}
    compliance = repeated(block.compliance, n)
    return replace(block, points=number(block.points), compliance=compliance, motions=motions, displaced=displaced)


def copied_load(block: LoadBlock, number: Numbering) -> LoadBlock:
    return replace(block, points=number(block.points), mass=repeated(block.mass, number.worlds))


def copied_visual(visual: Visual, number_bodies: Numbering) -> list[Visual]:
    """That of each world; one in the world itself stays one."""
    if visual.body < 0:
        return [visual]
    return [replace(visual, body=int(body)) for body in number_bodies(np.array([visual.body]))]
