"""Points and rays against one triangle, as functions that can be differentiated by everything they take."""

from __future__ import annotations

from sim.core.lang.frontend.builtins import abs, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import dot
from sim.core.lang.types import bool_, float32
from sim.core.spatial.meshes.layout import vec3

SLIVER = 1e-12
"""|n|^2 / (|ab|^2 |ac|^2) below which a triangle is taken for its three edges: the inner formula divides by |n|^2."""


@func
def _along(p, a, b):
    """Where on the segment a b, from 0 to 1, is closest to p; and the squared distance."""
    ab = b - a
    size = dot(ab, ab)
    s = dot(p - a, ab) / where(size > 0.0, size, 1.0)
    s = where(s > 0.0, s, 0.0)
    s = where(s < 1.0, s, 1.0)
    d = p - a - ab * s
    return s, dot(d, d)


@func
def _closest_on_edges(a, b, c, p):
    """Weights of b and c of the point of the three edges that is closest to p."""
    s, near = _along(p, a, b)
    v, w = s, s * 0.0
    s, d = _along(p, b, c)
    if d < near:
        near, v, w = d, 1.0 - s, s
    s, d = _along(p, c, a)
    if d < near:
        v, w = s * 0.0, 1.0 - s
    return v, w


@func
def closest_on_triangle(a, b, c, p):
    """Weights (v, w) of b and c of the point of a triangle that is closest to p; for a triangle without area too.

    By the region of the plane that p lies above: a corner, an edge, the inside (Ericson, "Real-Time Collision
    Detection", 5.1.5).  The derivative is that of the region.
    """
    ab, ac, ap = b - a, c - a, p - a
    bp, cp = p - b, p - c
    d1, d2 = dot(ab, ap), dot(ac, ap)
    d3, d4 = dot(ab, bp), dot(ac, bp)
    d5, d6 = dot(ab, cp), dot(ac, cp)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    v, w = float32(0.0), float32(0.0)
    if d1 <= 0.0 and d2 <= 0.0:
        v = float32(0.0)
    elif d3 >= 0.0 and d4 <= d3:
        v = float32(1.0)
    elif d6 >= 0.0 and d5 <= d6:
        w = float32(1.0)
    elif va + vb + vc <= SLIVER * dot(ab, ab) * dot(ac, ac):
        v, w = _closest_on_edges(a, b, c, p)
    elif vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        v = d1 / (d1 - d3)
    elif vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        w = d2 / (d2 - d6)
    elif va <= 0.0 and d4 >= d3 and d5 >= d6:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v = 1.0 - w
    else:
        size = 1.0 / (va + vb + vc)
        v, w = vb * size, vc * size
    return v, w


@func
def distance_sq_to_triangle(a, b, c, p):
    v, w = closest_on_triangle(a, b, c, p)
    d = p - a - (b - a) * v - (c - a) * w
    return dot(d, d)


@func
def ray_frame(direction):
    """Rows of the shear that makes a ray the z axis, its largest component scaled to 1.

    Whatever of a triangle is computed from corners moved by it is the same for both triangles at an edge: no ray slips
    through between them (Woop, Benthin, Wald, "Watertight Ray/Triangle Intersection", JCGT 2(1), 2013).
    """
    ax, ay, az = abs(direction[0]), abs(direction[1]), abs(direction[2])
    zero, one = float32(0.0), float32(1.0)
    x, y, z = vec3(one, zero, zero), vec3(zero, one, zero), vec3(zero, zero, one)
    if ax >= ay and ax >= az:
        x, y, z = vec3(zero, one, zero), vec3(zero, zero, one), vec3(one, zero, zero)
    elif ay >= az:
        x, y, z = vec3(zero, zero, one), vec3(one, zero, zero), vec3(zero, one, zero)
    depth = 1.0 / dot(direction, z)
    return x - z * (dot(direction, x) * depth), y - z * (dot(direction, y) * depth), z * depth


@func
def ray_triangle(fx, fy, fz, a, b, c):
    """A ray (its frame) against a triangle with corners seen from its start.

    Whether the line is hit, twice the area of the triangle as seen along the ray, t, weights of a and b.  A hit on an
    edge counts for both triangles beside it.
    """
    xa, ya = dot(a, fx), dot(a, fy)
    xb, yb = dot(b, fx), dot(b, fy)
    xc, yc = dot(c, fx), dot(c, fy)
    u, v, w = xc * yb - yc * xb, xa * yc - ya * xc, xb * ya - yb * xa
    total = u + v + w
    inside = (u >= 0.0 and v >= 0.0 and w >= 0.0) or (u <= 0.0 and v <= 0.0 and w <= 0.0)
    hit = bool_(inside and total != 0.0)
    inverse = 1.0 / where(total != 0.0, total, 1.0)
    t = (u * dot(a, fz) + v * dot(b, fz) + w * dot(c, fz)) * inverse
    return hit, total, t, u * inverse, v * inverse


@func
def corner(triangle, k):
    """Corner k, a constant, of a `Triangle`."""
    return vec3(triangle[3 * k], triangle[3 * k + 1], triangle[3 * k + 2])
