"""Contact of points with each other and with triangles, and of edges: C >= 0 apart.

Surfaces meet where a vertex of one is near a triangle of the other, or an edge near an edge (R. Bridson, R. Fedkiw, J.
Anderson, "Robust Treatment of Collisions, Contact and Friction for Cloth Animation", SIGGRAPH 2002, section 6).  Where
the nearest place is inside of the triangle, or of both edges, the distance has the sign of a side, so that C is smooth
through 0 and what passes through is pushed back; elsewhere it is the plain one.

All of them are n . (sum_j b_j x_j) - thickness, with weights b of the points, and n the unit normal from the second
side to the first: b_j n is the gradient of C, since the weights are those of the nearest places.
"""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.core.lang.frontend.builtins import sqrt, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import cross, dot, length

PARALLEL = 1e-6
"""Edges are parallel where |d1 x d2|^2 is below this part of |d1|^2 |d2|^2: points and triangles there are as near."""


@constraint(
    points=2,
    unilateral=True,
    added_by="add_constraints",
    units={"radius": "m", "other_radius": "m"},
    reach=("radius", "other_radius"),
)
def contact_points(x, radius: float, other_radius: float):
    """Distance of the surfaces of two balls.  C [m]."""
    return length(x[0] - x[1]) - radius - other_radius


@func
def place_in_triangle(p, a, b, c):
    """Weights of the corners at the place of a triangle next to a point, and whether that is inside of it.

    C. Ericson, "Real-Time Collision Detection", 2005, section 5.1.5.
    """
    ab, ac = b - a, c - a
    d1, d2 = dot(ab, p - a), dot(ac, p - a)
    d3, d4 = dot(ab, p - b), dot(ac, p - b)
    d5, d6 = dot(ab, p - c), dot(ac, p - c)
    at_a, at_b, at_c = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    v, w, inside = 0.0 * d1, 0.0 * d1, False
    if d1 <= 0.0 and d2 <= 0.0:
        inside = False
    elif d3 >= 0.0 and d4 <= d3:
        v = v + 1.0
    elif d6 >= 0.0 and d5 <= d6:
        w = w + 1.0
    elif at_c <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        v = d1 / (d1 - d3)
    elif at_b <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        w = d2 / (d2 - d6)
    elif at_a <= 0.0 and d4 >= d3 and d5 >= d6:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        v = 1.0 - w
    else:
        inside = True
        whole = at_a + at_b + at_c
        v = at_b / whole
        w = at_c / whole
    return 1.0 - v - w, v, w, inside


@func
def places_on_edges(a, b, c, d):
    """How far along edges ab and cd (0 ... 1) they are next to each other, and whether that is inside of both.

    Ericson 2005, section 5.1.9.
    """
    along, other, apart = b - a, d - c, a - c
    aa, ee, ae = dot(along, along), dot(other, other), dot(along, other)
    f, g = dot(other, apart), dot(along, apart)
    free = aa * ee - ae * ae
    crossing = free >= PARALLEL * aa * ee
    s, t, inside = 0.0 * aa, f / ee, False
    if crossing:
        s = (ae * f - g * ee) / free
        t = (aa * f - ae * g) / free
        inside = s > 0.0 and s < 1.0 and t > 0.0 and t < 1.0
    if not inside:
        s = clamp(s, 0.0 * s, 0.0 * s + 1.0)
        t = (ae * s + f) / ee
        if t < 0.0:
            t = 0.0 * t
            s = clamp(-g / aa, 0.0 * s, 0.0 * s + 1.0)
        elif t > 1.0:
            t = 0.0 * t + 1.0
            s = clamp((ae - g) / aa, 0.0 * s, 0.0 * s + 1.0)
    return s, t, inside


@func
def edges_cross(a, b, c, d):
    """Whether `places_on_edges` are inside of both, without the places."""
    along, other, apart = b - a, d - c, a - c
    aa, ee, ae = dot(along, along), dot(other, other), dot(along, other)
    f, g = dot(other, apart), dot(along, apart)
    free = aa * ee - ae * ae
    s, t = ae * f - g * ee, aa * f - ae * g
    return free >= PARALLEL * aa * ee and s > 0.0 and s < free and t > 0.0 and t < free


@func
def normal_of(across, apart, side, inside):
    """Unit normal of a pair: that of its plane, towards a side, inside; else, or without one, along what is between."""
    n = across
    far = dot(apart, apart)
    if (inside and side != 0.0) or far == 0.0:
        n = where(side < 0.0, -across, across) / length(across)
    else:
        n = apart / sqrt(far)
    return n


@func
def point_triangle(x, side):
    """(n, b, inside) of point x[0] and the triangle of the others, see above."""
    u, v, w, inside = place_in_triangle(x[0], x[1], x[2], x[3])
    apart = x[0] - (u * x[1] + v * x[2] + w * x[3])
    n = normal_of(cross(x[2] - x[1], x[3] - x[1]), apart, side, inside)
    return n, (1.0 + 0.0 * u, -u, -v, -w), inside


@func
def edge_edge(x, side):
    """(n, b, inside) of edges x[0] x[1] and x[2] x[3]."""
    s, t, inside = places_on_edges(x[0], x[1], x[2], x[3])
    apart = (1.0 - s) * x[0] + s * x[1] - ((1.0 - t) * x[2] + t * x[3])
    n = normal_of(cross(x[1] - x[0], x[3] - x[2]), apart, side, inside)
    return n, (1.0 - s, s, t - 1.0, -t), inside


@func
def side_of_triangle(x, before):
    """On which side of a triangle the point over it was `before`; 0 where it was not over it: then nobody can say.

    It is told by the direction between them, not by the sense of the corners: that can change while all is far apart.
    """
    u, v, w, inside = place_in_triangle(before[0], before[1], before[2], before[3])
    apart = before[0] - (u * before[1] + v * before[2] + w * before[3])
    side = dot(cross(x[2] - x[1], x[3] - x[1]), apart)
    return where(inside, side, 0.0 * side)


@func
def side_of_edge(x, before):
    """The same of edges that have crossed, where two that turn past each other change their sense."""
    s, t, inside = places_on_edges(before[0], before[1], before[2], before[3])
    apart = (1.0 - s) * before[0] + s * before[1] - ((1.0 - t) * before[2] + t * before[3])
    side = dot(cross(x[1] - x[0], x[3] - x[2]), apart)
    return where(inside, side, 0.0 * side)


@constraint(points=4, unilateral=True, added_by="add_constraints", units={"thickness": "m", "side": ""})
def contact_point_triangle(x, thickness: float, side: float):
    """Distance of a point from a triangle minus the thickness; over the triangle from its plane, and negative on the
    other side than `side`, 1 where the corners turn left seen from there, or -1; 0 is no side.  C [m]."""
    n, b, _ = point_triangle(x, side)
    return dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3]) - thickness


@constraint(points=4, unilateral=True, added_by="add_constraints", units={"thickness": "m", "side": ""})
def contact_edge_edge(x, thickness: float, side: float):
    """Distance of two edges minus the thickness; where they cross, signed: positive where the first is on the side of
    `side` (1, -1, or 0 for none) times the product d1 x d2 of their directions.  C [m]."""
    n, b, _ = edge_edge(x, side)
    return dot(n, b[0] * x[0] + b[1] * x[1] + b[2] * x[2] + b[3] * x[3]) - thickness
