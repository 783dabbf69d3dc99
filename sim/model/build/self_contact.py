"""Surfaces that collide with themselves and each other: declared by a builder, derived for a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.core.lang.types import vector
from sim.core.runtime.arrays.array import array
from sim.model.build import checks
from sim.model.build.joints.joint_builder import JointBuilder
from sim.model.collision.detection import PairLists
from sim.model.collision.surfaces import SelfContact, edges_of
from sim.model.derived.arrays import ArrayFactory
from sim.model.derived.derivation import Derivation, broadcast
from sim.model.errors import ModelError
from sim.model.groups import Group
from sim.model.materials import FINITE, Materials
from sim.model.model import Model

MARGIN = 0.25
"""In mean edges of the surfaces, where none is given."""
EVERY = 10
CELL = 1.25
"""Of a grid, in what an edge takes with the margin and the thickness: smaller ones are more to go through, larger ones
hold more that is not near."""
ROOM, LEAST_ROOM = 16, 4000
"""Pairs of a kind for each point, and those beside, where no capacity is given."""
MOST_PAIRS = 2**28 - 1
"""Of a kind, whose eight points have numbers of 32 bits."""
CLOSER = 1e-3
"""Part of the thickness by which points may be too close in the beginning."""


@dataclass(frozen=True, eq=False)
class SelfContactBlock:
    """What was declared: see `SelfContactBuilder.add_self_contact`.  friction: path -> coefficient, and whose it is."""

    labels: Sequence[str]
    friction: Mapping[str, tuple[float, Sequence[str]]]
    thickness: float | None
    margin: float | None
    every: int
    capacity: int | None


class SelfContactBuilder(JointBuilder):
    """Collects what collides with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, Group] = {}
        self._self_contact: SelfContactBlock | None = None

    def add_self_contact(
        self,
        groups: Sequence[Group | str],
        *,
        friction: float | Mapping[str, float] = 0.0,
        thickness: float | None = None,
        margin: float | None = None,
        every: int = EVERY,
        capacity: int | None = None,
    ) -> None:
        """The surfaces of these objects collide with themselves and with each other; a solid with its outer triangles.

        friction: coefficient between them, or label -> that of each object, of which the mean counts; thickness [m]:
        the distance that they keep, default: the `thickness` of both objects, added up; parts of an object that are
        closer at rest keep half of their distance there.
        Pairs that may touch are looked for every so many steps (`every`); margin [m]: points may move half of it in
        between, beside what their velocities say; default: a quarter of the mean edge.  capacity: room for pairs of
        points and triangles, and for as many of edges; default: 4000, and 16 for each point.  What does not suffice is
        an error.
        There is no restitution.  Called once.  Paths: `contact.friction`, or `contact.friction.label` of each object,
        and `contact.thickness` where it is given.
        """
        self._open("add_self_contact")
        if self._self_contact is not None:
            raise ModelError("add_self_contact is called twice", "Name all objects in one call")
        labels = [group if isinstance(group, str) else group.name for group in groups]
        for group, label in zip(groups, labels, strict=True):
            checks.known("add_self_contact", label, self.groups)
            if not isinstance(group, str) and self.groups[label] is not group:
                raise ModelError(f"{group!r} is not of this builder", "Pass what an add_* method returned")
            if not len(self.groups[label].triangles):
                raise ModelError(f"{label!r} has no surface that could touch", "Name cloths and solids")
        if twice := [label for label, count in Counter(labels).items() if count > 1]:
            raise ModelError(f"add_self_contact names {twice[0]!r} twice", "Name each object once")
        if not labels:
            raise ModelError("add_self_contact names no objects", "Name at least one")
        every = checks.whole("every", every)
        capacity = None if capacity is None else checks.whole("capacity", capacity)
        if capacity is not None and capacity > MOST_PAIRS:
            raise ModelError(
                f"capacity = {capacity}: points of pairs have numbers of 32 bits", f"Take at most {MOST_PAIRS}"
            )
        if thickness is not None:
            thickness = checks.number("thickness", thickness, positive=True)
            checks.thinner(thickness, [self.groups[label].positions for label in labels])
        self._labels.add(self._label("contact", "contact"))
        self._self_contact = SelfContactBlock(
            labels,
            _frictions(friction, labels),
            thickness,
            None if margin is None else checks.number("margin", margin, positive=True),
            every,
            capacity,
        )


def _frictions(friction: float | Mapping[str, float], labels: Sequence[str]) -> dict[str, tuple[float, Sequence[str]]]:
    if not isinstance(friction, Mapping):
        return {"contact.friction": (checks.number("friction", friction), labels)}
    for label in friction:
        checks.known("friction", label, labels)
    for label in labels:
        if label not in friction:
            raise ModelError(f"friction says nothing of {label!r}", "Give that of every object, or one number for all")
    return {f"contact.friction.{label}": (checks.number(label, friction[label]), [label]) for label in labels}


