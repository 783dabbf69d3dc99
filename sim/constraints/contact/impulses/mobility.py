"""How a mechanism moves where a force acts on one of its bodies: contacts see it as one, whatever its ratios of masses.

With the rows G of what is held, the directions D along which their multipliers push, and their compliances alpha, a
wrench f on bodies moves all of them, in the same step, by

    P f = W (f - D^T X f)          X = A^-1 G W          A = G W D^T + alpha

(the inverse of the operational space inertia: O. Khatib, "A Unified Approach for Motion and Force Control of Robot
Manipulators", IEEE J. Robotics Automation 3(1), 1987; of articulated bodies: R. Featherstone, "Rigid Body Dynamics
Algorithms", 2008, chapter 7).  P is kept in blocks of 6 x 6, for each body of a mechanism and each that contacts may
push, X in as many columns for each of its constraints and those.  A contact takes the blocks of its own bodies for
their masses, and moves these; `pass_on` moves the others.

A tape takes the factor of A and a first X_0 for constants: see `sim.solvers.direct.kernels`.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.slots.bodies import body_struct, in_world, matrix_in_world
from sim.constraints.slots.rotations import exponential
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float32, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import Kernel, kernel

GIVES = 1e-5
"""What is held to the world in a direction still gives way by this part of what it would alone, to what pushes it along
that: else nothing could be said of a contact with the world there, whose friction is across a hinge for instance."""


@dataclass(frozen=True)
class MobilityKernels:
    """In the order in which they are launched; a column is a body that contacts may push, a slot a constraint and a
    column of one mechanism, a pair a body and a column.

    weigh:       W of bodies (6, 6)
    firm:        the diagonal of A a little larger, so that rows that follow from each other have a solution
    right:       G W of slots
    substitute:  A^-1 of that, of columns
    shift:       W (1 - D^T X) of pairs
    residual:    G W - A X of slots
    improve:     shift with what the residual adds to X, of pairs; add: that X, of slots
    pass_on:     moves bodies of mechanisms by what contacts have done to others; pass_velocity: their velocities
    clear:       what was passed on counts as `swept`
    drawn:       W D^T x of bodies, of multipliers x; left: b - A x of constraints
    straighten:  moves bodies by that, and by more multipliers; straighten_velocity: their velocities
    """

    weigh: Kernel
    firm: Kernel
    right: Kernel
    substitute: Kernel
    shift: Kernel
    residual: Kernel
    improve: Kernel
    add: Kernel
    pass_on: Kernel
    pass_velocity: Kernel
    clear: Kernel
    drawn: Kernel
    left: Kernel
    straighten: Kernel
    straighten_velocity: Kernel


@memoize
def mobility_kernels(real: Scalar, size: int) -> MobilityKernels:
    """Kernels of mechanisms whose constraints have so many rows."""
    lines, square, column = matrix((size, 6), real), matrix((size, size), real), vector(size, real)
    six, spatial, vec3, mat33 = matrix((6, 6), real), vector(6, real), vector(3, real), matrix((3, 3), real)
    Bodies, Quat = body_struct(real), quaternion(real)
    firmer = 1e-5 if real is float32 else 1e-10

    @kernel
    def weigh(members: array[int], bodies: Bodies, turn: array[Quat], W: array[six]):
        k = tid()
        b, out = members[k], six()
        inertia = matrix_in_world(turn[b] * bodies.q[b], bodies.inv_inertia[b])
        for i in static(range(3)):
            out[i, i] = bodies.inv_mass[b]
            for j in static(range(3)):
                out[3 + i, 3 + j] = inertia[i, j]
        W[k] = out

    @kernel(name=f"firm_{size}")
    def firm(blocks: array[square]):
        k = tid()
        own = blocks[k]
        for i in static(range(size)):
            own[i, i] = own[i, i] * static(1.0 + firmer)
        blocks[k] = own

    @kernel(name=f"right_{size}")
    def right(
        slot_node: array[int],
        slot_column: array[int],
        pushed: array[int],
        first: array[int],
        at: array[int],
        J: array[lines],
        W: array[six],
        out: array[lines],
    ):
        s = tid()
        node, member, total = slot_node[s], pushed[slot_column[s]], lines()
        for t in range(first[node], first[node + 1]):
            if at[t] == member:
                total += J[t] @ W[member]
        out[s] = total

    @kernel(name=f"substitute_columns_{size}")
    def substitute(
        tree: array[int],
        base: array[int],
        trees: array[int],
        columns: array[int],
        column_couplings: array[int],
        behind: array[int],
        rows: array[int],
        row_couplings: array[int],
        ahead: array[int],
        blocks: array[square],
        b: array[lines],
        y: array[lines],
        x: array[lines],
    ):
        k = tid()
        n, count = trees[len(trees) - 1], len(behind)
        begin, end = trees[tree[k]], trees[tree[k] + 1]
        shift = base[k] - begin
        for j in range(begin, end):  # L y = b
            total = b[shift + j]
            for q in range(rows[j], rows[j + 1]):
                e = row_couplings[q]
                total -= blocks[n + e] @ y[shift + ahead[e]]
            y[shift + j] = total
        for back in range(begin, end):  # U x = y
            j = begin + end - 1 - back
            total = y[shift + j]
            for q in range(columns[j], columns[j + 1]):
                e = column_couplings[q]
                total -= blocks[n + count + e] @ x[shift + behind[e]]
            x[shift + j] = blocks[j] @ total

    @func
    def pulled(shift, member, offsets, touches, node, WD, X):
        """W D^T X of one member of a mechanism."""
        total = six()
        for q in range(offsets[member], offsets[member + 1]):
            t = touches[q]
            total += transpose(WD[t]) @ X[shift + node[t]]
        return total

    @kernel(name=f"shift_columns_{size}")
    def shift(
        pair_row: array[int],
        pair_column: array[int],
        pushed: array[int],
        base: array[int],
        begin: array[int],
        offsets: array[int],
        touches: array[int],
        node: array[int],
        W: array[six],
        WD: array[lines],
        X: array[lines],
        U: array[six],
    ):
        q = tid()
        row, col = pair_row[q], pair_column[q]
        total = -pulled(base[col] - begin[col], row, offsets, touches, node, WD, X)
        if row == pushed[col]:
            total += W[row]
        U[q] = total

    @kernel(name=f"residual_columns_{size}")
    def residual(
        slot_node: array[int],
        slot_column: array[int],
        first: array[int],
        at: array[int],
        column_of: array[int],
        place: array[int],
        J: array[lines],
        alpha: array[column],
        X: array[lines],
        U: array[six],
        r: array[lines],
    ):
        s = tid()
        node, own, total = slot_node[s], alpha[slot_node[s]], lines()
        for i in static(range(size)):
            for a in static(range(6)):
                total[i, a] = -own[i] * X[s][i, a]
        for t in range(first[node], first[node + 1]):
            if at[t] >= 0:
                total += J[t] @ U[column_of[slot_column[s]] + place[at[t]]]
        r[s] = total

    @kernel(name=f"improve_columns_{size}")
    def improve(
        pair_row: array[int],
        pair_column: array[int],
        pushed: array[int],
        base: array[int],
        begin: array[int],
        offsets: array[int],
        touches: array[int],
        node: array[int],
        W: array[six],
        WD: array[lines],
        U: array[six],
        X: array[lines],
        P: array[six],
    ):
        q = tid()
        col = pair_column[q]
        found = U[q] - pulled(base[col] - begin[col], pair_row[q], offsets, touches, node, WD, X)
        if pair_row[q] == pushed[col]:
            found += static(GIVES) * W[pair_row[q]]
        P[q] = found

    @kernel(name=f"add_columns_{size}")
    def add(X: array[lines], more: array[lines], out: array[lines]):
        s = tid()
        out[s] = X[s] + more[s]

    @func
    def caused(k, tree, heads, pushed, members, column_of, place, P, f):
        """How all that was pushed of its mechanism moves a member."""
        total = spatial()
        for other in range(heads[tree[k]], heads[tree[k] + 1]):
            own = f[members[pushed[other]]]
            if dot(own, own) > 0.0:
                total += P[column_of[other] + place[k]] @ own
        return total

    @kernel
    def pass_on(
        members: array[int],
        tree: array[int],
        heads: array[int],
        pushed: array[int],
        column_of: array[int],
        place: array[int],
        P: array[six],
        wrench: array[spatial],
        told: array[spatial],
        bodies: Bodies,
        inertia: array[mat33],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
    ):
        k = tid()
        b = members[k]
        total = caused(k, tree, heads, pushed, members, column_of, place, P, wrench)
        left = total - told[b]
        torque = in_world(turn[b] * bodies.q[b], inertia[b], vec3(total[3], total[4], total[5]))
        dx[b] += vec3(left[0], left[1], left[2])
        turn[b] = exponential(vec3(left[3], left[4], left[5])) * turn[b]
        impulse[b] += torque - vec3(wrench[b][3], wrench[b][4], wrench[b][5])

    @kernel
    def pass_velocity(
        members: array[int],
        tree: array[int],
        heads: array[int],
        pushed: array[int],
        column_of: array[int],
        place: array[int],
        P: array[six],
        wrench: array[spatial],
        told: array[spatial],
        body_qd: array[spatial],
    ):
        k = tid()
        b = members[k]
        body_qd[b] += caused(k, tree, heads, pushed, members, column_of, place, P, wrench) - told[b]

    @kernel
    def clear(members: array[int], wrench: array[spatial], told: array[spatial], swept: array[spatial]):
        b = members[tid()]
        swept[b] += wrench[b]
        wrench[b], told[b] = spatial(), spatial()

    @func
    def along(k, offsets, touches, node, WD, x):
        total = spatial()
        for q in range(offsets[k], offsets[k + 1]):
            t = touches[q]
            total += transpose(WD[t]) @ x[node[t]]
        return total

    @kernel(name=f"drawn_{size}")
    def drawn(
        offsets: array[int],
        touches: array[int],
        node: array[int],
        WD: array[lines],
        x: array[column],
        u: array[spatial],
    ):
        k = tid()
        u[k] = along(k, offsets, touches, node, WD, x)

    @kernel(name=f"left_{size}")
    def left(
        first: array[int],
        at: array[int],
        J: array[lines],
        alpha: array[column],
        b: array[column],
        x: array[column],
        u: array[spatial],
        r: array[column],
    ):
        k = tid()
        total = b[k]
        for i in static(range(size)):
            total[i] = total[i] - alpha[k][i] * x[k][i]
        for t in range(first[k], first[k + 1]):
            if at[t] >= 0:
                total -= J[t] @ u[at[t]]
        r[k] = total

    @kernel(name=f"straighten_{size}")
    def straighten(
        members: array[int],
        offsets: array[int],
        touches: array[int],
        node: array[int],
        WD: array[lines],
        u: array[spatial],
        more: array[column],
        bodies: Bodies,
        inertia: array[mat33],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
    ):
        k = tid()
        b, total = members[k], u[k] + along(k, offsets, touches, node, WD, more)
        turned = vec3(total[3], total[4], total[5])
        dx[b] += vec3(total[0], total[1], total[2])
        impulse[b] += in_world(turn[b] * bodies.q[b], inertia[b], turned)
        turn[b] = exponential(turned) * turn[b]

    @kernel(name=f"straighten_velocity_{size}")
    def straighten_velocity(
        members: array[int],
        offsets: array[int],
        touches: array[int],
        node: array[int],
        WD: array[lines],
        u: array[spatial],
        more: array[column],
        body_qd: array[spatial],
    ):
        k = tid()
        body_qd[members[k]] += u[k] + along(k, offsets, touches, node, WD, more)

    made = MobilityKernels(
        weigh, firm, right, substitute, shift, residual, improve, add, pass_on, pass_velocity, clear,
        drawn, left, straighten, straighten_velocity,
    )  # fmt: skip
    for one in vars(made).values():
        one.race_free = True  # a thread writes what is its own: of its slot, its pair, its member
    return made
