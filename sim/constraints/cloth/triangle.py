"""What the constraints of a sheet share: the deformation of a triangle, directions in it, its material.

With the corners x_a and two directions at right angles in the plane of the rest shape, the first along the edge from
x_0 to x_1, the deformation gradient is the matrix F (3 x 2) that takes the edges at rest to the edges now:
(x_1 - x_0, x_2 - x_0) = F R, R = (l, c; 0, h), whose inverse is measured.
"""

from __future__ import annotations

import numpy as np

from sim.constraints.base import ConstraintParameter
from sim.constraints.stencils import Cloth, Elements, Stencil, triangles_of_cloth
from sim.core.lang.frontend.builtins import sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot, length

THICKNESS = ConstraintParameter("thickness", "float", "m", "thickness of the sheet", bounds="(0, inf)")
ANGLE = ConstraintParameter("angle", "float", "rad", "of the warp, about the normal", default=0.0)
STEEP = 0.5
"""Sine of the slope of the surface against the x-z plane of its object from which on the warp runs level."""


@func
def inverse_edges(x):
    """(1/l, -c/(l h), 1/h): the inverse of R."""
    a, b = x[1] - x[0], x[2] - x[0]
    long, double_area = length(a), length(cross(a, b))
    return 1.0 / long, -dot(a, b) / (long * double_area), long / double_area


@func
def deformation(x, inverse):
    """The columns of F."""
    a, b = x[1] - x[0], x[2] - x[0]
    return a * inverse[0], a * inverse[1] + b * inverse[2]


@func
def green_strain(f0, f1):
    """E = (F^T F - 1) / 2 in an orthonormal basis of symmetric matrices: tr E / sqrt 2, (E_xx - E_yy) / sqrt 2 and
    sqrt 2 E_xy."""
    root = sqrt(0.5)
    xx, yy = 0.5 * (dot(f0, f0) - 1.0), 0.5 * (dot(f1, f1) - 1.0)
    return (xx + yy) * root, (xx - yy) * root, dot(f0, f1) * root


def warp_directions(cloth: Cloth) -> np.ndarray:
    """Unit vectors (triangles, 3) in the triangles at rest: the warp where its angle is 0.

    Level, at right angles to the y axis of the object, where the surface is steep (a wall, a tube around that axis);
    else the x axis of the object, seen from above.  On a grid in the x-y plane both are its width.
    """
    t = cloth.topology
    p, q, r = (t.positions[t.triangles[:, k]] for k in range(3))
    normal = np.cross(q - p, r - p)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    level = np.cross(cloth.axes[1], normal)
    ahead = cloth.axes[0] - (normal @ cloth.axes[0])[:, None] * normal
    chosen = np.where(np.linalg.norm(level, axis=1)[:, None] > STEEP, level, ahead)
    return chosen / np.linalg.norm(chosen, axis=1)[:, None]


WOVEN = Stencil("triangles, with the direction of the warp", gives=("along",))


@WOVEN.on(Cloth)
def woven_triangles(cloth: Cloth) -> Elements:
    """along: angle of the warp direction from the edge (x0, x1), about the normal."""
    t = cloth.topology
    p, q, r = (t.positions[t.triangles[:, k]] for k in range(3))
    edge, normal, warp = q - p, np.cross(q - p, r - p), warp_directions(cloth)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    across = np.cross(normal, edge)
    along = np.arctan2((across * warp).sum(axis=1), (edge * warp).sum(axis=1))
    found = triangles_of_cloth(cloth)
    return Elements(found.points, found.length, found.area, lambda held: {"along": along})
