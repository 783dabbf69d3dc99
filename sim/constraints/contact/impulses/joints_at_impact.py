"""The rows of rigid constraints at the time s of an impact, which they answer there.

An impact is an event at one place.  With rows at another one, as far off as things come in a step, velocities are off
by as much, by the phase of the step, and derivatives by when it was by a part that no shorter step takes away.  So with
x* where the step would end without contacts, rows are those at x* - (1 - s) (x* - x), where

    J v+ = 0        of the velocities there: what turns has the angular momentum that it has as the step ends

and impulses act along them.  Those of the sweeps over positions acted along others, at the start of the step or its
end, and are turned.  Joints turn what they hold on its way from s to the end of the step, too: along W J^T, which the
next step's positions take out.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.base import Constraint
from sim.constraints.contact.impacts.shares import resting_speed
from sim.constraints.contact.impacts.time_of_impact import LATEST
from sim.constraints.contact.impulses.held import HeldLayout, come_of, held_row_struct, held_rows_of
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, matrix_in_world, slot_struct
from sim.constraints.slots.linearization import (
    elastic_share,
    masses_of,
    movers_of,
    pushes_along_of,
    row_functions,
    velocities_of,
)
from sim.constraints.slots.pattern import WORLD, Slots
from sim.constraints.slots.rotations import exponential, logarithm
from sim.core.lang.frontend.builtins import max, min, sqrt, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_inverse
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

SMALL = 1e-3
"""Changes of velocities up to this part of those against each other may be those of sweeps and of rounding."""


@memoize
def since_impact_of(slots: Slots) -> Function:
    """`since_impact(ways, changes, come, masses, inertias, gravity, dt)` in a kernel: (1 - s), and how much of an
    impact there was, 0 ... 1, by how velocities have changed, by Dv, as what moves does so by (1 - s) h Dv: what
    changes them by less than gravity does, or by a thousandth, is none."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)
    q, fixed = n_particles + 2 * n_bodies, WORLD in slots.kinds
    moved_at = [*range(n_particles), *(n_particles + 2 * g for g in range(n_bodies))]

    @func
    def together(come, masses):
        """How far all come as one: as what is held does, or else as their centre of mass; the world does not."""
        way, held, heavy = 0.0 * come[0], 0.0 * masses[0], 0.0 * masses[0]
        for i in static(range(n_particles + n_bodies)):
            if masses[i] == 0.0:
                way, held = way + come[static(moved_at[i])], held + 1.0
        if held > 0.0:
            return way / held
        for i in static(range(n_particles + n_bodies)):
            way, heavy = way + come[static(moved_at[i])] / masses[i], heavy + 1.0 / masses[i]
        return way / heavy

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
        common = 0.0 * come[0] if fixed else together(come, masses)
        for i in static(range(q)):
            mass = masses[i] if i < n_particles else masses[n_particles + (i - n_particles) // 2]
            if i >= n_particles and (i - n_particles) % 2 == 1:
                inertia = inertias[(i - n_particles) // 2]
                mass = (inertia[0, 0] + inertia[1, 1] + inertia[2, 2]) / 3.0
            one, two = weighed(mass, ways[i], changes[i])
            own = come[i]
            if static(i in moved_at):  # on what moves at a constant speed all is as at rest
                own -= common
            _, three = weighed(mass, ways[i], own)
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

    return since_impact


@memoize
def places_of(slots: Slots) -> Function:
    """`places(left, x, poses, begun, moved, come)` in a kernel: where particles and bodies were when so much of a step
    was left that ends at x and poses."""
    n_particles, n_bodies = len(slots.particles), len(slots.bodies)

    @func
    def places(left, x, poses, begun, moved, come):
        return [x[p] - left * come[p] for p in static(range(n_particles))], [
            (
                poses[g][0] - left * moved[g],
                exponential((1.0 - left) * come[n_particles + 2 * g + 1]) * begun[g][1],
            )
            for g in static(range(n_bodies))
        ]

    return places


@memoize
def of_momentum_of(slots: Slots) -> Function:
    """`of_momentum(row, masses, inertias, turned)` in a kernel: a row over velocities that bodies have where their
    inverse inertias are `inertias`, as its rate is where these are `turned`: they keep their angular momentum."""
    n_particles = len(slots.particles)
    q = n_particles + 2 * len(slots.bodies)

    @func
    def spin(row, mass, inverse, turned):
        if mass > 0.0:
            row = solve(inverse, turned @ row)
        return row

    @func
    def of_momentum(row, masses, inertias, turned):
        return [
            spin(
                row[i],
                masses[n_particles + (i - n_particles) // 2],
                inertias[(i - n_particles) // 2],
                turned[(i - n_particles) // 2],
            )
            if i >= n_particles and (i - n_particles) % 2 == 1
            else row[i]
            for i in static(range(q))
        ]

    return of_momentum


@dataclass(frozen=True)
class ImpactKernels:
    """Of constraints, in mechanisms that were hit, of which `since` says when:

    meet:    their rows there; and of those where a limit alone was reached, by how that has changed velocities so far
    realign: from `start` on, what impulses on positions have given to velocities, along these rows
    """

    meet: Kernel
    realign: Kernel


@memoize
def make_impact_kernels(c: Constraint, slots: Slots, real: Scalar, begins: bool) -> ImpactKernels:
    """begins: impulses on positions act along rows at the start of a step, or else along those at its end."""
    vec3, vec5, spatial, quat = vector(3, real), vector(5, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies, value, Rows = (
        parameter_struct(c, real),
        slot_struct(c, slots, real),
        body_struct(real),
        value_type(c, real),
        held_row_struct(real),
    )
    layout, active = particle_layout(real), HeldLayout(c, slots).active
    particle_type, position = layout.type(real), layout.position
    n_particles, n_bodies, m, single = len(slots.particles), len(slots.bodies), len(active), c.rows == 1
    q = n_particles + 2 * n_bodies
    (rows_there, store), movers, masses_at = held_rows_of(c, slots, real), movers_of(slots), masses_of(slots)
    velocities, (_, response, product), come_at = velocities_of(slots), row_functions(slots), come_of(slots, real)
    since_impact, places, of_momentum = since_impact_of(slots), places_of(slots), of_momentum_of(slots)
    pushes_along = pushes_along_of(c, slots, active)

    @kernel(name=f"meet_{c.name}_{slots.kinds}")
    def meet(
        points: array2d[int],
        mechanism: array[int],
        pushed: array[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        gravity: array[vec3],
        dt: real,
        since: array[vec5],
        again: bool,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[quat],
        particle_p: array[particle_type],
        dx_p: array[vec3],
        turn_p: array[quat],
        v_p: array[vec3],
        body_qd_p: array[spatial],
        rate: array[value],
        v: array[vec3],
        body_qd: array[spatial],
        rows: Rows,
    ):
        k = tid()
        found = since[mechanism[k]]
        known = found[1] > 0.0
        if pushed[mechanism[k]] > 0 and not (known and again):
            p_k, b_k, of_p, begun, moved, turns, poses = movers(k, points, bodies, particle, dx, turn)
            _, _, then_p, _, moved_p, turns_p, poses_p = movers(k, points, bodies, particle_p, dx_p, turn_p)
            x = [position(of_p[p]) for p in static(range(n_particles))]
            x_p = [position(then_p[p]) for p in static(range(n_particles))]
            masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
            come, left, share = come_at(p_k, then_p, x_ref, moved_p, turns_p), found[2], found[1]
            if not known:
                velocity, before = velocities(p_k, b_k, v, body_qd), velocities(p_k, b_k, v_p, body_qd_p)
                ways = [x[p] - x_p[p] for p in static(range(n_particles))] + [
                    moved[i // 2] - moved_p[i // 2]
                    if i % 2 == 0
                    else logarithm(turns[i // 2] * quat_inverse(turns_p[i // 2]))
                    for i in static(range(2 * n_bodies))
                ]
                changes = [velocity[i] - before[i] for i in static(range(q))]
                left, share = since_impact(ways, changes, come, masses, inertias, gravity[0], dt)
                left *= share
            at, there = places(left, x_p, poses_p, begun, moved_p, come)
            _, G = rows_there(k, at, there, placing, data)
            _, D = rows_there(k, x_p if begins else x, poses_p if begins else poses, placing, data)
            if known:
                D = G
                turned = [matrix_in_world(there[g][1], bodies.inv_inertia[b_k[g]]) for g in static(range(n_bodies))]
                G = [of_momentum(D[i], masses, inertias, turned) for i in static(range(m))]
            wanted = (1.0 - share) * rate[k]
            if static(c.unilateral):  # what has come to a rigid stop is at rest there
                wanted *= elastic_share(compliance[k] / (dt * dt), product(G[0], response(D[0], masses, inertias)))
            store(k, rows, G, D, masses, inertias, compliance[k], wanted, dt)

    @kernel(name=f"realign_{c.name}_{slots.kinds}")
    def realign(
        start: int,
        points: array2d[int],
        mechanism: array[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        since: array[vec5],
        multiplier: array[value],
        foreseen: array[value],
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[quat],
        particle_p: array[particle_type],
        dx_p: array[vec3],
        turn_p: array[quat],
        v: array[vec3],
        body_qd: array[spatial],
    ):
        k = start + tid()
        found = since[mechanism[k]]
        if found[1] > 0.0:
            p_k, b_k, of_p, begun, _, _, poses = movers(k, points, bodies, particle, dx, turn)
            _, _, then_p, _, moved_p, turns_p, poses_p = movers(k, points, bodies, particle_p, dx_p, turn_p)
            masses, inertias = masses_at(p_k, b_k, poses, w, bodies)
            x_p = [position(then_p[p]) for p in static(range(n_particles))]
            come = come_at(p_k, then_p, x_ref, moved_p, turns_p)
            at, there = places(found[2], x_p, poses_p, begun, moved_p, come)
            _, G = rows_there(k, at, there, placing, data)
            _, D = rows_there(k, [position(of_p[p]) for p in static(range(n_particles))], poses, placing, data)
            if static(begins):
                _, G_0 = rows_there(k, [x_ref[p_k[p]] for p in static(range(n_particles))], begun, placing, data)
                alpha = [(compliance[k] if single else compliance[k][active[i]]) / (dt * dt) for i in static(range(m))]
                D = pushes_along(G_0, D, alpha, masses, inertias)
            lam = multiplier[k] - foreseen[k]
            p = [(lam if single else lam[active[i]]) / dt for i in static(range(m))]
            change = [sum([p[i] * (G[i][j] - D[i][j]) for i in static(range(m))]) for j in static(range(q))]
            motion = response(change, masses, inertias)
            for i in static(range(n_particles)):
                v[p_k[i]] += motion[i]
            for g in static(range(n_bodies)):
                d, t = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                body_qd[b_k[g]] += spatial(d[0], d[1], d[2], t[0], t[1], t[2])

    meet.race_free = realign.race_free = True  # the constraints of a launch share what is held only
    return ImpactKernels(meet, realign)
