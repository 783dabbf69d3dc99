"""The mechanisms of a model as contacts see them: see `sim.constraints.contact.impulses.mobility`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.constraints.contact.forms import mechanism_struct
from sim.constraints.contact.impulses.held import HeldLayout
from sim.constraints.contact.impulses.mobility import make_lay, make_settle, make_silence, mobility_kernels
from sim.constraints.slots.linearization import active_rows
from sim.core.lang.types import int32, matrix, vector
from sim.core.runtime.ambient import recording
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.creation import zeros
from sim.core.runtime.launch.kernel import Kernel
from sim.core.runtime.launch.launch import launch
from sim.model.model import Model
from sim.solvers.base import Substep
from sim.solvers.batch import ConstraintBatch
from sim.solvers.bodies import BodyStep
from sim.solvers.direct.kernels import make_accumulate, make_assemble, make_linearize, tree_kernels
from sim.solvers.direct.structure import Lists, factorise, lists, neighbours, trees_of

MOST_BODIES = 32
"""Of a mechanism: it has a block of 6 x 6 for each two of its bodies.  Longer ones are swept."""


@dataclass(eq=False)
class _Part:
    """The constraints of one batch.  rows: where they are in the batch; nodes, touches: in the mechanisms."""

    batch: ConstraintBatch
    rows: array
    nodes: array
    touches: array


def _movers(model: Model, batch: ConstraintBatch) -> np.ndarray:
    """(constraints, bodies) the free bodies of each, -1 for what is held."""
    made, free = batch.set, model.device.numpy(model.body_free) != 0
    movers = made.points.device.numpy(made.points)[:, [own[0] for own in made.slots.bodies]]
    return np.where(free[movers], movers, -1)


class Mobility:
    """Of mechanisms of bodies.  All of `batches` are on bodies alone.

    complete: is every constraint of them in a mechanism that is small enough?
    """

    def __init__(
        self,
        model: Model,
        bodies: BodyStep,
        batches: Sequence[ConstraintBatch],
        begins: Callable[[ConstraintBatch], bool],
    ) -> None:
        self.model, self.bodies, self._begins = model, bodies, begins
        device, real, grad = model.device, model.dtype, model.requires_grad
        every = [
            (batch, k, movers) for batch in batches for k, movers in enumerate(_movers(model, batch)) if max(movers) >= 0
        ]
        graph = neighbours([[v for v in movers if v >= 0] for _, _, movers in every])
        trees = []
        for tree in trees_of(graph):
            if len({v for k in tree for v in every[k][2] if v >= 0}) <= MOST_BODIES:
                trees.append(tree)
        self.complete = sum(map(len, trees)) == len(every)
        f = factorise(graph, trees)
        own = [every[k] for k in f.order]
        self._nodes = len(own)
        self.size = size = max(
            [1, *(len(active_rows(b.set.constraint, b.set.damping is not None)) for b, _, _ in own)]
        )

        def integers(values: Iterable[object]) -> array:
            host = np.array(values if isinstance(values, np.ndarray) else list(values), np.int32)
            return array(host if host.size else np.zeros((1, *host.shape[1:]), np.int32), dtype=int32, device=device)

        def of_lists(made: Lists) -> list[array]:
            return [integers(made[0]), integers(made[1])]

        # Members: the bodies of the mechanisms, one after the other; touches: of each constraint its bodies, in order.
        tree_of_node = np.repeat(np.arange(len(trees)), np.diff(f.trees))
        tree_of_body = {int(v): int(t) for t, (_, _, movers) in zip(tree_of_node, own, strict=True) for v in movers if v >= 0}
        members = sorted(tree_of_body, key=lambda v: (tree_of_body[v], v))
        tree = np.array([tree_of_body[v] for v in members], int)
        heads = np.searchsorted(tree, np.arange(len(trees) + 1))
        place = np.arange(len(members)) - heads[tree]
        at_member = {v: k for k, v in enumerate(members)}
        first = np.concatenate([[0], np.cumsum([len(movers) for _, _, movers in own])]).astype(int)
        touched = [(j, at_member.get(int(v), -1)) for j, (_, _, movers) in enumerate(own) for v in movers]
        of_member: list[list[int]] = [[] for _ in members]
        for touch, (_, k) in enumerate(touched):
            if k >= 0:
                of_member[k].append(touch)

        # Slots and pairs stand column by column: of each body all constraints, and all bodies, of its mechanism.
        sizes, nodes = np.diff(heads)[tree], np.diff(f.trees)[tree]
        column, base = np.cumsum(sizes) - sizes, np.cumsum(nodes) - nodes
        begin = f.trees[tree].astype(int)
        self.count, self._pairs, self._slots = len(members), int(sizes.sum()), int(nodes.sum())
        self._members, self._tree, self._heads, self._place = map(integers, (members, tree, heads, place))
        self._column, self._base, self._begin = map(integers, (column, base, begin))
        pair_column = np.repeat(np.arange(len(members)), sizes)
        pair_row = np.arange(self._pairs) - column[pair_column] + heads[tree[pair_column]]
        slot_member = np.repeat(np.arange(len(members)), nodes)
        slot_node = np.arange(self._slots) - base[slot_member] + begin[slot_member]
        self._pair_row, self._pair_column = integers(pair_row), integers(pair_column)
        self._slot_node, self._slot_member = integers(slot_node), integers(slot_member)
        self._first, self._at = integers(first), integers(k for _, k in touched)
        self._node_of_touch, self._tree_of_node = integers(j for j, _ in touched), integers(tree_of_node)
        self._touches = of_lists(lists(of_member))

        # The products J W D^T of which each block of A is the sum, and the factorisation.
        products: list[list[tuple[int, int]]] = [[] for _ in range(self._nodes + 2 * f.couplings)]
        for shared in of_member:
            for a in shared:
                for b in shared:
                    products[f.block(touched[a][0], touched[b][0])].append((a, b))
        self._assembling = []
        for number in sorted(set(map(len, products))):
            at = [k for k, of_block in enumerate(products) if len(of_block) == number]
            pairs = np.array([products[k] for k in at], np.int32).reshape(len(at), number, 2)
            given = [integers(at), *(integers(pairs[..., side]) for side in (0, 1))]
            self._assembling.append((make_assemble(real, size, 6, number), len(at), given))
        offsets, triples = f.updates
        self._trees, self._updates = integers(f.trees), [integers(offsets), integers(triples.reshape(-1, 3))]
        self._columns, self._rows = of_lists(f.columns), of_lists(f.rows)
        self._behind, self._ahead = integers(f.behind), integers(f.ahead)
        self._tree_count, self._touch_count = len(trees), len(touched)

        # What a step writes before it reads it; the factor and X_0 are constant to a tape.
        lines, square, six = matrix((size, 6), real), matrix((size, size), real), matrix((6, 6), real)
        spatial, some = vector(6, real), model.body_count if members else 0
        self._J, self._D, self._WD = (zeros(len(touched), lines, device, grad) for _ in range(3))
        self._alpha, self._b = (zeros(self._nodes, vector(size, real), device, grad) for _ in range(2))
        self._v, self._x, self._rest = (zeros(self._nodes, vector(size, real), device, grad) for _ in range(3))
        self._v_0, self._x_0 = (zeros(self._nodes, vector(size, real), device) for _ in range(2))
        self._W = zeros(len(members), six, device, grad)
        self._U, self.P = (zeros(self._pairs, six, device, grad) for _ in range(2))
        self._right, self._r, self._y, self._more, self.X = (
            zeros(self._slots, lines, device, grad) for _ in range(5)
        )
        self._blocks = zeros(len(products), square, device)
        self._y_0, self._X_0 = (zeros(self._slots, lines, device) for _ in range(2))
        self._u = zeros(len(members), vector(6, real), device, grad)
        self.wrench, self.told, self._swept = (zeros(some, spatial, device, grad) for _ in range(3))

        of_body = np.full(model.body_count, -1)
        of_body[members] = tree
        by_body = [np.zeros(model.body_count, int) for _ in range(2)]
        by_body[0][members], by_body[1][members] = column, place
        self.mechanism = mechanism_struct(real)(
            tree=integers(of_body), column=integers(by_body[0]), local=integers(by_body[1]), mobility=self.P
        )
        self._parts = []
        for batch in batches:
            here = sorted((j for j, (owner, _, _) in enumerate(own) if owner is batch), key=lambda j: own[j][1])
            if here:
                places = [integers(own[j][1] for j in here), integers(here), integers(first[j] for j in here)]
                self._parts.append(_Part(batch, *places))

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        solved = [self._right, self._r, self._y, self._more, self.X, self._blocks, self._y_0, self._X_0]
        made = [self._J, self._D, self._WD, self._alpha, self._b, self._W, self._U, self.P]
        straightened = [self._v_0, self._x_0, self._v, self._x, self._rest, self._u]
        return [*made, *solved, *straightened, self.wrench, self.told, self._swept]

    def begin(self) -> None:
        """Nothing has been pushed yet."""
        for pushed in (self.wrench, self.told, self._swept):
            pushed.zero_()

    def find(self, s: Substep, data: Callable[[ConstraintBatch, Substep], list[object]]) -> None:
        """P where things are; data: what kernels of constraints read first."""
        model, bodies = self.model, self.bodies
        for part in self._parts:
            c, made = part.batch.set.constraint, part.batch.set
            damped, begins = made.damping is not None, self._begins(part.batch)
            kernel = make_linearize(c, made.slots, model.dtype, False, damped, begins, self.size, 6)
            points, parameters, *rest = data(part.batch, s)
            inputs = [part.rows, part.nodes, part.touches, points, part.batch.placing, parameters, *rest]
            inputs += [s.reference, bodies.start, s.effective_dt, s.particle, bodies.dx, bodies.turn]
            rows = [self._J, self._D, self._WD, self._alpha, self._b]
            launch(kernel, part.rows.size, [*inputs, part.batch.multiplier], rows)
            if c.unilateral:
                inputs = [part.rows, part.nodes, self._first, part.batch.multiplier]
                launch(make_silence(model.dtype, self.size), part.rows.size, inputs, rows[:1] + rows[2:])
        self._solve()
        k = mobility_kernels(model.dtype, self.size)
        self._straighten(k.straighten, [bodies.start, model.body_inertia], list(bodies.moving), None)

    def find_at_velocities(
        self, rows: dict[str, Any], impulses: dict[str, array], body_qd: array, dt: float
    ) -> None:
        """P along the rows over velocities, of batches by name of their set."""
        for part in self._parts:
            made = part.batch.set
            kernel = make_lay(made.constraint, made.slots, self.model.dtype, self.size)
            inputs = [part.rows, part.nodes, part.touches, made.points, rows[made.name], part.batch.multiplier]
            inputs += [impulses[made.name], body_qd, dt]
            launch(kernel, part.rows.size, inputs, [self._J, self._WD, self._alpha, self._b])
        self._solve()
        k = mobility_kernels(self.model.dtype, self.size)
        self._straighten(k.straighten_velocity, [], [body_qd], impulses)

    def _straighten(
        self, move: Kernel, given: list[Any], moved: list[array], impulses: dict[str, array] | None
    ) -> None:
        """What is held comes to where it is held, or to the rates that it is to have: A x = b."""
        k, trees = mobility_kernels(self.model.dtype, self.size), tree_kernels(self.model.dtype, self.size, 6)
        factor = [self._trees, *self._columns, self._behind, *self._rows, self._ahead, self._blocks]
        with recording.paused():
            launch(trees.substitute, self._tree_count, [*factor, self._b], [self._v_0, self._x_0])
        inputs = [*self._touches, self._node_of_touch, self._WD]
        launch(k.drawn, self.count, [*inputs, self._x_0], [self._u])
        left = [self._first, self._at, self._J, self._alpha, self._b, self._x_0, self._u]
        launch(k.left, self._nodes, left, [self._rest])
        launch(trees.substitute, self._tree_count, [*factor, self._rest], [self._v, self._x])
        launch(move, self.count, [self._members, *inputs, self._u, self._x, *given], moved)
        for part in self._parts:
            kernel, to = self._accumulating(part, impulses)
            launch(kernel, part.rows.size, [part.rows, part.nodes, self._x_0, self._x], [to])

    def _accumulating(self, part: _Part, impulses: dict[str, array] | None) -> tuple[Kernel, array]:
        """To multipliers of the constraints of a batch, or to impulses."""
        made = part.batch.set
        to = part.batch.multiplier if impulses is None else impulses[made.name]
        return make_accumulate(made.constraint, self.model.dtype, False, made.damping is not None, self.size), to

    def _solve(self) -> None:
        k, trees = mobility_kernels(self.model.dtype, self.size), tree_kernels(self.model.dtype, self.size, 6)
        launch(k.weigh, self.count, [self._members, self.bodies.start, self.bodies.turn], [self._W])
        slots, pairs = [self._slot_node, self._slot_member], [self._pair_row, self._pair_column]
        launch(k.right, self._slots, [*slots, self._first, self._at, self._J, self._W], [self._right])
        with recording.paused():
            for assemble, count, given in self._assembling:
                launch(assemble, count, [*given, self._nodes, self._J, self._WD, self._alpha], [self._blocks])
            launch(k.firm, self._nodes, [], [self._blocks])
            inputs = [self._trees, *self._columns, *self._updates]
            launch(trees.factorise, self._tree_count, inputs, [self._blocks])
            self._substitute(self._right, self._y_0, self._X_0)
        columns = [self._base, self._begin, *self._touches, self._node_of_touch]
        launch(k.shift, self._pairs, [*pairs, *columns, self._W, self._WD, self._X_0], [self._U])
        inputs = [*slots, self._first, self._at, self._column, self._place, self._J, self._alpha, self._X_0, self._U]
        launch(k.residual, self._slots, inputs, [self._r])
        self._substitute(self._r, self._y, self._more)
        launch(k.improve, self._pairs, [*pairs, *columns, self._WD, self._U, self._more], [self.P])
        launch(k.add, self._slots, [self._X_0, self._more], [self.X])

    def _substitute(self, b: array, y: array, x: array) -> None:
        inputs = [self._tree, self._base, self._trees, *self._columns, self._behind, *self._rows, self._ahead]
        kernel = mobility_kernels(self.model.dtype, self.size).substitute
        launch(kernel, self.count, [*inputs, self._blocks, b], [y, x])

    def pass_on(self) -> None:
        """Bodies answer to what contacts have pushed since the last time."""
        k, bodies = mobility_kernels(self.model.dtype, self.size), self.bodies
        inputs = [*self._mechanism, self.P, self.wrench, self.told, bodies.start, self.model.body_inertia]
        launch(k.pass_on, self.count, inputs, list(bodies.moving))
        launch(k.clear, self.count, [self._members], [self.wrench, self.told, self._swept])

    def pass_velocity(self, body_qd: array) -> None:
        """The same of velocities."""
        k = mobility_kernels(self.model.dtype, self.size)
        launch(k.pass_velocity, self.count, [*self._mechanism, self.P, self.wrench, self.told], [body_qd])
        launch(k.clear, self.count, [self._members], [self.wrench, self.told, self._swept])

    @property
    def _mechanism(self) -> list[array]:
        return [self._members, self._tree, self._heads, self._column, self._place]

    def settle(self, impulses: dict[str, array] | None = None) -> None:
        """Constraints know what they have answered since the last time: their multipliers, or impulses by name."""
        for part in self._parts:
            made = part.batch.set
            active, to = active_rows(made.constraint, made.damping is not None), part.batch.multiplier
            if impulses is not None:
                active, to = HeldLayout(made.constraint, made.slots).active, impulses[made.name]
            kernel = make_settle(made.constraint, self.model.dtype, self.size, active)
            inputs = [part.rows, part.nodes, self._tree_of_node, self._trees, self._heads, self._members, self._base]
            launch(kernel, part.rows.size, [*inputs, self.X, self._swept], [to])
        self._swept.zero_()
