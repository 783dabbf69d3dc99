"""The St. Venant-Kirchhoff solid, and its part that resists changes of shape alone."""

from __future__ import annotations

from sim.constraints.base import constraint
from sim.constraints.tetrahedron import (
    DEVIATORIC,
    POISSON,
    REST,
    YOUNG,
    deformation,
    gradients,
    green_strain,
    lame,
    shape_change,
)
from sim.core.lang.types import vec3


@constraint(points=4, rows=6, units=REST, damped=(False, *DEVIATORIC))
def stvk(x, g1: vec3, g2: vec3, g3: vec3):
    """St. Venant-Kirchhoff solid: the Green strain E = (F^T F - 1) / 2 in six rows: tr E / sqrt 3, and its deviator.

    The basis is orthonormal, so that compliances are diagonal: 1 / ((2 mu + 3 lambda) V) for the first row,
    1 / (2 mu V) for the others.  Every row sees its own stiffness, shear too, so that the projection can be implicit
    in all of them.  It resists compression less and less: not for solids crushed to less than 60 % of their length.
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return green_strain(f0, f1, f2)


stvk.rest(gradients)


@stvk.material(YOUNG, POISSON)
def stvk_material(young: float, poisson: float, volume: float):
    """alpha of the rows."""
    mu, la = lame(young, poisson)
    shear = 1.0 / (2.0 * mu * volume)
    return 1.0 / ((2.0 * mu + 3.0 * la) * volume), shear, shear, shear, shear, shear


@constraint(points=4, rows=5, units=REST)
def deviatoric(x, g1: vec3, g2: vec3, g3: vec3):
    """Change of shape of a tetrahedron: the deviator of its Green strain in five rows;
    together with `cell_volume` a solid.

    Small strains see mu alone: alpha = 1 / (2 mu V).
    """
    f0, f1, f2 = deformation(x, g1, g2, g3)
    return shape_change(f0, f1, f2)


deviatoric.rest(gradients)


@deviatoric.material(YOUNG, POISSON)
def deviatoric_material(young: float, poisson: float, volume: float):
    """alpha of the rows."""
    mu, _ = lame(young, poisson)
    shape = 1.0 / (2.0 * mu * volume)
    return shape, shape, shape, shape, shape
