"""Where edges are closest and triangles meet.

Edges: C. Ericson, "Real-Time Collision Detection", 2005, 5.1.9.  Triangles: T. Moller, "A Fast Triangle-Triangle
Intersection Test", Journal of Graphics Tools 2(2), 1997, without divisions; where they lie in one plane, edges are
intersected as in F. Antonio, "Faster Line Segment Intersection", Graphics Gems III, 1992.
"""

from __future__ import annotations

from sim.core.lang.frontend.builtins import abs, max, min, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.export import export
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.static import scalar_type, vector_type
from sim.core.lang.library.vector import cross, dot, length
from sim.core.lang.types import int32

PLANE = 1.0e-6
"""Products of an area and a distance up to which a corner counts as lying in the plane of the other triangle."""


@export
def closest_point_edge_edge(p1, q1, p2, q2, epsilon):
    """(s, t, distance): where the edges p1 q1 and p2 q2 come closest, p1 + s (q1 - p1) and p2 + t (q2 - p2).

    Edges with a squared length of `epsilon` or less count as points; of parallel edges one of the closest pairs.
    """
    d1, d2, r = q1 - p1, q2 - p2, p1 - p2
    a, e, f = dot(d1, d1), dot(d2, d2), dot(d2, r)
    s, t = scalar_type(p1)(0), scalar_type(p1)(0)
    if a > epsilon:
        c = dot(d1, r)
        if e > epsilon:
            b = dot(d1, d2)
            area = a * e - b * b  # the square of that of the parallelogram
            if area > 0.0:
                s = clamp((b * f - c * e) / area, 0.0, 1.0)
            t = (b * s + f) / e
            if t < 0.0:
                s, t = clamp(-c / a, 0.0, 1.0), scalar_type(p1)(0)
            elif t > 1.0:
                s, t = clamp((b - c) / a, 0.0, 1.0), scalar_type(p1)(1)
        else:
            s = clamp(-c / a, 0.0, 1.0)
    elif e > epsilon:
        t = clamp(f / e, 0.0, 1.0)
    return vector_type(p1, 3)(s, t, length((p2 + d2 * t) - (p1 + d1 * s)))


@export
def intersect_tri_tri(v0, v1, v2, u0, u1, u2):
    """1 if the triangles v0 v1 v2 and u0 u1 u2 have a point in common, else 0 (int32); vectors of length 3."""
    n = cross(v1 - v0, v2 - v0)
    m = cross(u1 - u0, u2 - u0)
    du = _over_plane(n, v0, u0, u1, u2)
    dv = _over_plane(m, u0, v0, v1, v2)
    met = int32(0)
    if not _one_side(du) and not _one_side(dv):
        if _in_plane(du) or _in_plane(dv):
            met = int32(_meet_in_plane(n, v0, v1, v2, u0, u1, u2))
        else:
            line = cross(n, m)
            axis = _largest(line)
            a, a1, a2, ax, ay = _part_of_line(v0[axis], v1[axis], v2[axis], dv)
            b, b1, b2, bx, by = _part_of_line(u0[axis], u1[axis], u2[axis], du)
            xx, yy = ax * ay, bx * by
            from_a, to_a = a * xx * yy + a1 * ay * yy, a * xx * yy + a2 * ax * yy
            from_b, to_b = b * xx * yy + b1 * xx * by, b * xx * yy + b2 * xx * bx
            apart = max(from_a, to_a) < min(from_b, to_b) or max(from_b, to_b) < min(from_a, to_a)
            met = int32(not apart)
    return met


@func
def _over_plane(n, origin, a, b, c):
    """How far three points are over the plane through `origin`, times |n|; 0 where that is below `PLANE`."""
    d = type(n)(dot(n, a) - dot(n, origin), dot(n, b) - dot(n, origin), dot(n, c) - dot(n, origin))
    for k in range(3):
        d[k] = where(abs(d[k]) < PLANE, 0.0, d[k])
    return d


@func
def _one_side(d):
    return d[0] * d[1] > 0.0 and d[0] * d[2] > 0.0


@func
def _in_plane(d):
    return d[0] == 0.0 and d[1] == 0.0 and d[2] == 0.0


@func
def _largest(v):
    """The number of the component of largest size, of equal ones the first."""
    k = int32(0)
    if abs(v[1]) > abs(v[0]):
        k = int32(1)
    if abs(v[2]) > max(abs(v[0]), abs(v[1])):
        k = int32(2)
    return k


@func
def _part_of_line(x0, x1, x2, d):
    """Where a triangle cuts the line of both planes: at x + y / s and x + z / t; (x, y, z, s, t).

    x: the coordinate of the corner that is alone on its side of the other plane; d: the heights of all over it.
    """
    x, y, z, height, first, second = x0, x1, x2, d[0], d[1], d[2]
    if d[0] * d[1] > 0.0:
        x, y, z, height, first, second = x2, x0, x1, d[2], d[0], d[1]
    elif d[0] * d[2] > 0.0:
        x, y, z, height, first, second = x1, x0, x2, d[1], d[0], d[2]
    elif d[1] * d[2] <= 0.0 and d[0] == 0.0:
        if d[1] != 0.0:
            x, y, z, height, first, second = x1, x0, x2, d[1], d[0], d[2]
        else:
            x, y, z, height, first, second = x2, x0, x1, d[2], d[0], d[1]
    return x, (y - x) * height, (z - x) * height, height - first, height - second


@func
def _meet_in_plane(n, v0, v1, v2, u0, u1, u2):
    """Whether two triangles of one plane meet: seen along the axis that is closest to its normal n."""
    x, y, z = abs(n[0]), abs(n[1]), abs(n[2])
    axis = int32(2)
    if y >= x and y >= z:
        axis = int32(1)
    elif x > y and x > z:
        axis = int32(0)
    i, j = where(axis == 0, 1, 0), where(axis == 2, 1, 2)
    flat = vector_type(n, 2)
    a, b, c = flat(v0[i], v0[j]), flat(v1[i], v1[j]), flat(v2[i], v2[j])
    p, q, r = flat(u0[i], u0[j]), flat(u1[i], u1[j]), flat(u2[i], u2[j])
    met = _inside(a, p, q, r) or _inside(p, a, b, c)
    for start, end in ((a, b), (b, c), (c, a)):
        for other, last in ((p, q), (q, r), (r, p)):
            met = met or _edges_meet(start, end, other, last)
    return met


@func
def _wedge(a, b):
    return a[0] * b[1] - a[1] * b[0]


@func
def _edges_meet(a, b, p, q):
    """Whether a + s (b - a) = p + t (q - p) for some s and t of [0, 1]; parallel edges do not."""
    d = _wedge(b - a, q - p)
    s, t = _wedge(p - a, q - p), _wedge(p - a, b - a)
    if d < 0.0:
        d, s, t = -d, -s, -t
    return d > 0.0 and s >= 0.0 and s <= d and t >= 0.0 and t <= d


@func
def _inside(x, a, b, c):
    d, e, f = _wedge(b - a, x - a), _wedge(c - b, x - b), _wedge(a - c, x - c)
    return d * e > 0.0 and d * f > 0.0
