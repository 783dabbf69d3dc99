"""Which faces, corners and edges of boxes and capsules meet in a step: chosen where it would end without forces.

The face is the one that keeps two boxes apart best, and its opposite where it is parallel (separating axes: S.
Gottschalk, M. C. Lin, D. Manocha, "OBBTree", SIGGRAPH 1996), not the one nearest to a corner: a corner on an edge of
the other, as in a stack, is near two.  And not where forces would take a box: what slides over the seam of two others
falls by less than it comes in a step, but a corner behind the seam by less than that would be nearer to the side.

Edges cross along the common normal that keeps them apart best, if no face does so better by more than a tenth.
Parallel edges do not cross: their ends are corners.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.boxes import contact_corner, corner_of, middle
from sim.constraints.particles import particle_layout
from sim.constraints.projection import parameter_struct
from sim.constraints.slots.bodies import body_struct, seen_from, slot_struct
from sim.constraints.slots.linearization import movers_of, points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import fields_at
from sim.core.lang.frontend.builtins import abs, sqrt, static, tid, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import imaginary, quat_to_matrix
from sim.core.lang.library.vector import cross, dot, length, spatial_top
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, quaternion, vector
from sim.core.runtime.arrays.array import array
from sim.core.runtime.arrays.dimensions import array2d
from sim.core.runtime.launch.kernel import Kernel, kernel

FACING = 0.95
"""Cosine of the angle between faces that count as parallel."""
RIM = 1e-3
"""How far outside of a face a corner may be that lies on it, in sizes of the box."""
PARALLEL = 1e-4
"""|d_1 x d_2|^2 below which edges count as parallel."""
LOOKED = 1.0
"""Without lists of near pairs, what a step may push apart or together by so many sizes of both is looked at."""
BESIDE = 0.2
"""How far the normal of a crossing may lean over an edge to the far side of its face, as the sine of the angle."""


CORNERS_AT_ONCE = 8
"""Corners of a box, as the other one sees it: which face they may be on is the same for all."""


def rows_at_once(c: Constraint) -> int:
    """How many rows of a near pair a thread looks at."""
    return CORNERS_AT_ONCE if c is contact_corner else 1


@memoize
def make_unforced(real: Scalar) -> Kernel:
    """How far bodies `tid()` come in a step without forces: what is held goes as it is moved, dx."""
    vec3 = vector(3, real)

    @kernel
    def without_forces(
        body_qd: array[vector(6, real)], inv_mass: array[real], dx: array[vec3], dt: real, out: array[vec3]
    ):
        i = tid()
        out[i] = dx[i]
        if inv_mass[i] > 0.0:
            out[i] = dt * spatial_top(body_qd[i])

    return without_forces


@func
def most_apart(seen, axes, half, other_half):
    """How far the face that keeps two boxes apart best does so, and its normal from the first to the second."""
    best, normal = type(half)(1.0)[0] * -1e30, 0.0 * half
    for j in static(range(3)):
        unit = 0.0 * half
        unit[j] = 1.0
        if half[(j + 1) % 3] + half[(j + 2) % 3] > 0.0:
            reach = half[j] + sum([other_half[k] * abs(axes[k][j]) for k in static(range(3))])
            gap = abs(seen.p[j]) - reach
            if gap > best:
                best, normal = gap, where(seen.p[j] < 0.0, -unit, unit)
        if other_half[(j + 1) % 3] + other_half[(j + 2) % 3] > 0.0:
            reach = other_half[j] + sum([half[k] * abs(axes[j][k]) for k in static(range(3))])
            off = dot(axes[j], seen.p)
            if abs(off) - reach > best:
                best, normal = abs(off) - reach, where(off < 0.0, -axes[j], axes[j])
    return best, normal


@memoize
def make_choice(c: Constraint, slots: Slots, real: Scalar, lane: int = 0) -> Kernel:
    """What the rows `tid()` of `contact_corner` or `contact_edges` are about, from predicted poses; lane: how many rows
    near pairs have, of which a thread looks at `rows_at_once`."""
    vec3, Quat = vector(3, real), quaternion(real)
    Data, SlotData = parameter_struct(c, real), slot_struct(c, slots, real)
    Bodies, movers, points_at = body_struct(real), movers_of(slots), points_of(c, slots, real)
    particle_type, side_of = particle_layout(real).type(real), tuple(own[0] for own in slots.bodies)

    @func
    def sign_of(value):
        return where(value < 0.0, real(-1.0), real(1.0))

    @func
    def lying(n, axes, i, half, side):
        """Of the edge along axis i, on one side of the face that looks towards n most: signs of its faces; can it be
        met that way; the outward direction of that side, 0 where there is no width; and is the face that of the axis
        after i?"""
        on_j, on_k = dot(n, axes[(i + 1) % 3]), dot(n, axes[(i + 2) % 3])
        next_one = abs(on_j) >= abs(on_k)
        beside = where(next_one, on_k, on_j)
        wide = where(next_one, half[(i + 2) % 3], half[(i + 1) % 3]) > 0.0
        on_side = where(wide, side, sign_of(beside))
        edge = vec3()
        edge[(i + 1) % 3] = where(next_one, sign_of(on_j), on_side)
        edge[(i + 2) % 3] = where(next_one, on_side, sign_of(on_k))
        met = where(wide, side * beside > -BESIDE, side > 0.0)
        outward = where(wide, side, real(0.0)) * where(next_one, axes[(i + 2) % 3], axes[(i + 1) % 3])
        return edge, half[i] > 0.0 and met, outward, next_one

    @func
    def axes_of(seen):
        R = quat_to_matrix(seen.q)
        return [vec3(R[0, j], R[1, j], R[2, j]) for j in static(range(3))]

    @func
    def seen_by(k, points, placing, bodies, particle, dx, turn):
        """The second solid as the first sees it, and how far it has come so."""
        _, _, _, begun, _, _, poses = movers(k, points, bodies, particle, dx, turn)
        a, b = points_at([], poses, fields_at(placing, k))
        a_0, b_0 = points_at([], begun, fields_at(placing, k))
        seen = seen_from(a, b)
        return seen, length(seen.p - seen_from(a_0, b_0).p)

    @func
    def apart_across(i, j, seen, axes, half, other_half):
        """Whether edges along axes i and j are not parallel, their unit normal, and how far it keeps boxes apart."""
        unit = vec3()
        unit[i] = 1.0
        m, found = cross(unit, axes[j]), real(-1e30)
        crossing = dot(m, m) > PARALLEL
        if crossing:
            m = m / sqrt(dot(m, m))
            reach = half[0] * abs(m[0]) + half[1] * abs(m[1]) + half[2] * abs(m[2])
            reach += sum([other_half[d] * abs(dot(m, axes[d])) for d in static(range(3))])
            found = abs(dot(m, seen.p)) - reach
        return crossing, m, found

    @func
    def facing(seen, axes, half, other_half):
        """The normal of the face that corners are on, 0 where edges keep the boxes apart better."""
        best, n = most_apart(seen, axes, half, other_half)
        apart = best
        for i in static(range(3)):
            for j in static(range(3)):
                crossing, m, found = apart_across(static(i), static(j), seen, axes, half, other_half)
                if crossing and abs(dot(m, n)) < FACING:  # else it is about the face
                    apart = max(apart, found)
        if not (best > 0.0 or best >= 1.1 * apart - 1e-5 * length(half + other_half)):
            n = 0.0 * n
        return best, n

    @func
    def face_under(at, n, half):
        """Signs of the face of the first box that looks along n and that a corner is over; 0 where there is none."""
        face = vec3()
        for j in static(range(3)):
            beside = max(abs(at[(j + 1) % 3]) - half[(j + 1) % 3], abs(at[(j + 2) % 3]) - half[(j + 2) % 3])
            if abs(n[j]) > FACING and beside < RIM * length(half):
                face[j] = where(n[j] < 0.0, real(-1.0), real(1.0))
        return face

    @func
    def faces(k, points, placing, bodies, particle, dx, turn, data):
        seen, way = seen_by(k, points, placing, bodies, particle, dx, turn)
        half, other_half = data.half[k], data.other_half[k]
        face = vec3()
        if length(seen.p) < way + (1.0 + LOOKED) * (length(half) + length(other_half)):
            _, n = facing(seen, axes_of(seen), half, other_half)
            face = face_under(corner_of(seen, other_half, data.corner[k]), n, half)
        data.face[k] = face

    @func
    def faces_near(first, last, reach, points, placing, bodies, particle, dx, turn, data):
        """The same of all corners of a box that another one sees, if they come as near as `reach` [m]."""
        seen, _ = seen_by(first, points, placing, bodies, particle, dx, turn)
        half, other_half = data.half[first], data.other_half[first]
        best, n = facing(seen, axes_of(seen), half, other_half)
        for k in range(first, last):
            face = vec3()
            if best < reach:
                at = corner_of(seen, other_half, data.corner[k])
                face = face_under(at, n, half)
                if dot(face, at - middle(face, half)) > reach:
                    face = vec3()
            data.face[k] = face

    @func
    def edges_between(k, seen, way, axes, normal, least, half, other_half, around, data):
        """Of row k: the edges that keep two solids apart best, if more than `least`.  Where they cross along the normal
        of a face, and one of them ends, its corner is on that face: what comes to it is not hit there twice as hard."""
        found, other = vec3(), vec3()
        unit = [vec3(1.0, 0.0, 0.0), vec3(0.0, 1.0, 0.0), vec3(0.0, 0.0, 1.0)]
        for i in static(range(3)):
            for j in static(range(3)):
                m = cross(unit[i], axes[j])
                if dot(m, m) > PARALLEL:
                    n = m / sqrt(dot(m, m))
                    if dot(n, seen.p) < 0.0:
                        n = -n
                    e, could, outward, next_one = lying(n, unit, static(i), half, sign_of(data.side[k]))
                    flat = dot(outward, outward) == 0.0
                    could = could and (flat or next_one == (data.axis[k] > 0.0))
                    for on in static((1.0, -1.0)):
                        f, met, outward, _ = lying(-n, axes, static(j), other_half, real(on))
                        flat = dot(outward, outward) == 0.0
                        met = met and (flat or dot(outward, unit[i]) * data.leaves[k] > 0.0)
                        between = seen.p - middle(e, half)
                        for d in static(range(3)):
                            between += (f[d] * other_half[d]) * axes[d]
                        tilt = dot(unit[i], axes[j])
                        along_a, along_b = dot(unit[i], between), dot(axes[j], between)
                        s = (along_a - tilt * along_b) / (1.0 - tilt * tilt)
                        t = (tilt * along_a - along_b) / (1.0 - tilt * tilt)
                        gap, ends, other_ends = dot(n, between) - around, half[i], other_half[j]
                        if around == 0.0 and way > RIM * length(half + other_half) and abs(dot(n, normal)) > FACING:
                            ends, other_ends = ends - RIM * length(other_half), other_ends - RIM * length(half)
                        if could and met and abs(s) < ends and abs(t) < other_ends and gap >= least:
                            least, found, other = gap, e, f
        return least, found, other

    @func
    def least_apart(best, half, other_half):
        """How far edges have to keep two solids apart, where faces do so by `best`."""
        least = best
        if best < 0.0:
            least = 1.1 * best - 1e-5 * length(half + other_half)
        return least

    @func
    def edges(k, points, placing, bodies, particle, dx, turn, data):
        seen, way = seen_by(k, points, placing, bodies, particle, dx, turn)
        half, other_half, around = data.half[k], data.other_half[k], data.thickness[k] + data.other_thickness[k]
        found, other = vec3(), vec3()
        if length(seen.p) < way + (1.0 + LOOKED) * (length(half) + length(other_half)) + around:
            axes = axes_of(seen)
            best, normal = most_apart(seen, axes, half, other_half)
            least = least_apart(best - around, half, other_half)
            _, found, other = edges_between(k, seen, way, axes, normal, least, half, other_half, around, data)
        data.edge[k], data.other_edge[k] = found, other

    @func
    def edges_near(k, last, reach, points, placing, bodies, particle, dx, turn, data):
        """The same of a crossing of two solids, if they come as near as `reach` [m]."""
        seen, way = seen_by(k, points, placing, bodies, particle, dx, turn)
        half, other_half = data.half[k], data.other_half[k]
        around, axes = data.thickness[k] + data.other_thickness[k], axes_of(seen)
        best, normal = most_apart(seen, axes, half, other_half)
        least, found, other = least_apart(best - around, half, other_half), vec3(), vec3()
        if best - around < reach:
            gap, found, other = edges_between(k, seen, way, axes, normal, least, half, other_half, around, data)
            if gap > reach:
                found, other = vec3(), vec3()
        data.edge[k], data.other_edge[k] = found, other

    choose, choose_some = (faces, faces_near) if c is contact_corner else (edges, edges_near)
    some = rows_at_once(c)

    @kernel(name=f"choose_{c.name}_{slots.kinds}")
    def choose_all(
        points: array2d[int],
        placing: SlotData,
        bodies: Bodies,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        data: Data,
    ):
        choose(tid(), points, placing, bodies, particle, dx, turn, data)

    @kernel(name=f"choose_{c.name}_{slots.kinds}_lanes")
    def choose_near(
        lanes: array[int],
        keys: array[int],
        each: int,
        margins: array[real],
        points: array2d[int],
        placing: SlotData,
        bodies: Bodies,
        particle: array[particle_type],
        dx: array[vec3],
        turn: array[Quat],
        data: Data,
    ):
        if tid() < lanes[0] * static(lane // some):
            k = tid() * some
            reach = 2.0 * margins[keys[k // lane] // each // each]  # neither is pushed further
            _, _, _, begun, _, turns, poses = movers(k, points, bodies, particle, dx, turn)
            now, before = points_at([], poses, fields_at(placing, k)), points_at([], begun, fields_at(placing, k))
            sizes = length(data.half[k]), length(data.other_half[k])
            for g in static(range(len(slots.bodies))):  # what has come far may be pushed as far
                way = length(now[side_of[g]].p - before[side_of[g]].p)
                reach += 1.5 * (way + 2.0 * length(imaginary(turns[g])) * sizes[side_of[g]])
            choose_some(k, k + some, reach, points, placing, bodies, particle, dx, turn, data)

    if lane:
        choose_near.race_free = choose_near.alike = True  # rows are of one thread, and those of a pair alike
        return choose_near
    choose_all.race_free = choose_all.alike = True  # likewise
    return choose_all
