"""The closest and the furthest point of a mesh.

The walk through the tree finds the face: a number, which has no derivative.  What has one, the place on that face, is
computed once more from the points of the mesh, so that gradients go to the query and to the corners of the face.
"""

from __future__ import annotations

from sim.core.lang.frontend.builtins import stop_gradient, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, normalize
from sim.core.lang.types import bool_, float32, int32
from sim.core.spatial.meshes.layout import MeshQueryPoint
from sim.core.spatial.meshes.triangles import closest_on_triangle, corner, distance_sq_to_triangle
from sim.core.spatial.meshes.walk import descend, distance_sq_to_box, furthest_sq_in_box, pop, tree_of


@func
def closest_face(mesh, p, max_dist):
    """The face closest to p, closer than `max_dist`, else -1: of several at one distance the first one on the way."""
    tree = tree_of(mesh, -1)
    leaves = tree[1]
    best, face = max_dist * max_dist, int32(-1)
    node, trail = int32(1), int32(0)
    going = leaves > 0 and max_dist > 0.0 and dot(p, p) >= 0.0  # and p is a number
    while going:
        arrived = bool_(node >= leaves)
        if arrived:
            for k in range(mesh.firsts[node - leaves], mesh.firsts[node - leaves + 1]):
                abc = mesh.triangles[k]
                d = distance_sq_to_triangle(corner(abc, 0), corner(abc, 1), corner(abc, 2), p)
                if d < best:
                    best, face = d, mesh.faces[k]
        else:
            left = distance_sq_to_box(mesh.boxes[2 * node], p)
            right = distance_sq_to_box(mesh.boxes[2 * node + 1], p)
            node, trail, arrived = descend(node, trail, left, right, best)
        while arrived:
            if trail == 0:
                going, arrived = bool_(False), bool_(False)
            else:
                node, trail = pop(node, trail)
                arrived = distance_sq_to_box(mesh.boxes[node], p) >= best
    return face


@func
def furthest_face(mesh, p, min_dist):
    """The face with the corner that is furthest from p, further than `min_dist`, else -1, and that corner."""
    tree = tree_of(mesh, -1)
    leaves = tree[1]
    best, face, which = min_dist * min_dist, int32(-1), int32(0)
    node, trail = int32(1), int32(0)
    going = leaves > 0 and dot(p, p) >= 0.0
    while going:
        arrived = bool_(node >= leaves)
        if arrived:
            for k in range(mesh.firsts[node - leaves], mesh.firsts[node - leaves + 1]):
                for c in range(3):
                    away = corner(mesh.triangles[k], c) - p
                    d = dot(away, away)
                    if d > best:
                        best, face, which = d, mesh.faces[k], int32(c)
        else:
            left = furthest_sq_in_box(mesh.boxes[2 * node], p)
            right = furthest_sq_in_box(mesh.boxes[2 * node + 1], p)
            node, trail, arrived = descend(node, trail, -left, -right, -best)
        while arrived:
            if trail == 0:
                going, arrived = bool_(False), bool_(False)
            else:
                node, trail = pop(node, trail)
                arrived = furthest_sq_in_box(mesh.boxes[node], p) <= best
    return face, which


@func
def corners_of(mesh, face):
    """The three corners of a face, from the points of the mesh."""
    return (
        mesh.points[mesh.indices[3 * face]],
        mesh.points[mesh.indices[3 * face + 1]],
        mesh.points[mesh.indices[3 * face + 2]],
    )


@func
def place_on_face(mesh, face, point, sign):
    """The point of a face that is closest to `point`, as the result of a query; of face -1: that there is none."""
    found = MeshQueryPoint()
    if face >= 0:
        a, b, c = corners_of(mesh, face)
        v, w = closest_on_triangle(a, b, c, point)
        found = MeshQueryPoint(result=True, sign=sign, face=face, u=1.0 - v - w, v=v)
    return found


@func
def query_point_no_sign(mesh, point, max_dist):
    """The closest point of the mesh, if it is closer than max_dist."""
    face = closest_face(mesh, stop_gradient(point), stop_gradient(float32(max_dist)))
    return place_on_face(mesh, face, point, 0.0)


@func
def query_furthest_point_no_sign(mesh, point, min_dist):
    """The furthest point of the mesh, a corner, if it is further away than min_dist."""
    face, which = furthest_face(mesh, stop_gradient(point), stop_gradient(float32(min_dist)))
    found = MeshQueryPoint()
    if face >= 0:
        found = MeshQueryPoint(result=True, face=face, u=where(which == 0, 1.0, 0.0), v=where(which == 1, 1.0, 0.0))
    return found


@func
def face_normal(mesh, face):
    """The unit normal of a face, on the side from which its corners go counterclockwise; 0 of one without area."""
    a, b, c = corners_of(mesh, face)
    return normalize(cross(b - a, c - a))
