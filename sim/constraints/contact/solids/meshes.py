"""Contact of a point with what a closed surface of triangles encloses: C >= 0 outside.

Each step chooses the triangle that is next to where a point is predicted (`make_mesh_choice`), an integer; where on it,
and how far away, is computed anew in every projection, with its derivative.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint, constraint
from sim.constraints.contact.primitives.boxes import OPEN, middle
from sim.constraints.contact.primitives.pairs import place_in_triangle
from sim.constraints.contact.solids.row_kernels import make_choosing
from sim.constraints.slots.linearization import seen_points
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, max, static, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vec3
from sim.core.runtime.launch.kernel import Kernel

ALIKE = 1e-5
"""Triangles are as near as each other to within so many parts of the mesh: at an edge or a corner that they share."""
GOES_ON = 0.95
"""A surface goes on beyond an edge where the cosine of the angle that it is bent by there is more."""
AROUND = 0.25
"""How far outside of the box around a mesh points are looked at, in parts of its size, beside what they come."""


@constraint(
    points=2,
    unilateral=True,
    units={"scale": "", "thickness": "m", "a": "m", "b": "m", "c": "m", "d": "m", "e": "m", "f": "m", "mesh": "",
           "side": ""},
    added_by="add_shape_mesh",
    frames=(0,),
    chosen="side",
    reach=("", "thickness"),
)  # fmt: skip
def contact_mesh(
    x,
    scale: vec3,
    thickness: float,
    mesh: float,
    side: float,
    a: vec3,
    b: vec3,
    c: vec3,
    d: vec3,
    e: vec3,
    f: vec3,
):
    """Distance of a point from the surface of a mesh, negative inside of it, minus the thickness.  C [m].

    mesh: number of its shape; a, b, c: corners of the triangle next to the point, before they are scaled; d, e, f:
    third corners of those beside it, across from a, b and c; side: 1 where the point is outside, -1 inside, 0: open.
    A step chooses these.  Over the triangle it is the distance from its plane, smooth through 0; and over those beside
    it where the surface goes on: what slides is over them at other times of a step, and is not to hit an edge there.
    """
    if abs(side) > 0.5:
        p, q, r = middle(a, scale), middle(b, scale), middle(c, scale)
        u, v, w, over = place_in_triangle(x, p, q, r)
        apart = x - (u * p + v * q + w * r)
        far = dot(apart, apart)
        n = normalize(cross(q - p, r - p))
        found = dot(n, x - p)
        if not over and far > 0.0:
            beside = beyond(x, n, q, r, middle(d, scale)) or beyond(x, n, r, p, middle(e, scale))
            if beside or beyond(x, n, p, q, middle(f, scale)):
                found = side * length(apart)
        return found - thickness
    return 0.0 * x[0] + OPEN


@func
def beyond(x, n, p, q, third):
    """Whether a place is beyond the edge p q of a triangle with the normal n, and not over the one beside it with a
    third corner `third`, or the surface does not go on there."""
    out = dot(n, cross(q - p, x - p)) < 0.0
    if out:
        other = normalize(cross(third - p, q - p))
        out = dot(n, other) < GOES_ON or dot(other, cross(p - q, x - p)) < 0.0
    return out


@func
def outside_of_box(at, low, high, scale):
    """How far a point is outside of a box along the axis where that is most."""
    out = 0.0 * at[0] - 1e30
    for j in static(range(3)):
        out = max(out, max(low[j] * scale[j] - at[j], at[j] - high[j] * scale[j]))
    return out


@memoize
def make_mesh_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """The triangles next to the points `tid()` of `contact_mesh`, and on which side they are, from predicted poses.

    Of triangles that are as near the one that sees the point most directly says the side.
    """

    @func
    def chosen(before, at, k, data, meshes):
        m, scale, vertices, triangles = int(data.mesh[k]), data.scale[k], meshes.vertices, meshes.triangles
        first, box = meshes.of_triangles, meshes.corners
        size = length(middle(box[m, 1] - box[m, 0], scale))
        reach = data.thickness[k] + 3.0 * length(at - before) + AROUND * size
        side, nearest = real(0.0), first[m, 0]
        if outside_of_box(at, box[m, 0], box[m, 1], scale) < reach:
            least, facing = real(1e30), real(0.0)
            for t in range(first[m, 0], first[m, 1]):
                i, j, h = vertices[triangles[t, 0]], vertices[triangles[t, 1]], vertices[triangles[t, 2]]
                p, q, r = middle(i, scale), middle(j, scale), middle(h, scale)
                u, v, w, over = place_in_triangle(at, p, q, r)
                apart = at - (u * p + v * q + w * r)
                far, towards = length(apart), dot(normalize(cross(q - p, r - p)), apart)
                if far < least + static(ALIKE) * size:
                    if far < least - static(ALIKE) * size or abs(towards) > facing:
                        facing = abs(towards)
                        side = where(towards < 0.0, real(-1.0), real(1.0))
                        nearest = t
                    if far < least:
                        least = far
        corners, others = triangles[nearest], meshes.beside[nearest]
        data.side[k] = side
        data.a[k], data.b[k], data.c[k] = vertices[corners[0]], vertices[corners[1]], vertices[corners[2]]
        data.d[k], data.e[k], data.f[k] = vertices[others[0]], vertices[others[1]], vertices[others[2]]

    return make_choosing(c, slots, real, seen_points(c, slots, real), chosen)
