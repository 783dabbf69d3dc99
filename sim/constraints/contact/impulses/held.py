"""Rigid constraints while impulses of contacts act on velocities: their rows keep the rates dC/dt that they had.

An impact is an impulse, and what is rigid answers it at once: with G of contacts and constraints together

    v+ - v- = W G^T p          dC/dt+ = -e dC/dt- of what hits, dC/dt+ = dC/dt- of what is held

(E. J. Routh, "Dynamics of a System of Rigid Bodies", part 1, 1905, sections 168 to 181).  The rates are kept, not set
to zero: velocities are those of the middle of a step, and a row that turns has a rate at its end.  A compliance alpha
lets go of alpha / h^2 of a unit impulse, as in a step: what is soft is rigid to nothing, as h goes to 0.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of, row_functions, rows_of, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import logarithm
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, Struct, array_type, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_pushed(slots: Slots, real: Scalar) -> Kernel:
    """Which mechanisms constraints `tid()` push, and which of them with an impact, `share` > 0: 1, for those of their
    particles, and of bodies, -1 of none."""
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)

    @func
    def mark(m, share, pushed, hit):
        if m >= 0:
            pushed[m] = 1
            if share > 0.0:
                hit[m] = 1

    @kernel(name=f"pushed_{slots.kinds}")
    def push(
        points: array2d[int],
        multiplier: array[real],
        share: array[real],
        of_particle: array[int],
        of_body: array[int],
        pushed: array[int],
        hit: array[int],
    ):
        k = tid()
        if multiplier[k] > 0.0:
            for j in static(particles):
                mark(of_particle[points[k, j]], share[k], pushed, hit)
            for j in static(owners):
                mark(of_body[points[k, j]], share[k], pushed, hit)

    push.race_free = True  # all of them write the same
    return push


@memoize
def held_row_struct(real: Scalar) -> Struct:
    """Of each constraint: vectors (n, 2 m q), numbers (n, m m + 2 m), for m elastic rows and q translations and spins.

    vectors: the gradients G of the rows, then what a unit impulse of each moves, W D^T; numbers: (G W D^T)^-1 with
    the compliance in it, the rates that are wanted, and alpha / h^2.
    """
    kinds = {"vectors": array_type(vector(3, real), 2), "numbers": array_type(real, 2)}
    return Struct("held_rows", kinds)


@dataclass(frozen=True)
class HeldLayout:
    """How many vectors and numbers the rows of a constraint take."""

    c: Constraint
    slots: Slots

    @property
    def active(self) -> tuple[int, ...]:
        """The rows that hold something."""
        return tuple(r for r in range(self.c.rows) if self.c.elastic[r])

    @property
    def movers(self) -> int:
        """Translations of particles and bodies, and spins."""
        return len(self.slots.particles) + 2 * len(self.slots.bodies)

    @property
    def shape(self) -> tuple[int, int]:
        """Of one constraint."""
        m = len(self.active)
        return 2 * m * self.movers, m * m + 2 * m


@memoize
def held_rows_of(c: Constraint, slots: Slots, real: Scalar) -> tuple[Function, Function]:
    """Functions in a kernel: `rows_there(k, x, poses, placing, data)`, C of the first row, and the gradients of those
    that hold something; and `store(k, rows, G, D, masses, inertias, compliance, wanted, dt)`, which writes the rows G
    along D, with the rates that are wanted."""
    own, rows_at, (_, response, product) = HeldLayout(c, slots), rows_of(c, slots, real), row_functions(slots)
    active, q, m, single = own.active, own.movers, len(own.active), c.rows == 1
    square, column = matrix((m, m), real), vector(m, real)

    @func
    def rows_there(k, x, poses, placing, data):
        C, every = rows_at(x, poses, fields_at(placing, k), fields_at(data, k))
        return C[0], [every[active[i]] for i in static(range(m))]

    @func
    def store(k, rows, G, D, masses, inertias, compliance, wanted, dt):
        M = [response(D[i], masses, inertias) for i in static(range(m))]
        A = square()
        for i in static(range(m)):
            for j in static(range(q)):
                rows.vectors[k, i * q + j] = G[i][j]
                rows.vectors[k, (m + i) * q + j] = M[i][j]
            for j in static(range(m)):
                A[i, j] = product(G[i], M[j])
            alpha = (compliance if single else compliance[active[i]]) / (dt * dt)
            A[i, i] += alpha
            rows.numbers[k, m * m + i] = wanted if single else wanted[active[i]]
            rows.numbers[k, m * m + m + i] = alpha
        moves = sum(masses) > 0.0
        if m == 1:
            moves = A[0, 0] > 0.0
        for j in static(range(m)):
            inverse = column()
            if moves:
                if m == 1:
                    inverse[0] = 1.0 / A[0, 0]
                else:
                    unit = column()
                    unit[j] = 1.0
                    inverse = solve(A, unit)
            for i in static(range(m)):
                rows.numbers[k, i * m + j] = inverse[i]

    return rows_there, store


@memoize
def come_of(slots: Slots, real: Scalar) -> Function:
    """`come(p_k, of_p, x_ref, moved, turns)` in a kernel: how far movers have come in the step."""
    n_particles, n_bodies, displacement = len(slots.particles), len(slots.bodies), particle_layout(real).displacement

    @func
    def come(p_k, of_p, x_ref, moved, turns):
        return [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))] + [
            moved[i // 2] if i % 2 == 0 else logarithm(turns[i // 2]) for i in static(range(2 * n_bodies))
        ]

    return come


@dataclass(frozen=True)
class HeldKernels:
    """Of constraints:

    foresee: their rows where a step would end without contacts, with which `gains` are kept from them, and C of
             limits as it began
    rates:   dC/dt of these rows as the step ends, before impulses
    hold:    from `start` on, one sweep over velocities, or `gains`, that gives rows the rates that they had, by
             impulses, [N s] or [N m s], of each so far
    """

    foresee: Kernel
    rates: Kernel
    hold: Kernel


@memoize
def make_velocity_kernels(c: Constraint, slots: Slots, real: Scalar) -> HeldKernels:
    """See `HeldKernels`."""
    vec3, spatial, quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies, value, Rows = (
        parameter_struct(c, real),
        slot_struct(c, slots, real),
        body_struct(real),
        value_type(c, real),
        held_row_struct(real),
    )
    layout, own = particle_layout(real), HeldLayout(c, slots)
    particle_type, position = layout.type(real), layout.position
    active, q, n_particles, n_bodies = own.active, own.movers, len(slots.particles), len(slots.bodies)
    m, single, one_sided = len(active), c.rows == 1, c.unilateral  # what is one-sided has one row
    column, come = vector(m, real), come_of(slots, real)
    (rows_there, store), movers, masses_at = held_rows_of(c, slots, real), movers_of(slots), masses_of(slots)
    velocities, (_, _, product) = velocities_of(slots), row_functions(slots)
    owners = tuple(bodies[0] for bodies in slots.bodies)

    @kernel(name=f"foresee_{c.name}_{slots.kinds}")
    def foresee(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        w: array[real],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[quat],
        x_ref: array[vec3],
        gained: array[value],
        rows: Rows,
        begun: array[real],
    ):
        k = tid()
        p_k, b_k, of_p, _, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
        C, G = rows_there(k, [position(of_p[p]) for p in static(range(n_particles))], poses, placing, data)
        if static(one_sided):
            begun[k] = C - product(G[0], come(p_k, of_p, x_ref, moved, turns))
        masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
        store(k, rows, G, G, masses, inertias, compliance[k], value(), dt)
        gained[k] = value()

    @func
    def rates_of(k, rows, velocity):
        return [product([rows.vectors[k, i * q + j] for j in static(range(q))], velocity) for i in static(range(m))]

    @kernel(name=f"rates_{c.name}_{slots.kinds}")
    def rates(
        points: array2d[int],
        rows: Rows,
        v: array[vec3],
        body_qd: array[spatial],
        rate: array[value],
        impulse: array[value],
    ):
        k = tid()
        p_k, b_k = [points[k, j] for j in static(slots.particles)], [points[k, j] for j in static(owners)]
        rates, found = rates_of(k, rows, velocities(p_k, b_k, v, body_qd)), value()
        if single:
            found = rates[0]
        else:
            for i in static(range(m)):
                found[active[i]] = rates[i]
        rate[k], impulse[k] = found, value()

    @func
    def pushes(multiplier):
        """Has it pushed in the step?  What is one-sided and open answers nothing."""
        if static(one_sided):
            return multiplier > 0.0
        return True

    @kernel(name=f"hold_{c.name}_{slots.kinds}")
    def hold(
        start: int,
        points: array2d[int],
        mechanism: array[int],
        pushed: array[int],
        rows: Rows,
        multiplier: array[value],
        earlier: real,
        v: array[vec3],
        body_qd: array[spatial],
        impulse: array[value],
    ):
        k = start + tid()
        if pushed[mechanism[k]] > 0 and pushes(multiplier[k]):
            p_k, b_k = [points[k, j] for j in static(slots.particles)], [points[k, j] for j in static(owners)]
            velocity, p, b, dp = velocities(p_k, b_k, v, body_qd), impulse[k], column(), column()
            rates = rates_of(k, rows, velocity)
            for i in static(range(m)):
                b[i] = rows.numbers[k, m * m + i] - rates[i]
                b[i] -= rows.numbers[k, m * m + m + i] * (p if single else p[active[i]])
            for i in static(range(m)):
                for j in static(range(m)):
                    dp[i] += rows.numbers[k, i * m + j] * b[j]
            if static(one_sided):  # never pulls, in all of the step
                dp[0] = max(dp[0], -earlier * multiplier[k] - p)
            for i in static(range(n_particles)):
                v[p_k[i]] += sum([dp[r] * rows.vectors[k, (m + r) * q + i] for r in static(range(m))])
            for g in static(range(n_bodies)):
                at = n_particles + 2 * g
                d = sum([dp[r] * rows.vectors[k, (m + r) * q + at] for r in static(range(m))])
                t = sum([dp[r] * rows.vectors[k, (m + r) * q + at + 1] for r in static(range(m))])
                body_qd[b_k[g]] += spatial(d[0], d[1], d[2], t[0], t[1], t[2])
            if single:
                p += dp[0]
            else:
                for i in static(range(m)):
                    p[active[i]] += dp[i]
            impulse[k] = p

    for made in (foresee, rates, hold):
        made.race_free = True  # the constraints of a launch share what is held only, which does not move
    return HeldKernels(foresee, rates, hold)
