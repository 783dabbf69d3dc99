"""Trees of constraints, named by their labels, that a step solves together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.constraints.joints.drives import FREE
from sim.constraints.slots.pattern import PARTICLE
from sim.core.lang.errors import did_you_mean
from sim.core.lang.types import int32, matrix, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.base import SolverError, Substep
from sim.solvers.batch import ConstraintBatch, Rows
from sim.solvers.bodies import BodyStep
from sim.solvers.direct.kernels import make_accumulate, make_assemble, make_linearize, tree_kernels
from sim.solvers.direct.structure import Lists, TooMuchFill, factorise, lists, neighbours, trees_of

MOST_COUPLINGS = 16
"""Of each constraint with others, on average.  More are no tree: a net of constraints fills its factor."""


@dataclass(frozen=True, eq=False)
class Node:
    """One constraint of a batch: its row, the number of its active rows, its movers (-1: held) in the order of their
    touches."""

    batch: int
    row: int
    size: int
    width: int
    movers: tuple[int, ...]


@dataclass(eq=False)
class Part:
    """The constraints of one batch in a system.  rows: where they are in the batch; nodes, touches: in the system."""

    batch: ConstraintBatch
    rows: array
    nodes: array
    touches: array
    linearize: dict[bool, Kernel]
    accumulate: dict[bool, Kernel]


class DirectSystem:
    """Trees with blocks of one size, solved in one launch, a thread for each tree.

    nodes: all constraints that are solved directly, of which these are trees[0], ...; begins: batch -> are the
    directions of its rigid rows those at the start of the step?
    """

    def __init__(
        self,
        model: Model,
        batches: Sequence[ConstraintBatch],
        nodes: Sequence[Node],
        graph: Sequence[set[int]],
        trees: Sequence[Sequence[int]],
        begins: Callable[[ConstraintBatch], bool],
    ) -> None:
        self.model = model
        device, real, grad = model.device, model.dtype, model.requires_grad
        try:
            f = factorise(graph, trees, MOST_COUPLINGS)
        except TooMuchFill:
            named = sorted({batches[nodes[k].batch].set.name for tree in trees for k in tree})
            raise SolverError(
                f"direct: the {sum(map(len, trees))} constraints {', '.join(map(repr, named))} are no trees, but nets,"
                " whose factors fill up: leave them out, or use SolverNewton",
                "Name chains and trees only",
            ) from None
        self._count, self._trees_count = len(f.order), len(f.trees) - 1
        own = [nodes[k] for k in f.order]
        size, width = max(node.size for node in own), max(node.width for node in own)
        self._kernels = tree_kernels(real, size, width)

        def integers(values: Iterable[object]) -> array:
            host = np.array(values if isinstance(values, np.ndarray) else list(values), np.int32)
            return array(host if host.size else np.zeros((1, *host.shape[1:]), np.int32), dtype=int32, device=device)

        def of_lists(made: Lists) -> list[array]:
            return [integers(made[0]), integers(made[1])]

        # 1. Touches: the movers of each constraint, in order; those of held ones count for nothing.
        first = np.concatenate([[0], np.cumsum([len(node.movers) for node in own])]).astype(int)
        touched = [(j, v) for j, node in enumerate(own) for v in node.movers]
        at_mover = defaultdict[int, list[int]](list)
        for touch, (_, v) in enumerate(touched):
            if v >= 0:
                at_mover[v].append(touch)
        movers = sorted(at_mover)
        local = {v: k for k, v in enumerate(movers)}
        self._node_of_touch, self._first_touches = integers(j for j, _ in touched), integers(first)
        self._movers, self._mover_count, self._touches = integers(movers), len(movers), len(touched)
        self._mover_of_touch = integers(local.get(v, -1) for _, v in touched)
        self._touches_of_movers = of_lists(lists([at_mover[v] for v in movers]))

        # 2. The products J W D^T of which each block is the sum, and the factorisation.
        blocks = self._count + 2 * f.couplings
        products: list[list[tuple[int, int]]] = [[] for _ in range(blocks)]
        for shared in at_mover.values():
            for a in shared:
                for b in shared:
                    products[f.block(touched[a][0], touched[b][0])].append((a, b))
        self._assembling = []
        for number in sorted(set(map(len, products))):
            at = [k for k, of_block in enumerate(products) if len(of_block) == number]
            pairs = np.array([products[k] for k in at], np.int32).reshape(len(at), number, 2)
            made = make_assemble(real, size, width, number)
            self._assembling.append((made, len(at), [integers(at), *(integers(pairs[..., side]) for side in (0, 1))]))
        self._trees = integers(f.trees)
        self._columns, self._rows = of_lists(f.columns), of_lists(f.rows)
        self._behind, self._ahead = integers(f.behind), integers(f.ahead)
        offsets, triples = f.updates
        self._updates = [integers(offsets), integers(triples.reshape(-1, 3))]
        self._block_count, self._couplings = blocks, f.couplings

        # 3. What a step writes before it reads it.
        lines, square, column = matrix((size, width), real), matrix((size, size), real), vector(size, real)
        n, touches = self._count, len(touched)
        self._J, self._D = (zeros(touches, lines, device, grad) for _ in range(2))
        self._alpha, self._b, self._r, self._y, self._correction = (zeros(n, column, device, grad) for _ in range(5))
        wrench = vector(width, real)
        self._f_0, self._f, self._u = (zeros(len(movers), wrench, device, grad) for _ in range(3))
        self._pushed, self._pulled = zeros(touches, wrench, device, grad), zeros(touches, column, device, grad)
        # constant to a tape
        self._WD, self._blocks = zeros(touches, lines, device), zeros(blocks, square, device)
        self._y_0, self._dlam_0 = (zeros(n, column, device) for _ in range(2))

        self._parts = []
        for index in sorted({node.batch for node in own}):
            batch, here = batches[index], [j for j, node in enumerate(own) if node.batch == index]
            here.sort(key=lambda j: own[j].row)
            c, damped, begin = batch.set.constraint, batch.set.damping is not None, begins(batch)
            self._parts.append(
                Part(
                    batch,
                    integers(own[j].row for j in here),
                    integers(here),
                    integers(first[j] for j in here),
                    {k: make_linearize(c, batch.set.slots, real, k, damped, begin, size, width) for k in (False, True)},
                    {k: make_accumulate(c, real, k, damped, size) for k in (False, True)},
                )
            )

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        differentiated = [self._J, self._D, self._alpha, self._b, self._r, self._y, self._correction, self._u]
        by_movers = [self._f_0, self._f, self._pushed, self._pulled]
        return [*differentiated, *by_movers, self._WD, self._blocks, self._y_0, self._dlam_0]

    def project(
        self, s: Substep, bodies: BodyStep, data: Callable[[ConstraintBatch, Substep], list[object]], first: bool
    ) -> None:
        """One Newton step of all of its constraints.  data: what kernels of constraints read first; first: the
        multipliers are zero before."""
        model, kernels = self.model, self._kernels
        w, start, turn = model.particle_inv_mass, bodies.start, bodies.turn
        moving = [s.particle, *bodies.moving]
        for part in self._parts:
            points, parameters, *rest = data(part.batch, s)
            inputs = [part.rows, part.nodes, part.touches, points, part.batch.placing, parameters, *rest]
            inputs += [s.reference, start, s.effective_dt, s.particle, bodies.dx, turn, part.batch.multiplier]
            made = [self._J, self._D, self._WD, self._alpha, self._b]
            launch(part.linearize[first], part.rows.size, inputs, made)
        with recording.paused():
            for assemble, count, given in self._assembling:
                inputs = [*given, self._count, self._J, self._WD, self._alpha]
                launch(assemble, count, inputs, [self._blocks])
            inputs = [self._trees, *self._columns, *self._updates]
            launch(kernels.factorise, self._trees_count, inputs, [self._blocks])
            self._substitute(self._b, self._y_0, self._dlam_0)
        self._push(self._dlam_0)
        inputs = [self._movers, *self._touches_of_movers, w, start, turn, self._pushed]
        launch(kernels.shift, self._mover_count, inputs, [self._f_0, self._u])
        launch(kernels.pull, self._touches, [self._mover_of_touch, self._J, self._u], [self._pulled])
        inputs = [self._first_touches, self._alpha, self._b, self._dlam_0, self._pulled]
        launch(kernels.residual, self._count, inputs, [self._r])
        self._substitute(self._r, self._y, self._correction)
        self._push(self._correction)
        inputs = [*self._touches_of_movers, self._f_0, self._pushed]
        launch(kernels.gather, self._mover_count, inputs, [self._f])
        launch(kernels.move, self._mover_count, [self._movers, w, start, self._f], moving)
        for part in self._parts:
            inputs = [part.rows, part.nodes, self._dlam_0, self._correction]
            launch(part.accumulate[first], part.rows.size, inputs, [part.batch.multiplier])
            for written in moving[:2]:
                s.watch(written, part.batch, Rows(0, part.batch.set.count, False))

    def _push(self, dlam: array) -> None:
        launch(self._kernels.push, self._touches, [self._node_of_touch, self._D, dlam], [self._pushed])

    def _substitute(self, b: array, y: array, x: array) -> None:
        inputs = [self._trees, *self._columns, self._behind, *self._rows, self._ahead, self._blocks, b]
        launch(self._kernels.substitute, self._trees_count, inputs, [y, x])


def direct_rows(batches: Sequence[ConstraintBatch], labels: Sequence[str]) -> list[np.ndarray]:
    """For each batch the rows that are solved directly: those of one of these labels, or of a part of it
    (`wire.start` of `wire`).

    What is bounded stays out: one-sided constraints, friction, and drives with a largest effort.  Raises SolverError
    where nothing of a label is left.
    """
    linear = [_linear(b) for b in batches]
    known = list(dict.fromkeys(name for b in batches for name in b.set.names))
    found = list[np.ndarray]()
    for label in labels:
        if not any(_names(label, name) for name in known):
            raise SolverError(
                f"direct={label!r}: no constraints have this label{did_you_mean(label, known)}",
                f"There are {', '.join(known)}",
            )
        if not any(
            _names(label, name) for b, fit in zip(batches, linear, strict=True) if fit.any() for name in b.set.names
        ):
            raise SolverError(
                f"direct={label!r}: its constraints are one-sided or have a largest force, which a linear solve cannot"
                " respect; leave it out, and they are projected one by one",
                "Leave it out",
            )
    for b, fit in zip(batches, linear, strict=True):
        named = [name for name in b.set.names if any(_names(label, name) for label in labels)]
        chosen = np.unique(np.concatenate([b.set.index_of[name] for name in named])) if named else np.zeros(0, int)
        chosen = chosen[chosen >= 0]
        found.append(chosen[fit[chosen]])
    return found


def _names(label: str, name: str) -> bool:
    return name == label or name.startswith(f"{label}.")


def _linear(batch: ConstraintBatch) -> np.ndarray:
    """(rows,) bool: the constraints that have no bounds."""
    c = batch.set.constraint
    acts = not c.unilateral and bool(c.active(batch.set.damping is not None or c.driven))
    if acts and c.driven and c.limited:
        most = batch.set.parameters[c.limited]
        return most.device.numpy(most) >= FREE
    return np.full(batch.set.count, acts and not c.limited)


def direct_systems(
    model: Model,
    batches: Sequence[ConstraintBatch],
    rows: Sequence[np.ndarray],
    begins: Callable[[ConstraintBatch], bool],
) -> list[DirectSystem]:
    """The systems of these rows of batches: trees with blocks of one size are one system."""
    nodes = [node for k, chosen in enumerate(rows) for node in _nodes(model, batches[k], k, chosen)]
    graph = neighbours([[v for v in node.movers if v >= 0] for node in nodes])
    groups = defaultdict[tuple[int, int], list[list[int]]](list)
    for tree in trees_of(graph):
        groups[max(nodes[k].size for k in tree), max(nodes[k].width for k in tree)].append(tree)
    made = [DirectSystem(model, batches, nodes, graph, trees, begins) for _, trees in sorted(groups.items())]
    return made


def _nodes(model: Model, batch: ConstraintBatch, index: int, rows: np.ndarray) -> list[Node]:
    made, c, slots = batch.set, batch.set.constraint, batch.set.slots
    points, host = made.points.device.numpy(made.points)[rows], model.device.numpy
    free = np.concatenate([host(model.particle_free), host(model.body_free)]) != 0
    touching = [*slots.particles, *(own[0] for own in slots.bodies)]
    shift = np.array([0 if slots.kinds[j] == PARTICLE else model.particle_count for j in touching], int)
    movers = points[:, touching] + shift
    movers = np.where(free[movers], movers, -1)
    size, width = len(c.active(made.damping is not None or c.driven)), 6 if slots.bodies else 3
    return [Node(index, int(k), size, width, tuple(own)) for k, own in zip(rows, movers.tolist(), strict=True)]
