"""The multipliers that a constraint has when a step begins, and what they do to the predicted positions.

XPBD begins every step with multipliers of zero: gravity and inertia first deform the body, and one sweep of projections
then has to find all of the elastic forces again.  What the sweep leaves out makes a solid too soft, and damping makes
it much worse, because damping enters the projection as additional stiffness.  Beginning with the multipliers of the
elastic and damping forces as they are, lambda0 = -(C + damping dC/dt) / alpha~, the sweep solves only for their
*change* during the step: a body in equilibrium stays there exactly, whatever the step and the number of iterations.
With an exact solve this is the linearly implicit Euler step (D. Baraff, A. Witkin, "Large Steps in Cloth Simulation",
1998); one sweep smooths what the explicit part overshoots.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.particles import particle_layout
from sim.constraints.projection import constraint_at, parameter_struct, value_type
from sim.constraints.slots.bodies import slot_struct
from sim.constraints.slots.linearization import rows_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import static, tid
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

HALF_AT = 4.0
"""Where J W J^T is this many times alpha~, half of the force of a row is left to the projection.

Measured by the eigenvalues of the step of a linear beam: a step with all of the force becomes unstable between 6 and 27
times alpha~, depending on the part of neighbours in it.  That holds for solid elements.  Hinges and edges of a sheet,
whose forces change direction as it moves, count with the masses divided among the n of the set that are on a point, w n
in place of w: the largest eigenvalue of dt^2 M^-1 K is at most that of the stiffest element with its share of the
masses (I. Fried, "Bounds on the Extremal Eigenvalues of the Finite Element Stiffness and Mass Matrices and Their
Spectral Condition Number", 1972).
"""
DAMPED = 2.0
"""How much more the damping part of a stiffness counts than the elastic part.

A row that begins with all of a damping force larger than this overshoots, and one sweep does not take that back: blocks
with damping of 100 steps swelled, where they rest with this.
"""


@func
def softness(alpha, stiffness):
    """t = 1 / (1 + stiffness / (4 alpha)), 0 for a row without compliance.  stiffness: J W J^T of the row."""
    return HALF_AT * alpha / (HALF_AT * alpha + stiffness)


@func
def fraction(t):
    """1 / (1 + s^4) for t = 1 / (1 + s): next to all of a soft row's force, next to none of a rigid one's."""
    u = 1.0 - t
    return t * t * t * t / (t * t * t * t + u * u * u * u)


@memoize
def least_of(c: Constraint, real: Scalar, damped: bool) -> Function:
    """(J, inverse masses, compliance, damping, dt) -> the least `softness` of the rows of a constraint."""
    rows, elastic, resists = c.rows, c.elastic, tuple(damped and acts for acts in c.damped)

    @func
    def least_softness(J, w, compliance, damping, dt):
        least = real(1.0)
        for r in static(c.active(damped)):
            weight = (1.0 if elastic[r] else 0.0) + (DAMPED * damping / dt if resists[r] else 0.0)
            stiffness = sum([w[j] * dot(J[r][j], J[r][j]) for j in static(range(len(w)))])
            alpha = (compliance if rows == 1 else compliance[r]) / (dt * dt)
            least = min(least, softness(alpha, weight * stiffness) if alpha > 0.0 else real(0.0))
        return least

    return least_softness


@memoize
def make_softness(c: Constraint, real: Scalar, damped: bool) -> Kernel:
    """The least softness of the constraints numbered `of`, at the start of a step."""
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    n_points, at, least_softness = c.points, constraint_at(c, real, gradient=True), least_of(c, real, damped)

    @kernel(name=f"softness_{c.name}")
    def softness_of(
        of: array[int],
        points: array2d[int],
        data: Data,
        compliance: array[value],
        damping: array[real],
        w: array[real],
        x: array[vec3],
        dt: real,
        found: array[real],
    ):
        i = of[tid()]
        _, J = at([x[points[i, j]] for j in static(range(n_points))], data, i)
        w_i = [w[points[i, j]] for j in static(range(n_points))]
        found[tid()] = least_softness(J, w_i, compliance[i], damping[i] if damped else real(0.0), dt)

    return softness_of


@memoize
def make_warm_start(
    c: Constraint,
    slots: Slots,
    real: Scalar,
    damped: bool,
    limited: bool,
    exclusive: bool = False,
    bounded: bool = False,
) -> Kernel:
    """Multipliers at the start of a step, of constraints `start + tid()`; moves `x_out` by W J^T lambda.

    slots: without bodies.  x_before, v: positions and velocities at the start; sharing: parts that each mass counts as.
    limited: constraints that are stiff for the step (J W J^T large against alpha~) get a fraction of their force
    only, down to none without compliance; otherwise all of it, as a step of symplectic Euler takes it.  exclusive: no
    two of the constraints of a launch share a point, not even a pinned one, and none has a point twice.  bounded: the
    softness that counts is at most that in `bound`.
    """
    vec3, Data, value = vector(3, real), parameter_struct(c, real), value_type(c, real)
    least_softness = least_of(c, real, damped)
    particles, rows, unilateral, SlotData = slots.particles, c.rows, c.unilateral, slot_struct(c, slots, real)
    elastic, active = c.elastic, c.active(damped)
    resists = tuple(damped and acts for acts in c.damped)
    at, n_points = rows_of(c, slots, real), len(particles)
    particle_type, moved_by = particle_layout(real).type(real), particle_layout(real).moved_by

    @kernel(name=f"warm_start_{slots.key(c).replace('@', '_')}")
    def warm_start(
        start: int,
        points: array2d[int],
        placing: SlotData,
        data: Data,
        compliance: array[value],
        damping: array[real],
        w: array[real],
        x_before: array[vec3],
        v: array[vec3],
        sharing: array[real],
        bound: array[real],
        dt: real,
        particle: array[particle_type],
        multiplier: array[value],
    ):
        k = start + tid()
        p_k = [points[k, j] for j in static(particles)]
        C, J = at([x_before[p] for p in p_k], [], fields_at(placing, k), fields_at(data, k))
        w_k = [w[p] for p in p_k]
        # one fraction for all rows of a block: those of the neo-Hookean solid balance each other
        part = real(1.0)
        if limited:
            least = least_softness(J, [sharing[p_k[j]] * w_k[j] for j in static(range(n_points))],
                                   compliance[k], damping[k] if damped else real(0.0), dt)  # fmt: skip
            if bounded:
                least = min(least, bound[k])
            part = fraction(least)
        lams = value()
        for r in static(active):
            alpha = (compliance[k] if rows == 1 else compliance[k][r]) / (dt * dt)
            strain = C[r] if elastic[r] else real(0.0)
            if resists[r]:
                strain += damping[k] * sum([dot(J[r][j], v[p_k[j]]) for j in static(range(n_points))])
            lam = real(0.0)
            if alpha > 0.0:
                lam = -strain * part / alpha
            if unilateral:
                lam = max(lam, real(0.0))
            for j in static(range(n_points)):
                particle[p_k[j]] += moved_by((w_k[j] * lam) * J[r][j])
            if rows == 1:
                multiplier[k] = lam
            else:
                lams[r] = lam
        if rows > 1:
            multiplier[k] = lams

    warm_start.race_free = True  # the constraints of a launch share pinned points only, which do not move
    if exclusive:
        warm_start.exclusive = frozenset(("x_before", "v", "w", "sharing", "particle", "multiplier"))
    return warm_start
