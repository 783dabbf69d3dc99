"""Membranes of a material with Young's modulus, Poisson's ratio and thickness, in plane stress."""

from __future__ import annotations

from sim.constraints.base import ConstraintParameter, constraint
from sim.constraints.cloth.triangle import THICKNESS, deformation, green_strain, inverse_edges
from sim.constraints.stencils import TRIANGLES
from sim.constraints.tetrahedron import POISSON, YOUNG, lame
from sim.core.lang.frontend.builtins import sqrt
from sim.core.lang.library.vector import cross, dot
from sim.core.lang.types import vec3

POISSON_OF_SHEET = ConstraintParameter("poisson", "float", "", "Poisson's ratio", bounds="(-1, 1)")
INVERSE = {"inverse": "1/m"}


@constraint(points=3, rows=3, units=INVERSE, stencil=TRIANGLES)
def membrane_stvk(x, inverse: vec3):
    """St. Venant-Kirchhoff membrane: the Green strain E = (F^T F - 1) / 2 of a triangle in three rows: tr E / sqrt 2,
    and its deviator.

    The energy of an area A is t A E_Y / (2 (1 - nu^2)) ((1 - nu) E:E + nu (tr E)^2), E_Y Young's modulus, t the
    thickness.  The basis is orthonormal, so that compliances are diagonal: (1 - nu) / (E_Y t A) for the first row,
    (1 + nu) / (E_Y t A) for the others.  Whatever the mesh, a deformation that is the same everywhere has this energy
    exactly.
    """
    f0, f1 = deformation(x, inverse)
    return green_strain(f0, f1)


membrane_stvk.rest(inverse_edges)


@membrane_stvk.material(YOUNG, POISSON_OF_SHEET, THICKNESS, kind="cloth")
def membrane_stvk_material(young: float, poisson: float, thickness: float, area: float):
    """alpha of the rows."""
    stiffness = young * thickness * area
    shear = (1.0 + poisson) / stiffness
    return (1.0 - poisson) / stiffness, shear, shear


@constraint(
    points=3,
    rows=5,
    units=INVERSE,
    stencil=TRIANGLES,
    elastic=(True, True, False, False, False),
    damped=(False, False, True, True, True),
)
def membrane_neo_hookean(x, inverse: vec3, softness: float):
    """Neo-Hookean membrane: the plane stress of a neo-Hookean solid, for a sheet that is stretched a lot (rubber).

    A sheet that nothing presses on is as thin as it likes: minimised over its thickness, the energy (that of
    `neo_hookean` without its logarithm, lambda' = lambda + mu) per volume is mu / 2 (tr F^T F + (1 + m)^2 / (m + J^2)),
    J the ratio of areas, m = mu / lambda' its `softness` (0 for nu = 0.5, where the second term is the thickness
    squared, 1 / J^2).  Hence two rows, sqrt(tr F^T F) and (1 + m) / sqrt(m + J^2), with alpha = 1 / (mu V), which
    push against each other at rest and cancel.  Three more rows without elasticity, those of `membrane_stvk`, give
    `damping` something to act on.
    """
    f0, f1 = deformation(x, inverse)
    normal = cross(f0, f1)
    stretch = sqrt(dot(f0, f0) + dot(f1, f1))
    thinning = (1.0 + softness) / sqrt(softness + dot(normal, normal))
    s = green_strain(f0, f1)
    return stretch, thinning, s[0], s[1], s[2]


membrane_neo_hookean.rest(inverse_edges)


@membrane_neo_hookean.material(YOUNG, POISSON, THICKNESS, derived=("softness",), kind="cloth")
def membrane_neo_hookean_material(young: float, poisson: float, thickness: float, area: float):
    """alpha of the rows, and mu / lambda', lambda' = lambda + mu."""
    mu, la = lame(young, poisson)
    volume = thickness * area
    elastic, shear = 1.0 / (mu * volume), (1.0 + poisson) / (young * volume)
    return elastic, elastic, (1.0 - poisson) / (young * volume), shear, shear, mu / (la + mu)
