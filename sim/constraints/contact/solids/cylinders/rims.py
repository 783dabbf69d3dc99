"""Contact of cylinders with boxes, capsules and each other: C >= 0 apart.

The side of a cylinder meets straight edges and lines of centres (`contact_side`); its rims meet these
(`contact_rim_edge`), and flat faces, with places that stand still on the rim and with the lowest one, which moves along
it (`contact_rim_face`).  A box without width is the line of centres of a capsule, or of another cylinder.  What meets
what is chosen in each step (`rim_choice`), as of boxes.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.constraints.contact.primitives.boxes import OPEN, along, middle
from sim.constraints.contact.primitives.shapes import lowered
from sim.constraints.contact.solids.cylinders.rim_places import CROSSES, NEWTON, across_both, crossing_of, settled
from sim.core.lang.frontend.builtins import abs, sqrt, static
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.scalar import clamp
from sim.core.lang.library.vector import dot, length
from sim.core.lang.types import vec3

STEPS = 4
"""Between the place of a rim next to a line, and that of the line next to a rim: found after none where one of them is
along the other, else to within (r / (r + R))^STEPS of the first guess at most."""


@func
def edge_of(x, other_half, edge):
    """Middle and unit direction of an edge of a box, given by the signs of its faces, 0 along itself."""
    return x.p + quat_rotate(x.q, middle(edge, other_half)), quat_rotate(x.q, along(edge))


@func
def beside(q, b):
    """Of the z axis and a line through q along b: the unit normal of both towards the line, where it is next to them on
    the axis, and on the line."""
    m = type(q)(-b[1], b[0], 0.0 * b[2])
    n = m / length(m)
    if dot(n, q) < 0.0:
        n = -n
    far = dot(b, q)
    s = (q[2] - b[2] * far) / (1.0 - b[2] * b[2])
    return n, s, b[2] * s - far


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "other_half": "m", "thickness": "m", "flat": "", "edge": "", "live": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
    chosen="live",
)
def contact_side(
    x, radius: float, half_height: float, other_half: vec3, thickness: float, flat: float, edge: vec3, live: float
):
    """Distance of the side of a cylinder, the first, from a straight edge of a box, or a line of centres, along their
    common normal, minus the thickness of the second.  C [m].

    flat: 1 where the second is a cylinder; edge: signs of the faces of the box that the edge lies on, 0 along itself;
    live: 1 where they meet, else the contact is open.  A step chooses that.
    """
    if live > 0.5:
        q, b = edge_of(x, other_half, edge)
        n, _, _ = beside(q, b)
        return dot(n, q) - radius - thickness
    return 0.0 * x.p[0] + OPEN


@contact_side.touched_at
def _at_side(
    x, radius: float, half_height: float, other_half: vec3, thickness: float, flat: float, edge: vec3, live: float
):
    place = 0.0 * x.p
    if live > 0.5:
        q, b = edge_of(x, other_half, edge)
        n, s, _ = beside(q, b)
        place = radius * n
        place[2] += s
    return place


@func
def on_rim(p, radius, height):
    """The place of a rim about the z axis next to a point; far from the axis."""
    size = radius / sqrt(p[0] * p[0] + p[1] * p[1])
    return type(p)(size * p[0], size * p[1], 0.0 * p[2] + height)


@func
def rim_and_edge(q, b, reach, radius, height, thickness, root, angle):
    """Place on the line, on the rim, and a normal from the rim to the line, where they are next to each other; of an
    edge without a thickness that is where the rim is so near `angle`."""
    p, r, n = q, q, 0.0 * q
    if thickness > 0.0:
        flat, come, disc = crossing_of(q, b, radius, root)
        t = clamp(height * b[2] - dot(q, b), -reach, reach)
        if flat > CROSSES:
            t = -come / flat
            if disc > CROSSES:
                t = (root * radius * sqrt(disc) - come) / flat
        p = q + t * b
        r = on_rim(p, radius, height)
        for _ in static(range(STEPS)):
            p = q + clamp(dot(r - q, b), -reach, reach) * b
            r = on_rim(p, radius, height)
        n = p - r
    else:
        n, r = across_both(q, b, radius, height, settled(q, b, radius, height, angle, NEWTON))
        p = q + dot(r - q, b) * b
    return p, r, n


@constraint(
    points=2,
    unilateral=True,
    units={"radius": "m", "half_height": "m", "other_half": "m", "thickness": "m", "flat": "", "edge": "", "root": "",
           "rim": "", "angle": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
    chosen="rim",
)  # fmt: skip
def contact_rim_edge(
    x,
    radius: float,
    half_height: float,
    other_half: vec3,
    thickness: float,
    flat: float,
    edge: vec3,
    root: float,
    rim: float,
    angle: float,
):
    """Distance of a rim of a cylinder, the first, from a straight edge of a box, along the normal of both, or from a
    line of centres, minus the thickness.  C [m].

    flat, edge: see `contact_side`; root: 1 where the edge leaves the cylinder, seen along its axis, or -1; rim: which
    one, 1 or -1, 0: open; angle: of a place of it that is near the edge.  A step chooses the last two.
    """
    if abs(rim) > 0.5:
        q, b = edge_of(x, other_half, edge)
        reach, height = dot(along(edge), other_half), rim * half_height
        p, r, n = rim_and_edge(q, b, reach, radius, height, thickness, root, angle)
        return dot(n, p - r) / length(n) - thickness
    return 0.0 * x.p[0] + OPEN


@contact_rim_edge.touched_at
def _at_rim(
    x,
    radius: float,
    half_height: float,
    other_half: vec3,
    thickness: float,
    flat: float,
    edge: vec3,
    root: float,
    rim: float,
    angle: float,
):
    place = 0.0 * x.p
    if abs(rim) > 0.5:
        q, b = edge_of(x, other_half, edge)
        _, place, _ = rim_and_edge(
            q, b, dot(along(edge), other_half), radius, rim * half_height, thickness, root, angle
        )
    return place


@func
def rim_at(x, radius, half_height, corner, n):
    """The place of a rim of the second: the one that is given by its direction (2,), or the lowest one towards -n; and
    how far that is below the centre of the rim, where it fades to that (`lowered`)."""
    axis = quat_rotate(x.q, type(n)(0.0, 0.0, 1.0))
    center = x.p + (corner[2] * half_height) * axis
    place, height = center, dot(n, center)
    if abs(corner[0]) + abs(corner[1]) > 0.0:
        place = center + quat_rotate(x.q, type(n)(radius * corner[0], radius * corner[1], 0.0))
        height = dot(n, place)
    else:
        across = n - dot(n, axis) * axis
        square = dot(across, across)
        if square > 0.0:
            tilt = sqrt(square)
            low, slope = lowered(tilt)
            place = center - (radius * slope / tilt) * across
            height = dot(n, center) - radius * low
    return place, height


@constraint(
    points=2,
    unilateral=True,
    units={"half": "m", "round": "", "radius": "m", "half_height": "m", "corner": "", "face": ""},
    added_by="add_shape_cylinder",
    frames=(0, 1),
    chosen="face",
)
def contact_rim_face(x, half: vec3, round: float, radius: float, half_height: float, corner: vec3, face: vec3):
    """Distance of a place of a rim of a cylinder, the second, from a face of the first: of a box with half lengths
    `half`, or the end of another cylinder (round = 1), radius and half height in them.  C [m].

    corner: where on the rim, by two coordinates in radii, and which rim, 1 or -1; the first two 0: its lowest place;
    face: outward normal in the frame of the first, all 0: open.  A step chooses the face.
    """
    if dot(face, face) > 0.5:
        _, height = rim_at(x, radius, half_height, corner, face)
        return height - dot(face, middle(face, half))
    return 0.0 * x.p[0] + OPEN


@contact_rim_face.touched_at
def _at_face(x, half: vec3, round: float, radius: float, half_height: float, corner: vec3, face: vec3):
    place = 0.0 * x.p
    if dot(face, face) > 0.5:
        place, _ = rim_at(x, radius, half_height, corner, face)
    return place


RIM_CONTACTS = {contact_side: ("live",), contact_rim_edge: ("rim", "angle"), contact_rim_face: ("face",)}
"""Contacts of cylinders, and their parameters that every step chooses."""
