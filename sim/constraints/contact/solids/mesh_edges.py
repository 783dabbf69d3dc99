"""Contact of the edges of two closed surfaces of triangles: C >= 0 apart.

Each step chooses the edge of the first that an edge of the second crosses, an integer.  The normal that both edges have
in common say on which side they meet (D. Gregorius, "The Separating Axis Test between Convex Polyhedra", GDC 2013): it
lies between those of the faces beside each of them.  What was deep inside as a step began is about other parts of the
surfaces, and met there.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint, constraint
from sim.constraints.contact.primitives.boxes import OPEN, middle
from sim.constraints.contact.solids.row_kernels import make_choosing, make_passing
from sim.constraints.slots.bodies import seen_from
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, max, min, sqrt, static, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vec3, vector
from sim.core.runtime.launch.kernel import Kernel

PARALLEL = 1e-4
"""|d_1 x d_2|^2 of unit vectors below which edges count as parallel: their ends are vertices."""
LEANS = 0.1
"""How far a common normal may lean over a face beside an edge, as the sine of the angle."""
DEEP = 0.02
"""So deep, in parts of the shorter edge, two edges that meet may be as a step begins, and as it ends."""


@func
def place_of(x, at, scale):
    """A place of the second shape as the first sees it."""
    return x.p + quat_rotate(x.q, middle(at, scale))


@func
def crossing(x, scale, other_scale, a, b, c, d):
    """Beginnings and lengths of edges a b of the first and c d of the second, and how far along them, in parts of each,
    their lines are next to each other."""
    p, q = middle(a, scale), place_of(x, c, other_scale)
    u, v = middle(b, scale) - p, place_of(x, d, other_scale) - q
    uu, vv, uv, apart = dot(u, u), dot(v, v), dot(u, v), p - q
    free = uu * vv - uv * uv
    s = (uv * dot(v, apart) - vv * dot(u, apart)) / free
    t = (uu * dot(v, apart) - uv * dot(u, apart)) / free
    return p, u, q, v, s, t


@constraint(
    points=2,
    unilateral=True,
    units={"scale": "", "other_scale": "", "a": "m", "b": "m", "c": "m", "d": "m", "e": "m", "f": "m",
           "mesh": "", "leaves": "", "side": ""},
    added_by="add_shape_mesh",
    frames=(0, 1),
    chosen="side",
)  # fmt: skip
def contact_mesh_edges(
    x,
    scale: vec3,
    other_scale: vec3,
    mesh: float,
    leaves: float,
    c: vec3,
    d: vec3,
    e: vec3,
    f: vec3,
    side: float,
    a: vec3,
    b: vec3,
):
    """Distance of an edge of the second shape from one of the first, a mesh, along their common normal, negative where
    they have crossed.  C [m].

    mesh: number of the first shape; c, d: ends of the edge, e, f: third corners of the triangles beside it, left and
    right; leaves: 1 where it comes out of the surface of the first, -1 where into it; all before they are scaled.
    a, b: ends of the edge of the first; side: of the common normal, towards the second, 1 along the product of
    directions of a b and c d, or -1; 0: open.  A step chooses these.
    """
    if abs(side) > 0.5:
        p, u, q, v, _, _ = crossing(x, scale, other_scale, a, b, c, d)
        return side * dot(normalize(cross(u, v)), q - p)
    return 0.0 * x.p[0] + OPEN


@contact_mesh_edges.touched_at
def _at_crossing(
    x,
    scale: vec3,
    other_scale: vec3,
    mesh: float,
    leaves: float,
    c: vec3,
    d: vec3,
    e: vec3,
    f: vec3,
    side: float,
    a: vec3,
    b: vec3,
):
    """On the first."""
    if abs(side) > 0.5:
        p, u, _, _, s, _ = crossing(x, scale, other_scale, a, b, c, d)
        return p + s * u
    return 0.0 * x.p


@func
def into(edge, third):
    """Unit vector in a face, across an edge of it and into the face."""
    along = normalize(edge)
    return normalize(third - dot(third, along) * along)


@func
def met(x, scale, other_scale, a, b, left, right, c, d, e, f):
    """Of two edges, and the third corners of the triangles beside them: the side of C, 0 where they do not meet; their
    common normal; how far along both they cross; and the unit vector out of the face of the first that looks at the
    second most."""
    p, u, q, v, s, t = crossing(x, scale, other_scale, a, b, c, d)
    side, n, out = 0.0 * s, cross(u, v), 0.0 * u
    if dot(n, n) > PARALLEL * dot(u, u) * dot(v, v) and s > 0.0 and s < 1.0 and t > 0.0 and t < 1.0:
        n = n / sqrt(dot(n, n))
        one, two = into(u, middle(left, scale) - p), into(u, middle(right, scale) - p)
        if dot(n, one + two) > 0.0:
            n = -n
        over = max(dot(n, one), dot(n, two))
        under = min(dot(n, into(v, place_of(x, e, other_scale) - q)), dot(n, into(v, place_of(x, f, other_scale) - q)))
        if over < LEANS and under > -LEANS:
            side = 0.0 * s - 1.0
            if dot(n, cross(u, v)) > 0.0:
                side = 0.0 * s + 1.0
            out = -one
            if abs(dot(n, two)) < abs(dot(n, one)):
                out = -two
    return side, n, s, t, out


@func
def apart_along(x, n, scale, other_scale, a, b, c, d, s, t):
    """How far places of two edges are apart along a normal."""
    on_first = middle((1.0 - s) * a + s * b, scale)
    return dot(n, place_of(x, (1.0 - t) * c + t * d, other_scale) - on_first)


@func
def shorter(scale, other_scale, a, b, c, d):
    """The length of the shorter edge."""
    return min(length(middle(b - a, scale)), length(middle(d - c, other_scale)))


@func
def beside_box(x, low, high, scale, other_scale, c, d, reach):
    """Whether an edge is further away from a box than a reach."""
    p, q, out = place_of(x, c, other_scale), place_of(x, d, other_scale), False
    for j in static(range(3)):
        out = out or max(p[j], q[j]) < low[j] * scale[j] - reach or min(p[j], q[j]) > high[j] * scale[j] + reach
    return out


@memoize
def make_mesh_edge_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """The edges of meshes that the edges of rows `tid()` of `contact_mesh_edges` cross, from predicted poses: of those
    that a row is about the one that is deepest."""
    vec3 = vector(3, real)

    @func
    def chosen(a_0, a_1, k, data, meshes):
        x, x_0, m, box = seen_from(a_1[0], a_1[1]), seen_from(a_0[0], a_0[1]), int(data.mesh[k]), meshes.corners
        vertices, hinges, first = meshes.vertices, meshes.hinges, meshes.of_hinges
        scale, other_scale = data.scale[k], data.other_scale[k]
        c, d, e, f = data.c[k], data.d[k], data.e[k], data.f[k]
        least, side, p, q = real(1e30), real(0.0), vec3(), vec3()
        come = max(
            length(place_of(x, c, other_scale) - place_of(x_0, c, other_scale)),
            length(place_of(x, d, other_scale) - place_of(x_0, d, other_scale)),
        )
        reach = 3.0 * come + length(middle(d - c, other_scale))
        if not beside_box(x, box[m, 0], box[m, 1], scale, other_scale, c, d, reach):
            v = place_of(x, d, other_scale) - place_of(x, c, other_scale)
            for h in range(first[m, 0], first[m, 1]):
                a, b = vertices[hinges[h, 0]], vertices[hinges[h, 1]]
                left, right = vertices[hinges[h, 2]], vertices[hinges[h, 3]]
                of, n, s, t, out = met(x, scale, other_scale, a, b, left, right, c, d, e, f)
                if of != 0.0 and dot(out, v) * data.leaves[k] > 0.0:
                    gap = apart_along(x, n, scale, other_scale, a, b, c, d, s, t)
                    begins = apart_along(x_0, n, scale, other_scale, a, b, c, d, s, t)
                    deep = static(DEEP) * shorter(scale, other_scale, a, b, c, d)
                    if gap < least and begins > -deep:
                        least, side, p, q = gap, where(of < 0.0, real(-1.0), real(1.0)), a, b
        data.side[k], data.a[k], data.b[k] = side, p, q

    return make_choosing(c, slots, real, points_of(c, slots, real), chosen)


@memoize
def make_mesh_edge_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the rows `tid()` of `contact_mesh_edges`: those whose edge has come deeper into another one within a step than
    the next one would look for, by the greatest number, from 1 on."""

    @func
    def passed(a_0, a_1, k, data, meshes):
        x, before = seen_from(a_1[0], a_1[1]), seen_from(a_0[0], a_0[1])
        m, box, first, found = int(data.mesh[k]), meshes.corners, meshes.of_hinges, False
        vertices, hinges = meshes.vertices, meshes.hinges
        scale, other_scale = data.scale[k], data.other_scale[k]
        c, d, e, f = data.c[k], data.d[k], data.e[k], data.f[k]
        reach = length(middle(d - c, other_scale))
        if not beside_box(x, box[m, 0], box[m, 1], scale, other_scale, c, d, reach):
            for h in range(first[m, 0], first[m, 1]):
                a, b = vertices[hinges[h, 0]], vertices[hinges[h, 1]]
                left, right = vertices[hinges[h, 2]], vertices[hinges[h, 3]]
                of, n, s, t, out = met(x, scale, other_scale, a, b, left, right, c, d, e, f)
                deep = static(DEEP) * shorter(scale, other_scale, a, b, c, d)
                if of != 0.0 and apart_along(x, n, scale, other_scale, a, b, c, d, s, t) < -deep:
                    found = found or apart_along(before, n, scale, other_scale, a, b, c, d, s, t) > -deep
        return found

    return make_passing(c, slots, real, points_of(c, slots, real), passed)
