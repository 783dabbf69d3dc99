"""Which triangles of a mesh places of a cylinder's rims meet in a step: chosen where it is predicted to end."""

# Kernels are not typed Python, and their annotations are types made per precision: evaluated here, not postponed.
# mypy: ignore-errors

from sim.constraints.base import Constraint
from sim.constraints.contact.primitives.box_choice import BESIDE, RIM
from sim.constraints.contact.primitives.boxes import middle
from sim.constraints.contact.primitives.pairs import place_in_triangle
from sim.constraints.contact.primitives.shapes import UPRIGHT
from sim.constraints.contact.solids.cylinders.rims import rim_at
from sim.constraints.contact.solids.meshes import outside_of_box
from sim.constraints.contact.solids.passing import comes_through
from sim.constraints.contact.solids.row_kernels import make_choosing, make_passing
from sim.constraints.slots.bodies import seen_from
from sim.constraints.slots.linearization import points_of
from sim.constraints.slots.pattern import Slots
from sim.core.lang.frontend.builtins import abs, atan2, floor, max, min, static
from sim.core.lang.frontend.function import func
from sim.core.lang.library.quaternion import quat_rotate, quat_rotate_inv
from sim.core.lang.library.vector import cross, dot, length, normalize
from sim.core.lang.memoize import memoize
from sim.core.lang.types import Scalar, vector
from sim.core.runtime.launch.kernel import Kernel

DEEP = 0.1
"""So deep, in parts of the least half width of a cylinder, a place may be as a step begins, and as it ends: what hangs
over an edge is deeper behind the side below it."""
SECTORS = 8
"""Of each rim, about the axis of its cylinder."""
BEGINS = 0.11
"""Where the first one begins, in radians: beside what lies along the axes of a mesh, or half way between these."""
SEAM = 1e-9
"""How far beside a triangle a place may be that is inside, in radii: where two have an edge in common, by rounding."""
TURN = 6.283185307179586


@func
def sector_of(axis, n):
    """In which sector the lowest place towards -n is, of a cylinder along a unit vector."""
    down, found = dot(n, axis) * axis - n, 0.0 * axis[0]
    if dot(down, down) > UPRIGHT * UPRIGHT:
        # The zero of directions is along that axis of the mesh which is furthest from the cylinder's.
        j, zero = 0, 0.0 * axis
        for i in static((1, 2)):
            if abs(axis[i]) < abs(axis[j]):
                j = i
        zero[j] += 1.0
        other = cross(axis, zero)
        angle = atan2(dot(down, other), dot(down, zero)) - BEGINS
        found = floor(angle * (SECTORS / TURN))
        if found < 0.0:
            found += SECTORS
    return found


@func
def over(place, p, q, r, beside):
    """Whether a place is over a triangle, or no further beside it than so."""
    u, v, w, inside = place_in_triangle(place, p, q, r)
    n, apart = normalize(cross(q - p, r - p)), place - (u * p + v * q + w * r)
    return inside or length(apart - dot(apart, n) * n) < beside


@func
def faces_rim(n, axis, around, up):
    """Whether what looks along n is met by a rim: the end beside it looks along up times the axis, and the side along
    `around`, 0 where n says which place of the rim it is."""
    return up * dot(n, axis) < BESIDE and dot(n, around) < BESIDE


@func
def met_by(x, x_0, corner, sector, radius, half_height, scale, m, meshes):
    """The number of the triangle that a place of a rim meets, -1: none, and how far it is from its plane.

    Of the lowest places in a sector the deepest one; another place meets, of the triangles that it is behind, that one
    which it was furthest in front of as the step began.
    """
    vertices, triangles, first, box = meshes.vertices, meshes.triangles, meshes.of_triangles, meshes.corners
    axis = quat_rotate(x.q, type(scale)(0.0, 0.0, 1.0))
    center, center_0 = x.p + (corner[2] * half_height) * axis, x_0.p
    center_0 += (corner[2] * half_height) * quat_rotate(x_0.q, type(scale)(0.0, 0.0, 1.0))
    around = quat_rotate(x.q, type(scale)(corner[0], corner[1], 0.0 * corner[2]))
    chosen, found, furthest = -1, 0.0 * radius + 1e30, 0.0 * radius - 1e30
    moves, deep = sector >= 0.0, DEEP * min(radius, half_height)
    if outside_of_box(center, box[m, 0], box[m, 1], scale) < 2.0 * radius + 3.0 * length(center - center_0):
        for t in range(first[m, 0], first[m, 1]):
            p = middle(vertices[triangles[t, 0]], scale)
            q, r = middle(vertices[triangles[t, 1]], scale), middle(vertices[triangles[t, 2]], scale)
            n = normalize(cross(q - p, r - p))
            if faces_rim(n, axis, around, corner[2]) and (not moves or sector_of(axis, n) == sector):
                place, height = rim_at(x, radius, half_height, corner, n)
                gap, before = height - dot(n, p), x_0.p + quat_rotate(x_0.q, quat_rotate_inv(x.q, place - x.p))
                begins, better = dot(n, before - p), gap < found
                if not moves and gap < 0.0:
                    better = found >= 0.0 or begins > furthest
                elif not moves:
                    better = better and found >= 0.0
                beside = SEAM * radius
                if begins > -RIM * radius:  # of what is deeper an edge counts: it may lie on the face beyond
                    beside = RIM * radius
                if better and begins > -deep and over(place, p, q, r, beside):
                    chosen, found, furthest = t, gap, begins
    return chosen, found


@memoize
def make_rim_mesh_choice(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """The triangles that rows `tid()` of `contact_rim_mesh` are about, from predicted poses."""

    @func
    def chosen(a, b, k, data, meshes):
        x, x_0, live = seen_from(b[0], b[1]), seen_from(a[0], a[1]), real(0.0)
        of_rim = data.corner[k], data.sector[k], data.radius[k], data.half_height[k]
        found, _ = met_by(x, x_0, *of_rim, data.scale[k], int(data.mesh[k]), meshes)
        if found >= 0:
            live = real(1.0)
        corners, vertices = meshes.triangles[max(found, 0)], meshes.vertices
        data.live[k] = live
        data.a[k], data.b[k], data.c[k] = vertices[corners[0]], vertices[corners[1]], vertices[corners[2]]

    return make_choosing(c, slots, real, points_of(c, slots, real), chosen)


@memoize
def make_rim_mesh_passing(c: Constraint, slots: Slots, real: Scalar) -> Kernel:
    """Of the rows `tid()` of `contact_rim_mesh`: those whose place has come deeper within a step than the next one
    would look for, or through the mesh, by the greatest number, from 1 on."""
    vec3 = vector(3, real)

    @func
    def passed(a, b, k, data, meshes):
        x, before, m = seen_from(b[0], b[1]), seen_from(a[0], a[1]), int(data.mesh[k])
        radius, half_height, scale, corner = data.radius[k], data.half_height[k], data.scale[k], data.corner[k]
        of_rim = corner, data.sector[k], radius, half_height
        chosen, least = met_by(x, before, *of_rim, scale, m, meshes)
        found = chosen >= 0 and least < -static(DEEP) * min(radius, half_height)
        if data.sector[k] < 0.0:
            at = vec3(radius * corner[0], radius * corner[1], half_height * corner[2])
            p, q = before.p + quat_rotate(before.q, at), x.p + quat_rotate(x.q, at)
            found = found or comes_through(p, q, m, scale, meshes, True)
        return found

    return make_passing(c, slots, real, points_of(c, slots, real), passed)
