"""Points that come through a shape within a step, and are outside of it as it begins and as it ends: found then.

Contacts are projected where a step is predicted to end.  A point that has passed a shape by then is met by nothing, or
pushed out on its far side, and neither would be noticed.  Its way in the step, a straight line as the shape sees it, is
looked at: how deep has it been?
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.boxes import middle
from sim.constraints.contact.primitives.pairs import place_in_triangle
from sim.constraints.contact.solids.row_kernels import make_passing
from sim.constraints.slots.linearization import seen_points
from sim.constraints.slots.pattern import Slots
from sim.core.lang.embedding import embed, fields_at
from sim.core.lang.frontend.builtins import max, min, static
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar
from sim.core.runtime.launch.kernel import Kernel

DEEP = 0.1
"""So deep, in parts of the least half width, a point has to have been in a shape; in a mesh in parts of its way inside,
which is more than half of that where it comes straight through a plate."""
OPPOSITE = 0.5
"""Cosine of the angle between faces that look away from each other, but for its sign."""
THIN = 1e-4
"""What a mesh is no thinner than, in parts of its size."""
HALVINGS = 24
"""Of the way of a point, to find where it is deepest: by a thousandth of it to within a millionth of its length."""
WIDTHS = {
    "contact_sphere": ("radius",),
    "contact_points": ("radius", "other_radius"),
    "contact_box": ("half",),
    "contact_capsule": ("radius",),
    "contact_cylinder": ("radius", "half_height"),
}
"""Constraints of convex shapes, and what says how narrow those are: the least of all sizes; of two balls both."""


@memoize
def make_point_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the constraints `tid()` of a particle and a convex shape, one of `WIDTHS`: those that have been come through,
    by the greatest number, from 1 on.

    The distance from what is convex is convex along a line: its least value is found by the golden section.
    """
    value, names = embed(lambda: c.traced(real), f"{c.name}_at"), tuple(c.parameters)
    sizes, balls = tuple(names.index(name) for name in WIDTHS[c.name]), c.name == "contact_points"
    vectors = tuple(c.parameters[name].kind == "vec3" for name in WIDTHS[c.name])
    golden, points = 0.5 * (5.0**0.5 - 1.0), 0 if c.frames else c.points

    @func
    def narrow(parameters):
        """The least half width."""
        if balls:
            return parameters[sizes[0]] + parameters[sizes[1]]
        out = real(1e30)
        for i in static(range(len(sizes))):
            if static(vectors[i]):
                for j in static(range(3)):
                    out = min(out, parameters[sizes[i]][j])
            else:
                out = min(out, parameters[sizes[i]])
        return out

    @func
    def between(a, b, s):
        if points:
            return [(1.0 - s) * a[j] + s * b[j] for j in static(range(points))]
        return (1.0 - s) * a + s * b

    @func
    def way(a, b):
        if points == 2:
            return length((b[0] - b[1]) - (a[0] - a[1]))
        if points:
            return length(b[0] - a[0])
        return length(b - a)

    @func
    def passed(a, b, k, data, meshes):
        parameters, found = fields_at(data, k), False
        least, come = narrow(parameters), way(a, b)
        if come > static(DEEP) * least:
            C_0, C_1 = value(a, parameters)[0], value(b, parameters)[0]
            if min(C_0, C_1) > -static(DEEP) * least and max(C_0, C_1) < come:
                low, high = real(0.0), real(1.0)
                for _ in range(HALVINGS):
                    part = static(golden) * (high - low)
                    if (
                        value(between(a, b, high - part), parameters)[0]
                        < value(between(a, b, low + part), parameters)[0]
                    ):
                        high = low + part
                    else:
                        low = high - part
                deepest = value(between(a, b, 0.5 * (low + high)), parameters)[0]
                found = deepest < min(min(C_0, C_1), real(0.0)) - static(DEEP) * least
        return found

    return make_passing(c, slots, real, seen_points(c, slots, real), passed)


@func
def crossing(p, q, r, a, way):
    """Where along its way, in parts of it, a point comes through a triangle (-1: nowhere), and whether outward: T.
    Moeller, B. Trumbore, "Fast, Minimum Storage Ray/Triangle Intersection", 1997."""
    e, f = q - p, r - p
    across = cross(way, f)
    det, found = dot(e, across), 0.0 * e[0] - 1.0
    if det * det > 0.0:
        u = dot(a - p, across) / det
        other = cross(a - p, e)
        v = dot(way, other) / det
        if u >= 0.0 and v >= 0.0 and u + v <= 1.0:
            found = dot(f, other) / det
    return found, det < 0.0


@func
def comes_through(a, b, m, scale, meshes, straight):
    """Whether a point that goes from a to b, as mesh m sees it, comes through that; straight: only where it comes out
    of a face that looks away from the one that it has come into, and not about an edge."""
    passed, near, vertices, triangles = False, True, meshes.vertices, meshes.triangles
    first, box = meshes.of_triangles, meshes.corners
    size = length(middle(box[m, 1] - box[m, 0], scale))
    for j in static(range(3)):
        near = near and min(a[j], b[j]) <= box[m, 1][j] * scale[j] and max(a[j], b[j]) >= box[m, 0][j] * scale[j]
    if near and length(b - a) > THIN * size:
        out_of, into_face = 0.0 * a, 0.0 * a
        out, into, way = 0.0 * size + 2.0, 0.0 * size, 1.001 * (b - a)  # what is pushed out on the far side is there
        for t in range(first[m, 0], first[m, 1]):
            p, q, r = [middle(vertices[triangles[t, j]], scale) for j in static(range(3))]
            at, outward = crossing(p, q, r, a, way)
            if at > 0.0 and at <= 1.0 and outward and at < out:
                out, out_of = at, normalize(cross(q - p, r - p))
        if out <= 1.0:
            for t in range(first[m, 0], first[m, 1]):
                p, q, r = [middle(vertices[triangles[t, j]], scale) for j in static(range(3))]
                at, outward = crossing(p, q, r, a, way)
                if at > into and at < out and not outward:
                    into, into_face = at, normalize(cross(q - p, r - p))
            inside, depth, begun_at = a + (0.5 * (into + out)) * way, 0.0 * size + 1e30, 0.0 * size + 1e30
            for t in range(first[m, 0], first[m, 1]):
                p, q, r = [middle(vertices[triangles[t, j]], scale) for j in static(range(3))]
                u, v, w, over = place_in_triangle(inside, p, q, r)
                depth = min(depth, length(inside - (u * p + v * q + w * r)))
                u, v, w, over = place_in_triangle(a, p, q, r)
                begun_at = min(begun_at, length(a - (u * p + v * q + w * r)))
            if into == 0.0:  # it began inside, or on the surface: what is pushed out comes no deeper
                depth -= begun_at
            if depth > max(DEEP * (out - into) * length(way), THIN * size):
                passed = not straight or dot(out_of, into_face) < -OPPOSITE
    return passed


@memoize
def make_mesh_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """The same of points and what a mesh encloses."""

    @func
    def passed(a, b, k, data, meshes):
        return comes_through(a, b, int(data.mesh[k]), data.scale[k], meshes, False)

    return make_passing(c, slots, real, seen_points(c, slots, real), passed)
