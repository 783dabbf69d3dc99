"""Kernels of the direct solve.

For the rows of all constraints of a tree, as `sim.constraints.slots` linearises them,

    A dlambda = b,  A = weight J W D^T + alpha

1. linearize: weight J, D, W D, alpha and b of each constraint, the first three by its movers (`touches`).
2. assemble, factorise: the blocks of A, and L U = A in place (U with the inverses of the blocks on its diagonal).
3. substitute: a first solution of it, dlambda_0.
4. push, shift: D^T dlambda_0 by touches, and W D^T dlambda_0 of each mover; pull, residual: J times that by
   touches, and r = b - A dlambda_0; and substitute again: dlambda = dlambda_0 + A^-1 r.
5. push, gather, move: x += W D^T dlambda.

What is done with matrices is done touch by touch, without a loop, so that eight touches are taken at a time.

A tape sees all but 2 and 3: what these give, the factor and dlambda_0, is constant to it.  Since r = 0 but for
rounding, the derivative of 4 is then that of the solution, d dlambda = A^-1 (db - dA dlambda_0): the adjoint of a
linear solve by the transposed factor, without a derivative of the factorisation (M. B. Giles, "An extended collection
of matrix derivative results", 2008, sec. 2.3.1).  In the forward direction it is a step of iterative refinement.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, value_type
from sim.constraints.slots.bodies import body_struct, in_world, slot_struct
from sim.constraints.slots.linearization import active_rows, linearization_of, row_functions
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.frontend.builtins import abs, static, tid, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.matrix import transpose
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@dataclass(frozen=True)
class TreeKernels:
    """Those for constraints of so many rows, on particles alone or on bodies too."""

    factorise: Kernel
    substitute: Kernel
    push: Kernel
    shift: Kernel
    pull: Kernel
    residual: Kernel
    gather: Kernel
    move: Kernel


@memoize
def make_linearize(
    c: Constraint, slots: Slots, real: Scalar, first: bool, damped: bool, start_direction: bool, size: int, width: int
) -> Kernel:
    """The rows of constraints rows[tid()], as constraints nodes[tid()] of a system with blocks of `size`, whose
    touches, of particles then of bodies, begin at touches[tid()].  `first` as for projections."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    SlotData, Bodies, Quat = slot_struct(c, slots, real), body_struct(real), quaternion(real)
    particle_type = particle_layout(real).type(real)
    m, n_particles, n_bodies = len(active_rows(c, damped)), len(slots.particles), len(slots.bodies)
    lines, column = matrix((size, width), real), vector(size, real)
    linearization = linearization_of(c, slots, real, damped, start_direction)
    _, response, _ = row_functions(slots)

    @kernel(name=f"linearize_{c.name}_{slots.kinds}")
    def linearize(
        rows: array[int],
        nodes: array[int],
        touches: array[int],
        points: array2d[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        damping: array[real],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[value],
        J_out: array[lines],
        D_out: array[lines],
        WD_out: array[lines],
        alpha_out: array[column],
        b_out: array[column],
    ):
        t = tid()
        k, node, touch = rows[t], nodes[t], touches[t]
        lam = value() if first else multiplier[k]
        G, D, (masses, inertias), terms = linearization(
            k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam
        )
        M = [response(D[i], masses, inertias) for i in static(range(m))]
        alpha, b = column(1.0), column()  # rows that are not there: 1 dlambda = 0
        for i in static(range(m)):
            alpha[i], b[i] = terms[i][1], terms[i][2]
        alpha_out[node], b_out[node] = alpha, b
        for p in static(range(n_particles)):
            J_p, D_p, WD_p = lines(), lines(), lines()
            for i in static(range(m)):
                for a in static(range(3)):
                    J_p[i, a], D_p[i, a], WD_p[i, a] = terms[i][0] * G[i][p][a], D[i][p][a], M[i][p][a]
            J_out[touch + p], D_out[touch + p], WD_out[touch + p] = J_p, D_p, WD_p
        for g in static(range(n_bodies)):
            J_b, D_b, WD_b = lines(), lines(), lines()
            force = static(n_particles + 2 * g)
            for i in static(range(m)):
                for a in static(range(3)):
                    J_b[i, a], J_b[i, 3 + a] = terms[i][0] * G[i][force][a], terms[i][0] * G[i][force + 1][a]
                    D_b[i, a], D_b[i, 3 + a] = D[i][force][a], D[i][force + 1][a]
                    WD_b[i, a], WD_b[i, 3 + a] = M[i][force][a], M[i][force + 1][a]
            at = touch + static(n_particles + g)
            J_out[at], D_out[at], WD_out[at] = J_b, D_b, WD_b

    linearize.race_free = True  # a constraint writes what is its own
    return linearize


@func
def inverse_of(a, out):
    """a^-1 by Gauss-Jordan elimination with pairwise pivoting, as `solve_pivoted`; out: the identity."""
    n = len(a)
    for i in static(range(n)):
        for j in static(range(i + 1, n)):
            swap = abs(a[j, i]) > abs(a[i, i])
            for k in static(range(n)):
                upper, lower = where(swap, a[j, k], a[i, k]), where(swap, a[i, k], a[j, k])
                a[i, k], a[j, k] = upper, lower
                upper, lower = where(swap, out[j, k], out[i, k]), where(swap, out[i, k], out[j, k])
                out[i, k], out[j, k] = upper, lower
            f = a[j, i] / a[i, i]
            for k in static(range(n)):
                a[j, k] = a[j, k] - f * a[i, k]
                out[j, k] = out[j, k] - f * out[i, k]
        f = 1.0 / a[i, i]
        for k in static(range(n)):
            a[i, k] = f * a[i, k]
            out[i, k] = f * out[i, k]
        for j in static(range(i)):
            f = a[j, i]
            for k in static(range(n)):
                a[j, k] = a[j, k] - f * a[i, k]
                out[j, k] = out[j, k] - f * out[i, k]
    return out


@memoize
def tree_kernels(real: Scalar, size: int, width: int) -> TreeKernels:
    """Kernels of systems with blocks of `size` rows, whose movers are particles (width 3) or bodies too (6)."""
    vec3, Quat, Bodies = vector(3, real), quaternion(real), body_struct(real)
    layout = particle_layout(real)
    particle_type, moved_by = layout.type(real), layout.moved_by
    lines, square, column = matrix((size, width), real), matrix((size, size), real), vector(size, real)
    wrench, with_bodies = vector(width, real), width == 6

    @func
    def force(f):
        return vec3(f[0], f[1], f[2])

    @func
    def moved(mover, f, w, bodies, turn):
        """W f, of a force and a torque on a mover: a particle, or behind the last of them a body."""
        out = wrench()
        if mover < len(w):
            for a in static(range(3)):
                out[a] = w[mover] * f[a]
        elif static(with_bodies):
            k = mover - len(w)
            turned = in_world(turn[k] * bodies.q[k], bodies.inv_inertia[k], vec3(f[3], f[4], f[5]))
            for a in static(range(3)):
                out[a], out[3 + a] = bodies.inv_mass[k] * f[a], turned[a]
        return out

    @kernel(name=f"factorise_{size}")
    def factorise(
        trees: array[int],
        columns: array[int],
        couplings: array[int],
        offsets: array[int],
        updates: array2d[int],
        blocks: array[square],
    ):
        t = tid()
        n = trees[len(trees) - 1]
        for j in range(trees[t], trees[t + 1]):
            one = square()
            for i in static(range(size)):
                one[i, i] = 1.0
            inverse = inverse_of(blocks[j], one)
            blocks[j] = inverse
            for q in range(columns[j], columns[j + 1]):
                blocks[n + couplings[q]] = blocks[n + couplings[q]] @ inverse
            for q in range(offsets[j], offsets[j + 1]):
                blocks[updates[q, 2]] -= blocks[updates[q, 0]] @ blocks[updates[q, 1]]

    @kernel(name=f"substitute_{size}")
    def substitute(
        trees: array[int],
        columns: array[int],
        column_couplings: array[int],
        behind: array[int],
        rows: array[int],
        row_couplings: array[int],
        ahead: array[int],
        blocks: array[square],
        b: array[column],
        y: array[column],
        x: array[column],
    ):
        t = tid()
        n, count = trees[len(trees) - 1], len(behind)
        begin, end = trees[t], trees[t + 1]
        for j in range(begin, end):  # L y = b
            total = b[j]
            for q in range(rows[j], rows[j + 1]):
                e = row_couplings[q]
                total -= blocks[n + e] @ y[ahead[e]]
            y[j] = total
        for back in range(begin, end):  # U x = y
            j = begin + end - 1 - back
            total = y[j]
            for q in range(columns[j], columns[j + 1]):
                e = column_couplings[q]
                total -= blocks[n + count + e] @ x[behind[e]]
            x[j] = blocks[j] @ total

    @kernel(name=f"push_{size}_{width}")
    def push(node: array[int], D: array[lines], dlam: array[column], pushed: array[wrench]):
        t = tid()
        pushed[t] = dlam[node[t]] @ D[t]

    @func
    def gathered(k, offsets, touches, pushed):
        f = wrench()
        for q in range(offsets[k], offsets[k + 1]):
            f += pushed[touches[q]]
        return f

    @kernel(name=f"shift_{size}_{width}")
    def shift(
        movers: array[int],
        offsets: array[int],
        touches: array[int],
        w: array[real],
        bodies: Bodies,
        turn: array[Quat],
        pushed: array[wrench],
        f: array[wrench],
        u: array[wrench],
    ):
        k = tid()
        f_k = gathered(k, offsets, touches, pushed)
        f[k], u[k] = f_k, moved(movers[k], f_k, w, bodies, turn)

    @kernel(name=f"pull_{size}_{width}")
    def pull(at: array[int], J: array[lines], u: array[wrench], pulled: array[column]):
        t = tid()
        if at[t] >= 0:
            pulled[t] = J[t] @ u[at[t]]
        else:
            pulled[t] = column()

    @kernel(name=f"residual_{size}")
    def residual(
        first: array[int],
        alpha: array[column],
        b: array[column],
        dlam: array[column],
        pulled: array[column],
        r: array[column],
    ):
        k = tid()
        total = b[k]
        for i in static(range(size)):
            total[i] = total[i] - alpha[k][i] * dlam[k][i]
        for t in range(first[k], first[k + 1]):
            total -= pulled[t]
        r[k] = total

    @kernel(name=f"gather_{width}")
    def gather(
        offsets: array[int], touches: array[int], before: array[wrench], pushed: array[wrench], f: array[wrench]
    ):
        k = tid()
        f[k] = before[k] + gathered(k, offsets, touches, pushed)

    @kernel(name=f"move_{width}")
    def move(
        movers: array[int],
        w: array[real],
        bodies: Bodies,
        f: array[wrench],
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
    ):
        k = tid()
        mover, f_k = movers[k], f[k]
        if mover < len(w):
            particle[mover] += moved_by(w[mover] * force(f_k))
        elif static(with_bodies):
            i = mover - len(w)
            tau = vec3(f_k[3], f_k[4], f_k[5])
            dx[i] += bodies.inv_mass[i] * force(f_k)
            turned = exponential(in_world(turn[i] * bodies.q[i], bodies.inv_inertia[i], tau))
            turn[i] = turned * turn[i]
            if bodies.inv_mass[i] > 0.0:
                impulse[i] += tau

    move.exclusive = frozenset(("particle", "dx", "turn", "impulse"))
    push.exclusive, pull.exclusive = frozenset(("D", "pushed")), frozenset(("J", "pulled"))
    made = TreeKernels(factorise, substitute, push, shift, pull, residual, gather, move)
    for made_kernel in vars(made).values():
        made_kernel.race_free = True  # a thread writes what is its own: of its tree, its constraint, its mover
    return made


@memoize
def make_assemble(real: Scalar, size: int, width: int, products: int) -> Kernel:
    """The blocks k = at[tid()] of A that are sums of so many products J W D^T, those k < nodes on its diagonal."""
    lines, square, column = matrix((size, width), real), matrix((size, size), real), vector(size, real)

    @kernel(name=f"assemble_{size}_{width}_{products}")
    def assemble(
        at: array[int],
        left: array2d[int],
        right: array2d[int],
        nodes: int,
        J: array[lines],
        WD: array[lines],
        alpha: array[column],
        blocks: array[square],
    ):
        t = tid()
        k = at[t]
        A = square()
        if k < nodes:
            for i in static(range(size)):
                A[i, i] = alpha[k][i]
        for q in static(range(products)):
            A += J[left[t, q]] @ transpose(WD[right[t, q]])
        blocks[k] = A

    assemble.race_free = True
    return assemble


@memoize
def make_accumulate(c: Constraint, real: Scalar, first: bool, damped: bool, size: int) -> Kernel:
    """multiplier += dlambda, of constraints rows[tid()], which are nodes[tid()] of a system."""
    value, column, active = value_type(c, real), vector(size, real), active_rows(c, damped)
    m, rows_of_c = len(active), c.rows

    @kernel(name=f"accumulate_{c.name}")
    def accumulate(
        rows: array[int], nodes: array[int], dlam_0: array[column], correction: array[column], multiplier: array[value]
    ):
        k, j = rows[tid()], nodes[tid()]
        lam, dlam = value() if first else multiplier[k], dlam_0[j] + correction[j]
        if rows_of_c == 1:
            lam += dlam[0]
        else:
            for i in static(range(m)):
                lam[active[i]] += dlam[i]
        multiplier[k] = lam

    accumulate.race_free = True
    return accumulate
