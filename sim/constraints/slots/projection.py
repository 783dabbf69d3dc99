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
from sim.constraints.slots.bodies import body_struct, slot_struct
from sim.constraints.slots.linearization import (
    active_rows,
    linearization_of,
    pushes_from_start,
    row_functions,
    turns,
)
from sim.constraints.slots.pattern import Slots
from sim.constraints.slots.rotations import exponential
from sim.core.lang.constants import nan
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, static, tid, where
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.matrix import transpose
from sim.core.lang.library.static import scalar_type
from sim.core.lang.library.vector import outer
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel


@func
def solve_pivoted(a, b):
    """x with a x = b for a small matrix of positive determinant and trace, NaN where one is not: elimination with
    pairwise pivoting (D. C. Sorensen, "Analysis of Pairwise Pivoting in Gaussian Elimination", 1985).

    G W D^T is near a positive definite matrix, but its diagonal says nothing: where a body's inertia is small about a
    far point, an entry passes through zero while a turn of a few degrees takes the arm past an axis.
    Determinant and trace are the same in all axes; a turn of more than 90 degrees makes eigenvalues negative.
    """
    n = len(b)
    sign = where(sum([a[i, i] for i in static(range(n))]) > 0.0, scalar_type(b)(1), scalar_type(b)(0))
    for i in static(range(n)):
        for j in static(range(i + 1, n)):
            swap = abs(a[j, i]) > abs(a[i, i])
            sign = where(swap, -sign, sign)
            for k in static(range(i, n)):
                upper, lower = where(swap, a[j, k], a[i, k]), where(swap, a[i, k], a[j, k])
                a[i, k], a[j, k] = upper, lower
            upper, lower = where(swap, b[j], b[i]), where(swap, b[i], b[j])
            f = a[j, i] / a[i, i]
            for k in static(range(i, n)):
                a[j, k] = a[j, k] - f * a[i, k]
            b[i], b[j] = upper, lower - f * upper
        sign = where(a[i, i] > 0.0, sign, -sign)
    for i in static(range(n - 1, -1, -1)):
        for k in static(range(i + 1, n)):
            b[i] = b[i] - a[i, k] * b[k]
        b[i] = where(sign > 0.0, b[i] / a[i, i], nan)
    return b


@solve_pivoted.vjp
def _solve_pivoted_vjp(a, b, x, ct):
    t = solve_pivoted(transpose(a), ct)
    return outer(-t, x), t


@memoize
def _change_of(c: Constraint, slots: Slots, real: Scalar, damped: bool, start_direction: bool) -> Function:
    """`change(k, points, ..., turn, lam)` in a kernel, with the arguments of `linearization_of`: dlambda of the active
    rows, what a unit multiplier of each moves and pushes, and the inverse masses."""
    rows, unilateral, active = c.rows, c.unilateral, active_rows(c, damped)
    chosen, m = pushes_from_start(c, start_direction), len(active)
    square, column = matrix((m, m), real), vector(m, real)
    linearization = linearization_of(c, slots, real, damped, start_direction)
    _, response, product = row_functions(slots)
    limit_at = tuple(c.parameters).index(c.limited) if c.limited else -1
    turned_at = tuple(c.parameters).index("turned") if turns(c) else -1

    @func
    def change(k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam):
        G, D, (masses, inertias), terms = linearization(
            k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam
        )
        M = [response(D[i], masses, inertias) for i in static(range(m))]  # how a unit multiplier moves all
        A, b = square(), column()
        for i in static(range(m)):
            for j in static(range(0 if chosen else i, m)):
                A[i, j] = product(G[i], M[j])
        if not chosen:
            for i in static(range(m)):
                for j in static(range(i)):
                    A[i, j] = A[j, i]
        for i in static(range(m)):
            weight, alpha, right = terms[i]
            for j in static(range(m)):
                A[i, j] = weight * A[i, j]
            A[i, i] += alpha
            b[i] = right
        dlam = column()
        if rows == 1:
            if A[0, 0] > 0.0:  # else rigid between bodies that cannot move
                dlam[0] = b[0] / A[0, 0]
                if unilateral:
                    dlam[0] = max(dlam[0], -lam)
                if limit_at >= 0:
                    most, given = fields_at(data, k)[limit_at] * (dt * dt), real(0.0)
                    if turned_at >= 0:
                        turned = fields_at(data, k)[turned_at]
                        # not most - |given|: of a friction of 0 that would have no derivative
                        given, most = most * turned, most * (1.0 - abs(turned))
                    dlam[0] = min(max(dlam[0], given - most - lam), given + most - lam)
            elif chosen:
                if product(G[0], response(G[0], masses, inertias)) > 0.0:  # the start's direction pushes the wrong way
                    dlam[0] = nan
        elif sum(masses) > 0.0:
            dlam = solve_pivoted(A, b) if chosen else solve(A, b)
        return dlam, M, D, masses

    return change