def derive_self_contact(
    block: SelfContactBlock | None,
    groups: Mapping[str, Group],
    worlds: int,
    thickness: np.ndarray,
    materials: Materials,
    make: ArrayFactory,
) -> tuple[SelfContact | None, list[Derivation]]:
    """thickness: (particles,) [m] of the objects."""
    if block is None:
        return None, []
    chosen, n = [groups[label] for label in block.labels], len(thickness)
    for group in chosen:
        if block.thickness is None and not (thickness[group.points] > 0).all():
            raise ModelError(
                f"{group.name!r} collides with itself and has no thickness",
                "Give it a thickness [m], or the contact one",
                of=group.name,
            )
    triangles = np.concatenate([group.triangles for group in chosen]).astype(np.int32)
    edges = edges_of(triangles)
    rest, world, owner = np.zeros((n, 3)), np.full(n, -1), np.full(n, -1)
    for number, group in enumerate(chosen):
        rest[group.points], owner[group.points] = group.positions, number
        world[group.points] = np.repeat(np.arange(worlds), group.count // worlds)
    points = np.unique(triangles)
    points = points[np.argsort(world[points], kind="stable")].reshape(worlds, -1)
    mean_edge = float(np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1).mean())
    margin = MARGIN * mean_edge if block.margin is None else block.margin
    half = make.zeros(n, make.real)
    derivations = []
    if block.thickness is None:
        half.assign(thickness)
    else:
        value = materials.add("contact.thickness", np.full(worlds, block.thickness), "(0, inf)")
        derivations += [_spread(make, value, group, half, 0.5) for group in chosen]
    friction = make.zeros(n, make.real)
    for path, (given, labels) in block.friction.items():
        value = materials.add(path, np.full(worlds, given), FINITE)
        derivations += [_spread(make, value, group, friction, 1.0) for group in chosen if group.name in labels]
    largest = float(thickness[points].max()) * 2 if block.thickness is None else block.thickness
    found = SelfContact(
        tuple(block.labels),
        margin,
        block.every,
        min(LEAST_ROOM + ROOM * points.size, MOST_PAIRS) if block.capacity is None else block.capacity,
        CELL * (mean_edge + margin + largest),
        make.constant(points, int),
        make.constant(triangles, int),
        make.constant(edges, int),
        make.constant(world, int),
        make.constant(owner, int),
        make.constant(rest, vector(3, make.real)),
        half,
        friction,
    )
    return found, derivations


def thick_surfaces(model: Model) -> list[tuple[str, float, float]]:
    """Surfaces that keep further from themselves than any of their edges is long: label, that distance and the longest
    edge [m]: neighbours in the mesh alone are closer at rest, so that no fold is as narrow as the mesh could show."""
    contact, read = model.contact, model.device.numpy
    if contact is None:
        return []
    edges, rest = read(contact.edges), read(contact.rest).astype(np.float64)
    lengths, owner = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1), read(contact.owner)[edges[:, 0]]
    out = []
    for number, label in enumerate(contact.labels):
        kept = 2.0 * float(read(contact.half_thickness)[model.groups[label].points].max())
        if kept > (longest := float(lengths[owner == number].max())):
            out.append((label, kept, longest))
    return out


def _spread(make: ArrayFactory, value: array, group: Group, out: array, factor: float) -> Derivation:
    everyone = np.arange(group.count)
    return broadcast(make, value, group.count, everyone, group.points, out, factor=np.full(group.count, factor))


def refuse_overlap(contact: SelfContact | None, q: array, qd: array, groups: Mapping[str, Group]) -> None:
    """Raises ModelError where surfaces are closer in the beginning than their thickness, with the worst place."""
    if contact is None:
        return
    lists = PairLists(contact)
    lists.detect(q, qd, 0.0)
    lists.refuse_incomplete(" in the beginning")
    depth, row, distance = lists.deepest(q)
    if depth <= CLOSER * (depth + distance):  # not where layers rest on each other without a gap: their side is nan
        return
    points = lists.rows.numpy()[row]

    def group_of(point: int) -> Group:
        return next(g for g in groups.values() if g.start <= point < g.start + g.count)

    def named(point: int) -> str:
        group = group_of(point)
        return f"point {point - group.start} of {group.name!r}"

    if np.isnan(depth):
        raise ModelError(
            f"contact: {named(points[0])} and {named(points[2])} are at one place in the beginning, and nothing says"
            " which side of the surface is up",
            "Place layers apart from each other, however little",
            of=group_of(points[0]).name,
        )
    raise ModelError(
        f"contact: {named(points[0])} is {distance:.3g} m from {named(points[2])} in the beginning, {depth:.3g} m"
        " closer than their thickness allows",
        "Place the objects further apart, or give them a smaller thickness",
        of=group_of(points[0]).name,
    )
