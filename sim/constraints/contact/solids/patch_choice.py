"""Which patches of a shape meet a signed distance in a step, and where: chosen where it is predicted to end."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.boxes import middle
from sim.constraints.contact.solids.distance_patches import RIM, patch_place, slope_of
from sim.constraints.contact.solids.distances import FUNCTIONS
from sim.constraints.contact.solids.row_kernels import make_choosing
from sim.constraints.slots.bodies import seen_from
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, cos, max, min, sin, sqrt, static
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.vector import dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, float32, float64, vector
from sim.core.runtime.launch.kernel import Kernel

SAMPLES, AROUND = 5, 16
"""Places along each side of a patch, and along a rim, from which the deepest one is looked for."""
HALVINGS = 20
"""Of the distance between these, until Newton's method goes on."""
POLISH, FURTHEST = 8, 0.25
"""Its steps as a place is chosen, and how far these go at most."""
LEVEL = {float64: 1e-6, float32: 1e-3}
"""Slope along a patch above which a place is not deepest."""
VALLEY = 1e-4
"""The same along a valley, where all places are as deep but for as much of the size."""
ASIDE = {float64: 1e-5, float32: 3e-3}
"""How far beside a place slopes are compared, in parts of the patch: above what rounding makes of them."""
SHARP = 1e-2
"""What curves by less than this part of the patch for a radius is an edge or a corner of the distance itself."""
NEAR = 0.25
"""How far from what it may meet a place is looked at, in parts of the size of its shape, beside what it comes."""
CURVED = 1e-3
"""Least second derivative along a patch, over its size: what is flatter is as deep at the ends, to within a two
thousandth of the size."""


