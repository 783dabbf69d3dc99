"""Where a contact touches: C and its gradient, the normal, and forces that pass through the place of contact.

A unilateral constraint C >= 0 of points that lie `reach` inside of their surfaces has everything that friction needs.
With n = grad_1 C / |grad_1 C| and b_j = grad_j C . n, a unit of force along a direction d acts as b_j d on point j, at
the place P_j = p_j - reach_j n of its surface (two points have one place, that of the first).  The slip is how far
these places of the material have come:

    u = (1 - n n^T) sum_j b_j (P_j - P_j^before)

Where the points alone do not say where they touch, as of two edges or a rim, the constraint does (`place`); n is then
along the whole force on the second side, or on the only one.

For bodies P_j^before is where the same place of the material was as the step began, so that a rolling ball has none.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.slots.bodies import frame_wrench, point_wrench, seen_from
from sim.constraints.slots.linearization import points_of, seen_points
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import embed, value_and_grad
from sim.core.lang.frontend.builtins import static, where
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.quaternion import imaginary, quat_rotate, quat_rotate_inv, quat_to_matrix
from sim.core.lang.library.static import scalar_type
from sim.core.lang.library.vector import cross, dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector


@func
def come(turn, arm):
    """How far a place at `arm` from the centre of a body has come by the turn alone, without a difference of large
    numbers: arm - turn^-1 arm."""
    u = imaginary(turn)
    across = cross(u, arm)
    return 2.0 * (turn[3] * across - cross(u, across))


@func
def across(n):
    """Two unit vectors across a third, and each other: T. Duff et al., "Building an Orthonormal Basis, Revisited",
    JCGT 6(1), 2017."""
    sign = where(n[2] < 0.0, -scalar_type(n)(1), scalar_type(n)(1))
    a = -1.0 / (sign + n[2])
    b = n[0] * n[1] * a
    return type(n)(1.0 + sign * n[0] * n[0] * a, sign * b, -sign * n[0]), type(n)(b, sign + n[1] * n[1] * a, -n[1])


@memoize
def gap_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`gap(x, poses, placing, parameters)` in a kernel: C alone, of what is open for the most part."""
    value, points_seen = embed(lambda: c.traced(real), f"{c.name}_at"), seen_points(c, slots, real)

    @func
    def gap(x, poses, placing, parameters):
        return value(points_seen(x, poses, placing), parameters)[0]

    return gap


