"""Closest points with a sign: negative inside of the mesh.  The sign is a choice, and has no derivative."""

from __future__ import annotations

from sim.core.lang.constants import PI
from sim.core.lang.frontend.builtins import sqrt, stop_gradient, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.scalar import acos
from sim.core.lang.library.vector import cross, dot, length_sq, normalize
from sim.core.lang.types import bool_, float32, int32
from sim.core.spatial.meshes.closest import closest_face, place_on_face
from sim.core.spatial.meshes.layout import MeshQueryPoint, vec3
from sim.core.spatial.meshes.rays import sign_by_first_hits, sign_by_parity
from sim.core.spatial.meshes.triangles import closest_on_triangle, corner
from sim.core.spatial.meshes.walk import behind, distance_sq_to_box
from sim.core.spatial.meshes.winding import winding_number


@func
def query_point(mesh, point, max_dist):
    """The closest point, if closer than max_dist; inside is where rays along the axes hit backs of faces first."""
    still = stop_gradient(point)
    face = closest_face(mesh, still, stop_gradient(float32(max_dist)))
    found = MeshQueryPoint()
    if face >= 0:
        found = place_on_face(mesh, face, point, sign_by_first_hits(mesh, still))
    return found


@func
def query_point_sign_parity(mesh, point, max_dist, n_sample=1, perturbation_scale=0.1):
    """The closest point, if closer than max_dist; inside is where at least half of n_sample rays, in directions around
    (1, 1, 1), cross an odd number of faces."""
    still = stop_gradient(point)
    face = closest_face(mesh, still, stop_gradient(float32(max_dist)))
    found = MeshQueryPoint()
    if face >= 0:
        sign = sign_by_parity(mesh, still, n_sample, stop_gradient(float32(perturbation_scale)))
        found = place_on_face(mesh, face, point, sign)
    return found


@func
def query_point_sign_winding_number(mesh, point, max_dist, accuracy=2.0, threshold=0.5):
    """The closest point, if closer than max_dist; inside is where the winding number is above the threshold.

    accuracy: faces further away than that many radii of their group count together.  A mesh made without
    support_winding_number asks rays along the axes instead.
    """
    still = stop_gradient(point)
    face = closest_face(mesh, still, stop_gradient(float32(max_dist)))
    found = MeshQueryPoint()
    if face >= 0:
        sign = float32(1.0)
        if mesh.moments.shape[0] == 0:
            sign = sign_by_first_hits(mesh, still)
        elif winding_number(mesh, still, stop_gradient(float32(accuracy))) > stop_gradient(float32(threshold)):
            sign = float32(-1.0)
        found = place_on_face(mesh, face, point, sign)
    return found


@func
def query_point_sign_normal(mesh, point, max_dist, epsilon=0.001):
    """The closest point, if closer than max_dist; inside is behind the surface there: its normal at an edge or a corner
    is the sum over the faces that meet, weighted by angle.

    epsilon: what is closer to an edge or a corner than that share of the mean edge counts as on it.
    """
    still = stop_gradient(point)
    face = closest_face(mesh, still, stop_gradient(float32(max_dist)))
    found = MeshQueryPoint()
    if face >= 0:
        place = place_on_face(mesh, face, still, 0.0)
        tolerance = mesh.mean_edge * stop_gradient(float32(epsilon))
        found = place_on_face(mesh, face, point, sign_by_normals(mesh, face, place.u, place.v, still, tolerance))
    return found


@func
def angle_at(abc, at, tolerance_sq):
    """The angle of a face at a point of it: of its corner there, pi on an edge, 2 pi inside."""
    angle = float32(2.0 * PI)
    for k in range(3):
        a, b, c = corner(abc, k), corner(abc, (k + 1) % 3), corner(abc, (k + 2) % 3)
        ab, along = b - a, at - a
        size_sq = dot(ab, ab)
        reach = dot(along, ab)
        if angle > PI and length_sq(along) * size_sq - reach * reach < tolerance_sq * size_sq:
            angle = float32(PI)
    for k in range(3):
        a, b, c = corner(abc, k), corner(abc, (k + 1) % 3), corner(abc, (k + 2) % 3)
        if length_sq(at - a) < tolerance_sq:
            angle = acos(dot(normalize(b - a), normalize(c - a)))
    return angle


@func
def sign_by_normals(mesh, face, u, v, p, tolerance):
    """-1 behind the surface, 1 before it, by the pseudonormal at the closest point (Baerentzen and Aanaes, "Signed
    Distance Computation Using the Angle Weighted Pseudonormal", IEEE TVCG 11(3), 2005).

    The faces that meet there are found by the tree: they come as close to p as the closest one, but for `tolerance`.
    """
    a, b, c = (
        mesh.points[mesh.indices[3 * face]],
        mesh.points[mesh.indices[3 * face + 1]],
        mesh.points[mesh.indices[3 * face + 2]],
    )
    place = a * u + b * v + c * (1.0 - u - v)
    reach = sqrt(length_sq(place - p)) + tolerance
    leaves = mesh.trees[0][1]
    normal, node = vec3(), int32(1)
    going = bool_(True)
    while going:
        inside = bool_(distance_sq_to_box(mesh.boxes[node], p) <= reach * reach)
        if inside and node < leaves:
            node = 2 * node
        else:
            if inside:
                for k in range(mesh.firsts[node - leaves], mesh.firsts[node - leaves + 1]):
                    abc = mesh.triangles[k]
                    q, r, s = corner(abc, 0), corner(abc, 1), corner(abc, 2)
                    weight_r, weight_s = closest_on_triangle(q, r, s, p)
                    at = q + (r - q) * weight_r + (s - q) * weight_s
                    if length_sq(at - p) <= reach * reach and length_sq(at - place) <= 4.0 * tolerance * tolerance:
                        normal += normalize(cross(r - q, s - q)) * angle_at(abc, at, tolerance * tolerance)
            node = behind(node)
            going = bool_(node != 1)
    return where(dot(normal, p - place) > 0.0, float32(1.0), float32(-1.0))
