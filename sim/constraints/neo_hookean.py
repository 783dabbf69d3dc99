"""The neo-Hookean solid."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.tetrahedron import DEVIATORIC, POISSON, REST, YOUNG, deformation, gradients, lame, shape_change
from sim.core.lang.frontend.builtins import log, sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.types import vec3

SMALL = 0.1
"""d, the square of the size below which a body does not shrink any further."""
STRETCH, VOLUME = 1.0 + SMALL / 3.0, 1.0 - 2.0 * SMALL / (3.0 * (3.0 + SMALL))
"""m and (lambda' - lambda) / mu, see `neo_hookean`."""


@constraint(points=4, rows=7, units=REST, elastic=(True, True, *(False,) * 5), damped=(False, False, *DEVIATORIC))
def neo_hookean(x, g1: vec3, g2: vec3, g3: vec3, softness: float):
    """Neo-Hookean solid: C_D = sqrt(I - d log(1 + I / d)), C_H = det F - 1 - mu / lambda', solved as one block;
    I = tr F^T F, d = 1 / 10.

    M. Macklin, M. Mueller, "A Constraint-based Formulation of Stable Neo-Hookean Materials", MIG 2021, with the
    logarithm of B. Smith, F. de Goes, T. Kim, "Stable Neo-Hookean Flesh Simulation", 2018, where d is 1.  Without it
    a body that is crushed to less than mu / (lambda' + mu) of its size shrinks to a point and stays there: I is least
    at F = 0, and det F does not see it.  With it nothing smaller is in equilibrium for nu >= 0.25, and below that
    only what is a sixth of its size or less.  Stresses are those without it to 0.4 % at strains of 30 %, 1.4 % at
    100 %.  alpha = 1 / (m mu V) and 1 / (lambda' V), m = 1 + d / 3, lambda' =
    lambda + mu (1 - 2 d / (3 (3 + d))), so that small strains see the user's E and nu.  At rest both rows push
    against each other and cancel.  Their gradients there do not see shear: five more rows, without elasticity, give
    `damping` something to act on.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return neo_hookean_rows(f0, f1, f2, softness)


@func
def beyond_log(z):
    """z - log(1 + z), by its series where the difference would cancel."""
    found = z - log(1.0 + z)
    if z < 0.05:
        found = z * z * (0.5 - z * (1.0 / 3.0 - z * (0.25 - z * (0.2 - z * (1.0 / 6.0 - z * (1.0 / 7.0 - z * 0.125))))))
    return found


@func
def neo_hookean_rows(f0, f1, f2, softness):
    """C_D, C_H and the deviator of the Green strain."""
    stretch = sqrt(SMALL * beyond_log((dot(f0, f0) + dot(f1, f1) + dot(f2, f2)) / SMALL))
    change = dot(f0, cross(f1, f2)) - 1.0 - softness
    s = shape_change(f0, f1, f2)
    return stretch, change, s[0], s[1], s[2], s[3], s[4]


neo_hookean.rest(gradients)


@neo_hookean.material(YOUNG, POISSON, derived=("softness",))
def neo_hookean_material(young: float, poisson: float, volume: float):
    """alpha of the rows, and mu / lambda'."""
    mu, la = lame(young, poisson)
    total, viscous = la + VOLUME * mu, 1.0 / (2.0 * mu * volume)
    first, second = 1.0 / (STRETCH * mu * volume), 1.0 / (total * volume)
    return first, second, viscous, viscous, viscous, viscous, viscous, mu / total
