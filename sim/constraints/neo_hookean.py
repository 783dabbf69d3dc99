"""The neo-Hookean solid."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.tetrahedron import DEVIATORIC, POISSON, REST, YOUNG, deformation, gradients, lame, shape_change
from sim.core.lang.frontend.builtins import sqrt
from sim.core.lang.frontend.function import func
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.types import vec3


@constraint(points=4, rows=7, units=REST, elastic=(True, True, *(False,) * 5), damped=(False, False, *DEVIATORIC))
def neo_hookean(x, g1: vec3, g2: vec3, g3: vec3, softness: float):
    """Neo-Hookean solid: C_D = sqrt(tr F^T F), C_H = det F - 1 - mu / lambda', solved as one block;
    lambda' = lambda + mu.

    M. Macklin, M. Mueller, "A Constraint-based Formulation of Stable Neo-Hookean Materials", MIG 2021, with
    alpha = 1 / (mu V) and 1 / (lambda' V); the shift of lambda lets small strains see the user's E and nu.  At rest
    both rows push against each other and cancel.  Their gradients there do not see shear: five more rows, without
    elasticity, give `damping` something to act on.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return neo_hookean_rows(f0, f1, f2, softness)


@func
def neo_hookean_rows(f0, f1, f2, softness):
    """C_D, C_H and the deviator of the Green strain."""
    stretch = sqrt(dot(f0, f0) + dot(f1, f1) + dot(f2, f2))
    change = dot(f0, cross(f1, f2)) - 1.0 - softness
    s = shape_change(f0, f1, f2)
    return stretch, change, s[0], s[1], s[2], s[3], s[4]


neo_hookean.rest(gradients)


@neo_hookean.material(YOUNG, POISSON, derived=("softness",))
def neo_hookean_material(young: float, poisson: float, volume: float):
    """alpha of the rows, and mu / lambda'."""
    mu, la = lame(young, poisson)
    total, viscous = la + mu, 1.0 / (2.0 * mu * volume)
    return 1.0 / (mu * volume), 1.0 / (total * volume), viscous, viscous, viscous, viscous, viscous, mu / total
