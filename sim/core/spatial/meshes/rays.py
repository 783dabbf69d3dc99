"""Rays against a mesh.

As in `closest.py`, the walk finds the face, and what can be differentiated is computed once more from its corners.
"""

from __future__ import annotations

from sim.core.lang.constants import INF
from sim.core.lang.frontend.builtins import abs, rolled, stop_gradient, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.rand import rand_init, randf
from sim.core.lang.library.special import bit_count
from sim.core.lang.library.vector import cross, dot, length_sq, normalize
from sim.core.lang.types import bool_, float32, int32, int64
from sim.core.spatial.meshes.closest import corners_of
from sim.core.spatial.meshes.layout import LANES, MeshQueryRay, vec3
from sim.core.spatial.meshes.triangles import ray_frame, ray_triangle
from sim.core.spatial.meshes.walk import tree_of
from sim.core.spatial.meshes.wide import ALL, NONE, child_of, climb, hits_in_block, open_node, ray_axes, without


@func
def inverse_of(direction):
    """1 / each component; +infinity for both zeros, as `open_node` wants it."""
    x, y, z = direction[0], direction[1], direction[2]
    inf = float32(INF)
    return vec3(where(x == 0.0, inf, 1.0 / x), where(y == 0.0, inf, 1.0 / y), where(z == 0.0, inf, 1.0 / z))


@func
def first_face(mesh, start, direction, max_t, root):
    """The face that a ray hits first, 0 <= t < max_t, else -1: of several at one place the first one on the way."""
    tree = tree_of(mesh, root)
    leaves, first_node, inner, first_block, per_leaf = tree[1], tree[4], tree[5], tree[6], tree[7]
    axes, origin, shear = ray_axes(start, direction)
    inverse = inverse_of(direction)
    forward = inverse[0] >= 0.0, inverse[1] >= 0.0, inverse[2] >= 0.0
    best, face = max_t, int32(-1)
    node, left, trail = int32(0), int32(ALL), int64(0)
    going = leaves > 0 and max_t > 0.0 and length_sq(direction) > 0.0 and shear[2] != 0.0
    while going:
        key, entered = open_node(mesh.nodes, first_node, node, left, start, inverse, forward, best)
        left = int32(0)
        if key < NONE:
            child, others = child_of(node, key), without(entered, key)
            if child < inner:
                node, left, trail = child, int32(ALL), (trail << int64(4)) | int64(others)
            else:
                left = others
                if child - inner < leaves:
                    for k in range(per_leaf):
                        block = first_block + (child - inner) * per_leaf + k
                        hits, times = hits_in_block(mesh.blocks, block, axes, origin, shear, best)
                        if hits != 0:
                            numbers = mesh.block_faces[block]
                            for c in range(LANES):
                                nearer = (hits & (2 << c)) != 0 and times[c] < best
                                best, face = where(nearer, times[c], best), where(nearer, numbers[c], face)
        if left == 0:
            if trail == int64(0):
                going = bool_(False)
            else:
                node, left, trail = climb(node, trail)
    return face


@func
def count_hits(mesh, start, direction, max_t, root, enough):
    """How many faces a ray hits, 0 <= t < max_t; the search ends when there are `enough`."""
    tree = tree_of(mesh, root)
    leaves, first_node, inner, first_block, per_leaf = tree[1], tree[4], tree[5], tree[6], tree[7]
    axes, origin, shear = ray_axes(start, direction)
    inverse = inverse_of(direction)
    forward = inverse[0] >= 0.0, inverse[1] >= 0.0, inverse[2] >= 0.0
    count = int32(0)
    node, left, trail = int32(0), int32(ALL), int64(0)
    going = leaves > 0 and max_t > 0.0 and length_sq(direction) > 0.0 and shear[2] != 0.0
    while going:
        key, entered = open_node(mesh.nodes, first_node, node, left, start, inverse, forward, max_t)
        left = int32(0)
        if key < NONE:
            child, others = child_of(node, key), without(entered, key)
            if child < inner:
                node, left, trail = child, int32(ALL), (trail << int64(4)) | int64(others)
            else:
                left = others
                if child - inner < leaves:
                    for k in range(per_leaf):
                        block = first_block + (child - inner) * per_leaf + k
                        hits, _times = hits_in_block(mesh.blocks, block, axes, origin, shear, max_t)
                        count += bit_count(hits)
        if left == 0:
            if trail == int64(0):
                going = bool_(False)
            else:
                node, left, trail = climb(node, trail)
        going = going and count < enough
    return count


@func
def query_ray(mesh, start, dir, max_t, root=-1):
    """The first face that the ray start + t dir hits, 0 <= t < max_t."""
    still, along = stop_gradient(start), stop_gradient(dir)
    face = first_face(mesh, still, along, stop_gradient(float32(max_t)), root)
    found = MeshQueryRay()
    if face >= 0:
        a, b, c = corners_of(mesh, face)
        fx, fy, fz = ray_frame(dir)
        _hit, area, t, u, v = ray_triangle(fx, fy, fz, a - start, b - start, c - start)
        normal = normalize(cross(b - a, c - a))
        sign = stop_gradient(where(dot(normal, along) < 0.0, abs(area), -abs(area)))
        found = MeshQueryRay(result=True, sign=sign, face=face, t=t, u=u, v=v, normal=normal)
    return found


@func
def query_ray_anyhit(mesh, start, dir, max_t, root=-1):
    """Whether the ray start + t dir hits anything, 0 <= t < max_t."""
    return count_hits(mesh, start, dir, float32(max_t), root, 1) > 0


@func
def query_ray_count_intersections(mesh, start, dir, root=-1):
    """How many faces the ray start + t dir hits, t >= 0; a hit on an edge counts for both faces beside it."""
    return count_hits(mesh, start, dir, float32(INF), root, 2147483647)


@func
def sign_by_first_hits(mesh, point):
    """-1 where at least two of the rays along x, y, z hit the back of a face first, else 1."""
    votes = int32(0)
    for axis in rolled(range(3)):
        direction = vec3(float32(axis == 0), float32(axis == 1), float32(axis == 2))
        face = first_face(mesh, point, direction, float32(INF), -1)
        if face >= 0:
            a, b, c = corners_of(mesh, face)
            votes += int32(dot(cross(b - a, c - a), direction) > 0.0)
    return where(votes >= 2, float32(-1.0), float32(1.0))


@func
def sign_by_parity(mesh, point, n_sample, perturbation_scale):
    """-1 where at least half of the rays around (1, 1, 1) cross an odd number of faces, else 1."""
    votes = int32(0)
    state = rand_init(42)
    for _k in range(n_sample):
        x = randf(state, -perturbation_scale, perturbation_scale)
        y = randf(state, -perturbation_scale, perturbation_scale)
        z = randf(state, -perturbation_scale, perturbation_scale)
        crossed = count_hits(mesh, point, vec3(1.0 + x, 1.0 + y, 1.0 + z), float32(INF), -1, 2147483647)
        votes += crossed & 1
    return where(2 * votes >= n_sample, float32(-1.0), float32(1.0))
