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
from sim.constraints.contact.impact import LATEST, resting_speed
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, in_world, slot_struct
from sim.constraints.slots.linearization import masses_of, movers_of, row_functions, rows_of, velocities_of
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import sqrt, static, tid
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_inverse
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

SMALL = 1e-3
"""Changes of velocities up to this part of them may be those of sweeps and of rounding."""


@memoize
def make_gains(real: Scalar) -> tuple[Kernel, Kernel]:
    """What forces add to the velocities of particles, and of bodies, in the step so far."""
    vec3, spatial, quat, Bodies = vector(3, real), vector(6, real), quaternion(real), body_struct(real)
    layout = particle_layout(real)

    @kernel
    def gains(particle: array[layout.type(real)], x_ref: array[vec3], v: array[vec3], dt: real, out: array[vec3]):
        i = tid()
        out[i] = layout.displacement(particle[i], x_ref[i]) / dt - v[i]

    @kernel
    def body_gains(
        bodies: Bodies,
        momentum: array[vec3],
        body_qd: array[spatial],
        dt: real,
        dx: array[vec3],
        turn: array[quat],
        turning: array[vec3],
        out: array[spatial],
    ):
        i = tid()
        v, omega = dx[i] / dt, spin_of(i, turn[i], bodies, momentum, turning, dt)
        out[i] = spatial(v[0], v[1], v[2], omega[0], omega[1], omega[2]) - body_qd[i]

    return gains, body_gains


@func
def spin_of(b, turn, bodies, momentum, impulse, dt):
    """The angular velocity of a body in the step so far, as it ends the step with."""
    omega = logarithm(turn) / dt
    if bodies.inv_mass[b] > 0.0:
        omega = in_world(turn * bodies.q[b], bodies.inv_inertia[b], momentum[b] + impulse[b] / dt)
    return omega


