"""Contact of the rims of a cylinder with an edge of a closed surface of triangles: C >= 0 apart.

Seen along the axis an edge crosses a rim at two places, each of which has a row; there rim and edge are two edges that
cross.  The common normal looks out of the faces beside the edge, and out of side and end of the cylinder.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.boxes import OPEN
from sim.constraints.contact.choice import BESIDE
from sim.constraints.contact.solids.ridge_side import looks_out, ridge_of
from sim.constraints.contact.solids.rims import CROSSES, crossing_of, on_rim
from sim.core.lang.frontend.builtins import abs, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.types import vec3


ALONG = 2.0
"""What `rim` is, but for its sign, of an edge that is along the axis."""


@func
def rim_crossing(p, b, radius, half_height, root, rim):
    """Of a line through p along the unit vector b and a rim: where they cross, seen along the axis, on the line, in
    lengths from p, and on the rim; and a vector across both, out of the cylinder.

    What is along the axis crosses the plane of the rim, and is beside it there.
    """
    height, t = half_height, 0.0 * radius
    if rim < 0.0:
        height = -half_height
    of_side = abs(rim) > 1.5
    if of_side:
        t = (height - p[2]) / b[2]
    else:
        flat, come, disc = crossing_of(p, b, radius, root)
        t = -come / flat
        if disc > CROSSES:
            t = (root * radius * sqrt(disc) - come) / flat
    on_line = p + t * b
    place = on_rim(on_line, radius, height)
    n = cross(b, type(p)(-place[1], place[0], 0.0 * p[2]))
    out = n[2] * height
    if of_side:
        out = n[0] * place[0] + n[1] * place[1]
    if out < 0.0:
        n = -n
    return t, on_line, place, n


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "other_scale": "", "a": "m", "b": "m", "left": "m", "right": "m",
           "root": "", "rim": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
)  # fmt: skip
def contact_ridge_rim(
    x,
    radius: float,
    half_height: float,
    other_scale: vec3,
    a: vec3,
    b: vec3,
    left: vec3,
    right: vec3,
    root: float,
    rim: float,
):
    """Distance of a rim of a cylinder, the first, from an edge of a mesh, along the normal of both, negative where they
    have crossed.  C [m].

    a, b, left, right: see `contact_ridge_side`; root: 1 where the edge leaves the cylinder, seen along its axis, or -1;
    rim: which one, 1 or -1, or `ALONG` times that; 0: open.  A step chooses that.
    """
    if abs(rim) > 0.5:
        p, u = ridge_of(x, other_scale, a, b)
        _, on_line, place, n = rim_crossing(p, normalize(u), radius, half_height, root, rim)
        return dot(n, on_line - place) / length(n)
    return 0.0 * x.p[0] + OPEN


@contact_ridge_rim.touched_at
def _at_rim(
    x,
    radius: float,
    half_height: float,
    other_scale: vec3,
    a: vec3,
    b: vec3,
    left: vec3,
    right: vec3,
    root: float,
    rim: float,
):
    """On the cylinder."""
    place = 0.0 * x.p
    if abs(rim) > 0.5:
        p, u = ridge_of(x, other_scale, a, b)
        _, _, place, _ = rim_crossing(p, normalize(u), radius, half_height, root, rim)
    return place


@func
def rim_met(x, radius, half_height, root, rim, other_scale, a, b, left, right):
    """Whether an edge meets a rim; the unit vector from the rim to it; the place on the edge, in parts of it, and that
    on the rim."""
    p, u = ridge_of(x, other_scale, a, b)
    size = length(u)
    flat, _, disc = crossing_of(p, u / size, radius, root)
    met, n, t, place, meets = False, 0.0 * u, 0.0 * radius, 0.0 * u, flat > CROSSES and disc > CROSSES
    if abs(rim) > 1.5:
        meets = flat <= CROSSES
    if meets:
        way, on_line, place, across = rim_crossing(p, u / size, radius, half_height, root, rim)
        far, t = length(across), way / size
        if far > 0.0 and t > 0.0 and t < 1.0:
            n = across / far
            met = n[0] * place[0] + n[1] * place[1] > -BESIDE * radius
            if abs(rim) < 1.5:  # further beside it than the chord is long a rim is no edge that goes on
                apart = on_line - place
                met = met and dot(apart, apart) - dot(n, apart) ** 2 < disc * radius * radius
            met = met and looks_out(x, other_scale, a, left, right, u, -n) > 0.5
    return met, n, t, place


@func
def crosses(x, radius, other_scale, a, b):
    """Whether an edge crosses the rims, seen along the axis."""
    p, u = ridge_of(x, other_scale, a, b)
    flat, _, disc = crossing_of(p, u / length(u), radius, 1.0)
    return flat > CROSSES and disc > CROSSES