@memoize
def make_slot_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, damped: bool, start_direction: bool, exclusive: bool = False
) -> Kernel:
    """One XPBD projection of constraints `start + tid()` whose points are not all particles; see `make_projection`.

    points: (n, k) numbers of particles, or of bodies, 0 for the world.
    driven: rows of stiffness and damping, that of eq. 26 divided by alpha, whose compliance and damping are not read.
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
    rows, active = c.rows, active_rows(c, damped)
    m = len(active)
    particles, owners = slots.particles, tuple(own[0] for own in slots.bodies)
    n_particles, n_bodies = len(particles), len(owners)
    change = _change_of(c, slots, real, damped, start_direction)

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
        turn_b = [turn[b_k[g]] for g in static(range(n_bodies))]
        lam = value() if first else multiplier[k]
        dlam, M, D, masses = change(
            k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam
        )
        for p in static(range(n_particles)):  # eq. 17
            particle[p_k[p]] += moved_by(sum([dlam[i] * M[i][p] for i in static(range(m))]))
        for g in static(range(n_bodies)):
            dx[b_k[g]] += sum([dlam[i] * M[i][n_particles + 2 * g] for i in static(range(m))])
            turned = exponential(sum([dlam[i] * M[i][n_particles + 2 * g + 1] for i in static(range(m))]))
            turn[b_k[g]] = turned * turn_b[g]
            if masses[n_particles + g] > 0.0:
                impulse[b_k[g]] += sum([dlam[i] * D[i][n_particles + 2 * g + 1] for i in static(range(m))])
        if rows == 1:
            lam += dlam[0]
        else:
            for i in static(range(m)):
                lam[active[i]] += dlam[i]
        multiplier[k] = lam

    project.race_free = True  # the constraints of a launch share what is held only, which does not move
    if exclusive:
        moved = ("particle", "dx", "turn", "impulse")
        begun = (f"bodies.{name}" for name in Bodies.fields)
        project.exclusive = frozenset((*moved, *begun, "x_ref", "w", "multiplier"))
    return project


@memoize
def make_split_projection(
    c: Constraint, slots: Slots, real: Scalar, first: bool, damped: bool, start_direction: bool
) -> Kernel:
    """The same at once for constraints that share movers, averaged by mass splitting, see `make_projection`.

    A mover of n constraints counts as n movers of an nth of its mass and inertia.

    w, bodies: inverse masses and inertias times the valence of each mover, n; moves `correction`, of particles, `shift`
    and `twist` of bodies, a rotation vector.
    """
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    SlotData, Bodies, Quat = slot_struct(c, slots, real), body_struct(real), quaternion(real)
    particle_type = particle_layout(real).type(real)
    rows, active = c.rows, active_rows(c, damped)
    m, particles, owners = len(active), slots.particles, tuple(own[0] for own in slots.bodies)
    n_particles, n_bodies = len(particles), len(owners)
    change = _change_of(c, slots, real, damped, start_direction)

    @kernel(name=f"project_{c.name}_{slots.kinds}_split")
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
        valence: array[real],
        body_valence: array[real],
        correction: array[vec3],
        shift: array[vec3],
        twist: array[vec3],
        impulse: array[vec3],
        multiplier: array[value],
    ):
        k = start + tid()
        lam = value() if first else multiplier[k]
        dlam, M, D, masses = change(
            k, points, placing, data, compliance, damping, w, x_ref, bodies, dt, particle, dx, turn, lam
        )
        for p in static(range(n_particles)):
            i_p = points[k, particles[p]]
            correction[i_p] += sum([dlam[i] * M[i][p] for i in static(range(m))]) / valence[i_p]
        for g in static(range(n_bodies)):
            b = points[k, owners[g]]
            shift[b] += sum([dlam[i] * M[i][n_particles + 2 * g] for i in static(range(m))]) / body_valence[b]
            twist[b] += sum([dlam[i] * M[i][n_particles + 2 * g + 1] for i in static(range(m))]) / body_valence[b]
            if masses[n_particles + g] > 0.0:
                impulse[b] += sum([dlam[i] * D[i][n_particles + 2 * g + 1] for i in static(range(m))])
        if rows == 1:
            lam += dlam[0]
        else:
            for i in static(range(m)):
                lam[active[i]] += dlam[i]
        multiplier[k] = lam

    project.race_free = True  # they share what they only read, and what they only add to
    return project