@memoize
def make_velocity_kernels(c: Constraint, slots: Slots, real: Scalar, predicted: bool) -> tuple[Kernel, Kernel, Kernel]:
    """Of constraints, all or from `start` on:

    rates: dC/dt of their elastic rows in the step so far
    keep:  one sweep that takes it from velocities, or what a step adds to them
    hold:  one sweep over velocities after impacts at s, which gives it back to them

    both by impulses, [N s] or [N m s], of each row so far.  predicted: they act along the rows that the step would have
    ended with, without contacts, or else along those that it has ended with.

    Where velocities have changed by Dv, and what moves by (1 - s) h Dv, s is known.  The rows at s have no rate then.
    """
    vec3, spatial, quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies, value = (
        parameter_struct(c, real),
        slot_struct(c, slots, real),
        body_struct(real),
        value_type(c, real),
    )
    layout, active = particle_layout(real), tuple(r for r in range(c.rows) if c.elastic[r])
    particle_type, position, displacement = layout.type(real), layout.position, layout.displacement
    m, single, n_particles, n_bodies = len(active), c.rows == 1, len(slots.particles), len(slots.bodies)
    square, column = matrix((m, m), real), vector(m, real)
    rows_at, movers, masses_at = rows_of(c, slots, real), movers_of(slots), masses_of(slots)
    velocities, (_, response, product) = velocities_of(slots), row_functions(slots)

    @func
    def rows_there(k, x, poses, placing, data):
        _, every = rows_at(x, poses, fields_at(placing, k), fields_at(data, k))
        return [every[active[i]] for i in static(range(m))]

    @func
    def answer(G, D, masses, inertias, velocity, wanted, p, compliance, dt):
        """Impulses that give rows G rates, along D; and what a unit impulse of each moves."""
        M = [response(D[i], masses, inertias) for i in static(range(m))]
        A, b, dp = square(), column(), column()
        for i in static(range(m)):
            for j in static(range(m)):
                A[i, j] = product(G[i], M[j])
            alpha = (compliance if single else compliance[active[i]]) / (dt * dt)
            A[i, i] += alpha
            b[i] = (wanted if single else wanted[active[i]]) - product(G[i], velocity)
            b[i] -= alpha * (p if single else p[active[i]])
        if m == 1:
            if A[0, 0] > 0.0:
                dp[0] = b[0] / A[0, 0]
        elif sum(masses) > 0.0:
            dp = solve(A, b)
        return dp, M

    @func
    def push(k, p_k, b_k, dp, M, v, body_qd, impulse):
        for i in static(range(n_particles)):
            v[p_k[i]] += sum([dp[r] * M[r][i] for r in static(range(m))])
        for g in static(range(n_bodies)):
            d = sum([dp[r] * M[r][n_particles + 2 * g] for r in static(range(m))])
            t = sum([dp[r] * M[r][n_particles + 2 * g + 1] for r in static(range(m))])
            body_qd[b_k[g]] += spatial(d[0], d[1], d[2], t[0], t[1], t[2])
        p = impulse[k]
        if single:
            p += dp[0]
        else:
            for i in static(range(m)):
                p[active[i]] += dp[i]
        impulse[k] = p

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
        p_k, b_k, of_p, _, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        G = rows_there(k, [position(of_p[p]) for p in static(range(n_particles))], poses, placing, data)
        velocity = [displacement(of_p[p], x_ref[p_k[p]]) / dt for p in static(range(n_particles))] + [
            dx[b_k[i // 2]] / dt
            if i % 2 == 0
            else spin_of(b_k[i // 2], turn[b_k[i // 2]], bodies, momentum, turning, dt)
            for i in static(range(2 * n_bodies))
        ]
        found = value()
        if single:
            found = product(G[0], velocity)
        else:
            for i in static(range(m)):
                found[active[i]] = product(G[i], velocity)
        rate[k], impulse[k] = found, value()

    @kernel(name=f"keep_{c.name}_{slots.kinds}")
    def keep(
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
        v: array[vec3],
        body_qd: array[spatial],
        impulse: array[value],
    ):
        k = start + tid()
        p_k, b_k, of_p, _, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        G = rows_there(k, [position(of_p[p]) for p in static(range(n_particles))], poses, placing, data)
        masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
        velocity = velocities(p_k, b_k, v, body_qd)
        dp, M = answer(G, G, masses, inertias, velocity, value(), impulse[k], compliance[k], dt)
        push(k, p_k, b_k, dp, M, v, body_qd, impulse)

    @func
    def weighed(mass, way, change):
        """Of one mover: way and change along each other, and the square of the change, times its mass."""
        along, square = 0.0 * mass, 0.0 * mass
        if mass > 0.0:
            along, square = dot(way, change) / mass, dot(change, change) / mass
        return along, square

    @func
    def since_impact(ways, changes, come, masses, inertias, gravity, dt):
        """(1 - s), and how much of an impact there was, 0 ... 1: what changes velocities by less than gravity does, or
        by a thousandth, is none."""
        along, square, light, moving = 0.0 * dt, 0.0 * dt, 0.0 * dt, 0.0 * dt
        for i in static(range(n_particles + n_bodies)):
            light += masses[i]
        for i in static(range(n_particles + 2 * n_bodies)):
            mass = masses[i] if i < n_particles else masses[n_particles + (i - n_particles) // 2]
            if i >= n_particles and (i - n_particles) % 2 == 1:
                own = inertias[(i - n_particles) // 2]
                mass = (own[0, 0] + own[1, 1] + own[2, 2]) / 3.0
            one, two = weighed(mass, ways[i], changes[i])
            _, three = weighed(mass, ways[i], come[i])
            along, square, moving = along + one, square + two, moving + three
        resting, left, share = resting_speed(gravity, dt), 0.0 * dt, 0.0 * dt
        if moving > 0.0:
            resting += SMALL * sqrt(moving * light) / dt
        if square * light > resting * resting:
            speed = sqrt(square * light)
            left = min(max(along / (square * dt), 0.0 * dt), 1.0 + LATEST)
            share = 1.0 + 0.0 * dt
            if speed < 2.0 * resting:
                share = (speed - resting) / resting
        return left, share

    @kernel(name=f"hold_{c.name}_{slots.kinds}")
    def hold(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        gravity: array[vec3],
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[quat],
        particle_p: array[particle_type],
        dx_p: array[vec3],
        turn_p: array[quat],
        rate: array[value],
        v: array[vec3],
        body_qd: array[spatial],
        impulse: array[value],
    ):
        k = start + tid()
        p_k, b_k, of_p, begun, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
        _, _, then_p, _, moved_p, turns_p, poses_p = movers(k, points, bodies, particle_p, dx_p, turn_p)
        x = [position(of_p[p]) for p in static(range(n_particles))]
        x_p = [position(then_p[p]) for p in static(range(n_particles))]
        masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
        velocity = velocities(p_k, b_k, v, body_qd)
        come = [displacement(then_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))] + [
            moved_p[i // 2] if i % 2 == 0 else logarithm(turns_p[i // 2]) for i in static(range(2 * n_bodies))
        ]
        ways = [x[p] - x_p[p] for p in static(range(n_particles))] + [
            moved[i // 2] - moved_p[i // 2] if i % 2 == 0 else logarithm(turns[i // 2] * quat_inverse(turns_p[i // 2]))
            for i in static(range(2 * n_bodies))
        ]
        changes = [velocity[i] - come[i] / dt for i in static(range(n_particles + 2 * n_bodies))]
        left, share = since_impact(ways, changes, come, masses, inertias, gravity[0], dt)
        back = share * left
        G = rows_there(
            k,
            [x_p[p] - back * come[p] for p in static(range(n_particles))],
            [
                (
                    poses_p[g][0] - back * moved_p[g],
                    exponential((1.0 - back) * come[n_particles + 2 * g + 1]) * begun[g][1],
                )
                for g in static(range(n_bodies))
            ],
            placing,
            data,
        )
        D = rows_there(k, x_p if predicted else x, poses_p if predicted else poses, placing, data)
        wanted = (1.0 - share) * rate[k]
        dp, M = answer(G, D, masses, inertias, velocity, wanted, impulse[k], compliance[k], dt)
        push(k, p_k, b_k, dp, M, v, body_qd, impulse)

    for made in (rates, keep, hold):
        made.race_free = True  # the constraints of a launch share what is held only, which does not move
    return rates, keep, hold
