"""Contact of boxes, and of their edges with capsules: C >= 0 apart.  What meets what is an integer of each step.

Two boxes meet where a corner of one is on a face of the other, or where two edges cross.  Each corner has a row, with
either box, and so has what each of the four edges of a face crosses as it comes onto the other solid, and as it leaves.
Each step chooses the faces and edges, from where the solids are predicted to be (`box_choice`).  The line of centres
of a capsule is a box without width.
"""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import constraint
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate
from sim.core.lang.library.vector import cross, dot, length
from sim.core.lang.types import vec3

OPEN = 1.0
"""C [m] of a row that nothing was chosen for."""


@func
def along(edge):
    """The direction of an edge given by the signs of the faces it lies on, 0 along itself."""
    return type(edge)(1.0 - edge[0] * edge[0], 1.0 - edge[1] * edge[1], 1.0 - edge[2] * edge[2])


@func
def middle(edge, half):
    """The place that signs name, or parts, of half lengths [m]: a corner, the middle of an edge, a vertex of a mesh."""
    return type(edge)(edge[0] * half[0], edge[1] * half[1], edge[2] * half[2])


@func
def corner_of(x, other_half, corner):
    """Where a corner of the second box is, as the first one sees it: x is the pose of the second there."""
    return x.p + quat_rotate(x.q, middle(corner, other_half))


@constraint(
    points=2,
    unilateral=True,
    units={"half": "m", "other_half": "m"},
    added_by="add_shape_box",
    frames=(0, 1),
    chosen="face",
)
def contact_corner(x, half: vec3, other_half: vec3, corner: vec3, face: vec3):
    """Distance of a corner of the second box from a face of the first.  C [m].

    corner: its signs; face: outward normal in the frame of the first, all 0: open.  A step chooses the face.
    """
    if dot(face, face) > 0.5:
        return dot(face, corner_of(x, other_half, corner) - middle(face, half))
    return 0.0 * x.p[0] + OPEN


@contact_corner.touched_at
def _at_corner(x, half: vec3, other_half: vec3, corner: vec3, face: vec3):
    return corner_of(x, other_half, corner)


@func
def lines(x, half, other_half, edge, other_edge):
    """Directions of both edges, unit normal from the first solid to the other, and between the middles of the edges."""
    a, b = along(edge), quat_rotate(x.q, along(other_edge))
    m = cross(a, b)
    n = m / length(m)
    if dot(n, edge) < 0.0:
        n = -n
    return a, b, n, x.p + quat_rotate(x.q, middle(other_edge, other_half)) - middle(edge, half)


@constraint(
    points=2,
    unilateral=True,
    units={"half": "m", "other_half": "m", "thickness": "m", "other_thickness": "m"},
    added_by="add_shape_box",
    frames=(0, 1),
    chosen="edge",
)
def contact_edges(
    x,
    half: vec3,
    other_half: vec3,
    thickness: float,
    other_thickness: float,
    axis: float,
    side: float,
    leaves: float,
    edge: vec3,
    other_edge: vec3,
):
    """Distance of two edges of boxes, or lines of centres of capsules, along their common normal, minus both
    thicknesses.  C [m].

    axis, side, leaves: +-1, along which axis of a face the edge of the first is, on which side of it, and whether it
    leaves the second solid there; a capsule has no sides and axes, and none leaves it.
    edge, other_edge: signs of the faces that the edges lie on, 0 along themselves; all 0: open.  A step chooses them.
    """
    if dot(edge, edge) > 0.5:
        _, _, n, between = lines(x, half, other_half, edge, other_edge)
        return dot(n, between) - thickness - other_thickness
    return 0.0 * x.p[0] + OPEN


@contact_edges.touched_at
def _at_crossing(
    x,
    half: vec3,
    other_half: vec3,
    thickness: float,
    other_thickness: float,
    axis: float,
    side: float,
    leaves: float,
    edge: vec3,
    other_edge: vec3,
):
    """On the surface of the first."""
    if dot(edge, edge) > 0.5:
        a, b, n, between = lines(x, half, other_half, edge, other_edge)
        tilt = dot(a, b)
        s = (dot(a, between) - tilt * dot(b, between)) / (1.0 - tilt * tilt)
        return middle(edge, half) + s * a + thickness * n
    return 0.0 * x.p
