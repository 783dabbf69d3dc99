"""Coulomb friction of contacts: the multiplier of greatest dissipation.

Friction has a multiplier of its own, three numbers that add up over the sweeps of a step and are cut to the cone by the
normal one.  (Each correction alone is clipped by M. Macklin, M. Mueller, N. Chentanez, T.-Y. Kim, "Unified Particle
Physics for Real-Time Applications", 2014, section 6.1, and by Mueller et al. 2020, section 3.5.)  With the slip u, the
directions T across the normal and the rows E of `geometry`, K = E W E^T, it becomes the multiplier that takes the slip
to zero if that is inside of the cone, and else the one at its edge that is opposite to the slip it leaves:

    lambda_t = (K + s)^-1 (K lambda_t^before - T^T u)          s = 0, or |lambda_t| = mu lambda_n with s > 0

That is the maximum of dissipation, and a continuous function across the edge.  A body is not as easy to move along all
directions: the multiplier that would stop the slip, shortened, does not point against it, and a block that slides on
four corners loses 7 % of its friction that way.

The bound is mu times the whole normal impulse of a step, that of the positions and that of the velocities after it.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.slots.linearization import row_functions
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, log, max, min, sqrt, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.static import scalar_type
from sim.core.lang.library.vector import dot, length, outer
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, matrix, vector

NEWTON = 6
"""Iterations for s: exact after one where K is the same in all directions, and quadratic from one side elsewhere."""
FAR = 1e-8
"""Friction of less than this part of what would hold points against the slip, as nearly as float32 tells."""

STRAIGHT = 1e-12
"""Slips beside the line that leads to a stop, over how far it is, which do not count."""

TURNING = 2
"""Further steps for a normal force and its friction together, where the direction of slip turns with them."""
MET = 1e-9
"""What may be missing of a normal force, in parts of it."""
EASIEST = 0.05
"""Where friction presses a contact nearly as much as it is pressed, there may be no solution (P. Painleve, 1895): then
the normal force grows by at most so many times."""
RELIEVES = 0.8
"""Where friction lifts a contact by so much of what presses it, both are found together also of what rests: from all of
that on sweeps that find one after the other do not converge.  So it is of a pole that slides on its foot, leaning
ahead, with friction that would jam it the other way."""


@func
def coulomb(K, b, most):
    """x with K x = b if |x| <= most; else of that length, with (K + s) x = b and s > 0.  K: 2 x 2, positive definite.

    It is the minimum of x K x / 2 - b x in a disk, the subproblem of trust regions, solved as in J. J. More, D. C.
    Sorensen, "Computing a Trust Region Step", SIAM J. Sci. Stat. Comput. 4(3), 1983, algorithm 3.2.
    """
    x = inverted(K, 0.0 * most) @ b
    size = largest(x)
    if size > 0.0:
        # In units of the free solution: squares of what is all but at rest are below the least float32.
        to, edge = b / size, most / size
        free = x / size
        if dot(free, free) > edge * edge:
            y = to / sqrt(dot(to, to))
            if edge > FAR:
                s = 0.0 * most
                y = free
                for _ in static(range(NEWTON)):
                    square = dot(y, y)
                    s += square / dot(y, inverted(K, s) @ y) * (sqrt(square) / edge - 1.0)
                    y = inverted(K, s) @ to
                y /= sqrt(dot(y, y))
            x = y * most
    return x


@func
def largest(x):
    """The larger component of a vector (2,), by size."""
    return max(abs(x[0]), abs(x[1]))


@func
def inverted(K, s):
    """(K + s)^-1 of a symmetric 2 x 2 matrix."""
    a, c, d = K[0, 0] + s, K[0, 1], K[1, 1] + s
    det = a * d - c * c
    return type(K)(d / det, -c / det, -c / det, a / det)


@coulomb.vjp
def _coulomb_vjp(K, b, most, x, ct):
    """Of the equations that x solves, by the implicit function theorem."""
    free = inverted(K, 0.0 * most) @ b
    by_most = 0.0 * most
    by_b = 0.0 * b
    size = largest(free)
    inside = inverted(K, 0.0 * most) @ ct
    if size > 0.0:
        to, edge = b / size, most / size
        free /= size
        if dot(free, free) > edge * edge:
            direction = to / sqrt(dot(to, to))
            if edge > FAR:
                direction = x / most
                # The direction is that of (K + s)^-1 b with s = (b - K x) x / x^2.
                inverse = inverted(K, dot(direction, to / edge - K @ direction))
                back, along = inverse @ ct, inverse @ direction
                by_most = dot(back, direction) / dot(direction, along)
                by_b = back - by_most * along
            else:
                by_most = dot(ct, direction)
                by_b = (ct - by_most * direction) * (edge / sqrt(dot(to, to)))
        else:
            by_b = inside
    else:
        by_b = inside
    return -outer(by_b, x), by_b, by_most


@func
def pressed_and_rubbed(R, b, given, pressed, least, own, coupled, hit, K, mu):
    """Normal force and friction of one contact, where each moves it along the other too: dlam and x (2,) with

        own dlam + hit coupled . (given + x) = R, or dlam = least - pressed where that is more
        x = coulomb(K, b - dlam coupled, mu (pressed + dlam - least))

    by Newton's method, with the normal force as its unknown: exact after one step where x sticks, or slips along a
    line.  One after the other they leave a part of the rebound, which depends on when in its step the impact was: its
    derivative is as many times larger as steps are short.  hit: 1 for an impact; what rests, 0, is left to the sweeps,
    but for `RELIEVES`.  Also where neither moves the other, as of a ball: for another centre of mass they do, and
    derivatives have to know.
    """
    lowest = least - pressed
    dlam = max(R / own, lowest)
    x = coulomb(K, b - dlam * coupled, mu * (dlam - lowest))
    relieves, whole = dot(coupled, x), own * (dlam - lowest)
    if relieves > static(RELIEVES) * whole:
        hit = max(hit, min((relieves / whole - RELIEVES) / (1.0 - RELIEVES), 1.0 + 0.0 * own))
    felt = hit * coupled
    R -= dot(felt, given)
    if hit > 0.0:
        dlam, x = _nearer(dlam, x, R, b, lowest, own, coupled, felt, K, mu)
        for _ in static(range(TURNING)):
            missing = R - own * dlam - dot(felt, x)
            if abs(missing) > static(MET) * own * (dlam - lowest):
                dlam, x = _nearer(dlam, x, R, b, lowest, own, coupled, felt, K, mu)
    return dlam, x


@func
def _nearer(dlam, x, R, b, lowest, own, coupled, felt, K, mu):
    """One step: by how much dlam moves all along the normal, with the friction that answers it."""
    most, back = mu * (dlam - lowest), inverted(K, 0.0 * own)
    free, easy = back @ (b - dlam * coupled), own
    if dot(free, free) <= most * most:
        easy -= dot(felt, back @ coupled)
    elif most > 0.0:
        easy += mu * dot(felt, x) / most
    dlam = max(dlam + (R - own * dlam - dot(felt, x)) / max(easy, static(EASIEST) * own), lowest)
    return dlam, coulomb(K, b - dlam * coupled, mu * (dlam - lowest))


@func
def along_both(T, u):
    """The part of a vector along two directions."""
    return vector(2, scalar_type(u))(dot(T[0], u), dot(T[1], u))


@func
def turning(v, last, takes):
    """Friction, over its bound, of what comes to a stop within a step, until then (2,): times the part of the step.

    v, last: slip rates (2,) as this step and the last one began; takes: by how much friction, at its bound, changes the
    one of what does not turn in a step.  What forces then take back is rubbed the other way for the rest of the step,
    see `turned_friction`.  It stops, or is slowest, where a step like the last one would lead, at ahead / lost of the
    step, having gone along a line of velocities:

        v_0 = ahead e + beside   to   beside        e = lost / |lost|, beside across e

    of which friction is against the mean direction, and takes no more across e than there is.  Where the stop is behind
    the end of the step it counts less, from two steps on not at all; and where the last step took away less than twice
    what friction can: then it would not be taken back.
    """
    found, loss = 0.0 * v, last - v
    square, slower = dot(loss, loss), dot(loss, v)
    if takes > 0.0 and 0.0 < slower and slower < 2.0 * square:
        lost = sqrt(square)
        if lost > takes:
            weight = min(lost / takes - 1.0, 1.0 + 0.0 * lost)
            ahead, e = slower / lost, loss / lost
            part = ahead / lost
            if part > 1.0:
                weight *= 2.0 - part
                part = 1.0 + 0.0 * part
            beside = v - ahead * e
            least = sqrt(dot(beside, beside))
            mean = e + (lost / takes / ahead) * beside  # along a line, where a little across it is met in full
            if least > STRAIGHT * ahead:
                speed = sqrt(dot(v, v))
                turns = log((ahead + speed) / least)
                if turns * takes > lost:
                    turns = lost / takes
                mean = ((speed - least) * e + turns * beside) / ahead
            found = -(weight * part) * mean
    return found


@func
def unturned(turned):
    """The part of friction's bound that is left, where `turned` of it has been given already."""
    left = 1.0 + 0.0 * turned[0]
    if dot(turned, turned) > 0.0:
        left = 1.0 - length(turned)
    return left


