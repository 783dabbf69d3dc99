"""Rigid constraints while impulses of contacts act on velocities: their rows keep the rates dC/dt that they had.

An impact is an impulse, and what is rigid answers it at once: with G of contacts and constraints together

    v+ - v- = W G^T p          dC/dt+ = -e dC/dt- of what hits, dC/dt+ = dC/dt- of what is held

(E. J. Routh, "Dynamics of a System of Rigid Bodies", part 1, 1905, sections 168 to 181).  The rates are kept, not set
to zero: velocities are those of the middle of a step, and a row that turns has a rate at its end.  A compliance alpha
lets go of alpha / h^2 of a unit impulse, as in a step: what is soft is rigid to nothing, as h goes to 0.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, in_world, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of, row_functions, rows_of, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import logarithm
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_velocity_kernels(c: Constraint, slots: Slots, real: Scalar) -> tuple[Kernel, Kernel]:
    """Of constraints: dC/dt of their elastic rows in the step so far, `rate`; and one sweep that gives it back to those
    from `start` on, by impulses on the velocities; impulse: [N s] or [N m s], of each row so far.

    particle, dx, turn: where the rows are taken, see `make_slot_projection`; turning: torques times time so far.
    """
    vec3, spatial, quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies, value = (
        parameter_struct(c, real),
        slot_struct(c, slots, real),
        body_struct(real),
        value_type(c, real),
    )
    layout, active = particle_layout(real), tuple(r for r in range(c.rows) if c.elastic[r])
    particle_type, position = layout.type(real), layout.position
    m, single, n_particles, n_bodies = len(active), c.rows == 1, len(slots.particles), len(slots.bodies)
    square, column = matrix((m, m), real), vector(m, real)
    rows_at, movers, masses_at = rows_of(c, slots, real), movers_of(slots), masses_of(slots)
    velocities, (_, response, product) = velocities_of(slots), row_functions(slots)

    @func
    def rows_now(k, points, placing, data, bodies, particle, dx, turn):
        p_k, b_k, of_p, _, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        x = [position(of_p[p]) for p in static(range(n_particles))]
        _, every = rows_at(x, poses, fields_at(placing, k), fields_at(data, k))
        return p_k, b_k, poses, [every[active[i]] for i in static(range(m))]

    @func
    def spin(b, turn, bodies, momentum, impulse, dt):
        omega = logarithm(turn) / dt
        if bodies.inv_mass[b] > 0.0:
            omega = in_world(turn * bodies.q[b], bodies.inv_inertia[b], momentum[b] + impulse[b] / dt)
        return omega

    @kernel(name=f"rates_{c.name}_{slots.kinds}")
    def rates(
        points: array2d[int],
        placing: SlotData,
        data: Data,
        x_ref: array[vec3],
        bodies: Bodies,
        momentum: array[vec3],
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[quat],
        turning: array[vec3],
        rate: array[value],
        impulse: array[value],
    ):
        k = tid()
        p_k, b_k, _, G = rows_now(k, points, placing, data, bodies, particle, dx, turn)
        velocity = [layout.displacement(particle[p_k[p]], x_ref[p_k[p]]) / dt for p in static(range(n_particles))] + [
            dx[b_k[i // 2]] / dt if i % 2 == 0 else spin(b_k[i // 2], turn[b_k[i // 2]], bodies, momentum, turning, dt)
            for i in static(range(2 * n_bodies))
        ]
        found = value()
        if single:
            found = product(G[0], velocity)
        else:
            for i in static(range(m)):
                found[active[i]] = product(G[i], velocity)
        rate[k], impulse[k] = found, value()

    @kernel(name=f"hold_{c.name}_{slots.kinds}")
    def hold(
        start: int,
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
        rate: array[value],
        v: array[vec3],
        body_qd: array[spatial],
        impulse: array[value],
    ):
        k = start + tid()
        p_k, b_k, poses, G = rows_now(k, points, placing, data, bodies, particle, dx, turn)
        masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
        velocity, p, kept = velocities(p_k, b_k, v, body_qd), impulse[k], rate[k]
        M = [response(G[i], masses, inertias) for i in static(range(m))]
        A, b, dp = square(), column(), column()
        for i in static(range(m)):
            for j in static(range(m)):
                A[i, j] = product(G[i], M[j])
            alpha = (compliance[k] if single else compliance[k][active[i]]) / (dt * dt)
            A[i, i] += alpha
            b[i] = (kept if single else kept[active[i]]) - product(G[i], velocity)
            b[i] -= alpha * (p if single else p[active[i]])
        if m == 1:
            if A[0, 0] > 0.0:
                dp[0] = b[0] / A[0, 0]
        elif sum(masses) > 0.0:
            dp = solve(A, b)
        for i in static(range(n_particles)):
            v[p_k[i]] += sum([dp[r] * M[r][i] for r in static(range(m))])
        for g in static(range(n_bodies)):
            d = sum([dp[r] * M[r][n_particles + 2 * g] for r in static(range(m))])
            t = sum([dp[r] * M[r][n_particles + 2 * g + 1] for r in static(range(m))])
            body_qd[b_k[g]] += spatial(d[0], d[1], d[2], t[0], t[1], t[2])
        if single:
            p += dp[0]
        else:
            for i in static(range(m)):
                p[active[i]] += dp[i]
        impulse[k] = p

    rates.race_free = hold.race_free = True  # the constraints of a launch share what is held only, which does not move
    return rates, hold