@memoize
def contact_of(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`contact(x, poses, placing, parameters)` in a kernel, see `points_of`: of a contact there

    C, G        value, and gradient over the movers, as `rows_of` has it
    n, T        unit normal (3,), towards the side of the first point, or of the point that a frame sees; and two
                directions across it
    E           for each of these its row over the movers: a unit of force that way, at the place of contact
    share, arms b of each particle; b of each point on a body, and where from its centre of mass it touches
    """
    if c.place is not None:
        return _placed_contact(c, slots, real)
    evaluate = value_and_grad(lambda: c.traced(real), f"{c.name}_at")
    points_at, particles, of_body = points_of(c, slots, real), slots.particles, slots.bodies
    on_bodies = tuple((j, g) for g, own in enumerate(of_body) for j in own)
    names = tuple(c.parameters)
    reach_at = tuple(names.index(name) if name else -1 for name in (c.reach or ("",) * c.points))
    seen, pair, many, first = c.frames == (0,), c.points == 2, c.points > 2, 1 if c.frames else 0

    # of several points of a shape one may have no share
    side = tuple(j for j in range(c.points) if many and reach_at[j] >= 0) or (first,)

    @func
    def forces(points, parameters):
        """C, and the gradient at each point: of one that a frame sees in the world, and the opposite on the frame."""
        if seen:
            C, J = evaluate(quat_rotate_inv(points[0].q, points[1] - points[0].p), parameters)
            pull = quat_rotate(points[0].q, J[0])
            return C, [-pull, pull]
        C, J = evaluate(points, parameters)
        return C, J[0]

    @func
    def touching(j, points, n, parameters, C):
        """The place where point j is touched.  Two points have one: opposite forces at two would be a couple; as would
        those on a shape and on particles between which there is C."""
        at = points[first if pair else j]
        if reach_at[first if pair else j] >= 0:
            reach = parameters[reach_at[first if pair else j]]
            if many:
                reach += C
            return at - reach * n
        return at

    @func
    def wrench(g, values, places, center):
        """Force and torque on body g of forces at its places."""
        parts = [point_wrench(values[j], places[j], center) for j in static(of_body[g])]
        return sum([part[0] for part in parts]), sum([part[1] for part in parts])

    @func
    def over_movers(values, places, poses):
        on = [wrench(static(g), values, places, poses[g][0]) for g in static(range(len(of_body)))]
        return [values[j] for j in static(particles)] + [on[k // 2][k % 2] for k in static(range(2 * len(of_body)))]

    @func
    def contact(x, poses, placing, parameters):
        points = points_at(x, poses, placing)
        C, J = forces(points, parameters)
        pull = sum([J[j] for j in static(side)])
        n = pull / length(pull)
        b = [dot(J[j], n) for j in static(range(c.points))]
        places = [touching(static(j), points, n, parameters, C[0]) for j in static(range(c.points))]
        G = over_movers(J, places, poses)
        T = across(n)
        E = [over_movers([b[i] * T[side] for i in static(range(c.points))], places, poses) for side in static(range(2))]
        share = [b[j] for j in static(particles)]
        arms = [(b[j], places[j] - poses[g][0]) for j, g in static(on_bodies)]
        return C, G, n, T, E, share, arms

    return contact


def place_shares(c: Constraint, slots: Slots) -> tuple[float, ...]:
    """The b of each point on a body where C says itself where it touches: one of each body has all of its force, and
    what another frame sees is pushed away from it."""
    between = c.frames == (0, 1)
    of = [-1.0 if between and own[0] == 0 else 1.0 for own in slots.bodies]
    return tuple(of[g] if own[0] == j else 0.0 for g, own in enumerate(slots.bodies) for j in own)


def _placed_contact(c: Constraint, slots: Slots, real: Scalar) -> Function:
    """`contact_of` where C says itself where it touches: of two frames, or of points of one body."""
    evaluate = value_and_grad(lambda: c.traced(real), f"{c.name}_at")
    touched = embed(lambda: c.placed_at(real), f"{c.name}_touched")
    vec3, of_body = vector(3, real), slots.bodies
    points_at = points_of(c, slots, real)
    count, between, shares = len(of_body), c.frames == (0, 1), place_shares(c, slots)
    signs = tuple(-1.0 if between and own[0] == 0 else 1.0 for own in of_body)
    owners = tuple(g for g, own in enumerate(of_body) for _ in own)

    @func
    def seen_by_frame(points, parameters, center):
        """C, force and torque on the second about its centre, and the place."""
        a, b = points[0], points[1]
        seen, axes = seen_from(a, b), quat_to_matrix(a.q)
        C, J = evaluate(seen, parameters)
        force, torque = frame_wrench(J[0], axes, seen)
        x, y, z = touched(seen, parameters)
        return C, force, cross(b.p - center, force) + torque, a.p + axes @ vec3(x, y, z)

    @func
    def seen_by_world(points, parameters, center):
        C, J = evaluate(points, parameters)
        parts = [point_wrench(J[0][j], points[j], center) for j in static(range(c.points))]
        x, y, z = touched(points, parameters)
        return C, sum([part[0] for part in parts]), sum([part[1] for part in parts]), vec3(x, y, z)

    seen = seen_by_frame if between else seen_by_world

    @func
    def on_both(force, torque, about, poses):
        """A force on the second side and its torque about `about`, over the movers."""
        of = [(signs[g] * force, signs[g] * (torque + cross(about - poses[g][0], force))) for g in static(range(count))]
        return [of[k // 2][k % 2] for k in static(range(2 * count))]

    @func
    def contact(x, poses, placing, parameters):
        center = poses[0][0]
        C, force, torque, place = seen(points_at(x, poses, placing), parameters, center)
        size = length(force)
        if size == 0.0:  # nothing is chosen
            size += 1.0
        n = force / size
        T = across(n)
        E = [on_both(T[side], vec3(), place, poses) for side in static(range(2))]
        arms = [(shares[i], place - poses[owners[i]][0]) for i in static(range(len(owners)))]
        return C, on_both(force, torque, center, poses), n, T, E, [], arms

    return contact


@memoize
def slip_of(slots: Slots) -> Function:
    """`slip(n, share, arms, since, moved, turns)` in a kernel: u, see above, with what `contact_of` gives; since: how
    far each particle has come; moved, turns: displacement and turn of each body."""
    count, owners = len(slots.particles), tuple(g for g, own in enumerate(slots.bodies) for _ in own)

    @func
    def slip(n, share, arms, since, moved, turns):
        u = 0.0 * n
        for p in static(range(count)):
            u += share[p] * since[p]
        for i in static(range(len(owners))):
            u += arms[i][0] * (moved[owners[i]] + come(turns[owners[i]], arms[i][1]))
        return u - dot(n, u) * n

    return slip


@memoize
def slip_rate_of(slots: Slots) -> Function:
    """`slip_rate(n, share, arms, velocity)` in a kernel: the velocity between the places that touch, along n too, with
    what `contact_of` and `velocities_of` give."""
    count, owners = len(slots.particles), tuple(g for g, own in enumerate(slots.bodies) for _ in own)

    @func
    def slip_rate(n, share, arms, velocity):
        rate = 0.0 * n
        for p in static(range(count)):
            rate += share[p] * velocity[p]
        for i in static(range(len(owners))):
            at = count + 2 * owners[i]
            rate += arms[i][0] * (velocity[at] + cross(velocity[at + 1], arms[i][1]))
        return rate

    return slip_rate
