"""The XPBD projection of a constraint on any mixture of particles, points of bodies and places in the world.

The generalised inverse mass of points of bodies: M. Mueller, M. Macklin, N. Chentanez, S. Jeschke, T.-Y. Kim, "Detailed
Rigid Body Simulation with Extended Position Based Dynamics", SCA 2020, eqs. 2 to 9, here for several rows and several
points of one body: with the force f_i and torque tau_i of row i on a body, the sums over its points,

    (J W J^T)_ij = sum over particles of w J_i . J_j + sum over bodies of (w f_i . f_j + tau_i . I^-1 tau_j)
    x += w sum_i dlambda_i f_i        q <- exp(I^-1 sum_i dlambda_i tau_i) q

Sets of particles alone have the kernel of `sim.constraints.projection`, whose equation numbers are meant below.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct, solve, value_type
from sim.constraints.slots.bodies import body_struct, in_world, slot_struct
from sim.constraints.slots.linearization import linearization_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.library.quaternion import quat_from_rotation_vector
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array, array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@memoize
def make_slot_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, damped: bool, start_direction: bool, exclusive: bool = False
) -> Kernel:
    """One XPBD projection of constraints `start + tid()` whose points are not all particles; see `make_projection`.

    points: (n, k) numbers of particles, or of bodies, 0 for the world.
    start_direction: rows without compliance push along the gradients that they have where the step begins (SHAKE: J.-P.
    Ryckaert, G. Ciccotti, H. J. C. Berendsen, J. Comput. Phys. 23, 1977): with J of the present, D of the start,
    (J W D^T) dlambda = -C, moved by W D^T dlambda.  That conserves momenta exactly, and energies to second order, where
    the gradient at the end takes out energy as implicit Euler does.  Elastic rows need the latter: a row of compliance
    alpha pushes along D + s (J - D), s = alpha~ / (alpha~ + J W J^T), so that the motion is a smooth function of alpha.
    """
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    SlotData, Bodies, Quat = slot_struct(c, slots, real), body_struct(real), quaternion(real)
    layout = particle_layout(real)
    particle_type, moved_by = layout.type(real), layout.moved_by
    rows, unilateral, active = c.rows, c.unilateral, c.active(damped or c.driven)
    m = len(active)
    square, column = matrix((m, m), real), vector(m, real)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    n_particles, n_bodies = len(particles), len(owners)
    linearization = linearization_of(c, slots, real, damped, start_direction)
    limit_at = tuple(c.parameters).index(c.limited) if c.limited else -1

    @kernel(name=f"project_{c.name}_{slots.kinds}")
    def project(
        start: int,
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
        impulse: array[vec3],
        multiplier: array[value],
    ):
        k = start + tid()
        p_k = [points[k, j] for j in static(particles)]
        b_k = [points[k, j] for j in static(owners)]
        w_p = [w[p_k[p]] for p in static(range(n_particles))]
        w_b = [bodies.inv_mass[b_k[g]] for g in static(range(n_bodies))]
        turn_b = [turn[b_k[g]] for g in static(range(n_bodies))]
        lam = value() if first else multiplier[k]
        (J, on), (D, along), terms = linearization(
            k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam
        )
        spun = [
            [
                in_world(turn_b[g] * bodies.q[b_k[g]], bodies.inv_inertia[b_k[g]], along[i][g][1])
                for g in static(range(n_bodies))
            ]
            for i in static(range(m))
        ]  # I^-1 tau
        A, b = square(), column()
        for i in static(range(m)):
            weight, alpha, right = terms[i]
            for j in static(range(m)):
                A[i, j] = weight * (
                    sum([w_p[p] * dot(J[i][p], D[j][p]) for p in static(range(n_particles))])
                    + sum(
                        [
                            w_b[g] * dot(on[i][g][0], along[j][g][0]) + dot(on[i][g][1], spun[j][g])
                            for g in static(range(n_bodies))
                        ]
                    )
                )
            A[i, i] += alpha
            b[i] = right
        dlam = column()
        if rows == 1:
            if A[0, 0] != 0.0:  # else rigid between bodies that cannot move
                dlam[0] = b[0] / A[0, 0]
                if unilateral:
                    dlam[0] = max(dlam[0], -lam)
                if limit_at >= 0:
                    most = fields_at(data, k)[limit_at] * (dt * dt)
                    dlam[0] = min(max(dlam[0], -most - lam), most - lam)
        elif sum(w_p) + sum(w_b) > 0.0:
            dlam = solve(A, b)
        for p in static(range(n_particles)):  # eq. 17
            particle[p_k[p]] += moved_by(w_p[p] * sum([dlam[i] * D[i][p] for i in static(range(m))]))
        for g in static(range(n_bodies)):
            dx[b_k[g]] += w_b[g] * sum([dlam[i] * along[i][g][0] for i in static(range(m))])
            turned = quat_from_rotation_vector(sum([dlam[i] * spun[i][g] for i in static(range(m))]))
            turn[b_k[g]] = turned * turn_b[g]
            if w_b[g] > 0.0:
                impulse[b_k[g]] += sum([dlam[i] * along[i][g][1] for i in static(range(m))])
        if rows == 1:
            lam += dlam[0]
        else:
            for i in static(range(m)):
                lam[active[i]] += dlam[i]
        multiplier[k] = lam

    project.race_free = True  # the constraints of a launch share what is held only, which does not move
    if exclusive:
        moved = ("particle", "dx", "turn", "impulse")
        project.exclusive = frozenset((*moved, "x_ref", "w", "multiplier"))
    return project
