"""The XPBD projection of contacts with Coulomb friction, and the velocities after impacts.

Friction has a multiplier of its own, three numbers that add up over the sweeps of a step and are cut to the cone by the
normal one.  (Each correction alone is clipped by M. Macklin, M. Mueller, N. Chentanez, T.-Y. Kim, "Unified Particle
Physics for Real-Time Applications", 2014, section 6.1, and by Mueller et al. 2020, section 3.5.)  With the slip u, n
and E of `geometry`

    K = E W E^T        A = P K P + n n^T, P = 1 - n n^T        lambda_t <- clip(P lambda_t - A^-1 u, mu lambda_n)

Nothing is divided by the length of the slip: what sticks and what slides have the derivatives of their branch.

The bound is mu times the whole normal impulse of a step, that of the positions and that of the velocities after it.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.geometry import SIDES, contact_of, slip_of
from sim.constraints.contact.surface import impact_struct, surface_struct
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve
from sim.constraints.slots.bodies import body_struct, matrix_in_world, slot_struct
from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import sqrt, static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import quat_from_rotation_vector
from sim.core.lang.library.vector import cross, dot, outer, spatial_bottom, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@func
def clip_length(v, most):
    """v, shortened to the length `most` if it is longer."""
    square = dot(v, v)
    if square > most * most:
        return (most / sqrt(square)) * v
    return v


@memoize
def friction_of(slots: Slots, real: Scalar) -> Function:
    """`friction(n, E, masses, inertias, multiplier, u, most)` in a kernel: the multiplier after friction has worked
    against a slip u along the surface, cut to the length `most`."""
    _, response, product = row_functions(slots)
    vec3, mat33, with_bodies = vector(3, real), matrix((3, 3), real), bool(slots.bodies)

    @func
    def stopping(n, E, masses, inertias, u):
        """A^-1 u.  Particles alone are as light in all directions."""
        if not with_bodies:
            return u / product(E[0], response(E[0], masses, inertias))
        P, K, given = -outer(n, n), mat33(), vec3()
        for i in static(range(SIDES)):
            P[i, i] += 1.0
            M = response(E[i], masses, inertias)
            for j in static(range(SIDES)):
                K[i, j] = product(E[j], M)
            given[i] = u[i]
        return solve(P @ K @ P + outer(n, n), given)

    @func
    def friction(n, E, masses, inertias, multiplier, u, most):
        along = multiplier - dot(n, multiplier) * n
        return clip_length(along - stopping(n, E, masses, inertias, u), most)

    return friction


@memoize
def make_contact_projection(c: Constraint, slots: Slots, real: Scalar, first: bool, exclusive: bool = False) -> Kernel:
    """One projection of contacts `start + tid()`: the normal row, to C = `impacts.target` or above, then friction.

    first: the multipliers are zero before; exclusive: see `sim.constraints.projection.make_projection`.
    """
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface, Impacts = surface_struct(real), impact_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    displacement, moved_by = layout.displacement, layout.moved_by
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    n_particles, n_bodies = len(particles), len(owners)
    contact, slip, friction = contact_of(c, slots, real), slip_of(slots), friction_of(slots, real)
    _, response, product = row_functions(slots)

    @kernel(name=f"project_{c.name}_{slots.kinds}_friction")
    def project(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        compliance: array[real],
        impacts: Impacts,
        w: array[real],
        x_ref: array[vec3],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        impulse: array[vec3],
        multiplier: array[real],
        along: array[vec3],
    ):
        k = start + tid()
        p_k = [points[k, j] for j in static(particles)]
        b_k = [points[k, j] for j in static(owners)]
        of_p = [particle[p_k[p]] for p in static(range(n_particles))]
        begun = [(bodies.x[b_k[g]], bodies.q[b_k[g]]) for g in static(range(n_bodies))]
        moved, turns = [dx[b_k[g]] for g in static(range(n_bodies))], [turn[b_k[g]] for g in static(range(n_bodies))]
        poses = [(begun[g][0] + moved[g], turns[g] * begun[g][1]) for g in static(range(n_bodies))]
        masses = [w[p_k[p]] for p in static(range(n_particles))] + [
            bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))
        ]
        inertias = [matrix_in_world(poses[g][1], bodies.inv_inertia[b_k[g]]) for g in static(range(n_bodies))]
        C, G, n, E, share, arms = contact(
            [position(of_p[p]) for p in static(range(n_particles))],
            poses,
            fields_at(placing, k),
            fields_at(data, k),
        )
        lam, lam_t = real(0.0), vec3()
        if not first:
            lam, lam_t = multiplier[k], along[k]
        alpha = compliance[k] / (dt * dt)
        if C[0] < impacts.target[k] or lam > 0.0:
            M = response(G, masses, inertias)
            dlam = max((impacts.target[k] - C[0] - alpha * lam) / (product(G, M) + alpha), -lam)
            since = [displacement(of_p[p], x_ref[p_k[p]]) for p in static(range(n_particles))]
            u = slip(n, share, arms, since, moved, turns) - impacts.before[k]
            for i in static(range(SIDES)):  # what the normal push adds to it
                u[i] += dlam * product(E[i], M)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            pushed = friction(n, E, masses, inertias, lam_t, u - dot(n, u) * n, mu * (lam + dlam)) - lam_t
            force = [
                dlam * G[i] + sum([pushed[j] * E[j][i] for j in static(range(SIDES))])
                for i in static(range(n_particles + 2 * n_bodies))
            ]
            motion = response(force, masses, inertias)
            for p in static(range(n_particles)):
                particle[p_k[p]] += moved_by(motion[p])
            for g in static(range(n_bodies)):
                dx[b_k[g]] += motion[n_particles + 2 * g]
                turn[b_k[g]] = quat_from_rotation_vector(motion[n_particles + 2 * g + 1]) * turns[g]
                if masses[n_particles + g] > 0.0:
                    impulse[b_k[g]] += force[n_particles + 2 * g + 1]
            lam, lam_t = lam + dlam, lam_t + pushed
        multiplier[k], along[k] = lam, lam_t

    project.race_free = True  # the contacts of a launch share what is held only, which does not move
    if exclusive:
        written = ("particle", "dx", "turn", "impulse", "multiplier", "along", "x_ref", "w")
        project.exclusive = frozenset((*written, *(f"bodies.{name}" for name in Bodies.fields)))
    return project


@memoize
def make_rebound(c: Constraint, slots: Slots, real: Scalar, first: bool, exclusive: bool = False) -> Kernel:
    """The velocities after a step of what contacts `start + tid()` have pushed: dC/dt = `impacts.rebound`, and the slip
    as friction allows, by impulses `late` [m kg] that count with those of the positions.

    first: `late` is zero before.
    """
    vec3, spatial, Quat = vector(3, real), vector(6, real), quaternion(real)
    Data, SlotData, Bodies = parameter_struct(c, real), slot_struct(c, slots, real), body_struct(real)
    Surface, Impacts = surface_struct(real), impact_struct(real)
    layout = particle_layout(real)
    particle_type, position = layout.type(real), layout.position
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    on_bodies = tuple(g for g, own in enumerate(slots.bodies) for _ in own)
    n_particles, n_bodies, n_arms = len(particles), len(owners), len(on_bodies)
    contact, friction = contact_of(c, slots, real), friction_of(slots, real)
    _, response, product = row_functions(slots)

    @kernel(name=f"rebound_{c.name}_{slots.kinds}")
    def rebound(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        surface: Surface,
        impacts: Impacts,
        w: array[real],
        bodies: Bodies,
        dt: real,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        multiplier: array[real],
        v: array[vec3],
        body_qd: array[spatial],
        late: array[real],
        along: array[vec3],
    ):
        k = start + tid()
        if multiplier[k] > 0.0:
            p_k = [points[k, j] for j in static(particles)]
            b_k = [points[k, j] for j in static(owners)]
            poses = [(bodies.x[b_k[g]] + dx[b_k[g]], turn[b_k[g]] * bodies.q[b_k[g]]) for g in static(range(n_bodies))]
            masses = [w[p_k[p]] for p in static(range(n_particles))] + [
                bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))
            ]
            inertias = [matrix_in_world(poses[g][1], bodies.inv_inertia[b_k[g]]) for g in static(range(n_bodies))]
            _, G, n, E, share, arms = contact(
                [position(particle[p_k[p]]) for p in static(range(n_particles))],
                poses,
                fields_at(placing, k),
                fields_at(data, k),
            )
            v_p = [v[p_k[p]] for p in static(range(n_particles))]
            v_b = [spatial_top(body_qd[b_k[g]]) for g in static(range(n_bodies))]
            omega = [spatial_bottom(body_qd[b_k[g]]) for g in static(range(n_bodies))]
            velocity = v_p + [v_b[i // 2] if i % 2 == 0 else omega[i // 2] for i in static(range(2 * n_bodies))]
            before = real(0.0)
            if not first:
                before = late[k]
            M = response(G, masses, inertias)
            own = product(G, M)
            dlam = max((impacts.rebound[k] - product(G, velocity)) * dt / own, -(multiplier[k] + before))
            u = 0.0 * n
            for p in static(range(n_particles)):
                u += share[p] * v_p[p]
            for i in static(range(n_arms)):
                g = on_bodies[i]
                u += arms[i][0] * (v_b[g] + cross(omega[g], arms[i][1]))
            u = dt * u
            for i in static(range(SIDES)):
                u[i] += dlam * product(E[i], M)
            mu = 0.5 * (surface.friction[k] + surface.other_friction[k])
            most = mu * (multiplier[k] + before + dlam)
            pushed = friction(n, E, masses, inertias, along[k], u - dot(n, u) * n, most) - along[k]
            force = [
                (dlam * G[i] + sum([pushed[j] * E[j][i] for j in static(range(SIDES))])) / dt
                for i in static(range(n_particles + 2 * n_bodies))
            ]
            motion = response(force, masses, inertias)
            for p in static(range(n_particles)):
                v[p_k[p]] += motion[p]
            for g in static(range(n_bodies)):
                d, turned = motion[n_particles + 2 * g], motion[n_particles + 2 * g + 1]
                body_qd[b_k[g]] += spatial(d[0], d[1], d[2], turned[0], turned[1], turned[2])
            late[k] = before + dlam
            along[k] += pushed
        else:
            late[k] = 0.0

    rebound.race_free = True  # as in the projection
    if exclusive:
        written = ("particle", "dx", "turn", "multiplier", "late", "along", "w", "v", "body_qd")
        rebound.exclusive = frozenset((*written, *(f"bodies.{name}" for name in Bodies.fields)))
    return rebound
