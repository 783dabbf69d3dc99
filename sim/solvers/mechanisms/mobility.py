"""The mechanisms of a model as contacts see them: see `sim.constraints.contact.impulses.mobility`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.constraints.contact.forms import mechanism_struct
from sim.constraints.contact.impulses.held import HeldLayout
from sim.constraints.contact.impulses.mechanism_rows import guest_kernels, make_lay, make_settle, make_silence
from sim.constraints.contact.impulses.mobility import mobility_kernels
from sim.constraints.slots.linearization import active_rows
from sim.core.lang.types import Scalar, int32, matrix, vector
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
from sim.solvers.direct.structure import Lists, lists
from sim.solvers.mechanisms.structure import Held, Mechanisms, first_of
from sim.solvers.touching import SeenMechanisms


class MechanismRows:
    """What kernels write of some constraints: J, D and W D^T by touches, alpha and b; `first`, where the touches of
    each begin; and which of the one-sided ones are `acting`."""

    def __init__(self, held: Sequence[Held], first: array, size: int, model: Model) -> None:
        real, device, grad = model.dtype, model.device, model.requires_grad
        touches, n, self.first = int(first_of(held)[-1]), len(held), first
        self.J, self.D, self.WD = (zeros(touches, matrix((size, 6), real), device, grad) for _ in range(3))
        self.alpha, self.b = (zeros(n, vector(size, real), device, grad) for _ in range(2))
        self.acting = zeros(n, int32, device)

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        return [self.J, self.D, self.WD, self.alpha, self.b, self.acting]


@dataclass(eq=False)
class _HeldPart:
    """Constraints of one batch.  rows: where they are in it; nodes, touches: in `to`; hosts: the nodes whose guests
    they are, None where they are nodes themselves."""

    batch: ConstraintBatch
    rows: array
    nodes: array
    touches: array
    to: MechanismRows
    hosts: array | None = None


class Mobility:
    """Of mechanisms of bodies; batches: all that is held, see `seen_as_mechanisms`."""

    def __init__(
        self,
        model: Model,
        bodies: BodyStep,
        batches: Sequence[ConstraintBatch],
        contacts: Sequence[ConstraintBatch],
        begins: Callable[[ConstraintBatch], bool],
    ) -> None:
        self.model, self.bodies, self._begins = model, bodies, begins
        device, real, grad = model.device, model.dtype, model.requires_grad
        m = Mechanisms(model, batches, contacts)
        f, size = m.factorisation, m.size
        self._size, self._nodes, self._tree_count, self.count = size, len(m.nodes), len(f.trees) - 1, len(m.members)

        def integers(values: Iterable[object]) -> array:
            host = np.array(values if isinstance(values, np.ndarray) else list(values), np.int32)
            return array(host if host.size else np.zeros((1, *host.shape[1:]), np.int32), dtype=int32, device=device)

        def of_lists(made: Lists) -> list[array]:
            return [integers(made[0]), integers(made[1])]

        # Slots and pairs stand column by column: of each body that contacts push, all constraints, and all bodies, of
        # its mechanism.
        owner = m.tree[m.pushed]
        sizes, nodes = np.diff(m.heads)[owner], np.diff(f.trees)[owner]
        column, base = np.cumsum(sizes) - sizes, np.cumsum(nodes) - nodes
        begin, self._column_count = f.trees[owner].astype(int), len(owner)
        self._pairs, self._slots = int(sizes.sum()), int(nodes.sum())
        self._members, self._tree, self._place = map(integers, (m.members, m.tree, m.place))
        self._pushers = integers(np.searchsorted(owner, np.arange(len(f.trees))))
        self._pushed, self._owner = integers(m.pushed), integers(owner)
        self._column, self._base, self._begin = map(integers, (column, base, begin))
        of_pair, of_slot = (np.repeat(np.arange(len(owner)), count) for count in (sizes, nodes))
        row = np.arange(self._pairs) - column[of_pair] + m.heads[owner[of_pair]]
        node = np.arange(self._slots) - base[of_slot] + begin[of_slot]
        self._of_pairs, self._of_slots = [integers(row), integers(of_pair)], [integers(node), integers(of_slot)]
        self._at, self._node_of_touch = integers(k for _, k in m.touches), integers(j for j, _ in m.touches)
        self._tree_of_node, self._touches = integers(m.tree_of_node), of_lists(lists(m.of_member))

        # The products J W D^T of which each block of A is the sum, and the factorisation.
        products = m.products()
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

        # What a step writes before it reads it; the factor and X_0 are constant to a tape.
        lines, six, col = matrix((size, 6), real), matrix((6, 6), real), vector(size, real)
        spatial, some = vector(6, real), model.body_count
        self.rows = MechanismRows(m.nodes, integers(m.first), size, model)
        self._v, self._x, self._rest = (zeros(self._nodes, col, device, grad) for _ in range(3))
        self._v_0, self._x_0 = (zeros(self._nodes, col, device) for _ in range(2))
        self._W, self._u = zeros(self.count, six, device, grad), zeros(self.count, spatial, device, grad)
        self._U, self.P = (zeros(self._pairs, six, device, grad) for _ in range(2))
        self._right, self._r, self._y, self._more, self.X = (zeros(self._slots, lines, device, grad) for _ in range(5))
        self._blocks = zeros(len(products), matrix((size, size), real), device)
        self._y_0, self._X_0 = (zeros(self._slots, lines, device) for _ in range(2))
        self.wrench, self.told, self._swept = (zeros(some, spatial, device, grad) for _ in range(3))

        by_body = [np.full(model.body_count, -1), *(np.zeros(model.body_count, int) for _ in range(2))]
        by_body[0][m.members], by_body[2][m.members] = m.tree, m.place
        by_body[1][np.array(m.members, int)[m.pushed]] = column
        tree, start, local = map(integers, by_body)
        mechanism = mechanism_struct(real)(tree=tree, column=start, local=local, mobility=self.P)
        self.seen = SeenMechanisms(mechanism, self.wrench, self.told)

        self._guests = MechanismRows(m.guests, integers(first_of(m.guests)), size, model)
        self._hosts, (of_host, guests) = (
            sorted(set(m.hosts)),
            lists([[g for g, host in enumerate(m.hosts) if host == h] for h in sorted(set(m.hosts))]),
        )
        self._attaching = [integers(self._hosts), integers(of_host), integers(guests)]
        self._parts = []
        for of, to, first in ((m.nodes, self.rows, m.first), (m.guests, self._guests, first_of(m.guests))):
            for batch in batches:
                here = sorted((j for j, held in enumerate(of) if held.batch is batch), key=lambda j: of[j].row)
                if here:
                    hosts = integers(m.hosts[j] for j in here) if of is m.guests else None
                    rows, touches = integers(of[j].row for j in here), integers(first[j] for j in here)
                    self._parts.append(_HeldPart(batch, rows, integers(here), touches, to, hosts))

    @property
    def scratch(self) -> list[array]:
        """Arrays that every step writes before it reads them."""
        solved = [self._right, self._r, self._y, self._more, self.X, self._blocks, self._y_0, self._X_0]
        straightened = [self._v_0, self._x_0, self._v, self._x, self._rest, self._u]
        pushed = [self.wrench, self.told, self._swept]
        rows = [*self.rows.scratch, *self._guests.scratch]
        return [*rows, self._W, self._U, self.P, *solved, *straightened, *pushed]

    @property
    def _real(self) -> Scalar:
        return self.model.dtype

    def begin(self) -> None:
        """Nothing has been pushed yet."""
        for pushed in (self.wrench, self.told, self._swept):
            pushed.zero_()

    def find(self, s: Substep, data: Callable[[ConstraintBatch, Substep], list[object]]) -> None:
        """P where things are, and what is held comes to where it is held; data: what kernels of constraints read
        first."""
        bodies, real = self.bodies, self._real
        for part in self._parts:
            made, to = part.batch.set, part.to
            damped, begins = made.damping is not None, self._begins(part.batch)
            kernel = make_linearize(made.constraint, made.slots, real, False, damped, begins, self._size, 6)
            points, parameters, *rest = data(part.batch, s)
            inputs = [part.rows, part.nodes, part.touches, points, part.batch.placing, parameters, *rest]
            inputs += [s.reference, bodies.start, s.effective_dt, s.particle, bodies.dx, bodies.turn]
            outputs = [to.J, to.D, to.WD, to.alpha, to.b]
            launch(kernel, part.rows.size, [*inputs, part.batch.multiplier], outputs)
            if made.constraint.unilateral:
                inputs = [part.rows, part.nodes, to.first, part.batch.multiplier]
                outputs = [to.J, to.WD, to.alpha, to.b, to.acting]
                launch(make_silence(real, self._size), part.rows.size, inputs, outputs)
        self._solve()
        k = mobility_kernels(real, self._size)
        self._straighten(k.straighten, [bodies.start, self.model.body_inertia], list(bodies.moving), None)

    def find_at_velocities(self, rows: dict[str, Any], impulses: dict[str, array], body_qd: array, dt: float) -> None:
        """The same along the rows over velocities, of batches by name of their set, which come to the rates that are
        wanted."""
        for part in self._parts:
            made, to = part.batch.set, part.to
            kernel = make_lay(made.constraint, made.slots, self._real, self._size)
            inputs = [part.rows, part.nodes, part.touches, made.points, rows[made.name], part.batch.multiplier]
            inputs += [impulses[made.name], body_qd, dt]
            launch(kernel, part.rows.size, inputs, [to.J, to.WD, to.alpha, to.b, to.acting])
        self._solve()
        self._straighten(mobility_kernels(self._real, self._size).straighten_velocity, [], [body_qd], impulses)

    def _straighten(
        self, move: Kernel, given: list[Any], moved: list[array], impulses: dict[str, array] | None
    ) -> None:
        """A x = b."""
        k, trees, rows = mobility_kernels(self._real, self._size), tree_kernels(self._real, self._size, 6), self.rows
        factor = [self._trees, *self._columns, self._behind, *self._rows, self._ahead, self._blocks]
        with recording.paused():
            launch(trees.substitute, self._tree_count, [*factor, rows.b], [self._v_0, self._x_0])
        inputs = [*self._touches, self._node_of_touch, rows.WD]
        launch(k.drawn, self.count, [*inputs, self._x_0], [self._u])
        left = [rows.first, self._at, rows.J, rows.alpha, rows.b, self._x_0, self._u]
        launch(k.left, self._nodes, left, [self._rest])
        launch(trees.substitute, self._tree_count, [*factor, self._rest], [self._v, self._x])
        launch(move, self.count, [self._members, *inputs, self._u, self._x, *given], moved)
        for part in self._parts:
            made, to = part.batch.set, self._to(part, impulses)
            if part.hosts is None:
                active = self._active(part, impulses)
                kernel = make_accumulate(made.constraint, self._real, False, active, self._size)
                launch(kernel, part.rows.size, [part.rows, part.nodes, self._x_0, self._x], [to])
            else:
                kernel = guest_kernels(self._real, self._size).accumulate
                inputs = [part.rows, part.nodes, part.hosts, self._guests.acting, self._x_0, self._x]
                launch(kernel, part.rows.size, inputs, [to])

    @staticmethod
    def _to(part: _HeldPart, impulses: dict[str, array] | None) -> array:
        """Multipliers of constraints, or impulses by the name of their set."""
        return part.batch.multiplier if impulses is None else impulses[part.batch.set.name]

    @staticmethod
    def _active(part: _HeldPart, impulses: dict[str, array] | None) -> tuple[int, ...]:
        """The rows of a constraint that act on positions, or on velocities."""
        made = part.batch.set
        if impulses is None:
            return active_rows(made.constraint, made.damping is not None)
        return HeldLayout(made.constraint, made.slots).active

    def _solve(self) -> None:
        k, trees, rows = mobility_kernels(self._real, self._size), tree_kernels(self._real, self._size, 6), self.rows
        if self._hosts:
            g = self._guests
            inputs = [*self._attaching, rows.first, g.first, g.acting, g.J, g.WD, g.alpha, g.b]
            outputs = [rows.J, rows.WD, rows.alpha, rows.b]
            launch(guest_kernels(self._real, self._size).attach, len(self._hosts), inputs, outputs)
        launch(k.weigh, self.count, [self._members, self.bodies.start, self.bodies.turn], [self._W])
        slots, pairs = self._of_slots, self._of_pairs
        inputs = [*slots, self._pushed, rows.first, self._at, rows.J, self._W]
        launch(k.right, self._slots, inputs, [self._right])
        with recording.paused():
            for assemble, count, given in self._assembling:
                launch(assemble, count, [*given, self._nodes, rows.J, rows.WD, rows.alpha], [self._blocks])
            launch(k.firm, self._nodes, [], [self._blocks])
            inputs = [self._trees, *self._columns, *self._updates]
            launch(trees.factorise, self._tree_count, inputs, [self._blocks])
            self._substitute(self._right, self._y_0, self._X_0)
        columns = [self._base, self._begin, *self._touches, self._node_of_touch]
        launch(k.shift, self._pairs, [*pairs, self._pushed, *columns, self._W, rows.WD, self._X_0], [self._U])
        inputs = [*slots, rows.first, self._at, self._column, self._place, rows.J, rows.alpha, self._X_0, self._U]
        launch(k.residual, self._slots, inputs, [self._r])
        self._substitute(self._r, self._y, self._more)
        launch(
            k.improve, self._pairs, [*pairs, self._pushed, *columns, self._W, rows.WD, self._U, self._more], [self.P]
        )
        launch(k.add, self._slots, [self._X_0, self._more], [self.X])

    def _substitute(self, b: array, y: array, x: array) -> None:
        inputs = [self._owner, self._base, self._trees, *self._columns, self._behind, *self._rows, self._ahead]
        kernel = mobility_kernels(self._real, self._size).substitute
        launch(kernel, self._column_count, [*inputs, self._blocks, b], [y, x])

    def pass_on(self) -> None:
        """Bodies answer to what contacts have pushed since the last time."""
        k, bodies = mobility_kernels(self._real, self._size), self.bodies
        inputs = [*self._mechanism, self.P, self.wrench, self.told, bodies.start, self.model.body_inertia]
        launch(k.pass_on, self.count, inputs, list(bodies.moving))
        launch(k.clear, self.count, [self._members], [self.wrench, self.told, self._swept])

    def pass_velocity(self, body_qd: array) -> None:
        """The same of velocities."""
        k = mobility_kernels(self._real, self._size)
        launch(k.pass_velocity, self.count, [*self._mechanism, self.P, self.wrench, self.told], [body_qd])
        launch(k.clear, self.count, [self._members], [self.wrench, self.told, self._swept])

    @property
    def _mechanism(self) -> list[array]:
        return [self._members, self._tree, self._pushers, self._pushed, self._column, self._place]

    def settle(self, impulses: dict[str, array] | None = None) -> None:
        """Constraints know what they have answered since the last time: their multipliers, or impulses by name."""
        answered = [self._tree_of_node, self._trees, self._pushers, self._pushed, self._members, self._base]
        for part in self._parts:
            if part.hosts is None:
                active, c = self._active(part, impulses), part.batch.set.constraint
                kernel, inputs = make_settle(c, self._real, self._size, active), [part.rows, part.nodes]
            else:
                kernel = guest_kernels(self._real, self._size).settle
                inputs = [part.rows, part.nodes, part.hosts, self._guests.acting]
            to = self._to(part, impulses)
            launch(kernel, part.rows.size, [*inputs, *answered, self.X, self._swept], [to])
        self._swept.zero_()
