"""The rows of what is held in the matrices of mechanisms (`mobility`), and what of their answers is whose."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.impulses.held import HeldLayout, held_row_struct
from sim.constraints.projection import value_type
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_silence(real: Scalar, size: int) -> Kernel:
    """One-sided constraints rows[tid()] that do not push have no rows in a mechanism, those that do are `acting`."""
    lines, column = matrix((size, 6), real), vector(size, real)

    @kernel(name=f"silence_{size}")
    def silence(
        rows: array[int],
        nodes: array[int],
        first: array[int],
        multiplier: array[real],
        J: array[lines],
        WD: array[lines],
        alpha: array[column],
        b: array[column],
        acting: array[int],
    ):
        k, node = rows[tid()], nodes[tid()]
        acting[node] = 1
        if multiplier[k] <= 0.0:
            acting[node] = 0
            alpha[node], b[node] = column(1.0), column()
            for t in range(first[node], first[node + 1]):
                J[t], WD[t] = lines(), lines()

    silence.race_free = True
    return silence


@dataclass(frozen=True)
class GuestKernels:
    """Of limits of joints, one-sided rows that are the last one of the joint that holds the same bodies; of two limits
    of a joint one acts.

    attach: their row to that of their hosts; settle, accumulate: what it has answered is theirs
    """

    attach: Kernel
    settle: Kernel
    accumulate: Kernel


@memoize
def guest_kernels(real: Scalar, size: int) -> GuestKernels:
    """Kernels of mechanisms whose constraints have so many rows."""
    lines, column, spatial, last = matrix((size, 6), real), vector(size, real), vector(6, real), size - 1

    @kernel(name=f"attach_{size}")
    def attach(
        hosts: array[int],
        offsets: array[int],
        guests: array[int],
        first: array[int],
        guest_first: array[int],
        acting: array[int],
        J_in: array[lines],
        WD_in: array[lines],
        alpha_in: array[column],
        b_in: array[column],
        J: array[lines],
        WD: array[lines],
        alpha: array[column],
        b: array[column],
    ):
        h = tid()
        node = hosts[h]
        for q in range(offsets[h], offsets[h + 1]):
            g = guests[q]
            if acting[g] > 0:
                own_alpha, own_b = alpha[node], b[node]
                own_alpha[last], own_b[last] = alpha_in[g][0], b_in[g][0]
                alpha[node], b[node] = own_alpha, own_b
                for t in range(first[node], first[node + 1]):
                    at = guest_first[g] + t - first[node]
                    own_J, own_WD = J[t], WD[t]
                    for i in static(range(6)):
                        own_J[last, i], own_WD[last, i] = J_in[at][0, i], WD_in[at][0, i]
                    J[t], WD[t] = own_J, own_WD

    @kernel(name=f"settle_guest_{size}")
    def settle(
        rows: array[int],
        guests: array[int],
        nodes: array[int],
        acting: array[int],
        tree_of_node: array[int],
        trees: array[int],
        heads: array[int],
        pushed: array[int],
        members: array[int],
        base: array[int],
        X: array[lines],
        swept: array[spatial],
        multiplier: array[real],
    ):
        k, node = rows[tid()], nodes[tid()]
        if acting[guests[tid()]] > 0:
            t, lam = tree_of_node[node], multiplier[k]
            for other in range(heads[t], heads[t + 1]):
                answered = X[base[other] + node - trees[t]] @ swept[members[pushed[other]]]
                lam -= answered[last]
            multiplier[k] = lam

    @kernel(name=f"accumulate_guest_{size}")
    def accumulate(
        rows: array[int],
        guests: array[int],
        nodes: array[int],
        acting: array[int],
        dlam_0: array[column],
        correction: array[column],
        multiplier: array[real],
    ):
        k, node = rows[tid()], nodes[tid()]
        if acting[guests[tid()]] > 0:
            multiplier[k] += dlam_0[node][last] + correction[node][last]

    made = GuestKernels(attach, settle, accumulate)
    for one in vars(made).values():
        one.race_free = True  # a limit is its own, and the row of a joint is that of its limits
    return made


@memoize
def make_lay(c: Constraint, slots: Slots, real: Scalar, size: int) -> Kernel:
    """The rows of constraints rows[tid()] over velocities, those of `held_row_struct`, as constraints nodes[tid()] of a
    mechanism, whose touches begin at touches[tid()].  One-sided ones push in all of the step, or have none.  b: how
    far velocities are from the rates that are wanted."""
    Rows, value, own = held_row_struct(real), value_type(c, real), HeldLayout(c, slots)
    lines, column, spatial = matrix((size, 6), real), vector(size, real), vector(6, real)
    m, q, n_bodies, one_sided = len(own.active), own.movers, len(slots.bodies), c.unilateral
    owners, active, single = tuple(bodies[0] for bodies in slots.bodies), own.active, c.rows == 1

    @func
    def pushes(multiplier, impulse, dt):
        if static(one_sided):
            return multiplier / dt + impulse > 0.0
        return True

    @kernel(name=f"lay_{c.name}_{slots.kinds}")
    def lay(
        rows: array[int],
        nodes: array[int],
        touches: array[int],
        points: array2d[int],
        held: Rows,
        multiplier: array[value],
        impulse: array[value],
        body_qd: array[spatial],
        dt: real,
        J_out: array[lines],
        WD_out: array[lines],
        alpha_out: array[column],
        b_out: array[column],
        acting: array[int],
    ):
        t = tid()
        k, node, touch = rows[t], nodes[t], touches[t]
        acts = pushes(multiplier[k], impulse[k], dt)
        if static(one_sided):
            acting[node] = 1 if acts else 0
        alpha, b, p = column(1.0), column(), impulse[k]  # rows that are not there: 1 dlambda = 0
        if acts:
            for i in static(range(m)):
                alpha[i] = held.numbers[k, m * m + m + i]
                b[i] = held.numbers[k, m * m + i] - alpha[i] * (p if single else p[active[i]])
        for g in static(range(n_bodies)):
            J, WD = lines(), lines()
            if acts:
                qd = body_qd[points[k, owners[g]]]
                for i in static(range(m)):
                    G, T = held.vectors[k, i * q + 2 * g], held.vectors[k, i * q + 2 * g + 1]
                    b[i] -= dot(G, spatial_top(qd)) + dot(T, spatial_bottom(qd))
                    for part in static(range(2)):
                        G, M = held.vectors[k, i * q + 2 * g + part], held.vectors[k, (m + i) * q + 2 * g + part]
                        for a in static(range(3)):
                            J[i, 3 * part + a], WD[i, 3 * part + a] = G[a], M[a]
            J_out[touch + g], WD_out[touch + g] = J, WD
        alpha_out[node], b_out[node] = alpha, b

    lay.race_free = True
    return lay


@memoize
def make_settle(c: Constraint, real: Scalar, size: int, active: tuple[int, ...]) -> Kernel:
    """multiplier -= X f, of constraints rows[tid()], which are nodes[tid()]: what they have answered to contacts."""
    value, spatial, lines = value_type(c, real), vector(6, real), matrix((size, 6), real)
    single = c.rows == 1

    @kernel(name=f"settle_{c.name}_{size}")
    def settle(
        rows: array[int],
        nodes: array[int],
        tree_of_node: array[int],
        trees: array[int],
        heads: array[int],
        pushed: array[int],
        members: array[int],
        base: array[int],
        X: array[lines],
        swept: array[spatial],
        multiplier: array[value],
    ):
        k, node = rows[tid()], nodes[tid()]
        t = tree_of_node[node]
        lam = multiplier[k]
        for other in range(heads[t], heads[t + 1]):
            answered = X[base[other] + node - trees[t]] @ swept[members[pushed[other]]]
            if static(single):
                lam -= answered[0]
            else:
                for i in static(range(len(active))):
                    lam[active[i]] -= answered[i]
        multiplier[k] = lam

    settle.race_free = True
    return settle
