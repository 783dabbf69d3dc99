"""One sweep over pairs of surfaces that were found near each other: contact and friction of all closed ones at once.

A particle in several closed pairs counts in each as one of a part of its mass (mass splitting, see
`sim.constraints.projection`), here in proportion to its weight in the pair and to how deep that is:

    s_kj = |b_kj C_k| / S_j          S_j = sum_k |b_kj C_k|

so that the step is a continuous function of where everything is: a pair that only just closes takes no share from the
others, as it would if they were counted (but where edges end that cross, see docs/limits.md).  Equal pairs at one place
do together what one of them would do alone.

Pairs write what they move their points by, and each particle adds that up in the order of its pairs: the same bits for
any number of threads, and whatever pairs are listed beside the closed ones.  Of a closed pair, with the normal n and
the weights b of `pairs`, A = sum_j w_j b_j^2 / s_j:

    lambda   <- max(lambda - C / A, 0)
    lambda_t <- lambda_t - P (u - d) / A, cut to mu lambda  u = sum_j b_j (x_j - x_j^before), P = 1 - n n^T
    x_j      <- x_j + w_j b_j (change of lambda n + lambda_t)

Coulomb's law for positions (M. Macklin, M. Mueller, N. Chentanez, T.-Y. Kim, "Unified Particle Physics for Real-Time
Applications", 2014, section 6.1) with multipliers that add up over the sweeps of a step.  d is how far what hits in
this step has slid before that, which friction does not take back (`part_before`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from dataclasses import dataclass

from sim.constraints.contact.diagnostics.switches import CLOSING, CONE, NEAR, near
from sim.constraints.contact.impacts.shares import resting_speed, share_of_impact
from sim.constraints.contact.laws.friction import turning, unturned
from sim.constraints.contact.primitives.pairs import (
    edge_edge,
    edges_cross,
    point_triangle,
    side_of_edge,
    side_of_triangle,
)
from sim.constraints.particles import particle_layout
from sim.core.lang.frontend.builtins import abs, sqrt, static, tid, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

POINT_TRIANGLE, EDGE_EDGE = 0, 1
"""Kinds of pairs."""
WORST, CROSSED = 0, 1
"""What is reported of penetrations: the deepest [m], and how many pairs have passed through each other."""
STILL = 2.0
"""Points of layers that lie on each other move up and down by thrice the speed that gravity gives in a step: they hit
from so many times the approach on at which contacts of shapes do."""
PIECES = 16
"""Parts in which pairs are gone through for that."""


@dataclass(frozen=True)
class SweepKernels:
    """Of one kind of pairs: `weigh` those that are closed, `project` them, and `measure` how deep each is (0 where it
    is open, negative where it has passed through); `look` how near to a switch (`switches`) the projection of each is,
    between the first two of these."""

    weigh: Kernel
    project: Kernel
    measure: Kernel
    look: Kernel


@func
def part_before(start, end):
    """The part of a step before C, which comes from start to end along a line, is zero: an impact rubs after it alone.

    Were all slip of that step stopped, layers that grip at once would stay where they were as it began: d x / d height
    is 0 then, or mu, by the phase of the step, for v / (g t) at any.
    """
    before = 0.0 * start
    if start > 0.0 and end < start:
        before = min(start / (start - end), before + 1.0)
    return before


@memoize
def sweep_kernels(kind: int, real: Scalar, first: bool) -> SweepKernels:
    """The kernels over the pairs of a kind, one thread for each; first: multipliers are zero before."""
    vec3, layout = vector(3, real), particle_layout(real)
    particle_type, position, displacement = layout.type(real), layout.position, layout.displacement
    touch, side_of = (point_triangle, side_of_triangle) if kind == POINT_TRIANGLE else (edge_edge, side_of_edge)
    corners = ((1.0, 0.0, 0.0, 0.0), (0.0, 1 / 3, 1 / 3, 1 / 3))
    halves = ((0.5, 0.5, 0.0, 0.0), (0.0, 0.0, 0.5, 0.5))
    one, other = corners if kind == POINT_TRIANGLE else halves
    edges = kind == EDGE_EDGE
    signs = (1.0, 1.0, -1.0, -1.0) if edges else (1.0, -1.0, -1.0, -1.0)  # of the weights b

    @func
    def summed(values):
        """Of both sides, each the mean of its points."""
        return sum([real(static(one)[j] + static(other)[j]) * values[j] for j in static(range(4))])

    @func
    def may_touch(x, before, half, limit, pushed):
        """Could a pair be closed, or push any longer?  pushed: has it in this step?

        Not where the boxes around the ways of both sides in the step are apart by more than their thickness: what
        passes through the other one has a place in common with it.  1 % more is for rounding.  Edges do not where
        they do not cross.
        """
        low, high = [min(x[j], before[j]) for j in static(range(4))], [max(x[j], before[j]) for j in static(range(4))]
        one_low, one_high, two_low, two_high = low[0], high[0], min(low[2], low[3]), max(high[2], high[3])
        if edges:
            one_low, one_high = min(low[0], low[1]), max(high[0], high[1])
        else:
            two_low, two_high = min(two_low, low[1]), max(two_high, high[1])
        apart = max(max(one_low - two_high, two_low - one_high))
        near_enough = pushed or apart <= real(1.01) * min(summed(half), limit)
        if edges and near_enough:
            near_enough = edges_cross(x[0], x[1], x[2], x[3])
        return near_enough

    @func
    def gap(x, before, half, limit):
        """C, n, b and whether the pair is one to project: edges only where they cross."""
        n, b, inside = touch(x, side_of(x, before))
        C = dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3]) - min(summed(half), limit)
        return C, n, b, inside or not edges

    @func
    def between(b, p, v):
        """The velocity between both sides."""
        return sum([b[j] * v[p[j]] for j in static(range(4))])

    @func
    def across(n, u):
        return u - dot(n, u) * n

    @func
    def answered(C, n, u, rate, last, softness, easy, mu, lam, lam_t, slid, gravity, dt):
        """Both multipliers of a pair behind its turn in a sweep, how far what hits has slid before that, and the force.

        u: how far the sides have come by each other; rate, last: their velocities before this step and before the last;
        softness: 1 / A, easy: the same of all masses undivided; mu: the coefficient of friction.
        """
        dlam = max(-C * softness, -lam)
        hits = share_of_impact(-dot(n, rate), static(STILL) * resting_speed(gravity, dt))
        if lam <= 0.0:
            slid = (hits * part_before(C - dot(n, u), C)) * across(n, u)
        held = across(n, lam_t)
        free = held - softness * (across(n, u) - slid)
        most = mu * (lam + dlam)
        given = (1.0 - hits) * turning(across(n, rate), across(n, last), easy * most / dt)
        given, most = most * given, most * unturned(given)
        free -= given
        square = dot(free, free)
        if square > most * most:
            free *= most / sqrt(square)
        free += given
        return lam + dlam, free, slid, dlam * n + (free - held)

    @kernel(name=f"weigh_pairs_{kind}_{first}")
    def weigh(
        begin: int,
        count: array[int],
        points: array2d[int],
        limit: array[real],
        half: array[real],
        x_ref: array[vec3],
        particle: array[particle_type],
        multiplier: array[real],
        share: array[real],
    ):
        k = tid()
        if k < count[kind]:
            row = begin + k
            p = [points[row, j] for j in static(range(4))]
            x, before = [position(particle[p[j]]) for j in static(range(4))], [x_ref[p[j]] for j in static(range(4))]
            thick, pushed = [half[p[j]] for j in static(range(4))], False
            if not first:
                pushed = multiplier[row] > 0.0
            shares = [real(0.0) for _ in static(range(4))]
            if may_touch(x, before, thick, limit[row], pushed):
                C, _, b, counts = gap(x, before, thick, limit[row])
                if (pushed or C < 0.0) and counts:
                    # Not below zero, as weights may be by rounding: who has a share is in a pair that writes
                    # correction.
                    shares = [max(abs(C) * static(signs)[j] * b[j], 0.0) for j in static(range(4))]
            for j in static(range(4)):
                share[4 * row + j] = shares[j]

    @kernel(name=f"project_pairs_{kind}_{first}")
    def project(
        begin: int,
        count: array[int],
        points: array2d[int],
        limit: array[real],
        half: array[real],
        friction: array[real],
        w: array[real],
        total: array[real],
        x_ref: array[vec3],
        v: array[vec3],
        v_last: array[vec3],
        gravity: array[vec3],
        dt: real,
        particle: array[particle_type],
        multiplier: array[real],
        along: array[vec3],
        slid_before: array[vec3],
        correction: array[vec3],
    ):
        k = tid()
        if k < count[kind]:
            row = begin + k
            p = [points[row, j] for j in static(range(4))]
            shared = [total[p[j]] for j in static(range(4))]
            lam, lam_t, slid = real(0.0), vec3(), vec3()
            if not first:
                lam, lam_t, slid = multiplier[row], along[row], slid_before[row]
            if shared[0] + shared[1] + shared[2] + shared[3] > 0.0:
                moved = [vec3() for _ in static(range(4))]
                of = [particle[p[j]] for j in static(range(4))]
                x, before = [position(of[j]) for j in static(range(4))], [x_ref[p[j]] for j in static(range(4))]
                thick = [half[p[j]] for j in static(range(4))]
                C, n, b, counts = real(0.0), vec3(), (real(0.0), real(0.0), real(0.0), real(0.0)), False
                if may_touch(x, before, thick, limit[row], lam > 0.0):
                    C, n, b, counts = gap(x, before, thick, limit[row])
                if (C < 0.0 or lam > 0.0) and counts:
                    weight = [w[p[j]] * b[j] for j in static(range(4))]
                    by_depth = sum([static(signs)[j] * weight[j] * shared[j] for j in static(range(4))])  # A |C|
                    if by_depth > 0.0:
                        u = sum([b[j] * displacement(of[j], before[j]) for j in static(range(4))])
                        rate, last = between(b, p, v), between(b, p, v_last)
                        mu = 0.5 * summed([friction[p[j]] for j in static(range(4))])
                        easy = sum([weight[j] * b[j] for j in static(range(4))])
                        lam, lam_t, slid, force = answered(
                            C, n, u, rate, last, abs(C) / by_depth, easy, mu, lam, lam_t, slid, gravity[0], dt
                        )
                        moved = [weight[j] * force for j in static(range(4))]
                for j in static(range(4)):
                    correction[4 * row + j] = moved[j]
            multiplier[row], along[row], slid_before[row] = lam, lam_t, slid

    @kernel(name=f"measure_pairs_{kind}")
    def measure(
        begin: int,
        count: array[int],
        points: array2d[int],
        limit: array[real],
        half: array[real],
        x_ref: array[vec3],
        particle: array[particle_type],
        deep: array[real],
    ):
        k = tid()
        if k < count[kind]:
            row = begin + k
            p = [points[row, j] for j in static(range(4))]
            x, before = [position(particle[p[j]]) for j in static(range(4))], [x_ref[p[j]] for j in static(range(4))]
            thick, depth = [half[p[j]] for j in static(range(4))], real(0.0)
            if may_touch(x, before, thick, limit[row], False):
                C, _, _, counts = gap(x, before, thick, limit[row])
                if C < 0.0 and counts:
                    depth = where(-C > min(summed(thick), limit[row]), C, -C)
            deep[row] = depth

    @kernel(name=f"look_at_pairs_{kind}_{first}")
    def look(
        begin: int,
        count: array[int],
        points: array2d[int],
        limit: array[real],
        half: array[real],
        friction: array[real],
        total: array[real],
        w: array[real],
        x_ref: array[vec3],
        particle: array[particle_type],
        multiplier: array[real],
        along: array[vec3],
        slid_before: array[vec3],
        v: array[vec3],
        gravity: array[vec3],
        dt: real,
        rounding: real,
        switching: array[int],
    ):
        k = tid()
        row = begin + k
        found = 0
        if not first:
            found = switching[row]
        if k < count[kind]:
            p = [points[row, j] for j in static(range(4))]
            of, before = [particle[p[j]] for j in static(range(4))], [x_ref[p[j]] for j in static(range(4))]
            x, thick = [position(of[j]) for j in static(range(4))], [half[p[j]] for j in static(range(4))]
            C, n, b, counts = gap(x, before, thick, limit[row])
            C_0, _, _, _ = gap(before, before, thick, limit[row])
            lam, lam_t, slid = real(0.0), vec3(), vec3()
            if not first:
                lam, lam_t, slid = multiplier[row], along[row], slid_before[row]
            softness, closed = real(0.0), C < 0.0 or lam > 0.0
            by_depth = sum([static(signs)[j] * w[p[j]] * b[j] * total[p[j]] for j in static(range(4))])
            pushes = -C
            if closed and by_depth > 0.0:
                softness = abs(C) / by_depth
                if softness > 0.0:
                    pushes += lam / softness
            if counts and abs(pushes) <= NEAR * abs(C - C_0) + rounding:
                found = found | static(CLOSING)
            if edges and counts and closed:  # edges count as long as they cross
                ends = [abs(static(signs)[j] * b[j]) for j in static(range(4))]
                if min(min(ends[0], ends[1]), min(ends[2], ends[3])) <= NEAR:
                    found = found | static(CLOSING)
            if counts and pushes > 0.0:
                u = sum([b[j] * displacement(of[j], before[j]) for j in static(range(4))])
                if lam <= 0.0:
                    hits = share_of_impact(-dot(n, between(b, p, v)), static(STILL) * resting_speed(gravity[0], dt))
                    slid = (hits * part_before(C - dot(n, u), C)) * across(n, u)
                stopping = length(across(n, lam_t) - softness * (across(n, u) - slid))
                most = 0.5 * summed([friction[p[j]] for j in static(range(4))]) * (lam - C * softness)
                if most > 0.0 and near(stopping, most, most):
                    found = found | static(CONE)
        switching[row] = found

    weigh.race_free = project.race_free = measure.race_free = look.race_free = True  # every pair writes rows of its own
    return SweepKernels(weigh, project, measure, look)


@memoize
def report_kernel(real: Scalar) -> Kernel:
    """Takes the deepest of what was measured of a kind, and the number of those that have passed, in `PIECES`."""

    @kernel
    def take_deepest(begin: int, kind: int, count: array[int], deep: array[real], report: array2d[real]):
        piece = tid()
        worst, crossed, size = report[piece, static(WORST)], report[piece, static(CROSSED)], count[kind]
        each = (size + static(PIECES - 1)) // static(PIECES)
        for k in range(piece * each, min((piece + 1) * each, size)):
            depth = deep[begin + k]
            worst = max(worst, abs(depth))
            if depth < 0.0:
                crossed += 1.0
        report[piece, static(WORST)], report[piece, static(CROSSED)] = worst, crossed

    take_deepest.race_free = True  # every piece has a row of its own
    return take_deepest


@memoize
def particle_kernels(real: Scalar) -> tuple[Kernel, Kernel]:
    """`add_shares`: S of every particle; `gather`: moves it by what its pairs have written.

    offset (n + 1,), slots: for each particle where it stands, 4 row + point, in the order of pairs.
    """
    vec3, layout = vector(3, real), particle_layout(real)
    particle_type, moved_by = layout.type(real), layout.moved_by

    @kernel
    def add_shares(offset: array[int], slots: array[int], share: array[real], total: array[real]):
        i = tid()
        found = real(0.0)
        for e in range(offset[i], offset[i + 1]):
            found += share[slots[e]]
        total[i] = found

    @kernel
    def gather(
        offset: array[int],
        slots: array[int],
        total: array[real],
        correction: array[vec3],
        particle: array[particle_type],
    ):
        i = tid()
        if total[i] > 0.0:
            moved = vec3()
            for e in range(offset[i], offset[i + 1]):
                moved += correction[slots[e]]
            particle[i] += moved_by(moved)

    add_shares.race_free = gather.race_free = True  # a slot belongs to one particle
    return add_shares, gather
