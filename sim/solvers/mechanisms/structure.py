"""Which bodies and joints are a mechanism, and in which order its matrices stand: known before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.constraints.slots.linearization import active_rows
from sim.model.model import Model
from sim.solvers.batch import ConstraintBatch
from sim.solvers.direct.structure import Factorisation, factorise, neighbours, trees_of

MOST_BODIES = 16
"""Of a mechanism: it has a block of 6 x 6 for each two of its bodies."""


def movers_of_batch(model: Model, batch: ConstraintBatch) -> np.ndarray:
    """(constraints, bodies) the free bodies of each, -1 for what is held."""
    made, free = batch.set, model.device.numpy(model.body_free) != 0
    if not made.slots.bodies:
        return np.full((made.count, 1), -1)
    movers = made.points.device.numpy(made.points)[:, [own[0] for own in made.slots.bodies]]
    return np.where(free[movers], movers, -1)


def seen_as_mechanisms(model: Model, held: Sequence[ConstraintBatch], contacts: Sequence[ConstraintBatch]) -> bool:
    """Can contacts see all that is held as mechanisms?  They are of bodies, and small enough, and no two contacts of a
    launch push one and the same: all of it answers to what one of its bodies is pushed by."""
    if not held or model.near is not None:
        return False
    if any(batch.set.slots.particles or batch.set.constraint.unilateral for batch in held):
        return False
    ends = [[int(v) for v in movers if v >= 0] for batch in held for movers in movers_of_batch(model, batch)]
    tree_of = dict[int, int]()
    for number, tree in enumerate(trees_of(neighbours(ends))):
        own = {v for k in tree for v in ends[k]}
        if len(own) > MOST_BODIES:
            return False
        tree_of.update(dict.fromkeys(own, number))
    for batch in contacts:
        movers = movers_of_batch(model, batch)
        for rows in batch.colors:
            pushed = [{tree_of.get(int(v), -1) for v in own} for own in movers[rows.begin : rows.begin + rows.count]]
            trees = [tree for own in pushed for tree in own if tree >= 0]
            if len(set(trees)) < len(trees):
                return False
    return True


@dataclass(frozen=True, eq=False)
class Held:
    """Constraint `row` of a batch, between these bodies, -1 for what is held."""

    batch: ConstraintBatch
    row: int
    movers: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many act."""
        return len(active_rows(self.batch.set.constraint, self.batch.set.damping is not None))


class Mechanisms:
    """nodes: the constraints, in the order of their elimination; guests: limits, whose row is one more of the joint
    between the same bodies; hosts: the nodes of these; size: the most rows of a node, the last of them for a guest.

    members: the bodies, mechanism by mechanism, and `tree` that of each; place: where it is among those of its own.
    touches: of each node its bodies, one after the other: (node, member or -1); first: where those of a node begin;
    of_member: those of each member.  pushed: the members that contacts may push, a column of matrices each.
    """

    def __init__(self, model: Model, batches: Sequence[ConstraintBatch], contacts: Sequence[ConstraintBatch]) -> None:
        every = [
            Held(batch, row, tuple(int(v) for v in movers))
            for batch in batches
            for row, movers in enumerate(movers_of_batch(model, batch))
            if max(movers) >= 0
        ]
        joints = {held.movers: held for held in every if not held.batch.set.constraint.unilateral}
        limits = [held for held in every if held.batch.set.constraint.unilateral]
        self.guests = [held for held in limits if held.movers in joints]
        alone = [held for held in every if held not in self.guests]
        graph = neighbours([[v for v in held.movers if v >= 0] for held in alone])
        self.factorisation: Factorisation = factorise(graph, trees_of(graph))
        f = self.factorisation
        self.nodes = [alone[k] for k in f.order]
        self.size = max(1, *(held.rows for held in self.nodes)) + bool(self.guests)
        number = {id(held): j for j, held in enumerate(self.nodes)}
        self.hosts = [number[id(joints[held.movers])] for held in self.guests]

        self.tree_of_node = np.repeat(np.arange(len(f.trees) - 1), np.diff(f.trees))
        tree_of = {v: int(t) for t, held in zip(self.tree_of_node, self.nodes, strict=True) for v in held.movers}
        self.members = sorted((v for v in tree_of if v >= 0), key=lambda v: (tree_of[v], v))
        self.tree = np.array([tree_of[v] for v in self.members], int)
        self.heads = np.searchsorted(self.tree, np.arange(len(f.trees)))
        self.place = np.arange(len(self.members)) - self.heads[self.tree]
        at = {v: k for k, v in enumerate(self.members)}
        self.touches = [(j, at.get(v, -1)) for j, held in enumerate(self.nodes) for v in held.movers]
        self.first = first_of(self.nodes)
        self.of_member: list[list[int]] = [[] for _ in self.members]
        for touch, (_, k) in enumerate(self.touches):
            if k >= 0:
                self.of_member[k].append(touch)
        seen = {int(v) for batch in contacts for own in movers_of_batch(model, batch) for v in own}
        self.pushed = np.array([k for k, v in enumerate(self.members) if v in seen], int)

    def products(self) -> list[list[tuple[int, int]]]:
        """For each block of A the pairs of touches whose products J W D^T it is the sum of."""
        f = self.factorisation
        found: list[list[tuple[int, int]]] = [[] for _ in range(len(self.nodes) + 2 * f.couplings)]
        for shared in self.of_member:
            for a in shared:
                for b in shared:
                    found[f.block(self.touches[a][0], self.touches[b][0])].append((a, b))
        return found


def first_of(held: Sequence[Held]) -> np.ndarray:
    """Where the bodies of each of these constraints begin, one after the other, and where they end."""
    return np.concatenate([[0], np.cumsum([len(one.movers) for one in held])]).astype(int)
