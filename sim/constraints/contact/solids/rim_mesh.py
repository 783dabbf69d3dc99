"""Contact of the lowest place of a cylinder's rim with a closed surface of triangles: C >= 0 apart.

The place moves along the rim: it is the one that is furthest behind the plane of a triangle.  A rim may touch several
triangles, so it is parted into sectors, whose directions stand still in the mesh: what rolls on a face stays in one.
Each step chooses for every sector the triangle, of those that the lowest place for them is over, that it is deepest in
(`rim_mesh_choice`).
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.boxes import OPEN, middle
from sim.constraints.contact.solids.rims import rim_at
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.types import vec3


@constraint(
    points=2,
    unilateral=True,
    units={"scale": "", "mesh": "", "radius": "m", "half_height": "m", "rim": "", "sector": "", "a": "m", "b": "m",
           "c": "m", "live": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
)  # fmt: skip
def contact_rim_mesh(
    x,
    scale: vec3,
    mesh: float,
    radius: float,
    half_height: float,
    rim: float,
    sector: float,
    a: vec3,
    b: vec3,
    c: vec3,
    live: float,
):
    """Distance of the lowest place of a rim of a cylinder, the second, from the plane of a triangle of a mesh.  C [m].

    mesh: number of its shape; rim: 1 or -1; sector: in which part of the rim, 0 and on, that place is, or 0 where all
    of the rim is as low; a, b, c: corners of the triangle, before they are scaled; live: 1, else the contact is open.
    A step chooses these.
    """
    if live > 0.5:
        p, n = plane_of(scale, a, b, c)
        _, height = rim_at(x, radius, half_height, corner_of(n, rim), n)
        return height - dot(n, p)
    return 0.0 * x.p[0] + OPEN


@contact_rim_mesh.touched_at
def _at_rim(
    x,
    scale: vec3,
    mesh: float,
    radius: float,
    half_height: float,
    rim: float,
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
        place, _ = rim_at(x, radius, half_height, corner_of(n, rim), n)
    return place


@func
def plane_of(scale, a, b, c):
    """A corner of a triangle, and its unit normal."""
    p = middle(a, scale)
    return p, normalize(cross(middle(b, scale) - p, middle(c, scale) - p))


@func
def corner_of(n, rim):
    """What `rim_at` calls the lowest place of a rim."""
    out = 0.0 * n
    out[2] += rim
    return out
