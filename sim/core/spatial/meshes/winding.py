"""Winding numbers: how often the surface goes around a point, 1 inside of a closed mesh, 0 outside.

Faces that are far away are taken together: a node of the tree stands for its dipole and its first moments (Barill and
others, "Fast Winding Numbers for Soups and Clouds", ACM TOG 37(4), 2018, second order).
"""

from __future__ import annotations

from typing import Any

from sim.core.lang.frontend.builtins import atan2, max, sqrt, tid, where
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, length
from sim.core.lang.types import float32, int32
from sim.core.runtime.arrays.array import array
from sim.core.runtime.launch.kernel import kernel
from sim.core.runtime.launch.launch import launch
from sim.core.spatial.meshes.layout import Moments, Triangle, vec3
from sim.core.spatial.meshes.triangles import corner
from sim.core.spatial.meshes.walk import behind

INVERSE_4_PI = 0.07957747154594767


@func
def solid_angle(a, b, c):
    """The solid angle of a triangle seen from the origin, signed; 0 in its plane (Van Oosterom and Strackee, IEEE
    Transactions on Biomedical Engineering 30(2), 1983)."""
    la, lb, lc = length(a), length(b), length(c)
    volume = dot(a, cross(b, c))
    return 2.0 * atan2(volume, la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb)


@func
def from_afar(m, p):
    """The solid angle of a node, by its moments: d/|d|^3 . N + sum_ij T_ij (delta_ij - 3 d_i d_j / |d|^2) / |d|^3."""
    d = vec3(m[0], m[1], m[2]) - p
    size_sq = dot(d, d)
    inverse = 1.0 / (size_sq * sqrt(size_sq))
    total = (d[0] * m[4] + d[1] * m[5] + d[2] * m[6]) * inverse
    spread = m[7] + m[11] + m[15]
    twice = float32(0.0)
    for i in range(3):
        for j in range(3):
            twice += m[7 + 3 * i + j] * d[i] * d[j]
    return total + (spread - 3.0 * twice / size_sq) * inverse


@func
def winding_number(mesh, p, accuracy):
    """Winding number at p; a node further away than `accuracy` times its radius is taken as a whole."""
    leaves = mesh.trees[0][1]
    total, node = float32(0.0), int32(1)
    going = leaves > 0
    while going:
        m = mesh.moments[node]
        d = vec3(m[0], m[1], m[2]) - p
        if dot(d, d) > accuracy * accuracy * m[3] * m[3]:
            total += from_afar(m, p)
            node = behind(node)
        elif node < leaves:
            node = 2 * node
        else:
            for k in range(mesh.firsts[node - leaves], mesh.firsts[node - leaves + 1]):
                abc = mesh.triangles[k]
                total += solid_angle(corner(abc, 0) - p, corner(abc, 1) - p, corner(abc, 2) - p)
            node = behind(node)
        going = node != 1
    return total * INVERSE_4_PI


@func
def moments_of_faces(triangles, first, end):
    """The moments of some faces: centre weighted by area, radius, area vector N, T_ij = sum of (x_i - centre_i) n_j."""
    centre, area, plain = vec3(), float32(0.0), vec3()
    for k in range(first, end):
        a, b, c = corner(triangles[k], 0), corner(triangles[k], 1), corner(triangles[k], 2)
        size = length(cross(b - a, c - a))
        centre, area, plain = centre + (a + b + c) * size, area + size, plain + a + b + c
    centre = where(area > 0.0, centre / (3.0 * where(area > 0.0, area, 1.0)), plain / (3.0 * float32(end - first)))
    m, radius_sq = Moments(), float32(0.0)
    for k in range(first, end):
        a, b, c = corner(triangles[k], 0) - centre, corner(triangles[k], 1) - centre, corner(triangles[k], 2) - centre
        n = cross(b - a, c - a) * 0.5
        middle = (a + b + c) * (1.0 / 3.0)
        for i in range(3):
            m[4 + i] += n[i]
            for j in range(3):
                m[7 + 3 * i + j] += middle[i] * n[j]
        radius_sq = max(max(radius_sq, dot(a, a)), max(dot(b, b), dot(c, c)))
    m[0], m[1], m[2], m[3] = centre[0], centre[1], centre[2], sqrt(radius_sq)
    return m, area


@kernel
def moments_of_leaves(
    triangles: array[Triangle],
    firsts: array[int32],
    leaves: int,
    moments: array[Moments],
    areas: array[float32],
):
    """The moments of the leaves."""
    k = tid()
    m, area = moments_of_faces(triangles, firsts[k], firsts[k + 1])
    moments[leaves + k] = m
    areas[leaves + k] = area


@func
def moved(m, child, centre):
    """Adds a child's moments, moved to the centre of its parent: T grows by (centre of the child - centre) N^T."""
    shift = vec3(child[0], child[1], child[2]) - centre
    for i in range(3):
        m[4 + i] += child[4 + i]
        for j in range(3):
            m[7 + 3 * i + j] += child[7 + 3 * i + j] + shift[i] * child[4 + j]
    m[3] = max(m[3], length(shift) + child[3])
    return m


@kernel
def moments_of_level(first: int, moments: array[Moments], areas: array[float32]):
    """The moments of the nodes of a level, from those below; a radius is a bound, not the smallest one."""
    node = first + tid()
    left, right = moments[2 * node], moments[2 * node + 1]
    wl, wr = areas[2 * node], areas[2 * node + 1]
    share = where(wl + wr > 0.0, wl / where(wl + wr > 0.0, wl + wr, 1.0), 0.5)
    cl, cr = vec3(left[0], left[1], left[2]), vec3(right[0], right[1], right[2])
    centre = cl * share + cr * (1.0 - share)
    m = Moments()
    m[0], m[1], m[2] = centre[0], centre[1], centre[2]
    m = moved(m, left, centre)
    moments[node] = moved(m, right, centre)
    areas[node] = wl + wr


def refit_moments(mesh: Any, leaves: int) -> None:
    """Brings the moments of the tree of all faces to where the triangles are now; nothing may record."""
    launch(
        moments_of_leaves,
        leaves,
        [mesh.triangles, mesh.firsts, leaves],
        [mesh.moments, mesh.areas],
    )
    width = leaves // 2
    while width:
        launch(moments_of_level, width, [width], [mesh.moments, mesh.areas])
        width //= 2
