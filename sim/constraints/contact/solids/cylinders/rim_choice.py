"""What sides, rims and ends of cylinders meet in a step: chosen where it is predicted to end (see `box_choice`).

The faces of both solids, and the directions across their axes and edges, say how far these are apart along them; the
best of that is about faces, or what does better by a tenth is.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.box_choice import BESIDE, FACING, LOOKED, PARALLEL, RIM
from sim.constraints.contact.primitives.boxes import along
from sim.constraints.contact.solids.cylinders.rim_places import ALIKE, CROSSES, LEANS, begin_at, crossing_of, found_from
from sim.constraints.contact.solids.cylinders.rims import (
    beside,
    contact_rim_edge,
    contact_side,
    edge_of,
    rim_and_edge,
    rim_at,
)
from sim.constraints.contact.solids.row_kernels import make_choosing
from sim.constraints.slots.bodies import seen_from
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, cos, max, sqrt, static, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_to_matrix
from sim.core.lang.library.vector import cross, dot, length
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel


@memoize
def make_rim_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """What rows `tid()` of `contact_side`, `contact_rim_edge` or `contact_rim_face` are about, from predicted poses.

    A solid is a box of half lengths, here without width for round ones, and a radius around it; `flat` where the ends
    of that are, 0 where they are round.
    """
    vec3 = vector(3, real)

    @func
    def reach_of(m, axes, spine, around, flat):
        """How far a solid reaches along a unit vector from its middle."""
        out = sum([spine[j] * abs(dot(m, axes[j])) for j in static(range(3))])
        tilt = dot(m, axes[2])
        return out + around * where(flat > 0.5, sqrt(max(1.0 - tilt * tilt, real(0.0))), real(1.0))

    @func
    def better(best, normal, m, p, first, second):
        """The unit vector along which solids are further apart."""
        off = dot(m, p)
        gap = abs(off) - reach_of(m, *first) - reach_of(m, *second)
        if gap > best:
            best, normal = gap, where(off < 0.0, -m, m)
        return best, normal

    @func
    def of_faces(p, first, second):
        """Along which face solids are furthest apart, how far, and which way it looks; of round ones the ends."""
        best, normal = real(-1e30), vec3()
        for side in static(range(2)):
            axes, spine, around, flat = first if side == 0 else second
            for j in static(range(3)):
                boxy = around == 0.0
                if boxy or (flat > 0.5 and static(j == 2)):
                    best, normal = better(best, normal, axes[j], p, first, second)
        return best, normal

    @func
    def of_sides(p, first, second):
        """The same across edges and axes."""
        best, normal = real(-1e30), vec3()
        for i in static(range(3)):
            for j in static(range(3)):
                ones, others = first[1][i] > 0.0, second[1][j] > 0.0
                m = cross(first[0][i], second[0][j])
                square = dot(m, m)
                if ones and others and square > PARALLEL:
                    best, normal = better(best, normal, m / sqrt(square), p, first, second)
        for side in static(range(2)):
            axes, _, around, _ = first if side == 0 else second
            if around > 0.0:
                m = p - dot(p, axes[2]) * axes[2]
                if dot(m, m) > 0.0:
                    best, normal = better(best, normal, m / length(m), p, first, second)
        return best, normal

    @func
    def axes_of(seen):
        R = quat_to_matrix(seen.q)
        return [vec3(R[0, j], R[1, j], R[2, j]) for j in static(range(3))]

    @func
    def own_axes():
        return [vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0), vec3(0.0, 0.0, 1.0)]

    @func
    def in_cone(n, axes, edge):
        """Whether a direction out of a box is one of those of an edge, as nearly as `BESIDE`; a line of centres has
        all."""
        met = True
        for j in static(range(3)):
            met = met and edge[j] * dot(n, axes[j]) > -BESIDE
        return met

    @func
    def least_of(best, size):
        """How far edges have to keep solids apart, where faces do so by `best`."""
        return where(best < 0.0, 1.1 * best - 1e-5 * size, best)

    @func
    def solids_of_edge(seen, k, data):
        """The cylinder, and what its side or rim meets."""
        spine = vec3(0.0, 0.0, data.half_height[k])
        first = (own_axes(), spine, data.radius[k], real(1.0))
        return first, (axes_of(seen), data.other_half[k], data.thickness[k], data.flat[k])

    @func
    def side(seen, k, data):
        live, half, edge = real(0.0), data.other_half[k], data.edge[k]
        first, second = solids_of_edge(seen, k, data)
        q, b = edge_of(seen, half, edge)
        if 1.0 - b[2] * b[2] > PARALLEL:
            n, s, t = beside(q, b)
            gap = dot(n, q) - data.radius[k] - data.thickness[k]
            best, _ = of_faces(seen.p, first, second)
            inside = abs(s) < data.half_height[k] and abs(t) < dot(along(edge), half)
            round = data.thickness[k] > 0.0
            if inside and (round or in_cone(-n, second[0], edge)):
                if gap >= least_of(best, data.radius[k] + data.half_height[k] + length(half)):
                    live = real(1.0)
        data.live[k] = live

    @func
    def rim(seen, k, data):
        chosen, half, edge, radius = real(0.0), data.other_half[k], data.edge[k], data.radius[k]
        thickness, reach, h = data.thickness[k], dot(along(edge), half), data.half_height[k]
        first, second = solids_of_edge(seen, k, data)
        q, b = edge_of(seen, half, edge)
        best, _ = of_faces(seen.p, first, second)
        best_of_sides, _ = of_sides(seen.p, first, second)
        least = least_of(max(best, best_of_sides), radius + h + length(half))
        root, place = data.root[k], real(0.0)
        flat, _, disc = crossing_of(q, b, radius, root)
        for up in static((1.0, -1.0)):
            height, angle, leans = real(up) * h, real(0.0), real(BESIDE)
            there = root > 0.0 or (flat > CROSSES and disc > CROSSES)
            if thickness == 0.0:
                angle, there = found_from(q, b, radius, height, begin_at(q, b, radius, height, root))
                if there:
                    other, both = found_from(q, b, radius, height, begin_at(q, b, radius, height, -root))
                    if both and cos(other - angle) > ALIKE:  # each rim has a row of its own
                        there = root * real(up) > 0.0
                leans = real(LEANS)
            p, r, n = rim_and_edge(q, b, reach, radius, height, thickness, root, angle)
            size = length(n)
            if size > 0.0 and there:
                n = n / size
                t, out = dot(p - q, b), n[0] * r[0] + n[1] * r[1]
                # The end of a line of centres is a contact of its own: as near, but for rounding.
                met = (
                    abs(t) < reach - static(RIM) * (reach + radius)
                    and out > -leans * radius
                    and real(up) * n[2] > -leans
                )
                met = met and (thickness > 0.0 or in_cone(-n, second[0], edge))
                gap = dot(n, p - r) - thickness
                if met and gap >= least:
                    least, chosen, place = gap, real(up), angle
        data.rim[k], data.angle[k] = chosen, place

    @func
    def face(seen, k, data):
        half, radius, h, corner = data.half[k], data.radius[k], data.half_height[k], data.corner[k]
        round, found = data.round[k] > 0.5, vec3()
        spine, around = where(round, vec3(0.0, 0.0, half[2]), half), where(round, half[0], real(0.0))
        first = (own_axes(), spine, around, real(1.0))
        second = (axes_of(seen), vec3(0.0, 0.0, h), radius, real(1.0))
        best, n = of_faces(seen.p, first, second)
        apart, m = of_sides(seen.p, first, second)
        if abs(dot(m, n)) >= FACING:
            apart = best
        if best > 0.0 or best >= 1.1 * apart - 1e-5 * (length(half) + radius + h):
            for j in static(range(3)):
                if abs(n[j]) > FACING and (not round or static(j == 2)):
                    unit = vec3()
                    unit[j] = where(n[j] < 0.0, real(-1.0), real(1.0))
                    at, _ = rim_at(seen, radius, h, corner, unit)
                    out = max(abs(at[(j + 1) % 3]) - half[(j + 1) % 3], abs(at[(j + 2) % 3]) - half[(j + 2) % 3])
                    if round:
                        out = sqrt(at[0] * at[0] + at[1] * at[1]) - half[0]
                    if out < static(RIM) * length(half):
                        found = unit
        data.face[k] = found

    of_side, of_rim = c is contact_side, c is contact_rim_edge
    choose_row = side if of_side else rim if of_rim else face

    @func
    def sizes(k, data):
        """How large both solids are."""
        if of_side or of_rim:
            return data.radius[k] + data.half_height[k] + length(data.other_half[k]) + data.thickness[k]
        return data.radius[k] + data.half_height[k] + length(data.half[k])

    @func
    def nothing(k, data):
        if of_side:
            data.live[k] = real(0.0)
        elif of_rim:
            data.rim[k] = real(0.0)
        else:
            data.face[k] = vec3()

    @func
    def chosen(a, b, k, data, meshes):
        seen = seen_from(b[0], b[1])
        if length(seen.p) < length(seen.p - seen_from(a[0], a[1]).p) + (1.0 + LOOKED) * sizes(k, data):
            choose_row(seen, k, data)
        else:
            nothing(k, data)

    return make_choosing(c, slots, real, points_of(c, slots, real), chosen)
