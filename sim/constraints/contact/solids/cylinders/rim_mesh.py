"""Contact of places of a cylinder's rims with a closed surface of triangles: C >= 0 apart.

Eight places of each rim stand still; the lowest one moves along it: it is the one that is furthest behind the plane of
a triangle.  A rim may be lowest on several triangles, so that is parted into sectors, whose directions stand still in
the mesh: what rolls on a face stays in one.  Each step chooses a triangle for each of them (`rim_mesh_choice`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.primitives.boxes import OPEN, middle
from sim.constraints.contact.solids.cylinders.rims import rim_at
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.types import vec3


@constraint(
    points=2,
    unilateral=True,
    units={"scale": "", "mesh": "", "radius": "m", "half_height": "m", "corner": "", "sector": "",
           "a": "m", "b": "m", "c": "m", "live": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
    chosen="live",
)  # fmt: skip
def contact_rim_mesh(
    x,
    scale: vec3,
    mesh: float,
    radius: float,
    half_height: float,
    corner: vec3,
    sector: float,
    a: vec3,
    b: vec3,
    c: vec3,
    live: float,
):
    """Distance of a place of a rim of a cylinder, the second, from the plane of a triangle of a mesh.  C [m].

    mesh: number of its shape; corner: see `contact_rim_face`; sector: in which part of the rim the lowest place is, 0
    and on, 0 also where all of it is as low; of other places -1.  a, b, c: corners of the triangle, before they are
    scaled; live: 1, else the contact is open.  A step chooses these.
    """
    if live > 0.5:
        p, n = plane_of(scale, a, b, c)
        _, height = rim_at(x, radius, half_height, corner, n)
        return height - dot(n, p)
    return 0.0 * x.p[0] + OPEN


@contact_rim_mesh.touched_at
def _at_rim(
    x,
    scale: vec3,
    mesh: float,
    radius: float,
    half_height: float,
    corner: vec3,
    sector: float,
    a: vec3,
    b: vec3,
    c: vec3,
    live: float,
):
    """On the cylinder."""
    place = 0.0 * x.p
    if live > 0.5:
        _, n = plane_of(scale, a, b, c)
        place, _ = rim_at(x, radius, half_height, corner, n)
    return place


@func
def plane_of(scale, a, b, c):
    """A corner of a triangle, and its unit normal."""
    p = middle(a, scale)
    return p, normalize(cross(middle(b, scale) - p, middle(c, scale) - p))