@func
def turned_friction(K, b, most, turned):
    """`coulomb` of a step of which a part is rubbed already, `turned` of `turning`: that much friction, and for the
    rest what opposes the slip.  Friction that stops what slides takes away when that was: the velocity at the end of
    the step is zero, and its derivative by anything before too, where sliding back it is to grow from then on."""
    given = most * turned
    return given + coulomb(K, b - K @ given, most * unturned(turned))


@memoize
def mobility_of(slots: Slots, real: Scalar) -> Function:
    """`mobility(E, masses, inertias)` in a kernel: K = E W E^T (2, 2), how unit forces along two directions move the
    place where they act."""
    _, response, product = row_functions(slots)
    mat22 = matrix((2, 2), real)

    @func
    def mobility(E, masses, inertias):
        M = [response(E[i], masses, inertias) for i in static(range(2))]
        mixed = product(E[0], M[1])
        return mat22(product(E[0], M[0]), mixed, mixed, product(E[1], M[1]))

    return mobility


@func
def rubbed_against(K, T, multiplier, u, most, turned):
    """The multiplier (2,) along the directions T after friction, at most `most`, has worked against a slip u;
    multiplier (3,): that before, in the world."""
    return turned_friction(K, K @ along_both(T, multiplier) - along_both(T, u), most, turned)
