"""Bending of two triangles about their common edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.constraints.base import constraint
from sim.constraints.slots.rotations import nearest_angle
from sim.constraints.stencils import HINGES
from sim.core.lang.library.vector import cross, hinge_angle


@constraint(points=4, units={"rest": "rad", "compliance": "1/(N m)"}, stencil=HINGES)
def bend(x, rest: float):
    """Dihedral angle about the edge (x2, x3), wings x0 and x1, minus its rest value.  C [rad]; compliance [rad/(N m)].

    The angle is 0 where the triangles (x0, x2, x3) and (x1, x3, x2) lie in one plane, and is the one within half a turn
    of the rest value: what rests folded, near pi, goes through pi and has no jump there, but half a turn away.
    """
    n0 = cross(x[2] - x[0], x[3] - x[0])
    n1 = cross(x[3] - x[1], x[2] - x[1])
    return nearest_angle(hinge_angle(n0, n1, x[3] - x[2]), rest) - rest


@bend.factor("cloth")
def of_hinge(length, area):
    """An edge of length l between triangles of area A in all, bending compliance c [1/(N m)]: alpha = c A / l^2.

    The energy of a hinge is l^2 / (2 A c) angle^2 (E. Grinspun, A. N. Hirani, M. Desbrun, P. Schroeder, "Discrete
    Shells", 2003, with the factor for which a cylinder of equilateral triangles has that of a plate of stiffness
    1 / c).  For other meshes and shapes it is off, by what the tables above say; `plate` is not.
    """
    return area / length**2


def of_hinge_in_format_1(length: np.ndarray, area: np.ndarray) -> np.ndarray:
    """alpha = c A / (3 l^2): the bending stiffness was three times 1 / c."""
    return area / (3.0 * length**2)


bend_of_format_1 = replace(bend, factors={"cloth": of_hinge_in_format_1})
"""What `bend` is in scenes of format 1."""
