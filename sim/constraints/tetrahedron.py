"""What the constraints of solids share: the deformation of a tetrahedron, its material.

The deformation gradient of a tetrahedron is F = sum_a (x_a - x_0) g_a^T, a = 1, 2, 3; the g_a, gradients of its shape
functions at rest, are measured.  Materials are given by Young's modulus E and Poisson's ratio nu:
mu = E / (2 (1 + nu)), lambda = E nu / ((1 + nu)(1 - 2 nu)).  V is the volume at rest.  For small strains all of them
are linear elasticity.

Damping acts on the change of shape alone, as in rubber: with the damping time tau the viscous stress is 2 mu tau times
the rate of the deviatoric strain.  A mode of angular frequency omega has the damping ratio omega tau / 2, up to the
part of its energy that changes the volume (a bar that is bent or pulled: (1 - 2 nu) / 3 of it).
"""

from __future__ import annotations

from math import sqrt as root

from sim.constraints.base import ConstraintParameter
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot

YOUNG = ConstraintParameter("young", "float", "Pa", "Young's modulus", bounds="(0, inf)")
POISSON = ConstraintParameter("poisson", "float", "", "Poisson's ratio", bounds="(-1, 0.5)")
REST = {"g1": "1/m", "g2": "1/m", "g3": "1/m"}
SIXTH, THIRD, HALF = root(1.0 / 6.0), root(1.0 / 3.0), root(0.5)
DEVIATORIC = (True,) * 5


@func
def deformation(x, g1, g2, g3):
    """The columns of F."""
    a, b, c = x[1] - x[0], x[2] - x[0], x[3] - x[0]
    return a * g1[0] + b * g2[0] + c * g3[0], a * g1[1] + b * g2[1] + c * g3[1], a * g1[2] + b * g2[2] + c * g3[2]


@func
def shape_change(f0, f1, f2):
    """The deviator of the Green strain (F^T F - 1) / 2 in an orthonormal basis: five numbers of the same norm."""
    xx, yy, zz = 0.5 * dot(f0, f0), 0.5 * dot(f1, f1), 0.5 * dot(f2, f2)
    return ((xx - yy) * HALF, (xx + yy - 2.0 * zz) * SIXTH, dot(f0, f1) * HALF, dot(f1, f2) * HALF, dot(f2, f0) * HALF)


@func
def green_strain(f0, f1, f2):
    """The Green strain in six rows of the same norm: tr E / sqrt 3, then its deviator as in `shape_change`."""
    s = shape_change(f0, f1, f2)
    trace = 0.5 * (dot(f0, f0) + dot(f1, f1) + dot(f2, f2) - 3.0)
    return trace * THIRD, s[0], s[1], s[2], s[3], s[4]


@func
def strain_change(f0, f1, f2, h0, h1, h2):
    """How the Green strain changes where F changes by H, sym(F^T H), in the rows of `green_strain`."""
    xx, yy, zz = dot(f0, h0), dot(f1, h1), dot(f2, h2)
    xy, yz, zx = dot(f0, h1) + dot(f1, h0), dot(f1, h2) + dot(f2, h1), dot(f2, h0) + dot(f0, h2)
    return (
        (xx + yy + zz) * THIRD,
        (xx - yy) * HALF,
        (xx + yy - 2.0 * zz) * SIXTH,
        xy * HALF,
        yz * HALF,
        zx * HALF,
    )


@func
def gradients(x):
    """g1, g2, g3 at rest: rows of the inverse of the matrix with the edges x_a - x_0 as columns."""
    a, b, c = x[1] - x[0], x[2] - x[0], x[3] - x[0]
    scale = 1.0 / dot(a, cross(b, c))
    return cross(b, c) * scale, cross(c, a) * scale, cross(a, b) * scale


@func
def lame(young, poisson):
    """mu and lambda [Pa]."""
    return young / (2.0 * (1.0 + poisson)), young * poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson))
