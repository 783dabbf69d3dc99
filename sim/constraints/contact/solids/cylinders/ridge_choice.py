"""Which edges of meshes the sides and rims of cylinders meet in a step: chosen where it is predicted to end.

The faces beside an edge say on which side of the cylinder it is.  The edges of the far side of a mesh are met the other
way round: they are as deep as the cylinder is wide, at least, and were so as the step began.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.solids.cylinders.ridge_rim import contact_ridge_rim, rim_met
from sim.constraints.contact.solids.cylinders.ridge_side import contact_ridge_side, ridge_of, side_met
from sim.constraints.contact.solids.row_kernels import make_choosing, make_passing
from sim.constraints.slots.bodies import seen_from
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, max, min, sqrt, static
from sim.core.lang.frontend.function import Function, func
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar
from sim.core.runtime.launch.kernel import Kernel

DEEP = 0.5
"""So deep, in parts of the least half width of a cylinder, an edge may be as a step begins, and as it ends."""
PLACES, HALVINGS = 32, 12
"""Of the way of an edge that comes as far in a step as half the width of the cylinder, where it is looked how deep it
is; and steps of the search along it."""
RIDGE_CONTACTS = {contact_ridge_side: ("side",), contact_ridge_rim: ("rim", "angle")}
"""Contacts of cylinders with edges of meshes, and their parameters that every step chooses."""


@func
def far_apart(x, x_0, around, other_scale, a, b):
    """Whether an edge is further from a ball about the first than three times as far as it comes in a step."""
    p, u = ridge_of(x, other_scale, a, b)
    q, v = ridge_of(x_0, other_scale, a, b)
    come = max(length(p - q), length(p + u - q - v))
    return length(p + 0.5 * u) > 0.5 * length(u) + around + 3.0 * come


def found_by(c: Constraint, real: Scalar) -> Function:
    """`found(x, x_0, k, data)` in a kernel: which side or rim row k is about, of a cylinder that sees the mesh at x
    and, before, at x_0; at which angle of a rim; how far away the edge is, and was, along the normal at x."""
    of_side = c is contact_ridge_side

    @func
    def apart(x, x_0, k, data, n, t, place):
        a, b, scale = data.a[k], data.b[k], data.other_scale[k]
        p, u = ridge_of(x, scale, a, b)
        q, v = ridge_of(x_0, scale, a, b)
        return dot(n, p + t * u - place), dot(n, q + t * v - place)

    @func
    def found(x, x_0, k, data):
        a, b, left, right, scale = data.a[k], data.b[k], data.left[k], data.right[k], data.other_scale[k]
        radius, half_height = data.radius[k], data.half_height[k]
        chosen, at, gap, begins = real(0.0), real(0.0), real(0.0), real(0.0)
        if static(of_side):
            side, n, t, place = side_met(x, radius, half_height, scale, a, b, left, right)
            if side != 0.0:
                chosen = side
                gap, begins = apart(x, x_0, k, data, n, t, place)
        else:
            for rim in static((1.0, -1.0)):
                root = data.root[k]
                met, angle, n, t, place = rim_met(x, radius, half_height, root, real(rim), scale, a, b, left, right)
                if met:
                    now, before = apart(x, x_0, k, data, n, t, place)
                    if chosen == 0.0 or before > begins:  # of both rims the one that was not on the far side
                        chosen, at, gap, begins = real(rim), angle, now, before
        return chosen, at, gap, begins

    return found


@memoize
def make_ridge_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """What rows `tid()` of one of `RIDGE_CONTACTS` are about, from predicted poses."""
    found, of_side = found_by(c, real), c is contact_ridge_side

    @func
    def chosen(a, b, k, data, meshes):
        x, x_0, way, at = seen_from(b[0], b[1]), seen_from(a[0], a[1]), real(0.0), real(0.0)
        radius, half_height = data.radius[k], data.half_height[k]
        if not far_apart(x, x_0, radius + half_height, data.other_scale[k], data.a[k], data.b[k]):
            met, angle, _, begins = found(x, x_0, k, data)
            if begins > -static(DEEP) * min(radius, half_height):
                way, at = met, angle
        if static(of_side):
            data.side[k] = way
        else:
            data.rim[k], data.angle[k] = way, at

    return make_choosing(c, slots, real, points_of(c, slots, real), chosen)


@memoize
def make_ridge_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the rows `tid()` of one of `RIDGE_CONTACTS`: those whose edge has come deeper within a step than the next one
    would look for, by the greatest number, from 1 on."""
    found, of_side = found_by(c, real), c is contact_ridge_side

    @func
    def outside(p, radius, half_height):
        return max(sqrt(p[0] * p[0] + p[1] * p[1]) - radius, abs(p[2]) - half_height)

    @func
    def deepest_along(p, q, radius, half_height):
        """The least distance of a line from a cylinder, which is convex along it: by the golden section."""
        low, high = real(0.0), real(1.0)
        for _ in range(HALVINGS):
            part = static(0.5 * (5.0**0.5 - 1.0)) * (high - low)
            left, right = p + (high - part) * (q - p), p + (low + part) * (q - p)
            if outside(left, radius, half_height) < outside(right, radius, half_height):
                high = low + part
            else:
                low = high - part
        return outside(p + (0.5 * (low + high)) * (q - p), radius, half_height)

    @func
    def comes_through(x, x_0, k, data, deep):
        """Whether an edge that comes far in a step has been deeper on its way than as that begins and as it ends."""
        a, b, radius, half_height = data.a[k], data.b[k], data.radius[k], data.half_height[k]
        p, u = ridge_of(x_0, data.other_scale[k], a, b)
        q, v = ridge_of(x, data.other_scale[k], a, b)
        passed = False
        if max(length(q - p), length(q + v - p - u)) > min(radius, half_height):
            ends = min(deepest_along(p, p + u, radius, half_height), deepest_along(q, q + v, radius, half_height))
            for i in range(1, PLACES):
                s = real(i) / real(PLACES)
                at, along = (1.0 - s) * p + s * q, (1.0 - s) * u + s * v
                passed = passed or deepest_along(at, at + along, radius, half_height) < min(ends, real(0.0)) - deep
        return passed

    @func
    def passed(a, b, k, data, meshes):
        x, before, come = seen_from(b[0], b[1]), seen_from(a[0], a[1]), False
        radius, half_height = data.radius[k], data.half_height[k]
        deep = static(DEEP) * min(radius, half_height)
        if not far_apart(x, before, radius + half_height, data.other_scale[k], data.a[k], data.b[k]):
            chosen, _, ends, begins = found(x, before, k, data)
            come = chosen != 0.0 and begins > -deep and ends < -deep
            if static(of_side):
                come = come or comes_through(x, before, k, data, deep)
        return come

    return make_passing(c, slots, real, points_of(c, slots, real), passed)
