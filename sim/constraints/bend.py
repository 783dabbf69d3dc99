"""Bending of two triangles about their common edge."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.stencils import HINGES
from sim.core.lang.library.vector import cross, hinge_angle


@constraint(points=4, units={"rest": "rad", "compliance": "1/(N m)"}, stencil=HINGES)
def bend(x, rest: float):
    """Dihedral angle about the edge (x2, x3), wings x0 and x1, minus its rest value.  C [rad]; compliance [rad/(N m)].

    0 where the triangles (x0, x2, x3) and (x1, x3, x2) lie in one plane.
    """
    n0 = cross(x[2] - x[0], x[3] - x[0])
    n1 = cross(x[3] - x[1], x[2] - x[1])
    return hinge_angle(n0, n1, x[3] - x[2]) - rest


@bend.factor("cloth")
def of_hinge(length, area):
    """An edge of length l between triangles of area A in all, bending compliance c [1/(N m)]: alpha = c A / (3 l^2).

    M. Bergou, M. Wardetzky, D. Harmon, D. Zorin, E. Grinspun,
    "A Quadratic Bending Model for Inextensible Surfaces", 2006: the energy of a hinge is 3 l^2 / (2 A c) angle^2,
    up to the convention of A.
    """
    return area / (3.0 * length**2)
