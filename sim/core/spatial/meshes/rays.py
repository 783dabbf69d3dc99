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
from sim.core.spatial.meshes.layout import LANES, MeshQueryRay, vec3
from sim.core.spatial.meshes.triangles import ray_frame, ray_triangle
from sim.core.spatial.meshes.walk import tree_of
from sim.core.spatial.meshes.wide import (
    BLOCK,
    CORNERS,
    MOST,
    STACK,
    descend,
    hits_in_block,
    inverse_of,
    lowest,
    open_node,
    pop,
    ray_axes,
    whole_number,
)
from sim.core.spatial.scratch import kept, scratch


@func
def first_hit(mesh, start, direction, max_t, root):
    """The face that a ray hits first, 0 <= t < max_t, else -1, and the numbers of its corners: of several at one place
    the first one on the way.

    These numbers are asked for when a hit is found, so that they come while the walk goes on.
    """
    tree = tree_of(mesh, root)
    axes, origin, shear = ray_axes(start, direction)
    inverse = inverse_of(direction)
    best, face = where(max_t < MOST, max_t, float32(MOST)), int32(-1)
    a, b, c = int32(0), int32(0), int32(0)
    stack, near = scratch(STACK, int64), scratch(LANES, float32)
    child, top = tree[4], int32(0)
    going = tree[1] > 0 and max_t > 0.0 and length_sq(direction) > 0.0 and shear[2] != 0.0
    while going:
        row, entered = int64(child >> 1), int32(0)
        if (child & 1) == 0:
            entered = open_node(mesh.nodes, row, start, inverse, best, near)
        else:
            hits = hits_in_block(mesh.blocks, row, axes, origin, shear, best, near)
            while hits != 0:
                k = lowest(hits)
                hits = hits & (hits - 1)
                if kept(near, k) < best:
                    best, face = kept(near, k), whole_number(mesh.blocks, row + int64(BLOCK - 1), k)
                    a = whole_number(mesh.blocks, row + int64(CORNERS), k)
                    b = whole_number(mesh.blocks, row + int64(CORNERS + 1), k)
                    c = whole_number(mesh.blocks, row + int64(CORNERS + 2), k)
        if entered != 0:
            child, top = descend(mesh.nodes, row, entered, near, stack, top)
        else:
            child, top = pop(stack, top, best)
            going = bool_(child >= 0)
    return face, a, b, c


@func
def count_hits(mesh, start, direction, max_t, root, enough):
    """How many faces a ray hits, 0 <= t < max_t; the search ends when there are `enough`."""
    tree = tree_of(mesh, root)
    axes, origin, shear = ray_axes(start, direction)
    inverse = inverse_of(direction)
    count, limit = int32(0), where(max_t < MOST, max_t, float32(MOST))
    stack, near = scratch(STACK, int64), scratch(LANES, float32)
    child, top = tree[4], int32(0)
    going = tree[1] > 0 and max_t > 0.0 and length_sq(direction) > 0.0 and shear[2] != 0.0
    while going:
        row, entered = int64(child >> 1), int32(0)
        if (child & 1) == 0:
            entered = open_node(mesh.nodes, row, start, inverse, limit, near)
        else:
            count += bit_count(hits_in_block(mesh.blocks, row, axes, origin, shear, limit, near))
        if entered != 0:
            child, top = descend(mesh.nodes, row, entered, near, stack, top)
        else:
            child, top = pop(stack, top, limit)
            going = bool_(child >= 0)
        going = going and count < enough
    return count


@func
def query_ray(mesh, start, dir, max_t, root=-1):
    """The first face that the ray start + t dir hits, 0 <= t < max_t."""
    still, along = stop_gradient(start), stop_gradient(dir)
    face, first, second, third = first_hit(mesh, still, along, stop_gradient(float32(max_t)), root)
    found = MeshQueryRay()
    if face >= 0:
        a, b, c = mesh.points[first], mesh.points[second], mesh.points[third]
        fx, fy, fz = ray_frame(dir)
        _inside, area, t, u, v = ray_triangle(fx, fy, fz, a - start, b - start, c - start)
        normal = normalize(cross(b - a, c - a))
        sign = stop_gradient(where(dot(normal, along) < 0.0, abs(area), -abs(area)))
        found = MeshQueryRay(result=True, sign=sign, face=face, t=t, u=u, v=v, normal=normal)
    return found


@func
def query_ray_anyhit(mesh, start, dir, max_t, root=-1):
    """Whether the ray start + t dir hits anything, 0 <= t < max_t."""
    still, along = stop_gradient(start), stop_gradient(dir)
    return count_hits(mesh, still, along, stop_gradient(float32(max_t)), root, 1) > 0


@func
def query_ray_count_intersections(mesh, start, dir, root=-1):
    """How many faces the ray start + t dir hits, t >= 0; a hit on an edge counts for both faces beside it."""
    return count_hits(mesh, stop_gradient(start), stop_gradient(dir), float32(INF), root, 2147483647)


@func
def sign_by_first_hits(mesh, point):
    """-1 where at least two of the rays along x, y, z hit the back of a face first, else 1."""
    votes = int32(0)
    for axis in rolled(range(3)):
        direction = vec3(float32(axis == 0), float32(axis == 1), float32(axis == 2))
        face, first, second, third = first_hit(mesh, point, direction, float32(INF), -1)
        if face >= 0:
            a, b, c = mesh.points[first], mesh.points[second], mesh.points[third]
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