@memoize
def make_patch_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """The deepest places of the patches `tid()` of one of `PATCHES`, from predicted poses.

    From the deepest of some places it is looked around in ever smaller steps, and on by Newton's method.  Along what
    does not curve a place stays where it is.
    """
    distance, aside = FUNCTIONS[c], real(ASIDE[real])
    slope, vec3 = slope_of(distance), vector(3, real)

    @func
    def depth(o, u, v, s, t, round, scale):
        p, _, _ = patch_place(o, u, v, s, t, round)
        return distance(p, scale)

    @func
    def slopes(o, u, v, s, t, round, scale):
        """Derivatives of the distance along a patch."""
        p, by_s, by_t = patch_place(o, u, v, s, t, round)
        g = slope(p, scale)
        return dot(g, by_s), dot(g, by_t)

    @func
    def sampled(o, u, v, round, wide, scale):
        """Coordinates of the deepest of some places, and how far these are from each other."""
        least, s, t, apart = real(1e30), real(0.0), real(0.0), real(2.0 / (SAMPLES - 1))
        if abs(round - static(RIM)) < 0.5:
            apart = real(static(2.0 * 3.141592653589793 / AROUND))
            for i in range(AROUND):
                found = depth(o, u, v, real(i) * apart, real(0.0), round, scale)
                if found < least:
                    least, s = found, real(i) * apart
        else:
            for i in range(SAMPLES):
                for j in range(SAMPLES):
                    if wide or j == 0:
                        a, b = real(i) * apart - 1.0, real(0.0)
                        if wide:
                            b = real(j) * apart - 1.0
                        found = depth(o, u, v, a, b, round, scale)
                        if found < least:
                            least, s, t = found, a, b
        return least, s, t, apart

    @func
    def deepest(o, u, v, round, wide, scale):
        """Coordinates of the deepest place, which may be just outside."""
        least, s, t, apart = sampled(o, u, v, round, wide, scale)
        for _ in range(HALVINGS):
            apart *= 0.5
            a, b = s, t
            for way in static(((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))):
                if wide or static(way[1] == 0.0):
                    p, q = a + real(way[0]) * apart, b + real(way[1]) * apart
                    found = depth(o, u, v, p, q, round, scale)
                    if found < least:
                        least, s, t = found, p, q
        return s, t

    @func
    def bends(o, u, v, s, t, round, wide, scale):
        """Second derivatives along a patch, as differences of slopes say: the greater and the lesser one (of a line 0)
        along directions across each other, and the first of these."""
        f_1, h_1 = slopes(o, u, v, s + aside, t, round, scale)
        f_0, h_0 = slopes(o, u, v, s - aside, t, round, scale)
        high, low, x, y = (f_1 - f_0) / (2.0 * aside), real(0.0), real(1.0), real(0.0)
        if wide:
            f_3, h_3 = slopes(o, u, v, s, t + aside, round, scale)
            f_2, h_2 = slopes(o, u, v, s, t - aside, round, scale)
            a, b, c = high, 0.25 * (h_1 - h_0 + f_3 - f_2) / aside, 0.5 * (h_3 - h_2) / aside
            off = sqrt(0.25 * (a - c) * (a - c) + b * b)
            high, low = 0.5 * (a + c) + off, 0.5 * (a + c) - off
            x, y = high - c, b
            if a < c:
                x, y = b, high - a
            size = sqrt(x * x + y * y)
            if size > 0.0:
                x, y = x / size, y / size
            else:
                x, y = real(1.0), real(0.0)
        return high, low, x, y

    @func
    def downhill(slope, bend):
        """How far to go along a direction."""
        way = -slope / max(bend, real(1e-30))
        return max(min(way, real(FURTHEST)), real(-FURTHEST))

    @func
    def settled(o, u, v, s, t, round, wide, scale, size):
        """The coordinates of a deepest place from some near it; the inverse of second derivatives, 0 along directions
        in which nothing curves, and altogether where nothing does in any; and whether it is one."""
        for _ in range(POLISH):
            high, low, x, y = bends(o, u, v, s, t, round, wide, scale)
            f, h = slopes(o, u, v, s, t, round, scale)
            along, beside = downhill(x * f + y * h, high), real(0.0)
            if wide and (low > static(CURVED) * size or abs(x * h - y * f) > static(VALLEY) * size):
                beside = downhill(x * h - y * f, low)
            s, t = s + x * along - y * beside, t + y * along + x * beside
        high, low, x, y = bends(o, u, v, s, t, round, wide, scale)
        f, h = slopes(o, u, v, s, t, round, scale)
        least, inverse, level = static(CURVED) * size, vec3(), static(LEVEL[real]) * size
        edged = high * static(SHARP) > size  # where slopes jump there is none that is zero
        found = high > least and (edged or (low > -least and abs(x * f + y * h) < level))
        if found:
            inverse = vec3(x * x / high, x * y / high, y * y / high)
            if wide and low > least:
                inverse += vec3(y * y / low, -x * y / low, x * x / low)
            elif wide:
                level = max(level, static(VALLEY) * size)
            found = edged or abs(x * h - y * f) < level
        return s, t, inverse, found

    @func
    def is_sharp(inverse, longest):
        """Whether a distance curves along a patch by less than it should, in any direction; of a place it does not."""
        mean = 0.5 * (inverse[0] + inverse[2])
        off = sqrt(0.25 * (inverse[0] - inverse[2]) * (inverse[0] - inverse[2]) + inverse[1] * inverse[1])
        least = mean - off
        if least < real(1e-6) * (mean + off):  # a direction in which nothing curves
            least = mean + off
        return least > 0.0 and least * longest < static(SHARP)

    @func
    def curved(p, way, half, scale):
        """Whether the distance has a least value inward of a place, within twice `half` along a unit vector."""
        side = aside * half
        rate, low, high = dot(slope(p, scale), way), slope(p - side * way, scale), slope(p + side * way, scale)
        bend = 0.5 * (dot(high, way) - dot(low, way)) / side
        return rate < 0.0 and -rate < 2.0 * half * bend

    @func
    def outermost(x, p, out, size, scale):
        """Whether nothing of the shape next to a place, along the axes that it is at a border of, is deeper and met
        there: what is seen to come deeper without an end is met at other places, with the same normal."""
        found = True
        for j in static(range(3)):
            half = abs(out[j]) * size[j]
            if found and half > 0.0:
                unit = vec3()
                unit[j] = 1.0
                if out[j] > 0.0:
                    unit[j] = -1.0
                found = not curved(p, quat_rotate(x.q, unit), half, scale)
        return found

    @func
    def inside(s, t, round, local, radius):
        """Whether coordinates are those of a place of a patch; of a rim they all are."""
        of_flat = s >= -1.0 and s < 1.0 and t >= -1.0 and t < 1.0
        in_disc = round < 1.5 or local[0] * local[0] + local[1] * local[1] < radius * radius
        return (round > 0.5 and round < 1.5) or (of_flat and in_disc)

    @func
    def looked_for(x, x_0, side, k, size, scale, data):
        """Of a patch, or the one across from it: whether it meets something, how far it is away, coordinates of its
        deepest place, and the inverse of second derivatives there."""
        round, out = data.round[k], side * data.out[k]
        origin, along, across = middle(side * data.origin[k], size), middle(data.u[k], size), middle(data.v[k], size)
        o, u, v = x.p + quat_rotate(x.q, origin), quat_rotate(x.q, along), quat_rotate(x.q, across)
        of_rim, extent = abs(round - static(RIM)) < 0.5, length(u) + length(v)
        wide, way = length(v) > 0.0 and not of_rim, length(o - (x_0.p + quat_rotate(x_0.q, origin)))
        gap, live = distance(o, scale) - 3.0 * way - data.thickness[k], False
        s, t, inverse = real(0.0), real(0.0), vec3()
        if extent == 0.0:
            live = gap < static(NEAR) * length(size)
        elif gap < 2.0 * extent:
            s, t = deepest(o, u, v, round, wide, scale)
            s, t, inverse, live = settled(o, u, v, s, t, round, wide, scale, max(length(u), length(v)))
            if of_rim:
                out = vec3(cos(s), sin(s), out[2])
            local, _, _ = patch_place(origin, along, across, s, t, round)
            live = live and inside(s, t, round, local, size[0])
        if live:
            p, _, _ = patch_place(o, u, v, s, t, round)
            gap = distance(p, scale)
            live = outermost(x, p, out, size, scale)
        return live, gap, s, t, inverse

    @func
    def chosen(a, b, k, data, meshes):
        x, x_0 = seen_from(b[0], b[1]), seen_from(a[0], a[1])
        size, scale = data.size[k], data.scale[k]
        at, inverse, least, sharp = vec3(), vec3(), real(1e30), real(0.0)
        for i in range(1 + int(data.both[k])):
            side = real(1 - 2 * i)
            live, gap, s, t, found = looked_for(x, x_0, side, k, size, scale, data)
            if live and gap < least:
                least, at, inverse = gap, vec3(s, t, side), found
        if least < data.thickness[k]:
            longest = max(length(middle(data.u[k], size)), length(middle(data.v[k], size)))
            if is_sharp(inverse, longest):
                sharp = real(1.0)
        data.at[k], data.inverse[k], data.sharp[k] = at, inverse, sharp

    return make_choosing(c, slots, real, points_of(c, slots, real), chosen)
